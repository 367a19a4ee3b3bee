"""Small graphs and single rules for tests: texts to rules, functions to graphs, candidates to verdicts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

from fxrules.dsl import ast
from fxrules.dsl.parser import parse_text
from fxrules.engine import reference
from fxrules.engine.candidates import Match, Mismatch
from fxrules.engine.constants import fold
from fxrules.engine.families import load_table
from fxrules.engine.guards import accept
from fxrules.engine.nodeview import Views
from fxrules.engine.ruleset import Rule, Scope


def load(text: str) -> list[Rule]:
    """The rules of a text, with its constants, patterns and op sets in scope."""
    file = parse_text(text)
    constants: dict[str, int | float] = {}
    for statement in file.statements:
        if isinstance(statement, ast.Const):
            number = fold(statement.value, constants)
            assert number is not None
            constants[statement.name] = number
    patterns = {one.name: one for one in file.statements if isinstance(one, ast.Pattern)}
    opsets = {one.name: one.members for one in file.statements if isinstance(one, ast.Opset)}
    scope = Scope(load_table(), constants, patterns, opsets)
    return [Rule(one.name, one, scope) for one in file.statements if isinstance(one, ast.Rule)]


def traced(function: Callable[..., Any], shape: tuple[int, ...] | None = (2, 3, 4)) -> Views:
    """A traced function, its values with facts if its inputs have a shape."""
    module = torch.fx.symbolic_trace(function)
    if shape is not None:
        give_facts(module, shape)
    return Views(module.graph, module)


def give_facts(module: GraphModule, shape: tuple[int, ...]) -> None:
    class Facts(torch.fx.Interpreter):
        def run_node(self, n: Node) -> Any:
            n.meta["val"] = super().run_node(n)
            return n.meta["val"]

    inputs = [torch.empty(shape, device="meta") for node in module.graph.nodes if node.op == "placeholder"]
    Facts(module).run(*inputs)


def output(views: Views) -> Node:
    """The node that the graph returns."""
    (result,) = next(node for node in views.graph.nodes if node.op == "output").args
    result = result[0] if isinstance(result, tuple) else result
    assert isinstance(result, Node)
    return result


def verdict(text: str, views: Views, *, freeze: bool = False, root: Node | None = None) -> Match | Mismatch:
    """The first match of the text's last rule at the graph's result, or what speaks against the first candidate."""
    rule = load(text)[-1]
    verdicts = [
        accept(rule, candidate, views, freeze=freeze)
        for candidate in reference.candidates(rule, root or output(views), views)
    ]
    assert verdicts, "no candidate"
    return next((one for one in verdicts if isinstance(one, Match)), verdicts[0])


def mismatch(text: str, views: Views, *, freeze: bool = False) -> tuple[str, str]:
    found = verdict(text, views, freeze=freeze)
    assert isinstance(found, Mismatch), found
    return found.kind, found.reason


def bindings(text: str, views: Views, *, freeze: bool = False) -> dict[str, Any]:
    found = verdict(text, views, freeze=freeze)
    assert isinstance(found, Match), found
    return dict(found.bindings)


def relu_of(fact: Any) -> Views:
    """``relu(a)`` where ``a`` carries this fact."""
    graph = Graph()
    a = graph.placeholder("a")
    a.meta["val"] = fact
    graph.output(graph.call_function(torch.relu, (a,)))
    return Views(graph)


def exported(function: Callable[..., Any], *shapes: tuple[int, ...], dynamic: bool = False) -> Views:
    class Model(torch.nn.Module):
        def forward(self, *args: torch.Tensor) -> Any:
            return function(*args)

    inputs = tuple(torch.randn(shape) for shape in shapes)
    sizes = ({0: torch.export.Dim("batch", min=2, max=64)},) * len(shapes) if dynamic else None
    program = torch.export.export(Model(), inputs, dynamic_shapes=(sizes,) if sizes else None)
    return Views(program.graph)
