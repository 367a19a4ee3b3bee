"""``flat add(*xs)``: a sum or product of any nesting as one list, in both matchers, with numbers compared."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from small_rules import load, output, traced
from test_lists import A, B, C, bound, called, candidates
from torch import Tensor

import fxrules
from fxrules.dsl.formatter import format_file
from fxrules.dsl.parser import parse_text
from fxrules.engine import matching
from fxrules.engine.nodeview import Views

ALL = "rule r() { match flat add(*xs) }"
PATTERNS: dict[str, tuple[str, Callable[..., Any], list[str]]] = {
    "left": (ALL, lambda a, b, c: (a + b) + c, ["xs=(a, b, c)"]),
    "right": (ALL, lambda a, b, c: a + (b + c), ["xs=(a, b, c)"]),
    "both, spelled in any way": (
        ALL,
        lambda a, b, c: torch.add(a + b, c.add(2.0)),
        ["xs=(a, b, c, float 2.0)"],
    ),
    "two": (ALL, lambda a, b: a + b, ["xs=(a, b)"]),
    "no sum": (ALL, lambda a, b: a - b, []),
    "alpha is no plain sum": (ALL, lambda a, b, c: torch.add(a, b + c, alpha=2), []),
    "alpha inside": (ALL, lambda a, b, c: torch.add(a, b, alpha=2) + c, ["xs=(add, c)"]),
    "read elsewhere": (ALL, lambda a, b, c: (lambda s: s + (c + torch.relu(s)))(a + b), ["xs=(add, c, relu)"]),
    "the same sum twice": (ALL, lambda a, b: (lambda s: s + s)(a + b), ["xs=(a, b, a, b)"]),
    "another op between": (ALL, lambda a, b, c: (a * b + c) + a, ["xs=(mul, c, a)"]),
    "products": ("rule r() { match flat mul(*xs) }", lambda a, b, c: (a * b) * (c * 2), ["xs=(a, b, c, int 2)"]),
    "every operand": (
        "rule r() { match flat add(*relu(xs)) }",
        lambda a, b: (a.relu() + b.relu()) + a.relu(),
        ["xs=(a, b, a)"],
    ),
    "not every operand": ("rule r() { match flat add(*relu(xs)) }", lambda a, b: (a.relu() + b) + a.relu(), []),
    "named, and the rest in order": (
        "rule r(x) { match flat add(relu(x), *rest) }",
        lambda a, b, c: (a + b.relu()) + (c.relu() + 1),
        ["x=b, rest=(a, relu_1, int 1)", "x=c, rest=(a, relu, int 1)"],
    ),
    "two named": (
        "rule r(x, y) { match flat add(relu(x), tanh(y), *rest) }",
        lambda a, b, c: (c.tanh() + a) + b.relu(),
        ["x=b, y=c, rest=(a)"],
    ),
    "no rest allowed": ("rule r(x, y) { match flat add(relu(x), y) }", lambda a, b: (a + b) + b.relu(), []),
    "no rest": ("rule r(x, y, z) { match flat add(relu(x), y, 1) }", lambda a, b: (1 + a) + b.relu(), ["x=b, y=a"]),
    "a number among them": (
        "rule r(n) { match flat mul(2, *xs) }".replace("(n)", "()"),
        lambda a, b: a * (b * 2),
        ["xs=(a, b)"],
    ),
    "inside another pattern": (
        "rule r(y) { match neg(flat add(y * 2, *xs)) }",
        lambda a, b, c: -(a + (b * 2 + c)),
        ["xs=(a, c), y=b"],
    ),
}


@pytest.mark.parametrize("name", PATTERNS)
def test_a_sum_as_a_list(name: str) -> None:
    text, function, expected = PATTERNS[name]
    assert [",".join(sorted(one.split(", "))) for one in bound(text, function)] == [
        ",".join(sorted(one.split(", "))) for one in expected
    ]


def test_what_is_covered_is_the_whole_sum() -> None:
    (found,) = candidates(ALL, traced(lambda a, b, c: (a + b) + (c + a), None))
    assert "covers ['add_2', 'add', 'add_1']" in found


def test_a_sum_ends_where_the_dtype_changes() -> None:
    """(i64 + i64) + f32 rounds once; i64 + (i64 + f32) would round twice."""
    module = torch.fx.symbolic_trace(lambda a, b, c: (a + b) + (c + 1.0))
    for node in module.graph.nodes:
        dtype = torch.int64 if node.name in ("a", "b", "add") else torch.float32
        node.meta["val"] = torch.empty(2, dtype=dtype, device="meta")
    views = Views(module.graph, module)
    assert "xs=(add, add_1)" in candidates(ALL, views)[0]
    for node in module.graph.nodes:
        node.meta["val"] = torch.empty(2, dtype=torch.float16, device="meta")
    assert "xs=(a, b, c, float 1.0)" in candidates(ALL, Views(module.graph, module))[0]


def test_a_long_sum_takes_no_deep_recursion() -> None:
    def function(a: Tensor) -> Tensor:
        for _ in range(2000):
            a = a + 1
        return a

    views = traced(function, None)
    (one,) = matching.candidates(load(ALL)[-1], output(views), views)
    assert len(one.nodes) == 2000


STACKED = """rule stacked(*xs: float[...]) {
  match    flat add(*xs)
  where    len(xs) > 2 and same_shape(xs)
  rewrite  sum(stack([*xs], dim=0), dim=[0])
  numerics rounding
}"""
LAST = """rule last(x: float[...]) {
  match    flat add(relu(x), *rest)
  where    len(rest) > 1
  rewrite  add(*rest) + softplus(x)
  numerics differs "another activation"
}"""
EXPS = """rule exps(*xs: float[...]) {
  match    flat mul(*exp(xs))
  rewrite  exp(add(*xs))
  numerics rounding
}"""


@pytest.mark.parametrize("level", ["torch", "aten"])
@pytest.mark.parametrize(
    ("text", "function", "wanted", "calls"),
    [
        (STACKED, lambda a, b, c: a + (b + (c + a)), None, ["stack", "sum"]),
        (LAST, lambda a, b, c: (a + b.relu()) + c, lambda a, b, c: (a + c) + F.softplus(b), ["add", "softplus", "add"]),
        (EXPS, lambda a, b, c: a.exp() * (b.exp() * c.exp()), None, ["add", "add", "exp"]),
    ],
    ids=["stacked", "last", "exps"],
)
def test_numbers(text: str, function: Any, wanted: Any, calls: list[str], level: str) -> None:
    module: Any = torch.fx.symbolic_trace(function)
    if level == "aten":
        module = torch.export.export(module, (A, B, C)).module()
    result = fxrules.rewrite(module, fxrules.load(text=text), (A, B, C), numerics="differs")
    torch.testing.assert_close(result.model(A, B, C), (wanted or function)(A, B, C), rtol=1e-5, atol=1e-5)
    assert [name for name in called(result.model) if name != "_guards_fn"] == calls, str(result.report)


def test_a_fold_of_nothing_is_refused() -> None:
    text = """rule r(x: float[...], y: float[...]) { match flat add(relu(x), tanh(y), *rest)
      rewrite add(*rest) numerics differs "test" }"""
    module = torch.fx.symbolic_trace(lambda a, b: a.relu() + b.tanh())
    report = fxrules.rewrite(module, fxrules.load(text=text), (A, B), numerics="differs").report
    assert "`add` of an empty list has no value" in str(report)


@pytest.mark.parametrize(
    ("match", "said"),
    [
        ("flat sub(*xs)", "`sub` has no list of operands that `flat` could see"),
        ("flat add(x, *xs, *ys)", "`flat` takes one starred operand"),
        ("flat add(x)", "`flat` needs two operands or a starred one"),
        ("flat add(x, alpha=2)", "`flat` takes operands by place"),
    ],
)
def test_what_flat_cannot_be(match: str, said: str) -> None:
    with pytest.raises(fxrules.FxrulesError, match=said):
        fxrules.load(text=f"rule r(x: Tensor) {{ match {match} rewrite x }}")


def test_flat_is_a_word_before_a_call_only() -> None:
    text = "rule r(flat: Tensor) {\n  match    relu(flat) + flat add(flat, *xs)\n  rewrite  flat\n}\n"
    assert format_file(parse_text(text)) == text
    with pytest.raises(fxrules.FxrulesError, match=r"folds a list from the left"):
        fxrules.load(text="rule r(x: Tensor) { match relu(x) rewrite flat add(x, x) }")


_ITEMS = (
    "*xs",
    "*_",
    "*relu(xs)",
    "*(relu(xs) or xs)",
    "*(xs * s)",
    "x",
    "relu(x)",
    "tanh(y)",
    "1",
    "x * x",
    "flat mul(x, *ys)",
)


def test_both_matchers_find_the_same_in_sums() -> None:
    hits = 0
    for seed in range(500):
        random = Random(seed)
        op = random.choice(("add", "mul"))
        items = random.sample(_ITEMS[5:], random.choice((0, 1, 2))) + random.choice(([], [random.choice(_ITEMS[:5])]))
        views = _drawn(random)
        hits += bool(candidates(f"rule r(x, y, s) {{ match flat {op}({', '.join(items or ['*xs'])}) }}", views))
    assert hits > 40


def _drawn(random: Random) -> Views:
    def function(a: Tensor, b: Tensor, c: Tensor) -> Any:
        values: list[Any] = [a, b, c]
        for _ in range(random.randint(2, 7)):
            x, y = random.choice(values), random.choice([*values[-3:], values[-1], 1])
            kinds: list[Any] = [
                lambda x, y: x + y,
                lambda x, y: x * y,
                lambda x, y: torch.relu(x),
                lambda x, y: torch.add(x, y, alpha=2),
            ]
            values.append(random.choices(kinds, (8, 5, 3, 1))[0](x, y))
        return values[-1]

    module = torch.fx.symbolic_trace(function)
    for node in module.graph.nodes:
        if random.random() < 0.8:
            node.meta["val"] = torch.empty(
                2, dtype=random.choice((torch.float32,) * 6 + (torch.float16,)), device="meta"
            )
    return Views(module.graph, module)
