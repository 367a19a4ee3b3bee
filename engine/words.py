"""The functions of ``where`` and ``let``: every word of `fxrules.dsl.vocabulary`, as a plain function.

They take and give evaluated values: numbers and sizes, strings, dtypes, tuples (all lists
are tuples here), `Capture` for tensors of the graph, and tensors that were computed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch

from . import facts
from .facts import Capture, CapturedModule, describe, tensor_fact, tensors_in
from .surroundings import ABOUT_THE_GRAPH
from .truth import (
    SYMBOLIC,
    Declined,
    Size,
    conjunction,
    decide,
    disjunction,
    equal,
    ordered,
    sym_max,
    sym_min,
    truth_of,
)
from .uses import uses

# The number of dims that a memory format is about, None for any.
_ORDERS: Mapping[object, int | None] = {
    torch.contiguous_format: None, torch.channels_last: 4, torch.channels_last_3d: 5,
}  # fmt: skip
LONGEST = 10_000
"""More items than this no list of a rule may have."""


def items_of(value: object) -> tuple[object, ...]:
    """The items of a list; raises Declined for what is none, or is too long."""
    if not isinstance(value, tuple):
        raise Declined(f"{describe(value)} is not a list")
    if len(value) > LONGEST:
        raise Declined(f"a list of {len(value)} items is too long: at most {LONGEST}")
    return value


def truthful(value: object) -> bool:
    """Whether a value counts as true; raises Unknown where that depends on a size.

    >>> truthful(None), truthful(0.5), truthful(())
    (False, True, False)
    """
    if isinstance(value, bool):
        return value
    match value:
        case None | int() | float() | str() | tuple():
            return bool(value)
        case torch.SymBool():
            return decide(value)
        case torch.SymInt() | torch.SymFloat():
            return not equal(value, 0)
        case torch.Tensor() if value.numel() == 1:
            return bool(value.item())
    raise Declined(f"{describe(value)} is neither true nor false")


def _number(value: object) -> int | float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Declined(f"{describe(value)} is not a known number")
    return value


def _integer(value: object) -> int:
    number = _number(value)
    if not isinstance(number, int):
        raise Declined(f"{number} is not an int")
    return number


def _convert(kind: Callable[[int | float], object], value: object) -> object:
    number = int(value) if isinstance(value, bool) else _number(value)
    try:
        return kind(number)
    except (ValueError, OverflowError) as error:
        raise Declined(f"{number}: {error}") from error


def _bool(value: object) -> bool:
    return truthful(value)


def _every(value: object) -> bool:
    return conjunction(truth_of(partial(truthful, item)) for item in items_of(value))


def _some(value: object) -> bool:
    return disjunction(truth_of(partial(truthful, item)) for item in items_of(value))


def _extreme(op: str, *values: object) -> object:
    """The greatest or least; sizes stay symbolic (comparing them would fix their values)."""
    several = items_of(values[0]) if len(values) == 1 else values
    if not several:
        raise Declined("an empty list has no greatest and no least item")
    best = several[0]
    for item in several[1:]:
        if isinstance(item, SYMBOLIC) or isinstance(best, SYMBOLIC):
            best = sym_max(best, item) if op == ">" else sym_min(best, item)
        elif ordered(op, item, best):
            best = item
    return best


def _fold(start: int, combine: Callable[[object, object], object], value: object) -> object:
    result: object = start
    for item in items_of(value):
        result = combine(result, item)
    return result


def _add(first: object, second: object) -> object:
    return _size(first) + _size(second)


def _multiply(first: object, second: object) -> object:
    return _size(first) * _size(second)


def _size(value: object) -> Any:
    if isinstance(value, torch.SymInt | torch.SymFloat | bool):
        return value
    return _number(value)


def _range(*bounds: object) -> tuple[int, ...]:
    numbers = range(*[_integer(bound) for bound in bounds])
    if len(numbers) > LONGEST:
        raise Declined(f"a range of {len(numbers)} items is too long: at most {LONGEST}")
    return tuple(numbers)


def _sorted(value: object) -> tuple[object, ...]:
    items = items_of(value)
    if not all(isinstance(item, str) for item in items):
        return tuple(sorted(_number(item) for item in items))
    return tuple(sorted(str(item) for item in items))


def _zip(*lists: object) -> tuple[object, ...]:
    return tuple(zip(*(items_of(one) for one in lists), strict=False))


def _elementary(function: Callable[[float], object], value: object) -> object:
    try:
        return function(_number(value))
    except (ValueError, ArithmeticError) as error:
        raise Declined(f"{value}: {error}") from error


def _log2(value: float) -> float:
    if isinstance(value, int) and value > 0 and value & (value - 1) == 0:
        return value.bit_length() - 1
    return math.log2(value)


def _absolute(value: object) -> object:
    return abs(_size(value))


def _is_pow2(value: object) -> bool:
    number = _integer(value)
    return number > 0 and number & (number - 1) == 0


def _limits(kind: Callable[[torch.dtype], object], value: object) -> object:
    try:
        return kind(_dtype(value))
    except TypeError as error:
        raise Declined(f"{value}: {error}") from error


def _dtype(value: object) -> torch.dtype:
    if not isinstance(value, torch.dtype):
        raise Declined(f"{describe(value)} is not a dtype")
    return value


def _promote_types(first: object, second: object) -> torch.dtype:
    return torch.promote_types(_dtype(first), _dtype(second))


def _shape(value: object) -> tuple[Size, ...]:
    if isinstance(value, Capture | torch.Tensor):
        return facts.shape_of(value)
    for item in items_of(value):
        if isinstance(item, bool) or not isinstance(item, int | torch.SymInt):
            raise Declined(f"{describe(value)} is not a shape")
    return tuple(item for item in items_of(value) if isinstance(item, int | torch.SymInt))


def _broadcastable(value: object, target: object) -> bool:
    return facts.broadcastable(_shape(value), _shape(target))


def _same(what: str, read: Callable[[torch.Tensor], object], *values: object) -> bool:
    tensors = [tensor for value in values for tensor in tensors_in(value)]

    def agree(tensor: facts.Tensorlike) -> bool:
        return equal(read(tensor_fact(tensors[0], what)), read(tensor_fact(tensor, what)))

    return conjunction(truth_of(partial(agree, tensor)) for tensor in tensors[1:])


def _is_contiguous(value: object, order: object = torch.contiguous_format) -> bool:
    if not isinstance(value, Capture | torch.Tensor):
        raise Declined(f"{describe(value)} is not a tensor")
    if order not in _ORDERS:
        raise Declined(f"{describe(order)} is no order of memory: contiguous_format, channels_last or channels_last_3d")
    return facts.is_contiguous(value, _ORDERS[order])


def _uses(value: object) -> int:
    found = 0 if value is None else None
    if isinstance(value, Capture | CapturedModule):
        found = uses(value.value, value.views)
    if found is None:
        raise Declined(f"the uses of {describe(value)} are not known: it is no module, parameter or buffer")
    return found


WORDS: Mapping[str, Callable[..., object]] = {
    "abs": _absolute,
    "all": _every,
    "any": _some,
    "bool": _bool,
    "enumerate": lambda value: tuple(enumerate(items_of(value))),
    "float": partial(_convert, float),
    "int": partial(_convert, int),
    "len": lambda value: len(items_of(value)),
    "list": items_of,
    "max": partial(_extreme, ">"),
    "min": partial(_extreme, "<"),
    "ones": lambda value: (1,) * len(items_of(value)),
    "prod": partial(_fold, 1, _multiply),
    "range": _range,
    "reversed": lambda value: tuple(reversed(items_of(value))),
    "sorted": _sorted,
    "sum": partial(_fold, 0, _add),
    "tuple": items_of,
    "zip": _zip,
    "ceil": partial(_convert, math.ceil),
    "exp": partial(_elementary, math.exp),
    "floor": partial(_convert, math.floor),
    "is_pow2": _is_pow2,
    "log": partial(_elementary, math.log),
    "log2": partial(_elementary, _log2),
    "rsqrt": partial(_elementary, lambda value: 1 / math.sqrt(value)),
    "sqrt": partial(_elementary, math.sqrt),
    "finfo": partial(_limits, torch.finfo),
    "iinfo": partial(_limits, torch.iinfo),
    "promote_types": _promote_types,
    "broadcastable": _broadcastable,
    "is_contiguous": _is_contiguous,
    "same_device": partial(_same, "device", lambda tensor: tensor.device),
    "same_dtype": partial(_same, "dtype", lambda tensor: tensor.dtype),
    "same_shape": partial(_same, "shape", lambda tensor: tuple(tensor.shape)),
    **ABOUT_THE_GRAPH,
    "uses": _uses,
}
"""Every word but the measures ``count`` and ``depth``, which take an op name: see `measures`."""

ON_TENSORS = frozenset(
    {"abs", "all", "any", "ceil", "exp", "floor", "log", "log2", "max", "min", "prod", "rsqrt", "sqrt", "sum"}
)
"""Words that, given a tensor, mean the op of that name."""
