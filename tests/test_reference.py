"""What patterns mean, one construct after the other, on small traced functions."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from small_rules import load, output, traced
from torch.fx import Node

from fxrules.dsl import ast
from fxrules.engine import matching, reference
from fxrules.engine.candidates import Candidate, Config
from fxrules.engine.families import load_table
from fxrules.engine.nodeview import Views
from fxrules.engine.ruleset import Rule, Scope


def spelled(value: Any) -> str:
    match value:
        case Node():
            return value.name
        case Config(items):
            return ", ".join(f"{name}={spelled(item)}" for name, item in items)
        case tuple():
            return f"[{', '.join(map(spelled, value))}]"
    return str(value)


def matches(pattern: str, views: Views, header: str = "", preamble: str = "") -> list[str]:
    """The candidates at the graph's result, each as ``name=value`` text in the order of the header."""
    (rule,) = load(f"{preamble} rule r({header}) {{ match {pattern} }}")
    found = list(reference.candidates(rule, output(views), views))
    return [" ".join(f"{name}={spelled(value)}" for name, value in one.bindings.items()) for one in found]


def covered(pattern: str, views: Views, header: str = "", preamble: str = "") -> list[list[str]]:
    (rule,) = load(f"{preamble} rule r({header}) {{ match {pattern} }}")
    return [[node.name for node in one.nodes] for one in reference.candidates(rule, output(views), views)]


CONSTRUCTS: dict[str, tuple[str, str, Callable[..., Any], list[str]]] = {
    # spellings of one family
    "operator": ("relu(x + y)", "x, y", lambda a, b: torch.relu(torch.add(a, b)), ["x=a y=b", "x=b y=a"]),
    "method": ("x.relu()", "x", lambda a: F.relu(a), ["x=a"]),
    "attribute": ("x.mT", "x", lambda a: a.transpose(-1, -2), ["x=a"]),
    "keyword": ("softmax(x, dim=-1)", "x", lambda a: torch.softmax(a, 2), ["x=a"]),
    "other dim": ("softmax(x, dim=-1)", "x", lambda a: torch.softmax(a, 1), []),
    "captured dim": ("softmax(x, dim=d)", "x, d", lambda a: torch.softmax(a, -1), ["x=a d=2"]),
    "swapped dims": ("transpose(x, 1, 2)", "x", lambda a: a.transpose(2, 1), ["x=a"]),
    # arguments that the pattern does not mention
    "default given": ("dropout(x, training=False)", "x", lambda a: F.dropout(a, 0.5, False), ["x=a"]),
    "not the default": ("dropout(x, training=False)", "x", lambda a: F.dropout(a, 0.1, False), []),
    "any value": ("dropout(x, p=_, training=False)", "x", lambda a: F.dropout(a, 0.1, False), ["x=a"]),
    "random op": ("dropout(x, p=_, training=_)", "x", lambda a: F.dropout(a, 0.1, True), []),
    "alpha": ("x + y", "x, y", lambda a, b: torch.add(a, b, alpha=2), []),
    "rest ignored": ("add(x, y, ...)", "x, y", lambda a, b: torch.add(a, b, alpha=2), ["x=a y=b"]),
    "alpha does not commute": ("add(x, y, alpha=n)", "x, y, n", lambda a, b: torch.add(a, b, alpha=2), ["x=a y=b n=2"]),
    "rest captured": (
        "layer_norm(x, **cfg)", "x", lambda a: F.layer_norm(a, [4]),
        ["x=a cfg=normalized_shape=[4], weight=None, bias=None, eps=1e-05"],
    ),
    "equal rests": (
        "{ s = sum(x, **cfg)  t = sum(y, **cfg)  return s * t }", "x, y",
        lambda a, b: torch.sum(a, [1]) * torch.sum(b, [1]),
        [f"x={x} y={y} s={s} t={t} cfg=dim=[1], keepdim=False, dtype=None"
         for x, y, s, t in (("a", "b", "sum_1", "sum_2"), ("b", "a", "sum_2", "sum_1"))],
    ),
    "unequal rests": (
        "sum(x, **cfg) * sum(y, **cfg)", "x, y", lambda a, b: torch.sum(a, [1], True) * torch.sum(b, [0], True), [],
    ),
    # binding
    "repeated variable": ("x * x", "x", lambda a, b: a * a, ["x=a", "x=a"]),
    "different values": ("x * x", "x", lambda a, b: a * b, []),
    "equal constants": ("(x + n) * n", "x, n", lambda a: (a + 2) * 2.0, ["x=a n=2"]),
    "commuted, written order first": ("x * n", "x, n", lambda a: 2 * a, ["x=2 n=a", "x=a n=2"]),
    "not commutative": ("x - n", "x, n", lambda a: 2 - a, ["x=2 n=a"]),
    "shared node": (
        "{ s = tanh(x)  return s * relu(s) }", "x", lambda a: (lambda t: t * F.relu(t))(torch.tanh(a)), ["x=a s=tanh"],
    ),
    "two nodes instead of one": (
        "{ s = tanh(x)  return s * relu(s) }", "x", lambda a: torch.tanh(a) * F.relu(torch.tanh(a)), [],
    ),
    "as": ("neg(relu(x) as r)", "x", lambda a: -F.relu(a), ["x=a r=relu"]),
    "anything": ("_ - _", "", lambda a, b: a - b, [""]),
    # literals
    "one": ("x * 1", "x", lambda a: a * 1.0, ["x=a"]),
    "true is not one": ("x * 1", "x", lambda a: a * True, []),
    "one is not true": ("x * True", "x", lambda a: a * 1, []),
    "negative": ("x ** -1", "x", lambda a: a**-1, ["x=a"]),
    "rounded to f32": ("x * 0.7978845608028654", "x", lambda a: a * 0.7978845834732056, ["x=a"]),
    "another number": ("x * 0.79788", "x", lambda a: a * 0.7978845608028654, []),
    "within the tolerance": ("x * 0.79788~1e-4", "x", lambda a: a * 0.7978845608028654, ["x=a"]),
    "arithmetic": ("x * (1 / 2)", "x", lambda a: a * 0.5, ["x=a"]),
    "text": ('gelu(x, approximate="tanh")', "x", lambda a: F.gelu(a, approximate="tanh"), ["x=a"]),
    "other text": ('gelu(x, approximate="none")', "x", lambda a: F.gelu(a, approximate="tanh"), []),
    "dtype": ("x.to(f16)", "x", lambda a: a.to(torch.float16), ["x=a"]),
    "none": ("layer_norm(x, _, None, _)", "x", lambda a: F.layer_norm(a, [4]), ["x=a"]),
    # optional operands and arguments
    "argument present": (
        "layer_norm(x, _, w?, b?)", "x, w, b", lambda a, c: F.layer_norm(a, [2, 3, 4], c), ["x=a w=c b=None"],
    ),
    "operand present first": (
        "relu(x + y?)", "x, y", lambda a, b: F.relu(a + b), ["x=a y=b", "x=b y=a", "x=add y=None"],
    ),
    "operand absent": ("relu(x - y?)", "x, y", lambda a: F.relu(a), ["x=a y=None"]),
    "left operand absent": ("relu(y? / x)", "x, y", lambda a: F.relu(a), ["x=a y=None"]),
    "absent and used again": ("relu(x - y?) * y", "x, y", lambda a, b: F.relu(a - b) * b, ["x=a y=b"]),
    "wrapper there": ("neg(relu(x)?)", "x", lambda a: -F.relu(a), ["x=a", "x=relu"]),
    "wrapper missing": ("neg(x.relu()?)", "x", lambda a: -a, ["x=a"]),
    "only a leaf left": ("x + y?", "x, y", lambda a: F.relu(a), []),
    # alternatives
    "alternatives in order": (
        "relu(x) - y or x - _", "x, y", lambda a, b: F.relu(a) - b, ["x=a y=b", "x=relu y=None"],
    ),
    # lists
    "whole list": ("cat([*xs], dim=1)", "", lambda a, b: torch.cat([a, b], 1), ["xs=[a, b]"]),
    "shortest rest first": (
        "cat([*p, x, *q])", "x", lambda a, b: torch.cat([a, b]), ["x=a p=[] q=[b]", "x=b p=[a] q=[]"],
    ),
    "fixed list": ("permute(x, [0, -1, 1])", "x", lambda a: a.permute(0, 2, 1), ["x=a"]),
    "list with a capture": ("permute(x, [*p, 1])", "x", lambda a: a.permute(0, 2, 1), ["x=a p=[0, 2]"]),
    "one dim for a list": ("sum(x, dim=-1)", "x", lambda a: torch.sum(a, [2]), ["x=a"]),
    "repeated rest": (
        "cat([cat([*p]), cat([*p])])", "", lambda a, b: torch.cat([torch.cat([a, b]), torch.cat([a, b])]), ["p=[a, b]"],
    ),
    # items of tuples, indices
    "destructuring": (
        "{ p, q = chunk(x, 2, dim=-1)  return p * relu(q) }", "x",
        lambda a: (lambda pair: pair[0] * F.relu(pair[1]))(torch.chunk(a, 2, dim=-1)), ["x=a p=getitem q=getitem_1"],
    ),
    "items swapped": (
        "{ p, q = chunk(x, 2, dim=-1)  return p - q }", "x",
        lambda a: (lambda pair: pair[1] - pair[0])(torch.chunk(a, 2, dim=-1)), [],
    ),
    "items of two nodes": (
        "{ p, q = chunk(x, 2)  return p - q }", "x", lambda a: torch.chunk(a, 2)[0] - torch.chunk(a, 2)[1], [],
    ),
    "item by index": ("relu(chunk(x, 2)[1])", "x", lambda a: F.relu(torch.chunk(a, 2)[1]), ["x=a"]),
    "tensor by index": ("x[..., 0:2]", "x", lambda a: a[..., 0:2], ["x=a"]),
    "another index": ("x[..., 0:2]", "x", lambda a: a[..., 1:2], []),
    "captured index": ("x[:, n]", "x, n", lambda a: a[:, 1], ["x=a n=1"]),
    # exact targets
    "exact": ("torch.add(x, y)", "x, y", lambda a, b: torch.add(a, b), ["x=a y=b"]),
    "another spelling": ("torch.add(x, y)", "x, y", lambda a, b: a + b, []),
    "exact, a random op": (
        "torch.dropout(x, 0.5, True)", "x", lambda a: torch.dropout(a, 0.5, True), ["x=a"],
    ),
    "exact, default not mentioned": ("torch.add(x, y)", "x, y", lambda a, b: torch.add(a, b, alpha=2), []),
}  # fmt: skip


@pytest.mark.parametrize("name", CONSTRUCTS)
def test_construct(name: str) -> None:
    pattern, header, function, expected = CONSTRUCTS[name]
    assert matches(pattern, traced(function), header) == expected


NOOP = "pattern noop(x) = dropout(x, p=_, training=False) or x.contiguous() "


def test_through_passes_any_number_of_nodes() -> None:
    def function(a: torch.Tensor) -> torch.Tensor:
        return F.dropout(F.dropout(torch.tanh(a).contiguous(), 0.1, False), 0.2, False) * 2

    pattern = "(tanh(x) through noop) * 2"
    views = traced(function)
    assert matches(pattern, views, "x", NOOP) == ["x=a"]
    assert covered(pattern, views, "x", NOOP) == [["mul", "dropout_1", "dropout", "contiguous", "tanh"]]
    assert matches("neg(x through noop)", traced(lambda a: -a), "x", NOOP) == ["x=a"]
    one = traced(lambda a: -a.contiguous())
    assert matches("neg(x through noop)", one, "x", NOOP) == ["x=contiguous", "x=a"]


def test_through_an_opset() -> None:
    preamble = "opset monotone = relu, tanh "
    views = traced(lambda a: -torch.tanh(F.relu(a)))
    assert matches("neg(x through monotone)", views, "x", preamble) == ["x=tanh", "x=relu", "x=a"]
    assert matches("neg(gelu(x) through monotone)", views, "x", preamble) == []


def test_a_step_that_does_not_move_ends() -> None:
    assert matches("neg(x through same)", traced(lambda a: -a), "x", "pattern same(x) = x or relu(x) ") == ["x=a"]


def test_named_patterns_have_names_of_their_own() -> None:
    preamble = "const HALF = 1 / 2 pattern scaled(x) = x * y or x * HALF "
    views = traced(lambda a, b: (a * b) - (b * 0.5))
    found = matches("scaled(y) - scaled(z)", views, "y, z", preamble)
    assert "y=a z=b" in found and "y=b z=b" in found
    assert matches("square(relu(y))", traced(lambda a: F.relu(a) * F.relu(a)), "y", "pattern square(x) = x * x ") == []
    square = traced(lambda a: (lambda r: r * r)(F.relu(a)))
    assert matches("square(relu(y))", square, "y", "pattern square(x) = x * x ")[0] == "y=a"
    assert matches("square(x=_)", square, "", "pattern square(x) = x * x ")[0] == ""
    assert matches("square(_)", traced(lambda a, b: a * b), "", "pattern square(x) = x * x ") == []


def test_constants_are_matched_as_numbers() -> None:
    preamble = "const SQRT_HALF = sqrt(1 / 2) "
    assert matches("x * SQRT_HALF", traced(lambda a: a * 0.7071067811865476), "x", preamble) == ["x=a"]
    assert matches("x * SQRT_HALF", traced(lambda a: a * 0.7072), "x", preamble) == []
    assert matches("x * SQRT_HALF", traced(lambda a, b: a * b), "x, SQRT_HALF", preamble)[0] == "x=a SQRT_HALF=b"


def test_numbers_are_compared_in_the_compute_dtype() -> None:
    rounded, exact = 0.10000000149011612, 0.1
    for dtype, equal in {torch.float32: True, torch.bfloat16: True, torch.float64: False, None: False}.items():
        views = traced(lambda a: a * rounded, None)
        if dtype is not None:
            for node in views.graph.nodes:
                node.meta["val"] = torch.empty(2, dtype=dtype, device="meta")
        assert bool(matches(f"x * {exact}", views, "x")) is equal, dtype


def test_dims_in_a_pattern_are_put_off() -> None:
    views = traced(lambda a: a[..., 0:2])
    (rule,) = load("rule r(x: Tensor[*B, D]) { match x[..., 0 : D // 2] }")
    (candidate,) = reference.candidates(rule, output(views), views)
    ((expr, actual),) = candidate.deferred
    assert (expr, actual) == (ast.Binary("//", ast.Name("D"), ast.Number(2)), 2)


def test_a_template_variable_is_its_op() -> None:
    (rule,) = load("opset ops = relu, tanh rule r[f in ops](x) { match f(neg(x)) }")
    views = traced(lambda a: torch.tanh(-a))
    for family, expected in {"tanh": 1, "relu": 0}.items():
        one = Rule("r", rule.ast, Scope(load_table(), ops={"f": family}))
        assert len(list(reference.candidates(one, output(views), views))) == expected


def test_covered_nodes_come_root_first_without_repeats() -> None:
    views = traced(lambda a: (lambda t: t * F.relu(t))(torch.tanh(a)))
    assert covered("{ s = tanh(x)  return s * relu(s) }", views, "x") == [["mul", "tanh", "relu"]]


@pytest.mark.parametrize("candidates", [reference.candidates, matching.candidates])
def test_indexing_at_aten_level_is_a_chain(candidates: Callable[..., Iterator[Candidate]]) -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x[..., 0:2], x[:, 1], x[:, -1, 2:], x[..., 2:, None], x[..., None, 1], x[:, :, 1:3]

    for shapes in (None, ({0: torch.export.Dim.DYNAMIC},)):
        program = torch.export.export(Function(function), (torch.randn(3, 4, 5),), dynamic_shapes=shapes)
        views = Views(program.graph)
        (results,) = next(node for node in program.graph.nodes if node.op == "output").args
        for index, result in zip(INDICES, results, strict=True):
            (rule,) = load(f"rule r(x) {{ match x[{index}] }}")
            places = [node.name for node in program.graph.nodes if list(candidates(rule, node, views))]
            assert places == [result.name], (index, shapes)


INDICES = ("..., 0:2", ":, 1", ":, -1, 2:", "..., 2:, None", "..., None, 1", ":, :, 1:3")


class Function(torch.nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(x)


def test_parameters_read_through_two_attributes_are_one_value() -> None:
    class Scaled(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = torch.nn.Parameter(torch.ones(3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * self.w + self.w

    module = torch.fx.symbolic_trace(Scaled())
    reads = [node for node in module.graph.nodes if node.op == "get_attr"]
    with module.graph.inserting_before(reads[0]):
        again = module.graph.get_attr("w")
    output(Views(module.graph, module)).replace_input_with(reads[-1], again)
    assert len(matches("x * w + w", Views(module.graph, module), "x, w")) == 1


def test_module_calls_are_families_too() -> None:
    module = torch.fx.symbolic_trace(torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3, stride=2), torch.nn.ReLU()))
    (found,) = matches("relu(conv2d(x, w, b?, **cfg))", Views(module.graph, module), "x, w, b")
    assert found.startswith("x=input_1 w=ModuleAttr(path='0.weight') b=ModuleAttr(path='0.bias') cfg=stride=[2, 2], ")


def test_candidate_of_the_lazy_generator_is_the_first_choice() -> None:
    views = traced(lambda a, b: a + b)
    (rule,) = load("rule r(x, y) { match x + y }")
    first = next(reference.candidates(rule, output(views), views))
    assert isinstance(first, Candidate) and first.root is output(views)
    assert [node.name for node in first.bindings.values() if isinstance(node, Node)] == ["a", "b"]
    assert first.root.target is operator.add
