"""Lists in patterns: a pattern for every element, rests around calls; numbers compared before and after."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
import torch.nn.functional as F
from small_rules import load, output, traced
from test_matching import described
from torch import Tensor, nn

import fxrules
from fxrules.engine import matching, reference
from fxrules.engine.nodeview import Views

A, B, C = (torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(seed)) for seed in range(3))


def candidates(text: str, views: Views) -> list[str]:
    """What both matchers find at the graph's result."""
    rule = load(text)[-1]
    found = [
        [described(one) for one in each(rule, output(views), views)]
        for each in (reference.candidates, matching.candidates)
    ]
    assert found[0] == found[1]
    return found[0]


def bound(text: str, function: Callable[..., Any]) -> list[str]:
    """The bindings of each candidate, the nodes left out."""
    return [
        one.partition("[")[2].partition("] covers")[0].translate({ord("'"): None, ord('"'): None})
        for one in candidates(text, traced(function, None))
    ]


class Written(NamedTuple):
    """A pattern, a function, and what the candidates at its result bind."""

    text: str
    function: Callable[..., Any]
    expected: list[str]


def _twice(function: Callable[[Tensor], Any], value: Tensor) -> Any:
    return function(value)


EACH: dict[str, Written] = {
    "all": Written(
        "rule r(d) { match cat([*relu(xs)], dim=d) }",
        lambda a, b: torch.cat([F.relu(a), b.relu()], 1),
        ["d=int 1, xs=(a, b)"],
    ),
    "one is no relu": Written("rule r() { match cat([*relu(xs)]) }", lambda a, b: torch.cat([F.relu(a), b]), []),
    "several names": Written(
        "rule r() { match cat([*(a - s)]) }",
        lambda a, b, c: torch.cat([a - c, b - 2]),
        ["a=(a, b), s=(c, int 2)"],
    ),
    "a declared name is one value": Written(
        "rule r(s) { match cat([*(a * s)]) }",
        lambda a, b, c: torch.cat([a * c, c * b, c * c]),
        ["a=(a, b, c), s=c"],
    ),
    "and must be equal": Written("rule r(s) { match cat([*(a * s)]) }", lambda a, b, c: torch.cat([a * b, c * c]), []),
    "the way that fits the others": Written(
        "rule r(s) { match cat([*(a * s)]) }",
        lambda a, b, c: torch.cat([c * a, b * c]),
        ["a=(a, b), s=c"],
    ),
    "one way where no name outside tells them apart": Written(
        "rule r() { match cat([*(a * s)]) }",
        lambda a, b, c: torch.cat([a * c, c * b]),
        ["a=(a, c), s=(c, b)"],
    ),
    "declared as a list": Written(
        "rule r(*xs: Tensor) { match cat([*xs.relu()]) }", lambda a: torch.cat([a.relu(), a.relu()]), ["xs=(a, a)"]
    ),
    "as": Written(
        "rule r() { match cat([*(relu(xs) as ys)]) }",
        lambda a, b: torch.cat([F.relu(a), F.relu(b)]),
        ["xs=(a, b), ys=(relu, relu_1)"],
    ),
    "a list used again": Written(
        "rule r() { match cat([*(relu(xs) as ys), *ys]) }",
        lambda a, b: (lambda r, s: torch.cat([r, s, r, s]))(F.relu(a), F.relu(b)),
        ["xs=(a, b), ys=(relu, relu_1)"],
    ),
    "the list first, then its elements": Written(
        "rule r() { match cat([*xs, *relu(xs)]) }",
        lambda a, b: torch.cat([a, b, F.relu(a), F.relu(b)]),
        ["xs=(a, b)"],
    ),
    "between rests, the longest run first": Written(
        "rule r() { match cat([*p, *relu(xs), tanh(y)]) } ".replace("r()", "r(y)"),
        lambda a, b: torch.cat([a, b.relu(), a.relu(), b.tanh()]),
        ["p=(a), xs=(b, a), y=b", "p=(a, relu), xs=(a), y=b", "p=(a, relu, relu_1), xs=(), y=b"],
    ),
    "lists of lists": Written(
        "rule r() { match cat([*cat([*xs])]) }",
        lambda a, b: torch.cat([torch.cat([a, b]), torch.cat([b])]),
        ["xs=((a, b), (b))"],
    ),
    "elements of elements": Written(
        "rule r() { match cat([*cat([*relu(xs)])]) }",
        lambda a, b: torch.cat([torch.cat([a.relu(), b.relu()]), torch.cat([b.relu()])]),
        ["xs=((a, b), (b))"],
    ),
    "a list of each": Written(
        "rule r() { match cat([*permute(xs, [*p])]) }",
        lambda a, b: torch.cat([a.permute(0, 2, 1), b.permute(0, 1, 2)]),
        ["p=((int 0, int 2, int 1), (int 0, int 1, int 2)), xs=(a, b)"],
    ),
    "a list that also stands outside": Written(
        "rule r(x) { match cat([permute(x, [*p]), *permute(xs, [*p])]) }",
        lambda a, b: torch.cat([a.permute(0, 2, 1), b.permute(0, 2, 1)]),
        ["p=(int 0, int 2, int 1), x=a, xs=(b)"],
    ),
    "cfg is the same in each": Written(
        "rule r() { match cat([*softmax(xs, **cfg)]) }",
        lambda a, b: torch.cat([a.softmax(1), b.softmax(1)]),
        ["cfg=**[(dim, int 1), (dtype, NoneType None)], xs=(a, b)"],
    ),
    "cfg differs": Written(
        "rule r() { match cat([*softmax(xs, **cfg)]) }", lambda a, b: torch.cat([a.softmax(1), b.softmax(2)]), []
    ),
    "alternatives": Written(
        "rule r() { match cat([*(relu(xs) or tanh(ys))]) }",
        lambda a, b: torch.cat([a.relu(), b.tanh()]),
        ["xs=(a, NoneType None), ys=(NoneType None, b)"],
    ),
    "a line of the block": Written(
        "rule r(x) { match { y = tanh(x) return cat([*(y * ys)]) } }",
        lambda a, b, c: _twice(lambda t: torch.cat([a * t, t * b]), torch.tanh(c)),
        ["x=c, y=tanh, ys=(a, b)"],
    ),
    "a named pattern for each": Written(
        "pattern act(x) = relu(x) or tanh(x) rule r() { match cat([*act(xs)]) }",
        lambda a, b: torch.cat([a.relu(), b.tanh()]),
        ["xs=(a, b)"],
    ),
    "in a named pattern": Written(
        "pattern scaled(x) = cat([*(x * y)]) rule r(x) { match scaled(tanh(x)) }",
        lambda a, b, c: _twice(lambda t: torch.cat([a * t, t * b]), torch.tanh(c)),
        ["x=c"],
    ),
    "none is enough": Written("rule r(x) { match cat([x, *relu(xs)]) }", lambda a: torch.cat([a]), ["x=a, xs=()"]),
    "not where a name outside needs one": Written(
        "rule r(x, s) { match cat([x, *(a * s)]) }", lambda a: torch.cat([a]), []
    ),
    "none in an empty index": Written(
        "rule r() { match permute(_, [*p, *relu(q)]) }", lambda a: a.permute(0, 2, 1), ["p=(int 0, int 2, int 1), q=()"]
    ),
}


@pytest.mark.parametrize("name", EACH)
def test_a_pattern_for_every_element(name: str) -> None:
    text, function, expected = EACH[name]
    assert bound(text, function) == expected


def test_a_long_list_takes_no_deep_recursion_and_no_time() -> None:
    """300 products have 2 ** 300 ways to be read; only the compiled matcher has to cope."""

    def function(a: Tensor, b: Tensor) -> Tensor:
        return torch.cat([a * b for _ in range(300)])

    views = traced(function, None)
    for text in ("rule r() { match cat([*(x * y)], dim=1) }", "rule r(y) { match cat([*(x * y)], dim=1) }"):
        assert list(matching.candidates(load(text)[-1], output(views), views)) == []
    (one,) = matching.candidates(load("rule r() { match cat([*(x * y)]) }")[-1], output(views), views)
    assert len(one.nodes) == 301


# ------------------------------------------------------------------ replacing
SINK = """rule sink(d: int) {
  match    cat([*relu(xs)], dim=d)
  where    len(xs) > 1
  rewrite  relu(cat([*xs], dim=d))
  numerics bitwise
  shrinks  count(relu)
}"""
RAISE = """rule raise(d: int) {
  match    relu(cat([*xs], dim=d))
  rewrite  cat([*relu(xs)], dim=d)
  numerics bitwise
}"""
FACTOR = """rule factor(s: float[], d: int) {
  match    cat([*(xs * s)], dim=d)
  where    same_dtype(xs)
  rewrite  cat([*xs], dim=d) * s
  numerics bitwise
}"""
PAIRS = """rule pairs(*xs: Tensor, *ws: number, d: int) {
  match    cat([*relu(xs * ws)], dim=d)
  where    all([w > 0 for w in ws]) and len(xs) > 1
  rewrite  cat([*(relu(xs) * ws)], dim=d)
  numerics rounding
}"""
INNER = """rule inner(d: int) {
  match    cat([*pre, cat([*relu(mid)], dim=d), *post], dim=d)
  rewrite  cat([*pre, relu(cat([*mid], dim=d)), *post], dim=d)
  numerics bitwise
}"""
NESTED = """rule nested(d: int, e: int) {
  match    cat([*cat([*relu(xs)], dim=e)], dim=d)
  rewrite  cat([*relu(cat([*xs], dim=e))], dim=d)
  numerics bitwise
}"""
STACKS = """rule stacks() {
  match    stack([*linear(xs, ws)], dim=0)
  where    len(xs) > 1 and same_shape(xs) and same_shape(ws) and xs[0].ndim == 2
  rewrite  bmm(stack([*xs], dim=0), stack([*ws.mT], dim=0))
  numerics rounding
}"""

CHANGED: dict[str, tuple[str, Callable[..., Any], list[str]]] = {
    "sunk": (SINK, lambda a, b, c: torch.cat([F.relu(a), b.relu(), F.relu(c)], -1), ["cat", "relu"]),
    "raised": (RAISE, lambda a, b: F.relu(torch.cat([a, b], 1)), ["relu", "relu", "cat"]),
    "a common factor": (
        FACTOR,
        lambda a, b, c: torch.cat([a * c.sum(), c.sum() * b], 1),
        ["sum", "mul", "sum", "mul", "cat"],
    ),
    "the same factor": (
        FACTOR,
        lambda a, b, c: _twice(lambda s: torch.cat([a * s, s * b], 1), c.sum()),
        ["sum", "cat", "mul"],
    ),
    "walked together": (
        PAIRS,
        lambda a, b: torch.cat([F.relu(a * 2.0), F.relu(b * 0.5)]),
        ["relu", "mul", "relu", "mul", "cat"],
    ),
    "among others": (
        INNER,
        lambda a, b, c: torch.cat([a, torch.cat([b.relu(), c.relu()], 1), c], 1),
        ["cat", "relu", "cat"],
    ),
    "lists of lists": (
        NESTED,
        lambda a, b, c: torch.cat([torch.cat([a.relu(), b.relu()], 1), torch.cat([b.relu(), c.relu()], 1)], 0),
        ["cat", "relu", "cat", "relu", "cat"],
    ),
    "projections stacked": (
        STACKS,
        lambda a, b, c: torch.stack([F.linear(a[0], b[0]), F.linear(a[1], c[0]), F.linear(b[1], c[1])]),
        [*["getitem"] * 6, "stack", *["getattr"] * 3, "stack", "bmm"],
    ),
}


def called(module: nn.Module) -> list[str]:
    assert isinstance(module, torch.fx.GraphModule)
    names = [
        getattr(node.target, "__name__", str(node.target)) for node in module.graph.nodes if node.op.startswith("call")
    ]
    return [name.partition(".")[0] for name in names]


@pytest.mark.parametrize("level", ["torch", "aten"])
@pytest.mark.parametrize("name", CHANGED)
def test_numbers_stay(name: str, level: str) -> None:
    text, function, expected = CHANGED[name]
    inputs = (A, B, C)[: function.__code__.co_argcount]
    module: Any = torch.fx.symbolic_trace(function)
    if level == "aten":
        module = torch.export.export(module, inputs).module()
    result = fxrules.rewrite(module, fxrules.load(text=text), inputs)
    torch.testing.assert_close(result.model(*inputs), function(*inputs), rtol=1e-5, atol=1e-6)
    if level == "torch":
        assert called(result.model) == expected, str(result.report)
    else:
        assert sum(result.report.fired.values()) == int("a common factor" not in name)


def test_lists_of_different_lengths_are_refused() -> None:
    text = """rule r(d: int) {
      match cat([*relu(xs), *tanh(ys)], dim=d)  rewrite cat([*add(xs, ys)], dim=d)
      numerics differs "test"  changes shape }"""
    module = torch.fx.symbolic_trace(lambda a, b: torch.cat([a.relu(), b.relu(), a.tanh()]))
    report = fxrules.rewrite(module, fxrules.load(text=text), (A, B), numerics="differs").report
    assert "lists that are walked together differ in length: `xs` 2, `ys` 1" in str(report)


def test_a_densenet_block_by_hand() -> None:
    """What the rule is for: the same activation in front of a concatenation, many times."""

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.convs = nn.ModuleList(nn.Conv2d(4 + 2 * i, 2, 3, padding=1) for i in range(5))

        def forward(self, x: Tensor) -> Tensor:
            found = [x]
            for conv in self.convs:
                found.append(conv(torch.cat([F.relu(one) for one in found], 1)))
            return torch.cat([F.relu(one) for one in found], 1)

    torch.manual_seed(0)
    model, x = Block().eval(), torch.randn(2, 4, 6, 6)
    result = fxrules.rewrite(model, fxrules.load(text=SINK), x)
    assert result.report.fired["text.sink"] == 5  # the first list has one element, and then it is the same again
    assert torch.equal(result.model(x), model(x))
