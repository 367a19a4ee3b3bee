"""From the arguments of a call to the family's arguments, and back to a call at a given level.

``Plan`` is a form worked out for reading: which own argument goes where, how it is
read, what it must be. Both directions go by the same form, so that what is emitted
is read back as the same arguments.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, TypeAlias

import torch
from attrs import frozen
from torch.fx import Node

from .families import REQUIRED, Bound, Family, FamilyTable, Fixed, Form, Ignored, Param
from .kinds import UNFIT, ModuleAttr, Reader, admits, carries, plain_value, reader, written
from .values import same_value

Call: TypeAlias = tuple[Callable[..., Any] | str, tuple[Any, ...], dict[str, Any]]


@frozen
class Plan:
    """A form, worked out once for binding many calls."""

    positional: int
    index: Mapping[str, int]
    defaults: tuple[Any, ...]
    varargs: int | None
    base: tuple[Any, ...]
    bound: tuple[tuple[int, Reader, int], ...]
    fixed: tuple[tuple[int, Any], ...]
    attributes: tuple[tuple[int, str], ...]
    same_as: tuple[tuple[int, int], ...]
    admitted: tuple[tuple[int, frozenset[str]], ...]


@cache
def plan_of(family: Family, form: Form) -> Plan:
    """The plan of a form."""
    own = form.params
    base = [default_of(param) for param in family.params]
    for at, value in form.constants:
        base[at] = read_param(family.params[at], value)
    pairs = list(zip(own, form.roles, strict=True))
    attributes = tuple((i, param.name[1:]) for i, param in enumerate(own) if param.name.startswith("@"))
    first_attribute = attributes[0][0] if attributes else len(own)
    positional = sum(1 for param in own[:first_attribute] if not param.keyword_only)
    return Plan(
        positional,
        {param.name: i for i, param in enumerate(own)},
        tuple(param.default for param in own),
        next((i for i, param in enumerate(own) if param.varargs), None),
        tuple(base),
        tuple(
            (i, both_read(param, family.params[role.index]), role.index)
            for i, (param, role) in enumerate(pairs)
            if isinstance(role, Bound)
        ),
        tuple((i, role.value) for i, (_, role) in enumerate(pairs) if isinstance(role, Fixed)),
        attributes,
        family.same_as,
        tuple((i, admits(word(param.type))) for i, param in enumerate(own)),
    )


def both_read(own: Param, param: Param) -> Reader:
    """The reader of an own argument that gives what the family keeps: ``dim=1`` as ``(1,)``."""
    first, second = reader(word(own.type)), reader(word(param.type))
    if first is second or "enum" in own.type:
        return first

    def read(value: Any) -> Any:
        found = first(value)
        return UNFIT if found is UNFIT else second(found)

    return read


def word(kind: str) -> str:
    """A kind without the note that a missing value means another parameter's: ``int[2]? = kernel_size``."""
    return kind.partition(" like ")[0]


def read_param(param: Param, value: Any) -> Any:
    """A value as the family keeps it; the value itself where it does not fit."""
    found = reader(word(param.type))(value)
    return value if found is UNFIT else found


def default_of(param: Param) -> Any:
    """A parameter's default as the family keeps it; REQUIRED if there is none."""
    return REQUIRED if param.default is REQUIRED else read_param(param, param.default)


def own_values(plan: Plan, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any] | None:
    """The arguments of a call by the spelling's own parameters; None if the call does not fit its signature."""
    values = list(plan.defaults)
    if plan.varargs is not None and len(args) > plan.varargs:
        spread = args[plan.varargs :]
        whole = spread[0] if len(spread) == 1 and isinstance(spread[0], list | tuple) else tuple(spread)
        args = (*args[: plan.varargs], whole)
    if len(args) > plan.positional:
        return None
    values[: len(args)] = args
    for name, value in kwargs.items():
        at = plan.index.get(name)
        if at is None or at < len(args):
            if name == "out" and value is None:
                continue
            return None
        values[at] = value
    return values


def bind(
    family: Family,
    form: Form,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    module: tuple[str, torch.nn.Module] | None = None,
) -> tuple[Any, ...] | None:
    """The family's arguments that a call of this form has, defaults filled; None if the call is not of the family.

    ``module`` is the called module with its path. Dims are left as they are.
    """
    plan = plan_of(family, form)
    values = own_values(plan, args, kwargs)
    if values is None:
        return None
    if module is not None:
        for at, name in plan.attributes:
            values[at] = module_value(module, name)
    for at, expected in plan.fixed:
        value = values[at]
        if value is not expected and not same_value(plain_value(value), expected):
            return None
    found = list(plan.base)
    for at, read, to in plan.bound:
        value = values[at]
        value = read(value) if value is not REQUIRED else UNFIT
        if value is UNFIT:
            return None
        found[to] = value
    for at, other in plan.same_as:
        if found[at] == () or same_value(found[at], found[other]):
            found[at] = None
    return None if REQUIRED in found else tuple(found)


def module_value(module: tuple[str, torch.nn.Module], name: str) -> Any:
    """An attribute of a module as an argument: a tensor by its path, anything else as it is."""
    path, owner = module
    value = getattr(owner, name, UNFIT)
    return ModuleAttr(f"{path}.{name}") if isinstance(value, torch.Tensor) else plain_value(value)


def suits(family: Family, form: Form, args: Sequence[Any], kwargs: Mapping[str, Any], strict: bool) -> bool:
    """Whether the nodes among the arguments carry what the form takes there.

    Tells apart ``torch.max(x, 1)`` and ``torch.max(x, y)``. ``strict``: a node of unknown kind is a tensor.
    """
    plan = plan_of(family, form)
    values = own_values(plan, args, kwargs)
    return values is not None and all(carries(values[at], admitted, strict) for at, admitted in plan.admitted)


# ---------------------------------------------------------------------- emission
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
            for form in forms:
                call = emit_form(family, form, args, strict)
                if call is not None:
                    return call
    return None


def emit_form(family: Family, form: Form, args: Sequence[Any], strict: bool = True) -> Call | None:
    """The op spelled in this form; None if the form cannot say these arguments or is not installed.

    ``strict``: a node of unknown kind is a tensor.
    """
    own = own_arguments(family, form, args, strict)
    if form.kind == "attribute":
        return own and (getattr, (own[0], form.target.removeprefix("getattr.")), {})
    target = form.target.removeprefix("Tensor.") if form.kind == "method" else resolve(form.target)
    if target is None or own is None:
        return None
    count = sum(1 for param in form.params if not param.keyword_only)
    spread = next((i for i, param in enumerate(form.params) if param.varargs and param.type == "Tensor[]"), None)
    while count and _is_default(form.params[count - 1], own[count - 1]):
        count -= 1
    kwargs = {
        param.name: value
        for param, value in zip(form.params, own, strict=True)
        if param.keyword_only and not _is_default(param, value)
    }
    if spread is not None and spread == count - 1:
        return target, (*own[:spread], *own[spread]), kwargs
    return target, tuple(own[:count]), kwargs


def own_arguments(family: Family, form: Form, args: Sequence[Any], strict: bool = True) -> list[Any] | None:
    """One value for each own parameter of the form; None if it cannot say the family's arguments."""
    plan = plan_of(family, form)
    said = {role.index for role in form.roles if isinstance(role, Bound)}
    for at, value in enumerate(args):
        if at not in said and not same_value(value, plan.base[at]):
            return None
    found: list[Any] = []
    for param, role in zip(form.params, form.roles, strict=True):
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


# ---------------------------------------------------------------------- targets
@cache
def resolve(target: str) -> Any:
    """The object that a target names (``"torch.cat"``, ``"aten.add.Tensor"``); None if there is none here.

    Imports nothing: ``vllm.rms_norm`` is found among the registered ops if vllm was imported.
    """
    head, _, rest = target.partition(".")
    if head in ("torch", "operator", "math"):
        return _walk({"torch": torch, "operator": operator, "math": math}[head], rest)
    if head == "aten":
        return _walk(torch.ops.aten, rest)
    return None


def _walk(value: Any, path: str) -> Any:
    for name in path.split("."):
        value = getattr(value, name, None)
        if value is None:
            return None
    return value
