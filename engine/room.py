"""Where a replacement may stand: behind all that it reads, before all that reads it."""

from __future__ import annotations

from torch.fx import Node

from .candidates import Match, Mismatch
from .effects import EffectIndex
from .journal import Journal


def make_room(match: Match, effects: EffectIndex, journal: Journal) -> Node | Mismatch:
    """The node before which the replacement goes; what reads one of several results too early is moved behind it.

    The replacement stands behind the last of the results, where all that they read is at
    hand. A reader of another one may stand before that place. It may move down if it is
    pure and nothing is written on the way; if one of the results is made of it there is no
    place at all.
    """
    if not match.others:
        return match.root.next
    first, last = min(match.results), max(match.results)
    place = last.next
    early = _early_readers(match, first, last)
    if not early:
        return place
    problem = _knot(match, early) or _not_movable(early, last, effects)
    if problem is not None:
        return problem
    for node in early:
        journal.move(node, before=place)
    return early[0]


def _early_readers(match: Match, first: Node, last: Node) -> list[Node]:
    """What is made of results between the first and the last of them, in graph order; the match itself left out."""
    replaced = set(match.nodes) - set(match.kept)
    reached, early = set(match.results), []
    node = first.next
    while node is not last and first is not last:
        if node not in replaced and node not in reached and not reached.isdisjoint(node.all_input_nodes):
            reached.add(node)
            early.append(node)
        node = node.next
    return early


def _knot(match: Match, early: list[Node]) -> Mismatch | None:
    """A result that is made, by way of something outside the match, of another result."""
    for node in match.nodes:
        between = next((source for source in node.all_input_nodes if source in early), None)
        if between is not None or node in early:
            name = node.name if between is None else between.name
            return Mismatch("structure", f"one result is made of another by way of `{name}`", node)
    return None


def _not_movable(early: list[Node], last: Node, effects: EffectIndex) -> Mismatch | None:
    for node in early:
        effect = effects.effect(node)
        if effect.kind != "pure":
            why = effect.reason or f"`{node.name}` has effects"
            return Mismatch("effect", f"{why}, and would have to move behind `{last.name}`", node)
    for barrier in effects.between(early[0], last):
        why = effects.effect(barrier).reason or f"`{barrier.name}` has effects"
        return Mismatch("effect", f"{why}, and `{early[0].name}` would have to move behind it", barrier)
    return None
