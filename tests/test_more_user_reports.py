"""More of what users of other rewriters report: shapes, order, reasons; the table is in `user_reports`."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from sites import calls
from torch import Tensor, nn
from torch.fx import symbolic_trace

import fxrules
from fxrules.engine.matching import compile_rule

X = torch.linspace(-2, 2, 12).view(3, 4)
STD = fxrules.load("std")


class Function(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Any:
        return self.function(x)


def rewritten(text: str, function: Callable[[Tensor], Any], x: Tensor = X, **options: Any) -> Any:
    """The result of a rewrite that gives the same numbers."""
    result = fxrules.rewrite(Function(function), fxrules.load(text=text), (x,), **options)
    assert bool(result.compare((x,)))
    return result


def fired(result: Any) -> int:
    return sum(result.report.fired.values())


# ----------------------------------------------------------------------- shapes
def test_a_replacement_is_computed_from_matched_shapes() -> None:
    text = """rule r(x: float[N, M]) {
      match mean(x, dim=[0, 1]) let scale = 1 / (N * M) rewrite sum(x, dim=[0, 1]) * scale }"""
    for shape in ((3, 4), (2, 8), (1, 1)):
        result = rewritten(text, lambda x: x.mean(dim=(0, 1)), torch.randn(shape))
        (factor,) = (node.args[1] for node in result.model.graph.nodes if node.name.startswith("mul"))
        assert factor == 1 / (shape[0] * shape[1])


def test_reshape_in_a_pattern_matches_reshape() -> None:
    text = "rule r(x: float[N, M]) { match reshape(exp(x), [N * M]) rewrite exp(reshape(x, [N * M])) }"
    for capture in ("trace", "export"):
        assert fired(rewritten(text, lambda x: torch.exp(x).reshape(12), capture=capture)) == 1
    viewed = "rule r(x: float[N, M]) { match view(exp(x), [N * M]) rewrite exp(view(x, [N * M])) }"
    assert fired(rewritten(viewed, lambda x: torch.exp(x).view(12), capture="trace")) == 1


SPLIT = """rule r(x: float[...], n: int, d: int) {
  match { a, b = split(x, n, dim=d) return cat([a, b], dim=d) }
  rewrite x changes aliasing, strides numerics bitwise }"""


@pytest.mark.parametrize(
    ("function", "times"),
    [
        (lambda x: torch.cat(x.split(2, dim=1), dim=1), 1),
        (lambda x: torch.cat([(p := x.split(2, dim=1))[0], p[1]], dim=1), 1),
        (lambda x: torch.cat([(p := x.split(2, dim=1))[1], p[0]], dim=1), 0),
        (lambda x: torch.cat([(p := x.split(2, dim=1))[0], p[0]], dim=1), 0),
        (lambda x: torch.cat(x.split(2, dim=1), dim=0), 0),
    ],
    ids=["all", "in order", "swapped", "one twice", "another dim"],
)
def test_pieces_in_another_order_are_not_put_together(function: Callable[[Tensor], Tensor], times: int) -> None:
    assert fired(rewritten(SPLIT, lambda x: torch.exp(function(x)))) == times


def test_a_sum_that_broadcasts_is_not_fused() -> None:
    text = """rule r(a: float[M, K], b: float[K, N], c: float[M, L], d: float[L, N]) {
      match mm(a, b) + mm(c, d) rewrite mm(cat([a, c], dim=1), cat([b, d], dim=0)) }"""
    for rows, times in ((3, 1), (1, 0)):
        result = rewritten(text, lambda x, rows=rows: torch.mm(x, x.t()) + torch.mm(x[:rows], x.t()))  # type: ignore[misc]
        assert fired(result) == times


def test_no_dtype_is_left_out_unless_the_rule_says_so() -> None:
    with torch.library._scoped_library("fxr_reports", "DEF") as library:
        library.define("double(Tensor x) -> Tensor")
        library.impl("double", lambda x: x + x, "CompositeExplicitAutograd")
        text = "rule r(x: Tensor) { match fxr_reports.double(x) rewrite x + x numerics bitwise }"
        for dtype in (
            torch.float16,
            torch.bfloat16,
            torch.float64,
            torch.int8,
            torch.uint8,
            torch.int64,
            torch.complex64,
        ):
            assert fired(rewritten(text, lambda x: torch.ops.fxr_reports.double(x), torch.ones(3, dtype=dtype))) == 1


def test_an_argument_called_out_is_no_write() -> None:
    with torch.library._scoped_library("fxr_reports", "DEF") as library:
        library.define("mix(Tensor x, Tensor out) -> Tensor")
        library.impl("mix", lambda x, out: x * 2 + out, "CompositeExplicitAutograd")
        text = "rule r(x: float[...], y: float[...]) { match fxr_reports.mix(x, y) rewrite x * 2 + y }"
        function = lambda x: torch.ops.fxr_reports.mix(x, out=x.exp())  # noqa: E731
        result = rewritten(text, function)
        assert calls(result.model.graph)[1:] == ["exp.default", "mul.Tensor", "add.Tensor"]
        between = "rule r(x: float[...]) { match neg(relu(x)) rewrite clamp(neg(x), max=0.0) }"

        def straddling(x: Tensor) -> Tensor:
            y = torch.relu(x)
            z = torch.ops.fxr_reports.mix(x, out=x)
            result: Tensor = torch.neg(y) + z
            return result

        assert fired(rewritten(between, straddling)) == 1


# ------------------------------------------------------------------------ order
def test_a_mask_is_added_in_either_order() -> None:
    mask = torch.zeros(6, 6).masked_fill(torch.ones(6, 6).triu(1).bool(), float("-inf"))

    def attention(x: Tensor, *, first: bool) -> Tensor:
        q, k, v = x.chunk(3, dim=-1)
        scores = q @ k.transpose(-2, -1) * 0.5
        y: Tensor = torch.softmax(mask + scores if first else scores + mask, dim=-1) @ v
        return y

    x = torch.randn(2, 2, 6, 12)
    for first, trace in itertools.product((True, False), (True, False)):
        model = Function(lambda x, first=first: attention(x, first=first))
        result = fxrules.rewrite(model, STD, (x,), capture="trace" if trace else "export")
        assert result.report.fired["std.attention.sdpa"] == 1 and bool(result.compare((x,)))


def _gelu(x: Tensor, swap: Callable[[], bool]) -> Tensor:
    """The tanh formula, each of its six commutative operations in a random order."""

    def add(a: Any, b: Any) -> Any:
        return b + a if swap() else a + b

    def mul(a: Any, b: Any) -> Any:
        return b * a if swap() else a * b

    inner = mul(0.7978845608028654, add(x, mul(0.044715, x**3)))
    result: Tensor = mul(mul(0.5, x), add(1, torch.tanh(inner)))
    return result


def test_every_order_of_a_gelu_is_one_rule() -> None:
    (rule,) = (one for one in STD if one.name == "std.activation.gelu_tanh")
    assert compile_rule(rule) is compile_rule(rule)
    draw = random.Random(0)
    for _ in range(24):
        model = symbolic_trace(Function(lambda x: _gelu(x, lambda: draw.random() < 0.5)))
        result = fxrules.rewrite(model, rule, (X,))
        assert calls(result.model.graph) == ["gelu"] and bool(result.compare((X,)))


# ---------------------------------------------------------------------- reasons
def test_a_refusal_names_node_and_condition() -> None:
    text = 'rule r(x: float[...], p: number) { match x * p where p > 1, "the factor must be above 1" rewrite x }'
    report = fxrules.rewrite(Function(lambda x: torch.exp(x) * 0.5), fxrules.load(text=text), (X,)).report
    refused = [(one.kind, one.reason, one.node) for one in report["r"].refused]
    assert ("where", "the factor must be above 1", "mul") in refused
    assert "where: the factor must be above 1 (at `mul`)" in str(report)
    like = "rule r(x: float[...]) { match empty_like(x) rewrite x }"
    empty = fxrules.rewrite(Function(lambda x: torch.empty((3, 4)) * 0 + x), fxrules.load(text=like), (X,))
    assert fired(empty) == 0, "`empty` is not `empty_like`"


@pytest.mark.parametrize(
    ("text", "place", "code"),
    [
        ("rule r(x: Tensor, y: Tensor) { match relu(x) rewrite x }", "<text>:1:19", "unused"),
        ("rule r(x: Tensor) { match relu(x) rewrite x + y }", "<text>:1:47", "unbound"),
    ],
)
def test_a_leaf_that_is_not_matched_is_refused_when_loaded(text: str, place: str, code: str) -> None:
    with pytest.raises(fxrules.FxrulesError) as caught:
        fxrules.load(text=text)
    assert str(caught.value).startswith(place) and f"[{code}]" in str(caught.value)
