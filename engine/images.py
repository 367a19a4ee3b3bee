"""Earlier states of a graph's cells: what an undo journal writes down, and how it puts them back.

Entries are plain tuples, quick to make: every rewrite makes dozens.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable
from typing import Any, NamedTuple, TypeAlias

from torch import nn
from torch.fx import Graph, Node

_CELLS = ("_args", "_kwargs", "name", "type", "_sort_key", "_erased")


class Touched(NamedTuple):
    """One node: its ``_args, _kwargs, name, type, _sort_key, _erased``, its inputs and its users."""

    node: Node
    cells: tuple[object, ...]
    inputs: tuple[Node, ...]
    users: tuple[Node, ...]


class Read(NamedTuple):
    """The users of one node, of which nothing else changes."""

    node: Node
    users: tuple[Node, ...]


class Described(NamedTuple):
    """The meta of one node."""

    node: Node
    meta: dict[str, object]


class Named(NamedTuple):
    """The graph's namespace, where one new name touches it."""

    name: str
    base: str
    number: int | None
    objects: int


class Inserted(NamedTuple):
    """The list of nodes, just before ``before``."""

    before: Node
    prev: Node
    length: int


class Erased(NamedTuple):
    """The place of a node in the list, which it leaves for good or for another."""

    node: Node
    next: Node
    length: int


class Renamed(NamedTuple):
    """The namespace's name for a node."""

    node: Node
    name: str | None
    taken: str | None


class Module(NamedTuple):
    """The attribute tables of one module."""

    module: nn.Module
    tables: tuple[tuple[str, Collection[Any]], ...]


class Listed(NamedTuple):
    """A list that only grows, and its length."""

    items: list[Any]
    length: int


class Shared(NamedTuple):
    """A table, and a key that it did not have."""

    table: dict[Any, Any]
    key: Hashable


Entry: TypeAlias = Touched | Read | Described | Named | Inserted | Erased | Renamed | Module | Listed | Shared


def insert(graph: Graph, before: Node, name: str, op: str, target: Any, args: tuple[Any, ...], kwargs: Any) -> Node:
    """A new node before another, under a name that is free, as `Graph.create_node` makes it.

    That one looks through all arguments of every node for symbolic numbers to warn about, which takes
    half of its time; where anybody listens to it or has another one it is called all the same.
    """
    if type(graph) is not Graph or getattr(graph.owning_module, "_create_node_hooks", None):
        with graph.inserting_before(before):
            return graph.create_node(op, target, args, kwargs, name=name)
    names = graph._graph_namespace
    node = Node(graph, names.create_name(name, None), op, target, args, kwargs)
    names.associate_name_with_obj(node.name, node)
    before.prepend(node)
    graph._find_nodes_lookup_table.insert(node)
    graph._len += 1
    return node


def is_other(entry: Touched) -> bool:
    """Whether a node has other arguments now."""
    node = entry.node
    return node._args is not entry.cells[0] or node._kwargs is not entry.cells[1]


def restore(graph: Graph, entry: Entry) -> None:
    """Assign the earlier state back; whether the change was made, half made or not made does not matter."""
    names = graph._graph_namespace
    match entry:
        case Touched():
            _restore_node(entry)
        case Read(node, users):
            _refill(node.users, users)
        case Described(node, meta):
            node.meta.clear()
            node.meta.update(meta)
        case Named(name, base, number, objects):
            names._used_names.discard(name)
            _put(names._base_count, base, number)
            while len(names._obj_to_name) > objects:
                names._obj_to_name.popitem()
        case Inserted(before, prev, length):
            while before._prev is not prev:
                _unlink(graph, before._prev)
            graph._len = length
        case Erased(node, next, length):
            _link(graph, node, next)
            graph._len = length
        case Renamed(node, name, taken):
            _put(names._obj_to_name, node, name)
            if taken is not None:
                names._used_names.discard(taken)
        case Module(module, tables):
            for name, content in tables:
                live = getattr(module, name)
                live.clear()
                live.update(content)
        case Listed(items, length):
            del items[length:]
        case Shared(table, key):
            table.pop(key, None)


def _restore_node(entry: Touched) -> None:
    node = entry.node
    for name, value in zip(_CELLS, entry.cells, strict=True):
        # Past Node.__setattr__, which would tell hooks and shuffle the side table.
        object.__setattr__(node, name, value)
    _refill(node._input_nodes, entry.inputs)
    _refill(node.users, entry.users)


def _refill(live: dict[Node, None], content: tuple[Node, ...]) -> None:
    live.clear()
    live.update(dict.fromkeys(content))


def _unlink(graph: Graph, node: Node) -> None:
    node._remove_from_list()
    object.__setattr__(node, "_erased", True)
    for key in ((node.op, node.target), (node.op, None)):
        graph._find_nodes_lookup_table.table.get(key, {}).pop(node, None)


def _link(graph: Graph, node: Node, next: Node) -> None:
    if next._prev is not node:
        next._prepend(node)
    table = graph._find_nodes_lookup_table
    table.table[table._key(node)].setdefault(node)


def _put(table: dict[Any, Any], key: Any, value: Any) -> None:
    if value is None:
        table.pop(key, None)
    else:
        table[key] = value
