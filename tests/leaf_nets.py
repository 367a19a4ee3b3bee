"""Nets whose modules stay leaves when they are traced."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.fx import GraphModule, Tracer

X = torch.randn(2, 4, 6, 6)


class Local:
    class Norm(nn.LayerNorm):
        """A class inside a class, derived from one of torch."""


class Gate(nn.Module):
    """A leaf with every kind of parameter."""

    KIND = "gate"
    shift: Tensor

    def __init__(self, scale: float = 0.5) -> None:
        super().__init__()
        self.scale = scale
        self.sizes = [1, 2]
        self.act = torch.relu
        self.weight = nn.Parameter(torch.randn(6))
        self.register_buffer("shift", torch.randn(6))
        self.register_parameter("bias", None)
        self.proj = nn.Linear(6, 6, bias=False)

    @property
    def computed(self) -> float:
        raise AssertionError("a property is code of the model: it must not run")

    def forward(self, x: Tensor, y: Tensor | None = None, *, k: int = 2) -> Tensor:
        out: Tensor = self.proj(x) * self.weight * self.scale + self.shift
        return out * k if y is None else out * k + y


class Sum(nn.Module):
    def forward(self, *xs: Tensor) -> Tensor:
        return sum(xs[1:], xs[0])


class Frozen(nn.Module):
    """A BatchNorm of fixed statistics, as detection models have it."""

    weight: Tensor
    bias: Tensor
    running_mean: Tensor
    running_var: Tensor

    def __init__(self, channels: int, eps: float = 0.0) -> None:
        super().__init__()
        self.eps = eps
        for name in ("weight", "running_var"):
            self.register_buffer(name, torch.rand(channels) + 0.5)
        for name in ("bias", "running_mean"):
            self.register_buffer(name, torch.randn(channels))

    def forward(self, x: Tensor) -> Tensor:
        scale = self.weight * (self.running_var + self.eps).rsqrt()
        return x * scale.reshape(1, -1, 1, 1) + (self.bias - self.running_mean * scale).reshape(1, -1, 1, 1)


class Leaves(Tracer):
    """A tracer that keeps the classes of this file."""

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return isinstance(m, Gate | Sum | Frozen) or super().is_leaf_module(m, module_qualified_name)


def traced(net: nn.Module) -> GraphModule:
    return GraphModule(net, Leaves().trace(net))


class Net(nn.Module):
    """Modules by name, and what is done with them."""

    def __init__(self, run: Callable[..., Any], **modules: nn.Module) -> None:
        super().__init__()
        for name, module in modules.items():
            self.add_module(name, module)
        self.run = run

    def forward(self, x: Tensor, y: Tensor) -> Any:
        return self.run(self, x, y)


def graph_of(run: Callable[..., Any], **modules: nn.Module) -> GraphModule:
    """A traced net of these modules. ``twin`` becomes a second name of ``gate``, which tracing would not keep apart."""
    module = traced(Net(run, **modules).eval())
    if "twin" in modules:
        module.add_module("twin", modules["gate"])
    return module


def refusals(result: Any) -> dict[str, int]:
    """Why rules were refused, and how often."""
    return {f"{one.kind}: {one.reason}": one.count for rule in result.report.rules for one in rule.refused}


def shown(result: Any) -> list[str]:
    """What the graph calls, in order."""
    nodes = [node for node in result.model.graph.nodes if node.op.startswith("call")]
    return [str(getattr(node.target, "__name__", node.target)) for node in nodes]


GATE = "rule r(m: module leaf_nets.Gate, x: Tensor) { match m(x) %s }"
