"""Other ways to say what a node does with one op: ``k.mT`` is ``transpose(k, -2, -1)`` and a ``permute``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Spelled = tuple[str, tuple[Any, ...]]
TRANSPOSING = frozenset({"transpose", "permute", "mT", "T", "t", "movedim"})
_GROUPS = (TRANSPOSING, frozenset({"square", "pow"}))


def relatives_of(name: str) -> frozenset[str]:
    """The families that a node of this family may also be, itself included.

    >>> sorted(relatives_of("square"))
    ['pow', 'square']
    """
    return next((group for group in _GROUPS if name in group), frozenset({name}))


def equivalents_of(name: str, args: tuple[Any, ...], rank: int | None) -> Iterator[Spelled]:
    """Family and arguments of every other view; ``rank`` is that of the tensor, if known.

    >>> list(equivalents_of("square", ("x",), None))
    [('pow', ('x', 2))]
    >>> list(equivalents_of("mT", ("x",), None))
    [('transpose', ('x', -2, -1)), ('transpose', ('x', -1, -2))]
    """
    if name == "square":
        yield "pow", (args[0], 2)
    elif name == "pow" and type(args[1]) in (int, float) and args[1] == 2:
        yield "square", (args[0],)
    elif name in TRANSPOSING:
        own = (name, args)
        yield from (one for one in _transpositions(name, args, rank) if one != own)


def _transpositions(name: str, args: tuple[Any, ...], rank: int | None) -> Iterator[Spelled]:
    tensor = args[0]
    order = _order(name, args, rank)
    if order is None:
        yield from _without_rank(name, args)
        return
    size = len(order)
    moved = [at for at, dim in enumerate(order) if at != dim]
    if len(moved) == 2:
        first, second = moved
        yield "transpose", (tensor, first, second)
        yield "transpose", (tensor, second, first)
        if moved == [size - 2, size - 1]:
            yield "mT", (tensor,)
    yield "permute", (tensor, order)
    if size == 2 and moved:
        yield "t", (tensor,)
        yield "T", (tensor,)
    if moved:
        first, last = moved[0], moved[-1]
        for source, destination in ((order[first], first), (order[last], last)):
            if _moved(size, (source,), (destination,)) == order:
                yield "movedim", (tensor, (source,), (destination,))


def _without_rank(name: str, args: tuple[Any, ...]) -> Iterator[Spelled]:
    """What holds whatever the rank is."""
    tensor = args[0]
    if name == "mT":
        yield "transpose", (tensor, -2, -1)
        yield "transpose", (tensor, -1, -2)
    elif name == "transpose":
        yield "transpose", (tensor, args[2], args[1])
        if sorted(dim for dim in args[1:] if isinstance(dim, int)) == [-2, -1]:
            yield "mT", (tensor,)
    elif name == "permute" and isinstance(args[1], tuple) and all(isinstance(dim, int) and dim >= 0 for dim in args[1]):
        yield from _transpositions(name, args, len(args[1]))


def _order(name: str, args: tuple[Any, ...], rank: int | None) -> tuple[int, ...] | None:
    """The input dimension that stands at each place of the result; None if that is not known."""
    if rank is None:
        return None
    dims = list(range(rank))
    if name in ("mT", "t", "transpose"):
        first, second = args[1:] if name == "transpose" else (-2, -1)
        if name == "t" and rank < 2:
            return tuple(dims)
        if not (isinstance(first, int) and isinstance(second, int)) or not all(
            -rank <= d < rank for d in (first, second)
        ):
            return None
        dims[first], dims[second] = dims[second], dims[first]
        return tuple(dims)
    if name == "T":
        return tuple(reversed(dims))
    given = args[1:]
    if not all(isinstance(one, tuple) and all(isinstance(dim, int) for dim in one) for one in given):
        return None
    if name == "permute":
        return tuple(dim % rank for dim in given[0]) if len(given[0]) == rank else None
    return _moved(rank, given[0], given[1])


def _moved(rank: int, source: tuple[int, ...], destination: tuple[int, ...]) -> tuple[int, ...]:
    """The order of dimensions that ``movedim`` makes."""
    to = {d % rank: s % rank for s, d in zip(source, destination, strict=True)}
    rest = iter(dim for dim in range(rank) if dim not in to.values())
    return tuple(to[at] if at in to else next(rest) for at in range(rank))
