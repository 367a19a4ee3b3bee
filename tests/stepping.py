"""Small rules and graphs for tests of pipelines, and a way to run them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.fx import GraphModule, symbolic_trace

import fxrules

X = (torch.randn(3, 4),)
CHANGE = """
rule tanh_sin(x: float[...]) { match tanh(x) rewrite sin(x) numerics differs "test" }
rule sin_cos(x: float[...]) { match sin(x) rewrite cos(x) numerics differs "test" }
rule cos_exp(x: float[...]) { match cos(x) rewrite exp(x) numerics differs "test" }
"""
SINK = """
opset pointwise = abs, neg, exp
rule sink[f in pointwise](x: Tensor, a: int, b: int) {
  match f(transpose(x, a, b)) rewrite transpose(f(x), a, b) changes strides numerics differs "test"
}
rule grow(x: float[...]) { match relu(x) rewrite relu(x) + 1 numerics differs "test" }
rule keep_neg(x: float[...]) { match relu(x) as y keep y rewrite neg(y) numerics differs "test" }
rule keep_abs(x: float[...]) { match relu(x) as y keep y rewrite abs(y) numerics differs "test" }
"""


class Function(nn.Module):
    """A module around a function of one tensor."""

    def __init__(self, function: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Any:
        return self.function(x)


def run(text: str, model: Callable[[Tensor], Any] | nn.Module, **options: Any) -> fxrules.Result:
    """Rewrite a traced function with the pipeline ``p`` of a text."""
    module = model if isinstance(model, nn.Module) else symbolic_trace(Function(model))
    options = {"numerics": "differs", "pipeline": "p", **options}
    return fxrules.rewrite(module, fxrules.load(text=text), X, **options)


def calls(module: GraphModule) -> list[str]:
    """What a graph calls, in order."""
    return [
        getattr(node.target, "__name__", str(node.target)).removesuffix(".default")
        for node in module.graph.nodes
        if node.op not in ("placeholder", "output", "get_attr")
    ]


def fired(result: fxrules.Result) -> list[dict[str, int]]:
    """What each step fired, under short names."""
    return [{name.rpartition(".")[2]: count for name, count in step.fired.items()} for step in result.report.steps]
