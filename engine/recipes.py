"""Fake tensors by recipe: computing one takes a tenth of a millisecond and more, making it again a tenth of that."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import islice
from typing import Any, TypeAlias

import torch
from attrs import frozen
from torch import Tensor
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

_NUMBERS = (int, float, bool, complex, torch.SymInt, torch.SymFloat, torch.SymBool)


@frozen
class OneTensor:
    """A strided tensor: a fresh one, or a view of the argument tensor at the place ``of``."""

    size: tuple[Any, ...]
    stride: tuple[Any, ...]
    dtype: torch.dtype
    device: torch.device
    of: int | None = None
    offset: Any = 0


@frozen
class Several:
    """A tuple or list of results."""

    kind: type
    items: tuple[Recipe, ...]


@frozen
class Plain:
    """A number or None."""

    value: Any


Recipe: TypeAlias = OneTensor | Several | Plain


def recipe_of(value: Any, args: Any) -> Recipe | None:
    """How to make a result of ``args`` again; None where it is of an unusual kind."""
    if isinstance(value, FakeTensor):
        if value.layout is not torch.strided or value.is_conj() or value.is_neg():
            return None
        mine = value.untyped_storage()._cdata
        sources = [at for at, one in enumerate(_tensors(args)) if one.untyped_storage()._cdata == mine]
        facts = (tuple(value.shape), value.stride(), value.dtype, value.device)
        return OneTensor(*facts, sources[0], value.storage_offset()) if sources else OneTensor(*facts)
    if isinstance(value, tuple | list):
        items = [recipe_of(item, args) for item in value]
        whole = tuple(item for item in items if item is not None)
        return Several(type(value), whole) if len(whole) == len(items) and type(value) in (tuple, list) else None
    return Plain(value) if value is None or isinstance(value, _NUMBERS) else None


def remade(recipe: Recipe, args: Callable[[], Any], mode: FakeTensorMode) -> Any:
    """The result of a recipe: memory of its own, or that of one of the tensors in ``args()``."""
    match recipe:
        case OneTensor(size, stride, dtype, device, None):
            return FakeTensor(mode, torch.empty_strided(size, stride, dtype=dtype, device="meta"), device)
        case OneTensor(size, stride, dtype, device, at, offset):
            source = next(islice(_tensors(args()), at, None))
            view = torch.empty(0, dtype=dtype, device="meta").set_(source.untyped_storage(), offset, size, stride)
            return FakeTensor(mode, view, device)
        case Several(kind, items):
            return kind(remade(item, args, mode) for item in items)
        case Plain(value):
            return value


def quick(target: Any, args: tuple[Any, ...], kwargs: Any, mode: FakeTensorMode) -> FakeTensor | None:
    """The result of a view, or of an op that works element by element on one tensor; None for all else.

    The meta kernel gives it, without the way through the mode, which takes ten times as long.
    """
    if not isinstance(target, OpOverload) or not args:
        return None
    source, *rest = args
    is_view = target._schema.name in _VIEWS and not kwargs
    if not is_view and (torch.Tag.pointwise not in target.tags or target._schema.is_mutable):
        return None
    if not isinstance(source, FakeTensor) or source.layout is not torch.strided or source.is_conj() or source.is_neg():
        return None
    sizes = [*source.shape, *source.stride(), source.storage_offset()]
    given = [*rest, *kwargs.values()]
    numbers = [one for value in given for one in (value if isinstance(value, tuple | list) else (value,))]
    if source.is_nested or source.is_quantized or not all(type(one) is int for one in sizes):
        return None
    if not all(type(one) in (int, bool) or (not is_view and type(one) in (float, str)) for one in numbers):
        return None
    if not is_view and source.stride() == _row_major(source.shape) and len(numbers) == len(given):
        kind = (source.dtype, source.dim() > 0, torch.get_default_dtype())
        dtype = _result_dtype(target, kind, *rest, **kwargs)
        return None if dtype is None else _dense(source.shape, dtype, source.device, mode)
    try:
        with torch.no_grad():
            found = target(_plain_meta(source), *rest, **kwargs)
    except Exception:
        return None  # the mode says why
    if not isinstance(found, Tensor):
        return None
    shares = found.untyped_storage()._cdata == source.untyped_storage()._cdata
    # an op that gives back its argument gives back a flag of it too: whether it requires a gradient
    return FakeTensor(mode, found, source.device) if is_view or not shares else None


def _dense(shape: torch.Size, dtype: torch.dtype, device: torch.device, mode: FakeTensorMode) -> FakeTensor:
    """A contiguous tensor with memory of its own."""
    return FakeTensor(mode, torch.empty(shape, dtype=dtype, device="meta"), device)


def _row_major(shape: torch.Size) -> tuple[int, ...]:
    """The strides of a contiguous tensor."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


@lru_cache(maxsize=4096, typed=True)
def _result_dtype(target: OpOverload, kind: tuple[torch.dtype, bool, torch.dtype], *rest: Any, **kwargs: Any) -> Any:
    """The dtype that an op gives, element by element, for a tensor; None where it makes no new tensor.

    ``kind``: the tensor's dtype, whether it has dimensions, and the default dtype. Meta
    kernels of such ops are references in Python, which may take two milliseconds.
    """
    dtype, has_dims, _ = kind
    source = torch.empty((1,) if has_dims else (), dtype=dtype, device="meta")
    try:
        with torch.no_grad():
            found = target(source, *rest, **kwargs)
    except Exception:
        return None  # the mode says why
    new = isinstance(found, Tensor) and found.untyped_storage()._cdata != source.untyped_storage()._cdata
    return found.dtype if new and found.shape == source.shape else None


_VIEWS = frozenset(
    f"aten::{name}" for name in ("transpose", "permute", "view", "reshape", "expand", "unsqueeze", "squeeze", "t")
)


def _plain_meta(fake: FakeTensor) -> Tensor:
    """A meta tensor that shares the memory of a fake one."""
    empty = torch.empty(0, dtype=fake.dtype, device="meta")
    return empty.set_(fake.untyped_storage(), fake.storage_offset(), fake.shape, fake.stride())


def is_static(recipe: Recipe) -> bool:
    """Whether all sizes in a recipe are plain numbers."""
    match recipe:
        case OneTensor(size, stride, offset=offset):
            return all(type(one) is int for one in (*size, *stride, offset))
        case Several(items=items):
            return all(map(is_static, items))
    return True


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, tuple | list):
        for item in value:
            yield from _tensors(item)
    elif isinstance(value, dict):
        yield from _tensors(list(value.values()))
