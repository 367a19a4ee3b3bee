"""Constants of a rule file: plain arithmetic, folded without running any code of the file."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from types import MappingProxyType

from . import ast

NAMED: Mapping[str, float] = MappingProxyType({"pi": math.pi, "inf": math.inf, "nan": math.nan})
FUNCTIONS: Mapping[str, Callable[[float], float]] = MappingProxyType(
    {"sqrt": math.sqrt, "log": math.log, "log2": math.log2, "exp": math.exp, "abs": abs}
)
_OPERATORS: Mapping[str, Callable[..., float]] = MappingProxyType(
    {
        "+": operator.add,
        "-": operator.sub,
        "*": operator.mul,
        "/": operator.truediv,
        "//": operator.floordiv,
        "%": operator.mod,
        "**": operator.pow,
        "<<": operator.lshift,
        ">>": operator.rshift,
    }
)
_LARGEST_POWER = 1024


def fold(expr: ast.Expr, known: Mapping[str, int | float]) -> int | float | None:
    """The number that an expression stands for, or None where it is not plain arithmetic (or has no value).

    >>> fold(ast.Binary("/", ast.Number(1), ast.Name("N")), {"N": 4})
    0.25
    """
    match expr:
        case ast.Number(value, None):
            return value
        case ast.Name(id):
            return known.get(id, NAMED.get(id))
        case ast.Unary("-", operand):
            inner = fold(operand, known)
            return None if inner is None else -inner
        case ast.Binary(op, left, right) if op in _OPERATORS:
            first, second = fold(left, known), fold(right, known)
            return None if first is None or second is None else _apply(op, first, second)
        case ast.Call(ast.Name(id), (argument,)) if id in FUNCTIONS:
            plain = None if isinstance(argument, ast.Keyword | ast.Star | ast.StarStar) else argument
            inner = None if plain is None else fold(plain, known)
            return None if inner is None else _call(id, inner)
    return None


def _apply(op: str, first: float, second: float) -> int | float | None:
    if op in ("**", "<<") and (abs(second) > _LARGEST_POWER or abs(first) > 1e300):
        return None
    try:
        result = _OPERATORS[op](first, second)
    except (ArithmeticError, TypeError, ValueError):
        return None
    return result if isinstance(result, int | float) else None


def _call(name: str, value: float) -> float | None:
    try:
        return FUNCTIONS[name](value)
    except (ArithmeticError, ValueError):
        return None
