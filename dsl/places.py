"""Where graph code stands, and what it can see there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from typing import TypeAlias

from attrs import field, frozen

from . import ast
from .headers import Header
from .nearest import did_you_mean
from .scopes import FileScope, find_pattern, is_constant
from .source import Problem
from .vocabulary import CONSTANTS


class Role(Enum):
    """What graph code is for; the value is how messages call it."""

    MATCH = "a match"
    PATTERN = "a pattern"
    REWRITE = "a rewrite"
    EXAMPLE = "an example"
    EXPECTED = "the result of an example"


Now: TypeAlias = Callable[[ast.Expr], Iterator[Problem]]


@frozen
class Place:
    """What graph code can see.

    ``names`` are bound so far, ``later`` are assigned by a later line. ``ops`` maps a
    template's variable to the ops it stands for. ``now`` checks an expression that
    runs at rewrite time, where one may stand.
    """

    role: Role
    scope: FileScope
    header: Header
    names: frozenset[str] = frozenset()
    later: frozenset[str] = frozenset()
    ops: Mapping[str, tuple[str, ...]] = field(factory=dict)
    now: Now | None = None

    @property
    def is_pattern(self) -> bool:
        """Whether names bind here and the operators of patterns may stand."""
        return self.role in (Role.MATCH, Role.PATTERN)

    @property
    def is_example(self) -> bool:
        """Whether only the inputs of an example can be seen."""
        return self.role in (Role.EXAMPLE, Role.EXPECTED)

    def knows(self, name: str) -> bool:
        """Whether a name means a value here, constants left out."""
        return name in self.names or name in self.header.leaves or name in self.header.dims

    def is_constant(self, name: str) -> bool:
        """Whether a name is a constant that can be seen here."""
        return is_constant(self.scope, name) and not (self.is_example and name in self.scope.own.consts)


def misplaced(expr: ast.Expr | ast.StarStar, what: str, place: Place, hint: str = "") -> Problem:
    """The problem of something that stands where it cannot."""
    return Problem(expr.span, "misplaced", f"{what} cannot stand in {place.role.value}", hint)


def unbound(name: ast.Name, place: Place) -> Problem:
    """The problem of a name that nothing binds."""
    id, span = name.id, name.span
    known = [*(place.names - {"_"}), *place.header.leaves, *place.header.dims]
    if id in place.later:
        return Problem(span, "use-before-assignment", f"`{id}` is used before it is assigned")
    if id in place.scope.ops.families or find_pattern(place.scope, id) or id in place.ops:
        return Problem(span, "unbound", f"`{id}` is an op and not a value", f"call it: `{id}(...)`")
    if place.is_example:
        hint = did_you_mean(id, known) or "an example stands for itself: it sees only the inputs that it declares"
        return Problem(span, "unbound", f"`{id}`: the example has no such input", hint)
    constant = next((word for word in CONSTANTS if word.lower() == id.lower()), None)  # `true` for `True`
    hint = f"did you mean `{constant}`?" if constant else did_you_mean(id, [*known, *place.scope.own.consts])
    if place.role is Role.MATCH:
        return Problem(span, "unbound", f"`{id}` is not declared", hint or f"add it to the header: `{id}: Tensor`")
    if place.role is Role.PATTERN:
        hint = hint or "`_` matches any value; a name in two places matches the same value"
        return Problem(span, "unbound", f"`{id}` is not a parameter of the pattern", hint)
    return Problem(span, "unbound", f"`{id}` is bound by nothing", hint)
