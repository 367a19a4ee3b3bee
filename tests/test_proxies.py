"""What proxies do not allow: helpers that a site refuses, that decline, that fail."""

from __future__ import annotations

import pytest
import torch
from snapshots import snapshot
from torch.export import Dim, export
from torch.fx import symbolic_trace
from via_rules import ROTARY, ROTARY_INPUTS, Relu, Rotary, X, helped, refusal, rewritten

import fxrules
from fxrules import FxrulesError

BOTH = pytest.mark.parametrize("capture", ["export", "trace"])


UNKNOWN = "they are not known at rewrite time"
REFUSED = {
    "decides": "form: `decides` needs the elements of `gt` for a decision (`if`, `and`, `while`): " + UNKNOWN,
    "swallows": "form: `swallows` needs the elements of `gt` for a decision (`if`, `and`, `while`): " + UNKNOWN,
    "reads": "form: `reads` needs the elements of `sum_1` for `Tensor.item`: " + UNKNOWN,
    "counts": "form: `counts` needs the elements of `sum_1` for an index or a range: " + UNKNOWN,
    "writes": "effect: `writes` writes to a part of `x`: a replacement may not",
    "reads_a_global": "form: `reads_a_global` reads a tensor of its own: pass it to the helper (a `let`, a captured "
    "value), or make it with torch.full or torch.arange",
    "returns_nothing": "structure: `returns_nothing` returned None: expected values of the graph",
    "returns_two": "interface: `returns_two` returned 2 values, the rule replaces one value",
    "returns_a_number": "interface: a value of the graph would become the float 1.0",
    "calls_a_module": "form: `calls_a_module` reads a tensor of its own: pass it to the helper (a `let`, a captured "
    "value), or make it with torch.full or torch.arange",
    "passes_an_object": "form: `passes_an_object` passes an object to an op: it cannot be part of a graph",
}


@BOTH
@pytest.mark.parametrize("helper", REFUSED)
def test_what_a_helper_may_not_do(helper: str, capture: str) -> None:
    assert refusal(rewritten(Relu(), helped(f"{helper}(x)"), X, capture=capture)) == REFUSED[helper]


REFUSED_BY_LEVEL = {
    ("adds_in_place", "export"): "effect: `add_` writes to its input: a replacement may not",
    ("adds_in_place", "trace"): "effect: `add_` writes to its input: a replacement may not",
    ("wrong_shape", "export"): "interface: ",
    ("does_not_fit", "trace"): "interface: the replacement does not fit: `matmul` does not run on its inputs",
    (
        "calls_what_no_family_has",
        "export",
    ): "form: `calls_what_no_family_has` calls `via_helpers.unknown`, which has no form",
    ("calls_what_no_family_has", "trace"): "effect: the replacement may not have effects",
}


@pytest.mark.parametrize(("helper", "capture"), REFUSED_BY_LEVEL)
def test_what_the_engine_refuses_in_any_replacement(helper: str, capture: str) -> None:
    reason = refusal(rewritten(Relu(), helped(f"{helper}(x)"), X, capture=capture))
    assert reason.startswith(REFUSED_BY_LEVEL[helper, capture])


def test_a_helper_declines_with_a_reason() -> None:
    rules = fxrules.load(text="from via_helpers import rotary\n" + ROTARY, trust=["via_helpers"])
    inputs = tuple(one.half() for one in ROTARY_INPUTS)
    result = fxrules.rewrite(Rotary(), rules, inputs)
    assert refusal(result) == "where: `rotary(q, cos, sin)`: half precision is not wanted"


def test_a_question_about_a_symbolic_size_fixes_nothing() -> None:
    program = export(Relu(), (X,), dynamic_shapes=({0: Dim("b")},))
    result = fxrules.rewrite(program, helped("asks_the_batch(x)"), numerics="differs")
    assert refusal(result).startswith("missing fact: what the helper `asks_the_batch` asks depends on a symbolic size")
    assert torch.equal(program.module()(torch.ones(7, 4)), torch.tanh(torch.ones(7, 4)))


def test_facts_that_the_graph_does_not_have() -> None:
    graph = symbolic_trace(Relu())
    result = fxrules.rewrite(graph, helped("with_positions(x)", header="x"), numerics="differs")
    assert refusal(result) == "missing fact: shape of `x` is unknown; pass example_inputs="
    result = fxrules.rewrite(graph, helped("plus(x, [1])", header="x"), numerics="differs")
    assert result.report.fired


@pytest.mark.parametrize("inplace", [False, True])
def test_a_helper_that_fails_leaves_the_model_as_it_was(inplace: bool) -> None:
    graph = symbolic_trace(Relu())
    before = snapshot(graph.graph, graph)
    with pytest.raises(FxrulesError) as caught:
        fxrules.rewrite(graph, helped("raises(x)"), (X,), numerics="differs", inplace=inplace)
    (problem,) = caught.value.problems
    assert problem.code == "helper-failed"
    assert problem.message == "the helper `raises` raised ValueError: no such table"
    assert problem.hint.startswith("called by rule `text.r` at node `relu`; raised at ")
    assert "via_helpers.py:" in problem.hint and str(problem.span).startswith("<text>:2:")
    assert snapshot(graph.graph, graph) == before


def test_an_inner_value_that_is_not_kept_cannot_be_passed() -> None:
    with pytest.raises(FxrulesError, match="`y` is part of the match and is erased with it"):
        helped("given_back(y)", match="relu(neg(x) as y)")
    helped("given_back(y)", match="relu(neg(x) as y)", clauses="keep y")


def test_only_what_is_imported_from_a_trusted_module_is_called() -> None:
    with pytest.raises(FxrulesError, match="`via_helpers`, which is not trusted"):
        fxrules.load(text="from via_helpers import rotary\n" + ROTARY)


@BOTH
def test_data_is_a_value_that_no_gradient_goes_through(capture: str) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
    reason = refusal(rewritten(model, helped("takes_data(x)"), X, capture=capture))
    assert reason.startswith("interface: ") and "would get no gradient through the new value" in reason


def test_a_value_kept_from_an_earlier_call_is_refused() -> None:
    result = rewritten(Relu(), helped("keeps_a_value(x)"), X, capture="trace")
    assert sum(result.report.fired.values()) == 1
    reason = refusal(rewritten(Relu(), helped("keeps_a_value(x)"), X, capture="trace"))
    assert reason == "structure: `keeps_a_value` returned `clamp` of an earlier call: it kept a value of the graph"
