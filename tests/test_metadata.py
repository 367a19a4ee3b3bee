"""Metadata of new nodes: computed by the graph's own fake tensors, once per distinct op and inputs."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from attrs import define
from sites import Function, node_of
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor
from torch.export import Dim, export
from torch.fx import Graph, GraphModule, symbolic_trace

from fxrules.dsl.source import FxrulesError
from fxrules.engine.agreement import disagreement, is_dense, same_sizes
from fxrules.engine.journal import Journal
from fxrules.engine.metadata import Impossible, Propagation, annotate

X = torch.randn(3, 4)


def _exported(function: Any, *inputs: Tensor, dynamic: Any = None) -> GraphModule:
    module: GraphModule = export(Function(function), inputs, dynamic_shapes=dynamic).module()
    return module


def _append(graph: Graph, target: Any, *args: Any, **kwargs: Any) -> Any:
    with graph.inserting_before(graph.output_node()):
        return graph.call_function(target, args, kwargs)


def test_the_mode_and_the_entries_are_those_of_the_graph() -> None:
    graph = _exported(lambda x: torch.relu(x), X).graph
    propagation = Propagation.of(graph)
    relu = node_of(graph, "relu")
    assert propagation.mode is relu.meta["val"].fake_mode
    entries = propagation.entries(_append(graph, torch.ops.aten.mm.default, relu, _append(graph, torch.t, relu)))
    assert entries == {}
    new = _append(graph, torch.ops.aten.sum.dim_IntList, relu, [1])
    entries = propagation.entries(new)
    assert sorted(entries) == ["tensor_meta", "val"]
    assert entries["val"].shape == (3,) and entries["tensor_meta"].shape == (3,)
    for node in graph.nodes:
        if "val" in node.meta:
            node.meta["example_value"] = node.meta.pop("val")
        node.meta.pop("tensor_meta", None)
    assert list(Propagation.of(graph).entries(new)) == ["example_value"]


def test_a_graph_without_metadata_gets_none() -> None:
    graph = symbolic_trace(lambda x: torch.relu(x)).graph
    assert Propagation.of(graph).entries(node_of(graph, "relu")) == {}


@define
class Counting:
    """Counts how often an op is really run."""

    runs: int = 0

    def __call__(self, x: Tensor, number: float, bias: Tensor | None = None) -> Tensor:
        self.runs += 1
        return x * number


def test_an_op_is_run_once_for_equal_inputs() -> None:
    graph = _exported(lambda x: torch.relu(x), X).graph
    propagation, relu, op = Propagation.of(graph), node_of(graph, "relu"), Counting()
    op_of = op.__call__
    nodes = [_append(graph, op_of, relu, 2.0) for _ in range(3)]
    values = [propagation.entries(node)["val"] for node in nodes]
    assert op.runs == 1
    assert [(value.shape, value.dtype, value.stride()) for value in values] == [((3, 4), torch.float32, (4, 1))] * 3
    storages = {value.untyped_storage()._cdata for value in values}
    assert len(storages) == 3 and all(isinstance(value, FakeTensor) for value in values)
    propagation.entries(_append(graph, op_of, relu, 3.0))
    propagation.entries(_append(graph, op_of, relu, 2))
    propagation.entries(_append(graph, op_of, relu, 2.0, bias=relu))
    propagation.entries(_append(graph, op_of, node_of(graph, "args_0"), 2.0))
    assert op.runs == 4


def test_a_view_made_again_shares_the_memory_of_its_own_argument() -> None:
    graph = _exported(lambda x: torch.relu(x), X).graph
    propagation = Propagation.of(graph)
    for source in (node_of(graph, "relu"), node_of(graph, "args_0")):
        value = propagation.entries(_append(graph, torch.ops.aten.slice.Tensor, source, 1, 1, 3))["val"]
        assert value.untyped_storage()._cdata == source.meta["val"].untyped_storage()._cdata
        assert (value.shape, value.stride(), value.storage_offset()) == ((3, 2), (4, 1), 1)


def test_results_that_are_lists_are_made_again_too() -> None:
    graph = _exported(lambda x: torch.relu(x), X).graph
    propagation, relu = Propagation.of(graph), node_of(graph, "relu")
    first, second = (propagation.entries(_append(graph, torch.ops.aten.split.Tensor, relu, 2))["val"] for _ in "ab")
    assert [piece.shape for piece in second] == [piece.shape for piece in first] == [(2, 4), (1, 4)]
    assert [piece.storage_offset() for piece in second] == [0, 8]


def test_symbolic_sizes_stay_symbolic_and_gain_no_guards() -> None:
    graph = _exported(
        lambda x, y: torch.relu(x).sum() + y.sum(), X, torch.randn(5, 4), dynamic=(({0: Dim("n")}, {0: Dim("m")}),)
    ).graph
    propagation, relu = Propagation.of(graph), node_of(graph, "relu")
    assert propagation.mode is not None and propagation.mode.shape_env is not None
    guards = len(propagation.mode.shape_env.guards)
    cat = torch.ops.aten.cat.default
    values = [propagation.entries(_append(graph, cat, [relu, relu]))["val"] for _ in range(2)]
    size = relu.meta["val"].shape[0]
    assert all(same_sizes(value.shape, (2 * size, 4)) for value in values)
    with pytest.raises(Impossible, match="size of tensor"):
        propagation.entries(_append(graph, torch.ops.aten.add.Tensor, relu, node_of(graph, "args_1")))
    assert len(propagation.mode.shape_env.guards) == guards


def test_an_op_that_fails_says_why() -> None:
    graph = _exported(lambda x: torch.relu(x), X).graph
    propagation, relu = Propagation.of(graph), node_of(graph, "relu")
    with pytest.raises(
        Impossible, match="`mm_default` does not run on its inputs: a and b must have same reduction dim"
    ):
        propagation.entries(_append(graph, torch.ops.aten.mm.default, relu, relu))


# ---------------------------------------------------------------------- annotate
class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)
        self.scale = nn.Parameter(torch.ones(4, 1, 1))

    def forward(self, x: Tensor, shift: float = 1.0) -> Tensor:
        y = self.norm(self.conv(x)) * self.scale + shift
        first, _ = y.chunk(2, dim=1)
        result: Tensor = first.flatten(1)
        return result


def test_annotate_knows_every_node_and_touches_no_number() -> None:
    net = Net().train()
    module = symbolic_trace(net)
    state = {name: value.clone() for name, value in module.state_dict().items()}
    annotate(module, (torch.randn(2, 3, 6, 6),))
    shapes = {node.name: getattr(node.meta.get("val"), "shape", None) for node in module.graph.nodes}
    assert shapes["conv"] == shapes["norm"] == shapes["add"] == (2, 4, 4, 4)
    assert shapes["scale"] == (4, 1, 1) and shapes["flatten"] == (2, 32)
    assert node_of(module.graph, "chunk").meta["val"][1].shape == (2, 2, 4, 4)
    assert all(torch.equal(value, state[name]) for name, value in module.state_dict().items())
    assert not any(isinstance(value, FakeTensor) for value in module.state_dict().values())
    assert Propagation.of(module.graph).mode is node_of(module.graph, "conv").meta["val"].fake_mode


def test_annotate_takes_keywords_and_leaves_out_what_it_cannot_know() -> None:
    def function(x: Tensor, y: Tensor) -> Tensor:
        return torch.relu(x) + (x @ y)

    module = symbolic_trace(function)
    annotate(module, {"y": X, "x": X})
    known = [node.name for node in module.graph.nodes if "val" in node.meta]
    assert known == ["x", "y", "relu"]


def test_annotate_under_a_journal_can_be_undone() -> None:
    module = symbolic_trace(lambda x: torch.relu(x))
    journal = Journal(module.graph)
    annotate(module, (X,), journal)
    assert "val" in node_of(module.graph, "relu").meta
    journal.undo()
    assert all(not node.meta for node in module.graph.nodes)


def test_a_module_that_assigns_attributes_is_left_as_it_was() -> None:
    class Remembers(nn.Module):
        last: Tensor | None = None

        def forward(self, x: Tensor) -> Tensor:
            self.last = x
            return x + 1

    graph = Graph()
    out = graph.call_module("part", (graph.placeholder("x"),))
    graph.output(out)
    module = GraphModule(nn.ModuleDict({"part": Remembers()}), graph)
    annotate(module, (X,))
    assert out.meta["val"].shape == (3, 4)
    assert module.get_submodule("part").last is None


# --------------------------------------------------------------------- agreement
def test_agreement_of_numbers_lists_and_symbolic_sizes() -> None:
    graph = _exported(
        lambda x, y: x.sum() + y.sum(), X, torch.randn(5, 4), dynamic=(({0: Dim("n")}, {0: Dim("m")}),)
    ).graph
    first, second = (node_of(graph, name).meta["val"] for name in ("args_0", "args_1"))
    assert disagreement(first, first) is None
    assert disagreement(first, second) is not None
    assert disagreement((first, 2), (first, 2)) is None
    assert disagreement((first, 2), (first, 3)) == "2 would become 3"
    assert disagreement((first,), (first, first)) == "the number of results would change"
    assert disagreement(first, 1) == "a tensor would become none"
    assert disagreement(torch.ones(2, dtype=torch.int64), torch.ones(2), ("dtype",)) is None
    assert disagreement(torch.ones(2), torch.ones(3), ("shape",)) is None


@pytest.mark.parametrize(
    ("value", "dense"),
    [
        (torch.ones(2, 3), True),
        (torch.ones(3, 2).T, False),
        (torch.ones(1, 3).T, True),
        (torch.ones(0, 3), True),
        (torch.ones(4)[::2], False),
        (None, False),
    ],
)
def test_density(value: Any, dense: bool) -> None:
    assert is_dense(value) is dense


@pytest.mark.parametrize(
    ("inputs", "told"),
    [
        ((X, X), "2 positional example inputs are given, the graph takes 1"),
        ({"z": X}, "the graph has no input `z`"),
        ((), "the example inputs have nothing for `x`"),
    ],
)
def test_example_inputs_that_no_placeholder_takes_are_an_error(inputs: Any, told: str) -> None:
    with pytest.raises(FxrulesError, match=told):
        annotate(symbolic_trace(lambda x: x + 1), inputs)


def test_annotate_follows_the_switches_of_a_graph_and_puts_them_back() -> None:
    graph = Graph()
    x = graph.placeholder("x")
    before = graph.call_function(torch.matmul, (x, x))
    entered = graph.call_function(torch.amp.autocast_mode._enter_autocast, ("cpu", torch.bfloat16, True, None))
    inside = graph.call_function(torch.matmul, (x, x))
    graph.call_function(torch.amp.autocast_mode._exit_autocast, (entered,))
    after = graph.call_function(torch.matmul, (x, x))
    graph.call_function(torch.set_default_dtype, (torch.float64,))
    graph.call_function(torch.manual_seed, (3,))
    graph.call_function(torch.set_autocast_enabled, ("cpu", True))
    graph.output((before, inside, after))
    state = torch.get_rng_state()
    annotate(GraphModule(nn.Module(), graph), (torch.ones(2, 2),))
    assert [node.meta["val"].dtype for node in (before, inside, after)] == [
        torch.float32,
        torch.bfloat16,
        torch.float32,
    ]
    assert torch.get_default_dtype() == torch.float32 and not torch.is_autocast_enabled("cpu")
    assert torch.equal(torch.get_rng_state(), state)
