"""Calls of torch's public callables with sample arguments, recorded from torch's own test samples."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, TypeAlias

import torch
import torch.nn.functional as F
from attrs import frozen
from more_samples import more_calls, more_modules
from torch import nn
from torch.fx import Graph, Node
from torch.overrides import TorchFunctionMode
from torch.profiler import ProfilerActivity, profile, record_function
from torch.utils import _pytree as pytree

from fxrules.engine.kinds import ModuleAttr
from fxrules.engine.nodeview import Views
from fxrules.engine.spellings import Call

SAMPLES = 4


@frozen(eq=False)
class Sample:
    """One call: the callable's public name, the callable, its arguments."""

    name: str
    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]

    @property
    def target(self) -> Callable[..., Any] | str:
        """What a graph calls: a method's name, or the function."""
        return self.name.removeprefix("Tensor.") if self.name.startswith("Tensor.") else self.function


class _Recorder(TorchFunctionMode):
    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]] = []

    def __torch_function__(
        self, func: Callable[..., Any], types: object, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        self.calls.append(pytree.tree_map_only(torch.Tensor, torch.Tensor.detach, (func, args, kwargs or {})))
        return func(*args, **(kwargs or {}))


@cache
def public_callables() -> Mapping[str, Callable[..., Any]]:
    """The public callables of torch, torch.nn.functional, Tensor and operator, and their namespaces for maths."""
    homes = {
        "operator": operator,
        "torch.nn.functional": F,
        "torch": torch,
        "torch.special": torch.special,
        "torch.linalg": torch.linalg,
        "torch.fft": torch.fft,
        "Tensor": torch.Tensor,
    }
    found: dict[str, Callable[..., Any]] = {}
    for home, namespace in homes.items():
        for name in sorted(dir(namespace)):
            value = getattr(namespace, name)
            if not name.startswith("_") and callable(value) and not isinstance(value, type):
                found[f"{home}.{name}"] = value
    return found


@cache
def names_of_callables() -> Mapping[Callable[..., Any], tuple[str, ...]]:
    """Every public name of a callable."""
    found: dict[Callable[..., Any], tuple[str, ...]] = {}
    for name, value in public_callables().items():
        found[value] = (*found.get(value, ()), name)
    return found


@cache
def recorded() -> tuple[Sample, ...]:
    """Sample calls of as many public callables as torch's test samples reach; the same in every run."""
    return tuple(_record())


def _record() -> Iterator[Sample]:
    from torch.testing._internal.common_methods_invocations import op_db

    counts: dict[str, int] = {}
    for info in op_db:
        dtypes: Collection[torch.dtype] = info.dtypes
        dtype = torch.float32 if torch.float32 in dtypes else next(iter(sorted(dtypes, key=str)), None)
        if dtype is None or info.name.startswith("jiterator"):
            continue
        torch.default_generator.manual_seed(0)
        variants = [info.op, info.method_variant, info.inplace_variant]
        variants += [op for alias in info.aliases for op in (alias.op, alias.method_variant, alias.inplace_variant)]
        for _, sample in zip(range(SAMPLES), info.sample_inputs_func(info, "cpu", dtype, False), strict=False):
            for variant in variants:
                for call in _calls(variant, sample.input, sample.args, sample.kwargs):
                    yield from _few(call, counts)
    torch.default_generator.manual_seed(0)
    for call in more_calls():
        yield from _few(call, {})


_Call: TypeAlias = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]


def _few(call: _Call, counts: dict[str, int]) -> Iterator[Sample]:
    """The call as a sample of each of its callable's names, of which there are few samples so far."""
    function, args, kwargs = call
    for name in names_of_callables().get(function, ()):
        counts[name] = counts.get(name, 0) + 1
        if counts[name] <= SAMPLES:
            yield Sample(name, function, args, kwargs)


def _calls(
    function: Callable[..., Any] | None, first: Any, args: Sequence[Any] = (), kwargs: Any = None
) -> list[_Call]:
    """The calls of torch functions that a function makes; none if it refuses the arguments."""
    recorder = _Recorder()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            with recorder:
                if function is not None:
                    function(_copied(first), *_copied(args), **_copied(kwargs or {}))
        except (RuntimeError, TypeError, ValueError, NotImplementedError):
            return []
    return recorder.calls


def _copied(value: Any) -> Any:
    """Arguments with their own memory: what is recorded may be written to."""
    return pytree.tree_map_only(torch.Tensor, torch.Tensor.clone, value)


def node_for(sample: Sample, module: str | None = None) -> tuple[Graph, Node, dict[Node, Any]]:
    """A graph with the one call (of the submodule ``module``, if given), and the value of each placeholder."""
    graph = Graph()
    values: dict[Node, Any] = {}

    def placeholder(tensor: torch.Tensor) -> Node:
        node = graph.placeholder(f"arg{len(values)}")
        node.meta["val"] = tensor
        values[node] = tensor
        return node

    args, kwargs = pytree.tree_map_only(torch.Tensor, placeholder, (sample.args, dict(sample.kwargs)))
    if module is not None:
        return graph, graph.call_module(module, args, kwargs), values
    return graph, node_of(graph, (sample.target, args, kwargs)), values


def node_of(graph: Graph, call: Call) -> Node:
    """A call as a node of the graph."""
    target, args, kwargs = call
    if isinstance(target, str):
        return graph.call_method(target, args, kwargs)
    return graph.call_function(target, args, kwargs)


def run(
    target: Callable[..., Any] | str,
    args: Any,
    kwargs: Mapping[str, Any],
    values: Mapping[Node, Any],
    views: Views | None = None,
) -> Any:
    """What a call gives, on copies of its tensors and from one random state."""

    def value_of(arg: Any) -> Any:
        if isinstance(arg, ModuleAttr) and views is not None:
            return views.fact(arg)
        return copies.get(arg, arg) if isinstance(arg, Node) else arg

    copies = {node: value.clone() if value.layout == torch.strided else value for node, value in values.items()}
    args, kwargs = pytree.tree_map(value_of, (list(args), dict(kwargs)))
    torch.default_generator.manual_seed(0)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        if isinstance(target, str):
            return getattr(args[0], target)(*args[1:], **kwargs)
        return target(*args, **kwargs)


def same_result(expected: Any, found: Any, tolerance: float = 0.0) -> bool:
    """Whether two results are the same: values, shapes, dtypes, strides; tensors in the same places."""
    one, other = pytree.tree_leaves(expected), pytree.tree_leaves(found)
    if isinstance(expected, torch.Tensor) != isinstance(found, torch.Tensor):
        return False
    return len(one) == len(other) and all(_same(a, b, tolerance) for a, b in zip(one, other, strict=True))


def _same(a: Any, b: Any, tolerance: float) -> bool:
    if not isinstance(a, torch.Tensor):
        return type(a) is type(b) and bool(a == b)
    if not isinstance(b, torch.Tensor) or (a.shape, a.dtype, a.layout) != (b.shape, b.dtype, b.layout):
        return False
    if a.layout != torch.strided:
        return torch.equal(a.to_dense(), b.to_dense())
    same_strides = tolerance > 0 or a.stride() == b.stride()
    return same_strides and torch.allclose(a, b, rtol=tolerance, atol=tolerance, equal_nan=True)


def aten_calls() -> Mapping[str, tuple[str, ...]]:
    """The ATen ops that the first sample of each callable calls itself: what it traces to before decompositions."""
    found: dict[str, tuple[str, ...]] = {sample.name: () for sample in recorded()}
    first = {sample.name: sample for sample in reversed(recorded())}
    with warnings.catch_warnings(), profile(activities=[ProfilerActivity.CPU]) as profiled:
        warnings.simplefilter("ignore")
        for name, sample in first.items():
            with record_function(f"sample:{name}"):
                sample.function(*sample.args, **sample.kwargs)
    for event in profiled.events() or ():
        outer = event.cpu_parent.name if event.cpu_parent is not None else ""
        if event.name.startswith("aten::") and outer.startswith("sample:"):
            name = outer.removeprefix("sample:")
            found[name] = (*found[name], event.name)
    return found


def module_samples() -> Iterator[tuple[nn.Module, tuple[Any, ...], dict[str, Any]]]:
    """Modules of torch.nn in both modes, each with inputs."""
    from torch.testing._internal.common_modules import module_db

    for info in module_db:
        for training in (False, True):
            torch.default_generator.manual_seed(0)
            samples = info.module_inputs_func(info, "cpu", torch.float32, requires_grad=False, training=training)
            for sample in samples[:SAMPLES]:
                made = sample.constructor_input
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    module = info.module_cls(*made.args, **made.kwargs).train(training)
                yield module, tuple(sample.forward_input.args), dict(sample.forward_input.kwargs)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some classes are deprecated
        more = list(more_modules())
    yield from more
