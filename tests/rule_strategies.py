"""Random rules made to match: written down from a node of a graph, loosened here and there, sometimes spoilt."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

import torch
from attrs import frozen
from graph_strategies import draw_graph
from pattern_writer import CONSTANTS, Expr, Way, Writer
from torch.fx import Node

from fxrules.dsl import ast
from fxrules.dsl.source import FxrulesError
from fxrules.engine.families import load_table
from fxrules.engine.matching import CompiledRule, compile_rule
from fxrules.engine.nodeview import Views
from fxrules.engine.ruleset import Rule, Scope

_DIMS = ast.Type(("Tensor",), None, (ast.Name("D"), ast.Dots()))

_X = ast.Name("x")
_NOOP = ast.Or(
    (
        ast.Call(
            ast.Name("dropout"), (_X, ast.Keyword("p", ast.Name("_")), ast.Keyword("training", ast.Name("False")))
        ),
        ast.Call(ast.Name("clone"), (_X, ast.Keyword("memory_format", ast.Name("_")))),
        ast.Call(ast.Name("relu"), (_X,)),
        ast.Binary("*", _X, ast.Name("factor")),
    )
)
_GELU_LIKE = ast.Or(
    (
        ast.Call(ast.Name("gelu"), (_X, ast.Keyword("approximate", ast.Name("_")))),
        ast.Binary("*", _X, ast.Call(ast.Name("tanh"), (_X,))),
        ast.Binary("+", _X, ast.Optional(ast.Name("shift"))),
    )
)
_DEEPER = ast.Call(ast.Name("chain"), (_X,))
_CHAIN = ast.Or(
    (
        ast.Call(ast.Name("relu"), (_DEEPER,)),
        ast.Binary("*", _DEEPER, ast.Name("factor")),
        ast.Call(ast.Name("tanh"), (_X,)),
        _X,
    )
)
_GATE = ast.Or((_X, ast.Binary("*", _X, ast.Call(ast.Name("tanh"), (_X,))), ast.Binary("*", _X, _X)))
PATTERNS: Mapping[str, ast.Pattern] = {
    "noop": ast.Pattern("noop", (ast.Param("x"),), _NOOP),
    "chain": ast.Pattern("chain", (ast.Param("x"),), _CHAIN, 3),
    "gate": ast.Pattern("gate", (ast.Param("x"),), _GATE),
    "gelu_like": ast.Pattern("gelu_like", (ast.Param("x"), ast.Param("shift")), _GELU_LIKE),
}
OPSETS: Mapping[str, tuple[str, ...]] = {"pointwise": ("relu", "tanh", "neg"), "reshaping": ("permute", "clone")}


@frozen
class Case:
    """A graph, and rules that were drawn from it or from another."""

    views: Views
    rules: tuple[Rule, ...]

    def compiled(self) -> list[CompiledRule]:
        """The rules that can be compiled: what is drawn may be refused."""
        found = []
        for rule in self.rules:
            try:
                found.append(compile_rule(rule))
            except FxrulesError:
                continue
        return found


def draw_case(random: Random, rules: int = 4) -> Case:
    """A graph and some rules over it, most of them written down from one of its nodes."""
    views = draw_graph(random)
    nodes = [node for node in views.graph.nodes if views.views(node) or views.module_call(node, None)]
    if not nodes:
        return draw_case(random, rules)
    return Case(views, tuple(draw_rule(random, random.choice(nodes[-6:]), views, f"r{i}") for i in range(rules)))


def draw_rule(random: Random, root: Node, views: Views, name: str) -> Rule:
    """A rule whose pattern was read off the graph at ``root``."""
    slips = (None, None, None, None, "names", "names", "literals", "arguments", "ops")
    writer = Writer(random, views, _WAYS, random.choice(slips))
    results = [writer.op(root, random.choice((1, 2, 2, 3, 4)))]
    near = _neighbours(root, views)
    while near and random.random() < 0.25:
        results.append(writer.op(random.choice(near), random.choice((1, 1, 2))))
    block = ast.Block(tuple(writer.assigns), tuple(results))
    params = [ast.Param(leaf, _DIMS if leaf == writer.measured else None) for leaf in writer.leaves]
    params += [ast.Param(leaf, ast.Type((kind,) if kind else (), "module")) for leaf, kind in writer.modules.items()]
    template = {"f": random.choice(("relu", "tanh"))}
    scope = Scope(load_table(), CONSTANTS, {**PATTERNS, **writer.patterns}, OPSETS, template)
    return Rule(name, ast.Rule(name, tuple(params), (ast.Match(block),)), scope)


def _neighbours(node: Node, views: Views) -> list[Node]:
    """Nodes that another result of the same rule may stand at: they have an input in common, or one reads the other."""
    sources = [node, *node.all_input_nodes]
    near = dict.fromkeys([*sources, *(user for source in sources for user in source.users)])
    return [one for one in near if views.views(one)]


# ------------------------------------------------------------ ways to loosen
def _as(writer: Writer, node: Node, depth: int) -> Expr:
    name = writer.fresh("n")
    inner = writer.plainly(node, depth)
    if writer.chance(0.3):
        name = writer.leaf("n").id
        writer.names.setdefault(node, name)
    return ast.As(inner, name)


def _or(writer: Writer, node: Node, depth: int) -> Expr:
    first = ast.Call(ast.Name(writer.random.choice(("relu", "neg", "clone"))), (writer.leaf("u"),))
    options = [first, writer.plainly(node, depth)]
    if writer.chance(0.4):
        options.append(writer.plainly(node, depth))
    writer.random.shuffle(options)
    return ast.Or(tuple(options))


def _through(writer: Writer, node: Node, depth: int) -> Expr:
    below = node
    while writer.chance(0.7) and below.args and isinstance(below.args[0], Node) and writer.views.views(below.args[0]):
        below = below.args[0]
    return ast.Through(writer.plainly(below, depth), writer.random.choice(("noop", "noop", "gate", *OPSETS)))


def _through_leaf(writer: Writer, node: Node, depth: int) -> Expr:
    return ast.Through(writer.leaf("t"), writer.random.choice(("noop", "pointwise", "gate")))


def _chain(writer: Writer, node: Node, depth: int) -> Expr:
    return ast.Call(ast.Name("chain"), (writer.leaf("c") if writer.chance(0.5) else writer.plainly(node, depth),))


def _absent(writer: Writer, node: Node, depth: int) -> Expr:
    parts = [writer.plainly(node, depth), ast.Optional(writer.leaf("o"))]
    return ast.Binary(writer.random.choice("+*-"), *(parts if writer.chance(0.7) else reversed(parts)))


def _unwrapped(writer: Writer, node: Node, depth: int) -> Expr:
    inner = writer.plainly(node, depth)
    if isinstance(inner, ast.Call) and writer.chance(0.5):
        return ast.Optional(inner)
    return ast.Optional(ast.Call(ast.Name(writer.random.choice(("clone", "relu", "noop"))), (inner,)))


def _named(writer: Writer, node: Node, depth: int) -> Expr:
    """The op as a named pattern of its own, its leaves being parameters."""
    inner = Writer(writer.random, writer.views, writer.ways, writer.spoilt)
    body = inner.plainly(node, 1)
    name = writer.fresh("p")
    if inner.assigns or inner.measured or inner.modules or writer.chance(0.3):
        return ast.Call(ast.Name("gelu_like"), (writer.plainly(node, depth), writer.leaf("o")))
    nodes = {leaf: one for one, leaf in inner.names.items()}
    params = [leaf for leaf in inner.leaves if leaf in nodes]
    writer.patterns[name] = ast.Pattern(name, tuple(ast.Param(leaf) for leaf in params), body)
    return ast.Call(ast.Name(name), tuple(writer.value(nodes[leaf], depth - 1) for leaf in params))


def _exact(writer: Writer, node: Node, depth: int) -> Expr:
    target = _target(node)
    if target is None:
        return writer.plainly(node, depth)
    args: list[Any] = [writer.value(tuple(arg) if isinstance(arg, list) else arg, depth - 1) for arg in node.args]
    args += [ast.Keyword(name, writer.value(value, depth - 1)) for name, value in node.kwargs.items()]
    if len(args) > 1 and writer.chance(0.4):
        args[-1:] = [ast.Dots()] if writer.chance(0.5) else []
    return ast.Call(target, tuple(args))


def _target(node: Node) -> Expr | None:
    """The exact target of a node as a pattern names it: ``torch.add``, ``aten.add.Tensor``."""
    if isinstance(node.target, torch._ops.OpOverload):
        text = str(node.target)
    elif getattr(torch, getattr(node.target, "__name__", ""), None) is node.target:
        text = f"torch.{getattr(node.target, '__name__', '')}"
    else:
        return None
    head, *rest = text.split(".")
    found: Expr = ast.Name(head)
    for name in rest:
        found = ast.Attribute(found, name)
    return found


_WAYS: tuple[Way, ...] = (
    _as, _or, _through, _through_leaf, _chain, _absent, _unwrapped, _named, _exact,
)  # fmt: skip
