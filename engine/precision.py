"""The same model in float64: the oracle that rounding errors are measured against."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from .execution import Observation, observe
from .inputs import Call

_WIDE = {
    torch.float16: torch.float64,
    torch.bfloat16: torch.float64,
    torch.float32: torch.float64,
    torch.complex32: torch.complex128,
    torch.complex64: torch.complex128,
}
_CASTS: dict[Callable[..., Any], Callable[..., Any]] = {
    torch.Tensor.float: torch.Tensor.double,
    torch.Tensor.half: torch.Tensor.double,
    torch.Tensor.bfloat16: torch.Tensor.double,
}
# These read bits, not values: with another width they would be another function.
_BIT_CASTS = (torch.Tensor.view, torch.ops.aten.view.dtype)


def observe_in_float64(module: torch.nn.Module, call: Call, seed: int = 0) -> Observation:
    """Run a float64 copy of ``module`` on float64 copies of the inputs, as `observe` does.

    Casts to a smaller float inside the model become casts to float64 as well. Raises whatever
    the copy or the run raises: not every model has a float64 form.
    """
    wide = widened(module)
    args, kwargs = pytree.tree_map(wide_value, (call.args, dict(call.kwargs)))
    with _float64_by_default(), _WideFloats():
        return observe(wide, Call(args, kwargs), seed)


def widened(module: torch.nn.Module) -> torch.nn.Module:
    """A deep copy whose floating-point parameters, buffers and tensor attributes are float64.

    >>> widened(torch.nn.Linear(2, 2).bfloat16()).weight.dtype
    torch.float64
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # torch's own, on copying the pytree specs of an exported module
        wide = copy.deepcopy(module)
    wide.double()
    for part in wide.modules():
        for name, value in vars(part).items():
            if isinstance(value, torch.Tensor):
                vars(part)[name] = wide_value(value)
    return wide


def wide_value(value: Any) -> Any:
    """A floating-point tensor or dtype as float64, a complex one as complex128, anything else as it is."""
    match value:
        case torch.Tensor() if value.dtype in _WIDE:
            return value.to(_WIDE[value.dtype])
        case torch.dtype():
            return _WIDE.get(value, value)
    return value


class _WideFloats(TorchFunctionMode):
    """While active, a call that names a smaller float dtype gets float64 instead."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Iterable[type], args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if func in _BIT_CASTS:
            return func(*args, **kwargs)
        args, kwargs = pytree.tree_map_only(torch.dtype, wide_value, (args, dict(kwargs)))
        return _CASTS.get(func, func)(*args, **kwargs)


@contextmanager
def _float64_by_default() -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(before)
