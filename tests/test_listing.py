"""Lists that are taken apart: `q, *rest = split(x, n)`, and slices whose bounds are nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from small_rules import traced
from test_lists import A, B, called, candidates
from torch import Tensor, nn

import fxrules

FIRST = """rule first(y: float[B, D, *S]) {
  match    { q, *rest = split(y, n, dim=1)  return relu(q) }
  where    len(rest) == 0 or all([users(r) == 0 for r in rest]), "other pieces are needed"
  rewrite  relu(slice(y, 1, 0, n))
  numerics bitwise
}""".replace("float[B, D, *S]", "float[B, D, *S], n: int")


def _pieces(number: int) -> Callable[[Tensor], Any]:
    def function(y: Tensor) -> Any:
        pieces = torch.split(y, 1, dim=1)
        return tuple(F.relu(piece) if at == 0 else piece for at, piece in enumerate(pieces[:number]))

    return function


def test_a_starred_target_is_the_list_of_the_other_pieces() -> None:
    results = {}
    for number in (1, 3):
        program = torch.export.export(_Function(_pieces(number)), (A,))
        result = fxrules.rewrite(program.module(), fxrules.load(text=FIRST))
        results[number] = dict(result.report.fired)
        assert all(map(torch.equal, result.model(A), _pieces(number)(A)))
        assert number == 1 or "inner value `split` is also read by `getitem_1`" in str(result.report)
    assert results == {1: {"text.first": 1}, 3: {}}


class _Function(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Any:
        return self.function(x)


@pytest.mark.parametrize(
    ("match", "said"),
    [
        ("{ q, *rest, z = split(x, 2) return q - z }", "a target behind `*rest` is not supported"),
        ("{ q, *rest = split(x, 2) return cat([q, *rest]) }", "the starred target `*rest` inside the match"),
    ],
)
def test_starred_targets_that_cannot_be_matched(match: str, said: str) -> None:
    with pytest.raises(fxrules.FxrulesError, match=said.replace("*", r"\*")):
        fxrules.load(text=f"rule r(x: Tensor) {{ match {match} where len(rest) > 0 rewrite x }}")


def test_bounds_of_a_slice_that_are_nodes() -> None:
    text = "rule r(x: float[...], n: int) { match relu(x[:, 0:n]) rewrite relu(x)[:, 0:n] changes aliasing, strides }"
    views = traced(lambda x, y: x[y.size(0) : y.size(1)], None)
    assert candidates("rule r(x, a, b) { match x[a:b] }", views)[0].startswith("getitem: ['a=size', 'b=size_1', 'x=x']")
    module = torch.fx.symbolic_trace(lambda x, y: F.relu(x[:, 0 : y.size(0)]))
    result = fxrules.rewrite(module, fxrules.load(text=text), (A, B))
    assert called(result.model) == ["size", "relu", "getitem", "contiguous"]
    assert torch.equal(result.model(A, B), F.relu(A[:, :2]))
