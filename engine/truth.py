"""Three-valued truth about sizes and facts: true, false, or not known (never a guess).

Sizes may be symbolic: a claim about them counts only when it holds, or fails, for
every size. Nothing here adds a guard to a shape environment.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, TypeAlias

import torch
from torch.fx.experimental.symbolic_shapes import statically_known_true

sym_not: Callable[[Any], Any] = torch.sym_not
sym_max: Callable[[Any, Any], Any] = torch.sym_max
sym_min: Callable[[Any, Any], Any] = torch.sym_min
SYMBOLIC = torch.SymInt | torch.SymFloat | torch.SymBool
Size: TypeAlias = int | torch.SymInt


class Unknown(Exception):
    """A fact that the graph does not have; ``fact`` names it, ``hint`` says how to give it."""

    def __init__(self, fact: str, hint: str = "") -> None:
        self.fact, self.hint = fact, hint
        super().__init__(f"{fact}; {hint}" if hint else fact)


class Declined(Exception):
    """Rewrite-time code that cannot go on, or a trusted helper that says no; carries the reason.

    A helper raises it where a rule does not apply; the report has the reason.

    >>> import fxrules
    >>> def half_of(n):
    ...     if n % 2:
    ...         raise fxrules.Declined(f"{n} is odd")
    ...     return n // 2
    >>> half_of(3)
    Traceback (most recent call last):
    ...
    fxrules.engine.truth.Declined: 3 is odd
    """

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


Truth: TypeAlias = bool | Unknown


def decide(claim: bool | torch.SymBool) -> bool:
    """Whether a claim holds for every size; raises Unknown where it depends on the size.

    >>> decide(2 == 2)
    True
    """
    if isinstance(claim, bool):
        return claim
    if statically_known_true(claim):
        return True
    if statically_known_true(sym_not(claim)):
        return False
    raise Unknown(f"whether {claim} for every size is unknown", "give the sizes, or their ranges, when exporting")


def truth_of(test: Callable[[], bool]) -> Truth:
    """The outcome of ``test``, with Unknown as a value."""
    try:
        return test()
    except Unknown as unknown:
        return unknown


def conjunction(truths: Iterable[Truth]) -> bool:
    """True if all are, False if one is; else raises the first Unknown. Stops at the first False.

    >>> conjunction([True, Unknown("dtype of `x`"), False])
    False
    """
    doubt: Unknown | None = None
    for truth in truths:
        if truth is False:
            return False
        if isinstance(truth, Unknown) and doubt is None:
            doubt = truth
    if doubt is not None:
        raise doubt
    return True


def disjunction(truths: Iterable[Truth]) -> bool:
    """True if one is, False if none is; else raises the first Unknown. Stops at the first True.

    >>> disjunction([Unknown("dtype of `x`"), True])
    True
    """
    return not conjunction(truth if isinstance(truth, Unknown) else not truth for truth in truths)


# Types whose values are equal, or not, at once.
_EXACT = frozenset({bool, int, str, torch.dtype, type(None)})


def equal(first: object, second: object) -> bool:
    """Equality of plain values; sequences item by item, sizes for every size.

    >>> equal((2, 3), [2, 3]), equal(torch.device("cpu"), "cpu"), equal(torch.float16, (torch.float16,))
    (True, True, False)
    """
    if type(first) in _EXACT and type(second) in _EXACT:
        return first == second
    if isinstance(first, tuple | list) and isinstance(second, tuple | list):
        if len(first) != len(second):
            return False
        if _EXACT.issuperset(map(type, first)) and _EXACT.issuperset(map(type, second)):
            return tuple(first) == tuple(second)
        return conjunction(truth_of(partial(equal, a, b)) for a, b in zip(first, second, strict=True))
    if isinstance(first, torch.device) and isinstance(second, str):
        return second in (str(first), first.type)
    if isinstance(second, torch.device) and isinstance(first, str):
        return equal(second, first)
    if isinstance(first, SYMBOLIC) or isinstance(second, SYMBOLIC):
        if isinstance(first, int | float | SYMBOLIC) and isinstance(second, int | float | SYMBOLIC):
            return decide(first == second)
        return False
    return bool(first == second)


_ORDERS: Mapping[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


def ordered(op: str, first: object, second: object) -> bool:
    """Whether ``first op second`` for an order ``< <= > >=``; raises Declined for what has no order.

    >>> ordered("<=", 2, 2.5)
    True
    """
    numbers = int | float | torch.SymInt | torch.SymFloat
    both_numbers = isinstance(first, numbers) and isinstance(second, numbers)
    if not both_numbers and not (isinstance(first, str) and isinstance(second, str)):
        raise Declined(f"`{op}` compares numbers, not {first!r} and {second!r}")
    return decide(_ORDERS[op](first, second))
