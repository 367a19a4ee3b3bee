"""`x > 0` in graph code: an op in a match and in a rewrite, a question where only numbers are compared."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch
from small_rules import load, traced
from torch import Tensor

import fxrules
from fxrules.engine import matching, reference

X = torch.tensor([-1.0, 0.0, 0.5, 2.0])
OPS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "==": (operator.eq, torch.eq),
    "!=": (operator.ne, torch.ne),
    "<": (operator.lt, torch.lt),
    "<=": (operator.le, torch.le),
    ">": (operator.gt, torch.gt),
    ">=": (operator.ge, torch.ge),
}


def _negated(function: Callable[..., Any]) -> Callable[[Tensor], Tensor]:
    return lambda x: torch.logical_not(function(x, 0.5))


def _times(factor: float) -> Callable[[Tensor], Tensor]:
    return lambda x: x * factor


@pytest.mark.parametrize("symbol", OPS)
def test_every_spelling_of_a_comparison_is_found(symbol: str) -> None:
    (rule,) = load(f"rule r(x: Tensor) {{ match logical_not(x {symbol} 0.5) }}")
    for function in OPS[symbol]:
        views = traced(_negated(function), (4,))
        for node in views.graph.nodes:
            found = list(matching.candidates(rule, node, views))
            assert found == list(reference.candidates(rule, node, views))
            assert len(found) == (node.name == "logical_not")


@pytest.mark.parametrize("symbol", OPS)
def test_a_comparison_in_a_rewrite_is_an_op(symbol: str) -> None:
    rules = fxrules.load(
        text=f'rule r(x: float[...]) {{ match neg(x) rewrite to(x {symbol} 0.5, f32) numerics differs "" }}'
    )

    def forward(x: Tensor) -> Tensor:
        return -x

    for module in (torch.fx.symbolic_trace(forward), torch.export.export(_Module(), (X,)).module()):
        result = fxrules.rewrite(module, rules, (X,), numerics="differs")
        assert result.model(X).tolist() == OPS[symbol][0](X, 0.5).float().tolist()


class _Module(torch.nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return -x


def test_numbers_are_compared_at_rewrite_time() -> None:
    text = "rule r(x: float[...], n: number) { match x * n rewrite gelu(x, approximate='tanh' if n > 2 else 'none') }"
    rules = fxrules.load(text=text.replace("'", '"').replace(" }", ' numerics differs "" }'))
    for factor, approximate in ((3.0, "tanh"), (1.0, "none")):
        module = torch.fx.symbolic_trace(_times(factor))
        result = fxrules.rewrite(module, rules, (X,), numerics="differs")
        torch.testing.assert_close(result.model(X), torch.nn.functional.gelu(X, approximate=approximate))


def test_equality_commutes_and_order_does_not() -> None:
    for text, count in (("2.0 == x", 1), ("2.0 < x", 0)):
        (rule,) = load(f"rule r(x: Tensor) {{ match {text} }}")
        views = traced(lambda x: torch.eq(x, 2.0), (4,)) if count else traced(lambda x: torch.lt(x, 2.0), (4,))
        found = [one for node in views.graph.nodes for one in matching.candidates(rule, node, views)]
        assert found == [one for node in views.graph.nodes for one in reference.candidates(rule, node, views)]
        assert len(found) == count
