"""Numeric contracts as values: read from a name or a clause, and composed over the rules that fired."""

from __future__ import annotations

from collections.abc import Iterable

from ..dsl.ast import Numerics
from ..dsl.nearest import did_you_mean
from ..dsl.source import FxrulesError, Problem

LEVELS = ("bitwise", "rounding", "approx", "differs")  # from the strictest to the weakest


def read_contract(contract: str | Numerics) -> Numerics:
    """A level by name, or the ``numerics`` clause of a rule, as such a clause.

    >>> read_contract("bitwise").level
    'bitwise'
    """
    clause = Numerics(contract) if isinstance(contract, str) else contract
    if clause.level not in LEVELS:
        hint = did_you_mean(clause.level, LEVELS) or f"one of {', '.join(LEVELS)}"
        raise FxrulesError(Problem(None, "unknown-contract", f"no contract is called `{clause.level}`", hint))
    if clause.level == "approx" and clause.rtol is None and clause.atol is None:
        hint = 'compare(..., contract=Numerics("approx", rtol=1e-3))'
        raise FxrulesError(Problem(None, "no-tolerance", "`approx` needs rtol or atol", hint))
    return clause


def compose(contracts: Iterable[Numerics]) -> Numerics:
    """What holds after rules with these contracts: the weakest level, the widest tolerances, all waivers.

    >>> compose([Numerics("bitwise"), Numerics("rounding", rtol=1e-4), Numerics("rounding", rtol=1e-5)])
    Numerics(level='rounding', reason=None, slack=None, rtol=0.0001, atol=None, waivers=(), domain=None)
    """
    every = list(contracts)

    def widest(values: Iterable[float | None]) -> float | None:
        return max((value for value in values if value is not None), default=None)

    return Numerics(
        max((one.level for one in every), key=LEVELS.index, default="bitwise"),
        slack=widest(one.slack for one in every),
        rtol=widest(one.rtol for one in every),
        atol=widest(one.atol for one in every),
        waivers=tuple(dict.fromkeys(waiver for one in every for waiver in one.waivers)),
    )


def describe(contract: Numerics) -> str:
    """A contract in words.

    >>> describe(Numerics("rounding", rtol=1e-4, waivers=("nan",)))
    'rounding, rtol=0.0001, except nan'
    """
    numbers = {"slack": contract.slack, "rtol": contract.rtol, "atol": contract.atol}
    parts = [contract.level, *(f"{name}={value:g}" for name, value in numbers.items() if value is not None)]
    return ", ".join([*parts, f"except {', '.join(contract.waivers)}"] if contract.waivers else parts)
