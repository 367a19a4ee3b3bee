"""Rule sets and the names of pipelines: what is selected, from where, in which order."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from commandline import write
from stepping import CHANGE, Function, X, calls, run
from torch.fx import symbolic_trace

import fxrules

LIB = """
opset two = relu, tanh
rule one(x: float[...]) { match neg(neg(x)) rewrite x changes aliasing, strides }
rule old(x: float[...]) { match abs(abs(x)) rewrite abs(x) }
rule each[f in two](x: float[...]) { match f(f(x)) rewrite f(x) numerics differs "test" }
ruleset tidy = one, each
pipeline tidied { fixpoint tidy }
"""
MAIN = """
import "lib/lib.rules" as other
rule mine(x: float[...]) { match x * 1 rewrite x changes aliasing, strides }
rule late(x: float[...]) { match x - 0 rewrite x changes aliasing, strides }
"""
SELECTED = {
    "mine": ["mine"],
    "late, mine": ["late", "mine"],
    "other.each, mine": ["each[relu]", "each[tanh]", "mine"],
    "other.tidy": ["one", "each[relu]", "each[tanh]"],
    "other.*, - other.old": ["one", "each[relu]", "each[tanh]"],
    "- other.tidy, other.*, mine, - mine": ["old"],
    "both, - late": ["mine"],
    "inner, late": ["mine", "late"],
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path / "lib" / "lib.rules", LIB)
    return tmp_path


@pytest.mark.parametrize("selectors", SELECTED)
def test_a_rule_set_selects(selectors: str, folder: Path) -> None:
    text = f"{MAIN}ruleset chosen = {selectors}\nruleset both = inner, late\nruleset inner = mine\n"
    rules = fxrules.load(write(folder / "main.rules", text))
    names = [rule.name.rpartition(".")[2] for rule in rules["chosen"]]
    assert names == SELECTED[selectors]
    assert isinstance(rules["main.chosen"], fxrules.RuleSet)
    assert [rule.name for rule in rules] == ["main.mine", "main.late"], "imported rules run only where selected"


def test_imported_sets_and_pipelines_have_qualified_names(folder: Path) -> None:
    text = f"{MAIN}ruleset tidy = mine\npipeline p {{ once mine }}\n"
    rules = fxrules.load(write(folder / "main.rules", text))
    assert [rule.name for rule in rules["tidy"]] == ["main.mine"], "a name of the file itself goes first"
    assert [rule.name for rule in rules["lib.tidy"]] == ["lib.one", "lib.each[relu]", "lib.each[tanh]"]
    assert [one.name for one in rules.pipelines] == ["main.p", "lib.tidied"]
    traced = symbolic_trace(Function(lambda x: torch.relu(torch.relu(torch.neg(torch.neg(x * 1))))))
    for name in ("tidied", "lib.tidied"):
        result = fxrules.rewrite(traced, rules, X, pipeline=name, numerics="differs")
        assert result.report.fired == {"lib.one": 1, "lib.each[relu]": 1} and result.report.pipeline == "lib.tidied"
        assert calls(result.model) == ["mul", "relu"] and bool(result.compare(X))


def test_a_file_that_is_loaded_and_imported_is_one(folder: Path) -> None:
    text = "import std.shape as shape\nimport std.identity as identity\nruleset all = shape.*, identity.*\n"
    rules = fxrules.load("std", write(folder / "main.rules", text), "std.shape")
    assert len(rules) == len(fxrules.load("std"))
    assert set(rules["all"]) <= set(rules) and rules["std.shape.noop_permute"] in rules["main.all"]


def test_what_is_taken_away_leaves_the_steps_too() -> None:
    rules = fxrules.load(text=CHANGE + "ruleset s = tanh_sin, sin_cos\npipeline p { fixpoint s }")
    less = rules - rules["sin_cos"]
    assert [rule.name for rule in less["s"]] == ["text.tanh_sin"]
    traced = symbolic_trace(Function(torch.tanh))
    assert calls(fxrules.rewrite(traced, less, X, pipeline="p", numerics="differs").model) == ["sin"]
    again = less + rules
    assert calls(fxrules.rewrite(traced, again, X, pipeline="p", numerics="differs").model) == ["cos"]
    assert (rules + rules).pipelines == rules.pipelines
    assert repr(rules.pipelines[0]) == "<pipeline text.p: fixpoint s>"


def test_a_pipeline_that_does_not_exist_is_named_with_the_nearest() -> None:
    rules = fxrules.load(text=CHANGE + "pipeline tidy_up { once sin_cos }")
    for given, hint in {"tidyup": "did you mean `text.tidy_up`", "zzz": "there are `text.tidy_up`"}.items():
        with pytest.raises(fxrules.FxrulesError, match=rf"(?s)`{given}`: no such pipeline.*{hint}"):
            fxrules.rewrite(Function(torch.tanh), rules, X, pipeline=given)
    with pytest.raises(fxrules.FxrulesError, match=r"(?s)`p`: no such pipeline.*sets selected from others"):
        fxrules.rewrite(Function(torch.tanh), rules["sin_*"], X, pipeline="p")


def test_without_a_pipeline_all_rules_run_to_a_fixpoint() -> None:
    result = run(CHANGE + "pipeline p { once tanh_sin }", torch.tanh, pipeline=None)
    assert calls(result.model) == ["exp"] and result.report.steps == () and result.report.pipeline == ""
    assert "pipeline" not in str(result.report) and result.report.to_dict()["pipeline"] is None
