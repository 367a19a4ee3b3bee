"""``uses``: modules and parameters that are used twice; folding keeps the numbers of the other uses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from leaf_nets import Gate, Leaves, Net, X, graph_of, shown
from torch import Tensor, nn
from torch.fx import Graph, GraphModule, symbolic_trace

import fxrules


# ------------------------------------------------------------------------------ uses
def tied(s: Any, x: Tensor, y: Tensor) -> Any:
    return s.gate(x) + s.twin(y) + s.alone(x) + s.head(x) + s.out(y) + y @ s.out.weight + s.frame(x)


def uses_net() -> GraphModule:
    gate, head, out = Gate(), nn.Linear(6, 6), nn.Linear(6, 6)
    out.weight = head.weight
    frame = nn.Sequential(nn.Linear(6, 6), nn.ReLU())
    net = Net(tied, gate=gate, twin=Gate(), alone=Gate(), head=head, out=out, frame=symbolic_trace(frame))

    class Frames(Leaves):
        def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
            return module_qualified_name == "frame" or super().is_leaf_module(m, module_qualified_name)

    module = GraphModule(net.eval(), Frames().trace(net))
    module.add_module("twin", gate)
    return module


USES = [
    ("leaf_nets.Gate", "uses(m)", {"gate": 2, "twin": 2, "alone": 1}),
    ("leaf_nets.Gate", "uses(m.proj)", {"gate": 2, "twin": 2, "alone": 1}),
    ("leaf_nets.Gate", "uses(m.shift)", {"gate": 2, "twin": 2, "alone": 1}),
    ("leaf_nets.Gate", "uses(m.bias)", {"gate": 0, "twin": 0, "alone": 0}),
    ("nn.Linear", "uses(m.weight)", {"head": 3, "out": 3}),
    ("nn.Linear", "uses(m)", {"head": 3, "out": 3}),
    ("nn.Linear", "uses(m.bias)", {"head": 1, "out": 1}),
]


@pytest.mark.parametrize(("kind", "expr", "expected"), USES, ids=[f"{kind} {expr}" for kind, expr, _ in USES])
def test_uses_are_counted_by_identity_over_the_whole_graph(kind: str, expr: str, expected: dict[str, int]) -> None:
    rules = fxrules.load(text=f"rule r(m: module {kind}, x: Tensor) {{ match m(x) let n = {expr} where n >= 0 }}")
    found = fxrules.find(uses_net(), rules, (torch.randn(6, 6), torch.randn(6, 6)))
    assert {one.root.target: one.bindings["n"] for one in found} == expected


def test_uses_of_leaves_at_every_level() -> None:
    """A weight that is tied, and one that is not: as modules, as attributes and as inputs of a program."""
    embed, head, other = nn.Linear(6, 6, bias=False), nn.Linear(6, 6, bias=False), nn.Linear(6, 6, bias=False)
    head.weight = embed.weight
    net = nn.Sequential(embed, nn.ReLU(), head, other).eval()
    rules = fxrules.load(
        text="rule r(x: Tensor, w: const float[...]) { match linear(x, w) let n = uses(w) where n > 0 }"
    )
    program = torch.export.export(net, (X,))
    for model in (symbolic_trace(net), program, program.module()):
        assert [one.bindings["n"] for one in fxrules.find(model, rules, (X,))] == [1, 2, 2]


def test_uses_inside_a_subgraph_count_for_each_of_its_calls() -> None:
    net = uses_net()
    (frame,) = (node for node in net.graph.nodes if node.target == "frame")
    net.add_module("late", net.get_submodule("frame.0"))
    with net.graph.inserting_after(frame):
        net.graph.call_module("late", (net.graph.call_module("frame", (frame,)),))
    rules = fxrules.load(text="rule r(m: module nn.Linear, x) { match m(x) let n = uses(m) where n >= 0 }")
    assert {one.root.target: one.bindings["n"] for one in fxrules.find(net, rules)}["late"] == 3


def test_uses_by_an_op_of_higher_order() -> None:
    class Branches(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lin = nn.Linear(6, 6)

        def forward(self, x: Tensor) -> Any:
            return torch.cond(x.sum() > 0, self.lin, torch.relu, (x,)) + self.lin(x)

    module = torch.export.export(Branches(), (X,)).module()
    assert isinstance(module, GraphModule)
    rules = fxrules.load(text="rule r(x: Tensor, w: Tensor) { match linear(x, w, _) let n = uses(w) where n > 0 }")
    assert [one.bindings["n"] for one in fxrules.find(module, rules)] == [2]


def test_uses_are_asked_again_when_another_call_is_gone() -> None:
    module = graph_of(lambda s, x, y: s.lin(y) - torch.neg(torch.neg(s.lin(x))) * 0, lin=nn.Linear(6, 6))
    text = """
    rule alone(m: module nn.Linear, x: Tensor) { match m(x) where uses(m) == 1 rewrite linear(x, m.weight, m.bias) }
    rule zero(m: module nn.Linear, x: Tensor) { match -(-m(x)) * 0 rewrite x * 0 numerics differs "shorter" }
    """
    result = fxrules.rewrite(module, fxrules.load(text=text), (X, X), numerics="differs")
    assert shown(result) == ["linear", "mul", "sub"]


# -------------------------------------------------------- folding what is used twice
def _statistics(net: nn.Module) -> nn.Module:
    torch.manual_seed(0)
    for part in net.modules():
        if isinstance(part, nn.BatchNorm2d):
            for value in (part.running_mean, part.running_var, part.weight, part.bias):
                assert value is not None
                nn.init.uniform_(value, 0.5, 1.5)
    return net.eval()


def conv(inputs: int = 4) -> nn.Conv2d:
    return nn.Conv2d(inputs, 4, 3, padding=1)


def _tied_convs() -> dict[str, nn.Module]:
    first, second = conv(), conv()
    second.weight = first.weight
    return {"conv": first, "conv2": second, "bn": nn.BatchNorm2d(4), "bn2": nn.BatchNorm2d(4)}


def folding(name: str) -> tuple[GraphModule, int]:
    """The net of this name, and how many convolutions of it can be folded."""
    modules, run, count = REUSED[name]
    module = symbolic_trace(_statistics(Net(run, **modules())))
    if "two names" in name:
        module.add_module("conv2", module.get_submodule("conv"))
    return module, count


def _apart() -> dict[str, nn.Module]:
    return {"conv": conv(), "conv2": conv(), "bn": nn.BatchNorm2d(4), "bn2": nn.BatchNorm2d(4)}


REUSED: dict[str, tuple[Callable[[], dict[str, nn.Module]], Callable[..., Any], int]] = {
    "a convolution called twice, once normalised": (_apart, lambda s, x, y: s.bn(s.conv(x)) + s.conv(y), 1),
    "a convolution with two norms": (_apart, lambda s, x, y: s.bn(s.conv(x)) + s.bn2(s.conv(y)), 2),
    "both called twice": (_apart, lambda s, x, y: s.bn(s.conv(x)) + s.bn(s.conv(y)), 2),
    "a norm after two convolutions": (_apart, lambda s, x, y: s.bn(s.conv(x)) + s.bn(s.conv2(y)), 2),
    "a norm that is also called alone": (_apart, lambda s, x, y: s.bn(s.conv(x)) + s.bn(x), 1),
    "a value that is read twice": (_apart, lambda s, x, y: (lambda z: s.bn(z) + z)(s.conv(x)), 0),
    "two names of a convolution": (_apart, lambda s, x, y: s.bn(s.conv(x)) + s.conv2(y), 1),
    "two names and two norms": (_apart, lambda s, x, y: s.bn(s.conv(x)) + s.bn2(s.conv2(y)), 2),
    "a tied weight": (_tied_convs, lambda s, x, y: s.bn(s.conv(x)) + s.conv2(y), 1),
    "a tied weight, two norms": (_tied_convs, lambda s, x, y: s.bn(s.conv(x)) + s.bn2(s.conv2(y)), 2),
    "a weight that is read": (_apart, lambda s, x, y: s.bn(s.conv(x)) + s.conv.weight.sum(), 1),
    "the same twice in a row": (_apart, lambda s, x, y: s.bn(s.conv(s.bn(s.conv(x)))), 2),
}


@pytest.mark.parametrize("name", REUSED)
def test_folding_keeps_the_numbers_of_what_is_used_elsewhere(name: str) -> None:
    module, count = folding(name)
    expected, state = module(X, X + 1), {key: value.clone() for key, value in module.state_dict().items()}
    result = fxrules.rewrite(module, fxrules.load("std.convolution"), (X, X), freeze=True)
    assert sum(result.report.fired.values()) == count
    torch.testing.assert_close(result.model(X, X + 1), expected, rtol=1e-4, atol=1e-4)
    assert torch.equal(module(X, X + 1), expected), "the caller's model computes what it did"
    kept = result.model.state_dict()
    assert all(torch.equal(kept[key], value) for key, value in state.items())


ALONE = """
rule fold(c: module nn.Conv2d, n: module nn.BatchNorm2d, x: float[...]) {
  match    n(c(x))
  where    uses(c) == 1, "the convolution is used elsewhere"
  freeze   c, n
  let      s = n.weight * rsqrt(n.running_var + n.eps)
  let      w = c.weight * reshape(s, [-1, 1, 1, 1])
  let      b = ((c.bias ?? 0) - n.running_mean) * s + n.bias
  rewrite  conv2d(x, w, b, c.stride, c.padding, c.dilation, c.groups)
  numerics rounding rtol=1e-4
}
"""


@pytest.mark.parametrize("name", REUSED)
def test_a_rule_that_asks_for_uses_folds_only_what_is_used_once(name: str) -> None:
    module, count = folding(name)
    result = fxrules.rewrite(module, fxrules.load(text=ALONE), (X, X), freeze=True)
    alone = {"a norm after two convolutions": 2, "a norm that is also called alone": 1}
    assert sum(result.report.fired.values()) == alone.get(name, 0)
    assert count == 0 or name in alone or "the convolution is used elsewhere" in str(result.report)
    torch.testing.assert_close(result.model(X, X + 1), module(X, X + 1), rtol=1e-4, atol=1e-4)


# --------------------------------------------------------- attributes as one value
def shared_attributes() -> GraphModule:
    owner, graph = nn.Module(), Graph()
    weight = nn.Parameter(torch.randn(6))
    owner.register_parameter("a", weight)
    owner.register_parameter("b", weight)
    owner.register_buffer("equal", weight.detach().clone())
    reads = [graph.get_attr(name) for name in ("a", "a", "b", "equal")]
    x = graph.placeholder("x")
    first = [graph.call_function(torch.mul, (reads[0], one)) for one in reads]
    graph.output((x, *first))
    return GraphModule(owner, graph)


def test_reads_are_one_value_by_target_and_never_by_content_or_name() -> None:
    """As "Binding" says: another read of the same target. Two names of one tensor may part later, so they are two."""
    module = shared_attributes()
    same = fxrules.load(text="rule r(w: Tensor) { match w * w }")
    one_each = fxrules.load(text="rule r(w: const float[D], v: const float[D]) { match w * v where D == 6 }")
    assert [one.root.name for one in fxrules.find(module, same)] == ["mul_1", "mul"]
    assert [one.root.name for one in fxrules.find(module, one_each)] == ["mul_3", "mul_2", "mul_1", "mul"]


def test_a_buffer_that_is_written_under_another_name_is_no_constant() -> None:
    owner, graph = nn.Module(), Graph()
    counter = torch.ones(6)
    owner.register_buffer("a", counter)
    owner.register_buffer("b", counter)
    x, a, b = graph.placeholder("x"), graph.get_attr("a"), graph.get_attr("b")
    graph.call_method("add_", (b, 1))
    graph.output(graph.call_function(torch.mul, (x, a)))
    rules = fxrules.load(text="rule r(x: Tensor, w: const float[...]) { match x * w }")
    assert fxrules.find(GraphModule(owner, graph), rules) == ()
