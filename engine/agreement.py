"""Whether two values have the same interface: dtype, device, shape, strides, structure."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import torch
from torch import Tensor
from torch.fx.experimental.symbolic_shapes import statically_known_true

_NUMBERS = (int, float, bool, complex, torch.SymInt, torch.SymFloat, torch.SymBool)


def disagreement(old: Any, new: Any, allowed: Collection[str] = ()) -> str | None:
    """How the interface of ``new`` differs from that of ``old``, or None; ``allowed`` as in ``changes``.

    Symbolic sizes agree only if they are equal for every input.

    >>> disagreement(torch.ones(2, 3), torch.ones(2, 3, dtype=torch.int64))
    'dtype torch.float32 would become torch.int64'
    >>> disagreement(torch.ones(2, 3), torch.ones(3, 2).T)
    'strides (3, 1) would become (1, 2)'
    >>> disagreement(torch.ones(2, 1).T, torch.ones(1, 2)) is None
    True
    """
    if isinstance(old, Tensor):
        return _tensor_disagreement(old, new, allowed) if isinstance(new, Tensor) else "a tensor would become none"
    if isinstance(old, tuple | list):
        if not isinstance(new, tuple | list) or len(old) != len(new):
            return "the number of results would change"
        found = (disagreement(first, second, allowed) for first, second in zip(old, new, strict=True))
        return next((problem for problem in found if problem is not None), None)
    if isinstance(old, _NUMBERS):
        same = isinstance(new, _NUMBERS) and _is_same(old, new)
        return None if same else f"{old} would become {new}"
    return None if type(old) is type(new) else f"{type(old).__name__} would become {type(new).__name__}"


def _tensor_disagreement(old: Tensor, new: Tensor, allowed: Collection[str]) -> str | None:
    if old.dtype != new.dtype and "dtype" not in allowed:
        return f"dtype {old.dtype} would become {new.dtype}"
    if old.device != new.device and "device" not in allowed:
        return f"device {old.device} would become {new.device}"
    if old.layout != new.layout:
        return f"layout {old.layout} would become {new.layout}"
    if not same_sizes(old.shape, new.shape):
        return None if "shape" in allowed else f"shape {_shown(old.shape)} would become {_shown(new.shape)}"
    if "strides" not in allowed and old.layout is torch.strided and not same_strides(old, new):
        return f"strides {_shown(old.stride())} would become {_shown(new.stride())}"
    return None


def same_sizes(first: Any, second: Any) -> bool:
    """Whether two shapes are surely equal."""
    if len(first) != len(second):
        return False
    return all(map(_is_same, first, second))


def same_strides(first: Tensor, second: Tensor) -> bool:
    """Whether two tensors of one shape surely have equal strides; dimensions of size 1 do not count."""
    sizes = list(zip(first.shape, first.stride(), second.stride(), strict=True))
    if all(_is_same(one, two) or _is_same(size, 1) for size, one, two in sizes):
        return True
    return any(_is_same(size, 0) for size, _, _ in sizes)


def is_dense(value: Any) -> bool:
    """Whether a value is a contiguous tensor for every size it may have."""
    if not isinstance(value, Tensor) or value.layout is not torch.strided:
        return False
    expected: Any = 1
    for size, stride in zip(reversed(value.shape), reversed(value.stride()), strict=True):
        if not (_is_same(size, 1) or _is_same(stride, expected)):
            return False
        expected = expected * size
    return True


def _is_same(first: Any, second: Any) -> bool:
    if type(first) is int and type(second) is int:
        return first == second
    return bool(statically_known_true(first == second))


def _shown(sizes: Any) -> str:
    return f"({', '.join(map(str, sizes))}{',' if len(sizes) == 1 else ''})"
