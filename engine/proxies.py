"""What a helper of ``rewrite via`` works on: proxies of the site's values, whose calls become nodes at once."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from types import EllipsisType, NoneType
from typing import Any, NoReturn

import torch
from torch import Tensor
from torch.fx import Graph, Node, Proxy
from torch.fx.node import map_aggregate
from torch.fx.proxy import GraphAppendingTracer
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from ..dsl import ast
from .candidates import MismatchKind
from .emission import Emitter, Refusal
from .facts import EXAMPLE_INPUTS
from .helping import SizeGuard
from .indexing import steps_of
from .kinds import ModuleAttr
from .nodeview import Views
from .schemas import overloads_of
from .targets import name_of
from .truth import SYMBOLIC, Unknown

# Facts of a tensor, which are Python values and no nodes.
_FACTS = frozenset({
    "shape", "dtype", "device", "ndim", "layout", "requires_grad", "itemsize", "nbytes", "is_cuda", "is_cpu", "is_meta",
    "is_sparse", "is_quantized", "is_nested",
})  # fmt: skip
_FACT_METHODS = frozenset({
    "size", "dim", "ndimension", "numel", "nelement", "stride", "storage_offset", "element_size", "get_device",
    "is_contiguous", "is_floating_point", "is_complex", "is_signed", "is_conj", "is_neg",
})  # fmt: skip
_FACT_FUNCTIONS = {
    torch.numel: "numel", torch.is_floating_point: "is_floating_point", torch.is_complex: "is_complex",
    torch.is_signed: "is_signed", torch.is_conj: "is_conj", torch.is_neg: "is_neg",
}  # fmt: skip
_READ_METHODS = frozenset({"item", "tolist", "numpy", "__bool__", "data_ptr", "is_nonzero", "equal", "allclose"})
_PLAIN = (
    int, float, complex, str, torch.dtype, torch.device, torch.layout, torch.memory_format, EllipsisType, NoneType,
)  # fmt: skip


class ValueProxy(Proxy):
    """A value of the graph in the hands of a helper: its facts are known, its elements are not."""

    tracer: Recorder

    def __getattr__(self, name: str) -> Any:
        if name in _FACTS or name in _FACT_METHODS:
            return getattr(self.tracer.fact(self.node, name), name)
        if name == "data":  # no gradient goes through it
            return self.tracer.create_proxy("call_method", "detach", (self,), {})
        if f"getattr.{name}" in self.tracer.views.table.names_by_target:
            return self.tracer.create_proxy("call_function", getattr, (self, name), {})
        return super().__getattr__(name)

    def __len__(self) -> int:
        fact = self.tracer.fact(self.node, "len")
        return len(fact)

    def __iter__(self) -> Iterator[Any]:
        items = range(len(self))
        return iter([self.tracer.create_proxy("call_function", operator.getitem, (self, at), {}) for at in items])

    def __setitem__(self, key: object, value: object) -> NoReturn:
        self.tracer.refuse("effect", f"writes to a part of `{self.node.name}`: a replacement may not")

    def __contains__(self, value: object) -> NoReturn:
        self.tracer.refuse_reading(self.node, "`in`")

    def __int__(self) -> NoReturn:
        self.tracer.refuse_reading(self.node, "`int`")

    def __float__(self) -> NoReturn:
        self.tracer.refuse_reading(self.node, "`float`")

    def __complex__(self) -> NoReturn:
        self.tracer.refuse_reading(self.node, "`complex`")

    def __index__(self) -> NoReturn:
        self.tracer.refuse_reading(self.node, "an index or a range")


class Recorder(GraphAppendingTracer):
    """Turns what is done with its proxies into nodes of a replacement, call by call, by an `Emitter`.

    Each call is a node of a scratch graph first, so that it can be looked at as a call of
    a family; ``real`` has what its nodes stand for. The first refusal is kept, in case
    the helper swallows it.
    """

    def __init__(self, helper: str, emitter: Emitter, guard: SizeGuard) -> None:
        super().__init__(Graph())
        self.helper, self.emitter, self.guard = helper, emitter, guard
        self.views = Views(self.graph, None, emitter.views.table)
        self.real: dict[Node, Any] = {}
        self.refusal: Refusal | None = None
        self.busy = False

    # ----------------------------------------------------------------- proxies
    def proxy_of(self, value: Any, name: str) -> ValueProxy:
        """A proxy for a value of the graph: a node, or a tensor of a module."""
        return self._stand_in(self.graph.placeholder(name), value)

    def _stand_in(self, node: Node, value: Any) -> ValueProxy:
        self.real[node] = value
        fact = self.emitter.views.fact(value)
        if fact is not None:
            node.meta["val"] = fact
        return ValueProxy(node, self)

    def value(self, found: Any) -> Any:
        """What a result of the helper stands for: a node, a number, or a tuple of them."""
        match found:
            case Proxy() if found.node in self.real:
                return self.emitter.argument(self.real[found.node])
            case Proxy():
                self.refuse(
                    "structure", f"returned `{found.node.name}` of an earlier call: it kept a value of the graph"
                )
            case tuple() | list():
                return tuple(map(self.value, found))
            case bool() | int() | float() | complex() | torch.SymInt():
                return found
            case Tensor():
                self.refuse("form", "returned a tensor of its own: compute it in a `let`, or in the graph")
        return self.refuse("structure", f"returned {_described(found)}: expected values of the graph")

    def fact(self, node: Node, what: str) -> Any:
        """The fake tensor, or the list of them, that a proxy's node carries; raises Unknown where there is none."""
        fact = node.meta.get("val")
        if fact is None:
            raise Unknown(f"{what} of `{node.name}` is unknown", EXAMPLE_INPUTS)
        return fact

    def refuse(self, kind: MismatchKind, reason: str) -> NoReturn:
        """Give the site up; the helper is left by an exception."""
        refusal = self.emitter.refusal(kind, f"`{self.helper}` {reason}")
        self.refusal = self.refusal or refusal
        raise refusal

    def refuse_reading(self, node: Node, use: str) -> NoReturn:
        """Refuse what needs the elements of a value."""
        self.refuse("form", f"needs the elements of `{node.name}` for {use}: they are not known at rewrite time")

    # ------------------------------------------------------- what torch.fx calls
    def to_bool(self, obj: Proxy) -> bool:
        """Called for ``if``, ``and``, ``not`` and ``while`` on a proxy."""
        return self.refuse_reading(obj.node, "a decision (`if`, `and`, `while`)")

    def keys(self, obj: Proxy) -> Any:
        """Called for ``**proxy``."""
        return self.refuse("structure", f"spreads `{obj.node.name}` with `**`: it is a value of the graph")

    def create_proxy(self, kind: str, target: Any, args: Any, kwargs: Any, *_: Any, **__: Any) -> Any:
        """Called for each call on proxies: the nodes that it becomes are in the graph when it returns."""
        if kind == "call_method" and target in _FACT_METHODS and isinstance(args[0], Proxy):
            return getattr(self.fact(args[0].node, target), target)(*args[1:], **kwargs)
        if target in _FACT_FUNCTIONS and isinstance(args[0], Proxy):
            return getattr(self.fact(args[0].node, _FACT_FUNCTIONS[target]), _FACT_FUNCTIONS[target])()
        outer, self.busy = self.busy, True
        try:
            node = self.graph.create_node(kind, target, self._stored(args), self._stored(kwargs))
            with self.guard.lifted():
                emitted = self._emitted(node)
        except Refusal as refusal:
            self.refusal = self.refusal or refusal
            raise
        finally:
            self.busy = outer
        return self._stand_in(node, emitted)

    def makes_tensors(self, function: Any) -> bool:
        """Whether a function is an op that makes tensors, such as ``torch.arange``."""
        name = name_of(function, self.views.table)
        table = self.views.table
        spelled = (table.spellings(name) or table.spellings(name.removesuffix(".default"))) if name else ()
        return any(family.result not in ("other", "none") for family, _ in spelled)

    def _stored(self, value: Any) -> Any:
        """Arguments of a call as a node of the scratch graph keeps them."""
        match value:
            case Proxy():
                return value.node
            case tuple() | list():
                items = [self._stored(item) for item in value]
                return tuple(items) if isinstance(value, tuple) else items
            case dict():
                return {key: self._stored(item) for key, item in value.items()}
            case slice():
                return slice(self._stored(value.start), self._stored(value.stop), self._stored(value.step))
            case Tensor():
                hint = "pass it to the helper (a `let`, a captured value), or make it with torch.full or torch.arange"
                self.refuse("form", f"reads a tensor of its own: {hint}")
        if isinstance(value, SYMBOLIC):
            found = self.emitter.argument(value)
            return self.proxy_of(found, found.name).node if isinstance(found, Node) else found
        if isinstance(value, _PLAIN) or value in (bool, int, float):
            return value
        return self.refuse("form", f"passes {_described(value)} to an op: it cannot be part of a graph")

    # ---------------------------------------------------------------- emission
    def _emitted(self, node: Node) -> Any:
        """The value of the graph that a call gives, spelled at the site's level."""
        if node.target is operator.getitem:
            return self._item(node)
        view = self.views.own(node)
        if node.target in _READ_METHODS or (view is not None and view.family.result in ("other", "none")):
            source = node.all_input_nodes[0] if node.all_input_nodes else node
            self.refuse_reading(source, f"`{_called(node)}`")
        if view is not None and (self.emitter.level == "aten" or view.effect != "pure"):
            args: Any = view.args
            return self.emitter.call(view.family, map_aggregate(args, self._real), {})
        target = _overload(node.target)
        if self.emitter.level == "torch" or isinstance(target, torch._ops.OpOverload):
            return self.emitter.create(node.op, target, self._given(node.args), self._given(node.kwargs))
        return self.refuse("form", f"calls `{_called(node)}`, which has no form at level {self.emitter.level}")

    def _real(self, value: Any) -> Any:
        return self.real[value] if isinstance(value, Node) else value

    def _given(self, values: Any) -> Any:
        """Arguments as they are written, with the values of the graph in place of those of the scratch graph."""

        def given(value: Any) -> Any:
            real = self._real(value)
            return self.emitter.argument(real) if isinstance(real, ModuleAttr) else real

        return map_aggregate(values, given)

    def _item(self, node: Node) -> Any:
        """``value[key]``: at level aten an index of a tensor is a chain of ops."""
        value, key = (self._real(arg) for arg in node.args)
        if self.emitter.level == "torch" or isinstance(self.emitter.views.fact(value), tuple | list):
            return self.emitter.create(node.op, node.target, self._given(node.args), {})
        known: dict[str, Any] = {}
        items = tuple(self._index(item, known) for item in (key if isinstance(key, tuple) else (key,)))
        steps = None if None in items else steps_of(tuple(item for item in items if item is not None))
        if steps is None:
            raise self.emitter.refusal("form", "an index by tensors has no form at level aten")
        families = self.views.table.families
        for step in steps:
            family = families[step.family]
            names = [param.name for param in family.params[1:]]
            given = {
                name: known[arg.id] if isinstance(arg, ast.Name) else arg.value
                for name, arg in zip(names, step.args, strict=False)
                if isinstance(arg, ast.Name | ast.Number)
            }
            value = self.emitter.call(family, (value,), given)
        return value

    def _index(self, item: Any, known: dict[str, Any]) -> ast.Expr | ast.Slice | ast.Dots | None:
        """An item of an index as it would stand in a rule, its numbers under names of ``known``; None by tensors."""

        def named(number: Any) -> ast.Name:
            name = f"#{len(known)}"
            known[name] = self._real(number)
            return ast.Name(name)

        match item:
            case None:
                return ast.Name("None")
            case EllipsisType():
                return ast.Dots()
            case slice():
                start, stop, step = (
                    None if part is None else named(part) for part in (item.start, item.stop, item.step)
                )
                return ast.Slice(start, stop, step)
            case Node() if not self.emitter.is_tensor(self._real(item)):
                return named(item)
            case int() if not isinstance(item, bool):
                return named(item)
        return None


class Factories(TorchFunctionMode):
    """While this lasts, ops that make tensors out of numbers (``torch.arange``) are recorded and not run."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self.recorder = recorder

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Called by torch for each of its functions."""
        kwargs = kwargs or {}
        if not self.recorder.busy and self.recorder.makes_tensors(func):
            leaves = pytree.tree_leaves((args, kwargs))
            if not any(isinstance(leaf, Proxy | Tensor) for leaf in leaves):
                return self.recorder.create_proxy("call_function", func, args, kwargs)
        return func(*args, **kwargs)


def _overload(target: Any) -> Any:
    """An op packet as its default overload; any other target as it is."""
    if not isinstance(target, torch._ops.OpOverloadPacket):
        return target
    found = overloads_of(target)
    return next((one for one in found if one._overloadname == "default" or len(found) == 1), target)


def _called(node: Node) -> str:
    if node.op == "call_method":
        return f"Tensor.{node.target}"
    if node.target is getattr:
        return f"Tensor.{node.args[1]}"
    home, name = getattr(node.target, "__module__", None), getattr(node.target, "__name__", str(node.target))
    return f"{home}.{name}" if home else name


def _described(value: object) -> str:
    name = type(value).__name__
    return "None" if value is None else f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"
