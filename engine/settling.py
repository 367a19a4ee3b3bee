"""When strides (or other facts) of a value change: bring the metadata behind it up to date, as far as it differs."""

from __future__ import annotations

from collections.abc import Collection
from heapq import heappop, heappush

from torch.fx import Node

from .agreement import disagreement
from .effects import EffectIndex
from .journal import Journal
from .metadata import MISSING, Impossible, Propagation
from .observers import is_observer


def settle(
    new: Node, journal: Journal, propagation: Propagation, effects: EffectIndex, changes: Collection[str]
) -> str | None:
    """Recompute what the users of ``new`` give, in graph order, until they agree with what they gave before.

    Returns why that does not work out, or None: an op fails on the new value, an effect
    or the graph's output sees the change, or facts differ that ``changes`` does not name.
    """
    pending: list[Node] = []
    seen: set[Node] = set()

    def push(node: Node) -> None:
        for user in node.users:
            if user not in seen:
                seen.add(user)
                heappush(pending, user)

    push(new)
    while pending:
        node = heappop(pending)
        if node.op == "output":
            if "shape" in changes or "dtype" in changes or "device" in changes:
                continue
            return "its strides would reach an output of the graph"
        if effects.effect(node).kind in ("mutates", "opaque"):
            return f"`{node.name}` would see it"
        before = propagation.fact(node)
        try:
            entries = propagation.entries(node)
        except Impossible as impossible:
            return str(impossible)
        if is_observer(node):
            continue
        after = entries.get(propagation.entry, MISSING)
        if before is MISSING or after is MISSING:
            return f"nothing is known of `{node.name}`"
        difference = disagreement(before, after, changes)
        if difference is not None:
            return f"{difference} at `{node.name}`"
        if disagreement(before, after) is not None:
            journal.set_meta(node, entries)
            push(node)
    return None
