"""Calls of torch's public callables with sample arguments, recorded from torch's own test samples."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from attrs import frozen
from torch.fx import Graph, Node
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

SAMPLES = 4


@frozen(eq=False)
class Sample:
    """One call: the callable's public name, the callable, its arguments."""

    name: str
    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]


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

    names = names_of_callables()
    counts: dict[str, int] = {}
    for info in op_db:
        dtypes = info.supported_dtypes("cpu")
        dtype = torch.float32 if torch.float32 in dtypes else next(iter(sorted(dtypes, key=str)), None)
        if dtype is None or info.name.startswith("jiterator"):
            continue
        torch.manual_seed(0)
        variants = [info.op, info.method_variant, *(alias.op for alias in info.aliases)]
        variants += [alias.method_variant for alias in info.aliases]
        for _, sample in zip(range(SAMPLES), info.sample_inputs("cpu", dtype), strict=False):
            for variant in variants:
                for function, args, kwargs in _calls(variant, sample):
                    for name in names.get(function, ()):
                        counts[name] = counts.get(name, 0) + 1
                        if counts[name] <= SAMPLES:
                            yield Sample(name, function, args, kwargs)


def _calls(
    function: Callable[..., Any] | None, sample: Any
) -> list[tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]]:
    if function is None:
        return []
    recorder = _Recorder()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            with recorder:
                function(sample.input, *sample.args, **sample.kwargs)
        except (RuntimeError, TypeError, ValueError, NotImplementedError):
            return []
    return recorder.calls


def node_for(sample: Sample) -> tuple[Graph, Node, dict[Node, Any]]:
    """A graph with the one call, and the value of each of its placeholders."""
    graph = Graph()
    values: dict[Node, Any] = {}

    def placeholder(tensor: torch.Tensor) -> Node:
        node = graph.placeholder(f"arg{len(values)}")
        node.meta["val"] = tensor
        values[node] = tensor
        return node

    args, kwargs = pytree.tree_map_only(torch.Tensor, placeholder, (sample.args, dict(sample.kwargs)))
    if sample.name.startswith("Tensor."):
        return graph, graph.call_method(sample.name.removeprefix("Tensor."), args, kwargs), values
    return graph, graph.call_function(sample.function, args, kwargs), values
