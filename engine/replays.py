"""A replacement is worked out once for all sites that are alike, and then only built again.

Two matches of a rule with equal keys differ in the identity of their nodes alone (see
`verdicts.site_key`), so the same ops with the same arguments replace them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from attrs import evolve, frozen
from torch.fx import Node
from torch.fx.node import map_aggregate

from .candidates import Match
from .emission import Emitter
from .sketches import identity
from .verdicts import values_known

_NESTED = (tuple, list, dict, slice)


@frozen
class Ref:
    """A node by its place: among the nodes of the site, then among those made so far."""

    at: int


@frozen
class _Step:
    """One node to create, with places for the nodes that it reads."""

    op: str
    target: Any
    args: Any
    kwargs: Any


@frozen
class Recording:
    """The nodes of a replacement and its results.

    ``agrees``: the result has memory of its own and the interface of the value it
    replaces, so that it may take over that value's metadata.
    """

    steps: tuple[_Step, ...]
    results: tuple[Any, ...]
    agrees: bool = False


def recall(emitter: Emitter) -> Recording | None:
    """What was recorded at a site like this one."""
    key = _key(emitter)
    return None if key is None else emitter.views.memory.alike.get(key)


def record(emitter: Emitter, results: tuple[Any, ...]) -> None:
    """Keep what was made here for sites like this one, if it depends on nothing else."""
    key = _key(emitter)
    if key is None:
        return
    refs = {identity(node): Ref(at) for at, node in enumerate(_site(emitter.match))}
    steps: list[_Step] = []

    def ref_of(node: Node) -> Ref:
        return refs[identity(node)]

    try:
        for node in emitter.made:
            if node.op != "call_function" and node.op != "call_method":
                return  # it reads an attribute or calls a module of this site
            steps.append(_Step(node.op, node.target, emptied(node.args, ref_of), emptied(node.kwargs, ref_of)))
            refs[identity(node)] = Ref(len(refs))
        emitter.views.memory.alike[key] = Recording(tuple(steps), emptied(results, ref_of))
    except KeyError:
        return  # it reads a node beside the match


def mark_agreeing(emitter: Emitter) -> None:
    """Add to what was recorded that the result agrees with what it replaces."""
    key = _key(emitter)
    known = emitter.views.memory.alike.get(key)
    if known is not None:
        emitter.views.memory.alike[key] = evolve(known, agrees=True)


def replay(recording: Recording, emitter: Emitter, facts: Mapping[str, Any] | None = None) -> tuple[Any, ...]:
    """Build it at another site; ``facts`` are the metadata of the last node, if they are known."""
    nodes = _site(emitter.match)
    last = len(recording.steps) - 1
    for at, step in enumerate(recording.steps):
        args, kwargs = filled(step.args, nodes), filled(step.kwargs, nodes)
        nodes.append(emitter.create(step.op, step.target, args, kwargs, facts if at == last else None))
    results: tuple[Any, ...] = filled(recording.results, nodes)
    return results


def _key(emitter: Emitter) -> Any:
    match = emitter.match
    return None if match.key is None else (match.rule, emitter.level, match.key)


def _site(match: Match) -> list[Node]:
    """The nodes that a rule knows at a site, each once, in an order that is the same at all sites with one key."""
    found: dict[object, Node] = {}

    def visit(one: Any) -> Any:
        return found.setdefault(identity(one), one) if isinstance(one, Node) else one

    for value in values_known(match.root, match.bindings):
        if isinstance(value, Node):
            visit(value)
        elif isinstance(value, _NESTED):
            map_aggregate(cast(Any, value), visit)
    return list(found.values())


def emptied(value: Any, ref_of: Callable[[Node], Ref]) -> Any:
    """A value with a `Ref` for every node."""

    def place(one: Any) -> Any:
        return ref_of(one) if isinstance(one, Node) else one

    return map_aggregate(value, place)


def filled(value: Any, nodes: list[Node]) -> Any:
    """A value with the nodes in place of its refs."""
    if type(value) is Ref:
        return nodes[value.at]
    if not isinstance(value, _NESTED):
        return value
    return map_aggregate(value, lambda one: nodes[one.at] if isinstance(one, Ref) else one)
