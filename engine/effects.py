"""Which rewrites are safe in the presence of writes, random numbers and shared memory.

Two laws. A match may not straddle a write to memory that it reads. And a new value may
not share memory anew: never at the boundary of the graph, nor where something writes to
it, and inside only if the rule says ``changes aliasing``.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable

import torch
from attrs import define, field
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx import Graph, Node

from .candidates import Match, Mismatch
from .memory import Effect, Place, barriers_of, effect_of, is_faked_as_copy
from .nodeview import Views
from .sketches import drop


@define(eq=False)
class EffectIndex:
    """The effects of a graph's nodes, and the nodes that a read may not move past, in graph order.

    Rewrites add and erase pure nodes only, so the barriers stay what they are.
    """

    graph: Graph
    views: Views
    _effects: dict[Node, Effect] = field(factory=dict, init=False)
    _calm: set[int] = field(factory=set, init=False)
    _barriers: list[Node] | None = field(default=None, init=False)

    def effect(self, node: Node) -> Effect:
        """The effect of a node, kept until `forget`."""
        found = self._effects.get(node)
        if found is None:
            found = self._effects[node] = effect_of(node, self.views)
        return found

    def is_calm(self, node: Node) -> bool:
        """Whether a node's family says that it is pure; what that does not say, it could only write.

        Worked out once for all nodes of one sketch.
        """
        sketch = self.views.sketch(node)
        if sketch is not None and sketch.number in self._calm:
            return True
        view = self.views.own(node)
        calm = view is not None and view.effect == "pure"
        if calm and sketch is not None:
            self._calm.add(sketch.number)
        return calm

    @property
    def barriers(self) -> list[Node]:
        """Nodes that write, or may do anything."""
        if self._barriers is None:
            self._barriers = barriers_of(self.graph.nodes, self.views)
        return self._barriers

    def between(self, first: Node, last: Node) -> list[Node]:
        """The barriers after ``first`` and before ``last``."""
        barriers = self.barriers
        if not barriers:
            return []
        start = bisect_right(barriers, first)
        return [node for node in barriers[start : bisect_right(barriers, last)] if node is not last]

    def after(self, node: Node) -> list[Node]:
        """The barriers after ``node``."""
        return self.barriers[bisect_right(self.barriers, node) :] if self.barriers else []

    def forget(self, nodes: Collection[Node]) -> None:
        """Drop what is known of changed nodes and of their users."""
        drop(self._effects, set(nodes).union(*[node.users for node in nodes]))

    def bases(self, nodes: Iterable[Node], *, surely: bool = False) -> frozenset[Place]:
        """Where the memory of values may come from: the nodes that made it, attributes by their path.

        ``surely``: follow only what is known to share memory, not what may be a copy.
        """
        found: set[Place] = set()
        pending, seen = list(nodes), set(nodes)
        while pending:
            node = pending.pop()
            sources = [source for source in self.effect(node).aliases if self._shares(node, source, surely)]
            if not sources:
                found.add(str(node.target) if node.op == "get_attr" else node)
            pending.extend(source for source in sources if source not in seen)
            seen.update(sources)
        return frozenset(found)

    def _shares(self, node: Node, source: Node, surely: bool) -> bool:
        """Whether a value may (or surely does) share memory with an argument that it may alias.

        Fake tensors know it: a view shares the storage of what it looks at.
        """
        mine, other = _storages(self.views.fact(node)), _storages(self.views.fact(source))
        if mine and other and (surely or not is_faked_as_copy(node)):
            return not mine.isdisjoint(other)
        return not (surely and self.effect(node).copies)

    def sharing(self, places: Iterable[Place]) -> set[Node]:
        """The nodes whose value may share memory with any of these places."""
        pending: list[Node] = []
        for place in places:
            if isinstance(place, Node):
                pending.append(place)
            else:
                pending.extend(self.graph.find_nodes(op="get_attr", target=place))
        seen = set(pending)
        while pending:
            node = pending.pop()
            for user in node.users:
                if user not in seen and node in self.effect(user).aliases and self._shares(user, node, False):
                    seen.add(user)
                    pending.append(user)
        return seen


def _storages(fact: object) -> set[int]:
    """The storages of a fake tensor, or of a list of them; empty where that is not known."""
    if isinstance(fact, FakeTensor):
        return {fact.untyped_storage()._cdata} if fact.layout is torch.strided else set()
    if isinstance(fact, tuple | list):
        each = [_storages(item) for item in fact]
        return set().union(*each) if all(each) else set()
    return set()


def legal(match: Match, index: EffectIndex) -> Mismatch | None:
    """Why a match may not be rewritten for its effects, or None.

    All its nodes must be pure (a query replaces none of them), and nothing may write to what it reads between the first
    of these reads and the root, where the replacement reads instead.
    """
    for node in () if match.rule.is_query else match.nodes:
        if not index.barriers and index.is_calm(node):
            continue
        effect = index.effect(node)
        if effect.kind != "pure":
            return Mismatch("effect", f"{effect.reason or f'`{node.name}` has effects'}; it cannot be replaced", node)
    if not index.barriers:
        return None
    inside = set(match.nodes)
    barriers = [node for node in index.between(min(match.nodes), match.root) if node not in inside]
    if not barriers:
        return None
    read = _places_read(match, index)
    for node in barriers:
        effect = index.effect(node)
        if effect.kind == "opaque":
            return Mismatch("effect", f"{effect.reason}, in the midst of the match", node)
        if _overlap(_written(effect, index), read):
            return Mismatch("effect", f"{effect.reason}, which the match reads before", node)
    return None


def _places_read(match: Match, index: EffectIndex) -> frozenset[Place]:
    inside = set(match.nodes)
    sources = [source for node in match.nodes for source in node.all_input_nodes if source not in inside]
    modules = [f"{node.target}." for node in match.nodes if node.op == "call_module"]
    return index.bases([*sources, *match.kept]) | frozenset(modules)


def _written(effect: Effect, index: EffectIndex) -> frozenset[Place]:
    nodes = [place for place in effect.writes if isinstance(place, Node)]
    return index.bases(nodes) | frozenset(place for place in effect.writes if isinstance(place, str))


def _overlap(first: Iterable[Place], second: Iterable[Place]) -> bool:
    """Whether two sets of places have memory in common; paths overlap when one begins with the other."""
    others = set(second)
    paths = [place for place in others if isinstance(place, str)]
    return any(
        place in others
        or (isinstance(place, str) and any(_below(place, path) or _below(path, place) for path in paths))
        for place in first
    )


def _below(path: str, prefix: str) -> bool:
    return prefix.endswith(".") and path.startswith(prefix)


def new_sharing(old: Node, outside: frozenset[Place], index: EffectIndex) -> frozenset[Place]:
    """Which of the places outside the replacement that a new value may share memory with are new: ``old`` did not."""
    return outside - index.bases([old], surely=True) if outside else outside


def sharing_problem(old: Node, shared: frozenset[Place], index: EffectIndex, *, declared: bool) -> Mismatch | None:
    """Why a value that takes the place of ``old`` may not share memory with ``shared``, or None.

    ``declared``: the rule says ``changes aliasing``. Call it before the uses of ``old``
    are replaced.
    """
    if not shared:
        return None
    source = next(iter(sorted(_name(place) for place in shared)))
    if not declared:
        return Mismatch(
            "interface",
            f"the new value may share memory with `{source}`; the rule does not say `changes aliasing`",
            old,
        )
    reached = index.sharing([old])
    output = index.graph.output_node()
    if output in reached:
        leaving = next(node for node in output.all_input_nodes if node in reached)
        others = index.sharing(shared)
        for place in shared:
            if isinstance(place, str) or place.op == "placeholder":
                return _boundary(leaving, f"input `{_name(place)}`")
        for node in output.all_input_nodes:
            if node in others and node not in reached:
                return _boundary(leaving, f"output `{node.name}`")
    return _write_problem(old, reached | index.sharing(shared), index) if index.after(old) else None


def lost_sharing_problem(old: Node, new: Node, index: EffectIndex) -> Mismatch | None:
    """Why ``new`` may not stop sharing memory as ``old`` does: something writes to it later. None if nothing does."""
    if not index.after(old):
        return None
    lost = index.bases([old]) - index.bases([new], surely=True) - {old}
    return _write_problem(old, index.sharing([old]) | index.sharing(lost), index) if lost else None


def _boundary(output: Node, other: str) -> Mismatch:
    return Mismatch("interface", f"output `{output.name}` would share memory with {other}", output)


def _write_problem(old: Node, memory: set[Node], index: EffectIndex) -> Mismatch | None:
    """A later write to the memory, which would now be seen through other values than before."""
    paths = [str(node.target) for node in memory if node.op == "get_attr"]
    for node in index.after(old):
        effect = index.effect(node)
        if any(place in memory or (isinstance(place, str) and _overlap([place], paths)) for place in effect.writes):
            return Mismatch(
                "effect", f"{effect.reason}, and the new value would not share memory as the old one does", node
            )
    return None


def _name(place: Place) -> str:
    return place if isinstance(place, str) else place.name
