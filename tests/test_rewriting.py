"""The door: what `rewrite` and `find` take, give back and leave alone."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.export import ExportedProgram
from torch.fx import GraphModule, symbolic_trace

import fxrules

SWAP = 'rule swap(x: float[...]) { match relu(x) rewrite leaky_relu(x) numerics differs "another activation" }'
X = (torch.randn(2, 4),)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.unused = nn.Linear(3, 3)
        self.act = nn.ReLU()

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        return {"out": self.act(self.linear(x)) + x.relu()}


def test_an_exported_program_comes_back_as_one() -> None:
    program = torch.export.export(Net(), X)
    code = program.graph_module.code
    result = fxrules.rewrite(program, fxrules.load(text=SWAP), numerics="differs")
    assert isinstance(result.model, ExportedProgram) and dict(result.report.fired) == {"text.swap": 2}
    assert program.graph_module.code == code
    linear = nn.functional.linear(X[0], program.state_dict["linear.weight"], program.state_dict["linear.bias"])
    wanted = nn.functional.leaky_relu(linear) + nn.functional.leaky_relu(X[0])
    torch.testing.assert_close(result.model.module()(*X)["out"], wanted)
    assert result.model.state_dict.keys() == program.state_dict.keys()


def test_a_module_is_exported_or_traced() -> None:
    model = Net()
    exported = fxrules.rewrite(model, fxrules.load(text=SWAP), X, numerics="differs").model
    traced = fxrules.rewrite(model, fxrules.load(text=SWAP), X, numerics="differs", capture="trace").model
    wanted = nn.functional.leaky_relu(model.linear(X[0])) + nn.functional.leaky_relu(X[0])
    for module in (exported, traced):
        assert isinstance(module, GraphModule)
        torch.testing.assert_close(module(*X)["out"], wanted, rtol=0, atol=0)
    assert traced.linear is model.linear


def test_a_traced_graph_needs_no_inputs_unless_a_rule_asks_for_facts() -> None:
    traced = symbolic_trace(Net())
    rules = fxrules.load(text=SWAP.replace("x: float[...]", "x"))
    assert dict(fxrules.rewrite(traced, rules, numerics="differs").report.fired) == {"text.swap": 2}
    report = fxrules.rewrite(traced, fxrules.load(text=SWAP), numerics="differs").report
    assert report.fired == {} and report["swap"].refused[0].kind == "missing fact"
    assert "example_inputs" in report["swap"].refused[0].reason


def test_find_reports_places_and_changes_nothing() -> None:
    traced = symbolic_trace(Net())
    code = traced.code
    rules = fxrules.load(text=SWAP + "\nrule sums(a: float[...], b: float[...]) { match relu(a) + b }")
    found = fxrules.find(traced, rules, X)
    assert [(one.rule.name, one.root.name) for one in found] == [
        ("text.sums", "add"), ("text.swap", "relu"), ("text.swap", "act"),
    ]  # fmt: skip
    (sums,) = (one for one in found if one.rule.name == "text.sums")
    assert sums.bindings["a"] is next(node for node in traced.graph.nodes if node.name == "linear")
    assert [node.name for node in sums.nodes] == ["add", "act"]
    assert traced.code == code and all("val" not in node.meta for node in traced.graph.nodes)


def test_queries_are_found_and_never_rewrite() -> None:
    rules = fxrules.load(text="rule relus(x: float[...]) { match relu(x) }")
    assert len(fxrules.find(Net(), rules, X)) == 2
    result = fxrules.rewrite(Net(), rules, X)
    assert result.report.fired == {} and result.report.rules == ()


def test_wrong_options_are_named() -> None:
    rules = fxrules.load(text=SWAP)
    with pytest.raises(fxrules.FxrulesError, match=r"`default`: no such pipeline .*\n.*no rule file .* has one"):
        fxrules.rewrite(Net(), rules, X, pipeline="default")
    with pytest.raises(fxrules.FxrulesError, match="only a GraphModule can"):
        fxrules.rewrite(Net(), rules, X, inplace=True)
    with pytest.raises(fxrules.FxrulesError, match="needs-example-inputs"):
        fxrules.rewrite(Net(), rules)


def test_hooks_flags_and_unused_modules_survive() -> None:
    traced = symbolic_trace(Net())
    calls: list[int] = []
    traced.register_forward_hook(lambda *_: calls.append(1))
    traced.unused = nn.Linear(3, 3)
    vars(traced)["tag"] = "mine"
    result = fxrules.rewrite(traced, fxrules.load(text=SWAP), X, numerics="differs")
    assert result.model is not traced and result.model.unused is traced.unused
    result.model(*X)
    assert calls == [1] and vars(result.model)["tag"] == "mine"


def test_a_changed_dtype_is_compared_as_declared() -> None:
    text = "rule half(x: f32[...]) { match tanh(x) rewrite to(tanh(x), f64) changes dtype numerics rounding }"

    class Tanh(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.tanh(x)

    with pytest.raises(fxrules.FxrulesError, match="do not come to an end"):
        fxrules.rewrite(Tanh(), fxrules.load(text=text), X)
    result = fxrules.rewrite(Tanh(), fxrules.load(text=text), X, stop_after=1)
    assert result.model(*X).dtype == torch.float64 and bool(result.compare(X))


def test_importing_fxrules_loads_no_torch() -> None:
    import subprocess
    import sys
    from pathlib import Path

    code = """
import sys, fxrules
assert not {'torch', 'lark', 'attrs'} & sys.modules.keys()
import fxrules.dsl.checker, fxrules.engine.optable
fxrules.engine.optable.op_table()
assert 'torch' not in sys.modules
"""
    source = Path(__file__).parent.parent / "src"
    done = subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": str(source)}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_rules_that_are_none_are_named() -> None:
    module = symbolic_trace(lambda x: x + 1)
    with pytest.raises(fxrules.FxrulesError, match=r"(?s)not str.*fxrules\.load\('std'\)"):
        fxrules.rewrite(module, "std")  # type: ignore[arg-type]
    with pytest.raises(fxrules.FxrulesError, match="not NoneType"):
        fxrules.find(module, None)  # type: ignore[arg-type]


def test_a_negative_number_of_firings_is_named() -> None:
    with pytest.raises(fxrules.FxrulesError, match="stop_after=-1"):
        fxrules.rewrite(symbolic_trace(lambda x: x + 1), fxrules.RuleSet(), stop_after=-1)


def test_a_graph_that_is_no_valid_program_names_the_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch._export.verifier import SpecViolationError

    from fxrules.engine import rewriting

    def refuse(*_: object) -> None:
        raise SpecViolationError("operator is not allowed")

    monkeypatch.setattr(rewriting, "updated_program", refuse)
    program = torch.export.export(Net(), X)
    code = program.graph_module.code
    with pytest.raises(fxrules.FxrulesError, match=r"no valid program: operator is not allowed; .*`text.swap`"):
        fxrules.rewrite(program, fxrules.load(text=SWAP), numerics="differs")
    assert program.graph_module.code == code


def test_an_interrupt_while_code_is_generated_leaves_the_callers_module(monkeypatch: pytest.MonkeyPatch) -> None:
    traced = symbolic_trace(Net())
    code, names = traced.code, [node.name for node in traced.graph.nodes]
    real, calls = GraphModule.recompile, []

    def interrupted(module: GraphModule) -> object:
        calls.append(module)
        done = real(module)
        if len(calls) == 1:
            raise KeyboardInterrupt
        return done

    monkeypatch.setattr(GraphModule, "recompile", interrupted)
    with pytest.raises(KeyboardInterrupt):
        fxrules.rewrite(traced, fxrules.load(text=SWAP), X, numerics="differs", inplace=True)
    assert traced.code == code and [node.name for node in traced.graph.nodes] == names
    assert all("val" not in node.meta for node in traced.graph.nodes)
    torch.testing.assert_close(traced(*X)["out"], torch.relu(traced.get_submodule("linear")(*X)) + X[0].relu())
