"""When facts of a value change: bring the metadata behind it up to date, as far as it differs."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Any

from torch.fx import Node

from .effects import EffectIndex
from .journal import Journal
from .metadata import MISSING, Impossible, Propagation
from .observers import is_observer

_NOT_STRIDES = frozenset({"shape", "dtype", "device"})


def settle(
    new: Node,
    old_fact: Any,
    journal: Journal,
    propagation: Propagation,
    effects: EffectIndex,
    changes: frozenset[str],
) -> str | None:
    """Recompute what the users of ``new`` give, in graph order, until they agree with what they gave before.

    ``old_fact`` is what they read before. Returns why that does not work out, or None: an
    op fails on the new value, something with effects sees the change, the strides of an
    output would change, or facts differ that ``changes`` does not name.
    """
    before: dict[Node, Any] = {new: old_fact}
    pending: list[Node] = []
    _push(pending, new)
    while pending:
        node = heappop(pending)
        while pending and pending[0] is node:
            heappop(pending)
        if node.op == "output":
            problem = _output_problem(node, before, propagation)
        elif effects.effect(node).kind in ("mutates", "opaque"):
            problem = f"`{node.name}` would see it"
        elif effects.effect(node).draws and not _only_memory_changed(node, before, propagation):
            problem = f"`{node.name}` draws random numbers in the order of memory"
        else:
            problem = _renew(node, before, pending, journal, propagation, effects, changes)
        if problem is not None:
            return problem
    return None


def _renew(
    node: Node,
    before: dict[Node, Any],
    pending: list[Node],
    journal: Journal,
    propagation: Propagation,
    effects: EffectIndex,
    changes: frozenset[str],
) -> str | None:
    """Bring one node's metadata up to date; push its users if it is another one now."""
    aliases = effects.effect(node).aliases
    if not aliases and _only_memory_changed(node, before, propagation):
        return None
    old = propagation.fact(node)
    try:
        entries = propagation.entries(node)
    except Impossible as impossible:
        return str(impossible)
    if is_observer(node):
        return None
    new = entries.get(propagation.entry, MISSING)
    if old is MISSING or new is MISSING:
        return f"nothing is known of `{node.name}`"
    differs = propagation.difference(old, new) is not None
    if differs and (difference := propagation.difference(old, new, changes)) is not None:
        return f"{difference} at `{node.name}`"
    # A view has another fake memory now, even if it looks the same.
    if differs or aliases:
        before[node] = old
        journal.set_meta(node, entries)
        _push(pending, node)
    return None


def _only_memory_changed(node: Node, before: dict[Node, Any], propagation: Propagation) -> bool:
    """Whether all facts that a node reads are what they were, though their memory may be another."""
    changed = [source for source in node.all_input_nodes if source in before]
    return all(propagation.keys.equal(before[source], propagation.fact(source)) for source in changed)


def _output_problem(output: Node, before: dict[Node, Any], propagation: Propagation) -> str | None:
    for node in output.all_input_nodes:
        if node in before and propagation.difference(before[node], propagation.fact(node), _NOT_STRIDES) is not None:
            return "an output of the graph would get other strides"
    return None


def _push(pending: list[Node], node: Node) -> None:
    for user in node.users:
        heappush(pending, user)
