"""Errors of one output before and after a rewrite, pooled over calls, and the verdict under a contract."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import reduce
from operator import add
from typing import Any

import torch
from attrs import evolve, fields, frozen

from ..dsl.ast import Numerics
from .execution import parts

# With fewer elements than this, an RMS says little about the size of the errors behind it.
ENOUGH_ELEMENTS = 4096
# Where there is no oracle: how many ulp two right results may lie apart, as an RMS.
DIRECT_ULPS = {torch.float64: 64.0, torch.float32: 64.0, torch.float16: 8.0, torch.bfloat16: 4.0}
_NAN_WAIVERS = frozenset({"nan", "fully_masked_rows"})
_INF_WAIVERS = frozenset({"inf", "overflow"})
_ZERO_WAIVERS = frozenset({"signed_zero", "underflow"})


@frozen
class Spread:
    """The size of many numbers: how many, the sum of their squares, the largest magnitude."""

    count: int = 0
    squares: float = 0.0
    largest: float = 0.0

    @property
    def rms(self) -> float:
        """The root of the mean square; 0.0 of nothing."""
        return math.sqrt(self.squares / self.count) if self.count else 0.0

    def __add__(self, other: Spread) -> Spread:
        largest = max(self.largest, other.largest)
        return Spread(self.count + other.count, self.squares + other.squares, largest)


@frozen
class Errors:
    """What was measured of one output; fields with ``before`` and ``after`` are errors against the oracle.

    ``unequal`` counts elements whose bits differ, ``beyond`` those farther apart than the contract's
    tolerances; ``wrong_*`` count elements of an integer output that differ from the oracle.
    ``nans``, ``infs`` and ``zeros`` count elements that are in one set only.
    """

    dtype: torch.dtype
    elements: int
    unequal: int
    beyond: int = 0
    nans: int = 0
    infs: int = 0
    zeros: int = 0
    has_oracle: bool = False
    wrong_before: int = 0
    wrong_after: int = 0
    values: Spread = Spread()
    difference: Spread = Spread()
    oracle: Spread = Spread()
    before: Spread = Spread()
    after: Spread = Spread()

    def to_dict(self) -> dict[str, object]:
        """The numbers as plain data."""
        return {
            "elements": self.elements,
            "unequal": self.unequal,
            "difference": {"rms": self.difference.rms, "max": self.difference.largest},
            "error_before": {"rms": self.before.rms, "max": self.before.largest} if self.has_oracle else None,
            "error_after": {"rms": self.after.rms, "max": self.after.largest} if self.has_oracle else None,
        }


@frozen
class Verdict:
    """Whether one output holds the contract, and the numbers that say so."""

    ok: bool
    text: str


def measure(old: torch.Tensor, new: torch.Tensor, oracle: torch.Tensor | None, contract: Numerics) -> Errors:
    """The errors of one output of one call; the three tensors have the same shape."""
    old, new = parts(old.detach().cpu()), parts(new.detach().cpu())
    exact = None if oracle is None else parts(oracle.detach().cpu())
    if exact is not None and exact.shape != old.shape:
        exact = None
    if not old.is_floating_point():
        return _measure_exact(old, new, exact)
    dtype = max(old.dtype, new.dtype, key=lambda kind: torch.finfo(kind).eps)
    a, b = old.double(), new.double()
    equal = ((a == b) & (torch.signbit(a) == torch.signbit(b))) | (a.isnan() & b.isnan())
    finite = a.isfinite() & b.isfinite()
    difference = (b - a)[finite]
    tolerance = (contract.atol or 0.0) + (contract.rtol or 0.0) * a[finite].abs()
    errors = Errors(
        dtype,
        elements=old.numel(),
        unequal=_count(~equal),
        beyond=_count(difference.abs() > tolerance),
        nans=_count(a.isnan() != b.isnan()),
        infs=_count((a.isinf() | b.isinf()) & (a != b) & ~a.isnan() & ~b.isnan()),
        zeros=_count((a == 0) & (b == 0) & ~equal),
        values=_spread(a[finite]),
        difference=_spread(difference),
    )
    if exact is None or dtype is torch.float64:
        return errors
    known = finite & exact.isfinite()
    truth = exact[known].double()
    return evolve(
        errors,
        has_oracle=True,
        oracle=_spread(truth),
        before=_spread(a[known] - truth),
        after=_spread(b[known] - truth),
    )


def pool(errors: Iterable[Errors]) -> Errors:
    """The errors of several calls as one; a call without an oracle leaves the pool without one."""
    every = list(errors)
    if len(every) == 1:
        return every[0]
    names = [field.name for field in fields(Errors) if field.name not in ("dtype", "has_oracle")]
    sums: dict[str, Any] = {name: reduce(add, (getattr(one, name) for one in every)) for name in names}
    return Errors(dtype=every[0].dtype, has_oracle=all(one.has_oracle for one in every), **sums)


def judge(errors: Errors, contract: Numerics, coarsest: torch.dtype | None = None) -> Verdict:
    """Hold the pooled errors of one output to a contract (see `compare`).

    ``coarsest`` is the least precise dtype that the model computes in, where that is not the output's.
    """
    if errors.unequal == 0:
        return Verdict(True, "equal bits")
    if contract.level == "bitwise":
        return _judge_bits(errors, frozenset(contract.waivers))
    if mismatch := _special_values(errors, frozenset(contract.waivers)):
        return Verdict(False, mismatch)
    if not errors.dtype.is_floating_point:
        return _judge_exact(errors, contract)
    if contract.level == "approx":
        text = f"largest difference {errors.difference.largest:.2g}"
        if not errors.beyond:
            return Verdict(True, text)
        limits = f"rtol={contract.rtol or 0.0:g}, atol={contract.atol or 0.0:g}"
        return Verdict(False, f"{text}; {errors.beyond} of {errors.elements} elements are farther apart than {limits}")
    near = _oracle_holds(errors, coarsest or errors.dtype)
    return _judge_rounding(errors, contract) if near else _judge_directly(errors, contract)


def _judge_bits(errors: Errors, waivers: frozenset[str]) -> Verdict:
    """Equal bits, but for elements that are in a waived set on one side only."""
    sets = ((errors.nans, _NAN_WAIVERS), (errors.infs, _INF_WAIVERS), (errors.zeros, _ZERO_WAIVERS))
    waived = sum(count for count, names in sets if names & waivers)
    left = errors.unequal - waived
    if left:
        return Verdict(False, f"{left} of {errors.elements} elements differ in their bits")
    return Verdict(True, f"equal bits, but for {waived} of {errors.elements} elements that the contract waives")


def _judge_rounding(errors: Errors, contract: Numerics) -> Verdict:
    """RMS_new <= slack * RMS_old + 1/2 ulp * RMS(oracle), and the maxima at eight times that."""
    slack = 2.0 if contract.slack is None else contract.slack
    facts = torch.finfo(errors.dtype)
    share = max(0.5 * facts.eps * _few(errors.oracle.count), contract.rtol or 0.0)
    floor = (contract.atol or 0.0) + 0.5 * facts.tiny * facts.eps
    rms_limit = slack * errors.before.rms + share * errors.oracle.rms + floor
    max_limit = 8 * (slack * errors.before.largest + share * errors.oracle.largest + floor)
    text = (
        f"RMS error {errors.before.rms:.2g} before, {errors.after.rms:.2g} after (allowed {rms_limit:.2g}); "
        f"largest {errors.before.largest:.2g} before, {errors.after.largest:.2g} after (allowed {max_limit:.2g})"
    )
    return Verdict(errors.after.rms <= rms_limit and errors.after.largest <= max_limit, text)


def _judge_directly(errors: Errors, contract: Numerics) -> Verdict:
    ulps = DIRECT_ULPS.get(errors.dtype, 1.0)
    share = max(ulps * torch.finfo(errors.dtype).eps, contract.rtol or 0.0)
    rms_limit = share * errors.values.rms + (contract.atol or 0.0)
    wider = "no float64 oracle" if errors.dtype is not torch.float64 else "no oracle wider than float64"
    why = "the float64 run is far from the original" if errors.has_oracle else wider
    text = (
        f"RMS difference {errors.difference.rms:.2g} (allowed {rms_limit:.2g}), "
        f"largest {errors.difference.largest:.2g}; compared directly: {why}"
    )
    return Verdict(errors.difference.rms <= rms_limit, text)


def _oracle_holds(errors: Errors, coarsest: torch.dtype) -> bool:
    """Whether the float64 run is the same function: the original lies near it, as precise as it is.

    A model that reads bits or draws numbers by dtype has a float64 form that computes something
    else; measured against that, any result would pass.
    """
    near = 4 * math.sqrt(torch.finfo(coarsest).eps)
    return errors.has_oracle and errors.oracle.count > 0 and errors.before.rms <= near * errors.oracle.rms


def _few(count: int) -> float:
    """How much wider the floor is for few elements: 1 from 4,096 on, 64 for a single one."""
    return max(1.0, math.sqrt(ENOUGH_ELEMENTS / max(count, 1)))


def _special_values(errors: Errors, waivers: frozenset[str]) -> str:
    """What differs in the sets of NaNs, infinities and negative zeros, or ""."""
    found = [
        f"{count} {name}"
        for count, name, waiver in (
            (errors.nans, "NaN", _NAN_WAIVERS),
            (errors.infs, "infinities", _INF_WAIVERS),
            (errors.zeros, "signs of zero", _ZERO_WAIVERS),
        )
        if count and not waivers & waiver
    ]
    return f"of {errors.elements} elements differ: {', '.join(found)}" if found else ""


def _measure_exact(old: torch.Tensor, new: torch.Tensor, oracle: torch.Tensor | None) -> Errors:
    unequal = _count(old != new)
    errors = Errors(old.dtype, old.numel(), unequal, unequal, difference=_spread(new.double() - old.double()))
    if oracle is None:
        return errors
    return evolve(errors, has_oracle=True, wrong_before=_count(old != oracle), wrong_after=_count(new != oracle))


def _judge_exact(errors: Errors, contract: Numerics) -> Verdict:
    """Integers and booleans: a decision on rounded numbers may tip, about as often as it did before."""
    text = f"{errors.unequal} of {errors.elements} elements differ"
    if contract.level == "approx" or not errors.has_oracle:
        return Verdict(False, text)
    slack = 2.0 if contract.slack is None else contract.slack
    text += f"; against a float64 run {errors.wrong_before} were wrong before, {errors.wrong_after} are now"
    return Verdict(errors.wrong_after <= slack * errors.wrong_before, text)


def _count(mask: torch.Tensor) -> int:
    return int(mask.sum())


def _spread(values: torch.Tensor) -> Spread:
    if values.numel() == 0:
        return Spread()
    return Spread(values.numel(), float((values * values).sum()), float(values.abs().max()))
