"""What names mean at a place of a pattern, for lowering: constants, dims, leaves, families; and how to refuse."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import count
from typing import NoReturn, TypeAlias

from attrs import field, frozen

from ..dsl import ast
from ..dsl.nearest import did_you_mean
from ..dsl.source import FxrulesError, Problem, Span
from .constants import fold, named_constant
from .families import Family
from .patterns import Anything, Bind, Called, Deferred, Exact, Literal, Term
from .ruleset import Scope, find_pattern

Argument: TypeAlias = ast.Expr | ast.Keyword | ast.Star | ast.StarStar

# The families that operators stand for.
BINARY_FAMILIES: Mapping[str, str] = {
    "+": "add", "-": "sub", "*": "mul", "/": "div", "//": "floor_divide", "%": "remainder", "@": "matmul",
    "**": "pow", "<<": "bitwise_left_shift", ">>": "bitwise_right_shift", "&": "bitwise_and", "|": "bitwise_or",
    "^": "bitwise_xor",
}  # fmt: skip
UNARY_FAMILIES: Mapping[str, str] = {"-": "neg", "~": "bitwise_not"}


@frozen
class Frame:
    """Where an expression stands: its scope, the names it sees, and the way in.

    ``prefix`` marks the slots of an inlined pattern; ``inside`` are the patterns
    being inlined, to end recursion. In the pattern of a list's elements, ``outer`` is the
    frame around it and ``own`` are the names that each element has for itself; ``depths`` says
    under how many stars a name is.
    """

    scope: Scope
    leaves: Mapping[str, ast.Param]
    dims: frozenset[str]
    names: Mapping[str, Term] = field(factory=dict)
    prefix: str = ""
    inside: tuple[ast.Pattern, ...] = ()
    fresh: Iterator[int] = field(factory=count)
    depths: Mapping[str, int] = field(factory=dict)
    outer: Frame | None = None
    own: frozenset[str] = frozenset()

    def slot(self, name: str) -> str:
        """What a capture of this name is called in terms."""
        frame = self
        while frame.outer is not None and name not in frame.own:
            frame = frame.outer
        return frame.prefix + name


def header_dims(params: tuple[ast.Param, ...]) -> frozenset[str]:
    """All dim names in the declared shapes, ``*B`` and those in ``3 * E`` included."""
    found: set[str] = set()
    pending: list[object] = [dim for param in params if param.type and param.type.dims for dim in param.type.dims]
    while pending:
        match pending.pop():
            case ast.StarDim(name) | ast.Name(name):
                found.add(name)
            case ast.Binary(_, left, right):
                pending += [left, right]
            case ast.Unary(_, operand):
                pending.append(operand)
    return frozenset(found)


def refuse(span: Span | None, what: str, hint: str = "") -> NoReturn:
    raise FxrulesError(Problem(span, "unsupported", f"{what} is not supported by this version of fxrules", hint))


def report(span: Span | None, code: str, message: str, hint: str = "") -> NoReturn:
    raise FxrulesError(Problem(span, code, message, hint))


def plain(arg: Argument) -> ast.Expr:
    """An argument that must be one expression; raises FxrulesError for ``*x``, ``**cfg`` and ``name=x``."""
    match arg:
        case ast.Star(span=span):
            refuse(span, "`*` at this place of a pattern")
        case ast.StarStar(span=span):
            refuse(span, "`**` in a call of a named pattern or an exact target")
        case ast.Keyword(name, span=span):
            report(span, "arity", f"`{name}=` cannot stand here")
        case _:
            return arg


def static_term(expr: ast.Expr, frame: Frame) -> Term | None:
    """The term of a rewrite-time expression: a literal, or deferred where it needs dims."""
    match expr:
        case ast.Number(value):
            return Literal(value, expr)
        case ast.Unary("-", ast.Number(value, tolerance)):
            return Literal(-value, ast.Number(-value, tolerance))
        case ast.Name(id) if id not in frame.dims:
            return None  # a lone name is resolved by `name_term`, which knows what shadows what
    known = {
        name: value
        for name, value in frame.scope.constants.items()
        if name not in frame.leaves and name not in frame.names
    }
    folded = fold(expr, known)
    if folded is not None:
        return Literal(folded, ast.Number(folded))
    hidden = frame.leaves.keys() | frame.names.keys()
    stand_ins = dict.fromkeys(frame.dims - hidden, 1)
    return Deferred(expr) if stand_ins and fold(expr, {**known, **stand_ins}) is not None else None


def name_term(id: str, span: Span | None, frame: Frame) -> Term:
    if id == "_":
        return Anything()
    if id in frame.names:
        return frame.names[id]
    if id in frame.leaves:
        return Bind(frame.slot(id))
    if id in frame.scope.constants:
        value = frame.scope.constants[id]
        return Literal(value, ast.Number(value))
    found, constant = named_constant(id)
    if found:
        return Literal(constant, ast.Number(constant) if isinstance(constant, float) else None)
    if frame.prefix:
        return Bind(frame.slot(id))
    return report(span, "unbound", f"`{id}` is not declared in the rule's header", did_you_mean(id, frame.leaves))


def called(leaf: ast.Param, call: Exact, span: Span | None) -> Term:
    """The term of a call of a leaf, which must be a module; its arguments were lowered as those of an exact target."""
    if leaf.type is None or leaf.type.qualifier != "module":
        report(span, "not-an-op", f"`{leaf.name}` is a value and not an op")
    kind = next(iter(leaf.type.names), None)
    return Called(leaf.name, kind, call.positional, call.keywords, call.loose)


def family_named(name: str, span: Span | None, frame: Frame) -> Family:
    family = frame.scope.table.families.get(frame.scope.ops.get(name, name))
    if family is None:
        report(span, "unknown-op", f"`{name}`: no such op", did_you_mean(name, frame.scope.table.families))
    return family


def dotted(expr: ast.Expr) -> str | None:
    match expr:
        case ast.Name(id):
            return id
        case ast.Attribute(value, name):
            head = dotted(value)
            return f"{head}.{name}" if head else None
    return None


def first_argument(call: ast.Call, frame: Frame) -> ast.Expr:
    """What is left of ``wrap(x)?`` without the wrapper."""
    match call.func:
        case ast.Attribute(base) if is_method(call.func, frame):
            return base
    if not call.args:
        report(call.span, "arity", "an optional wrapper needs an argument")
    first = call.args[0]
    return first.value if isinstance(first, ast.Keyword) else plain(first)


def is_method(func: ast.Attribute, frame: Frame) -> bool:
    """Whether ``x.f(...)`` calls an op on ``x``, and not the exact target ``x.f``."""
    if find_pattern(func, frame.scope):
        return False
    target = dotted(func)
    return target is None or target.partition(".")[0] in (frame.leaves.keys() | frame.names.keys() | frame.own)
