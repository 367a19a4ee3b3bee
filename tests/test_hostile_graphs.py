"""Graphs made to break a rewrite: something in between writes, draws or switches, and the numbers must stay."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.fx import Graph, GraphModule, Node

import fxrules

aten = torch.ops.aten

# Small integers: both sides of every rule here give the same bits, whatever is computed first.
DISTRIBUTE = fxrules.load(text="rule r(x: float[...]) { match (x + 1) * 2 rewrite x * 2 + 2 numerics bitwise }")
ADD_ZERO = fxrules.load(
    text="rule r(x: float[...]) { match x + 0 rewrite x changes aliasing, strides numerics bitwise except signed_zero }"
)


def integers() -> tuple[Tensor, Tensor]:
    return torch.arange(6.0).view(2, 3), torch.arange(6.0, 12.0).view(2, 3)


def outcome(module: nn.Module, inputs: tuple[Tensor, ...], state: dict[str, Tensor]) -> list[Any]:
    """All that a call does: outputs, inputs and state after it, the random state, the global switches."""
    module.load_state_dict(state, strict=False)
    inputs = tuple(one.clone() for one in inputs)
    torch.manual_seed(0)
    try:
        found = module(*inputs)
        switches = [torch.is_grad_enabled(), torch.get_default_dtype(), torch.is_autocast_enabled("cpu")]
    finally:
        torch.set_grad_enabled(True)
        torch.set_default_dtype(torch.float32)
        torch.set_autocast_enabled("cpu", False)
    outputs = list(found) if isinstance(found, tuple) else [found]
    kept = [value.clone() for name, value in module.state_dict().items() if name in state]
    traits = [(one.dtype, one.requires_grad) for one in outputs]
    return [*[one.detach() for one in outputs], *inputs, *kept, torch.get_rng_state(), traits, switches]


def same(first: list[Any], second: list[Any]) -> bool:
    pairs = zip(first, second, strict=True)
    return all(torch.equal(a, b) if isinstance(a, Tensor) else a == b for a, b in pairs)


def held(module: GraphModule, rules: Any, inputs: tuple[Tensor, ...] | None = None, **options: Any) -> Any:
    """The report of a rewrite that changed nothing that can be noticed."""
    given = integers() if inputs is None else inputs
    state = {name: value.clone() for name, value in module.state_dict().items()}
    wanted = outcome(module, given, state)
    module.load_state_dict(state)
    result = fxrules.rewrite(module, rules, tuple(one.clone() for one in given), **options)
    assert same(outcome(result.model, given, state), wanted)
    return result.report


def spoiled(graph: Graph, root: nn.Module | None = None) -> GraphModule:
    return GraphModule(root or nn.Module(), graph)


def _double(x: Tensor, y: Tensor) -> Tensor:
    return x.mul_(2)


def _hidden_(x: Tensor, y: Tensor) -> Tensor:
    return y.mul_(2)


Write = Callable[[Graph, Node, Node], object]
WRITES: dict[str, Write] = {
    "method": lambda g, x, y: g.call_method("add_", (x, 1)),
    "method with a keyword": lambda g, x, y: g.call_method("mul_", (x,), {"other": 3}),
    "view": lambda g, x, y: g.call_method("zero_", (g.call_method("view", (x, -1)),)),
    "view of a view": lambda g, x, y: g.call_method(
        "fill_", (g.call_method("t", (g.call_method("view", (x, 3, 2)),)), 7)
    ),
    "data": lambda g, x, y: g.call_method("add_", (g.call_function(getattr, (x, "data")), 1)),
    "detach": lambda g, x, y: g.call_method("add_", (g.call_method("detach", (x,)), 1)),
    "item of chunks": lambda g, x, y: g.call_method(
        "add_", (g.call_function(operator.getitem, (g.call_function(torch.chunk, (x, 2)), 1)), 1)
    ),
    "operator.iadd": lambda g, x, y: g.call_function(operator.iadd, (x, 1)),
    "operator.imul": lambda g, x, y: g.call_function(operator.imul, (x, y)),
    "setitem": lambda g, x, y: g.call_function(operator.setitem, (x, 0, 5.0)),
    "setitem of a view": lambda g, x, y: g.call_function(
        operator.setitem, (g.call_function(operator.getitem, (x, 0)), slice(None), 5.0)
    ),
    "out=": lambda g, x, y: g.call_function(torch.add, (y, y), {"out": x}),
    "aten out": lambda g, x, y: g.call_function(aten.mul.out, (y, y), {"out": x}),
    "aten in place": lambda g, x, y: g.call_function(aten.relu_.default, (g.call_function(aten.sub_.Tensor, (x, y)),)),
    "copy_": lambda g, x, y: g.call_function(aten.copy_.default, (x, y)),
    "function in place": lambda g, x, y: g.call_function(torch.nn.init.constant_, (x, 3.0)),
    "inplace=True": lambda g, x, y: g.call_function(F.threshold, (x, 3.0, -1.0), {"inplace": True}),
    "inplace by place": lambda g, x, y: g.call_function(F.threshold, (x, 3.0, -1.0, True)),
    "foreach": lambda g, x, y: g.call_function(torch._foreach_add_, ([y, x], 1)),
    "unknown function": lambda g, x, y: g.call_function(_double, (x, y)),
    "name of another argument": lambda g, x, y: g.call_function(_hidden_, (y, x)),
    "training batch norm of x": lambda g, x, y: g.call_function(
        F.batch_norm, (y, g.call_function(operator.getitem, (x, 0)), g.call_function(operator.getitem, (x, 1))),
        {"training": True},
    ),
    "embedding that renormalises x": lambda g, x, y: g.call_function(
        F.embedding, (g.call_method("long", (g.call_function(torch.zeros_like, (y,)),)), x), {"max_norm": 1.0}
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRITES)
def test_a_write_to_what_a_match_reads_stops_it(name: str) -> None:
    def build(writes: bool) -> GraphModule:
        graph = Graph()
        x, y = graph.placeholder("x"), graph.placeholder("y")
        read = graph.call_function(torch.add, (x, 1))
        if writes:
            WRITES[name](graph, x, y)
        graph.output(graph.call_function(torch.mul, (read, 2)))
        return spoiled(graph)

    assert dict(held(build(False), DISTRIBUTE).fired) == {"text.r": 1}
    report = held(build(True), DISTRIBUTE)
    assert dict(report.fired) == {} and report["r"].refused[0].kind == "effect"


@pytest.mark.parametrize("name", WRITES)
def test_a_copy_stays_a_copy_if_its_source_is_written_to_later(name: str) -> None:
    graph = Graph()
    x, y = graph.placeholder("x"), graph.placeholder("y")
    copy = graph.call_function(torch.add, (x, 0))
    WRITES[name](graph, x, y)
    graph.output(graph.call_function(torch.sub, (copy, x)))
    report = held(spoiled(graph), ADD_ZERO)
    assert dict(report.fired) == {} and report["r"].refused[0].kind == "effect"


def test_a_copy_stays_a_copy_if_it_is_written_to_itself() -> None:
    graph = Graph()
    x, y = graph.placeholder("x"), graph.placeholder("y")
    copy = graph.call_function(torch.add, (x, 0))
    graph.call_method("add_", (copy, y))
    graph.output(graph.call_function(torch.sub, (copy, x)))
    assert dict(held(spoiled(graph), ADD_ZERO).fired) == {}


SWITCHES: dict[str, Callable[[Graph], object]] = {
    "set_grad_enabled": lambda g: g.call_function(torch.set_grad_enabled, (False,)),
    "_set_grad_enabled": lambda g: g.call_function(torch._C._set_grad_enabled, (False,)),
    "autocast": lambda g: g.call_function(torch.amp.autocast_mode._enter_autocast, ("cpu", torch.bfloat16, True, None)),
    "set_autocast_enabled": lambda g: g.call_function(torch.set_autocast_enabled, ("cpu", True)),
    "set_default_dtype": lambda g: g.call_function(torch.set_default_dtype, (torch.float64,)),
}


class Weighted(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.arange(9.0).view(3, 3))


@pytest.mark.parametrize("name", SWITCHES)
def test_a_switch_of_torch_in_the_midst_of_a_match_stops_it(name: str) -> None:
    rules = fxrules.load(
        text="rule r(x: float[...], w: float[...]) { match -(x @ w) rewrite (-x) @ w numerics bitwise }"
    )

    def build(switch: bool) -> GraphModule:
        graph = Graph()
        x, _ = graph.placeholder("x"), graph.placeholder("y")
        product = graph.call_function(torch.matmul, (x, graph.get_attr("weight")))
        if switch:
            SWITCHES[name](graph)
        graph.output(graph.call_function(torch.neg, (product,)))
        return spoiled(graph, Weighted())

    assert dict(held(build(False), rules).fired) == {"text.r": 1}
    report = held(build(True), rules)
    assert dict(report.fired) == {} and "changes the state of torch" in report["r"].refused[0].reason


# -------------------------------------------------------- one memory, two names
def _shared() -> nn.Module:
    root = nn.Module()
    root.first, root.second = nn.Module(), nn.Module()
    values = torch.arange(3.0)
    root.first.register_buffer("values", values)
    root.second.register_buffer("values", values[:])  # a view: another tensor, the same memory
    return root


@pytest.mark.parametrize("rules", [DISTRIBUTE, ADD_ZERO], ids=["read before", "copy"])
def test_a_buffer_is_written_to_by_its_other_name(rules: Any) -> None:
    graph = Graph()
    x, _ = graph.placeholder("x"), graph.placeholder("y")
    first = graph.get_attr("first.values")
    read = graph.call_function(torch.add, (first, 1 if rules is DISTRIBUTE else 0))
    graph.call_method("add_", (graph.get_attr("second.values"), 5.0))
    graph.output(graph.call_function(torch.add, (x, graph.call_function(torch.mul, (read, 2)))))
    report = held(spoiled(graph, _shared()), rules)
    assert dict(report.fired) == {} and report["r"].refused[0].kind == "effect"


def test_one_batch_norm_under_two_names() -> None:
    root = nn.Module()
    root.first = root.second = nn.BatchNorm1d(3)
    graph = Graph()
    x, _ = graph.placeholder("x"), graph.placeholder("y")
    copy = graph.call_function(torch.add, (graph.get_attr("first.running_mean"), 0))
    graph.output(graph.call_function(torch.add, (graph.call_module("second", (x,)), copy)))
    report = held(spoiled(graph, root), ADD_ZERO)
    assert dict(report.fired) == {} and "updates the state of module `second`" in report["r"].refused[0].reason


class Counting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(3))

    def forward(self, x: Tensor) -> Tensor:
        self.get_buffer("calls").add_(1)
        return x * 2


def test_a_module_of_unknown_class_writes_to_its_own_buffers() -> None:
    root = nn.Module()
    root.counting = Counting()
    graph = Graph()
    x, _ = graph.placeholder("x"), graph.placeholder("y")
    copy = graph.call_function(torch.add, (graph.get_attr("counting.calls"), 0))
    graph.output(graph.call_function(torch.add, (graph.call_module("counting", (x,)), copy)))
    assert dict(held(spoiled(graph, root), ADD_ZERO).fired) == {}


def test_a_buffer_that_is_written_to_by_its_other_name_is_no_constant() -> None:
    rules = fxrules.load(
        text="rule r(x: float[...], w: const float[...]) { match x * w freeze w let h = w * 2 rewrite (x * h) * 0.5 }"
    )
    for write in (False, True):
        graph = Graph()
        x, _ = graph.placeholder("x"), graph.placeholder("y")
        if write:
            graph.call_method("add_", (graph.get_attr("second.values"), 5.0))
        graph.output(graph.call_function(torch.mul, (x, graph.get_attr("first.values"))))
        module = spoiled(graph, _shared()).eval()
        report = held(module, rules, freeze=True, stop_after=1)
        assert dict(report.fired) == ({} if write else {"text.r": 1})


# ------------------------------------------------------------- unknown and known
def acme_double(x: Tensor) -> Tensor:
    """A team's own function: it writes nothing, but nobody says so."""
    return x * 2


def test_an_unknown_call_is_a_barrier_unless_a_family_declares_it_pure() -> None:
    graph = Graph()
    x, _ = graph.placeholder("x"), graph.placeholder("y")
    read = graph.call_function(torch.add, (x, 1))
    other = graph.call_function(acme_double, (x,))
    graph.output(graph.call_function(torch.add, (graph.call_function(torch.mul, (read, 2)), other)))
    module = spoiled(graph)
    report = held(module, DISTRIBUTE)
    assert dict(report.fired) == {} and "which is not known to be pure" in report["r"].refused[0].reason
    declared = f"family double(x) pure = {__name__}.acme_double(x)\n"
    text = declared + "rule r(x: float[...]) { match (x + 1) * 2 rewrite x * 2 + 2 numerics bitwise }"
    assert dict(held(module, fxrules.load(text=text)).fired) == {"text.r": 1}


def test_a_declaration_does_not_outweigh_a_schema_that_writes() -> None:
    with torch.library._scoped_library("fxr_hostile", "DEF") as library:
        library.define("bump(Tensor(a!) x) -> Tensor(a!)")
        library.impl("bump", lambda x: x.add_(1), "CompositeExplicitAutograd")
        for target in (torch.ops.fxr_hostile.bump, torch.ops.fxr_hostile.bump.default):
            graph = Graph()
            x, _ = graph.placeholder("x"), graph.placeholder("y")
            read = graph.call_function(torch.add, (x, 1))
            graph.call_function(target, (x,))
            graph.output(graph.call_function(torch.mul, (read, 2)))
            text = "family bump(x) pure = fxr_hostile.bump(x)\n"
            text += "rule r(x: float[...]) { match (x + 1) * 2 rewrite x * 2 + 2 numerics bitwise }"
            assert dict(held(spoiled(graph), fxrules.load(text=text)).fired) == {}
