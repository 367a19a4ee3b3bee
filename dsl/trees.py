"""From lark's trees to ours, bottom up and without recursion.

Each entry of the table builds one kind of node from its finished children. A
child is a lark token, a node of our tree, or a tuple of such; what has no node
of its own (``args``, ``limit`` ...) comes as a small `_Part`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from attrs import frozen
from lark import Token, Tree

from . import ast
from .literals import number_value, string_value
from .nearest import did_you_mean
from .source import Problem, Source, Span
from .walking import locate

MAX_NESTING = 200
MAX_RECURSION = 32  # a pattern in itself, so often: a match goes as deep

_NOT_A_LEVEL = frozenset({"args", "keyword", "entry", "start", "stop", "step_size", "dims", "default"})


@frozen
class _Part:
    """The children of a rule that has no node of its own."""

    kind: str
    items: tuple[Any, ...]


class BadTree(Exception):
    """A text that the grammar takes and that still means nothing; ``problem`` says why."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        super().__init__(problem.message)


def build(tree: Tree[Token], source: Source) -> Any:
    """The node of our tree for a tree of lark's; raises `BadTree`."""
    done: dict[int, Any] = {}
    depths: dict[int, int] = {}
    for node in tree.iter_subtrees():
        inner = [child for child in node.children if isinstance(child, Tree)]
        depth = max((depths[id(child)] for child in inner), default=0) + (node.data not in _NOT_A_LEVEL)
        span = _span_of(node, source)
        if depth > MAX_NESTING:
            raise BadTree(too_deep(span))
        depths[id(node)] = depth
        children = [done[id(child)] if isinstance(child, Tree) else child for child in node.children]
        done[id(node)] = _BUILDERS[node.data](children, span)
    return done[id(tree)]


def too_deep(span: Span) -> Problem:
    """The problem of a text nested deeper than any reader follows."""
    what = f"nesting deeper than {MAX_NESTING} levels"
    return Problem(span, "too-deep", what, "name inner values in a `{ ... return ... }` block")


def _span_of(node: Tree[Token], source: Source) -> Span:
    meta = node.meta
    return Span(source, 0, 0) if meta.empty else Span(source, meta.start_pos, meta.end_pos)


def _texts(children: list[Any], kind: str = "NAME") -> tuple[str, ...]:
    return tuple(str(child) for child in children if isinstance(child, Token) and child.type == kind)


def _has(children: list[Any], kind: str) -> bool:
    return any(isinstance(child, Token) and child.type == kind for child in children)


def _string(children: list[Any]) -> str | None:
    return next(map(string_value, _texts(children, "STRING")), None)


def _part(children: list[Any], kind: str) -> tuple[Any, ...] | None:
    return next((child.items for child in children if isinstance(child, _Part) and child.kind == kind), None)


def _all(children: list[Any], kind: type | tuple[type, ...]) -> tuple[Any, ...]:
    return tuple(child for child in children if isinstance(child, kind) and not isinstance(child, Token))


# ------------------------------------------------------------- expressions
def _number(children: list[Any], span: Span) -> ast.Number:
    values = [number_value(text) for text in _texts(children, "NUMBER")]
    return ast.Number(values[0], float(values[1]) if len(values) > 1 else None, span=span)


def _slice(children: list[Any], span: Span) -> ast.Slice:
    parts = {child.kind: child.items[0] for child in children if isinstance(child, _Part)}
    return ast.Slice(parts.get("start"), parts.get("stop"), parts.get("step_size"), span=span)


def _call(children: list[Any], span: Span) -> ast.Call:
    return ast.Call(children[0], children[1].items if len(children) > 1 else (), span=span)


def _flat(children: list[Any], span: Span) -> ast.Flat:
    _, name, *args = children
    place = Span(span.source, name.start_pos, name.end_pos)
    return ast.Flat(ast.Call(ast.Name(str(name), span=place), args[0].items if args else (), span=span), span=span)


def _comprehension(children: list[Any], span: Span) -> ast.Comprehension:
    element, name, iterable, *condition = children
    return ast.Comprehension(element, str(name), iterable, condition[0] if condition else None, span=span)


# ------------------------------------------------------------ heads, bodies
def _type(children: list[Any], span: Span) -> ast.Type:
    qualifier = next(iter(_texts(children)), None)
    names = tuple(child for child in children if isinstance(child, str) and not isinstance(child, Token))
    if qualifier is None and names == ("module",):
        names, qualifier = (), "module"  # of any class
    return ast.Type(names, qualifier, _part(children, "dims"), _has(children, "OPT"), span=span)


def _param(children: list[Any], span: Span) -> ast.Param:
    default = _part(children, "default")
    return ast.Param(
        _texts(children)[0],
        next(iter(_all(children, ast.Type)), None),
        default[0] if default else None,
        _has(children, "STAR"),
        _has(children, "OPT"),
        span=span,
    )


def _block(children: list[Any], span: Span) -> ast.Block:
    assigns = _all(children, ast.Assign)
    return ast.Block(assigns, tuple(children[len(assigns) :]), span=span)


def _assign(children: list[Any], span: Span) -> ast.Assign:
    first, *others, value = children
    return ast.Assign((str(first), *others), value, span=span)


def _rule_head(children: list[Any], span: Span) -> ast.Rule:
    return ast.Rule(
        str(children[0]), _part(children, "params") or (), (), None, _part(children, "template") or None, span=span
    )  # fmt: skip


# ----------------------------------------------------------------- clauses
def _example(children: list[Any], span: Span) -> ast.Example:
    bodies = _all(children, ast.Block)
    return ast.Example(
        _string(children),
        _part(children, "params") or (),
        bodies[0],
        bodies[1] if len(bodies) > 1 else None,
        span=span,
    )


def _numerics(children: list[Any], span: Span) -> ast.Numerics:
    settings: dict[str, float] = {}
    for child in children:
        if isinstance(child, _Part) and child.kind == "setting":
            name, value = child.items
            if name in settings:
                raise BadTree(Problem(span, "duplicate-setting", f"`{name}` is given twice"))
            settings[name] = float(value)
    for name in settings.keys() - {"slack", "rtol", "atol"}:
        hint = did_you_mean(name, ("slack", "rtol", "atol")) or "the settings are `slack`, `rtol` and `atol`"
        what = f"`{name}`: no such setting of `numerics`"
        raise BadTree(Problem(locate(span, name), "unknown-setting", what, hint))
    waivers, domain = _part(children, "waivers"), _part(children, "domain")
    return ast.Numerics(
        str(children[0]),
        _string(children),
        settings.get("slack"),
        settings.get("rtol"),
        settings.get("atol"),
        waivers=waivers[0] if waivers else (),
        domain=domain[0] if domain else None,
        span=span,
    )


def _priority(children: list[Any], span: Span) -> ast.Priority:
    if not isinstance(children[0], int):
        raise BadTree(Problem(span, "bad-number", f"a priority is a whole number, not `{children[0]}`"))
    return ast.Priority(children[0], span=span)


def _signed(children: list[Any], span: Span) -> int | float:
    value = number_value(_texts(children, "NUMBER")[0])
    return -value if _has(children, "MINUS") else value


# -------------------------------------------------------------- statements
def _family(children: list[Any], span: Span) -> ast.Family:
    name, *rest = children
    effects = next(i for i, child in enumerate(rest) if isinstance(child, _Part) and child.kind == "effects")
    spellings = tuple(rest[effects + 1 :])
    for spelling in spellings:
        if not isinstance(spelling, ast.Call):
            raise BadTree(Problem(spelling.span, "bad-spelling", "a spelling is a call, such as `F.relu(x)`"))
    names = tuple(str(effect) for effect in rest[effects].items)
    return ast.Family(str(name), _part(children, "params") or (), names, spellings, span=span)


def _pattern(children: list[Any], span: Span) -> ast.Pattern:
    limit = _limit(children, span, MAX_RECURSION)
    return ast.Pattern(str(children[0]), _part(children, "params") or (), children[-1], limit, span=span)


def _limit(children: list[Any], span: Span, most: int | None = None) -> int | None:
    limit = _part(children, "limit")
    value = number_value(str(limit[0])) if limit else None
    if value is not None and (not isinstance(value, int) or value < 1 or (most and value > most)):
        most_shown = f" to {most}" if most else ""
        raise BadTree(Problem(span, "bad-number", f"a limit is a whole number from 1{most_shown}, not `{value}`"))
    return value


def _step(children: list[Any], span: Span) -> ast.Step:
    value, condition = _limit(children, span), _part(children, "condition")
    return ast.Step(str(children[0]), children[1].items, value, condition[0] if condition else None, span=span)


def _keep_part(kind: str) -> Callable[[list[Any], Span], _Part]:
    return lambda children, span: _Part(kind, tuple(children))


_PARTS = (
    *("args", "start", "stop", "step_size", "entry", "params", "default", "dims", "setting", "waivers"),
    *("domain", "effects", "selectors", "limit", "condition"),
)
_Builder = Callable[[list[Any], Span], Any]
_BUILDERS: Mapping[str, _Builder] = MappingProxyType(
    {
        # expressions
        "name": lambda c, span: ast.Name(str(c[0]), span=span),
        "number": _number,
        "string": lambda c, span: ast.String(string_value(c[0]), span=span),
        "special": lambda c, span: ast.Special(str(c[0])[1:], span=span),
        "dots": lambda c, span: ast.Dots(span=span),
        "attribute": lambda c, span: ast.Attribute(c[0], str(c[1]), span=span),
        "keyword": lambda c, span: ast.Keyword(str(c[0]), c[1], span=span),
        "star": lambda c, span: ast.Star(c[1], span=span),
        "star_star": lambda c, span: ast.StarStar(str(c[1]), span=span),
        "call": _call,
        "flat": _flat,
        "slice": _slice,
        "item": lambda c, span: ast.Index(c[0], tuple(c[1:]), span=span),
        "optional": lambda c, span: ast.Optional(c[0], span=span),
        "unary": lambda c, span: ast.Unary(str(c[0]), c[1], span=span),
        "not_": lambda c, span: ast.Unary("not", c[-1], span=span),
        "binary": lambda c, span: ast.Binary(str(c[1]), c[0], c[2], span=span),
        "compare": lambda c, span: ast.Compare(tuple(c[1::2]), tuple(c[0::2]), span=span),
        "cmpop": lambda c, span: " ".join(c),
        "and_": lambda c, span: ast.And(tuple(c), span=span),
        "or_": lambda c, span: ast.Or(tuple(c), span=span),
        "if_else": lambda c, span: ast.IfElse(c[0], c[1], c[2], span=span),
        "as_": lambda c, span: ast.As(c[0], str(c[1]), span=span),
        "through": lambda c, span: ast.Through(c[0], c[1], span=span),
        "tuple": lambda c, span: ast.Tuple(tuple(c), span=span),
        "list": lambda c, span: ast.List(tuple(c), span=span),
        "dict": lambda c, span: ast.Dict(tuple(child.items for child in c), span=span),
        "comprehension": _comprehension,
        # heads and bodies
        "type": _type,
        "param": _param,
        "star_dim": lambda c, span: ast.StarDim(str(c[1]), span=span),
        "single": lambda c, span: ast.Block((), (c[0],), span=span),
        "block": _block,
        "assign": _assign,
        "target": lambda c, span: "".join(c),
        "rule_head": _rule_head,
        "pipeline_head": lambda c, span: ast.Pipeline(str(c[0]), (), span=span),
        # clauses
        "match": lambda c, span: ast.Match(c[0], span=span),
        "rewrite": lambda c, span: ast.Rewrite(c[0], span=span),
        "rewrite_via": lambda c, span: ast.RewriteVia(c[0], span=span),
        "where": lambda c, span: ast.Where(c[0], _string(c), span=span),
        "let": lambda c, span: ast.Let(c[0], span=span),
        "keep": lambda c, span: ast.Keep(c[0], span=span),
        "freeze": lambda c, span: ast.Freeze(c[0], span=span),
        "numerics": _numerics,
        "changes": lambda c, span: ast.Changes(c[0], span=span),
        "priority": _priority,
        "shrinks": lambda c, span: ast.Shrinks(c[0], span=span),
        "tags": lambda c, span: ast.Tags(c[0], span=span),
        "example": _example,
        # statements
        "requires": lambda c, span: ast.Requires(tuple(child.items for child in c), span=span),
        "requirement": lambda c, span: _Part("requirement", (str(c[0]), c[1], string_value(c[2]))),
        "import_path": lambda c, span: ast.Import(string_value(c[0]), str(c[1]), True, span=span),
        "import_library": lambda c, span: ast.Import(c[0], str(c[1]), span=span),
        "from_import": lambda c, span: ast.FromImport(c[0], c[1], span=span),
        "const": lambda c, span: ast.Const(str(c[0]), c[1], span=span),
        "opset": lambda c, span: ast.Opset(str(c[0]), tuple(c[1:]), span=span),
        "family": _family,
        "pattern": _pattern,
        "ruleset": lambda c, span: ast.Ruleset(str(c[0]), c[1].items, span=span),
        "selector": lambda c, span: ast.Selector(_all(c, str)[0], _has(c, "WILDCARD"), _has(c, "MINUS"), span=span),
        "step": _step,
        # words and lists
        "dotted": lambda c, span: ".".join(c),
        "names": lambda c, span: tuple(str(name) for name in c),
        "signed": _signed,
        "template": lambda c, span: _Part("template", (str(c[0]), str(c[1]))),
        **{kind: _keep_part(kind) for kind in _PARTS},
    }
)
