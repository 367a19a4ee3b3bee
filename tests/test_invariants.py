"""Every invariant finds what breaks it, and names the node."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.fx import Graph, GraphModule

from fxrules.engine.invariants import violations
from fxrules.engine.journal import Journal, ModuleOwner


def _graph() -> GraphModule:
    graph = Graph()
    x = graph.placeholder("x")
    relu = graph.call_function(torch.relu, (x,))
    weight = graph.get_attr("weight")
    total = graph.call_function(torch.add, (relu, weight))
    graph.output(total)
    module = nn.Module()
    module.weight = nn.Parameter(torch.ones(2))
    return GraphModule(module, graph)


def _nodes(module: GraphModule) -> dict[str, torch.fx.Node]:
    return {node.name: node for node in module.graph.nodes}


def late_input(module: GraphModule) -> None:
    with module.graph.inserting_before(_nodes(module)["add"]):
        module.graph.placeholder("y")


def no_output(module: GraphModule) -> None:
    module.graph.erase_node(module.graph.output_node())


def code_behind_the_output(module: GraphModule) -> None:
    module.graph.call_function(torch.neg, (_nodes(module)["x"],))


def use_before_definition(module: GraphModule) -> None:
    nodes = _nodes(module)
    nodes["x"].append(nodes["add"])


def erased_argument(module: GraphModule) -> None:
    nodes = _nodes(module)
    nodes["relu"].replace_all_uses_with(nodes["x"])
    module.graph.erase_node(nodes["relu"])
    nodes["add"].args = ([nodes["relu"]], nodes["weight"])


def lost_user(module: GraphModule) -> None:
    nodes = _nodes(module)
    del nodes["relu"].users[nodes["add"]]


def stale_user(module: GraphModule) -> None:
    nodes = _nodes(module)
    nodes["x"].users[nodes["add"]] = None


def twin_names(module: GraphModule) -> None:
    nodes = _nodes(module)
    nodes["add"].name = "relu"


def missing_attribute(module: GraphModule) -> None:
    del module._parameters["weight"]


def missing_module(module: GraphModule) -> None:
    with module.graph.inserting_before(_nodes(module)["add"]):
        module.graph.create_node("call_module", "weight", (_nodes(module)["x"],))


def lost_metadata(module: GraphModule) -> None:
    nodes = _nodes(module)
    nodes["x"].meta["val"] = torch.ones(2)
    nodes["relu"].meta["fxrules"] = ("std.r",)


BROKEN: list[tuple[Callable[[GraphModule], None], str]] = [
    (late_input, "the input `y` stands behind `relu`"),
    (no_output, "the graph has 0 output nodes"),
    (code_behind_the_output, "`neg` stands behind the output"),
    (use_before_definition, "`add` reads `relu`, which is not yet computed there"),
    (erased_argument, "`add` reads `relu`, which is erased"),
    (lost_user, "`add` is missing among the users of `relu`"),
    (stale_user, "`add` is a user of `x` and does not read it"),
    (twin_names, "2 nodes are called `relu`"),
    (missing_attribute, "Node weight target weight references nonexistent attribute weight of "),
    (missing_module, "Node weight_1 target weight weight of  does not reference an nn.Module"),
    (lost_metadata, "`relu` was made without metadata, though its inputs have some"),
]


@pytest.mark.parametrize(("break_it", "problem"), BROKEN, ids=[case[0].__name__ for case in BROKEN])
def test_each_invariant_names_what_broke_it(break_it: Callable[[GraphModule], None], problem: str) -> None:
    module = _graph()
    journal = Journal(module.graph, ModuleOwner(module))
    assert violations(module.graph, journal) == []
    break_it(module)
    assert problem in violations(module.graph, journal)


def test_attributes_are_looked_for_in_the_owner_of_a_bare_graph() -> None:
    graph = Graph()
    graph.output(graph.create_node("call_module", "part.one", (graph.create_node("get_attr", "weight"),)))
    owner = nn.Module()
    found = violations(graph, Journal(graph, ModuleOwner(owner)))
    assert found == [
        "`weight` refers to `weight`, which does not exist",
        "`part_one` refers to `part.one`, which does not exist",
    ]
    owner.weight, owner.part = nn.Parameter(torch.ones(2)), nn.ModuleDict({"one": nn.ReLU()})
    assert violations(graph, Journal(graph, ModuleOwner(owner))) == []


def test_attributes_may_stand_before_the_inputs() -> None:
    graph = Graph()
    weight = graph.get_attr("weight")
    graph.output(graph.call_function(torch.add, (weight, graph.placeholder("x"))))
    # as in what torch.export's ``.module()`` gives
    assert violations(graph, Journal(graph)) == []
