"""The canonical view of a node: which op it is and its arguments, the same for every spelling of the op."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from attrs import define, evolve, field, frozen
from torch.fx import Graph, Node

from .equivalents import equivalents_of
from .families import Family, FamilyTable, Form, Param, load_table
from .kinds import ModuleAttr, Value, plain_value
from .observers import is_observer
from .spellings import bind, default_of, plan_of, read_param, resolve, suits
from .targets import Targets, own_parameters
from .values import same_number, same_value

__all__ = ["ModuleAttr", "Value", "View", "Views", "level_of", "normalise_dim", "same_number", "same_value"]


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


def normalise_dim(value: Any, rank: int | None) -> Any:
    """A dim, or a tuple of dims, counted from the front; as it is where the rank is unknown.

    >>> normalise_dim((-1, 0), 3)
    (2, 0)
    """
    if rank is None:
        return value
    if isinstance(value, tuple):
        return tuple(normalise_dim(one, rank) for one in value)
    if type(value) is int and -rank <= value < 0:
        return value + rank
    return value


@define(eq=False)
class Views:
    """The views of one graph's nodes, computed when asked for and kept until `forget`.

    ``owner`` is the module that holds the graph's attributes and submodules; ``lifted``
    has the values of placeholders that stand for parameters, buffers and constants.
    """

    graph: Graph
    owner: torch.nn.Module | None = None
    table: FamilyTable = field(factory=load_table)
    lifted: Mapping[str, torch.Tensor] = field(factory=dict)
    _targets: Targets = field(init=False, repr=False)
    _spellings: dict[Any, tuple[tuple[Family, Form], ...]] = field(factory=dict, init=False, repr=False)
    _own: dict[Node, View | None] = field(factory=dict, init=False, repr=False)
    _all: dict[Node, tuple[View, ...]] = field(factory=dict, init=False, repr=False)
    _modules: dict[str, torch.nn.Module | None] = field(factory=dict, init=False, repr=False)
    _written: frozenset[str] | None = field(default=None, init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        self._targets = Targets(self.table)

    # ------------------------------------------------------------ views
    def views(self, node: Node) -> tuple[View, ...]:
        """Every view of a node, its own spelling first; empty for what no family describes."""
        found = self._all.get(node)
        if found is None:
            own = self.own(node)
            found = () if own is None else (own, *self._derived(own))
            self._all[node] = found
        return found

    def own(self, node: Node) -> View | None:
        """The view of a node as it is spelled."""
        if node not in self._own:
            self._own[node] = self._look(node)
        return self._own[node]

    def view_as(self, node: Node, family: str) -> View | None:
        """The first view of a node as this family."""
        own = self.own(node)
        if own is None or own.family.name == family:
            return own
        return next((view for view in self.views(node) if view.family.name == family), None)

    def views_as(self, node: Node, family: str) -> tuple[View, ...]:
        """All views of a node as this family: a swap of two dims is a ``transpose`` in two ways."""
        return tuple(view for view in self.views(node) if view.family.name == family)

    def _look(self, node: Node) -> View | None:
        module = None
        if node.op == "call_function":
            key: Any = node.target if node.target is not getattr else self._targets.of_function(node)
        elif node.op == "call_method":
            key = f"Tensor.{node.target}"
        elif node.op == "call_module":
            owner = self.module(str(node.target))
            if owner is None:
                return None
            key, module = type(owner), (str(node.target), owner)
            if self._targets.of_module(owner) is None:
                return None
        else:
            return None
        spellings = self._spellings.get(key)
        if spellings is None:
            spellings = self._spellings[key] = self._find_spellings(node, key)
        if not spellings:
            return None
        args = node.args[:1] if node.target is getattr else node.args
        return self._bind(node, spellings, args, module)

    def _find_spellings(self, node: Node, key: Any) -> tuple[tuple[Family, Form], ...]:
        if isinstance(key, type):
            name = self._targets.of_module(self.module(str(node.target)))  # type: ignore[arg-type]
        else:
            name = key if isinstance(key, str) else self._targets.of_function(node)
        return self.table.spellings(name) if name else ()

    def _bind(
        self,
        node: Node,
        spellings: tuple[tuple[Family, Form], ...],
        args: tuple[Any, ...],
        module: tuple[str, torch.nn.Module] | None,
    ) -> View | None:
        kwargs = node.kwargs
        if len(spellings) == 1:
            family, form = spellings[0]
            found = bind(family, form, args, kwargs, module)
            return None if found is None else self._view(node, family, form, found)
        for strict in (True, False):
            for family, form in spellings:
                if suits(family, form, args, kwargs, strict):
                    found = bind(family, form, args, kwargs, module)
                    if found is not None:
                        return self._view(node, family, form, found)
        return None

    def _view(self, node: Node, family: Family, form: Form | None, args: tuple[Any, ...]) -> View:
        rank = None
        if family.dims:
            rank = self._rank(args[0])
            if rank is not None:
                values = list(args)
                for at, extra in family.dims:
                    values[at] = normalise_dim(values[at], rank + extra)
                args = tuple(values)
        return View(node, family, form, args, rank)

    def _derived(self, own: View) -> Iterable[View]:
        rank = own.rank
        if rank is None and own.family.name in ("mT", "T", "t"):
            rank = self._rank(own.args[0])
        seen: list[tuple[str, tuple[Any, ...]]] = [(own.family.name, own.args)]
        for name, args in equivalents_of(own.family.name, own.args, rank):
            if (name, args) not in seen:
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
        default = default_of(view.family.params[index])
        return same_value(view.args[index], normalise(view.family, index, default, view.rank, view.args))

    # -------------------------------------------------------------- exact
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

    # -------------------------------------------------------------- facts
    def fact(self, value: Any) -> Any:
        """The tensor (fake or real), number or tuple that carries the facts of a value; None if unknown."""
        if isinstance(value, ModuleAttr):
            return self._attribute(value.path)
        if not isinstance(value, Node):
            return value if isinstance(value, torch.Tensor) else None
        meta = value.meta
        found = meta.get("val")
        if found is None:
            found = meta.get("example_value")
        if found is None and value.op == "get_attr":
            found = self._attribute(str(value.target))
        if found is None and value.op == "placeholder":
            found = self.lifted.get(value.name)
        if found is None and "tensor_meta" in meta:
            found = _from_tensor_meta(meta["tensor_meta"])
        return found

    def constant(self, value: Any) -> torch.Tensor | None:
        """The tensor that a value is known to be at rewrite time; None if the program may change it."""
        if isinstance(value, torch.Tensor):
            return value
        if isinstance(value, ModuleAttr):
            path, found = value.path, self._attribute(value.path)
        elif isinstance(value, Node) and value.op == "get_attr":
            path, found = str(value.target), self._attribute(str(value.target))
        elif isinstance(value, Node) and value.op == "placeholder":
            path, found = value.name, self.lifted.get(value.name)
        else:
            return None
        if not isinstance(found, torch.Tensor) or path in self._paths_written():
            return None
        return found

    def module(self, path: str) -> torch.nn.Module | None:
        """The submodule at a path; None if there is none or no owner."""
        if path not in self._modules:
            found: Any = self.owner
            for name in path.split("."):
                found = getattr(found, name, None)
            self._modules[path] = found if isinstance(found, torch.nn.Module) else None
        return self._modules[path]

    def _attribute(self, path: str) -> Any:
        found: Any = self.owner
        for name in path.split("."):
            found = getattr(found, name, None)
        return found

    def _rank(self, value: Any) -> int | None:
        if isinstance(value, tuple):
            ranks = {self._rank(one) for one in value}
            return ranks.pop() if len(ranks) == 1 else None
        fact = self.fact(value)
        return fact.dim() if isinstance(fact, torch.Tensor) else None

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
            return "opaque"
        if node.target._schema.is_mutable:
            return "mutates"
        return "random" if torch.Tag.nondeterministic_seeded in node.target.tags else "pure"

    def _paths_written(self) -> frozenset[str]:
        if self._written is None:
            self._written = frozenset(
                path
                for node in self.graph.nodes
                if self.effect(node) in ("mutates", "opaque")
                for path in self._roots(node)
            )
        return self._written

    def _roots(self, node: Node) -> Iterable[str]:
        """Attributes and placeholders that a write may reach: up the first arguments, which views alias."""
        pending, seen = list(node.all_input_nodes), set(node.all_input_nodes)
        if node.op == "call_module":
            module = self.module(str(node.target))
            names = [name for name, _ in module.named_buffers()] if module is not None else []
            yield from (f"{node.target}.{name}" for name in names)
        while pending:
            one = pending.pop()
            if one.op == "get_attr":
                yield str(one.target)
            elif one.op == "placeholder":
                yield one.name
            elif one.args and isinstance(one.args[0], Node) and one.args[0] not in seen:
                seen.add(one.args[0])
                pending.append(one.args[0])

    def forget(self, nodes: Iterable[Node]) -> None:
        """Drop what is known of changed nodes and of their users."""
        self._written = None
        self._modules.clear()
        for node in nodes:
            for one in (node, *node.users):
                self._own.pop(one, None)
                self._all.pop(one, None)


def normalise(family: Family, index: int, value: Any, rank: int | None, args: tuple[Any, ...]) -> Any:
    """A value for a parameter, written as the views of the family write it."""
    param = family.params[index]
    value = read_param(param, value)
    if param.is_dim and rank is not None:
        return normalise_dim(value, rank + param.extra_dims)
    for at, other in family.same_as:
        if at == index and (value == () or same_value(value, args[other])):
            return None
    return value


def exact_arguments(node: Node) -> tuple[tuple[str, Value, Any], ...] | None:
    """Name, value and default of each argument by the target's own schema or signature."""
    parameters = own_parameters(node.target)
    if parameters is None:
        return None
    values = dict(zip((name for name, _ in parameters), node.args, strict=False))
    values.update(node.kwargs)
    if len(node.args) > len(parameters) or not values.keys() <= {name for name, _ in parameters}:
        return None
    return tuple((name, plain_value(values.get(name, default)), default) for name, default in parameters)


def _from_tensor_meta(meta: Any) -> torch.Tensor | None:
    """A tensor without data that has the shape and strides of a ShapeProp record; its device is unknown."""
    if not hasattr(meta, "shape"):
        return None
    return torch.empty_strided(tuple(meta.shape), tuple(meta.stride), dtype=meta.dtype, device="meta")
