"""Pipelines as a whole: reports, undone failures, no needless copy, and what a user does with them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from commandline import fill, write
from snapshots import snapshot
from stepping import CHANGE, Function, X, run
from torch import Tensor, nn
from torch.export import ExportedProgram, export
from torch.fx import GraphModule, symbolic_trace

import fxrules
from fxrules.engine import copying, firing, rewriting, strategies
from fxrules.engine.tools.commands import main

REGULARISE = """
rule regularise(x: float[...]) {
  match    relu(x) as y
  keep     y
  rewrite  dropout(y, p=0.5)
  numerics differs "adds regularisation"
}
"""


def test_the_report_tells_each_step() -> None:
    text = (
        CHANGE
        + """rule query(x: float[...]) { match exp(x) }
ruleset s = tanh_sin, query
pipeline p { fixpoint s limit 5  once sin_cos  sweep sin_cos  once cos_exp when device == "cuda" }"""
    )
    report = run(text, lambda x: torch.tanh(torch.tanh(x))).report
    shown = str(report)
    assert shown.partition("pipeline ")[2].splitlines() == [
        "text.p:",
        "  1. fixpoint s limit 5: text.tanh_sin 2",
        "  2. once sin_cos: text.sin_cos 2",
        "  3. sweep sin_cos: nothing fired",
        '  4. once cos_exp when device == "cuda": skipped, `device == "cuda"` is false: device is cpu',
    ]
    assert "4 rewrites by 2 of 3 rules" in shown and "refused" not in shown
    data = json.loads(json.dumps(report.to_dict()))
    assert data["pipeline"] == "text.p" and data["rounds"] == report.rounds == 4
    assert data["steps"][0] == {
        "step": "fixpoint s limit 5", "fired": {"text.tanh_sin": 2}, "rounds": 2, "skipped": None,
    }  # fmt: skip
    assert data["steps"][3]["skipped"] == '`device == "cuda"` is false: device is cpu'
    assert [(rule["name"], rule["fired"]) for rule in data["rules"]] == [
        ("text.tanh_sin", 2), ("text.sin_cos", 2), ("text.cos_exp", 0),
    ]  # fmt: skip


def test_the_policy_holds_in_steps() -> None:
    report = run(CHANGE + "pipeline p { once tanh_sin }", torch.tanh, numerics="rounding").report
    assert report.fired == {} and report["tanh_sin"].refused[0].kind == "policy"


FAILS = """
rule lies(x: float[...]) { match cos(x) rewrite exp(x) numerics differs "test" shrinks count(neg) }
pipeline p { fixpoint tanh_sin once sin_cos sweep lies }
"""


@pytest.mark.parametrize("kind", ["in place", "copy", "program"])
def test_a_failure_in_the_third_step_undoes_the_first(kind: str) -> None:
    traced = symbolic_trace(Function(lambda x: torch.tanh(torch.tanh(x))))
    model = export(traced, X) if kind == "program" else traced
    module = model.graph_module if isinstance(model, ExportedProgram) else model
    before = snapshot(module.graph, module)
    with pytest.raises(
        fxrules.FxrulesError, match=r"^<text>:6:\d+: step 3 of pipeline `text.p`: `text.lies`"
    ) as caught:
        fxrules.rewrite(
            model, fxrules.load(text=CHANGE + FAILS), None if kind == "program" else X,
            numerics="differs", pipeline="p", inplace=kind == "in place",
        )  # fmt: skip
    assert caught.value.problems[0].code == "shrinks"
    assert snapshot(module.graph, module) == before


@pytest.mark.parametrize("turn", [1, 2, 3, 4, 5])
def test_an_interrupt_in_any_step_undoes_all(turn: int, monkeypatch: pytest.MonkeyPatch) -> None:
    traced = symbolic_trace(Function(lambda x: torch.tanh(torch.tanh(x))))
    before, calls_made = snapshot(traced.graph, traced), []

    def interrupted(*args: Any) -> bool:
        calls_made.append(args)
        if len(calls_made) == turn:
            raise KeyboardInterrupt
        return firing.fire(*args)

    monkeypatch.setattr(strategies, "fire", interrupted)
    text = CHANGE + "pipeline p { sweep tanh_sin once sin_cos sweep cos_exp }"
    with pytest.raises(KeyboardInterrupt):
        run(text, traced, inplace=True)
    assert snapshot(traced.graph, traced) == before


def test_a_copy_is_made_only_once_something_is_known_to_fire(monkeypatch: pytest.MonkeyPatch) -> None:
    copies: list[object] = []
    real = copying.copy_module

    def counted(module: GraphModule) -> GraphModule:
        copies.append(module)
        return real(module)

    monkeypatch.setattr(rewriting, "copy_module", counted)
    program = export(Function(torch.tanh), X)
    rules = fxrules.load(
        text=CHANGE
        + """
pipeline others { fixpoint cos_exp sweep sin_cos }
pipeline skipped { once tanh_sin when device == "cuda" }
pipeline later { once sin_cos once tanh_sin once sin_cos }
"""
    )
    for name in ("others", "skipped"):
        result = fxrules.rewrite(program, rules, pipeline=name, numerics="differs")
        assert result.model is program and copies == [] and result.report.nodes_after == result.report.nodes_before
    assert [step.rounds for step in result.report.steps] == [0]
    result = fxrules.rewrite(program, rules, pipeline="later", numerics="differs")
    assert len(copies) == 1 and [step.fired for step in result.report.steps] == [
        {}, {"text.tanh_sin": 1}, {"text.sin_cos": 1},
    ]  # fmt: skip


class Net(nn.Module):
    """A ReLU in each of its spellings; one value is read twice."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down, self.act = nn.Linear(4, 16), nn.Linear(16, 4), nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        h = self.act(self.up(x))
        h = F.relu(self.down(h) + x)
        return torch.relu(self.up(h)).sum() + h.relu()


def test_a_dropout_goes_behind_each_relu_once_and_follows_eval() -> None:
    model = Net().eval()
    traced = symbolic_trace(model)
    relus = [node.name for node in traced.graph.nodes if "relu" in node.name or node.name == "act"]
    text = REGULARISE + "pipeline p { once regularise }"
    result = fxrules.rewrite(traced, fxrules.load(text=text), X, numerics="differs", pipeline="p")
    assert dict(result.report.fired) == {"text.regularise": len(relus)} and len(relus) == 4

    graph, modules = result.model.graph, dict(result.model.named_modules())
    drops = [node for node in graph.nodes if isinstance(modules.get(str(node.target)), nn.Dropout)]
    assert [drop.args[0].name for drop in drops] == relus
    for drop in drops:
        assert list(drop.args[0].users) == [drop], "what read the ReLU reads the dropout"
    assert len({drop.target for drop in drops}) == 4

    assert not any(modules[drop.target].training for drop in drops), "the model was in eval mode"
    assert torch.equal(result.model(*X), model(*X))
    result.model.train()
    outputs = [result.model(*X) for _ in range(8)]
    assert any(not torch.equal(outputs[0], one) for one in outputs[1:])
    result.model.eval()
    assert torch.equal(result.model(*X), model(*X))
    assert all(a is b for a, b in zip(result.model.parameters(), model.parameters(), strict=True))


def test_regularise_without_once_says_what_to_do() -> None:
    with pytest.raises(fxrules.FxrulesError, match=r"(?s)to an end: 101 firings.*`text.regularise`.*a `once` step"):
        run(REGULARISE, torch.relu, pipeline=None)


def test_run_takes_the_name_of_a_pipeline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(fill(tmp_path))
    monkeypatch.syspath_prepend(str(tmp_path))
    text = (
        tmp_path / "gelu.rules"
    ).read_text() + '\npipeline default { once gelu }\npipeline none { once gelu when device == "cuda" }\n'
    write(tmp_path / "steps.rules", text)
    arguments = ["run", "models_here:make_net", "--rules", "steps.rules", "--pipeline"]
    assert main([*arguments, "default"]) == 0
    out = capsys.readouterr().out
    assert "pipeline steps.default:\n  1. once gelu: steps.gelu 1\n" in out and "outputs: agree" in out
    assert main([*arguments, "none", "--json"]) == 0
    (step,) = json.loads(capsys.readouterr().out)["report"]["steps"]
    assert step["skipped"] == '`device == "cuda"` is false: device is cpu'
    assert main([*arguments, "defualt"]) == 2
    assert "`defualt`: no such pipeline" in (error := capsys.readouterr().err) and "did you mean `default`?" in error
