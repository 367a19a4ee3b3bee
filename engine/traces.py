"""A match is looked for once at sites that are alike: at others it is enough that they are alike.

A matcher, run on `Witness` views, writes down the nodes that it looks at. What it does
depends on their sketches, and on which of the values that they read are the same. A
`Trace` is this, with the match that came of it: where both are the same at another node,
the match is the same there too.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from attrs import frozen
from torch.fx import Node

from .candidates import Config, Match
from .guards import read_outside
from .matching import CompiledRule
from .nodeview import Views
from .replays import Ref, emptied, filled
from .sketches import identity
from .witness import Witness

# Ways to match that are kept for nodes of one sketch: more would be slower than to match.
_ENOUGH = 4


class _Look(NamedTuple):
    """One node that was looked at, by its place; its sketch, and the places of what it reads."""

    at: int
    number: int
    inputs: tuple[int, ...]


@frozen(eq=False)
class Trace:
    """The looks that led to a match, the root's first, and the match.

    ``values`` are the bindings that hold nodes, with their places. Places count the values
    in the order in which the looks meet them.
    """

    looks: tuple[_Look, ...]
    values: tuple[tuple[str, Any], ...]
    nodes: tuple[int, ...]
    kept: tuple[int, ...]
    match: Match


def recall(compiled: CompiledRule, root: Node, views: Views) -> Match | None:
    """The match of a rule at a node, if it was found at another where all is alike."""
    sketch = views.sketch(root)
    for trace in views.memory.alike.get((compiled, sketch.number), ()) if sketch is not None else ():
        match = follow(trace, root, views)
        if match is not None:
            return match if read_outside((root,), match.nodes, match.kept) is None else None
    return None


def remember(compiled: CompiledRule, match: Match, witness: Witness) -> None:
    """Keep what led to the first match that a rule found at a node."""
    sketch, trace = witness.views.sketch(match.root), trace_of(match, witness)
    if sketch is None or trace is None:
        return
    known = witness.views.memory.alike.setdefault((compiled, sketch.number), [])
    if len(known) < _ENOUGH:
        known.append(trace)


def trace_of(match: Match, witness: Witness) -> Trace | None:
    """What led to a match; None if it cannot be told from sketches."""
    if match.key is None:
        return None
    met = _looks(match.root, witness)
    if met is None:
        return None
    looks, places = met
    bindings = match.bindings
    known = len(set(map(identity, places))) == len(places)
    if not known or any(isinstance(value, Config) for value in bindings.values()):
        return None
    try:
        placed = [(name, emptied(value, lambda node: Ref(places[node]))) for name, value in bindings.items()]
        nodes, kept = (tuple([places[node] for node in group]) for group in (match.nodes, match.kept))
    except KeyError:
        return None
    if not witness.facts.keys() <= places.keys():
        return None
    values = tuple([(name, value) for name, value in placed if value != bindings[name]])
    return Trace(looks, values, nodes, kept, match)


def _looks(root: Node, witness: Witness) -> tuple[tuple[_Look, ...], dict[Node, int]] | None:
    """The looks from the root down, and the place of every value met; None if a node looked at is not found so."""
    looks = []
    places = {root: 0}
    pending = [root]
    for node in pending:
        sketch = witness.views.sketch(node)
        if sketch is None:
            return None
        for source in sketch.inputs:
            if source not in places:
                places[source] = len(places)
                if source in witness.looked:
                    pending.append(source)
        looks.append(_Look(places[node], sketch.number, tuple([places[source] for source in sketch.inputs])))
    return (tuple(looks), places) if witness.looked.keys() <= set(pending) else None


def follow(trace: Trace, root: Node, views: Views) -> Match | None:
    """The match at another root, if all that was looked at is the same there."""
    nodes: list[Node] = [root]
    met: set[object] = {identity(root)}
    for at, number, inputs in trace.looks:
        sketch = views.sketch(nodes[at])
        if sketch is None or sketch.number != number or len(sketch.inputs) != len(inputs):
            return None
        for place, source in zip(inputs, sketch.inputs, strict=True):
            if place < len(nodes):
                if nodes[place] is not source:
                    return None
            else:
                nodes.append(source)
                met.add(identity(source))
                if len(met) < len(nodes):
                    return None  # a value that was met before, though at the first site it was not
    bindings = dict(trace.match.bindings)  # in their order, which replays count on
    for name, value in trace.values:
        bindings[name] = filled(value, nodes)
    covered, kept = (tuple([nodes[at] for at in group]) for group in (trace.nodes, trace.kept))
    return Match(trace.match.rule, root, covered, bindings, kept, trace.match.key)
