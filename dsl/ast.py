"""The tree of a `.rules` file: frozen attrs classes, each with its span.

Spans and comments take no part in equality, so two texts that mean the same
compare equal. ``comments`` stand above a piece (``""`` is a blank line between
two groups), ``trailing`` at the end of its last line, ``closing_comments`` before
the brace that closes it. One expression grammar serves both phases: where an expression
stands (a ``match`` body, a ``where``) decides what it means, not its class.
"""

from __future__ import annotations

from typing import TypeAlias

from attrs import field, frozen

from .source import Span


def _span() -> Span | None:
    place: Span | None = field(default=None, eq=False, repr=False, kw_only=True)
    return place


def _comments() -> tuple[str, ...]:
    return field(default=(), eq=False, repr=False, kw_only=True)


def _trailing() -> str:
    return field(default="", eq=False, repr=False, kw_only=True)


# ------------------------------------------------------------- expressions
@frozen
class Name:
    """A variable, op, constant or module name: ``x``, ``softmax``."""

    id: str
    span: Span | None = _span()


@frozen
class Number:
    """A literal number as written; ``tolerance`` is the part behind ``~``."""

    value: int | float
    tolerance: float | None = None
    span: Span | None = _span()


@frozen
class String:
    value: str
    span: Span | None = _span()


@frozen
class Special:
    """``$out`` in a ``where``, ``$any`` in an ``example``."""

    id: str
    span: Span | None = _span()


@frozen
class Dots:
    """``...`` inside an index."""

    span: Span | None = _span()


@frozen
class Attribute:
    """``x.dtype``, ``k.mT``, ``aten.add.Tensor``."""

    value: Expr
    name: str
    span: Span | None = _span()


@frozen
class Keyword:
    """A keyword argument ``name=value`` of a call."""

    name: str
    value: Expr
    span: Span | None = _span()


@frozen
class Star:
    """``*value``: the rest of a list or argument list."""

    value: Expr
    span: Span | None = _span()


@frozen
class StarStar:
    """``**cfg``: all arguments that the pattern does not mention."""

    name: str
    span: Span | None = _span()


@frozen
class Call:
    func: Expr
    args: tuple[Expr | Keyword | Star | StarStar | Dots, ...] = ()
    span: Span | None = _span()


@frozen
class Slice:
    """``start : stop : step`` inside an index."""

    start: Expr | None = None
    stop: Expr | None = None
    step: Expr | None = None
    span: Span | None = _span()


@frozen
class Index:
    """``value[i, a:b, ...]``."""

    value: Expr
    items: tuple[Expr | Slice | Dots, ...]
    span: Span | None = _span()


@frozen
class Optional:
    """``v?``: an argument or operand that may be absent."""

    value: Expr
    span: Span | None = _span()


@frozen
class Unary:
    """``-x``, ``~x`` or ``not x``."""

    op: str
    operand: Expr
    span: Span | None = _span()


@frozen
class Binary:
    """``+ - * / // % @ ** << >> & ^ |`` and ``??`` (the first bound value)."""

    op: str
    left: Expr
    right: Expr
    span: Span | None = _span()


@frozen
class Compare:
    """A chain ``a < b <= c``; ``ops`` has one entry fewer than ``operands``.

    Ops: ``== != < <= > >= in "not in" is "is not"``.
    """

    ops: tuple[str, ...]
    operands: tuple[Expr, ...]
    span: Span | None = _span()


@frozen
class And:
    operands: tuple[Expr, ...]
    span: Span | None = _span()


@frozen
class Or:
    """Alternatives in a pattern (first one first); a disjunction in a ``where``."""

    operands: tuple[Expr, ...]
    span: Span | None = _span()


@frozen
class IfElse:
    """``then if test else other``."""

    then: Expr
    test: Expr
    other: Expr
    span: Span | None = _span()


@frozen
class As:
    """``pattern as name``."""

    value: Expr
    name: str
    span: Span | None = _span()


@frozen
class Through:
    """``pattern through unary``: any number of nodes that ``unary`` matches on top of it."""

    value: Expr
    name: str
    span: Span | None = _span()


@frozen
class Flat:
    """``flat add(*xs)``: a sum of any nesting as one list of operands."""

    call: Call
    span: Span | None = _span()


@frozen
class Tuple:
    items: tuple[Expr, ...] = ()
    span: Span | None = _span()


@frozen
class List:
    items: tuple[Expr | Star, ...] = ()
    span: Span | None = _span()


@frozen
class Dict:
    entries: tuple[tuple[Expr, Expr], ...] = ()
    span: Span | None = _span()


@frozen
class Comprehension:
    """``[element for name in iterable]``, with ``if condition`` where given."""

    element: Expr
    name: str
    iterable: Expr
    condition: Expr | None = None
    span: Span | None = _span()


Expr: TypeAlias = (
    Name | Number | String | Special | Dots | Attribute | Call | Index | Optional | Unary | Binary | Compare
    | And | Or | IfElse | As | Through | Flat | Tuple | List | Dict | Comprehension
)  # fmt: skip


# ------------------------------------------------------------------ bodies
@frozen
class Assign:
    """``a, *b = value`` in a block or a ``let``; a starred target is ``"*b"``."""

    targets: tuple[str, ...]
    value: Expr
    comments: tuple[str, ...] = _comments()
    trailing: str = _trailing()
    span: Span | None = _span()


@frozen
class Block:
    """``{ a = ...  return x, y }``; a body that is one expression has no assigns."""

    assigns: tuple[Assign, ...]
    results: tuple[Expr | Star, ...]
    comments: tuple[str, ...] = _comments()
    trailing: str = _trailing()
    closing_comments: tuple[str, ...] = _comments()
    span: Span | None = _span()


# ------------------------------------------------------------------ header
@frozen
class StarDim:
    """``*B`` in a shape: any number of dims."""

    name: str
    span: Span | None = _span()


@frozen
class Type:
    """``const float|int[*B, L, E]?``.

    ``names`` are joined by ``|``; ``dims`` is None without brackets, and ``Dots``
    in it stands for any shape. ``qualifier`` is ``"const"``, ``"module"`` or None. A module of
    any class has no name.
    """

    names: tuple[str, ...]
    qualifier: str | None = None
    dims: tuple[Expr | StarDim | Dots, ...] | None = None
    optional: bool = False
    span: Span | None = _span()


@frozen
class Param:
    """One declared leaf. ``star`` for ``*xs``; ``optional`` for ``weight?`` in a family."""

    name: str
    type: Type | None = None
    default: Expr | None = None
    star: bool = False
    optional: bool = False
    span: Span | None = _span()


# ----------------------------------------------------------------- clauses
@frozen
class Match:
    body: Block
    comments: tuple[str, ...] = _comments()
    trailing: str = _trailing()
    span: Span | None = _span()


@frozen
class Where:
    condition: Expr
    reason: str | None = None
    comments: tuple[str, ...] = _comments()
    trailing: str = _trailing()
    span: Span | None = _span()


@frozen
class Let:
    assign: Assign
    comments: tuple[str, ...] = _comments()
    trailing: str = _trailing()
    span: Span | None = _span()


@frozen
class Keep:
    names: tuple[str, ...]
    comments: tuple[str, ...] = _comments()
    trailing: str = _trailing()
    span: Span | None = _span()


@frozen
class Freeze:
    names: tuple[str, ...]
    comments: tuple[str, ...] = _comments()
    trailing: str = _trailing()
    span: Span | None = _span()


@frozen
class Rewrite:
    body: Block
    comments: tuple[str, ...] = _comments()
    trailing: str = _trailing()
    span: Span | None = _span()


@frozen
class RewriteVia:
    """``rewrite via f(x, y)``."""

    call: Expr
    comments: tuple[str, ...] = _comments()
    trailing: str = _trailing()
    span: Span | None = _span()


@frozen
class Numerics:
    level: str
    reason: str | None = None
    slack: float | None = None
    rtol: float | None = None
    atol: float | None = None
    waivers: tuple[str, ...] = ()
    domain: Expr | None = None
    comments: tuple[str, ...] = _comments()
    trailing: str = _trailing()
    span: Span | None = _span()


@frozen
class Changes:
    names: tuple[str, ...]
    comments: tuple[str, ...] = _comments()
    trailing: str = _trailing()
    span: Span | None = _span()


@frozen
class Priority:
    value: int
    comments: tuple[str, ...] = _comments()
    trailing: str = _trailing()
    span: Span | None = _span()


@frozen
class Shrinks:
    measure: Expr
    comments: tuple[str, ...] = _comments()
    trailing: str = _trailing()
    span: Span | None = _span()


@frozen
class Tags:
    names: tuple[str, ...]
    comments: tuple[str, ...] = _comments()
    trailing: str = _trailing()
    span: Span | None = _span()


@frozen
class Example:
    """``expected`` is None for ``=> unchanged``."""

    label: str | None
    params: tuple[Param, ...]
    body: Block
    expected: Block | None
    comments: tuple[str, ...] = _comments()
    trailing: str = _trailing()
    span: Span | None = _span()


Clause: TypeAlias = (
    Match | Where | Let | Keep | Freeze | Rewrite | RewriteVia | Numerics | Changes | Priority | Shrinks | Tags
    | Example
)  # fmt: skip


# -------------------------------------------------------------- statements
@frozen
class Requires:
    """``requires fxrules >= "0.1", torch >= "2.13"``: (name, operator, version) each."""

    requirements: tuple[tuple[str, str, str], ...]
    comments: tuple[str, ...] = _comments()
    trailing: str = _trailing()
    span: Span | None = _span()


@frozen
class Import:
    """``import std.shape as shape`` (``is_path`` False) or ``import "a.rules" as a``."""

    target: str
    alias: str
    is_path: bool = False
    comments: tuple[str, ...] = _comments()
    trailing: str = _trailing()
    span: Span | None = _span()


@frozen
class FromImport:
    module: str
    names: tuple[str, ...]
    comments: tuple[str, ...] = _comments()
    trailing: str = _trailing()
    span: Span | None = _span()


@frozen
class Const:
    name: str
    value: Expr
    comments: tuple[str, ...] = _comments()
    trailing: str = _trailing()
    span: Span | None = _span()


@frozen
class Opset:
    name: str
    members: tuple[str, ...]
    comments: tuple[str, ...] = _comments()
    trailing: str = _trailing()
    span: Span | None = _span()


@frozen
class Family:
    """A team's op family; ``spellings`` are calls such as ``vllm.rms_norm(x, weight, eps)``."""

    name: str
    params: tuple[Param, ...]
    effects: tuple[str, ...]
    spellings: tuple[Call, ...]
    comments: tuple[str, ...] = _comments()
    trailing: str = _trailing()
    span: Span | None = _span()


@frozen
class Pattern:
    """``pattern chain(x) limit 8 = ...``: ``limit`` is how often it may stand inside itself, itself included."""

    name: str
    params: tuple[Param, ...]
    body: Expr
    limit: int | None = None
    comments: tuple[str, ...] = _comments()
    trailing: str = _trailing()
    span: Span | None = _span()


@frozen
class Rule:
    """``template`` is ``(variable, opset)`` for ``rule r[f in ops](...)``."""

    name: str
    params: tuple[Param, ...]
    clauses: tuple[Clause, ...]
    doc: str | None = None
    template: tuple[str, str] | None = None
    comments: tuple[str, ...] = _comments()
    trailing: str = _trailing()
    closing_comments: tuple[str, ...] = _comments()
    span: Span | None = _span()


@frozen
class Selector:
    """``shape.*`` is ``("shape", True)``; ``- shape.legacy_view`` has ``minus``."""

    name: str
    wildcard: bool = False
    minus: bool = False
    span: Span | None = _span()


@frozen
class Ruleset:
    name: str
    selectors: tuple[Selector, ...]
    comments: tuple[str, ...] = _comments()
    trailing: str = _trailing()
    span: Span | None = _span()


@frozen
class Step:
    strategy: str
    selectors: tuple[Selector, ...]
    limit: int | None = None
    condition: Expr | None = None
    comments: tuple[str, ...] = _comments()
    trailing: str = _trailing()
    span: Span | None = _span()


@frozen
class Pipeline:
    name: str
    steps: tuple[Step, ...]
    comments: tuple[str, ...] = _comments()
    trailing: str = _trailing()
    closing_comments: tuple[str, ...] = _comments()
    span: Span | None = _span()


Statement: TypeAlias = Requires | Import | FromImport | Const | Opset | Family | Pattern | Rule | Ruleset | Pipeline


@frozen
class File:
    """A whole `.rules` file; ``closing_comments`` stand after the last statement."""

    statements: tuple[Statement, ...]
    doc: str | None = None
    comments: tuple[str, ...] = _comments()
    closing_comments: tuple[str, ...] = _comments()
    span: Span | None = _span()
