"""Lists, for the reference matcher: ``*rest``, and ``*relu(xs)``, a pattern for every element."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

import torch
from attrs import evolve, frozen
from torch.fx import Node

from ..dsl import ast
from .candidates import Config
from .environment import Frame, Slot, State, same_binding
from .literals import is_constant
from .nodeview import Value, View, Views, same_value
from .starred import uses, varying
from .surface import Pattern

Match: TypeAlias = "Callable[[Pattern, Value, State, Frame, Slot | None], Iterator[State]]"
Row: TypeAlias = "Mapping[str, Value | Config]"
Names: TypeAlias = "dict[tuple[Frame, str], Value | Config]"


def match_items(
    match: Match, items: Sequence[Pattern], values: tuple[Value, ...], state: State, frame: Frame, slot: Slot | None
) -> Iterator[State]:
    """A list, item by item; ``*rest`` takes as few values as it can, ``*relu(xs)`` as many as fit."""
    if not items:
        if not values:
            yield state
        return
    first, *others = items
    match first:
        case ast.Star(ast.List(inner)):
            yield from match_items(match, (*inner, *others), values, state, frame, slot)
        case ast.Star(ast.Name(id)):
            for size in range(len(values) + 1):
                bound = iter([state]) if id == "_" else state.bind(frame, id, values[:size])
                for after in bound:
                    yield from match_items(match, others, values[size:], after, frame, slot)
        case ast.Star(element):
            for size, after in match_each(match, element, values, state, frame, slot):
                yield from match_items(match, others, values[size:], after, frame, slot)
        case _ if values:
            for after in match(first, values[0], state, frame, slot):
                yield from match_items(match, others, values[1:], after, frame, slot)


def match_each(
    match: Match, element: ast.Expr, values: tuple[Value, ...], state: State, frame: Frame, slot: Slot | None
) -> Iterator[tuple[int, State]]:
    """How many values fit the element pattern one after the other, most first; its own names become lists.

    Names that are one value for all elements need at least one to get it from.
    """
    own = varying(element, frame.depths) & frame.variables
    names = {name for name, _ in uses(element, frame.variables)} - own
    others = [name for name in names if not is_constant(ast.Name(name), frame)]
    lists = {name: state.names.get((frame, name), ()) for name in own if (frame, name) in state.names}
    inner = evolve(state, names={key: value for key, value in state.names.items() if key not in _keys(own, frame)})
    for rows, after in _rows(match, element, values, (), inner, frame, slot, own, lists):
        if rows or not others:
            known = evolve(after, names={**after.names, **{(frame, name): value for name, value in lists.items()}})
            for bound in _bind_lists(known, frame, sorted(own), rows):
                yield len(rows), bound


def _keys(names: frozenset[str], frame: Frame) -> set[tuple[Frame, str]]:
    return {(frame, name) for name in names}


def _rows(
    match: Match,
    element: ast.Expr,
    values: tuple[Value, ...],
    rows: tuple[Row, ...],
    state: State,
    frame: Frame,
    slot: Slot | None,
    own: frozenset[str],
    lists: Row,
) -> Iterator[tuple[tuple[Row, ...], State]]:
    """What each of the first values binds, the longest run first.

    Of the ways in which a value fits that bind the names outside alike, only the first counts:
    the number of ways would be exponential in the length of the list.
    """
    seen: list[tuple[Names, object]] = []
    for after in match(element, values[0], state, frame, slot) if values else ():
        row = {name: after.names.get((frame, name)) for name in own}
        outside: Names = {
            key: value for key, value in after.names.items() if key[0] in frame.around() and key[1] not in row
        }
        fits = all(_has(known, len(rows), row[name]) for name, known in lists.items())
        alike = any(_alike(outside, one) and after.deferred == deferred for one, deferred in seen)
        if fits and not alike:
            seen.append((outside, after.deferred))
            clean = evolve(after, names={k: v for k, v in after.names.items() if k not in _keys(own, frame)})
            yield from _rows(match, element, values[1:], (*rows, row), clean, frame, slot, own, lists)
    yield rows, state


def _has(known: Value | Config, place: int, value: Value | Config) -> bool:
    return isinstance(known, tuple) and place < len(known) and same_value(known[place], value)


def _alike(first: Names, second: Names) -> bool:
    return first.keys() == second.keys() and all(same_binding(value, second[key]) for key, value in first.items())


def _bind_lists(state: State, frame: Frame, names: Sequence[str], rows: tuple[Row, ...]) -> Iterator[State]:
    if not names:
        yield state
        return
    first, *others = names
    for after in state.bind(frame, first, tuple(row[first] for row in rows)):
        yield from _bind_lists(after, frame, others, rows)


# ----------------------------------------------------------------------- flat
@frozen
class Opened:
    """A sum: its nodes, each before those inside it, and its operands in written order."""

    nodes: tuple[Node, ...] = ()
    values: tuple[Value, ...] = ()


def flat_operands(node: Node, family: str, views: Views) -> Opened | None:
    """The operands of a sum of any nesting; None if the node is none, or has more arguments than its operands.

    An operand that is such a sum itself is opened if nothing else reads it, and if as far as is known
    both sums have the dtype of their own operands: to regroup them then promotes nothing otherwise.
    """
    view = next((one for one in views.views_as(node, family) if one.effect == "pure"), None)
    if view is None or not all(views.is_default(view, at) for at in range(2, len(view.args))):
        return None
    opened = Opened((node,))
    for value in view.args[:2]:
        inner = None
        if isinstance(value, Node) and views.users(value) == (node,) and _is_uniform(view, views):
            inner = flat_operands(value, family, views)
            below = next(iter(views.views_as(value, family)), None)
            inner = inner if below is not None and _is_uniform(below, views) else None
        more = inner or Opened((), (value,))
        opened = Opened(opened.nodes + more.nodes, opened.values + more.values)
    return opened


def _is_uniform(view: View, views: Views) -> bool:
    dtypes = set()
    for value in (view.node, view.args[0], view.args[1]):
        fact = views.fact(value) if isinstance(value, Node) else None
        if isinstance(fact, torch.Tensor):
            dtypes.add(fact.dtype)
    return len(dtypes) < 2


def choose(
    match: Match, patterns: Sequence[Pattern], values: tuple[Value, ...], state: State, frame: Frame
) -> Iterator[tuple[State, tuple[Value, ...]]]:
    """A value for each pattern, the first one first, and the values that are left."""
    if not patterns:
        yield state, values
        return
    for at, value in enumerate(values):
        for after in match(patterns[0], value, state, frame, None):
            yield from choose(match, patterns[1:], values[:at] + values[at + 1 :], after, frame)
