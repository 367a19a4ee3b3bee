"""Writes nodes of a graph down as patterns, with names for what is shared and a slip here and there."""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, TypeAlias

import torch
from attrs import define, field
from torch.fx import Node

from fxrules.dsl import ast
from fxrules.engine.nodeview import View, Views

Expr: TypeAlias = ast.Expr
Way: TypeAlias = "Callable[[Writer, Node, int], Expr]"

CONSTANTS: Mapping[str, int | float] = {"HALF": 0.5, "SQRT_2_OVER_PI": 0.7978845608028654, "TWO": 2}
_OPERATORS: Mapping[str, str] = {"add": "+", "sub": "-", "mul": "*", "div": "/", "matmul": "@", "pow": "**"}
_METHODS = ("relu", "tanh", "softmax", "transpose", "clone", "sum", "permute", "add", "mul", "to")
_DTYPE_NAMES: Mapping[Any, str] = {torch.float32: "f32", torch.float16: "f16", torch.float64: "f64", torch.int64: "i64"}


@define
class Writer:
    """Writes nodes down as patterns, and remembers which names it gave them.

    ``ways`` are the ways to write an op otherwise than plainly; ``spoilt`` says what it gets
    wrong now and then: names, literals, arguments or ops.
    """

    random: Random
    views: Views
    ways: tuple[Way, ...] = ()
    spoilt: str | None = None
    names: dict[Node, str] = field(factory=dict)
    leaves: list[str] = field(factory=list)
    modules: dict[str, str | None] = field(factory=dict)
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
        if depth > 0 and self.is_op(node) and self.chance(0.9):
            share = 0.6 if len(node.users) > 1 else 0.15
            return self.shared(node, depth) if self.chance(share) else self.op(node, depth)
        name = self.leaf()
        self.names[node] = name.id
        return name

    def is_op(self, node: Node) -> bool:
        """Whether a node can be written as an op, or as a call of a module."""
        return bool(self.views.views(node)) or self.views.module_call(node, None) is not None

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
        for name, constant in CONSTANTS.items():
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
        nodes = [item for item in items if isinstance(item, Node) and self.views.views(item)]
        if nodes and self.chance(0.4):
            start = self.random.randint(0, len(written))
            stop = self.random.randint(start, len(written))
            written[start:stop] = [ast.Star(self.element(self.random.choice(nodes), depth))]
        if self.chance(0.4):
            start = self.random.randint(0, len(written))
            stop = self.random.randint(start, len(written))
            name = "_" if self.chance(0.2) else "rest" if self.chance(0.2) else self.fresh("rest")
            written[start:stop] = [ast.Star(ast.Name(name))]
            if self.chance(0.6):
                written.append(ast.Star(ast.Name(self.fresh("more"))))
        return ast.List(tuple(written))

    def element(self, node: Node, depth: int) -> Expr:
        """A pattern for every element of a list, written down from one; some of its names are in the header."""
        inner = Writer(self.random, self.views, self.ways, self.spoilt, dict(self.names), extra=self.extra + 1000)
        body = inner.op(node, max(1, depth - 1))
        if inner.assigns or inner.measured:
            return ast.Name("_") if self.chance(0.5) else self.op(node, 1)
        self.extra = inner.extra
        self.patterns |= inner.patterns
        self.leaves += [leaf for leaf in inner.leaves if self.chance(0.2)]
        return ast.Or((body, ast.Name(self.fresh("e")))) if self.chance(0.5) else body

    # ------------------------------------------------------------------- ops
    def op(self, node: Node, depth: int) -> Expr:
        """A node written as an op, loosened in one way or another."""
        way = self.random.choice((*self.ways, *[Writer.plainly] * 5))
        return way(self, node, depth)

    def plainly(self, node: Node, depth: int) -> Expr:
        if node.op == "call_module":
            return self.module(node, depth)
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

    def module(self, node: Node, depth: int) -> Expr:
        """A call of a module leaf, of its class or of any; one leaf may stand for several objects."""
        called = self.views.module_call(node, None)
        assert called is not None
        leaves = [leaf for leaf in self.modules if self.chance(0.6)]
        if not leaves:
            kind = f"graph_strategies.{type(called.submodule.module).__name__}"
            wrong = self.spoilt == "ops" and self.chance(0.3)
            leaves = [self.fresh("m")]
            self.modules[leaves[0]] = "graph_strategies.Other" if wrong else self.random.choice((kind, kind, None))
        written: list[Any] = []
        by_name = False
        for at, (name, value, default) in enumerate(called.arguments):
            if self.chance(self.forgets(value is default or value == default, False, at)):
                by_name = True
                continue
            pattern = self.value(value, depth - 1)
            if name.startswith("*") and by_name:
                continue
            by_name = by_name or name == "k" or (not name.startswith("*") and self.chance(0.2))
            written.append(ast.Keyword(name, pattern) if by_name else pattern)
        if self.chance(0.15):
            written.append(ast.Dots())
        return ast.Call(ast.Name(leaves[0]), tuple(written))

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
            if self.chance(self.forgets(default, loose is not None, at)):
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

    def forgets(self, default: bool, loose: bool, at: int) -> float:
        """How likely an argument is left out: a default often, others where ``...`` stands, or by mistake."""
        if default:
            return 0.8
        if at == 0:
            return 0.0
        return 0.5 if loose else 0.3 if self.spoilt == "arguments" else 0.0

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
            start, stop, step = (None if one is None else ast.Number(one) for one in (item.start, item.stop, item.step))
            return ast.Slice(start, stop, step)
        case int():
            return ast.Number(item) if item >= 0 else ast.Unary("-", ast.Number(-item))
    return ast.Dots() if item is ... else ast.Name("None") if item is None else ast.Name("_")
