"""Facts and arguments as something to hash: equal keys, equal facts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch
from attrs import define, field
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx import Node

from .truth import SYMBOLIC

UNKNOWN: Final = "?"
"""The key of what has none; no other key is text."""

_PLAIN = (int, float, bool, complex, str)
TORCH_VALUES = (torch.dtype, torch.device, torch.layout, torch.memory_format)
_INT = frozenset({int})


@define(eq=False)
class FactKeys:
    """A number for all facts of a tensor, which are looked at once.

    >>> keys = FactKeys()
    >>> keys.of(torch.ones(2, 3)) == keys.of(torch.zeros(2, 3)), keys.of(torch.ones(2, 3)) == keys.of(torch.ones(3, 2))
    (True, False)
    """

    _by_id: dict[int, tuple[Tensor, int | None]] = field(factory=dict, init=False, repr=False)
    _numbers: dict[Any, int] = field(factory=dict, init=False, repr=False)

    def of(self, tensor: Tensor) -> int | None:
        """The number that stands for shape, strides, dtype and all else; None for a tensor that is not strided."""
        known = self._by_id.get(id(tensor))
        if known is None:
            facts = _facts(tensor)
            number = None if facts is None else self._numbers.setdefault(facts, len(self._numbers))
            # with the tensor: as long as it lives its id is its own
            known = self._by_id[id(tensor)] = (tensor, number)
        return known[1]

    def key(self, fact: object) -> object:
        """The number of a tensor's facts, a tuple for a tuple or list of tensors; UNKNOWN for all else.

        >>> keys = FactKeys()
        >>> keys.key(torch.ones(2)), keys.key(4), keys.key((torch.ones(2), 4))
        (0, '?', '?')
        """
        if isinstance(fact, Tensor):
            number = self.of(fact)
            return UNKNOWN if number is None else number
        if isinstance(fact, tuple | list):
            parts = [self.key(item) for item in fact]
            return UNKNOWN if UNKNOWN in parts else (type(fact), *parts)
        return UNKNOWN

    def pair(self, first: object, second: object) -> tuple[int, int] | None:
        """The numbers of two tensors; None if one has none."""
        if not isinstance(first, Tensor) or not isinstance(second, Tensor):
            return None
        one, other = self.of(first), self.of(second)
        return None if one is None or other is None else (one, other)

    def equal(self, first: object, second: object) -> bool:
        """Whether two values are tensors with equal facts."""
        pair = self.pair(first, second)
        return pair is not None and pair[0] == pair[1]

    def note(self, tensor: Tensor, number: int | None) -> None:
        """Say beforehand what number a new tensor has."""
        self._by_id[id(tensor)] = (tensor, number)


def _facts(tensor: Tensor) -> Any:
    if not isinstance(tensor, FakeTensor):
        # nested and quantized ones cannot be faked
        return None if tensor.is_nested or tensor.is_quantized else _facts_at(tensor, tensor.device)
    with torch._C.DisableTorchFunctionSubclass():  # it has none: to look for one takes as long as the answers
        return _facts_at(tensor, tensor.fake_device)


def _facts_at(tensor: Tensor, device: torch.device) -> Any:
    if tensor.layout is not torch.strided:
        return None
    dtype = tensor.dtype
    shape: Any = tensor.shape
    stride: Any = tensor.stride()
    offset: Any = tensor.storage_offset()
    if tensor._has_symbolic_sizes_strides:
        shape, stride, offset = tuple(map(_size, shape)), tuple(map(_size, stride)), _size(offset)
    flags = (tensor.requires_grad, dtype.is_complex and tensor.is_conj(), tensor.is_neg())
    return (type(tensor), dtype, device, shape, stride, offset, flags)


def _size(size: Any) -> Any:
    return size if type(size) is int else str(size.node.expr)


def argument_key(value: object, of_node: Callable[[Node], object]) -> object:
    """An argument as something to hash, nodes as ``of_node`` says; `UNKNOWN` where anything in it has no key.

    >>> argument_key([1, True], lambda node: UNKNOWN) == argument_key([1, 1], lambda node: UNKNOWN)
    False
    """
    kind = type(value)
    if value is None or kind is int:
        return value
    if isinstance(value, Node):
        return of_node(value)
    if kind in _PLAIN:
        return kind, repr(value)  # -0.0 is not 0.0, True is not 1
    if isinstance(value, tuple | list):
        if _INT.issuperset(map(type, value)):
            return (kind, *value)
        parts = [argument_key(item, of_node) for item in value]
        return UNKNOWN if UNKNOWN in parts else (kind, *parts)
    if isinstance(value, dict):
        inner = argument_key(tuple(value.items()), of_node)
        return UNKNOWN if inner is UNKNOWN else (dict, inner)
    if isinstance(value, slice):
        inner = argument_key((value.start, value.stop, value.step), of_node)
        return UNKNOWN if inner is UNKNOWN else (slice, inner)
    if isinstance(value, SYMBOLIC):
        return kind, str(value.node.expr)
    return value if isinstance(value, TORCH_VALUES) else UNKNOWN
