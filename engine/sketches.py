"""All that can be told of a node by itself, as one number: equal numbers, equal answers."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Set
from typing import Any, NamedTuple

from attrs import define, field
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
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

    ``fact`` gives the value that carries a node's facts; ``known`` are the sketches made so far.
    """

    fact: Callable[[Node], object]
    memory: Memory
    known: dict[Node, Sketch | None] = field(factory=dict, init=False)
    _facts: dict[Node, object] = field(factory=dict, init=False)

    def of(self, node: Node) -> Sketch | None:
        """The sketch of a node; None if not all of it can be written down."""
        if node not in self.known:
            self.known[node] = self._made(node)
        return self.known[node]

    def forget(self, nodes: Set[Node]) -> None:
        """Drop what is known of these nodes."""
        drop(self.known, nodes)
        drop(self._facts, nodes)

    def _made(self, node: Node) -> Sketch | None:
        op, args = node.op, node.args
        if op == "call_module" or op == "output":
            return None
        called = op if op == "placeholder" or op == "get_attr" else self._target(node.target)
        inputs: dict[object, Node] = {}
        parts = [called, self.fact_key(node)]
        if args and type(args[0]) is Node and len(node._input_nodes) == 1:  # most are of this kind
            place = (self.fact_key(args[0]), 0)
            inputs[None] = args[0]
            parts.append(UNKNOWN if place[0] is UNKNOWN else place)
            of_node = _always(place)
            for arg in args[1:]:
                parts.append(arg if type(arg) is int else argument_key(arg, of_node))
        else:
            of_node = self._in_turn(inputs)
            for arg in args:
                parts.append(argument_key(arg, of_node))
        if node.kwargs:
            parts.append(argument_key(node.kwargs, of_node))
        if UNKNOWN in parts:
            return None
        numbers = self.memory.numbers
        return Sketch(numbers.setdefault(tuple(parts), len(numbers)), tuple(inputs.values()))

    def _in_turn(self, inputs: dict[object, Node]) -> Callable[[Node], object]:
        """The key of one input after another: its facts, and which value it is; ``inputs`` receives the values."""
        places: dict[object, int] = {}

        def of_node(source: Node) -> object:
            value = source.target if source.op == "get_attr" else source
            at = places.get(value)
            if at is None:
                at = places[value] = len(places)
                inputs[value] = source
            key = self.fact_key(source)
            if key is UNKNOWN:
                return UNKNOWN
            # a second reader of one attribute is the same value, but another node
            return (key, at) if inputs[value] is source else (key, at, None)

        return of_node

    def fact_key(self, node: Node) -> object:
        """The number of a tensor's facts, a tuple for a tuple; UNKNOWN for all else."""
        found = self._facts.get(node)
        if found is None:
            value = node.meta.get("val")
            found = self.memory.keys.of(value) if type(value) is FakeTensor else None  # as most are
            found = self._facts[node] = self._fact_key(self.fact(node)) if found is None else found
        return found

    def _fact_key(self, fact: object) -> object:
        if isinstance(fact, Tensor):
            number = self.memory.keys.of(fact)
            return UNKNOWN if number is None else number
        if isinstance(fact, tuple | list):
            parts = [self._fact_key(item) for item in fact]
            return UNKNOWN if UNKNOWN in parts else (type(fact), *parts)
        return UNKNOWN

    def _target(self, target: Any) -> object:
        """A name, or a number for a callable: overloads of torch compute their hash in Python each time."""
        if isinstance(target, str):
            return target
        targets = self.memory.targets
        known = targets.get(id(target))
        if known is None:  # with the callable: as long as it lives its id is its own
            known = targets[id(target)] = (target, len(targets))
        return known[1]


def _always(key: object) -> Callable[[Node], object]:
    return lambda _: key


def drop(table: dict[Node, Any], nodes: Set[Node]) -> None:
    """Take nodes out of a table, as far as they are in it."""
    for node in nodes & table.keys():
        del table[node]


def identity(node: Node) -> object:
    """What tells a value of the graph from others: two nodes that read one attribute are one value."""
    return node.target if node.op == "get_attr" else node
