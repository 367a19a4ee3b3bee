"""The effects of a graph's nodes, and which of its values share memory."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable

import torch
from attrs import define, field
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx import Graph, Node

from .kinds import ModuleAttr
from .memory import Effect, Place, barriers_of, effect_of, is_faked_as_copy
from .nodeview import Views
from .schemas import PURE
from .sketches import drop
from .tensors import storage_of


@define(eq=False)
class EffectIndex:
    """The effects of a graph's nodes, and the nodes that a read may not move past, in graph order.

    The barriers stay what they are until `renew` is told of one that came or went.
    """

    graph: Graph
    views: Views
    _effects: dict[Node, Effect] = field(factory=dict, init=False)
    _calm: set[int] = field(factory=set, init=False)
    _plain: dict[int, object] = field(factory=dict, init=False)
    _barriers: list[Node] | None = field(default=None, init=False)
    _below: dict[str, frozenset[int]] = field(factory=dict, init=False)

    def effect(self, node: Node) -> Effect:
        """The effect of a node, kept until `forget`."""
        found = self._effects.get(node)
        if found is None:
            target = node.target
            if id(target) in self._plain:
                return PURE
            found = self._effects[node] = effect_of(node, self.views)
            if found is PURE and isinstance(target, OpOverload):
                self._plain[id(target)] = target  # kept, so that the id is its own
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

    def renew(self, erased: Iterable[Node], made: Iterable[Node]) -> None:
        """Look for the barriers again if one of these nodes, which are gone or new, is one; call it before `forget`."""
        gone = [self._effects[node] for node in erased if node in self._effects]
        if any(one.kind in ("mutates", "opaque") for one in [*gone, *map(self.effect, made)]):
            self._barriers = None

    def memory(self, places: Iterable[Place]) -> frozenset[object]:
        """What stands for the memory of places: two paths, or two inputs, may lead to one tensor."""
        found: set[object] = set()
        for place in places:
            found.add(place)
            found |= self._storages_of(place)
        return frozenset(found)

    def _storages_of(self, place: Place) -> frozenset[int]:
        """The storages of the tensors at a place that the owner of the graph holds; empty for a value of the graph."""
        if isinstance(place, Node):
            if place.op == "placeholder":
                return _known(storage_of(self.views.lifted.get(place.name)))
            return self._storages_of(str(place.target)) if place.op == "get_attr" else frozenset()
        if place not in self._below:
            if place.endswith("."):
                module = self.views.module(place[:-1])
                tensors = [] if module is None else [*module.parameters(), *module.buffers()]
                self._below[place] = _known(*map(storage_of, tensors))
            else:
                self._below[place] = _known(storage_of(self.views.fact(ModuleAttr(place))))
        return self._below[place]

    def overlap(self, first: Iterable[Place], second: Iterable[Place]) -> bool:
        """Whether two sets of places have memory in common; paths overlap when one begins with the other."""
        mine, others = self.memory(first), self.memory(second)
        paths = [place for place in others if isinstance(place, str)]
        return not mine.isdisjoint(others) or any(
            _below(place, path) or _below(path, place) for place in mine if isinstance(place, str) for path in paths
        )

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
        given = list(places)
        pending.extend(place for place in given if isinstance(place, Node))
        held = [place for place in given if isinstance(place, str) or place.op in ("get_attr", "placeholder")]
        memory = self.memory(held)
        for op in ("get_attr", "placeholder") if held else ():
            pending.extend(node for node in self.graph.find_nodes(op=op) if not memory.isdisjoint(self.memory([node])))
        if any(isinstance(place, str) for place in held):
            pending.extend(node for node in self.graph.find_nodes(op="get_attr") if str(node.target) in memory)
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


def _known(*storages: int | None) -> frozenset[int]:
    return frozenset(one for one in storages if one is not None)


def _below(path: str, prefix: str) -> bool:
    return prefix.endswith(".") and path.startswith(prefix)
