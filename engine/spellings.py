"""From the arguments of a family to a call at a given level: which spelling, and how it is written.

A spelling is read and written by the same form, so that what is emitted is read back as the same arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import torch

from .callables import resolve
from .families import FamilyTable
from .kinds import UNFIT, admits, carries, plain_value, reader, written
from .plans import base_of, default_of, own_signature, read_param, word
from .schemas import overloads_of
from .signatures import REQUIRED, Bound, Family, Fixed, Form, Free, Ignored, Param
from .values import same_value

__all__ = [
    "Call",
    "default_of",
    "emit",
    "emit_form",
    "emit_module",
    "exact_target",
    "own_arguments",
    "read_param",
    "resolve",
]

Call: TypeAlias = tuple[Callable[..., Any] | str, tuple[Any, ...], dict[str, Any]]


def emit(table: FamilyTable, family: Family, args: Sequence[Any], level: str, *, numbers: bool = False) -> Call | None:
    """The op as a call at a level: its target, arguments and keywords, trailing defaults left out.

    A target that is text is a method's name. None means that the family has no form at
    this level that can say these arguments. ``numbers``: all operands are Python numbers
    or SymInts, so that only an ``operator`` will do.
    """
    groups = (("any",),) if numbers else (("torch", "any"),) if level == "torch" else ((level,), ("any",))
    for wanted in groups:
        forms = [form for form in family.forms if form.level in wanted and form.kind != "module"]
        for strict in (True, False):
            calls = list(_calls(family, forms, args, strict))
            if calls:
                return calls[0] if level == "torch" else _of_overload(min(calls, key=_starts_with_number))
    return None


def _of_overload(call: Call) -> Call | None:
    """The call of an op packet as that of its only or default overload: no packet stands below level torch."""
    target, args, kwargs = call
    if not isinstance(target, torch._ops.OpOverloadPacket):
        return call
    names = [name or "default" for name in target._overload_names]
    name = "default" if "default" in names else names[0]
    return (getattr(target, name), args, kwargs) if name == "default" or len(names) == 1 else None


def _calls(family: Family, forms: Sequence[Form], args: Sequence[Any], strict: bool) -> Iterator[Call]:
    """The ways to say an op, the preferred one first; operands are swapped to get a tensor before a number."""
    numbers_first = _is_number(args[0]) if args else False
    for form in forms:
        call = emit_form(family, form, args, strict)
        if call is not None:
            yield call
            if not numbers_first:
                return
    if numbers_first and family.commutative:
        swapped = (args[1], args[0], *args[2:])
        yield from (call for form in forms if (call := emit_form(family, form, swapped, strict)) is not None)


def _starts_with_number(call: Call) -> bool:
    """ATen graphs have ``rsub(x, 1)`` and ``add(x, 1)``, not ``sub(1, x)`` and ``add(1, x)``."""
    return bool(call[1]) and _is_number(call[1][0])


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | complex)


def emit_form(family: Family, form: Form, args: Sequence[Any], strict: bool = True) -> Call | None:
    """The op spelled in this form; None if the form cannot say these arguments or is not installed.

    ``strict``: a node of unknown kind is a tensor.
    """
    own = own_arguments(family, form, args, strict)
    if form.kind == "attribute":
        return None if own is None else (getattr, (own[0], form.target.removeprefix("getattr.")), {})
    target = form.target.removeprefix("Tensor.") if form.kind == "method" else resolve(form.target)
    if target is None or own is None:
        return None
    params = [param for param, _ in own_signature(form)]
    count = sum(1 for param in params if not param.keyword_only)
    spread = next((i for i, param in enumerate(params) if param.varargs and param.type == "Tensor[]"), None)
    while count and _is_default(params[count - 1], own[count - 1]):
        count -= 1
    kwargs = {
        param.name: value
        for param, value in zip(params, own, strict=True)
        if param.keyword_only and not _is_default(param, value)
    }
    if spread is not None and spread == count - 1:
        return target, (*own[:spread], *own[spread]), kwargs
    return target, tuple(own[:count]), kwargs


def own_arguments(family: Family, form: Form, args: Sequence[Any], strict: bool = True) -> list[Any] | None:
    """One value for each own parameter of the form; None if it cannot say the family's arguments."""
    base = base_of(family, form)
    pairs = own_signature(form)
    said = {role.index for _, role in pairs if isinstance(role, Bound)}
    for at, value in enumerate(args):
        if at not in said and not same_value(value, base[at]):
            return None
    found: list[Any] = []
    for param, role in pairs:
        match role:
            case Bound(at):
                value = args[at]
                if value is None and default_of(family.params[at]) is None and param.default is not REQUIRED:
                    value = written(word(param.type), param.default)
                else:
                    value = written(word(param.type), value)
                if value is UNFIT or not carries(value, admits(word(param.type)), strict):
                    return None
                found.append(value)
            case Fixed(value) | Ignored(value):
                found.append(value)
            case Free():
                return None
    return found


def _is_default(param: Param, value: Any) -> bool:
    if param.default is REQUIRED:
        return False
    read = reader(word(param.type))
    return same_value(plain_value(read(value)), plain_value(read(param.default)))


def emit_module(
    family: Family, args: Sequence[Any]
) -> tuple[type[torch.nn.Module], dict[str, Any], tuple[Any, ...]] | None:
    """The op as an nn.Module that follows train and eval: its class, the constructor's keywords, the call's arguments.

    For ops such as dropout at level torch; only modules without tensors of their own.
    """
    for form in family.forms:
        if form.kind != "module":
            continue
        pairs = list(zip(form.params, form.roles, strict=True))
        keywords: dict[str, Any] = {}
        call: list[Any] = []
        for param, role in pairs:
            if not isinstance(role, Bound) or param.name == "@training":
                continue
            if param.name.startswith("@"):
                keywords[param.name[1:]] = args[role.index]
            else:
                call.append(args[role.index])
        found = resolve(form.target)
        if found is not None and not any("Tensor" in param.type for param, _ in pairs if param.name.startswith("@")):
            return found, keywords, tuple(call)
    return None


def exact_target(text: str) -> Any:
    """What a qualified name calls (``aten.add.Tensor``, ``acme.geglu``): None if it is not installed.

    >>> exact_target("aten.add.Tensor") is torch.ops.aten.add.Tensor
    True
    """
    found = resolve(text)
    if found is None:
        namespace, _, name = text.partition(".")
        found = getattr(getattr(torch.ops, namespace), name, None) if name.isidentifier() else None
    default = [op for op in overloads_of(found) if op._overloadname == "default"]
    if default:
        return default[0]
    return found if callable(found) else None
