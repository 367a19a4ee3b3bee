"""Creating the nodes of a replacement, each op spelled at the level of the site."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from attrs import define, field
from torch import Tensor
from torch.fx import Node

from .candidates import Match, Mismatch, MismatchKind
from .families import REQUIRED, Family
from .journal import Journal
from .kinds import ModuleAttr, Submodule
from .metadata import Impossible, Propagation
from .nodeview import View, Views
from .owners import add_constant, add_module, read_constant
from .plans import defaults_of
from .provenance import constant_key, merged_meta
from .sizes import find_size, parts_of
from .spellings import emit, emit_module, read_param
from .truth import SYMBOLIC
from .walks import nodes_in


class Refusal(Exception):
    """A replacement that cannot be built; carries the reason."""

    def __init__(self, mismatch: Mismatch) -> None:
        self.mismatch = mismatch
        super().__init__(mismatch.reason)


@define(eq=False)
class Emitter:
    """Creates nodes for one match, before the node ``before``, with metadata and provenance.

    ``made`` are the nodes created so far, in order. Its methods raise Refusal.
    """

    match: Match
    views: Views
    journal: Journal
    propagation: Propagation
    level: str
    before: Node
    made: list[Node] = field(factory=list, init=False)
    _meta: Mapping[str, object] | None = field(default=None, init=False)
    _read: dict[object, Node] = field(factory=dict, init=False)

    # ----------------------------------------------------------------------- ops
    def op(self, name: str, *args: Any, **kwargs: Any) -> Node:
        """An op of a family; arguments that are left out are at their defaults."""
        return self.call(self.match.rule.scope.table.families[name], args, kwargs)

    def call(self, family: Family, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Node:
        """An op with arguments by the family's signature."""
        if len(args) > len(family.params):
            raise self.refusal("form", f"`{family.name}` takes at most {len(family.params)} arguments")
        values = list(defaults_of(family))
        given = dict(zip((param.name for param in family.params), args, strict=False))
        for name, value in {**given, **kwargs}.items():
            if name not in family.index:
                raise self.refusal("form", f"`{family.name}` takes no `{name}`")
            at = family.index[name]
            values[at] = read_param(family.params[at], self.argument(value))
        for param, value in zip(family.params, values, strict=True):
            if value is REQUIRED:
                raise self.refusal("form", f"`{family.name}` needs `{param.name}`")
        return self._spell(family, tuple(values))

    def _spell(self, family: Family, args: tuple[Any, ...]) -> Node:
        effect = View(self.match.root, family, None, args).effect
        if effect == "mutates":
            raise self.refusal("effect", f"`{family.name}` writes to its input: a replacement may not")
        if effect == "random" and self.level == "torch":
            return self._module(family, args)
        nodes = nodes_in(args)
        # arithmetic on sizes: an operator; what makes a tensor of sizes (`full`) has no such form
        numbers = (
            bool(nodes) and not any(map(self.is_tensor, nodes)) and any(form.level == "any" for form in family.forms)
        )
        call = emit(self.match.rule.scope.table, family, args, self.level, numbers=numbers)
        if call is None:
            raise self.refusal("form", f"`{family.name}` has no form at level {self.level} for these arguments")
        target, own, kwargs = call
        return self.create("call_method" if isinstance(target, str) else "call_function", target, own, kwargs)

    def _module(self, family: Family, args: tuple[Any, ...]) -> Node:
        """A random op at level torch: a fresh module, so that ``train`` and ``eval`` reach it."""
        found = emit_module(family, args)
        name = None
        if found is not None:
            name = add_module(self.journal, found[0](**found[1]), family.name)
        if found is None or name is None:
            raise self.refusal("form", f"`{family.name}` follows train and eval, and no module can hold it here")
        self.views.forget(())
        return self.create("call_module", name, found[2], {})

    def item(self, value: Any, index: Any) -> Node:
        """``value[index]`` by ``operator.getitem``."""
        return self.create("call_function", operator.getitem, (self.argument(value), self.argument(index)), {})

    def create(
        self,
        op: str,
        target: Any,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        facts: Mapping[str, Any] | None = None,
    ) -> Node:
        """A new node, whatever it calls; ``facts`` are its metadata, if they are known."""
        name = target._schema.name.partition("::")[2] if isinstance(target, torch._ops.OpOverload) else None
        node = self.journal.create(op, target, args, kwargs, before=self.before, name=name)
        self._describe(node, facts)
        return node

    def _describe(self, node: Node, facts: Mapping[str, Any] | None = None) -> None:
        self.made.append(node)
        try:
            entries = self.propagation.entries(node) if facts is None else facts
        except Impossible as impossible:
            raise self.refusal("interface", f"the replacement does not fit: {impossible}") from impossible
        if self._meta is None:  # many rules create no node
            self._meta = merged_meta(self.match)
        self.journal.set_meta(node, {**self._meta, **entries})

    # ----------------------------------------------------------------- arguments
    def argument(self, value: Any) -> Any:
        """A value as an argument of a node: module attributes and symbolic sizes become nodes that read them."""
        match value:
            case ModuleAttr(path):
                return self._attribute(path)
            case Submodule(path):
                raise self.refusal("form", f"the module `{path}` is no value of the graph: call it")
            case tuple() | list():
                return tuple(map(self.argument, value))
            case slice(start=start, stop=stop, step=step):
                return slice(self.argument(start), self.argument(stop), self.argument(step))
        return self._size(value) if isinstance(value, SYMBOLIC) else value

    def constant(self, name: str, value: Tensor) -> Node:
        """A node that reads what the rule's ``let`` computed under this name."""
        key = constant_key(self.match, name)
        if key in self._read:
            return self._read[key]
        if key in self.journal.shared:
            known = self.journal.shared[key]
            self._read[key] = known if isinstance(known, Node) else self._attribute(known)
            return self._read[key]
        node = add_constant(self.journal, value, f"{self.match.root.name}_{name}", self.before)
        if node is None:
            raise self.refusal("freeze", "this graph has no module that could keep a new constant")
        self._read[key] = node
        if node.op == "placeholder":
            self.journal.share(key, node)
            self.journal.set_meta(node, self.propagation.of_tensor(value))
        else:
            self.journal.share(key, str(node.target))
            self._describe(node)
        return node

    def _attribute(self, path: str) -> Node:
        if path not in self._read:
            self._read[path] = read_constant(self.journal, path, self.before)
            self._describe(self._read[path])
        return self._read[path]

    def _size(self, size: Any) -> Any:
        found = find_size(size, self.match, self.before, self.views)
        parts = parts_of(size) if found is None and isinstance(size, torch.SymInt) else None
        if parts is not None:
            return self.op(parts[0], *parts[1])
        if found is None:
            raise self.refusal("shape", f"the size {size} is not at hand where the replacement stands")
        if not isinstance(found, tuple):
            return found
        key = ("size", str(size.node.expr))
        if key not in self._read:
            self._read[key] = self.create("call_function", torch.ops.aten.sym_size.int, found, {})
        return self._read[key]

    def is_tensor(self, value: Any) -> bool:
        """Whether a value is a tensor of the graph, or a list of them, and not a number."""
        if isinstance(value, ModuleAttr):
            return True
        if not isinstance(value, Node):
            return False
        fact = self.views.fact(value)
        if fact is None:
            view = self.views.own(value)
            return view is None or view.family.result != "other"
        return isinstance(fact, Tensor | tuple | list)

    def refusal(self, kind: MismatchKind, reason: str) -> Refusal:
        """The exception that says why this match is not rewritten."""
        return Refusal(Mismatch(kind, reason, self.match.root))
