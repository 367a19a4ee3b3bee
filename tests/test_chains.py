"""Patterns that hold themselves, up to a limit; and templates over ops that move a dim."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from small_rules import load, output, traced
from test_lists import A, bound, called, candidates
from torch import Tensor

import fxrules
from fxrules.dsl.formatter import format_file
from fxrules.dsl.parser import parse_text
from fxrules.engine import matching, reference

CHAIN = "pattern chain(x) limit 3 = relu(chain(x)) or relu(x) "
SHORTEST = "pattern chain(x) limit 3 = relu(x) or relu(chain(x)) "
SCALED = "pattern scaled(x) limit 4 = scaled(x) * s or x "
SUMS = "pattern sums(x) limit 2 = tanh(x) or sums(x) + sums(x) "
MUTUAL = "pattern even(x) = relu(odd(x)) or x  pattern odd(x) limit 2 = tanh(even(x)) "


def _relus(number: int) -> Any:
    def function(a: Tensor) -> Tensor:
        for _ in range(number):
            a = F.relu(a)
        return -a

    return function


@pytest.mark.parametrize(
    ("text", "function", "expected"),
    [
        (CHAIN + "rule r(x) { match neg(chain(x)) }", _relus(2), ["x=a", "x=relu"]),
        (SHORTEST + "rule r(x) { match neg(chain(x)) }", _relus(2), ["x=relu", "x=a"]),
        (CHAIN + "rule r(x) { match neg(chain(tanh(x))) }", _relus(3), []),
        (CHAIN + "rule r(x) { match neg(chain(x)) }", _relus(5), ["x=relu_1", "x=relu_2", "x=relu_3"]),
        (CHAIN + "rule r(x) { match neg(chain(chain(x))) }", _relus(2), ["x=a"]),
        (SCALED + "rule r(x) { match neg(scaled(tanh(x))) }", lambda a, b: -(torch.tanh(a) * b * 2), ["x=a"]),
        (SUMS + "rule r(x) { match sums(x) }", lambda a: (lambda t: t + t)(torch.tanh(a)), ["x=a", "x=a"]),
        (SUMS + "rule r(x) { match sums(x) }", lambda a: (lambda t: (t + t) + t)(torch.tanh(a)), []),
        (
            MUTUAL + "rule r(x) { match even(x) }",
            lambda a: F.relu(torch.tanh(F.relu(torch.tanh(a)))),
            ["x=a", "x=relu"],
        ),
        (
            CHAIN + "rule r() { match cat([*chain(xs)]) }",
            lambda a, b: torch.cat([a.relu(), b.relu().relu()]),
            ["xs=(a, b)"],
        ),
    ],
    ids=[
        "longest first",
        "shortest first",
        "other end",
        "limit",
        "twice",
        "own names",
        "tree",
        "deeper tree",
        "mutual",
        "in a list",
    ],
)
def test_a_recursive_pattern(text: str, function: Any, expected: list[str]) -> None:
    assert bound(text, function) == expected


def test_the_deepest_limit_fits_the_stack() -> None:
    text = "pattern chain(x) limit 32 = relu(chain(x)) or relu(x) rule r(x) { match neg(chain(x)) }"
    views = traced(_relus(40), None)
    for matcher in (reference.candidates, matching.candidates):
        first = next(iter(matcher(load(text)[-1], output(views), views)))
        assert len(first.nodes) == 33


def test_numbers() -> None:
    text = CHAIN + "rule one(x: float[...]) { match relu(chain(x)) rewrite relu(x) numerics bitwise }"
    module = torch.fx.symbolic_trace(_relus(7))
    result = fxrules.rewrite(module, fxrules.load(text=text), (A,))
    assert called(result.model) == ["relu", "neg"] and torch.equal(result.model(A), _relus(7)(A))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("pattern chain(x) = relu(x) or relu(chain(x))", r"holds itself.*\n?(.*\n)*.*limit 8"),
        ("pattern chain(x) limit 33 = relu(chain(x)) or x", "a limit is a whole number from 1 to 32, not `33`"),
        ("pattern chain(x) limit 0 = relu(chain(x)) or x", "from 1 to 32, not `0`"),
        ("pattern t(x) limit 32 = t(x) + t(x) or x", "grows to more than 10000 parts"),
    ],
)
def test_what_is_refused(text: str, said: str) -> None:
    with pytest.raises(fxrules.FxrulesError, match=said):
        fxrules.load(text=text + " rule r(x: Tensor) { match neg(neg(x)) rewrite x changes aliasing, strides }")


def test_the_text_comes_back() -> None:
    text = "pattern chain(x) limit 16 = relu(chain(x))\n                         or relu(x)\n"
    assert parse_text(format_file(parse_text(text))) == parse_text(text)
    assert "limit 16 = " in format_file(parse_text(text))


# ----------------------------------------------------------------- templates
AFTER = """opset pointwise_unary = relu, neg, exp, tanh, sigmoid, gelu, silu
rule transpose_after[f in pointwise_unary](x: Tensor, a: int, b: int) {
  match    f(transpose(x, a, b))
  rewrite  transpose(f(x), a, b)
  numerics bitwise
  changes  strides
  shrinks  depth(transpose)
}"""


@pytest.mark.parametrize("level", ["torch", "aten"])
@pytest.mark.parametrize(("name", "dims"), [("tanh", (1, 2)), ("relu", (-1, 1)), ("gelu", (-1, -3)), ("exp", (0, -1))])
def test_a_template_moves_a_transpose(name: str, dims: tuple[int, int], level: str) -> None:
    op = getattr(torch, name, None) or getattr(F, name)

    def function(x: Tensor) -> Tensor:
        moved: Tensor = op(x.transpose(*dims))
        return moved + 1

    module: Any = torch.fx.symbolic_trace(function)
    if level == "aten":
        module = torch.export.export(module, (A,)).module()
    result = fxrules.rewrite(module, fxrules.load(text=AFTER), (A,))
    fired = {rule: count for rule, count in result.report.fired.items() if count}
    assert fired == {f"text.transpose_after[{name}]": 1}, str(result.report)
    torch.testing.assert_close(result.model(A), function(A), rtol=1e-6, atol=1e-6)  # gelu rounds by strides
    order = [one for one in called(result.model) if one in (name, "transpose", "add")]
    assert order == [name, "transpose", "add"]


def _transposed(dims: tuple[int, int]) -> Any:
    return lambda x: torch.tanh(x.transpose(*dims))


def test_dims_are_captured_as_they_are_where_the_rank_is_known() -> None:
    text = AFTER.replace("  shrinks", "  where    a == 1 and b == 2\n  shrinks")
    for dims, fires in (((-2, -1), 1), ((1, -1), 1), ((-1, -2), 1), ((0, -1), 0)):
        module = torch.fx.symbolic_trace(_transposed(dims))
        result = fxrules.rewrite(module, fxrules.load(text=text), (A,))
        assert sum(result.report.fired.values()) == fires, dims
        assert torch.equal(result.model(A), torch.tanh(A.transpose(*dims)))


def test_a_literal_given_to_a_pattern_is_rounded_by_the_op_it_meets() -> None:
    text = "pattern scaled(x) = y * x rule r(v) { match scaled(0.7978845607978846 * v?) }"
    found = candidates(text, traced(lambda a: a * 0.79788456))
    assert found == ["mul: [] covers ['mul'] if []"]
