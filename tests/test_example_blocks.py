"""The runner of ``example`` blocks: it must see each way in which an example can be wrong."""

from __future__ import annotations

import pytest
import torch

import fxrules
from fxrules.engine.examples import Outcome, build_graph, cases_of, examples_of, run_example, run_examples
from fxrules.engine.samples import draw_inputs

SWAP = "rule swap(x: float[...], y: float[...]) {{ match x - y rewrite neg(y - x) {clauses} }}"
DOUBLE = "rule double(x: float[...]) {{ match neg(neg(x)) rewrite x changes aliasing, strides {clauses} }}"


def outcomes(rule: str, *examples: str) -> tuple[Outcome, ...]:
    rules = fxrules.load(text=rule.format(clauses=" ".join(examples)))
    return run_examples(rules, levels=("aten",))


def problem(rule: str, example: str) -> str:
    (outcome,) = outcomes(rule, example)
    return outcome.problem


def test_a_right_example_has_no_problem_at_any_level() -> None:
    rules = fxrules.load(text=DOUBLE.format(clauses="example (x: f32[2]) relu(-(-x)) => relu(x)"))
    found = run_examples(rules)
    assert [(outcome.level, outcome.problem) for outcome in found] == [("torch", ""), ("aten", "")]
    torch_level, aten_level = (outcome.after.graph for outcome in found)
    assert torch_level.find_nodes(op="call_function", target=torch.nn.functional.relu)
    assert aten_level.find_nodes(op="call_function", target=torch.ops.aten.relu.default)


@pytest.mark.parametrize(
    ("example", "said"),
    [
        ("example (x: f32[2]) relu(-x) => relu(x)", "nothing fired"),
        ("example (x: f32[2]) relu(-(-x)) => unchanged", "it is not unchanged: it became"),
        ("example (x: f32[2]) relu(-(-x)) => abs(x)", "it is not as expected"),
        ("example (x: f32[2]) relu(-(-x)) => x", "the result is not `x`"),
        ("example (x: f32[2]) relu(-(-x)) => relu(neg(x))", "it is not as expected"),
        ("example (x: f32[2], y: f32[2]) relu(-(-x)) * y => relu(y) * x", "it is not as expected"),
        ("example (x: f32[2]) relu(-(-x)) * 0.5 => relu(x) * 0.25", "it is not as expected"),
        ("example (x: f32[2]) { return exp(-(-x)), abs(x) } => { return exp(x), exp(x) }", "it is not as expected"),
    ],
)  # fmt: skip
def test_a_wrong_example_is_told(example: str, said: str) -> None:
    assert problem(DOUBLE, example).startswith(said)


def test_a_refusal_is_part_of_what_is_said() -> None:
    guarded = "rule r(x: float[...]) {{ match neg(neg(x)) where x.dtype == f64, 'only f64' rewrite x {clauses} }}"
    said = problem(guarded, "example (x: f32[2]) relu(-(-x)) => relu(x)")
    assert "only f64" in said


def test_any_stands_for_anything() -> None:
    assert problem(DOUBLE, "example (x: f32[2]) relu(-(-x)) + exp(x) => relu(x) + $any") == ""
    assert problem(DOUBLE, "example (x: f32[2]) relu(-(-x)) + exp(x) => relu($any)") != ""
    assert problem(DOUBLE, "example (x: f32[2]) { y = -(-x) return relu(y), exp(y) } => { return relu(x), $any }") == ""


def test_several_results_are_compared_one_by_one() -> None:
    assert (
        problem(DOUBLE, "example (x: f32[2]) { y = -(-x) return relu(y), abs(x) } => { return relu(x), abs(x) }") == ""
    )


def test_a_rule_that_does_not_come_to_rest_is_told() -> None:
    with pytest.raises(fxrules.FxrulesError, match="swap"):
        outcomes(SWAP, "example (x: f32[2], y: f32[2]) relu(x - y) => relu(neg(y - x))")


def test_named_sizes_are_symbols() -> None:
    rules = fxrules.load(text=DOUBLE.format(clauses="example (x: f32[M, 8], y: f32[8, M]) -(-x) @ y => x @ y"))
    (rule,) = rules
    (example,) = examples_of(rule)
    graph = build_graph(rule, example, "aten")
    x, y = (node.meta["val"] for node in graph.graph.find_nodes(op="placeholder"))
    assert isinstance(x.shape[0], torch.SymInt) and x.shape[0] is not x.shape[1]
    assert x.shape[0].node.expr == y.shape[1].node.expr
    assert run_example(rule, example, "aten").problem == ""
    assert [tuple(value.shape) for value in draw_inputs(example, 0)] == [(5, 8), (8, 5)]


@pytest.mark.parametrize("header", ["x: f32[*B, 2]", "x: float[...]", "x: dtype"])
def test_what_has_no_value_is_told_with_its_place(header: str) -> None:
    with pytest.raises(fxrules.FxrulesError, match=r"<text>:\d+:\d+: .*`x`"):
        outcomes(DOUBLE, f"example ({header}) relu(-(-x)) => relu(x)")


def test_a_body_that_cannot_be_built_is_told_with_its_place() -> None:
    with pytest.raises(fxrules.FxrulesError, match=r"<text>:\d+:\d+: the example cannot be built at level aten"):
        outcomes(DOUBLE, "example (x: f32[2, 3], y: f32[2, 3]) x @ y => unchanged")


def test_an_example_of_a_template_runs_for_each_member_that_it_names() -> None:
    text = """
    opset ups = relu, exp
    rule twice[f in ups](x: float[...]) {
      match f(neg(neg(x))) rewrite f(x)
      example "each" (x: f32[2]) f(-(-x)) => f(x)
      example "one" (x: f32[2]) exp(-(-x)) => exp(x)
    }
    """
    rules = fxrules.load(text=text)
    found = [(rule.name, example.label, len(siblings)) for rule, example, siblings in cases_of(rules)]
    assert found == [("text.twice[relu]", "each", 2), ("text.twice[relu]", "one", 2), ("text.twice[exp]", "each", 2)]
    assert [outcome.problem for outcome in run_examples(rules)] == [""] * 6
