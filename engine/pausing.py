"""Rewriting without the garbage collector in between."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_paused() -> Iterator[None]:
    """Put collections off to the end of a block, whatever happens in it.

    What a rewrite makes lives as long as the rewrite: collections look through all of it
    several times and find nothing. A collector that was off stays off.

    >>> with collector_paused():
    ...     gc.isenabled()
    False
    >>> gc.isenabled()
    True
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
