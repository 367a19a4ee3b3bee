"""What rewrite-time code can see, and how much it may do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from attrs import define, field
from torch.fx import Node

from .facts import release
from .nodeview import Views
from .ruleset import Scope
from .truth import Declined
from .words import truthful

_MOST_STEPS = 100_000


@define
class Budget:
    """The steps that one expression may still take."""

    steps: int = _MOST_STEPS

    def spend(self, steps: int) -> None:
        """Take so many steps; raises Declined where there are not enough left."""
        self.steps -= steps
        if self.steps < 0:
            raise Declined(f"this takes more than {_MOST_STEPS} steps")


@define
class Place:
    """Where an expression stands: the names it sees, and the matched root (``$out``).

    The values of constant tensors are read only with ``freeze``.
    """

    bindings: Mapping[str, object]
    views: Views
    scope: Scope
    out: Node | None = None
    freeze: bool = False
    budget: Budget = field(factory=Budget)


Code: TypeAlias = Callable[[Place], object]
"""An expression, compiled: its value at a place."""


def value_of(code: Code, place: Place) -> object:
    """The value of an expression, for a rule to bind."""
    return release(code(place))


def is_true(code: Code, place: Place) -> bool:
    """Whether a condition is true at a place."""
    return truthful(code(place))
