"""The undo journal: every change of a graph and its owner goes through it.

Each change is written down before it is made, as the earlier state of the cells
that it is about to touch. Undoing assigns those states back, last one first; it
never runs an inverse operation. So it does not matter whether a change was made,
was half made (an interrupt) or was not made at all.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

from attrs import define, field, frozen
from torch import Tensor, nn
from torch.export import ExportedProgram
from torch.fx import Graph, Node
from torch.fx.graph import _Namespace

from .images import (
    Described,
    Entry,
    Erased,
    Inserted,
    Listed,
    Module,
    Named,
    Read,
    Renamed,
    Shared,
    Touched,
    insert,
    is_other,
    restore,
)
from .walks import nodes_in

_NUMBERED = re.compile(r"^([a-zA-Z_][0-9a-zA-Z_]*?)(?:_(\d+))?$")


@frozen
class ModuleOwner:
    """A graph that belongs to a module: its constants are attributes of that module."""

    module: nn.Module


@frozen(eq=False)
class NewConstant:
    """A constant that a program gains at commit: its placeholder, its name in the state dict, its value."""

    placeholder: Node
    target: str
    value: Tensor


@frozen
class ProgramOwner:
    """The graph of an ExportedProgram: its constants are placeholders that the signature describes.

    The program itself is never changed; `owners.updated_program` builds the new one.
    """

    program: ExportedProgram


Owner: TypeAlias = ModuleOwner | ProgramOwner


@define(eq=False)
class Journal:
    """The changes made to one graph since the journal was opened.

    >>> graph = Graph()
    >>> x = graph.placeholder("x")
    >>> out = graph.output(x)
    >>> journal = Journal(graph)
    >>> y = journal.create("call_function", abs, (x,), before=out)
    >>> journal.replace_uses(x, y, except_for=(y,))
    >>> [node.name for node in graph.nodes], out.args
    (['x', 'abs_1', 'output'], (abs_1,))
    >>> journal.undo()
    >>> [node.name for node in graph.nodes], out.args
    (['x', 'output'], (x,))
    """

    graph: Graph
    owner: Owner | None = None
    constants: list[NewConstant] = field(factory=list, init=False)
    shared: dict[Hashable, str | Node] = field(factory=dict, init=False)
    _log: list[Entry] = field(factory=list, init=False)
    _touched: set[Node | nn.Module] = field(factory=set, init=False)
    _read: set[Node] = field(factory=set, init=False)
    _described: set[Node] = field(factory=set, init=False)
    _insert: Any = field(init=False)
    _buckets: dict[Any, tuple[Node, ...] | None] = field(factory=dict, init=False)
    _known_buckets: set[int | str] = field(factory=set, init=False)

    def __attrs_post_init__(self) -> None:
        self._insert = self.graph._insert

    # ------------------------------------------------------------ savepoints
    def mark(self) -> int:
        """A savepoint for `undo_to`."""
        self._forget()
        return len(self._log)

    def undo_to(self, mark: int) -> None:
        """Take back every change made since ``mark``; may be repeated after an interrupt."""
        self._forget()
        self.graph._insert = self._insert
        while len(self._log) > mark:
            restore(self.graph, self._log[-1])
            self._log.pop()
        table = self.graph._find_nodes_lookup_table.table
        for key in [key for key, members in self._buckets.items() if members is None and not table.get(key)]:
            table.pop(key, None)
            del self._buckets[key]
        self._known_buckets.clear()

    def undo(self) -> None:
        """Put graph and owner back as they were when the journal was opened, bit for bit."""
        self.undo_to(0)
        table = self.graph._find_nodes_lookup_table.table
        for key, members in self._buckets.items():
            if members is None:
                table.pop(key, None)
            else:
                bucket = table[key]
                bucket.clear()
                bucket.update(dict.fromkeys(members))
        self._buckets.clear()

    def commit(self) -> None:
        """Make the changes final. Erased nodes left the graph when they were erased."""
        self._log, self._buckets, self._known_buckets = [], {}, set()
        self._forget()

    def _forget(self) -> None:
        """Begin to write down everything anew."""
        self._touched.clear()
        self._read.clear()
        self._described.clear()

    @property
    def changed(self) -> bool:
        """Whether there is anything to undo."""
        return bool(self._log)

    @property
    def size(self) -> int:
        """The number of changes written down; it only grows while nothing is undone."""
        return len(self._log)

    def touched_since(self, size: int) -> dict[Node, bool]:
        """The nodes touched since the journal had this size: True if their arguments or meta
        are others now, False if only their users or name are."""
        found: dict[Node, bool] = {}
        for entry in self._log[size:]:
            if type(entry) is Described or (type(entry) is Touched and is_other(entry)):
                found[entry.node] = True
            elif type(entry) is Read or type(entry) is Touched:
                found.setdefault(entry.node, False)
        return found

    # --------------------------------------------------------------- changes
    def create(
        self,
        op: str,
        target: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        before: Node,
        name: str | None = None,
    ) -> Node:
        """A new node just before ``before``, named after ``name`` or else its target."""
        graph = self.graph
        fresh = self._reserve(name or graph._target_to_str(target))
        self._touch_users(nodes_in((args, kwargs)))
        self._touch_bucket(op, target)
        self._log.append(Inserted(before, before._prev, graph._len))
        return insert(graph, before, fresh, op, target, args, dict(kwargs or {}))

    def erase(self, nodes: Sequence[Node]) -> None:
        """Take nodes without users out of the graph, in the order given."""
        for node in nodes:  # all of them first: what one reads of another is written down with it
            self._touch(node)
        for node in nodes:
            self._touch_users(node._input_nodes)
            self._touch_bucket(node.op, node.target)
            self._log.append(Erased(node, node._next, self.graph._len))
            self.graph.erase_node(node)

    def move(self, node: Node, before: Node) -> None:
        """Move a node to just before another."""
        self._touch(node)
        self._log.append(Erased(node, node._next, self.graph._len))
        before.prepend(node)

    def set_args(self, node: Node, args: tuple[Any, ...], kwargs: Mapping[str, Any] | None = None) -> None:
        """Give a node other arguments."""
        self._touch(node)
        self._touch_users((*node._input_nodes, *nodes_in((args, kwargs))))
        node._update_args_kwargs(args, dict(kwargs or {}))

    def replace_uses(
        self, old: Node, new: Node, *, except_for: Collection[Node] = (), only: Collection[Node] | None = None
    ) -> None:
        """Let the users of ``old`` read ``new``, wherever the use stands (lists, dicts, slices too)."""
        users = [user for user in old.users if user not in except_for and (only is None or user in only)]
        self._touch_users((new,))
        for user in users:
            self._touch(user)
            self._touch_users(user._input_nodes)
            user.replace_input_with(old, new)

    def set_meta(self, node: Node, entries: Mapping[str, object]) -> None:
        """Set some entries of a node's meta."""
        if node not in self._described:
            self._log.append(Described(node, node.meta.copy()))
            self._described.add(node)
        node.meta.update(entries)

    def take_name(self, new: Node, old: Node) -> None:
        """Give ``new`` the name of ``old``, which gets a fresh one if it is still in the graph."""
        name = old.name
        if not old._erased:
            self._rename(old, self._reserve(name))
        self._rename(new, name)

    def touch_module(self, module: nn.Module) -> None:
        """Write down a module's attribute tables; its owner may then add to them."""
        if module in self._touched:
            return
        tables = ("_parameters", "_buffers", "_modules", "_non_persistent_buffers_set")
        self._log.append(Module(module, tuple((table, getattr(module, table).copy()) for table in tables)))
        self._touched.add(module)

    def list_constant(self, constant: NewConstant) -> None:
        """Write down a constant that the program gains at commit."""
        self._log.append(Listed(self.constants, len(self.constants)))
        self.constants.append(constant)

    def share(self, key: Hashable, constant: str | Node) -> None:
        """Remember a constant, as an attribute's name or a program's placeholder, for other sites with the same key."""
        if key not in self.shared:
            self._log.append(Shared(self.shared, key))
            self.shared[key] = constant

    # -------------------------------------------------------------- recording
    def _touch(self, node: Node) -> None:
        if node in self._touched:
            return
        cells = (node._args, node._kwargs, node.name, node.type, node._sort_key, node._erased)
        self._log.append(Touched(node, cells, tuple(node._input_nodes), tuple(node.users)))
        self._touched.add(node)
        self._read.add(node)

    def _touch_users(self, nodes: Iterable[Node]) -> None:
        read = self._read
        for node in nodes:
            if node not in read:
                self._log.append(Read(node, tuple(node.users)))
                read.add(node)

    def _touch_bucket(self, op: str, target: Any) -> None:
        quick = id(target) if op == "call_function" else op  # overloads of torch compute their hash in Python
        if quick in self._known_buckets:
            return
        key = (op, target if op == "call_function" else None)
        if key not in self._buckets:
            table = self.graph._find_nodes_lookup_table.table
            self._buckets[key] = tuple(table[key]) if key in table else None
        self._known_buckets.add(quick)

    def _reserve(self, candidate: str) -> str:
        """The name that the graph is going to give to ``candidate``, written down beforehand."""
        names = self.graph._graph_namespace
        name = _legal(candidate)
        base = _base(name)
        if name in names._used_names:
            number = names._base_count.get(base, 0) + 1
            while (name := f"{base}_{number}") in names._used_names:
                number += 1
        self._log.append(Named(name, base, names._base_count.get(base), len(names._obj_to_name)))
        return name

    def _rename(self, node: Node, name: str) -> None:
        names = self.graph._graph_namespace
        self._touch(node)
        self._touch_bucket(node.op, node.target)
        taken = None if name in names._used_names else name
        self._log.append(Renamed(node, names._obj_to_name.get(node), taken))
        node.name = name
        names._rename_object(node, name)


@lru_cache(maxsize=4096)
def _legal(candidate: str) -> str:
    """The spelling that a namespace gives to a name: no keyword, no builtin, nothing but letters and digits."""
    return _Namespace().create_name(candidate, None)


@lru_cache(maxsize=4096)
def _base(name: str) -> str:
    found = _NUMBERED.match(name)
    return found[1] if found else name
