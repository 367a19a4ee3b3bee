"""The global switches of torch that calls in a graph may turn: read, and put back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

_DEVICES = ("cpu", "cuda")


def switches() -> tuple[object, ...]:
    """What decides, besides its arguments, the dtype of what an op gives."""
    autocast = [(torch.is_autocast_enabled(one), torch.get_autocast_dtype(one)) for one in _DEVICES]
    return (*autocast, torch.get_default_dtype())


@contextmanager
def switches_kept() -> Iterator[None]:
    """Behind it all switches and the random state are what they were before."""
    autocast = [(one, torch.is_autocast_enabled(one), torch.get_autocast_dtype(one)) for one in _DEVICES]
    dtype, grad, random = torch.get_default_dtype(), torch.is_grad_enabled(), torch.get_rng_state()
    exact, caches, nesting = torch.are_deterministic_algorithms_enabled(), torch.is_autocast_cache_enabled(), _nesting()
    try:
        yield
    finally:
        for device, enabled, kind in autocast:
            torch.set_autocast_enabled(device, enabled)
            torch.set_autocast_dtype(device, kind)
        torch.set_autocast_cache_enabled(caches)
        while _nesting() > nesting:
            torch.autocast_decrement_nesting()
        torch.set_default_dtype(dtype)
        torch.set_grad_enabled(grad)
        if torch.are_deterministic_algorithms_enabled() != exact:
            torch.use_deterministic_algorithms(exact)
        torch.set_rng_state(random)


def _nesting() -> int:
    """How deep the regions of autocast are nested."""
    torch.autocast_increment_nesting()
    return torch.autocast_decrement_nesting()
