"""Calls of submodules by class: ``m: module acme.nn.Norm`` and ``m(x, y, k=z)``. Imports nothing, runs no code.

A class goes by the end of its full name (``nn.Norm`` of the package ``acme`` is ``acme.nn.Norm``), or by a name under
which a module that is imported already offers it. ``nn.`` and ``torch.nn.`` mean torch itself.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Collection, Iterable, Iterator
from typing import Any, Final

import torch
from attrs import frozen
from torch import nn
from torch.fx import Node
from torch.nn.utils.parametrize import type_before_parametrizations

from ..dsl.nearest import did_you_mean
from .factkeys import TORCH_VALUES
from .kinds import ModuleAttr, Submodule, Value, plain_value
from .observers import is_observer
from .signatures import REQUIRED
from .targets import is_plain, oddity

MISSING: Final = object()
OPAQUE: Final = object()


@frozen
class ModuleCall:
    """A call of a submodule: name, value and default of each argument of its ``forward``."""

    submodule: Submodule
    arguments: tuple[tuple[str, Value, Any], ...]


# ------------------------------------------------------------------------ classes
def is_of_class(module: nn.Module, name: str) -> bool:
    """Whether a module is of exactly this class; parametrizations, which make a class of their own, do not count.

    >>> is_of_class(nn.Linear(1, 1), "nn.Linear"), is_of_class(nn.Linear(1, 1), "torch.nn.Module")
    (True, False)
    """
    kind = type_before_parametrizations(module)
    if name.startswith(("nn.", "torch.")):
        return kind is _offered(f"torch.{name}" if name.startswith("nn.") else name)
    full = f"{kind.__module__}.{kind.__qualname__}"
    return full == name or full.endswith(f".{name}") or kind is _offered(name)


def class_name(module: nn.Module) -> str:
    """The full name of a module's class."""
    kind = type_before_parametrizations(module)
    return f"{kind.__module__}.{kind.__qualname__}"


def similar_class(name: str, modules: Iterable[nn.Module]) -> str:
    """A hint where none of these modules is of a class, and the class of one is called almost so; else ""."""
    modules = list(modules)
    if name.startswith(("nn.", "torch.")) or any(is_of_class(module, name) for module in modules):
        return ""
    parts = name.count(".") + 1
    return did_you_mean(name, {".".join(class_name(module).split(".")[-parts:]) for module in modules})


def is_named(module: nn.Module | None, classes: Collection[str]) -> bool:
    """Whether a module is of one of these classes."""
    return module is not None and any(is_of_class(module, name) for name in classes)


def _offered(name: str) -> object:
    """What is called so in a module that is imported already. No attribute is asked for: that may run code."""
    home, _, rest = name.rpartition(".")
    while home and home not in sys.modules:
        home, _, part = home.rpartition(".")
        rest = f"{part}.{rest}"
    found: Any = sys.modules.get(home)
    for part in rest.split("."):
        found = vars(found).get(part) if isinstance(found, type | type(sys)) else None
    return found


def strangeness(submodule: Submodule) -> str | None:
    """Why a call of a submodule may do other things than its class says; None if it does just that."""
    for path, part in submodule.module.named_modules():
        found = oddity(part)
        if found is not None:
            whose = "it" if not path else f"its part `{path}`"
            return f"`{submodule.path}`: {whose} has {found}"
    return None


def is_quiet(module: nn.Module | None, classes: Collection[str]) -> bool:
    """Whether a call of a module computes a value and no more, as far as the rules that name its class say so.

    What training updates, if anything, is not known: a module in training mode is not quiet.
    """
    if module is None or module.training or not is_named(module, classes):
        return False
    return all(map(is_plain, module.modules()))


# -------------------------------------------------------------------------- calls
def called(node: Node, module: nn.Module | None, wanted: str | None) -> ModuleCall | None:
    """The call of ``module`` that a node is, if it is of the class ``wanted`` (None: any) and no check of the graph."""
    if module is None or is_observer(node) or not (wanted is None or is_of_class(module, wanted)):
        return None
    arguments = _arguments(module, node.args, dict(node.kwargs))
    return None if arguments is None else ModuleCall(Submodule(str(node.target), module), arguments)


def _arguments(
    module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[str, Value, Any], ...] | None:
    """The arguments of a call by the signature of ``forward``; None if they do not fit it."""
    try:
        signature = inspect.signature(module.forward)
        bound = signature.bind(*args, **kwargs).arguments
    except (TypeError, ValueError):
        return None
    return tuple(_laid_out(signature, bound))


def _laid_out(signature: inspect.Signature, bound: dict[str, Any]) -> Iterator[tuple[str, Value, Any]]:
    for name, param in signature.parameters.items():
        default = REQUIRED if param.default is inspect.Parameter.empty else plain_value(param.default)
        match param.kind:
            case inspect.Parameter.VAR_POSITIONAL:
                yield from ((f"*{at}", plain_value(one), REQUIRED) for at, one in enumerate(bound.get(name, ())))
            case inspect.Parameter.VAR_KEYWORD:
                yield from ((key, plain_value(one), REQUIRED) for key, one in bound.get(name, {}).items())
            case _:
                yield name, plain_value(bound.get(name, default)), default


# --------------------------------------------------------------------- attributes
def attribute_of(submodule: Submodule, name: str) -> object:
    """``m.name``: a number, text, tuple, dtype, None, a tensor or a submodule of ``m``.

    MISSING if there is no such attribute, OPAQUE for one that rules do not see (a function, a property).
    """
    module, path = submodule.module, f"{submodule.path}.{name}"
    for table in (module._parameters, module._buffers, module._modules, vars(module)):
        if name in table:
            return _seen(table[name], path)
    for kind in type(module).__mro__:
        if name in vars(kind):
            return _seen(vars(kind)[name], path)
    return MISSING


def attribute_names(submodule: Submodule) -> list[str]:
    """The attributes of a submodule that rules may name, in alphabetical order."""
    module = submodule.module
    own = {*module._parameters, *module._buffers, *module._modules, *vars(module)}
    return sorted(name for name in own if not name.startswith("_"))


def _seen(value: object, path: str) -> object:
    match value:
        case torch.Tensor():
            return ModuleAttr(path)
        case nn.Module():
            return Submodule(path, value)
        case None | bool() | int() | float() | complex() | str():
            return value
        case tuple() | list():
            items = tuple(OPAQUE if isinstance(item, torch.Tensor | nn.Module) else _seen(item, path) for item in value)
            return OPAQUE if OPAQUE in items else items
    return value if isinstance(value, TORCH_VALUES) else OPAQUE
