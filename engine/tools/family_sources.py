"""What torch itself says of its ops: ATen schemas, Python signatures, and which name is an alias of which."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from attrs import evolve, frozen

MEMORY_FORMATS = ("contiguous_format", "preserve_format", "channels_last", "channels_last_3d")
DTYPES = ("uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64")
NAMESPACES: Mapping[str, Any] = {
    "torch": torch,
    "torch.nn.functional": F,
    "torch.special": torch.special,
    "torch.linalg": torch.linalg,
    "torch.fft": torch.fft,
}
_WORDS = {
    "number": "Scalar", "ScalarType": "dtype", "Layout": "layout", "Device": "device", "MemoryFormat": "memory_format",
    "Tensor": "Tensor", "int": "int", "float": "float", "bool": "bool", "str": "str", "Generator": "Generator",
    "SymInt": "int", "complex": "Scalar",
}  # fmt: skip
_DIM_NAMES = frozenset(
    [
        "dim",
        "dims",
        "dim0",
        "dim1",
        "dim2",
        "axis",
        "axis0",
        "axis1",
        "start_dim",
        "end_dim",
        "source",
        "destination",
        "normalized_dim",
    ]
)


class _NoDefault:
    """Marks an argument that has no default."""


NO_DEFAULT = _NoDefault()


@frozen
class Arg:
    """An argument of a schema or signature; ``kind`` as in ``engine.kinds``, ``default`` as JSON has it."""

    name: str
    kind: str
    default: Any = NO_DEFAULT
    keyword_only: bool = False


@frozen
class Overload:
    """An ATen overload: ``aten.add.Tensor``, its arguments and what it returns and does."""

    packet: str
    name: str
    args: tuple[Arg, ...]
    returns: tuple[str, ...]
    mutates: bool
    random: bool
    writes: tuple[str, ...] = ()

    @property
    def target(self) -> str:
        return f"aten.{self.packet}.{self.name}"


def overloads() -> Mapping[str, tuple[Overload, ...]]:
    """Every ATen overload of the dispatcher by packet, those with ``out`` or named dimensions left out."""
    registered = set(torch._C._dispatch_get_all_op_names())
    found: dict[str, list[Overload]] = {}
    for schema in torch._C._jit_get_all_schemas():
        suffix = f".{schema.overload_name}" if schema.overload_name else ""
        if schema.name.startswith("aten::") and schema.name + suffix in registered and _is_usable(schema):
            one = _overload(schema)
            found.setdefault(one.packet, []).append(one)
    return {packet: tuple(sorted(found[packet], key=_order)) for packet in sorted(found)}


def _is_usable(schema: Any) -> bool:
    text = str(schema)
    if any(one.is_out for one in schema.arguments) or "Dimname" in text or "Storage" in text or "Stream" in text:
        return False
    return not schema.overload_name.endswith(("hacked_twin", "generator", "generator_with_names", "names"))


def _order(one: Overload) -> tuple[bool, bool, int, bool, str]:
    """Overloads on tensors come before those on scalars, few arguments before many, ``sections`` before ``indices``."""
    lists = any(arg.kind == "int[]" for arg in one.args)
    return one.name != "default", not one.name.startswith("Tensor"), len(one.args), lists, one.name


def _overload(schema: Any) -> Overload:
    packet, name = schema.name.removeprefix("aten::"), schema.overload_name or "default"
    op = getattr(getattr(torch.ops.aten, packet), name)
    return Overload(
        packet,
        name,
        tuple(_arg(one, packet) for one in schema.arguments),
        tuple(_kind(str(one.type), None) for one in schema.returns),
        schema.is_mutable,
        torch.Tag.nondeterministic_seeded in op.tags,
        tuple(one.name for one in schema.arguments if one.alias_info and one.alias_info.is_write),
    )


def _arg(argument: Any, packet: str) -> Arg:
    kind = _kind(str(argument.real_type), argument.N)
    if argument.name in _DIM_NAMES and kind.startswith("int") and not packet.startswith(("fft_", "_fft")):
        kind = "dim" + kind[3:]
    default: Any = NO_DEFAULT
    if argument.has_default_value():
        default = argument.default_value
        if kind.startswith("memory_format") and isinstance(default, int):
            default = f"torch.{MEMORY_FORMATS[default]}"
        elif kind.startswith("dtype") and isinstance(default, int):
            default = f"torch.{DTYPES[default]}"
    if kind == "memory_format?" and packet != "empty":
        kind, default = "memory_format or torch.preserve_format", "torch.preserve_format"
    if argument.name == "pin_memory":
        kind = "bool or false"
    return Arg(argument.name, kind, default, argument.kwarg_only)


def _kind(text: str, size: int | None) -> str:
    if inner := re.fullmatch(r"Optional\[(.*)\]", text):
        return _kind(inner[1], size) + "?"
    if inner := re.fullmatch(r"List\[(.*)\]", text):
        return f"{_kind(inner[1], None)}[{size or ''}]"
    return _WORDS.get(text, "any")


def python_signature(target: Callable[..., Any]) -> tuple[Arg, ...] | None:
    """The arguments of a function written in Python, kinds by its annotations; None for a builtin."""
    if not inspect.isfunction(target):
        return None
    found = []
    for one in inspect.signature(_dispatched(target)).parameters.values():
        default = NO_DEFAULT if one.default is inspect.Parameter.empty else one.default
        name = f"*{one.name}" if one.kind is inspect.Parameter.VAR_POSITIONAL else one.name
        found.append(Arg(name, "", default, one.kind is inspect.Parameter.KEYWORD_ONLY))
    return tuple(found)


def _dispatched(target: Callable[..., Any]) -> Callable[..., Any]:
    """The function behind one that chooses by a flag, such as `return_indices`."""
    while target.__qualname__.startswith("boolean_dispatch"):
        target = inspect.getclosurevars(target).nonlocals["if_false"]
    return target


def annotated_signature(target: Callable[..., Any]) -> tuple[Arg, ...]:
    """The arguments of a Python function with the kinds that its annotations say; ``any`` where they say little."""
    parameters = inspect.signature(_dispatched(target)).parameters
    return tuple(
        evolve(arg, kind=_annotated(parameters[arg.name.removeprefix("*")], arg))
        for arg in python_signature(target) or ()
    )


def _annotated(parameter: inspect.Parameter, arg: Arg) -> str:
    if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
        return "Tensor[]"
    text = str(getattr(parameter.annotation, "__name__", parameter.annotation)).replace("torch.", "")
    kind = text if text in ("Tensor", "bool", "str", "float") else "any"
    if arg.name in ("input", "input1", "input2", "target", "indices"):
        kind = "Tensor"
    return "Tensor?" if "Tensor | None" in text else kind


def indices_function(name: str) -> Callable[..., Any] | None:
    """The function of torch.nn.functional that ``name`` is, with its indices, if it has that choice."""
    found = getattr(F, f"{name}_with_indices", None)
    return found if found is not None and hasattr(F, name) else None


def documented_aliases(names: set[str]) -> Mapping[str, str]:
    """Op names whose documentation says that they are another name of an op in ``names``."""
    pattern = re.compile(r"\b[Aa]lias (?:for|of) :(?:func|meth):`~?(?:torch\.)?(?:Tensor\.)?([\w.]+?)(?:\(\))?`")
    found: dict[str, str] = {}
    for home, namespace in (*NAMESPACES.items(), ("Tensor", torch.Tensor)):
        prefix = {"torch.special": "special_", "torch.linalg": "linalg_"}.get(home, "")
        for name in sorted(dir(namespace)):
            text = getattr(getattr(namespace, name, None), "__doc__", None)
            said = pattern.search(text) if isinstance(text, str) else None
            if said and not name.startswith("_"):
                base = said[1].replace(".", "_")
                alias = prefix + name
                if base in names and alias in names and alias != base:
                    found.setdefault(alias, base)
    return found


OPERATORS: Mapping[str, str] = {
    "add": "add", "sub": "sub", "mul": "mul", "truediv": "div", "floordiv": "floor_divide", "mod": "remainder",
    "pow": "pow", "matmul": "matmul", "and_": "bitwise_and", "or_": "bitwise_or", "xor": "bitwise_xor",
    "lshift": "bitwise_left_shift", "rshift": "bitwise_right_shift", "eq": "eq", "ne": "ne", "lt": "lt", "le": "le",
    "gt": "gt", "ge": "ge", "neg": "neg", "invert": "bitwise_not", "abs": "abs", "pos": "positive",
}  # fmt: skip
