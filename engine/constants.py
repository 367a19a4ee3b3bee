"""Constants of the rule language: named numbers and dtypes, and folding of plain arithmetic."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping

import torch

from ..dsl import ast

DTYPES: Mapping[str, torch.dtype] = {
    "f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "f64": torch.float64,
    "i8": torch.int8, "i16": torch.int16, "i32": torch.int32, "i64": torch.int64,
    "u8": torch.uint8, "u16": torch.uint16, "u32": torch.uint32, "u64": torch.uint64,
    "c32": torch.complex32, "c64": torch.complex64, "c128": torch.complex128,
    "f8e4m3": torch.float8_e4m3fn, "f8e5m2": torch.float8_e5m2,
}  # fmt: skip
_NUMBERS: Mapping[str, float] = {"inf": math.inf, "nan": math.nan, "pi": math.pi}
_NAMED: Mapping[str, object] = {
    "True": True, "False": False, "None": None, **_NUMBERS,
    "strided": torch.strided, "contiguous_format": torch.contiguous_format,
    "channels_last": torch.channels_last, "preserve_format": torch.preserve_format, **DTYPES,
}  # fmt: skip
_ARITHMETIC: Mapping[str, Callable[..., int | float]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "//": operator.floordiv,
    "%": operator.mod, "**": operator.pow, "<<": operator.lshift, ">>": operator.rshift,
}  # fmt: skip
_FUNCTIONS: Mapping[str, Callable[[float], float]] = {
    "sqrt": math.sqrt, "log": math.log, "log2": math.log2, "exp": math.exp, "abs": abs,
}  # fmt: skip
_LARGEST_POWER = 1024


def named_constant(name: str) -> tuple[bool, object]:
    """Whether ``name`` is a constant of the language, and its value.

    >>> named_constant("f16")
    (True, torch.float16)
    >>> named_constant("q")
    (False, None)
    """
    return name in _NAMED, _NAMED.get(name)


def fold(expr: ast.Expr, known: Mapping[str, int | float]) -> int | float | None:
    """The number an arithmetic expression stands for, or None where it is not plain arithmetic.

    >>> fold(ast.Call(ast.Name("sqrt"), (ast.Binary("/", ast.Number(2), ast.Name("pi")),)), {})
    0.7978845608028654
    """
    match expr:
        case ast.Number(value):
            return value
        case ast.Name(id) if id in _NUMBERS and id not in known:
            return _NUMBERS[id]
        case ast.Name(id):
            return known.get(id)
        case ast.Unary("-", operand):
            inner = fold(operand, known)
            return None if inner is None else -inner
        case ast.Binary(op, left, right) if op in _ARITHMETIC:
            first, second = fold(left, known), fold(right, known)
            return None if first is None or second is None else _apply(op, first, second)
        case ast.Call(ast.Name(id), (argument,)) if id in _FUNCTIONS and not isinstance(
            argument, ast.Keyword | ast.Star | ast.StarStar | ast.Dots
        ):
            given = fold(argument, known)
            return None if given is None else _FUNCTIONS[id](given)
    return None


def _apply(op: str, first: float, second: float) -> int | float | None:
    if op in ("**", "<<") and abs(second) > _LARGEST_POWER:
        return None
    try:
        result = _ARITHMETIC[op](first, second)
    except (ArithmeticError, TypeError, ValueError):
        return None
    return None if isinstance(result, complex) else result
