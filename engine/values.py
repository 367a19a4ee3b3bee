"""When two values of a graph are the same, and when a number equals a literal of a rule."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.fx import Node

from ..dsl import ast


def same_value(a: Any, b: Any) -> bool:
    """Whether two arguments are one value: the same node, reads of the same attribute, equal constants.

    ``1`` is ``1.0`` but ``True`` is not ``1``; nan is nan; tuples and slices go item by item.

    >>> same_value((1, float("nan")), (1.0, float("nan"))), same_value(1, True)
    (True, False)
    """
    if a is b:
        return True
    if isinstance(a, Node) or isinstance(b, Node):
        return isinstance(a, Node) and isinstance(b, Node) and a.op == "get_attr" == b.op and a.target == b.target
    if isinstance(a, bool) or isinstance(b, bool):
        return False
    if isinstance(a, int | float | complex) and isinstance(b, int | float | complex):
        return a == b or (a != a and b != b)
    if isinstance(a, list | tuple):
        return isinstance(b, list | tuple) and len(a) == len(b) and all(map(same_value, a, b))
    if isinstance(a, slice):
        return isinstance(b, slice) and same_value((a.start, a.stop, a.step), (b.start, b.stop, b.step))
    if isinstance(a, torch.Tensor) or isinstance(b, torch.Tensor):
        return False
    return type(a) is type(b) and bool(a == b)


def same_number(literal: ast.Number | float | int, value: Any, dtype: torch.dtype | None = None) -> bool:
    """Whether a constant of the graph equals a literal of a rule.

    Zero is ``0`` and ``0.0``, but not ``-0.0``. A decimal is compared after both are rounded to the
    dtype that the op computes in (float32 for the 16-bit types, exactly for float64 and where the
    dtype is unknown); ``0.8~1e-3`` allows that much difference.

    >>> same_number(0.1, 0.10000000149011612, torch.float16), same_number(0.1, 0.10000000149011612)
    (True, False)
    >>> same_number(0, 0.0), same_number(0, -0.0)
    (True, False)
    """
    tolerance = literal.tolerance if isinstance(literal, ast.Number) else None
    expected = literal.value if isinstance(literal, ast.Number) else literal
    if isinstance(expected, bool) or isinstance(value, bool):
        return expected is value
    if not isinstance(value, int | float | complex):
        return False
    if tolerance is not None:
        return abs(value - expected) <= tolerance
    if _same_real(value, expected) or (value != value and expected != expected):
        return True
    if dtype not in (torch.float16, torch.bfloat16, torch.float32) or isinstance(value, complex):
        return False
    if isinstance(value, int) and isinstance(expected, int):
        return False
    return _same_real(_float32(value), _float32(expected))


def _same_real(value: int | float | complex, expected: int | float) -> bool:
    """Equal, and of one sign if they are zero: ``x - 0`` keeps every bit of x, ``x - -0.0`` does not."""
    if value == expected == 0 and not isinstance(value, complex):
        return math.copysign(1, value) == math.copysign(1, expected)
    return value == expected


def _float32(value: float) -> float:
    try:
        return torch.tensor(float(value), dtype=torch.float32).item()
    except OverflowError:
        return math.copysign(math.inf, value)
