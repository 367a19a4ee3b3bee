"""Objects behind names: what a target's text stands for, and the parameters of a callable. Imports nothing."""

from __future__ import annotations

import inspect
import math
import operator
import sys
from functools import cache
from typing import Any

import torch
from torch.fx import Node

from .kinds import plain_value
from .signatures import REQUIRED

_ROOTS = {
    "torch": torch, "operator": operator, "math": math, "aten": torch.ops.aten, "Tensor": torch.Tensor,
    "F": torch.nn.functional, "nn": torch.nn,
}  # fmt: skip


def resolve(target: str) -> Any:
    """The object that a target names (``"torch.cat"``, ``"aten.add.Tensor"``); None if there is none here.

    ``"acme.geglu"`` is a registered op of the namespace ``acme`` or something in a module that is already imported.

    >>> resolve("torch.cat") is torch.cat, resolve("acme.no_such_op")
    (True, None)
    """
    head, _, rest = target.partition(".")
    if head in _ROOTS:
        return _walk(_ROOTS[head], rest)
    found = _walk(getattr(torch.ops, head), rest) if head.isidentifier() and rest else None
    return found if found is not None else _in_modules(target)


def _walk(value: Any, path: str) -> Any:
    for name in path.split("."):
        value = getattr(value, name, None)
        if value is None:
            return None
    return value


def _in_modules(target: str) -> Any:
    """Something in an imported module, the longest module path first."""
    home, _, rest = target.rpartition(".")
    while home:
        if home in sys.modules:
            return _walk(sys.modules[home], rest)
        home, _, name = home.rpartition(".")
        rest = f"{name}.{rest}"
    return None


@cache
def own_parameters(target: Any) -> tuple[tuple[str, Any], ...] | None:
    """Name and default of each parameter of a callable, from its schema or signature; None if it has neither.

    A torch builtin such as ``torch.cat`` has neither: its parameters are those of the first ATen overload of its
    name, with ``input`` for ``self``.
    """
    if isinstance(target, torch._ops.OpOverload):
        return tuple((one.name, _schema_default(one)) for one in target._schema.arguments)
    if isinstance(target, torch._ops.OpOverloadPacket):
        return own_parameters(getattr(target, target._overload_names[0] or "default"))
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


def exact_arguments(node: Node) -> tuple[tuple[str, Any, Any], ...] | None:
    """Name, value and default of each argument by the target's own schema or signature."""
    parameters = own_parameters(node.target)
    if parameters is None:
        return None
    values = dict(zip((name for name, _ in parameters), node.args, strict=False))
    values.update(node.kwargs)
    if len(node.args) > len(parameters) or not values.keys() <= {name for name, _ in parameters}:
        return None
    return tuple((name, plain_value(values.get(name, default)), default) for name, default in parameters)
