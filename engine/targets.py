"""The names of what nodes call: ``torch.add``, ``torch.nn.ReLU``, ``aten.add.Tensor``; and which modules are plain."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from functools import cache
from typing import Any

import torch

from .callables import resolve
from .families import FamilyTable


@cache
def _functions(table: FamilyTable) -> Mapping[Any, str]:
    """The functions and classes of a table that are here, with their names; found by identity, once for a table."""
    found: dict[Any, str] = {}
    for name in table.names_by_target:
        if not name.startswith(("aten.", "Tensor.", "getattr.")):
            value = resolve(name)
            if isinstance(value, Hashable) and callable(value):
                found.setdefault(value, name)
    return found


def name_of(target: Any, table: FamilyTable) -> str | None:
    """The name of a function, an op or a class of modules; None if the table does not know it."""
    if isinstance(target, torch._ops.OpOverload | torch._ops.OpOverloadPacket):
        return str(target)
    return _functions(table).get(target)


def is_plain(module: torch.nn.Module) -> bool:
    """Whether a call of the module does what its class says: see `oddity`."""
    return oddity(module) is None


def oddity(module: torch.nn.Module) -> str | None:
    """What makes a call of the module do more than its class says, or other things; None if nothing does."""
    if module._forward_hooks or module._forward_pre_hooks:
        return "forward hooks"
    if module._backward_hooks or module._backward_pre_hooks:
        return "backward hooks"
    if torch.nn.utils.parametrize.is_parametrized(module):
        return "parametrizations"
    return "a `forward` of its own, not that of its class" if "forward" in vars(module) else None
