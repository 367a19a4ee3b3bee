"""Captured values at rewrite time, and the facts that can be asked of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TypeAlias

import torch
from attrs import field, frozen
from torch.fx import Node

from ..dsl.nearest import did_you_mean
from .kinds import ModuleAttr, Submodule
from .nodeview import Views
from .submodules import MISSING, OPAQUE, attribute_names, attribute_of, class_name
from .truth import SYMBOLIC, Declined, Size, Truth, Unknown, conjunction, disjunction, equal, truth_of

EXAMPLE_INPUTS = "pass example_inputs="
_PLAIN_TYPES = frozenset({int, float, bool, complex, str, type(None)})


@frozen
class Capture:
    """A tensor of the graph that a rule captured, under the name the rule gave it.

    ``freeze``: its value may be read, if it is a constant.
    """

    name: str
    value: Node | ModuleAttr
    views: Views
    freeze: bool = False

    def fact(self, what: str) -> torch.Tensor:
        """The tensor that carries the facts; raises Unknown naming ``what`` where there is none."""
        fact = self.views.fact(self.value)
        if isinstance(fact, torch.Tensor):
            return fact
        if fact is None:
            raise Unknown(f"{what} of `{self.name}` is unknown", EXAMPLE_INPUTS)
        raise Declined(f"`{self.name}` is not one tensor: it has no {what}")


@frozen
class CapturedModule:
    """A submodule that a rule captured; ``freeze``: the values of its tensors may be read."""

    name: str = field(eq=False)
    value: Submodule
    views: Views = field(eq=False)
    freeze: bool = field(default=False, eq=False)

    def attribute(self, name: str) -> object:
        """``m.name`` as rewrite-time code sees it; raises Declined, with the nearest name, for what is not there."""
        found = attribute_of(self.value, name)
        if found is OPAQUE:
            raise Declined(f"`{self.name}.{name}` is neither a tensor nor a plain value")
        if found is MISSING:
            near = did_you_mean(name, attribute_names(self.value))
            raise Declined(f"`{self.name}` ({class_name(self.value.module)}) has no `{name}`{near and f'; {near}'}")
        return capture(f"{self.name}.{name}", found, self.views, self.freeze)


Tensorlike: TypeAlias = Capture | torch.Tensor
TENSORS = (Capture, torch.Tensor)
"""`Tensorlike`, for ``isinstance``."""


def capture(name: str, value: object, views: Views, freeze: bool = False) -> object:
    """A bound value as rewrite-time code sees it: sizes as sizes, tensors as `Capture`, lists as tuples."""
    match value:
        case Node():
            fact = views.fact(value)
            return fact if isinstance(fact, SYMBOLIC) else Capture(name, value, views, freeze)
        case ModuleAttr():
            return Capture(name, value, views, freeze)
        case Submodule():
            return CapturedModule(name, value, views, freeze)
        case tuple() | list():
            if _PLAIN_TYPES.issuperset(map(type, value)):
                return tuple(value)  # most lists are shapes
            return tuple(capture(f"{name}[{i}]", item, views, freeze) for i, item in enumerate(value))
    return value


def release(value: object) -> object:
    """The value to bind: what `capture` wrapped, unwrapped."""
    if isinstance(value, Capture | CapturedModule):
        return value.value
    if isinstance(value, tuple):
        plain = _PLAIN_TYPES.issuperset(map(type, value))
        return tuple(value) if plain else tuple(release(item) for item in value)
    return value


def tensor_fact(value: Tensorlike, what: str) -> torch.Tensor:
    """The (fake or real) tensor to ask ``what`` of."""
    return value.fact(what) if isinstance(value, Capture) else value


def attribute(value: object, name: str) -> object:
    """``value.name``: a fact of a tensor, dtype, device or of `finfo`, or what a module has; no other attribute.

    >>> attribute(torch.ones(2, 3), "shape"), attribute(torch.device("cpu"), "type")
    ((2, 3), 'cpu')
    """
    match value:
        case CapturedModule():
            found = value.attribute(name)
        case Capture() | torch.Tensor():
            found = _TENSOR_FACTS[name](value) if name in _TENSOR_FACTS else MISSING
        case torch.dtype():
            known = {"is_complex": value.is_complex, "is_floating_point": value.is_floating_point}
            found = known.get(name, MISSING)
        case torch.device():
            found = {"type": value.type, "index": value.index}.get(name, MISSING)
        case torch.finfo():
            found = {"max": value.max, "min": value.min, "eps": value.eps, "tiny": value.tiny, "bits": value.bits}.get(
                name, MISSING
            )
        case torch.iinfo():
            found = {"max": value.max, "min": value.min, "bits": value.bits}.get(name, MISSING)
        case _:
            found = MISSING
    if found is MISSING:
        raise Declined(f"{describe(value)} has no `{name}`")
    return found


def shape_of(value: Tensorlike) -> tuple[Size, ...]:
    """The sizes of the dims; raises Unknown where the graph does not have them."""
    return tuple(tensor_fact(value, "shape").shape)


def product(sizes: tuple[Size, ...]) -> Size:
    """The product of sizes, 1 for none."""
    result: Size = 1
    for size in sizes:
        result = result * size
    return result


_TENSOR_FACTS: Mapping[str, Callable[[Tensorlike], object]] = {
    "dtype": lambda value: tensor_fact(value, "dtype").dtype,
    "device": lambda value: tensor_fact(value, "device").device,
    "layout": lambda value: tensor_fact(value, "layout").layout,
    "requires_grad": lambda value: tensor_fact(value, "requires_grad").requires_grad,
    "shape": shape_of,
    "ndim": lambda value: tensor_fact(value, "ndim").ndim,
    "rank": lambda value: tensor_fact(value, "rank").ndim,
    "numel": lambda value: product(shape_of(value)),
    "stride": lambda value: tuple(tensor_fact(value, "stride").stride()),
    "is_complex": lambda value: tensor_fact(value, "dtype").dtype.is_complex,
    "is_floating_point": lambda value: tensor_fact(value, "dtype").dtype.is_floating_point,
}


def is_contiguous(value: Tensorlike, channels_last: int | None = None) -> bool:
    """Whether the tensor is dense in row-major order, for every size.

    With ``channels_last``, whether it has so many dims and is dense with the channels innermost.

    >>> is_contiguous(torch.ones(2, 3)), is_contiguous(torch.ones(2, 3).T)
    (True, False)
    """
    fact = tensor_fact(value, "strides")
    expected: Size = 1
    truths: list[Truth] = []
    dims = list(zip(fact.shape, fact.stride(), strict=True))
    if channels_last is not None:
        if len(dims) != channels_last:
            return False
        dims = [dims[0], *dims[2:], dims[1]]
    for size, stride in reversed(dims):
        if truth_of(partial(equal, size, 0)) is True:
            return True
        truths.append(truth_of(partial(_either, (size, 1), (stride, expected))))
        expected = expected * size
    return conjunction(truths)


def broadcastable(shape: tuple[Size, ...], target: tuple[Size, ...]) -> bool:
    """Whether a tensor of ``shape`` broadcasts to ``target`` without growing it.

    >>> broadcastable((1, 3), (2, 4, 3)), broadcastable((2, 4, 3), (4, 3))
    (True, False)
    """
    if len(shape) > len(target):
        return False
    pairs = zip(reversed(shape), reversed(target), strict=False)
    return conjunction(truth_of(partial(_either, (have, 1), (have, want))) for have, want in pairs)


def _either(*pairs: tuple[Size, Size]) -> bool:
    return disjunction(truth_of(partial(equal, first, second)) for first, second in pairs)


def tensors_in(value: object) -> Iterator[Tensorlike]:
    """All tensors of a capture or of nested lists; raises Declined for anything else."""
    match value:
        case Capture() | torch.Tensor():
            yield value
        case tuple():
            for item in value:
                yield from tensors_in(item)
        case _:
            raise Declined(f"{describe(value)} is not a tensor")


def describe(value: object) -> str:
    """A value in the words of a message."""
    match value:
        case Capture(name) | CapturedModule(name):
            return f"`{name}`"
        case Submodule(path):
            return f"module `{path}`"
        case torch.Tensor():
            return f"a tensor of shape {list(value.shape)}"
        case Node():
            return f"node `{value.name}`"
        case ModuleAttr(path):
            return f"`{path}`"
        case tuple():
            return f"[{', '.join(describe(item) for item in value)}]"
    return repr(value)
