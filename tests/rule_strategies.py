"""Random rules made to match: a rule is written down from a node of a graph, loosened here and there, sometimes spoilt."""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, TypeAlias

import torch
from attrs import define, field, frozen
from graph_strategies import draw_graph
from torch.fx import Node

from fxrules.dsl import ast
from fxrules.engine.families import load_table
from fxrules.engine.nodeview import View, Views
from fxrules.engine.ruleset import Rule, Scope

Expr: TypeAlias = ast.Expr
_OPERATORS: Mapping[str, str] = {"add": "+", "sub": "-", "mul": "*", "div": "/", "matmul": "@", "pow": "**"}
_METHODS = ("relu", "tanh", "softmax", "transpose", "clone", "sum", "permute", "add", "mul", "to")
_DTYPE_NAMES: Mapping[Any, str] = {torch.float32: "f32", torch.float16: "f16", torch.float64: "f64", torch.int64: "i64"}
_CONSTANTS: Mapping[str, int | float] = {"HALF": 0.5, "SQRT_2_OVER_PI": 0.7978845608028654, "TWO": 2}
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
PATTERNS: Mapping[str, ast.Pattern] = {
    "noop": ast.Pattern("noop", (ast.Param("x"),), _NOOP),
    "gelu_like": ast.Pattern("gelu_like", (ast.Param("x"), ast.Param("shift")), _GELU_LIKE),
}
OPSETS: Mapping[str, tuple[str, ...]] = {"pointwise": ("relu", "tanh", "neg"), "reshaping": ("permute", "clone")}


@frozen
class Case:
    """A graph, and rules that were drawn from it or from another."""

    views: Views
    rules: tuple[Rule, ...]


def draw_case(random: Random, rules: int = 4) -> Case:
    """A graph and some rules over it, most of them written down from one of its nodes."""
    views = draw_graph(random)
    nodes = [node for node in views.graph.nodes if views.views(node)]
    if not nodes:
        return draw_case(random, rules)
    return Case(views, tuple(draw_rule(random, random.choice(nodes[-6:]), views, f"r{i}") for i in range(rules)))


def draw_rule(random: Random, root: Node, views: Views, name: str) -> Rule:
    """A rule whose pattern was read off the graph at ``root``."""
    writer = _Writer(random, views, random.choice((None, None, None, None, "names", "names", "literals", "arguments", "ops")))
    result = writer.op(root, random.choice((1, 2, 2, 3, 4)))
    block = ast.Block(tuple(writer.assigns), (result,))
    params = [ast.Param(leaf, _DIMS if leaf == writer.measured else None) for leaf in writer.leaves]
    template = {"f": random.choice(("relu", "tanh"))}
    scope = Scope(load_table(), _CONSTANTS, {**PATTERNS, **writer.patterns}, OPSETS, template)
    return Rule(name, ast.Rule(name, tuple(params), (ast.Match(block),)), scope)


@define
class _Writer:
    """Writes nodes down as patterns, and remembers which names it gave them."""

    random: Random
    views: Views
    spoilt: str | None = None
    names: dict[Node, str] = field(factory=dict)
    leaves: list[str] = field(factory=list)
    assigns: list[ast.Assign] = field(factory=list)
    patterns: dict[str, ast.Pattern] = field(factory=dict)
    measured: str | None = None
    extra: int = 0

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def fresh(self, stem: str) -> str:
        self.extra += 1
        return f"{stem}{self.extra}"

    def leaf(self, stem: str = "v") -> ast.Name:
        """A new leaf of the header."""
        self.leaves.append(self.fresh(stem))
        return ast.Name(self.leaves[-1])

    # ---------------------------------------------------------------- values
    def value(self, value: Any, depth: int) -> Expr:
        if isinstance(value, Node):
            return self.node(value, depth)
        if isinstance(value, tuple):
            return self.sequence(value, depth)
        if self.chance(0.08):
            return self.leaf("k") if self.chance(0.6) else ast.Name("_")
        return self.literal(value)

    def node(self, node: Node, depth: int) -> Expr:
        known = self.names.get(node)
        if self.spoilt == "names" and self.names and self.chance(0.4):
            shared = [assign.targets[0] for assign in self.assigns if self.chance(0.7)]
            known = self.random.choice(shared or list(self.names.values()))
        if known is not None and self.chance(0.9):
            return ast.Name(known)
        if self.chance(0.04):
            return ast.Name("_")
        if depth > 0 and self.views.views(node) and self.chance(0.9):
            share = 0.6 if len(node.users) > 1 else 0.15
            return self.shared(node, depth) if self.chance(share) else self.op(node, depth)
        name = self.leaf()
        self.names[node] = name.id
        return name

    def shared(self, node: Node, depth: int) -> Expr:
        """A name assigned in the block, for a node that has several users."""
        name = self.fresh("s")
        value = self.op(node, depth)
        self.assigns.append(ast.Assign((name,), value))
        self.names[node] = name
        return ast.Name(name)

    def literal(self, value: Any) -> Expr:
        if self.spoilt == "literals" and self.chance(0.3):
            value = self.random.choice((0, 1, True, 0.5, 2))
        if isinstance(value, bool) and self.chance(0.2):
            return ast.Number(int(value))
        if isinstance(value, bool) or value is None:
            return ast.Name(str(value))
        if isinstance(value, int | float):
            return self.number(value)
        if isinstance(value, str):
            return ast.String(value)
        return ast.Name(_DTYPE_NAMES.get(value, "_"))

    def number(self, value: int | float) -> Expr:
        for name, constant in _CONSTANTS.items():
            if value == constant and self.chance(0.5):
                return ast.Name(name)
        if isinstance(value, int) and value > 1 and self.measured is None and self.leaves and self.chance(0.15):
            self.measured = self.random.choice(self.leaves)
        if self.measured and isinstance(value, int) and self.chance(0.5):
            return ast.Binary("-", ast.Name("D"), ast.Number(4 - value))
        if isinstance(value, float) and self.chance(0.5):
            near = value * (1 + self.random.choice((1e-9, 1e-9, 1e-4)))
            return ast.Number(near, self.random.choice((None, None, 1e-3)))
        if self.chance(0.1):
            return ast.Binary("/", ast.Number(value * 2), ast.Number(2)) if abs(value) < 100 else ast.Number(value)
        return ast.Number(value) if value >= 0 else ast.Unary("-", ast.Number(-value))

    def sequence(self, items: Sequence[Any], depth: int) -> Expr:
        written: list[Expr | ast.Star] = [self.value(item, depth) for item in items]
        if self.chance(0.4):
            start = self.random.randint(0, len(written))
            stop = self.random.randint(start, len(written))
            name = "_" if self.chance(0.2) else "rest" if self.chance(0.2) else self.fresh("rest")
            written[start:stop] = [ast.Star(ast.Name(name))]
            if self.chance(0.6):
                written.append(ast.Star(ast.Name(self.fresh("more"))))
        return ast.List(tuple(written))

    # ------------------------------------------------------------------- ops
    def op(self, node: Node, depth: int) -> Expr:
        """A node written as an op, loosened in one way or another."""
        way = self.random.choice((*_LOOSENED, *[_plainly] * 5))
        return way(self, node, depth)

    def plainly(self, node: Node, depth: int) -> Expr:
        view = self.random.choice(self.views.views(node))
        name, args = view.family.name, view.args
        if name == "getitem":
            return self.item(node, args, depth)
        if name in ("slice", "select") and self.chance(0.5):
            return self.indexed(name, args, depth)
        if self.spoilt == "ops" and self.chance(0.3):
            name = self.random.choice(("relu", "add", "mul", "tanh"))
        rest = all(self.views.is_default(view, at) for at in range(2, len(args)))
        if name in _OPERATORS and len(args) >= 2 and rest and self.chance(0.7):
            return self.operator(_OPERATORS[name], args, depth)
        if name == "neg" and self.chance(0.5):
            return ast.Unary("-", self.value(args[0], depth - 1))
        if name in ("mT", "T") and self.chance(0.7):
            return ast.Attribute(self.value(args[0], depth - 1), name)
        return self.call(name, view, depth)

    def operator(self, symbol: str, args: Sequence[Any], depth: int) -> Expr:
        left, right = self.value(args[0], depth - 1), self.value(args[1], depth - 1)
        if symbol in "+*" and self.chance(0.3):
            left, right = right, left
        if isinstance(right, ast.Name) and right.id in self.leaves and self.chance(0.4):
            right = ast.Optional(right)
        return ast.Binary(symbol, left, right)

    def call(self, name: str, view: View, depth: int) -> Expr:
        written: list[Any] = []
        by_name = False
        loose = self.random.choice((None, None, None, ast.StarStar("cfg"), ast.Dots()))
        for at, (param, value) in enumerate(zip(view.family.params, view.args, strict=True)):
            default = self.views.is_default(view, at)
            forgotten = 0.8 if default else 0.5 if loose is not None and at > 0 else 0.3 if self.spoilt == "arguments" and at > 0 else 0
            if self.chance(forgotten):
                continue
            pattern = self.value(value, depth - 1)
            if value is None or (isinstance(pattern, ast.Name) and pattern.id in self.leaves and self.chance(0.15)):
                pattern = ast.Optional(self.leaf("o") if value is None else pattern)
            by_name = by_name or at != len(written) or param.keyword_only or self.chance(0.3)
            written.append(ast.Keyword(param.name, pattern) if by_name else pattern)
        if loose is not None:
            written.append(loose)
        first = written[0] if written else None
        if (
            name in _METHODS
            and first is not None
            and not isinstance(first, ast.Keyword | ast.Dots | ast.StarStar)
            and self.chance(0.3)
        ):
            return ast.Call(ast.Attribute(first, name), tuple(written[1:]))
        if name in ("relu", "tanh") and self.chance(0.3):
            name = "f"
        return ast.Call(ast.Name(name), tuple(written))

    def item(self, node: Node, args: Sequence[Any], depth: int) -> Expr:
        """An item of a tuple result, by destructuring or by index; or an indexed tensor."""
        whole, index = args
        if isinstance(index, int) and isinstance(whole.meta.get("val"), tuple | list) and self.chance(0.6):
            names = tuple(self.fresh("item") for _ in range(index + 1 + self.random.randint(0, 1)))
            self.assigns.append(ast.Assign(names, self.op(whole, depth - 1)))
            self.names[node] = names[index]
            for other in whole.users:
                if other is not node and other.target is operator.getitem and other.args[1] < len(names):
                    self.names[other] = names[other.args[1]]
            return ast.Name(names[index])
        items = index if isinstance(index, tuple) else (index,)
        return ast.Index(self.value(whole, depth - 1), tuple(_index_item(one) for one in items))

    def indexed(self, name: str, args: Sequence[Any], depth: int) -> Expr:
        """A ``slice`` or ``select`` of a cube, as the index that export makes it from."""
        whole, dim, *bounds = args
        item = bounds[0] if name == "select" else slice(bounds[0], None if bounds[1] == sys.maxsize else bounds[1])
        before: list[Any] = [slice(None)] * (dim % 3)
        after: list[Any] = [slice(None)] * (2 - dim % 3)
        items = self.random.choice(([..., item, *after], [*before, item], [*before, item, ...]))
        return ast.Index(self.value(whole, depth - 1), tuple(_index_item(one) for one in items))


def _index_item(item: Any) -> Any:
    match item:
        case slice():
            bounds = (None if one is None else ast.Number(one) for one in (item.start, item.stop, item.step))
            return ast.Slice(*bounds)
        case int():
            return ast.Number(item) if item >= 0 else ast.Unary("-", ast.Number(-item))
    return ast.Dots() if item is ... else ast.Name("None") if item is None else ast.Name("_")


# ------------------------------------------------------------ ways to loosen
def _plainly(writer: _Writer, node: Node, depth: int) -> Expr:
    return writer.plainly(node, depth)


def _as(writer: _Writer, node: Node, depth: int) -> Expr:
    name = writer.fresh("n")
    inner = writer.plainly(node, depth)
    if writer.chance(0.3):
        name = writer.leaf("n").id
        writer.names.setdefault(node, name)
    return ast.As(inner, name)


def _or(writer: _Writer, node: Node, depth: int) -> Expr:
    first = ast.Call(ast.Name(writer.random.choice(("relu", "neg", "clone"))), (writer.leaf("u"),))
    options = [first, writer.plainly(node, depth)]
    if writer.chance(0.4):
        options.append(writer.plainly(node, depth))
    writer.random.shuffle(options)
    return ast.Or(tuple(options))


def _through(writer: _Writer, node: Node, depth: int) -> Expr:
    below = node
    while writer.chance(0.7) and below.args and isinstance(below.args[0], Node) and writer.views.views(below.args[0]):
        below = below.args[0]
    return ast.Through(writer.plainly(below, depth), writer.random.choice(("noop", "noop", *OPSETS)))


def _through_leaf(writer: _Writer, node: Node, depth: int) -> Expr:
    return ast.Through(writer.leaf("t"), writer.random.choice(("noop", "pointwise")))


def _absent(writer: _Writer, node: Node, depth: int) -> Expr:
    parts = [writer.plainly(node, depth), ast.Optional(writer.leaf("o"))]
    return ast.Binary(writer.random.choice("+*-"), *(parts if writer.chance(0.7) else reversed(parts)))


def _unwrapped(writer: _Writer, node: Node, depth: int) -> Expr:
    inner = writer.plainly(node, depth)
    if isinstance(inner, ast.Call) and writer.chance(0.5):
        return ast.Optional(inner)
    return ast.Optional(ast.Call(ast.Name(writer.random.choice(("clone", "relu", "noop"))), (inner,)))


def _named(writer: _Writer, node: Node, depth: int) -> Expr:
    """The op as a named pattern of its own, its leaves being parameters."""
    inner = _Writer(writer.random, writer.views, writer.spoilt)
    body = inner.plainly(node, 1)
    name = writer.fresh("p")
    if inner.assigns or inner.measured or writer.chance(0.3):
        return ast.Call(ast.Name("gelu_like"), (writer.plainly(node, depth), writer.leaf("o")))
    nodes = {leaf: one for one, leaf in inner.names.items()}
    params = [leaf for leaf in inner.leaves if leaf in nodes]
    writer.patterns[name] = ast.Pattern(name, tuple(ast.Param(leaf) for leaf in params), body)
    return ast.Call(ast.Name(name), tuple(writer.value(nodes[leaf], depth - 1) for leaf in params))


def _exact(writer: _Writer, node: Node, depth: int) -> Expr:
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


_LOOSENED: tuple[Callable[[_Writer, Node, int], Expr], ...] = (
    _as, _or, _through, _through_leaf, _absent, _unwrapped, _named, _exact,
)  # fmt: skip
