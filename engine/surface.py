"""What the reference matcher reads off the tree: the op behind an operator, the names a rule declares."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TypeAlias

import attrs
from attrs import frozen

from ..dsl import ast
from .constants import named_constant
from .starred import is_rest, star_depths, varying

Pattern: TypeAlias = "ast.Expr | ast.Star | ast.Slice | Op | Below"
Argument: TypeAlias = "Pattern | ast.Keyword | ast.StarStar"
BINARY: Mapping[str, str] = {
    "+": "add", "-": "sub", "*": "mul", "/": "div", "//": "floor_divide", "%": "remainder", "@": "matmul", "**": "pow",
    "<<": "bitwise_left_shift", ">>": "bitwise_right_shift", "&": "bitwise_and", "|": "bitwise_or", "^": "bitwise_xor",
}  # fmt: skip
UNARY: Mapping[str, str] = {"-": "neg", "~": "bitwise_not"}
COMPARED: Mapping[str, str] = {"==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}


@frozen
class Op:
    """An op of a family that is not written as a call; ``optional`` if its first operand alone will do."""

    family: str
    args: tuple[Pattern, ...]
    optional: bool = False


@frozen
class Below:
    """What stands in one step of ``value through name``: the same again, but not at the value ``above``."""

    value: ast.Expr
    name: str
    above: object


def op_of(pattern: Pattern) -> Op | None:
    """The op that an operator or an attribute stands for.

    >>> op_of(ast.Unary("-", ast.Name("x")))
    Op(family='neg', args=(Name(id='x'),), optional=False)
    """
    match pattern:
        case Op():
            return pattern
        case ast.Binary(op, left, right) if op in BINARY:
            return Op(BINARY[op], (left, right))
        case ast.Compare((op,), operands) if op in COMPARED:
            return Op(COMPARED[op], operands)
        case ast.Unary(op, operand) if op in UNARY:
            return Op(UNARY[op], (operand,))
        case ast.Attribute(base, name):
            return Op(name, (base,))
    return None


def dotted(expr: ast.Expr) -> str | None:
    """``aten.add.Tensor`` as text; None for what is not a chain of names."""
    match expr:
        case ast.Name(id):
            return id
        case ast.Attribute(base, name):
            head = dotted(base)
            return None if head is None else f"{head}.{name}"
    return None


# ------------------------------------------------------------------ arguments
@frozen
class Given:
    """The arguments of a call: (place, pattern) in written order, ``**cfg``, whether ``...`` stands."""

    places: tuple[tuple[int, Pattern], ...]
    config: str | None = None
    loose: bool = False


def by_place(names: Sequence[str], args: Sequence[Argument]) -> Given | None:
    """The arguments of a call by the place of their parameter; None if they do not fit the parameters.

    >>> by_place(["input", "dim"], [ast.Name("x"), ast.Keyword("dim", ast.Number(1))]).places[1][0]
    1
    """
    places: list[tuple[int, Pattern]] = []
    config, loose = None, False
    for place, arg in enumerate(args):
        match arg:
            case ast.StarStar(name):
                config = name
            case ast.Dots():
                loose = True
            case ast.Keyword(name, value):
                places.append((names.index(name) if name in names else len(names), value))
            case _:
                places.append((place, arg))
    taken = [place for place, _ in places]
    fits = len(set(taken)) == len(taken) and all(place < len(names) for place in taken)
    return Given(tuple(places), config, loose) if fits else None


# -------------------------------------------------------------------- indices
def index_chain(base: ast.Expr, items: Sequence[ast.Expr | ast.Slice | ast.Dots]) -> ast.Expr | Op:
    """What the index is at aten level: ``slice``, ``select`` and ``unsqueeze``, the last item outermost.

    Dims are counted from the front, behind ``...`` from the back. A whole slice ``:`` may
    be there as an op or not: export writes one where the size is symbolic.
    """
    chain: ast.Expr | Op = base
    front = 0
    behind_dots = False
    for place, item in enumerate(items):
        to_come = sum(_reads_a_dim(later) for later in items[place:])
        match item:
            case ast.Dots():
                behind_dots = True
                continue
            case ast.Name("None"):
                dim = -1 - to_come if behind_dots else front
                chain = Op("unsqueeze", (chain, ast.Number(dim)))
            case ast.Slice(start, stop, step):
                dim = -to_come if behind_dots else front
                bounds = (_start(start), stop or _TO_THE_END, step or ast.Number(1))
                chain = Op("slice", (chain, ast.Number(dim), *bounds), optional=item == ast.Slice())
            case _:
                dim = -to_come if behind_dots else front
                chain = Op("select", (chain, ast.Number(dim), item))
                continue
        front += 1
    return chain


_FROM_THE_START = ast.Or((ast.Name("None"), ast.Number(0)))
_TO_THE_END = ast.Or((ast.Name("None"), ast.Number(sys.maxsize)))


def _start(start: ast.Expr | None) -> ast.Expr:
    return _FROM_THE_START if start in (None, ast.Number(0)) else start


def _reads_a_dim(item: ast.Expr | ast.Slice | ast.Dots) -> bool:
    return not isinstance(item, ast.Dots) and item != ast.Name("None")


# ---------------------------------------------------------------------- names
def declared_names(statement: ast.Rule | ast.Pattern, constants: Collection[str] = ()) -> tuple[str, ...]:
    """Every name that a rule or pattern declares: parameters, assigned names, captures; in order, no repeats.

    ``constants`` are names that mean a number wherever they are not declared.
    """
    names = [param.name for param in statement.params]
    depths = star_depths(statement)
    if isinstance(statement, ast.Pattern):
        names += _captured(statement.body, depths)
    else:
        constants = {*constants, *header_dims(statement.params)}
        for clause in statement.clauses:
            if isinstance(clause, ast.Match):
                names += [name.lstrip("*") for assign in clause.body.assigns for name in assign.targets]
                names += _captured(clause.body, depths)
    known = {param.name for param in statement.params}
    free = (name for name in names if name in known or not (name in constants or named_constant(name)[0]))
    return tuple(name for name in dict.fromkeys(free) if name != "_")


def _captured(tree: object, depths: Mapping[str, int]) -> Iterator[str]:
    """The names of ``as``, ``*rest``, ``**cfg`` and in ``*relu(xs)`` of a pattern, in written order."""
    match tree:
        case ast.As(value, name):
            yield from _captured(value, depths)
            yield name
        case ast.StarStar(name) | ast.Star(ast.Name(name)):
            yield name
        case ast.Star(value) if not is_rest(tree):
            yield from sorted(varying(value, depths))
            yield from _captured(value, depths)
        case tuple():
            for item in tree:
                yield from _captured(item, depths)
        case _:
            for name in _parts(type(tree)):
                yield from _captured(getattr(tree, name), depths)


def _parts(kind: type) -> tuple[str, ...]:
    return tuple(part.name for part in attrs.fields(kind) if part.eq) if attrs.has(kind) else ()


def header_dims(params: Sequence[ast.Param]) -> frozenset[str]:
    """The names in declared shapes, ``*B`` included, that are not parameters themselves."""
    dims = [dim for param in params if param.type for dim in param.type.dims or ()]
    return frozenset(name for dim in dims for name in dim_names(dim)) - {param.name for param in params}


def dim_names(dim: object) -> Iterator[str]:
    """The names in one dim of a declared shape: ``E`` in ``3 * E``, ``B`` in ``*B``."""
    match dim:
        case ast.StarDim(name) | ast.Name(name):
            yield name
        case ast.Binary(_, left, right):
            yield from dim_names(left)
            yield from dim_names(right)
        case ast.Unary(_, operand):
            yield from dim_names(operand)
