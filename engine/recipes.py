"""Fake tensors by recipe: computing one takes a tenth of a millisecond and more, making it again a tenth of that."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, TypeAlias

import torch
from attrs import frozen
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

_SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)
_NUMBERS = (int, float, bool, complex, *_SYMBOLIC)


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


def remade(recipe: Recipe, args: Any, mode: FakeTensorMode) -> Any:
    """The result of a recipe: memory of its own, or that of one of ``args``."""
    match recipe:
        case OneTensor(size, stride, dtype, device, None):
            return FakeTensor(mode, torch.empty_strided(size, stride, dtype=dtype, device="meta"), device)
        case OneTensor(size, stride, dtype, device, at, offset):
            source = next(islice(_tensors(args), at, None))
            view = torch.empty(0, dtype=dtype, device="meta").set_(source.untyped_storage(), offset, size, stride)
            return FakeTensor(mode, view, device)
        case Several(kind, items):
            return kind(remade(item, args, mode) for item in items)
        case Plain(value):
            return value


def is_static(recipe: Recipe) -> bool:
    """Whether all sizes in a recipe are plain numbers."""
    match recipe:
        case OneTensor(size, stride, offset=offset):
            return all(type(one) is int for one in (*size, *stride, offset))
        case Several(items=items):
            return all(map(is_static, items))
    return True


def tensor_key(tensor: Tensor) -> Any:
    """What of a tensor the metadata of a result may depend on, as something to hash."""
    sizes = (*tensor.shape, -1, *tensor.stride(), tensor.storage_offset())
    flags = (tensor.layout, tensor.is_conj(), tensor.is_neg(), type(tensor))
    return (tuple(map(_size_key, sizes)), tensor.dtype, tensor.device, flags)


def value_key(value: Any, of_tensor: Callable[[Tensor], Any] = tensor_key) -> Any:
    """`tensor_key` for any argument.

    >>> value_key([1, True]) == value_key([1, 1])
    False
    """
    if isinstance(value, Tensor):
        return of_tensor(value)
    if isinstance(value, tuple | list):
        return (type(value), *[value_key(item, of_tensor) for item in value])
    if isinstance(value, dict):
        return tuple([(key, value_key(item, of_tensor)) for key, item in value.items()])
    if isinstance(value, _SYMBOLIC):
        return (type(value), str(value.node.expr))
    if isinstance(value, slice):
        return (slice, *[value_key(part, of_tensor) for part in (value.start, value.stop, value.step)])
    return (type(value), str(value) if isinstance(value, float | complex) else value)


def _size_key(size: Any) -> Any:
    return size if type(size) is int else str(size.node.expr)


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, tuple | list):
        for item in value:
            yield from _tensors(item)
    elif isinstance(value, dict):
        yield from _tensors(list(value.values()))
