"""Which rewrites the writes and the shared memory of a graph forbid."""

from __future__ import annotations

import operator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from sites import Function, Site, node_of, rule_of, site_of
from torch import Tensor, nn
from torch.export import export
from torch.fx import Graph, GraphModule, symbolic_trace

from fxrules.engine.candidates import Match, Mismatch
from fxrules.engine.effects import legal
from fxrules.engine.surgery import Applied

aten = torch.ops.aten


RELU_NEG = rule_of('rule r(x: Tensor) { match neg(relu(x)) rewrite tanh(x) numerics differs "test" }')
X = (torch.randn(2, 3),)


def _match(build: Any, rule: Any = RELU_NEG) -> Match | Mismatch | None:
    graph = Graph()
    graph.output(build(graph, graph.placeholder("x")))
    site = site_of(GraphModule(nn.Module(), graph), X)
    found = site.match(rule)
    return legal(found, site.effects) if isinstance(found, Match) else found


def _between(write: Any) -> Any:
    def build(graph: Graph, x: Any) -> Any:
        other = graph.call_function(torch.exp, (x,))
        relu = graph.call_function(torch.relu, (x,))
        write(graph, x, other)
        return graph.call_function(torch.neg, (relu,))

    return build


def test_a_match_may_not_straddle_a_write_to_what_it_reads() -> None:
    found = _match(_between(lambda graph, x, other: graph.create_node("call_method", "add_", (x, 1), name="write")))
    assert isinstance(found, Mismatch) and found.kind == "effect"
    assert found.reason == "`write` writes to `x`, which the match reads before"
    assert str(found.node) == "write"


def test_nor_a_write_through_a_view() -> None:
    def write(graph: Graph, x: Any, other: Any) -> None:
        view = graph.call_method("view", (x, -1))
        graph.call_function(operator.setitem, (view, 0, 1.0))

    found = _match(_between(write))
    assert isinstance(found, Mismatch) and "`setitem` writes to `view`" in found.reason


def test_a_write_elsewhere_is_no_barrier() -> None:
    assert _match(_between(lambda graph, x, other: graph.call_method("add_", (other, 1)))) is None


def test_an_unknown_call_in_the_midst_is_a_barrier() -> None:
    found = _match(_between(lambda graph, x, other: graph.call_function(rule_of, (other,))))
    assert isinstance(found, Mismatch) and "which is not known to be pure, in the midst of the match" in found.reason


def test_writes_before_and_after_the_match_do_not_matter() -> None:
    def build(graph: Graph, x: Any) -> Any:
        graph.call_method("add_", (x, 1))
        root = graph.call_function(torch.neg, (graph.call_function(torch.relu, (x,)),))
        graph.call_method("add_", (x, 1))
        return root

    assert _match(build) is None


def test_a_random_node_that_is_not_named_exactly_is_not_replaced() -> None:
    rule = rule_of('rule r(x: Tensor) { match bernoulli(x) rewrite relu(x) numerics differs "test" }')
    assert _match(lambda graph, x: graph.call_function(aten.bernoulli.default, (x,)), rule) is None  # no candidate
    inner = rule_of('rule r(x: Tensor) { match neg(dropout(x, p=_)) rewrite relu(x) numerics differs "test" }')
    assert _match(lambda graph, x: graph.call_method("neg", (graph.call_function(F.dropout, (x,)),)), inner) is None


ADD_ZERO = rule_of("rule add_zero(x: Tensor) { match x + 0 rewrite x changes aliasing, strides }")


def _add_zero(
    function: Any, rule: Any = ADD_ZERO, inputs: tuple[Tensor, ...] = X
) -> tuple[Applied | Mismatch | None, Site]:
    site = site_of(symbolic_trace(function), inputs)
    return site.rewrite(rule), site


def test_sharing_inside_the_graph_needs_changes_aliasing() -> None:
    silent = rule_of("rule add_zero(x: Tensor) { match x + 0 rewrite x changes strides }")
    found, _ = _add_zero(lambda x: torch.relu(x + 0), silent)
    assert isinstance(found, Mismatch)
    assert found.reason == "the new value may share memory with `x`; the rule does not say `changes aliasing`"
    found, site = _add_zero(lambda x: torch.relu(x + 0))
    assert isinstance(found, Applied)
    assert node_of(site.graph, "relu").args == (node_of(site.graph, "x"),)


@pytest.mark.parametrize(
    "function",
    [lambda x: x + 0, lambda x: (x + 0).view(-1), lambda x: (x + 0).view(-1)[2:], lambda x: (x + 0, torch.relu(x))],
    ids=["itself", "a view", "a view of a view", "among others"],
)
def test_an_output_may_not_share_memory_with_an_input(function: Any) -> None:
    found, _ = _add_zero(function)
    assert isinstance(found, Mismatch) and found.kind == "interface"
    assert found.reason.endswith("would share memory with input `x`")


def test_an_output_may_not_share_memory_with_another_output() -> None:
    def function(x: Tensor) -> tuple[Tensor, Tensor]:
        y = torch.relu(x)
        return y, y + 0

    found, _ = _add_zero(function)
    assert isinstance(found, Mismatch) and found.reason == "output `add` would share memory with output `relu`"


def test_an_output_may_be_the_inner_value_alone() -> None:
    found, site = _add_zero(lambda x: torch.relu(x) + 0)
    assert isinstance(found, Applied)
    assert site.graph.output_node().args == (node_of(site.graph, "relu"),)


def test_a_parameter_may_not_leave_by_an_output() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(3))

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            return x, self.weight + 0

    found = site_of(symbolic_trace(Model()), X).rewrite(ADD_ZERO)
    assert isinstance(found, Mismatch) and found.reason == "output `add` would share memory with input `weight`"


def test_a_copy_that_is_written_to_stays() -> None:
    def function(x: Tensor) -> Tensor:
        y = torch.relu(x)
        z = y + 0
        z.add_(1)
        return torch.neg(z) + y

    found, _ = _add_zero(function)
    assert isinstance(found, Mismatch) and found.kind == "effect" and "`add_` writes to `add`" in found.reason


def test_a_copy_whose_source_is_written_to_later_stays() -> None:
    def function(x: Tensor) -> Tensor:
        z = torch.exp(x + 0)
        y = x + 0
        x.mul_(2)
        return y * z

    found, _ = _add_zero(function)
    assert isinstance(found, Mismatch) and "`mul_` writes to `x`" in found.reason


def test_what_shared_memory_before_may_go_on_sharing_it() -> None:
    rule = rule_of("rule r(x: Tensor) { match view(view(x, _), [1, 3]) rewrite view(x, [1, 3]) }")
    eval_dropout = rule_of("rule r(x: Tensor) { match dropout(x, p=_, training=False) rewrite x }")
    found, _ = _add_zero(lambda x: x.view(3).view(1, 3), rule, (torch.randn(1, 3),))
    assert isinstance(found, Applied)
    found, _ = _add_zero(lambda x: F.dropout(x, 0.5, training=False), eval_dropout)
    assert isinstance(found, Applied)


def test_a_view_that_is_written_through_stays_a_view() -> None:
    rule = rule_of("rule r(x: Tensor) { match view(view(x, _), [1, 3]) rewrite clone(x) }")

    def function(x: Tensor) -> Tensor:
        y = torch.relu(x)
        y.view(3).view(1, 3).add_(1)
        return y

    found, _ = _add_zero(function, rule, (torch.randn(1, 3),))
    assert isinstance(found, Mismatch) and "would not share memory as the old one does" in found.reason


def test_a_dropout_of_an_exported_graph_gives_back_its_input_whatever_its_fake_tensor_says() -> None:
    double_neg = rule_of("rule r(x: Tensor) { match neg(neg(x)) rewrite x changes aliasing }")
    module = export(Function(lambda x: F.dropout(x.neg().neg(), 0.5, training=False)), X).module()
    assert isinstance(module, GraphModule)
    found = site_of(module).rewrite(double_neg)
    assert isinstance(found, Mismatch) and "would share memory with input" in found.reason


def test_what_a_module_writes_to_later_is_not_read_in_place_of_a_copy() -> None:
    graph = Graph()
    x, mean = graph.placeholder("x"), graph.get_attr("norm.running_mean")
    copy = graph.call_function(torch.add, (mean, 0))
    graph.output(graph.call_function(torch.sub, (graph.call_module("norm", (x,)), copy)))
    module = GraphModule(nn.ModuleDict({"norm": nn.BatchNorm1d(3)}), graph)
    found = site_of(module, X).rewrite(ADD_ZERO)
    assert isinstance(found, Mismatch) and "`norm` updates the state of module `norm`" in found.reason
