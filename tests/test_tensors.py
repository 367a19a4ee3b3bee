"""Modules, facts and constants: what is known of the values of a graph."""

from __future__ import annotations

import torch
from single_nodes import Site
from torch import nn
from torch.fx import Graph
from torch.nn.utils import parametrizations

from fxrules.engine.kinds import ModuleAttr
from fxrules.engine.nodeview import Views

aten = torch.ops.aten


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, stride=2, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.drop = nn.Dropout(0.3)
        self.block = nn.Sequential(nn.Linear(5, 6, bias=False), nn.ReLU(inplace=True))


def test_a_module_call_is_its_function_with_its_attributes() -> None:
    net = Net().eval()
    site = Site(net)
    conv = site.graph.call_module("conv", (site.x,))
    weight, bias = ModuleAttr("conv.weight"), ModuleAttr("conv.bias")
    assert site.seen(conv) == ("conv2d", (site.x, weight, bias, (2, 2), (1, 1), (1, 1), 1))
    assert site.seen(site.graph.call_module("block.0", (site.x,))) == (
        "linear",
        (site.x, ModuleAttr("block.0.weight"), None),
    )
    assert site.seen(site.graph.call_module("block.1", (site.x,))) is None, "in place"
    assert site.views.fact(weight) is net.conv.weight
    drop = site.graph.call_module("drop", (site.x,))
    assert site.seen(drop) == ("dropout", (site.x, 0.3, False, False))
    assert site.views.effect(drop) == "pure"
    net.train()
    site.views.forget([drop])
    assert site.seen(drop) == ("dropout", (site.x, 0.3, True, False))
    assert site.views.effect(drop) == "random"


class Shifted(nn.Linear):
    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return super().forward(input) + 1


def test_a_module_that_does_more_than_its_class_says_is_opaque() -> None:
    root = nn.Module()
    hooked, early, padded = nn.Linear(2, 2), nn.Linear(2, 2), nn.Conv1d(1, 1, 1, padding_mode="circular")
    hooked.register_forward_hook(lambda module, args, output: output + 1)
    early.register_forward_pre_hook(lambda module, args: None)
    modules = {
        "hooked": hooked,
        "early": early,
        "padded": padded,
        "shifted": Shifted(2, 2),
        "normed": parametrizations.weight_norm(nn.Linear(2, 2)),
        "plain": nn.Linear(2, 2),
    }
    for name, module in modules.items():
        root.add_module(name, module)
    site = Site(root)
    found = {name: site.seen(site.graph.call_module(name, (site.x,))) is not None for name in [*modules, "missing"]}
    assert [name for name, seen in found.items() if seen] == ["plain"]


def test_constants_are_what_the_program_does_not_write() -> None:
    root = nn.Module()
    root.weight = nn.Parameter(torch.ones(2))
    root.register_buffer("still", torch.ones(2))
    root.register_buffer("moved", torch.ones(2))
    graph = Graph()
    placeholders = {name: graph.placeholder(name) for name in ("x", "p_weight", "b_moved")}
    nodes = {name: graph.get_attr(name) for name in ("weight", "still", "moved")}
    graph.call_method("add_", (graph.call_method("view", (nodes["moved"], -1)), 1))
    graph.call_function(aten.mul_.Tensor, (placeholders["b_moved"], 2))
    lifted = {"p_weight": torch.zeros(3), "b_moved": torch.zeros(3)}
    views = Views(graph, root, lifted=lifted)
    assert views.constant(nodes["weight"]) is root.weight
    assert views.constant(nodes["still"]) is root.still
    assert views.constant(nodes["moved"]) is None, "a view of it is written to"
    assert views.constant(placeholders["p_weight"]) is lifted["p_weight"]
    assert views.constant(placeholders["b_moved"]) is None
    assert views.constant(placeholders["x"]) is None
    assert views.constant(2) is None


def test_statistics_of_a_training_batch_norm_are_not_constant() -> None:
    net = Net().eval()
    graph = Graph()
    norm = graph.call_module("norm", (graph.placeholder("x"),))
    mean = ModuleAttr("norm.running_mean")
    assert Views(graph, net).constant(mean) is net.norm.running_mean
    net.train()
    views = Views(graph, net)
    assert views.effect(norm) == "mutates"
    assert views.constant(mean) is None
    assert views.constant(ModuleAttr("norm.weight")) is net.norm.weight


def test_facts_come_from_whatever_the_graph_has() -> None:
    site = Site()
    val, example, shaped = (site.graph.placeholder(name) for name in "abc")
    tensor = torch.empty(2, 3)
    val.meta["val"], example.meta["example_value"] = tensor, tensor
    shaped.meta["tensor_meta"] = torch.fx.passes.shape_prop._extract_tensor_metadata(torch.empty(4, 5).t())
    assert site.views.fact(val) is tensor
    assert site.views.fact(example) is tensor
    fact = site.views.fact(shaped)
    assert (fact.shape, fact.stride(), fact.dtype) == ((5, 4), (1, 5), torch.float32)
    assert site.views.fact(site.unknown) is None
    assert site.views.fact(3) is None
