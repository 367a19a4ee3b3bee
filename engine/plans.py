"""From the arguments of a call to the family's arguments: each form worked out once, for many calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import torch
from attrs import evolve, frozen

from .callables import own_parameters, resolve
from .kinds import UNFIT, ModuleAttr, Reader, admits, carries, plain_value, reader
from .signatures import REQUIRED, Bound, Family, Fixed, Form, Param, Role
from .values import same_value


@frozen
class Step:
    """What to do with one own argument: ``read`` it, and put it ``to`` a place of the family (a spare one if none)."""

    read: Reader
    to: int


@frozen
class Plan:
    """A form, worked out for reading.

    ``ready`` are the family's arguments of a call that gives none, with REQUIRED in the gaps and one spare place
    at the end. ``must_give`` are own parameters whose default would not do.
    """

    positional: int
    index: Mapping[str, int]
    steps: tuple[Step, ...]
    ready: tuple[Any, ...]
    gaps: tuple[int, ...]
    must_give: frozenset[int]
    varargs: int | None
    attributes: tuple[tuple[int, str], ...]
    same_as: tuple[tuple[int, int], ...]
    admitted: tuple[frozenset[str], ...]


@cache
def plan_of(family: Family, form: Form) -> Plan:
    """The plan of a form."""
    pairs = own_signature(form)
    own = [param for param, _ in pairs]
    ready = [*base_of(family, form), None]
    must_give = set()
    for at, (param, role) in enumerate(pairs):
        if isinstance(role, Bound):
            default = param.default
            read = default if default is REQUIRED else both_read(param, family.params[role.index])(default)
            ready[role.index] = REQUIRED if read is UNFIT else read
        elif isinstance(role, Fixed) and (
            param.default is REQUIRED or _step(family, param, role).read(param.default) is UNFIT
        ):
            must_give.add(at)
    attributes = tuple((i, param.name[1:]) for i, param in enumerate(own) if param.name.startswith("@"))
    arguments = own[: attributes[0][0]] if attributes else own
    return Plan(
        sum(1 for param in arguments if not param.keyword_only),
        {param.name: i for i, param in enumerate(own)},
        tuple(_step(family, param, role) for param, role in pairs),
        tuple(ready),
        tuple(i for i, value in enumerate(ready) if value is REQUIRED),
        frozenset(must_give),
        next((i for i, param in enumerate(own) if param.varargs), None),
        attributes,
        family.same_as,
        tuple(admits(word(param.type)) for param in own),
    )


def base_of(family: Family, form: Form) -> list[Any]:
    """The family's arguments where the form says nothing: its constants, else the defaults."""
    base = list(defaults_of(family))
    for at, value in form.constants:
        base[at] = read_param(family.params[at], value)
    return base


def _step(family: Family, param: Param, role: Role) -> Step:
    if isinstance(role, Bound):
        return Step(both_read(param, family.params[role.index]), role.index)
    if isinstance(role, Fixed):
        read, expected = reader(word(param.type)), role.value
        return Step(lambda value: value if same_value(read(value), expected) else UNFIT, len(family.params))
    return Step(lambda value: value, len(family.params))


@cache
def own_signature(form: Form) -> tuple[tuple[Param, Role], ...]:
    """A form's own parameters with their roles; those of a declared form by the names that the callable has."""
    pairs = tuple(zip(form.params, form.roles, strict=True))
    actual = own_parameters(resolve(form.target)) if form.declared and form.kind == "function" else None
    if actual is None:
        return pairs
    by_name = {param.name: (param, role) for param, role in pairs if param.keyword_only}
    given = [(param, role) for param, role in pairs if not param.keyword_only]
    found: list[tuple[Param, Role]] = []
    for place, (name, default) in enumerate(actual):
        if place < len(given):
            found.append((evolve(given[place][0], name=name, default=default), given[place][1]))
        elif name in by_name:
            found.append((evolve(by_name[name][0], default=default, keyword_only=False), by_name[name][1]))
        else:
            found.append((Param(name, "any", default), Fixed(default)))
    return tuple(found)


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
    """A kind without the note that a missing value means another parameter's: ``int[2]? like kernel_size``."""
    return kind.partition(" like ")[0]


def read_param(param: Param, value: Any) -> Any:
    """A value as the family keeps it; the value itself where it does not fit."""
    found = reader(word(param.type))(value)
    return value if found is UNFIT else found


def default_of(param: Param) -> Any:
    """A parameter's default as the family keeps it; REQUIRED if there is none."""
    return REQUIRED if param.default is REQUIRED else read_param(param, param.default)


@cache
def defaults_of(family: Family) -> tuple[Any, ...]:
    """`default_of` every parameter of a family."""
    return tuple(map(default_of, family.params))


def normalise_dim(value: Any, rank: int | None) -> Any:
    """A dim, or a tuple of dims, counted from the front; as it is where the rank is unknown.

    >>> normalise_dim((-1, 0), 3)
    (2, 0)
    """
    if rank is None:
        return value
    if type(value) is int:
        return value + rank if -rank <= value < 0 else value
    if isinstance(value, tuple):
        return tuple([normalise_dim(one, rank) for one in value])
    return value


def normalise(family: Family, index: int, value: Any, rank: int | None, args: tuple[Any, ...]) -> Any:
    """A value for a parameter, written as the views of the family write it."""
    param = family.params[index]
    value = read_param(param, value)
    if param.is_dim and rank is not None:
        return normalise_dim(value, rank + param.extra_dims)
    for at, other in family.same_as:
        if at == index and (value == () or same_value(value, args[other])):
            return None
    return value


def bind(
    plan: Plan,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    module: tuple[str, torch.nn.Module] | None = None,
) -> tuple[Any, ...] | None:
    """The family's arguments that a call has, defaults filled; None if the call is not of the family.

    ``module`` is the called module with its path. Dims are left as they are.
    """
    if plan.varargs is not None:
        args = gathered(plan.varargs, args)
    given = len(args)
    if given > plan.positional:
        return None
    found, steps = list(plan.ready), plan.steps
    for value, step in zip(args, steps, strict=False):
        read = step.read(value)
        if read is UNFIT:
            return None
        found[step.to] = read
    named = own_keywords(plan, given, kwargs) if kwargs else {}
    if named is None:
        return None
    if module is not None:
        named |= {at: module_value(module, name) for at, name in plan.attributes}
    for at, value in named.items():
        read = steps[at].read(value)
        if read is UNFIT:
            return None
        found[steps[at].to] = read
    if plan.must_give and any(at >= given and at not in named for at in plan.must_give):
        return None
    for at in plan.gaps:
        if found[at] is REQUIRED:
            return None
    for at, other in plan.same_as:
        if found[at] == () or same_value(found[at], found[other]):
            found[at] = None
    found.pop()
    return tuple(found)


def gathered(at: int, args: Sequence[Any]) -> Sequence[Any]:
    """Arguments with those from ``at`` on as one list: ``x.view(2, 3)`` is ``x.view((2, 3))``."""
    spread = args[at:]
    if not spread or (len(spread) == 1 and isinstance(spread[0], list | tuple)):
        return args
    return (*args[:at], tuple(spread))


def own_keywords(plan: Plan, given: int, kwargs: Mapping[str, Any]) -> dict[int, Any] | None:
    """Keyword arguments by place, after ``given`` positional ones; None if one has no place."""
    found: dict[int, Any] = {}
    for name, value in kwargs.items():
        at = plan.index.get(name)
        if at is not None and at >= given:
            found[at] = value
        elif name != "out" or value is not None:
            return None
    return found


def module_value(module: tuple[str, torch.nn.Module], name: str) -> Any:
    """An attribute of a module as an argument: a tensor by its path, anything else as it is."""
    path, owner = module
    value = getattr(owner, name, UNFIT)
    return ModuleAttr(f"{path}.{name}") if isinstance(value, torch.Tensor) else plain_value(value)


def suits(plan: Plan, args: Sequence[Any], kwargs: Mapping[str, Any], strict: bool) -> bool:
    """Whether the nodes among the arguments carry what the form takes there.

    Tells apart ``torch.max(x, 1)`` and ``torch.max(x, y)``. ``strict``: a node of unknown kind is a tensor.
    """
    if plan.varargs is not None:
        args = gathered(plan.varargs, args)
    named = own_keywords(plan, len(args), kwargs)
    if named is None or len(args) > plan.positional:
        return False
    values = [*enumerate(args), *named.items()]
    return all(carries(value, plan.admitted[at], strict) for at, value in values)
