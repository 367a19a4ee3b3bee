"""Shapes, dtypes and strides of new nodes: fake tensors, computed once per distinct op and inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, Final

import torch
from attrs import define, field, frozen
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.func import functional_call
from torch.fx import Graph, GraphModule, Node
from torch.fx.passes.shape_prop import _extract_tensor_metadata
from torch.utils import _pytree as pytree

from ..dsl.nearest import did_you_mean
from ..dsl.source import FxrulesError, Problem
from .agreement import disagreement
from .factkeys import UNKNOWN, FactKeys, argument_key
from .inputs import Call, read_call
from .journal import Journal
from .recipes import Recipe, is_static, quick, recipe_of, remade
from .switches import switches, switches_kept
from .walks import attribute_at

MISSING: Final = object()


class Impossible(Exception):
    """An op that does not run on the values it is given; the message says why."""


@define(eq=False)
class Propagation:
    """Computes the metadata of nodes with the fake tensor mode that the graph already uses.

    ``entry`` is the key of ``meta`` that holds values in this graph (``"val"``, or
    Dynamo's ``"example_value"``); ``tensor_meta`` whether it keeps that entry too.
    """

    graph: Graph
    mode: FakeTensorMode | None
    entry: str = "val"
    tensor_meta: bool = False
    keys: FactKeys = field(factory=FactKeys)
    _cache: dict[Any, tuple[Recipe, bool, Any, int | None, Any]] = field(factory=dict, init=False)
    _differences: dict[Any, str | None] = field(factory=dict, init=False)

    @classmethod
    def of(cls, graph: Graph, keys: FactKeys | None = None) -> Propagation:
        """The propagation that fits a graph's metadata; one without a mode computes nothing."""
        mode, entry, tensor_meta = None, "val", False
        for node in graph.nodes:
            entry = "example_value" if "example_value" in node.meta and "val" not in node.meta else entry
            value = node.meta.get(entry)
            mode = mode or _mode_of(value)
            tensor_meta = tensor_meta or "tensor_meta" in node.meta
            if mode is not None and node.op.startswith("call"):
                break
        return cls(graph, mode, entry, tensor_meta, keys or FactKeys())

    def fact(self, node: Node) -> Any:
        """The value in a node's metadata; MISSING if there is none."""
        meta = node.meta
        return meta["val"] if "val" in meta else meta.get("example_value", MISSING)

    def entries(self, node: Node) -> Mapping[str, Any]:
        """The metadata that a node should have; nothing where the facts of an input are missing.

        Raises Impossible if the op fails on its inputs.
        """
        if self.mode is None:
            return {}
        if node.op == "get_attr":
            found = self._attribute(str(node.target))
            return {} if found is MISSING else self.of_tensor(found)
        found = self._again(node) or self._computed(node)
        if found is None:
            return {}
        value, tensor_meta = found
        entries: dict[str, Any] = {self.entry: value}
        if self.tensor_meta and tensor_meta is not None:
            entries["tensor_meta"] = tensor_meta
        return entries

    def of_tensor(self, value: Tensor) -> Mapping[str, Any]:
        """The metadata of a node that reads a real tensor."""
        if self.mode is None:
            return {}
        fake = self.mode.from_tensor(value, static_shapes=True)
        return (
            {self.entry: fake, "tensor_meta": _extract_tensor_metadata(fake)}
            if self.tensor_meta
            else {self.entry: fake}
        )

    def difference(self, old: Any, new: Any, allowed: frozenset[str] = frozenset()) -> str | None:
        """`agreement.disagreement` of two values, worked out once for all tensors with the same facts."""
        pair = self.keys.pair(old, new)
        if pair is None:
            return disagreement(old, new, allowed)
        if pair[0] == pair[1]:
            return None
        key = (pair, allowed)
        if key not in self._differences:
            self._differences[key] = disagreement(old, new, allowed)
        return self._differences[key]

    # ------------------------------------------------------------- computing
    def _attribute(self, path: str) -> Any:
        value = attribute_at(self.graph.owning_module, path, MISSING)
        return value if isinstance(value, Tensor) else MISSING

    def _facts(self, value: Any) -> Any:
        """An argument with every node replaced by its fact; MISSING if one is not known."""
        match value:
            case Node():
                fact = self.fact(value)
                if fact is MISSING and value.op == "get_attr" and self.mode is not None:
                    real = self._attribute(str(value.target))
                    return real if real is MISSING else self.mode.from_tensor(real, static_shapes=True)
                return fact
            case tuple() | list():
                items = [self._facts(item) for item in value]
                if any(item is MISSING for item in items):
                    return MISSING
                return tuple(items) if isinstance(value, tuple) else items
            case dict():
                entries = {key: self._facts(item) for key, item in value.items()}
                return MISSING if any(item is MISSING for item in entries.values()) else entries
            case slice():
                parts = [self._facts(part) for part in (value.start, value.stop, value.step)]
                return MISSING if any(part is MISSING for part in parts) else slice(*parts)
        return value

    def _again(self, node: Node) -> tuple[Any, Any] | None:
        """Value and tensor_meta of a node whose op was computed on equal facts before."""
        known = self._cache.get(self._call_key(node))
        if known is None or self.mode is None:
            return None
        recipe, static, tensor_meta, number, _ = known
        with nullcontext() if static else self._quiet():
            value = remade(recipe, lambda: (self._facts(node.args), self._facts(node.kwargs)), self.mode)
        if isinstance(value, Tensor):
            self.keys.note(value, number)
        return value, tensor_meta

    def _computed(self, node: Node) -> tuple[Any, Any] | None:
        """Value and tensor_meta of a node; None where the facts of an input are missing."""
        args, kwargs = self._facts(node.args), self._facts(node.kwargs)
        if args is MISSING or kwargs is MISSING:
            return None
        assert self.mode is not None
        value = quick(node.target, args, kwargs, self.mode)
        value = self._run(node, args, kwargs) if value is None else value
        is_tensor = isinstance(value, Tensor)
        tensor_meta = _extract_tensor_metadata(value) if self.tensor_meta and is_tensor else None
        recipe, key = recipe_of(value, (args, kwargs)), self._call_key(node)
        if key is not None and recipe is not None:
            number = self.keys.of(value) if is_tensor else None
            self._cache[key] = (recipe, is_static(recipe), tensor_meta, number, node.target)
        return value, tensor_meta

    def _call_key(self, node: Node) -> Any:
        """What the facts of a node depend on, as something to hash; None if that cannot be said."""
        if node.op == "call_module":
            return None
        parts = [argument_key(arg, self._key) for arg in node.args]
        if node.kwargs:
            parts.append(argument_key(node.kwargs, self._key))
        # by identity, which lasts since the cache keeps the target: overloads compute their hash in Python
        return None if UNKNOWN in parts else (id(node.target), *parts)

    def _key(self, node: Node) -> object:
        """The facts of a node in a tuple, which tells their number from a literal."""
        fact = self.fact(node)
        if not isinstance(fact, Tensor | tuple | list):
            return UNKNOWN if fact is MISSING else argument_key(fact, self._key)
        key = self.keys.key(fact)
        return UNKNOWN if key is UNKNOWN else (key,)

    def forget(self) -> None:
        """Run every op anew: the same inputs may give something else now."""
        self._cache.clear()

    def _run(self, node: Node, args: Any, kwargs: Any) -> Any:
        function = self._callable(node, args)
        assert self.mode is not None
        try:
            with self._quiet(), self.mode, torch.no_grad():
                return function(*(args[1:] if node.op == "call_method" else args), **kwargs)
        except Exception as error:
            reason = str(error).strip().partition("\n")[0] or type(error).__name__
            raise Impossible(f"`{node.name}` does not run on its inputs: {reason}") from error

    def _callable(self, node: Node, args: Any) -> Callable[..., Any]:
        if node.op == "call_method":
            found: Any = getattr(args[0], str(node.target), None)
        elif node.op == "call_module":
            module = self.graph.owning_module
            found = _Untouched(module.get_submodule(str(node.target)), self.mode) if module and self.mode else None
        else:
            found = node.target
        if not callable(found):
            raise Impossible(f"`{node.name}` calls nothing that can be run")
        run: Callable[..., Any] = found
        return run

    @contextmanager
    def _quiet(self) -> Iterator[None]:
        """No guard may be added to the shapes of the caller's graph."""
        env = self.mode.shape_env if self.mode is not None else None
        with nullcontext() if env is None else env.suppress_guards():
            yield


@frozen
class _Untouched:
    """Calls a module on fake copies of its tensors, and puts back the attributes that its ``forward`` assigned."""

    module: nn.Module
    mode: FakeTensorMode

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        tensors = {**dict(self.module.named_parameters()), **dict(self.module.named_buffers())}
        fakes: dict[str, Tensor] = {
            name: self.mode.from_tensor(tensor, static_shapes=True) for name, tensor in tensors.items()
        }
        saved = [(part, dict(vars(part))) for part in self.module.modules()]
        try:
            return functional_call(self.module, fakes, args, kwargs)
        finally:
            for part, attributes in saved:
                vars(part).clear()
                vars(part).update(attributes)


def _mode_of(value: Any) -> FakeTensorMode | None:
    if isinstance(value, FakeTensor):
        return value.fake_mode
    if isinstance(value, tuple | list):
        return next((mode for mode in map(_mode_of, value) if mode is not None), None)
    return None


# ---------------------------------------------------------------- annotating
def annotate(module: GraphModule, example_inputs: Any, journal: Journal | None = None) -> None:
    """Fill ``meta["val"]`` of every node of a graph from inputs such as its model takes.

    ``example_inputs``: a tuple of positional inputs, a mapping of keyword inputs, or the
    pair of both. Nothing is computed with real numbers. A node whose value cannot be
    found out stays without, and so do its users.
    """
    graph = module.graph
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    propagation = Propagation(graph, mode)
    record = journal.set_meta if journal is not None else _set_meta
    given = _given(graph, example_inputs)
    with switches_kept():  # calls of the graph may turn them
        turned = switches()
        for node in graph.nodes:
            if node.op == "placeholder":
                if str(node.target) in given:
                    record(node, {"val": _faked(given[str(node.target)], mode)})
            elif node.op != "output":
                try:
                    record(node, propagation.entries(node))
                except Impossible:
                    continue
                if turned != (turned := switches()):
                    propagation.forget()


def _set_meta(node: Node, entries: Mapping[str, Any]) -> None:
    node.meta.update(entries)


def _given(graph: Graph, example_inputs: Any) -> Mapping[str, Any]:
    """The example input of each placeholder, by the placeholder's target."""
    call = read_call(example_inputs)
    names = [str(node.target) for node in graph.nodes if node.op == "placeholder"]
    if getattr(graph._codegen, "pytree_info", None) is not None:  # the graph takes the leaves of its model's arguments
        return dict(zip(names, pytree.tree_leaves((call.args, dict(call.kwargs))), strict=False))
    defaults = {str(node.target): node.args[0] for node in graph.nodes if node.op == "placeholder" and node.args}
    _check_fit(names, defaults, call)
    return {**defaults, **dict(zip(names, call.args, strict=False)), **call.kwargs}


def _check_fit(names: Sequence[str], defaults: Mapping[str, Any], call: Call) -> None:
    """Raises FxrulesError for inputs that no placeholder takes, or placeholders that get none."""
    if any(name.startswith("*") for name in names):
        return
    hint = f"the graph takes ({', '.join(names)})"
    if len(call.args) > len(names):
        message = f"{len(call.args)} positional example inputs are given, the graph takes {len(names)}"
        raise FxrulesError(Problem(None, "wrong-inputs", message, hint))
    for name in call.kwargs:
        if name not in names:
            message = f"the graph has no input `{name}`"
            raise FxrulesError(Problem(None, "wrong-inputs", message, did_you_mean(name, names) or hint))
    missing = [name for name in names[len(call.args) :] if name not in call.kwargs and name not in defaults]
    if missing:
        message = f"the example inputs have nothing for `{missing[0]}`"
        raise FxrulesError(Problem(None, "wrong-inputs", message, hint))


def _faked(value: Any, mode: FakeTensorMode) -> Any:
    if isinstance(value, Tensor):
        return mode.from_tensor(value, static_shapes=True)
    if isinstance(value, tuple | list):
        return type(value)(_faked(item, mode) for item in value)
    return value
