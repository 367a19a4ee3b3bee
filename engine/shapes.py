"""Declared shapes against real ones: ``*B``, ``L`` and ``3 * E`` get their sizes, or the reason why not.

All parameters are solved together, whatever their order: an equation that has one
unknown left gives it, until nothing changes; then the rest is reported.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import torch
from attrs import frozen

from ..dsl import ast
from .candidates import Mismatch
from .surface import dim_names
from .truth import Declined, Size, Unknown, decide, equal

Dim: TypeAlias = ast.Expr | ast.StarDim | ast.Dots
Sizes: TypeAlias = dict[str, "Size | tuple[Size, ...]"]
_OPERATORS: Mapping[str, Callable[[Any, Any], Size]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "//": operator.floordiv, "%": operator.mod,
}  # fmt: skip


@frozen
class Declared:
    """A parameter's declared dims and the sizes that its value has."""

    name: str
    dims: tuple[Dim, ...]
    sizes: tuple[Size, ...]


@frozen
class _Equation:
    """One dim: ``expr`` (in parameter ``name``) must be ``size``."""

    name: str
    expr: ast.Expr
    size: Size


def solve(shapes: Sequence[Declared], known: Mapping[str, object]) -> Sizes | Mismatch:
    """The sizes of all dims, star dims as tuples; ``known`` has numbers that dims may name.

    >>> x = Declared("x", (ast.StarDim("B"), ast.Binary("*", ast.Number(3), ast.Name("E"))), (2, 5, 12))
    >>> solve([x], {})
    {'B': (2, 5), 'E': 4}
    """
    found: Sizes = {name: value for name, value in known.items() if isinstance(value, int | torch.SymInt | tuple)}
    given = set(found)
    pending: list[Declared | _Equation] = list(shapes)
    try:
        while pending:
            later: list[Declared | _Equation] = []
            for one in pending:
                later += _expand(one, found) if isinstance(one, Declared) else _settle(one, found)
            if later == pending:
                return _stuck(later[0])
            pending = later
    except _Conflict as conflict:
        return conflict.mismatch
    return {name: size for name, size in found.items() if name not in given}


class _Conflict(Exception):
    def __init__(self, mismatch: Mismatch) -> None:
        self.mismatch = mismatch
        super().__init__(mismatch.reason)


def _conflict(reason: str) -> _Conflict:
    return _Conflict(Mismatch("shape", reason))


def _stuck(one: Declared | _Equation) -> Mismatch:
    what = f"the dims {spell_dims(one.dims)}" if isinstance(one, Declared) else f"`{spell_dim(one.expr)}`"
    return Mismatch("shape", f"{what} of `{one.name}` cannot be solved from the declared shapes")


def _expand(shape: Declared, found: Sizes) -> list[Declared | _Equation]:
    """One equation per dim, once the lengths of all but one star dim are known; else the shape again."""
    lengths = [_length(dim, found) for dim in shape.dims]
    open_places = [i for i, length in enumerate(lengths) if length is None]
    if len(open_places) > 1:
        return [shape]
    fixed = sum(length for length in lengths if length is not None)
    left = len(shape.sizes) - fixed
    if left < 0 or (left > 0 and not open_places):
        least = "at least " if open_places else ""
        raise _conflict(
            f"`{shape.name}` must have {least}{fixed} dims {spell_dims(shape.dims)}, it has {len(shape.sizes)}"
        )
    equations: list[Declared | _Equation] = []
    at = 0
    for dim, length in zip(shape.dims, lengths, strict=True):
        sizes = shape.sizes[at : at + (left if length is None else length)]
        at += len(sizes)
        match dim:
            case ast.Dots():
                pass
            case ast.StarDim(name):
                _unify_star(shape.name, name, sizes, found)
            case _:
                equations.append(_Equation(shape.name, dim, sizes[0]))
    return equations


def _length(dim: Dim, found: Sizes) -> int | None:
    match dim:
        case ast.Dots():
            return None
        case ast.StarDim(name):
            sizes = found.get(name)
            return len(sizes) if isinstance(sizes, tuple) else None
    return 1


def _unify_star(owner: str, name: str, sizes: tuple[Size, ...], found: Sizes) -> None:
    before = found.setdefault(name, sizes)
    if isinstance(before, tuple) and len(before) == len(sizes):
        for first, second in zip(before, sizes, strict=True):
            _require(first, second, f"`*{name}` is {_show(before)} and, in `{owner}`, {_show(sizes)}")
    elif before is not sizes:
        raise _conflict(f"`*{name}` is {_show(before)} and, in `{owner}`, {_show(sizes)}")


def _settle(equation: _Equation, found: Sizes) -> list[Declared | _Equation]:
    """Check an equation without unknowns, solve one with one; else give it back."""
    unknown = [name for name in dict.fromkeys(dim_names(equation.expr)) if name not in found]
    if not unknown:
        value = _value(equation.expr, found)
        shown = spell_dim(equation.expr)
        what = f"`{shown}` is {value}" if shown != str(value) else f"a dim of {shown} is declared"
        _require(value, equation.size, f"{what}, but `{equation.name}` has {equation.size} there")
        return []
    if len(unknown) > 1:
        return [equation]
    solution = _solution(equation, unknown[0], found)
    if solution is None:
        return [equation]
    found[unknown[0]] = solution
    return []


def _solution(equation: _Equation, unknown: str, found: Sizes) -> Size | None:
    """The size of the one unknown of an equation that is linear in it; None if it is not linear."""
    if isinstance(equation.expr, ast.Name):
        return equation.size
    try:
        at = [_value(equation.expr, {**found, unknown: point}) for point in (0, 1, 2, 3)]
        start, slope = at[0], at[1] - at[0]
        linear = all(equal(at[i], start + slope * i) for i in (2, 3)) and not equal(slope, 0)
    except (Unknown, _Conflict):
        return None
    if not linear:
        return None
    rest = equation.size - start
    _require(
        _arithmetic("%", rest, slope),
        0,
        f"`{spell_dim(equation.expr)}` cannot be {equation.size}, as `{equation.name}` has it",
    )
    solution: Size = rest // slope
    if isinstance(solution, int) and solution < 0:
        raise _conflict(f"`{unknown}` would be negative: `{spell_dim(equation.expr)}` is {equation.size}")
    return solution


def _require(first: Size, second: Size, otherwise: str) -> None:
    try:
        same = decide(first == second)
    except Unknown as unknown:
        raise _Conflict(Mismatch("missing fact", f"{otherwise}; {unknown}")) from unknown
    if not same:
        raise _conflict(otherwise)


def _value(expr: ast.Expr, found: Mapping[str, object]) -> Size:
    match expr:
        case ast.Number(value) if isinstance(value, int):
            return value
        case ast.Name(id):
            size = found[id]
            if isinstance(size, int | torch.SymInt):
                return size
        case ast.Unary("-", operand):
            return -_value(operand, found)
        case ast.Binary(op, left, right):
            return _arithmetic(op, _value(left, found), _value(right, found))
    raise Declined(f"`{spell_dim(expr)}` is no size")


def _arithmetic(op: str, first: Any, second: Any) -> Size:
    if op not in _OPERATORS:
        raise Declined(f"`{op}` does not stand in a declared shape")
    try:
        return _OPERATORS[op](first, second)
    except ZeroDivisionError as error:
        raise _conflict("a declared dim divides by zero") from error


def spell_dims(dims: Sequence[Dim]) -> str:
    """Declared dims as they are written: ``[*B, 3 * E]``."""
    return f"[{', '.join(spell_dim(dim) for dim in dims)}]"


def spell_dim(dim: Dim) -> str:
    """One declared dim as it is written."""
    match dim:
        case ast.Dots():
            return "..."
        case ast.StarDim(name):
            return f"*{name}"
        case ast.Name(id):
            return id
        case ast.Number(value):
            return str(value)
        case ast.Unary(op, operand):
            return f"{op}{spell_dim(operand)}"
        case ast.Binary(op, left, right):
            return f"{spell_dim(left)} {op} {spell_dim(right)}"
    return "?"


def _show(size: Size | tuple[Size, ...]) -> str:
    return str(list(size)) if isinstance(size, tuple) else str(size)
