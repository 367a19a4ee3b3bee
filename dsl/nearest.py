"""The nearest right name, for messages."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def nearest(name: str, names: Iterable[str], count: int = 3) -> tuple[str, ...]:
    """Up to ``count`` of ``names`` that look like ``name``, the nearest first.

    >>> nearest("sofmax", ["softmax", "tanh"])
    ('softmax',)
    """
    known = {candidate.lower(): candidate for candidate in sorted(names, reverse=True)}
    return tuple(known[found] for found in get_close_matches(name.lower(), list(known), count, 0.6))


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """A hint such as "did you mean `softmax`?", or "" where nothing is near.

    >>> did_you_mean("sofmax", ["softmax", "tanh"])
    'did you mean `softmax`?'
    """
    found = nearest(name, names)
    return f"did you mean {' or '.join(f'`{one}`' for one in found)}?" if found else ""
