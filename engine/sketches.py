"""All that can be told of a node by itself, as one number: equal numbers, equal answers."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Set
from typing import Any, NamedTuple

from attrs import define, field
from torch.fx import Node

from .factkeys import UNKNOWN, FactKeys, argument_key


class Sketch(NamedTuple):
    """A node, but for the identity of its inputs.

    ``number`` stands for what it calls, its literals, its facts, those of its inputs, and which of these are one
    value; ``inputs`` are the values that it reads, in the order of its arguments.
    """

    number: int
    inputs: tuple[Node, ...]


@define(eq=False)
class Memory:
    """What holds for all that is alike in a graph, and in its copies.

    ``keys`` numbers facts, ``numbers`` sketches, ``targets`` what is called, ``sites`` the
    keys of sites; ``alike`` is what was worked out once for all sites with equal numbers.
    """

    keys: FactKeys = field(factory=FactKeys, init=False)
    numbers: dict[Hashable, int] = field(factory=dict, init=False)
    targets: dict[int, tuple[object, int]] = field(factory=dict, init=False)
    sites: dict[Hashable, int] = field(factory=dict, init=False)
    alike: dict[Any, Any] = field(factory=dict, init=False)


@define(eq=False)
class Sketches:
    """The sketches of one graph's nodes, made when asked for and kept until `forget`.

    ``fact`` gives the value that carries a node's facts.
    """

    fact: Callable[[Node], object]
    memory: Memory
    _known: dict[Node, Sketch | None] = field(factory=dict, init=False)
    _facts: dict[Node, object] = field(factory=dict, init=False)

    def of(self, node: Node) -> Sketch | None:
        """The sketch of a node; None if not all of it can be written down."""
        try:
            return self._known[node]
        except KeyError:
            found = self._known[node] = self._made(node)
            return found

    def forget(self, nodes: Set[Node]) -> None:
        """Drop what is known of these nodes."""
        drop(self._known, nodes)
        drop(self._facts, nodes)

    def _made(self, node: Node) -> Sketch | None:
        op, args = node.op, node.args
        if op == "call_module" or op == "output":
            return None
        called = op if op == "placeholder" or op == "get_attr" else self._target(node.target)
        inputs: dict[object, Node] = {}
        of_node = in_turn(self.fact_key, inputs)
        parts = [called, self.fact_key(node), *[argument_key(arg, of_node) for arg in args]]
        if node.kwargs:
            parts.append(argument_key(node.kwargs, of_node))
        if UNKNOWN in parts:
            return None
        numbers = self.memory.numbers
        return Sketch(numbers.setdefault(tuple(parts), len(numbers)), tuple(inputs.values()))

    def fact_key(self, node: Node) -> object:
        """The number of a tensor's facts, a tuple for a tuple; UNKNOWN for all else."""
        found = self._facts.get(node)
        if found is None:
            found = self._facts[node] = self.memory.keys.key(self.fact(node))
        return found

    def _target(self, target: Any) -> object:
        """A name, or a number for a callable: overloads of torch compute their hash in Python each time."""
        if isinstance(target, str):
            return target
        targets = self.memory.targets
        known = targets.get(id(target))
        if known is None:  # with the callable: as long as it lives its id is its own
            known = targets[id(target)] = (target, len(targets))
        return known[1]


def in_turn(fact_key: Callable[[Node], object], inputs: dict[object, Node]) -> Callable[[Node], object]:
    """The key of one node after another: its facts, and which value it is; ``inputs`` receives the values."""
    places: dict[object, int] = {}

    def of_node(node: Node) -> object:
        key, value = fact_key(node), identity(node)
        at = places.setdefault(value, len(places))
        # a second reader of one attribute is the same value, but another node
        again = inputs.setdefault(value, node) is not node
        return UNKNOWN if key is UNKNOWN else (key, at, None) if again else (key, at)

    return of_node


def drop(table: dict[Node, Any], nodes: Set[Node]) -> None:
    """Take nodes out of a table, as far as they are in it."""
    for node in nodes & table.keys():
        del table[node]


def identity(node: Node) -> object:
    """What tells a value of the graph from others: two nodes that read one attribute are one value."""
    return node.target if node.op == "get_attr" else node
