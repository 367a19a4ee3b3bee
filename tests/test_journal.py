"""The undo journal: whatever was done, undone or half done, the caller's graph comes back bit for bit."""

from __future__ import annotations

import operator
import sys

import pytest
import torch
from snapshots import interrupt_at, snapshot
from torch import Tensor, nn
from torch.fx import Graph, GraphModule, Node, symbolic_trace

from fxrules.engine.journal import Journal, ModuleOwner
from fxrules.engine.owners import add_constant, add_module, fresh_name, read_constant


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(3, 3)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        y = torch.relu(x)
        z = torch.cat([y, y[0:2], self.inner(y)])
        return z.sum(), y + z, y


def model() -> tuple[GraphModule, dict[str, Node]]:
    torch.manual_seed(0)
    traced = symbolic_trace(Model())
    for node in traced.graph.nodes:
        node.meta["mark"] = [node.name]
    traced.recompile()
    return traced, {node.name: node for node in traced.graph.nodes}


def busy(journal: Journal, nodes: dict[str, Node]) -> None:
    """Every kind of change, one after the other."""
    relu, add = nodes["relu"], nodes["add"]
    gelu = journal.create("call_function", torch.nn.functional.gelu, (nodes["x"],), before=relu)
    other = journal.create("call_function", torch.relu, (gelu,), {"out": None}, before=relu, name="sum")
    journal.set_meta(other, {"val": 1})
    journal.set_meta(add, {"mark": "changed", "more": 2})
    journal.replace_uses(relu, other, except_for=(nodes["add"],))
    journal.set_args(add, (other, [gelu, {"k": slice(None, other)}]))
    weight = add_constant(journal, torch.ones(3), "inner.weight", add)
    assert weight is not None
    journal.replace_uses(gelu, weight, only=(add,))
    add_constant(journal, torch.ones(3, dtype=torch.int64), "count", add)
    add_module(journal, nn.Dropout(), "dropout")
    journal.share("key", "inner_weight")
    journal.erase([relu])
    journal.take_name(other, relu)
    journal.take_name(gelu, nodes["cat"])


def test_undo_gives_back_graph_and_module() -> None:
    traced, nodes = model()
    before = snapshot(traced.graph, traced)
    journal = Journal(traced.graph, ModuleOwner(traced))
    busy(journal, nodes)
    assert [node.name for node in traced.graph.nodes][:3] == ["x", "cat", "relu"]
    assert "inner_weight" in traced._parameters and "count" in traced._buffers and "dropout" in traced._modules
    journal.undo()
    assert snapshot(traced.graph, traced) == before
    assert not journal.shared
    traced.graph.lint()


def test_names_after_an_undo_are_as_if_nothing_had_happened() -> None:
    traced, nodes = model()
    plain, other_nodes = model()
    journal = Journal(traced.graph, ModuleOwner(traced))
    busy(journal, nodes)
    journal.undo()
    for graph in (traced.graph, plain.graph):
        with graph.inserting_before(graph.output_node()):
            for _ in range(2):
                graph.call_function(torch.nn.functional.gelu, (next(iter(graph.nodes)),))
                graph.call_function(torch.relu, (next(iter(graph.nodes)),))
    assert [node.name for node in traced.graph.nodes] == [node.name for node in plain.graph.nodes]
    assert other_nodes["relu"].name == nodes["relu"].name == "relu"


def test_a_savepoint_takes_back_only_what_came_after_it() -> None:
    traced, nodes = model()
    journal = Journal(traced.graph, ModuleOwner(traced))
    first = journal.create("call_function", torch.tanh, (nodes["x"],), before=nodes["relu"])
    journal.replace_uses(nodes["x"], first, only=(nodes["relu"],))
    middle = snapshot(traced.graph, traced)
    mark = journal.mark()
    journal.create("call_function", torch.sin, (first,), before=nodes["cat"])
    journal.replace_uses(nodes["relu"], first)
    journal.set_meta(first, {"val": 3})
    journal.undo_to(mark)
    assert snapshot(traced.graph, traced) == middle


def test_commit_forgets_and_later_undo_does_nothing() -> None:
    traced, nodes = model()
    journal = Journal(traced.graph, ModuleOwner(traced))
    busy(journal, nodes)
    after = snapshot(traced.graph, traced)
    assert journal.changed
    journal.commit()
    assert not journal.changed
    journal.undo()
    assert snapshot(traced.graph, traced) == after


def test_replace_uses_finds_uses_in_lists_dicts_and_slices() -> None:
    graph = Graph()
    x, y = graph.placeholder("x"), graph.placeholder("y")
    inner = graph.call_function(torch.add, ([x, (x, {"k": x})], slice(x, None)), {"alpha": x})
    graph.output((inner, x))
    Journal(graph).replace_uses(x, y)
    assert inner.args == ([y, (y, {"k": y})], slice(y, None))
    assert inner.kwargs == {"alpha": y}
    assert not x.users


def test_a_node_may_read_what_it_replaces() -> None:
    graph = Graph()
    x = graph.placeholder("x")
    relu = graph.call_function(torch.relu, (x,))
    out = graph.output(relu)
    journal = Journal(graph)
    dropout = journal.create("call_function", torch.neg, (relu,), before=out)
    journal.replace_uses(relu, dropout, except_for=(dropout,))
    assert (dropout.args, out.args) == ((relu,), (dropout,))


def test_erased_names_are_taken_over_and_used_ones_are_exchanged() -> None:
    traced, nodes = model()
    journal = Journal(traced.graph)
    new = journal.create("call_function", torch.sub, (nodes["x"], 1), before=nodes["add"])
    journal.take_name(new, nodes["add"])
    assert (new.name, nodes["add"].name) == ("add", "add_1")
    traced.graph.lint()


@pytest.mark.parametrize("name", ["sum", "class", "relu", "relu_1", "a.b", "1x"])
def test_created_nodes_are_named_as_the_graph_would_name_them(name: str) -> None:
    traced, nodes = model()
    plain, others = model()
    made = [Journal(traced.graph).create("call_function", operator.neg, (), before=nodes["add"], name=name).name]
    with plain.graph.inserting_before(others["add"]):
        wanted = [plain.graph.create_node("call_function", operator.neg, (), name=name).name]
    assert made == wanted


def test_a_created_node_is_what_the_graph_would_create() -> None:
    ours, theirs = Graph(), Graph()
    for graph in (ours, theirs):
        graph.output(graph.call_function(torch.neg, (graph.placeholder("x"),)))
    neg, other = ours.output_node().prev, theirs.output_node().prev
    created = Journal(ours).create("call_function", torch.add, (neg, [1, 2]), {"out": None}, before=ours.output_node())
    with theirs.inserting_before(theirs.output_node()):
        expected = theirs.call_function(torch.add, (other, [1, 2]), {"out": None})
    assert [node.format_node() for node in ours.nodes] == [node.format_node() for node in theirs.nodes]
    assert [type(one) for one in (*created.args, created.kwargs)] == [
        type(one) for one in (*expected.args, expected.kwargs)
    ]
    assert created in ours.find_nodes(op="call_function", target=torch.add) and len(ours.nodes) == len(theirs.nodes)


def test_hooks_and_graphs_of_the_callers_own_see_every_node_that_is_created() -> None:
    class Counting(Graph):
        made = 0

        def create_node(self, *args: object, **kwargs: object) -> Node:
            Counting.made += 1
            return super().create_node(*args, **kwargs)  # type: ignore[arg-type]

    graph = Counting()
    x = graph.placeholder("x")
    out = graph.output(x)
    Journal(graph).create("call_function", abs, (x,), before=out)
    assert Counting.made == 3
    module = symbolic_trace(nn.ReLU())
    seen: list[Node] = []
    module._register_create_node_hook(seen.append)
    made = Journal(module.graph).create("call_function", abs, (), before=module.graph.output_node())
    assert seen == [made]


def test_constants_get_safe_names_and_do_not_learn() -> None:
    traced, nodes = model()
    journal = Journal(traced.graph, ModuleOwner(traced))
    source = torch.ones(2)
    weight = add_constant(journal, source, "inner", nodes["add"])
    assert weight is not None and (weight.op, weight.target) == ("get_attr", "inner_1")
    source.zero_()
    assert torch.equal(traced.get_parameter("inner_1"), torch.ones(2))
    assert not traced.get_parameter("inner_1").requires_grad
    again = read_constant(journal, "inner_1", nodes["add"])
    assert again.target == "inner_1" and again is not weight
    assert fresh_name("class", ()) == "class_1"
    assert fresh_name("1 w", ()) == "_1_w"


def test_a_bare_graph_keeps_no_constants() -> None:
    graph = Graph()
    out = graph.output(graph.placeholder("x"))
    assert add_constant(Journal(graph), torch.ones(1), "w", out) is None
    assert add_module(Journal(graph), nn.Dropout(), "dropout") is None


FILES = ("engine/journal.py", "engine/owners.py", "engine/images.py", "torch/fx/graph.py", "torch/fx/node.py")


def test_an_interrupt_at_any_line_is_undone() -> None:
    step, done = -6, False
    while not done:
        step += 7
        traced, nodes = model()
        before = snapshot(traced.graph, traced)
        journal = Journal(traced.graph, ModuleOwner(traced))
        sys.settrace(interrupt_at(step, FILES))
        try:
            busy(journal, nodes)
            done = True
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(None)
        journal.undo()
        assert snapshot(traced.graph, traced) == before, f"after an interrupt at line {step}"
    assert step > 300


def test_an_interrupted_undo_can_be_repeated() -> None:
    step, done = -6, False
    while not done:
        step += 7
        traced, nodes = model()
        before = snapshot(traced.graph, traced)
        journal = Journal(traced.graph, ModuleOwner(traced))
        busy(journal, nodes)
        sys.settrace(interrupt_at(step, FILES))
        try:
            journal.undo()
            done = True
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(None)
        journal.undo()
        assert snapshot(traced.graph, traced) == before, f"after an interrupt at line {step}"
    assert step > 100
