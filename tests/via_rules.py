"""Models and rules for tests of `rewrite via`; the helpers are those of `via_helpers`."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

import fxrules
from fxrules import Result, RuleSet

ROTARY = """
rule rotary_half(q: float[B, H, S, D], cos: float[S, D], sin: float[S, D]) {
  match {
    h1  = q[..., 0 : D // 2]
    h2  = q[..., D // 2 : D]
    rot = cat([-h2, h1], dim=-1)
    return q * cos + rot * sin
  }
  rewrite via rotary(q, cos, sin)
  numerics rounding rtol=1e-5
}
"""
X = torch.linspace(-2, 2, 16).view(4, 4)


class Rotary(nn.Module):
    """The position encoding of a small Llama, on queries of 3 heads."""

    def forward(self, q: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        rotated = torch.cat([-q[..., 4:8], q[..., 0:4]], dim=-1)
        return torch.relu(q * cos + rotated * sin)


def tables(length: int) -> tuple[Tensor, Tensor]:
    angles = torch.outer(torch.arange(length), 10.0 ** -torch.arange(4.0))
    both = torch.cat([angles, angles], dim=-1)
    return both.cos(), both.sin()


ROTARY_INPUTS = (torch.randn(2, 3, 5, 8), *tables(5))


class Relu(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(torch.relu(x))


def helped(call: str, *, match: str = "relu(x)", header: str = "x: float[...]", clauses: str = "") -> RuleSet:
    """A rule whose replacement a helper builds."""
    name = call.partition("(")[0]
    text = f"""from via_helpers import {name}
rule r({header}) {{ match {match} {clauses} rewrite via {call} numerics differs "for the test" }}"""
    return fxrules.load(text=text, trust=["via_helpers"])


def rewritten(model: nn.Module, rules: RuleSet, *inputs: Tensor, capture: Any = "export", **options: Any) -> Result:
    return fxrules.rewrite(model, rules, inputs, capture=capture, numerics="differs", **options)


def refusal(result: Result) -> str:
    """Why the one rule did not fire; that the graph is what it was."""
    (rule,) = result.report.rules
    assert not rule.fired and result.report.nodes_before == result.report.nodes_after
    (one,) = rule.refused
    return f"{one.kind}: {one.reason}"
