"""Constants in a pattern, for the reference matcher: what they are worth and which values they equal."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from ..dsl import ast
from .constants import fold, named_constant
from .environment import Frame, Slot
from .nodeview import Value, Views, normalise_dim, same_number, same_value
from .surface import Pattern


def is_constant(pattern: Pattern, frame: Frame) -> bool:
    """Whether the pattern is a constant, or becomes one once the header's dims are known."""
    match pattern:
        case ast.Number() | ast.String():
            return True
        case ast.Name(id):
            known = id in frame.dims or id in frame.scope.constants or named_constant(id)[0]
            return known and id not in frame.variables
        case ast.Unary() | ast.Binary() | ast.Call():
            return fold(pattern, {**_numbers(frame), **dict.fromkeys(frame.dims, 1)}) is not None
    return False


def literal_of(pattern: Pattern, frame: Frame) -> object:
    """The constant's value, an `ast.Number` where it is written as one; DIMS where only the dims decide."""
    match pattern:
        case ast.Number():
            return pattern
        case ast.Unary("-", ast.Number(number, tolerance)):
            return ast.Number(-number, tolerance)
        case ast.String(text):
            return text
        case ast.Name(id) if id not in frame.dims and id not in frame.scope.constants:
            return named_constant(id)[1]
        case ast.Name() | ast.Unary() | ast.Binary() | ast.Call():
            folded = fold(pattern, _numbers(frame))
            return DIMS if folded is None else folded
    raise AssertionError(f"{pattern} is no constant")


DIMS = object()
"""The value of a constant that the header's dims decide."""


def _numbers(frame: Frame) -> Mapping[str, int | float]:
    hidden = frame.variables | frame.dims
    return {name: number for name, number in frame.scope.constants.items() if name not in hidden}


def equals(literal: object, value: Value, views: Views, slot: Slot | None) -> bool:
    """Whether a constant of the pattern is ``value``, written as the op writes its arguments.

    Numbers are compared in the dtype that the op computes in.
    """
    tolerance = literal.tolerance if isinstance(literal, ast.Number) else None
    plain = literal.value if isinstance(literal, ast.Number) else literal
    if slot is not None and slot.view is not None:
        param = slot.view.family.params[slot.index]
        if slot.whole:
            normal = views.normalise_literal(slot.view, slot.index, plain)
            becomes_bool = isinstance(normal, bool) and isinstance(plain, int | float)
            plain = plain if becomes_bool else normal  # 1 is not True, even for a flag
        elif param.is_dim and slot.view.rank is not None:
            plain = normalise_dim(plain, slot.view.rank + param.extra_dims)
    if isinstance(plain, bool) or not isinstance(plain, int | float):
        return same_value(plain, value)
    return same_number(ast.Number(plain, tolerance), value, _compute_dtype(views, slot) if slot else None)


def _compute_dtype(views: Views, slot: Slot) -> torch.dtype | None:
    """The dtype an op computes in: its own if floating, else that of its first floating operand."""
    for value in (slot.node, *slot.operands):
        fact = views.fact(value)
        if isinstance(fact, torch.Tensor) and fact.dtype.is_floating_point:
            return fact.dtype
    return None
