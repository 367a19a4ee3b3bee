"""The canonical view of a node: which op it is and its arguments, the same for every spelling of the op."""

from __future__ import annotations

import operator
from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache
from typing import Any, TypeAlias

import torch
from attrs import define, field, frozen
from torch.fx import Graph, Node

from .callables import exact_arguments, resolve
from .equivalents import TRANSPOSING, equivalents_of, relatives_of
from .families import Family, FamilyTable, Form, load_table
from .kinds import ModuleAttr, Value, plain_value
from .observers import is_observer
from .plans import Plan, bind, defaults_of, normalise, normalise_dim, plan_of, suits
from .sketches import Memory, Sketch, Sketches, drop
from .submodules import ModuleCall, called, is_quiet
from .targets import is_plain, name_of
from .tensors import Tensors
from .values import same_number, same_value

__all__ = ["ModuleAttr", "Value", "View", "Views", "level_of", "normalise_dim", "same_number", "same_value"]

_Spelling: TypeAlias = tuple[Family, Form, Plan]


@frozen(eq=False)
class View:
    """A node as a call of a family. ``args`` has one value per parameter of the family.

    Defaults are filled in, lists are tuples, dims are not negative where ``rank`` (of the
    tensor that they refer to) is known. ``form`` is None where the view is derived: a
    ``transpose`` seen as ``mT``.
    """

    node: Node
    family: Family
    form: Form | None
    args: tuple[Value, ...]
    rank: int | None = None

    @property
    def has_others(self) -> bool:
        """Whether this family may be seen in a node in more ways than one."""
        return self.family.name in TRANSPOSING

    @property
    def effect(self) -> str:
        """``"pure"``, ``"random"`` or ``"mutates"``, with these arguments."""
        family = self.family
        if family.effect == "pure":
            return "pure"
        for alternative in family.pure_when:
            if all(same_value(self.args[family.index[name]], value) for name, value in alternative):
                return "pure"
        return family.effect


def level_of(node: Node) -> str:
    """``"aten"`` if the node calls an ATen overload, else ``"torch"``."""
    return "aten" if isinstance(node.target, torch._ops.OpOverload) else "torch"


@define(eq=False)
class Views:
    """The views of one graph's nodes, computed when asked for and kept until `forget`.

    ``owner`` is the module that holds the graph's attributes and submodules; ``lifted``
    has the values of placeholders that stand for parameters, buffers and constants. ``memory``
    keeps what was worked out once for all that is alike; a copy of the graph may go on with it.
    ``classes`` of modules are known to rules by name: a call of one computes a value and no more.
    """

    graph: Graph
    owner: torch.nn.Module | None = None
    table: FamilyTable = field(factory=load_table)
    lifted: Mapping[str, torch.Tensor] = field(factory=dict)
    memory: Memory = field(factory=Memory, repr=False)
    classes: frozenset[str] = frozenset()
    _tensors: Tensors = field(init=False, repr=False)
    _sketches: Sketches = field(init=False, repr=False)
    _spellings: dict[Any, tuple[_Spelling, ...]] = field(factory=dict, init=False, repr=False)
    _names: dict[Any, frozenset[str]] = field(factory=lambda: {None: frozenset()}, init=False, repr=False)
    _names_of: dict[int, tuple[Any, frozenset[str]]] = field(factory=dict, init=False, repr=False)
    _own: dict[Node, View | None] = field(factory=dict, init=False, repr=False)
    _all: dict[Node, tuple[View, ...]] = field(factory=dict, init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        self._tensors = Tensors(self.graph, self.owner, self.lifted)
        self._sketches = Sketches(self._tensors.fact, self.memory)

    # ------------------------------------------------------------ views
    def views(self, node: Node) -> tuple[View, ...]:
        """Every view of a node, its own spelling first; empty for what no family describes."""
        found = self._all.get(node)
        if found is None:
            own = self.own(node)
            found = self._all[node] = () if own is None else (own, *self._others(own))
        return found

    def own(self, node: Node) -> View | None:
        """The view of a node as it is spelled."""
        try:
            return self._own[node]
        except KeyError:
            found = self._own[node] = self._look(node)
            return found

    def family_names(self, node: Node) -> frozenset[str]:
        """The families that a node may have a view of, by what it calls alone; quicker than its views."""
        target = node.target
        known = self._names_of.get(id(target))
        if known is not None and node.op == "call_function":
            return known[1]
        key = self._called(node)[0]
        names = self._names.get(key)
        if names is None:
            spellings = self._spellings[key] if key in self._spellings else self._find_spellings(key)
            names = frozenset(name for family, _, _ in spellings for name in relatives_of(family.name))
            self._names[key] = names
        if node.op == "call_function" and target is not getattr:
            # with the target: as long as it lives its id is its own
            self._names_of[id(target)] = (target, names)
        return names

    def view_as(self, node: Node, family: str) -> View | None:
        """The first view of a node as this family."""
        own = self.own(node)
        if own is None or own.family.name == family:
            return own
        return next((view for view in self.views(node) if view.family.name == family), None)

    def views_as(self, node: Node, family: str) -> tuple[View, ...]:
        """All views of a node as this family: a swap of two dims is a ``transpose`` in two ways."""
        if family not in self.family_names(node):
            return ()
        own = self.own(node)
        if own is None or (own.family.name == family and not own.has_others):
            return () if own is None else (own,)
        return tuple([view for view in self.views(node) if view.family.name == family])

    def _look(self, node: Node) -> View | None:
        spellings = self._spellings.get(node.target) if node.op == "call_function" else None
        if spellings is None or len(spellings) != 1:
            return next(self._spelled(node), None)
        family, form, plan = spellings[0]  # most nodes of an exported graph
        values = bind(plan, node.args, node.kwargs)
        return None if values is None else self._view(node, family, form, values)

    def _spelled(self, node: Node) -> Iterator[View]:
        """The view as each family that the node's target spells."""
        key, args, module = self._called(node)
        spellings = self._spellings.get(key) if key is not None else ()
        if spellings is None:
            spellings = self._find_spellings(key)
        kwargs = node.kwargs
        if len(spellings) == 1:
            family, form, plan = spellings[0]
            values = bind(plan, args, kwargs, module)
            if values is not None:
                yield self._view(node, family, form, values)
            return
        seen: set[str] = set()
        for strict in (True, False) if spellings else ():
            for family, form, plan in spellings:
                if family.name not in seen and suits(plan, args, kwargs, strict):
                    values = bind(plan, args, kwargs, module)
                    if values is not None:
                        seen.add(family.name)
                        yield self._view(node, family, form, values)

    def _called(self, node: Node) -> tuple[Any, tuple[Any, ...], tuple[str, torch.nn.Module] | None]:
        """What the node calls (a key of the spellings, None if opaque), its arguments, and the called module."""
        if node.op == "call_function":
            if node.target is getattr:
                return f"getattr.{node.args[1]}", node.args[:1], None
            return node.target, node.args, None
        if node.op == "call_method":
            return f"Tensor.{node.target}", node.args, None
        if node.op == "call_module":
            path = str(node.target)
            module = self.module(path)
            if module is not None and is_plain(module):
                return type(module), node.args, (path, module)
        return None, (), None

    def _find_spellings(self, key: Any) -> tuple[_Spelling, ...]:
        lasting = isinstance(key, str | torch._ops.OpOverload)  # any other may hold a model
        found = self._spellings[key] = (_spellings_of if lasting else _spellings_of.__wrapped__)(key, self.table)
        return found

    def _view(self, node: Node, family: Family, form: Form | None, args: tuple[Any, ...]) -> View:
        rank = None
        if family.dims:
            rank = self._tensors.rank(args[0])
            if rank is not None:
                for at, extra in family.dims:
                    value = normalise_dim(args[at], rank + extra)
                    if value is not args[at]:
                        args = (*args[:at], value, *args[at + 1 :])
        return View(node, family, form, args, rank)

    def _others(self, own: View) -> Iterator[View]:
        """The views of a node besides its own: other families that its target spells, then equivalents."""
        if own.form is not None and len(self.table.names_by_target.get(own.form.target, ())) > 1:
            yield from (view for view in self._spelled(own.node) if view.family.name != own.family.name)
        rank = own.rank
        if rank is None and own.family.name in ("mT", "T", "t"):
            rank = self._tensors.rank(own.args[0])
        seen: list[tuple[str, tuple[Any, ...]]] = [(own.family.name, own.args)]
        for name, args in equivalents_of(own.family.name, own.args, rank):
            if (name, args) not in seen and name in self.table.families:
                seen.append((name, args))
                yield self._view(own.node, self.table.families[name], None, args)

    # ----------------------------------------------------------- literals
    def normalise_literal(self, view: View, index: int, value: Any) -> Any:
        """A literal of a pattern for a parameter, written as the view writes it.

        ``-1`` becomes the dim that it is, ``2`` becomes ``(2, 2)`` for a stride of two.
        """
        return normalise(view.family, index, value, view.rank, view.args)

    def is_default(self, view: View, index: int) -> bool:
        """Whether an argument is the default of its parameter."""
        default = defaults_of(view.family)[index]
        if default is view.args[index] and (default is None or default is False):
            return True  # most are
        return same_value(view.args[index], normalise(view.family, index, default, view.rank, view.args))

    # ------------------------------------------------------- items, exact
    def item(self, node: Node) -> tuple[Value, Value] | None:
        """What ``operator.getitem`` reads, and at which index; None if the node is none."""
        if node.target is not operator.getitem:
            return None
        return plain_value(node.args[0]), plain_value(node.args[1])

    def exact(self, node: Node, target: str) -> tuple[Value, ...] | None:
        """The arguments of a node by the schema of ``target``, defaults filled in; None if it is another target."""
        found = self.exact_arguments(node, target)
        return None if found is None else tuple(value for _, value, _ in found)

    def exact_arguments(self, node: Node, target: str) -> tuple[tuple[str, Value, Any], ...] | None:
        """Name, value and default of each argument by the schema of ``target``; None if the node is another target."""
        if node.op != "call_function":
            return None
        wanted = resolve(target)
        if wanted is None or node.target not in (wanted, getattr(wanted, "default", None)):
            return None
        return exact_arguments(node)

    def module_call(self, node: Node, wanted: str | None) -> ModuleCall | None:
        """The node as a call of a module of this very class (None: of any); None if it is no such call."""
        return called(node, self.module(str(node.target)), wanted) if node.op == "call_module" else None

    # -------------------------------------------------------------- facts
    def fact(self, value: Any) -> Any:
        """The tensor (fake or real), number or tuple that carries the facts of a value; None if unknown."""
        return self._tensors.fact(value)

    def fact_key(self, node: Node) -> object:
        """What stands for all facts of a node's value; `UNKNOWN` where that is no tensor, or tuple of them."""
        return self._sketches.fact_key(node)

    def sketch(self, node: Node) -> Sketch | None:
        """All that can be told of a node by itself; None if that cannot be written down."""
        return self._sketches.of(node)

    def constant(self, value: Any) -> torch.Tensor | None:
        """The tensor that a value is known to be at rewrite time; None if the program may change it."""
        return self._tensors.constant(value, self.effect)

    def module(self, path: str) -> torch.nn.Module | None:
        """The submodule at a path; None if there is none or no owner."""
        return self._tensors.module(path)

    # ---------------------------------------------------- users and effects
    def users(self, node: Node) -> tuple[Node, ...]:
        """The readers of a node that are not observers."""
        return tuple(user for user in node.users if not is_observer(user))

    def observers(self, node: Node) -> tuple[Node, ...]:
        """The readers of a node that only check it."""
        return tuple(user for user in node.users if is_observer(user))

    def effect(self, node: Node) -> str:
        """``"pure"``, ``"random"``, ``"mutates"`` or ``"opaque"``: what is known by family or schema alone."""
        view = self.own(node)
        if view is not None:
            return view.effect
        if node.op in ("placeholder", "get_attr", "output") or is_observer(node):
            return "pure"
        if not isinstance(node.target, torch._ops.OpOverload):
            quiet = node.op == "call_module" and is_quiet(self.module(str(node.target)), self.classes)
            return "pure" if quiet else "opaque"
        if node.target._schema.is_mutable:
            return "mutates"
        return "random" if torch.Tag.nondeterministic_seeded in node.target.tags else "pure"

    def forget(self, nodes: Collection[Node]) -> None:
        """Drop what is known of changed nodes and of their users."""
        self._tensors.forget()
        stale = set(nodes).union(*[node.users for node in nodes])
        drop(self._own, stale)
        drop(self._all, stale)
        self._sketches.forget(stale)


@lru_cache(maxsize=4096)
def _spellings_of(key: Any, table: FamilyTable) -> tuple[_Spelling, ...]:
    """The families that what is called may be, in the order they are tried."""
    name = key if isinstance(key, str) else name_of(key, table)
    found = table.spellings(name) if name else ()
    if name and not found:
        found = table.spellings(name.removesuffix(".default"))
    return tuple((family, form, plan_of(family, form)) for family, form in found)
