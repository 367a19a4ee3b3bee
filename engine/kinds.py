"""The kinds of arguments: what the ``type`` of a parameter admits, and how a value is written down once for all.

A kind is a word (``Tensor``, ``int``, ``dtype``), a list of one (``int[]``, or ``int[2]``, which also takes one int
for both), with ``?`` where None may stand, or alternatives (``Tensor|Scalar``). ``dim`` is an int that names a
dimension. ``enum none=0 mean=1`` is a word here, a number there; ``bool or false`` reads None as False. ``unbiased`` is
the old way to say ``correction``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cache
from types import EllipsisType
from typing import Any, Final, TypeAlias

import torch
from attrs import field, frozen
from torch.fx import Node


@frozen
class ModuleAttr:
    """A tensor of an nn.Module, reached through a call of the module: ``conv1.weight``."""

    path: str


@frozen
class Submodule:
    """An nn.Module that the graph calls, and the path of that call; two paths of one object are one submodule."""

    path: str = field(eq=False)
    module: torch.nn.Module = field(repr=False)


Value: TypeAlias = (
    "Node | int | float | bool | complex | str | torch.dtype | torch.device | torch.layout | torch.memory_format"
    " | tuple[Any, ...] | slice | EllipsisType | ModuleAttr | Submodule | torch.Tensor | None"
)
Reader: TypeAlias = Callable[[Any], Any]

UNFIT: Final = object()
_TENSORS = (Node, ModuleAttr, torch.Tensor)
_PYTHON_DTYPES = {float: torch.float64, int: torch.int64, bool: torch.bool, complex: torch.complex128}


def plain_value(value: Any) -> Any:
    """An argument as FX stores it, with lists as tuples.

    >>> plain_value([1, [2, 3]])
    (1, (2, 3))
    """
    if isinstance(value, list | tuple):
        return tuple(plain_value(item) for item in value)
    return value


@cache
def reader(kind: str) -> Reader:
    """The function that reads an argument of a kind; it gives UNFIT for a value that is none.

    >>> reader("int[2]")(3)
    (3, 3)
    >>> reader("enum none=0 mean=1")(1)
    'mean'
    """
    if kind.startswith("enum "):
        return _enum_reader(kind)
    if " or " in kind:
        word, _, missing = kind.partition(" or ")
        return _with_default(reader(word), frozen_default(missing))
    if kind.endswith("?") and "|" not in kind:
        inner = reader(kind[:-1])
        return lambda value: None if value is None else inner(value)
    if "|" in kind:
        return _first_of([reader(one) for one in kind.split("|")])
    if kind.endswith("]"):
        base, _, size = kind[:-1].rpartition("[")
        return _list_reader(reader(base), int(size) if size else None)
    return _READERS[kind]


def frozen_default(text: str) -> Any:
    """The value behind ``or`` in a kind."""
    return getattr(torch, text.removeprefix("torch.")) if text.startswith("torch.") else json.loads(text)


def _with_default(inner: Reader, default: Any) -> Reader:
    return lambda value: default if value is None else inner(value)


def _first_of(readers: list[Reader]) -> Reader:
    def read(value: Any) -> Any:
        for one in readers:
            found = one(value)
            if found is not UNFIT:
                return found
        return UNFIT

    return read


def _list_reader(item: Reader, size: int | None) -> Reader:
    def read(value: Any) -> Any:
        if isinstance(value, list | tuple):
            found = tuple([item(one) for one in value])
            if any(one is UNFIT for one in found):
                return UNFIT
            return found * size if size and len(found) == 1 else found
        if isinstance(value, Node):
            return value
        if size is None:
            return UNFIT
        one = item(value)
        return UNFIT if one is UNFIT else (one,) * size

    return read


def _enum_reader(kind: str) -> Reader:
    names = _enum(kind)
    by_number = {number: name for name, number in names.items()}
    return lambda value: value if value in names else by_number.get(value, UNFIT)


@cache
def _enum(kind: str) -> Mapping[Any, Any]:
    pairs = (pair.partition("=") for pair in kind.split()[1:])
    return {(None if name == "None" else name): int(number) for name, _, number in pairs}


def _tensor(value: Any) -> Any:
    return value if isinstance(value, _TENSORS) else UNFIT


def _scalar(value: Any) -> Any:
    return value if isinstance(value, int | float | complex | Node) else UNFIT


def _int(value: Any) -> Any:
    return value if isinstance(value, int | Node) and not isinstance(value, bool) else UNFIT


def _float(value: Any) -> Any:
    return value if isinstance(value, int | float | Node) else UNFIT


def _bool(value: Any) -> Any:
    return value if isinstance(value, bool | Node) else UNFIT


def _unbiased(value: Any) -> Any:
    """``unbiased=True`` is ``correction=1``."""
    return int(value) if isinstance(value, bool) else UNFIT


def _str(value: Any) -> Any:
    return value if isinstance(value, str) else UNFIT


def _dtype(value: Any) -> Any:
    if isinstance(value, torch.dtype | Node):
        return value
    if isinstance(value, str):
        return _constant(value, torch.dtype)
    return _PYTHON_DTYPES.get(value, UNFIT) if isinstance(value, type) else UNFIT


def _layout(value: Any) -> Any:
    """Strided is what None means for the dense tensors that patterns see."""
    if isinstance(value, str):
        value = _constant(value, torch.layout)
    return None if value == torch.strided else value if isinstance(value, torch.layout | None) else UNFIT


def _device(value: Any) -> Any:
    if isinstance(value, torch.device | Node):
        return value
    return torch.device(value) if isinstance(value, str | int) and not isinstance(value, bool) else UNFIT


def _memory_format(value: Any) -> Any:
    if isinstance(value, str):
        return _constant(value, torch.memory_format)
    return value if isinstance(value, torch.memory_format) else UNFIT


def _index(value: Any) -> Any:
    """What stands in ``x[...]``. A list there means something else than a tuple: such an index is no argument."""
    items = value if isinstance(value, tuple) else (value,)
    return UNFIT if any(isinstance(item, list | tuple) for item in items) else value


def _constant(name: str, kind: type) -> Any:
    found = getattr(torch, name.removeprefix("torch."), None)
    return found if isinstance(found, kind) else UNFIT


_READERS: Mapping[str, Reader] = {
    "Tensor": _tensor,
    "Scalar": _scalar,
    "int": _int,
    "dim": _int,
    "dim+1": _int,
    "float": _float,
    "bool": _bool,
    "unbiased": _unbiased,
    "str": _str,
    "dtype": _dtype,
    "layout": _layout,
    "device": _device,
    "memory_format": _memory_format,
    "Generator": lambda value: value,
    "any": plain_value,
    "index": _index,
}


@cache
def admits(kind: str) -> frozenset[str]:
    """What a node of this kind may carry: ``"tensor"``, ``"number"``, ``"list"``; empty where anything goes.

    ``"tensor[]"`` and ``"number[]"`` say what the nodes in a list may carry.

    >>> sorted(admits("Tensor|Scalar")), sorted(admits("Tensor[]"))
    (['number', 'tensor'], ['list', 'tensor[]'])
    """
    found: set[str] = set()
    for one in kind.partition(" or ")[0].rstrip("?").split("|"):
        base, bracket, _ = one.rstrip("?").partition("[")
        if base in ("any", "Generator", "index"):
            return frozenset()
        carried = "tensor" if base.rstrip("?") == "Tensor" else "number"
        found |= {"list", f"{carried}[]"} if bracket else {carried}
    return frozenset(found)


def node_kind(node: Node) -> str | None:
    """What a node carries, by its metadata: ``"tensor"``, ``"number"`` or ``"list"``; None if unknown."""
    meta = node.meta
    fact = meta.get("val")
    if fact is None:
        fact = meta.get("example_value")
    if isinstance(fact, torch.Tensor) or (fact is None and (node.op == "get_attr" or "tensor_meta" in meta)):
        return "tensor"
    if isinstance(fact, tuple | list):
        return "list"
    return None if fact is None else "number"


def carries(value: Any, admitted: frozenset[str], strict: bool) -> bool:
    """Whether the nodes in a value carry what is admitted; ``strict``: one of unknown kind is a tensor."""
    if not admitted or isinstance(value, str | bytes):
        return True
    if isinstance(value, list | tuple):
        return all(_carries(one, admitted, strict, "[]") for one in value if isinstance(one, Node))
    return not isinstance(value, Node) or _carries(value, admitted, strict, "")


def _carries(node: Node, admitted: frozenset[str], strict: bool, suffix: str) -> bool:
    kind = node_kind(node) or ("tensor" if strict else None)
    return kind is None or kind + suffix in admitted


def written(kind: str, value: Any) -> Any:
    """A value as an argument of this kind; UNFIT if it is none. Lists are lists again."""
    if kind.startswith("enum "):
        return _enum(kind).get(value, UNFIT)
    if kind == "unbiased":
        return bool(value) if type(value) is int and value in (0, 1) else UNFIT
    if isinstance(value, tuple) and len(value) == 1 and kind.partition(" or ")[0].rstrip("?") in ("int", "dim"):
        value = value[0]  # the family takes a list of dims, this spelling one of them
    found = reader(kind)(value)
    return list(found) if isinstance(found, tuple) and "]" in kind else found
