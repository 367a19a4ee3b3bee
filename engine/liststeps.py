"""The compiled matcher's steps for ``[*relu(xs)]``: a pattern for every element, without recursion over the list."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import reduce
from typing import Any

from attrs import frozen

from . import steps
from .nodeview import same_value
from .steps import DEFERRED, NODES, UNBOUND, Continuation, Env, ListStep, Matcher


@frozen
class Slots:
    """Where the step keeps things: the list, the rows so far, ways of the element at hand.

    ``own`` are the slots of names that each element has for itself, ``lists`` those of their
    lists, ``outside`` those of other names that an element may bind.
    """

    items: int
    rows: int
    ways: int
    own: tuple[int, ...]
    lists: tuple[int, ...]
    outside: tuple[int, ...]


@frozen
class _Way:
    """One way in which an element fits: what it leaves behind."""

    row: tuple[Any, ...]
    outside: tuple[Any, ...]
    nodes: tuple[Any, ...]
    deferred: tuple[Any, ...]


def note_way(slots: Slots) -> Continuation:
    """What an element's matcher ends in: write down the way, go on to look for others."""

    def note(env: Env) -> bool:
        at, nodes, deferred, found = env[slots.ways]
        row = tuple([None if env[slot] is UNBOUND else env[slot] for slot in slots.own])
        for slot, value in zip(slots.lists, row, strict=True):
            known = env[slot]
            if known is not UNBOUND and not (_is_list(known, at) and same_value(known[at], value)):
                return False
        way = _Way(
            row,
            tuple([env[slot] for slot in slots.outside]),
            *map(tuple, (env[NODES][nodes:], env[DEFERRED][deferred:])),
        )
        if not any(_alike(way, one) for one in found):
            found.append(way)
        return False

    return note


def _is_list(known: Any, at: int) -> bool:
    return isinstance(known, tuple) and at < len(known)


def _alike(first: _Way, second: _Way) -> bool:
    """Whether two ways bind the names outside alike, so that only the first counts."""
    return same_value(first.outside, second.outside) and first.deferred == second.deferred


def each(slots: Slots, body: Matcher, fewest: int, after: ListStep) -> ListStep:
    """As many elements as fit, then fewer; names of their own become lists."""

    def ways(env: Env, index: int, count: int) -> Iterator[_Way]:
        items = env[slots.items]
        if index >= len(items):
            return iter(())
        found: list[_Way] = []
        outer, env[slots.ways] = env[slots.ways], (count, len(env[NODES]), len(env[DEFERRED]), found)
        body(items[index], env)
        env[slots.ways] = outer
        return iter(found)

    end = _bind_lists(slots, lambda env: after(env, env[slots.rows][0]))

    def step(env: Env, index: int) -> bool:
        rows: list[tuple[Any, ...]] = []
        trail: list[tuple[Iterator[_Way], Callable[[], None]]] = []
        untried, taken = ways(env, index, 0), False
        while True:
            way = next(untried, None)
            if way is not None:
                rows.append(way.row)
                trail.append((untried, _apply(way, slots, env)))
                untried = ways(env, index + len(rows), len(rows))
                continue
            if len(rows) >= fewest:
                outer, env[slots.rows] = env[slots.rows], (index + len(rows), tuple(rows))
                taken = end(env)
                env[slots.rows] = outer
            if not trail or taken:
                break
            untried, undo = trail.pop()
            undo()
            rows.pop()
        for _, undo in reversed(trail):
            undo()
        return taken

    return step


def _apply(way: _Way, slots: Slots, env: Env) -> Callable[[], None]:
    """Leave behind what the way did; the result takes it back."""
    before = [env[slot] for slot in slots.outside]
    nodes, deferred = len(env[NODES]), len(env[DEFERRED])
    for slot, value in zip(slots.outside, way.outside, strict=True):
        env[slot] = value
    env[NODES].extend(way.nodes)
    env[DEFERRED].extend(way.deferred)

    def undo() -> None:
        for slot, value in zip(slots.outside, before, strict=True):
            env[slot] = value
        del env[NODES][nodes:], env[DEFERRED][deferred:]

    return undo


def _bind_lists(slots: Slots, after: Continuation) -> Continuation:
    def bound(then: Continuation, place: int) -> Continuation:
        bind = steps.bind(slots.lists[place], then)
        return lambda env: bind(tuple([row[place] for row in env[slots.rows][1]]), env)

    return reduce(bound, reversed(range(len(slots.lists))), after)
