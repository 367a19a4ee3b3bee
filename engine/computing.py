"""Arithmetic on the values of constant tensors, for ``let``: reads parameters, never writes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.utils import _pytree as pytree

from .facts import Capture
from .plans import defaults_of
from .ruleset import Scope
from .spellings import emit, read_param
from .truth import Declined

LARGEST = 2**28
"""No tensor of more elements than this is computed."""


class Frozen(Declined):
    """The value of a constant is needed, and the caller did not pass ``freeze=True``."""


def read(value: object) -> Any:
    """``value`` with the captured constants in it replaced by their tensors.

    Raises Declined for a capture that is no constant, Frozen for one that may not be read.
    """
    match value:
        case Capture(name, inner, views, freeze):
            tensor = views.constant(inner)
            if tensor is None:
                raise Declined(f"the value of `{name}` is not known at rewrite time: it is no parameter or buffer")
            if not freeze:
                raise Frozen(f"the value of `{name}` is needed: pass freeze=True")
            return tensor.detach()
        case tuple():
            return tuple(read(item) for item in value)
    return value


def apply(name: str, args: tuple[object, ...], kwargs: Mapping[str, object], scope: Scope) -> object:
    """One pure op of the family table on constants and plain values; raises Declined for anything else."""
    name = scope.ops.get(name, name)
    if name not in scope.table.families:
        raise Declined(f"`{name}`: no such function or op")
    family = scope.table.families[name]
    if family.effect != "pure":
        raise Declined(f"`{name}` is not a pure op: it cannot run at rewrite time")
    values = list(defaults_of(family))
    given = dict(enumerate(args))
    for keyword, value in kwargs.items():
        if keyword not in family.index or family.index[keyword] in given:
            raise Declined(f"`{name}` takes no `{keyword}` here")
        given[family.index[keyword]] = value
    if any(at >= len(values) for at in given):
        raise Declined(f"`{name}` takes at most {len(values)} arguments")
    for at, value in given.items():
        values[at] = read_param(family.params[at], read(value))
    call = emit(scope.table, family, values, "torch")
    if call is None:
        raise Declined(f"`{name}` has no form that takes these arguments")
    target, call_args, call_kwargs = call
    if isinstance(target, str):
        return run(getattr(torch.Tensor, target), call_args, call_kwargs)
    return run(target, call_args, call_kwargs)


def run(function: Callable[..., Any], args: tuple[object, ...], kwargs: Mapping[str, object]) -> object:
    """The result of a tensor function on values, without gradients; raises Declined where it fails.

    It runs on ``meta`` tensors first, so that a result that is too large is never made.

    >>> run(torch.add, (torch.ones(2), 1), {})
    tensor([2., 2.])
    """
    try:
        with torch.no_grad():
            with torch.device("meta"):
                _refuse_large(function(*_on_meta(args), **_on_meta(kwargs)))
            return _plain(function(*args, **kwargs))
    except (RuntimeError, TypeError, ValueError, IndexError, ArithmeticError) as error:
        raise Declined(str(error).partition("\n")[0]) from error


def _on_meta(values: Any) -> Any:
    return pytree.tree_map_only(torch.Tensor, lambda tensor: tensor.to("meta"), values)


def _refuse_large(result: object) -> None:
    for tensor in pytree.tree_leaves(result):
        if isinstance(tensor, torch.Tensor) and tensor.numel() > LARGEST:
            raise Declined(f"a tensor of {tensor.numel()} elements is too large to compute at rewrite time")


def _plain(result: object) -> object:
    return tuple(result) if isinstance(result, list | tuple) else result
