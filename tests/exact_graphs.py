"""Graphs of function calls and the ops of a team, for tests of exact targets and registered ops."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.export import ExportedProgram
from torch.fx import Graph, GraphModule

X = (torch.linspace(-2, 2, 12).view(3, 4),)


@contextmanager
def acme_ops() -> Iterator[None]:
    """The ops of a team, as `torch.library` registers them."""
    with torch.library._scoped_library("fxr_acme", "DEF") as library:
        for schema in (
            "scaled(Tensor x, float scale=1.0) -> Tensor",
            "pair(Tensor x) -> (Tensor, Tensor)",
            "accumulate(Tensor(a!) out, Tensor x) -> ()",
            "accumulate_relu(Tensor(a!) out, Tensor x) -> ()",
            "log(Tensor x) -> ()",
        ):
            library.define(schema)
        library.define("noise(Tensor x) -> Tensor", tags=(torch.Tag.nondeterministic_seeded,))
        implementations: dict[str, Any] = {
            "scaled": lambda x, scale=1.0: x * scale,
            "pair": lambda x: (x.sin(), x.cos()),
            "accumulate": lambda out, x: (out.add_(x), None)[1],
            "accumulate_relu": lambda out, x: (out.add_(torch.relu(x)), None)[1],
            "log": lambda x: None,
            "noise": lambda x: torch.rand_like(x),
        }
        for name, function in implementations.items():
            library.impl(name, function, "CompositeExplicitAutograd")
        yield


def acme_op(name: str) -> Any:
    return getattr(torch.ops.fxr_acme, name)


class Function(nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Any:
        return self.function(x)


class Two(Function):
    def forward(self, x: Tensor, y: Tensor) -> Any:  # type: ignore[override]
        return self.function(x, y)


Step: TypeAlias = tuple[Any, tuple[Any, ...], dict[str, Any]]


def graph_of(*calls: Step, out: int = -1) -> GraphModule:
    """A graph of function calls; an int in the arguments' first places stands for an earlier value, 0 the input."""
    graph = Graph()
    values = [graph.placeholder("x")]
    for target, at, kwargs in calls:
        args = tuple(values[one.at] if isinstance(one, At) else one for one in at)
        values.append(graph.call_function(target, args, kwargs))
    graph.output(tuple(values[1:]) if out == -1 else values[out])
    return GraphModule(nn.Module(), graph)


class At:
    """The value at this place."""

    def __init__(self, at: int) -> None:
        self.at = at


IN = At(0)


def outcome(model: Any, *inputs: Tensor) -> list[Any]:
    """Outputs, inputs after the call, and the random number that comes next."""
    torch.manual_seed(0)
    inputs = tuple(one.clone() for one in inputs)
    module = model.module() if isinstance(model, ExportedProgram) else model
    found = module(*inputs)
    return [*(found if isinstance(found, tuple) else (found,)), *inputs, torch.rand(1)]


def equal(first: list[Any], second: list[Any]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def reasons(result: Any) -> list[str]:
    return [one.reason for rule in result.report.rules for one in rule.refused]
