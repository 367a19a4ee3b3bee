"""Timed samples: garbage collected before each, medians reported."""

from __future__ import annotations

import gc
from collections.abc import Callable
from statistics import median
from time import perf_counter
from typing import TypeVar

from attrs import frozen

_T = TypeVar("_T")


@frozen
class Sample:
    """Seconds of several runs."""

    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        """Seconds."""
        return median(self.seconds)

    @property
    def ms(self) -> str:
        """The median in milliseconds, with the fastest and slowest run."""
        low, high = min(self.seconds), max(self.seconds)
        return f"{self.median * 1e3:.1f} ({low * 1e3:.1f} to {high * 1e3:.1f})"


def sample(run: Callable[[_T], object], fresh: Callable[[], _T], runs: int) -> Sample:
    """Time ``run`` on a ``fresh()`` input each time, one run uncounted first; the input's making is not timed."""
    taken = []
    for _ in range(runs + 1):
        target = fresh()
        gc.collect()
        start = perf_counter()
        run(target)
        taken.append(perf_counter() - start)
    return Sample(tuple(taken[1:]))
