"""What a node calls, as text: ``torch.add``, ``Tensor.view``, ``getattr.mT``, ``torch.nn.ReLU``, ``aten.add.Tensor``."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from attrs import define, field
from torch.fx import Node

from .families import REQUIRED, FamilyTable
from .kinds import plain_value
from .spellings import resolve


@define(eq=False)
class Targets:
    """The names of callables in a table; functions are found by identity, once for all."""

    table: FamilyTable
    _functions: dict[Callable[..., Any], str] = field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        for text in self.table.names_by_target:
            if not text.startswith(("aten.", "Tensor.", "getattr.")):
                found = resolve(text)
                if callable(found):
                    self._functions.setdefault(found, text)

    def of_function(self, node: Node) -> str | None:
        """The name of what a call_function node calls; None if the table does not know it."""
        target = node.target
        if isinstance(target, torch._ops.OpOverload | torch._ops.OpOverloadPacket):
            return str(target)
        if target is getattr:
            return f"getattr.{node.args[1]}" if len(node.args) == 2 else None
        return self._functions.get(target)  # type: ignore[arg-type]

    def of_module(self, module: torch.nn.Module) -> str | None:
        """The name of a module's class; None if the class is unknown or the module does more than its class says."""
        if module._forward_hooks or module._forward_pre_hooks or torch.nn.utils.parametrize.is_parametrized(module):
            return None
        return self._functions.get(type(module))


@cache
def own_parameters(target: Any) -> tuple[tuple[str, Any], ...] | None:
    """Name and default of each parameter of a callable, from its schema or signature; None if it has neither.

    A torch builtin such as ``torch.cat`` has neither: its parameters are those of the first ATen overload of its
    name, with ``input`` for ``self``.
    """
    if isinstance(target, torch._ops.OpOverload):
        return tuple((one.name, _schema_default(one)) for one in target._schema.arguments)
    if isinstance(target, torch._ops.OpOverloadPacket):
        return own_parameters(getattr(target, target.overloads()[0]))
    try:
        signature = inspect.signature(target)
    except (TypeError, ValueError):
        packet = getattr(torch.ops.aten, getattr(target, "__name__", ""), None)
        if not isinstance(packet, torch._ops.OpOverloadPacket):
            return None
        found = own_parameters(packet)
        return found and tuple(("input" if name == "self" else name, default) for name, default in found)
    return tuple(
        (one.name, REQUIRED if one.default is inspect.Parameter.empty else plain_value(one.default))
        for one in signature.parameters.values()
    )


def _schema_default(argument: Any) -> Any:
    return plain_value(argument.default_value) if argument.has_default_value() else REQUIRED
