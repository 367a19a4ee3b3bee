"""The nearest right name, for messages."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import SequenceMatcher

_LEAST = 0.62
_LEAST_FOR_SHORT = 0.5
_CLOSE_TO_BEST = 0.1


def nearest(name: str, names: Iterable[str], count: int = 3) -> tuple[str, ...]:
    """Up to ``count`` of ``names`` that look like ``name``, the nearest first.

    >>> nearest("sofmax", ["max", "softmax", "tanh"])
    ('softmax',)
    """
    least = _LEAST if len(name) > 2 else _LEAST_FOR_SHORT
    matcher = SequenceMatcher(b=name.lower())
    scored: list[tuple[float, str]] = []
    for candidate in dict.fromkeys(names):
        matcher.set_seq1(candidate.lower())
        if matcher.real_quick_ratio() >= least and matcher.quick_ratio() >= least:
            scored.append((-matcher.ratio(), candidate))
    scored = sorted(pair for pair in scored if -pair[0] >= least)
    return tuple(candidate for score, candidate in scored[:count] if score <= scored[0][0] + _CLOSE_TO_BEST)


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """A hint such as "did you mean `softmax`?", or "" where nothing is near.

    >>> did_you_mean("sofmax", ["softmax", "tanh"])
    'did you mean `softmax`?'
    """
    found = nearest(name, names)
    return f"did you mean {' or '.join(f'`{one}`' for one in found)}?" if found else ""


def did_you_mean_target(name: str, targets: Iterable[str]) -> str:
    """The same for qualified names: the part behind the package is compared.

    >>> did_you_mean_target("torch.relo", ["torch.relu", "torch.cat", "acme.relo"])
    'did you mean `torch.relu`?'
    """
    package, _, rest = name.partition(".")
    rests = [target[len(package) + 1 :] for target in targets if target.startswith(f"{package}.")]
    overloads = [target for target in rests if target.startswith(f"{rest}.")]
    return did_you_mean(overloads[0] if overloads else rest, rests).replace(" `", f" `{package}.")
