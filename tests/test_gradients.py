"""Replacements that would cut parameters off from their gradients are refused."""

from __future__ import annotations

import pytest
import torch
from sites import done, refused, rule_of, site_of
from torch import Tensor, nn
from torch.export import export
from torch.fx import symbolic_trace

RULE = "rule r(x: f32[N, M]) { match x / x rewrite %s numerics rounding except nan%s }"
X = torch.rand(3, 4) + 1


class Learns(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        y = self.linear(x)
        return torch.tanh(y / y)


@pytest.mark.parametrize("level", ["torch", "aten"])
@pytest.mark.parametrize("rewrite", ["ones_like(x)", "x.detach() / x.detach()", "relu(ones_like(x) * 2) / 2"])
def test_a_value_without_gradient_does_not_replace_one_with(level: str, rewrite: str) -> None:
    model = Learns()
    site = site_of(symbolic_trace(model), (X,)) if level == "torch" else site_of(export(model, (X,)).module())
    outcome = refused(site, RULE % (rewrite, ""))
    source = "linear" if level == "torch" else "linear_bias"
    assert outcome.kind == "interface"
    assert outcome.reason == f"`{source}` would get no gradient through the new value; the rule needs `except gradient`"


@pytest.mark.parametrize(
    ("rewrite", "waiver"),
    [("ones_like(x)", ", gradient"), ("ones_like(x) + (x - x)", ""), ("exp(log(x) - log(x))", "")],
)
def test_the_waiver_or_any_way_through_is_enough(rewrite: str, waiver: str) -> None:
    done(site_of(symbolic_trace(Learns()), (X,)).rewrite(rule_of(RULE % (rewrite, waiver))))


def test_where_nothing_learns_nothing_is_lost() -> None:
    model = Learns().requires_grad_(False)
    for site in (site_of(symbolic_trace(model), (X,)), site_of(export(model, (X,)).module())):
        done(site.rewrite(rule_of(RULE % ("ones_like(x)", ""))))
