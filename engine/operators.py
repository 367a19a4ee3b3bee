"""Operators of the rewrite-time language on evaluated values: arithmetic, comparisons, indexing."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch

from . import computing
from .facts import TENSORS, Capture, describe, release
from .nodeview import same_value
from .truth import SYMBOLIC, Declined, conjunction, disjunction, equal, ordered, truth_of
from .words import LONGEST, items_of

_MOST_BITS = 4096
_ARITHMETIC: Mapping[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "//": operator.floordiv,
    "%": operator.mod, "**": operator.pow, "@": operator.matmul, "<<": operator.lshift, ">>": operator.rshift,
    "&": operator.and_, "|": operator.or_, "^": operator.xor,
}  # fmt: skip
_COMPARISONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


def unary(op: str, value: object) -> object:
    """``-value`` or ``~value``.

    >>> unary("-", 2)
    -2
    """
    operand = _operand(value)
    if op == "-" and not isinstance(operand, bool):
        return -operand
    if op == "~" and isinstance(operand, int | torch.Tensor):
        return ~operand
    raise Declined(f"`{op}` does not apply to {describe(value)}")


def binary(op: str, left: object, right: object) -> object:
    """``left op right`` on numbers, sizes, constant tensors, lists and text; raises Declined where it fails.

    >>> binary("//", 7, 2), binary("+", (1,), (2,))
    (3, (1, 2))
    """
    if op == "+" and isinstance(left, tuple | str) and isinstance(right, tuple | str):
        return _joined(left, right)
    if op == "*" and isinstance(left, tuple) and isinstance(right, int):
        return _joined(*[left] * min(max(right, 0), LONGEST + 1)) if left else ()
    first, second = _operand(left), _operand(right)
    if isinstance(first, torch.Tensor) or isinstance(second, torch.Tensor):
        return computing.run(_ARITHMETIC[op], (first, second), {})
    _refuse_large(op, first, second)
    try:
        result = _ARITHMETIC[op](first, second)
    except (ArithmeticError, TypeError, ValueError) as error:
        raise Declined(f"{first} {op} {second}: {error}") from error
    if isinstance(result, int) and result.bit_length() > _MOST_BITS:
        raise Declined(f"{first} {op} {second} is too large")
    return result


def _operand(value: object) -> Any:
    if isinstance(value, Capture):
        return computing.read(value)
    if isinstance(value, int | float | complex | torch.Tensor | SYMBOLIC):
        return value
    raise Declined(f"there is no arithmetic on {describe(value)}")


def _refuse_large(op: str, first: object, second: object) -> None:
    if op in ("**", "<<") and isinstance(first, int) and isinstance(second, int):
        size = first.bit_length() * abs(second) if op == "**" else first.bit_length() + abs(second)
        if size > _MOST_BITS:
            raise Declined(f"{first} {op} {second} is too large")


def _joined(*parts: tuple[object, ...] | str) -> object:
    if sum(len(part) for part in parts) > LONGEST:
        raise Declined(f"a list or text of more than {LONGEST} items is too long")
    if parts and all(isinstance(part, str) for part in parts):
        return "".join(str(part) for part in parts)
    if not all(isinstance(part, tuple) for part in parts):
        raise Declined("a list and a text cannot be joined")
    return tuple(item for part in parts for item in part)


def compare(ops: tuple[str, ...], values: list[object]) -> object:
    """A chain of comparisons, three-valued; between tensors it is element by element.

    >>> compare(("<", "<="), [1, 2, 2])
    True
    """
    if len(ops) == 1:
        return compare_two(ops[0], *values)
    steps = zip(ops, values, values[1:], strict=False)
    return conjunction(truth_of(partial(_compare, op, left, right)) for op, left, right in steps)


def compare_two(op: str, first: object, second: object) -> object:
    """One comparison.

    >>> compare_two("in", 1, (1, 2))
    True
    """
    if op in _COMPARISONS and _by_element(first, second):
        return computing.run(_COMPARISONS[op], (computing.read(first), computing.read(second)), {})
    return _compare(op, first, second)


def _by_element(first: object, second: object) -> bool:
    """Whether this compares values of constants: a tensor, or a captured one with a number."""
    if isinstance(first, TENSORS):
        return isinstance(first, torch.Tensor) or isinstance(second, torch.Tensor | int | float)
    return isinstance(second, torch.Tensor) or (isinstance(second, Capture) and isinstance(first, int | float))


def _compare(op: str, left: object, right: object) -> bool:
    match op:
        case "==" | "!=":
            for one in (left, right):
                if isinstance(one, TENSORS):
                    raise Declined(f"{describe(one)} is a tensor: compare its facts, or use `is`")
            return equal(left, right) is (op == "==")
        case "is" | "is not":
            return _identical(left, right) is (op == "is")
        case "in" | "not in":
            return _contains(right, left) is (op == "in")
    return ordered(op, left, right)


def _identical(left: object, right: object) -> bool:
    if left is None or right is None:
        return left is right
    if isinstance(left, SYMBOLIC) or isinstance(right, SYMBOLIC):
        return equal(left, right)
    return same_value(release(left), release(right))


def _contains(container: object, item: object) -> bool:
    if isinstance(container, str) and isinstance(item, str):
        return item in container
    same = _identical if isinstance(item, Capture) else equal
    return disjunction(truth_of(partial(same, item, one)) for one in items_of(container))


def index(value: object, key: object) -> object:
    """``value[key]`` of a list, a mapping or a constant tensor; raises Declined where there is no such item."""
    if isinstance(value, Capture | torch.Tensor):
        return computing.run(operator.getitem, (computing.read(value), key), {})
    try:
        if isinstance(value, Mapping):
            return value[key]
        if isinstance(key, int | slice):
            return items_of(value)[key]
    except (LookupError, TypeError, ValueError) as error:
        raise Declined(f"{describe(value)}[{key!r}]: {error}") from error
    raise Declined(f"{describe(value)} cannot be indexed with {key!r}")
