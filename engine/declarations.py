"""Header declarations as guards: what ``q: float[*B, L, E]``, ``d: int`` or ``w: const Tensor?`` admits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx import Node

from ..dsl import ast
from ..dsl.vocabulary import DTYPE_SETS, DTYPES
from .candidates import Mismatch
from .facts import EXAMPLE_INPUTS, describe
from .kinds import ModuleAttr, Submodule
from .nodeview import Views
from .submodules import strangeness

_PLAIN_CLASSES = (torch.Tensor, torch.nn.Parameter, FakeTensor)
_OF_TENSORS = frozenset({"Tensor", *DTYPES})
_TENSORS = (Node, ModuleAttr, torch.Tensor)
_TORCH_VALUES: Mapping[str, type] = {
    "str": str,
    "dtype": torch.dtype,
    "device": torch.device,
    "layout": torch.layout,
    "memory_format": torch.memory_format,
}


def check(param: ast.Param, value: object, views: Views) -> Mismatch | None:
    """Why ``value`` is not what the parameter declares; None if it is. Sizes are checked by `shapes`."""
    declared = param.type
    if param.star and isinstance(value, tuple):
        found = (check(ast.Param(f"{param.name}[{i}]", declared), item, views) for i, item in enumerate(value))
        return next((mismatch for mismatch in found if mismatch), None)
    if declared is None:
        return None
    if value is None:
        optional = declared.optional or param.optional
        return (
            None if optional else _mismatch(f"`{param.name}` is None, its type `{spell(declared)}` has no `?`", value)
        )
    if declared.qualifier == "module":
        return _not_plain_module(param.name, declared, value)
    mismatches: list[Mismatch] = []
    for name in declared.names:
        mismatch = _reason(param.name, name, declared, value, views)
        if mismatch is None:
            return _not_constant(param.name, declared, value, views)
        mismatches.append(mismatch)
    return next((one for one in mismatches if one.kind == "missing fact"), mismatches[0])


def spell(declared: ast.Type) -> str:
    """A type as it is written, dims left out: ``const float[...]?``."""
    qualifier = f"{declared.qualifier} " if declared.qualifier else ""
    dims = "" if declared.dims is None else "[...]"
    return f"{qualifier}{'|'.join(declared.names)}".strip() + f"{dims}{'?' if declared.optional else ''}"


def _mismatch(reason: str, value: object) -> Mismatch:
    return Mismatch("type", reason, value if isinstance(value, Node) else None)


def _reason(name: str, wanted: str, declared: ast.Type, value: object, views: Views) -> Mismatch | None:
    """Why ``value`` is none of what one name of the type admits."""
    if declared.dims is not None or wanted in _OF_TENSORS:
        return _not_tensor(name, wanted, declared, value, views)
    if wanted in _TORCH_VALUES:
        fits = isinstance(value, _TORCH_VALUES[wanted])
    else:
        fits = _NUMBERS[wanted](value, views, declared.qualifier == "const") if wanted in _NUMBERS else False
    return (
        None
        if fits
        else _mismatch(f"`{name}` must be {_article(spell(declared))}, it is {_shown(value, views)}", value)
    )


def _not_tensor(name: str, wanted: str, declared: ast.Type, value: object, views: Views) -> Mismatch | None:
    if not isinstance(value, _TENSORS):
        return _mismatch(f"`{name}` must be a tensor, it is {describe(value)}", value)
    fact = views.fact(value)
    if fact is None:
        node = value if isinstance(value, Node) else None
        return Mismatch("missing fact", f"dtype and shape of `{name}` are unknown; {EXAMPLE_INPUTS}", node)
    if not isinstance(fact, torch.Tensor):
        return _mismatch(f"`{name}` must be a tensor, it is {_shown(value, views)}", value)
    special = _special(fact)
    if special:
        return _mismatch(f"`{name}` is {special}; rules take dense strided tensors only", value)
    if wanted != "Tensor" and fact.dtype not in dtypes_of(wanted):
        return _mismatch(f"`{name}` must be {_article(spell(declared))}, it has dtype {_dtype_name(fact.dtype)}", value)
    return None


def _special(fact: torch.Tensor) -> str | None:
    """What makes a tensor one that rules do not take; None for a dense strided one."""
    if fact.is_nested:
        return "a nested tensor"
    if fact.layout != torch.strided:
        return f"a tensor of layout {fact.layout}"
    if fact.is_quantized:
        return "a quantised tensor"
    if type(fact) not in _PLAIN_CLASSES and not isinstance(fact, torch.nn.Buffer):
        return f"a {type(fact).__name__}"
    return None


@lru_cache(maxsize=256)
def dtypes_of(name: str) -> tuple[torch.dtype, ...]:
    """The dtypes that a name in front of ``[...]`` admits.

    >>> dtypes_of("complex")
    (torch.complex64, torch.complex128)
    """
    return tuple(getattr(torch, DTYPES.get(one, one)) for one in DTYPE_SETS.get(name, ()))


def _is_int(value: object, views: Views, const: bool) -> bool:
    if isinstance(value, int):
        return not isinstance(value, bool)
    return not const and _carries(value, views, torch.SymInt, int)


def _is_float(value: object, views: Views, const: bool) -> bool:
    return _is_number(value, views, const)


def _is_number(value: object, views: Views, const: bool) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_bool(value: object, views: Views, const: bool) -> bool:
    return isinstance(value, bool)


def _is_complex(value: object, views: Views, const: bool) -> bool:
    return isinstance(value, complex)


_NUMBERS: Mapping[str, Callable[[object, Views, bool], bool]] = {
    "int": _is_int,
    "float": _is_float,
    "number": _is_number,
    "bool": _is_bool,
    "complex": _is_complex,
}


def _carries(value: object, views: Views, *kinds: type) -> bool:
    fact = views.fact(value) if isinstance(value, Node) else value
    return isinstance(fact, kinds) and not isinstance(fact, bool)


def _not_constant(name: str, declared: ast.Type, value: object, views: Views) -> Mismatch | None:
    if declared.qualifier != "const" or not isinstance(value, Node | ModuleAttr):
        return None
    if views.constant(value) is not None:
        return None
    return _mismatch(f"`{name}` must be known at rewrite time: a parameter, or a buffer that nothing writes to", value)


def _not_plain_module(name: str, declared: ast.Type, value: object) -> Mismatch | None:
    """Its class was looked at where the call was matched; here is what the class does not say."""
    if not isinstance(value, Submodule):
        return _mismatch(f"`{name}` must be {_article(spell(declared))}, it is {describe(value)}", value)
    strange = strangeness(value)
    return None if strange is None else _mismatch(f"`{name}` is no plain module: {strange}", value)


def _article(words: str) -> str:
    return f"{'an' if words[0] in 'aeiou' else 'a'} `{words}`"


def _shown(value: object, views: Views) -> str:
    """A value with what is known of it: ``a tensor of dtype int64``."""
    fact = views.fact(value) if isinstance(value, Node | ModuleAttr) else value
    if isinstance(fact, torch.Tensor):
        return f"a tensor of dtype {_dtype_name(fact.dtype)}"
    if isinstance(value, Node):
        return f"node `{value.name}` of unknown kind" if fact is None else f"node `{value.name}`, {fact!r}"
    return describe(value)


def _dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
