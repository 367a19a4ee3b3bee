"""The rewrite-time language: values, facts, constants, helpers, bounded work."""

from __future__ import annotations

import math

import pytest
import torch
from evaluating import SCOPE, environment, node, program, value

from fxrules.dsl.parser import parse_expr
from fxrules.dsl.source import FxrulesError
from fxrules.dsl.vocabulary import CONSTANTS, DTYPES, FACTS, MEASURES, VOCABULARY
from fxrules.engine.computing import Frozen
from fxrules.engine.evaluation import Declined, Unknown, holds
from fxrules.engine.families import load_table
from fxrules.engine.nodeview import Views
from fxrules.engine.ruleset import Scope
from fxrules.engine.words import WORDS


@pytest.fixture(scope="module")
def views() -> Views:
    return program()


NUMBERS = {
    "1 + 2 * 3 ** 2": 19,
    "7 // 2 - 7 % 4": 0,
    "-n / 16": -0.5,
    "1 << 3 | 1": 9,
    "6 & 3 ^ 1": 3,
    "~n": -9,
    "HALF * a": 0.25,
    "absent ?? n": 8,
    "a ?? n": 0.5,
    "1 / a if a else 1.0": 2.0,
    "1 / absent if absent else 1.0": 1.0,
    "pi": math.pi,
    "sqrt(2 / pi)": 0.7978845608028654,
    "rsqrt(4)": 0.5,
    "log2(n)": 3,
    "log(exp(2))": 2.0,
    "floor(2.5) + ceil(2.5)": 5,
    "int(2.9) + float(1) + int(flag)": 4.0,
    "abs(-3)": 3,
    "len(xs) + len(K) + len([1, 2])": 6,
    "sum([1, 2, 3]) + prod([2, 3]) + sum([]) + prod([])": 13,
    "max(1, 3, 2) + min([4, 2])": 5,
    "[10, 20, 30][-1]": 30,
    "{f16: 1, f32: 2}[x.dtype]": 2,
    "finfo(f16).max": 65504.0,
    "iinfo(i8).min": -128,
    "users(x)": 1,
    "users(absent)": 0,
    "x.shape[1] * x.ndim": 15,
    "x.rank": 3,
    "w.numel": 6,
    "w.numel()": 6,
    "w.stride[0] + w.stride(1)": 4,
    "count(relu)": 1,
    "count(add)": 2,
    "depth(relu)": 3,
}


@pytest.mark.parametrize("text", NUMBERS)
def test_numbers(text: str, views: Views) -> None:
    assert value(text, views) == NUMBERS[text]


LISTS = {
    "[1, *K, 2]": (1, 3, 3, 2),
    "[-1, 1, *ones(K)]": (-1, 1, 1, 1),
    "[i * i for i in range(4) if i % 2 == 0]": (0, 4),
    "[1] * 3 + [2]": (1, 1, 1, 2),
    "[1, 2, 3, 4][1:-1]": (2, 3),
    "range(1, 7, 2)": (1, 3, 5),
    "enumerate(K)": ((0, 3), (1, 3)),
    "zip([1, 2], [3, 4, 5])": ((1, 3), (2, 4)),
    "reversed(range(3))": (2, 1, 0),
    "sorted([3, 1, 2])": (1, 2, 3),
    "list(K)": (3, 3),
    "tuple(K)": (3, 3),
    "w.shape": (2, 3),
    "(1, 'a')": (1, "a"),
    "float": (torch.float16, torch.bfloat16, torch.float32, torch.float64),
}


@pytest.mark.parametrize("text", LISTS)
def test_lists(text: str, views: Views) -> None:
    assert value(text, views) == LISTS[text]


DECLINED = {
    "missing": "`missing` has no value here",
    "no_such_op(1)": "`no_such_op`: no such function or op",
    "1 / 0": "division by zero",
    "sqrt(-1)": "-1",
    "[1, 2][5]": "index out of range",
    "log2(N)": "not a known number",
    "range(10 ** 9)": "too long",
    "[[j for j in range(9999)] for i in range(9999)]": "100000 steps",
    "2 ** 10 ** 9": "too large",
    "1 << 10 ** 9": "too large",
    "(10 ** 900) ** 9": "too large",
    "[0] * 10 ** 9": "too long",
    "'abc' + 'd' * 2": "no arithmetic",
    "absent.dtype": "None has no `dtype`",
    "x.__class__": "`__class__`",
    "x.data_ptr()": "`data_ptr`",
    "mode.upper": "has no `upper`",
    "len.__globals__": "`len` has no value here",
    "x == h": "compare its facts",
    "x < 1": "value of `x` is not known at rewrite time",
    "x < h": "compares numbers",
    "1 < 'a'": "compares numbers",
    "d < f32": "compares numbers",
    "x if x else 1": "neither true nor false",
    "dropout(w)": "not a pure op",
    "same_dtype(x, absent)": "None is not a tensor",
    "users(n)": "users of 8",
    "finfo(i8)": "int8",
    "zeros([2 ** 20, 2 ** 20])": "too large",
    "len(1, 2)": "does not take these arguments",
    "len(x=1)": "does not take these arguments",
    "x through relu": "part of a pattern",
    "h * 2": "value of `h` is not known at rewrite time",
    "running * 2": "value of `running` is not known at rewrite time",
}


@pytest.mark.parametrize("text", DECLINED)
def test_what_cannot_be_computed_says_why(text: str, views: Views) -> None:
    with pytest.raises(Declined) as caught:
        value(text, views, freeze=True)
    assert str(DECLINED[text]) in caught.value.reason


def test_values_of_constants_are_computed_with_torch(views: Views) -> None:
    weight = views.constant(node(views, "layer.weight"))
    assert weight is not None
    for text, wanted in {
        "w * 2 + 1": weight * 2 + 1,
        "w * reshape(rsqrt(abs(w[:, 0])), [-1, 1])": weight * torch.rsqrt(weight[:, 0].abs()).reshape(-1, 1),
        "w[0:1, ..., -1]": weight[0:1, -1],
        "w.T": weight.T,
        "w.sum(0)": weight.sum(0),
        "sum(w, dim=0)": weight.sum(0),
        "sqrt(exp(w))": torch.exp(weight).sqrt(),
        "cat([w, w], dim=0)": torch.cat([weight, weight]),
        "(absent ?? 0) - w": 0 - weight,
        "-w @ w.mT": -weight @ weight.mT,
        "zeros([2]) + w[:, 0]": weight[:, 0],
    }.items():
        found = value(text, views, freeze=True)
        assert isinstance(found, torch.Tensor), text
        torch.testing.assert_close(found, wanted.detach(), rtol=0, atol=0)
        assert not found.requires_grad
    for text, expected in {"all(w != 0) and any(w < 0)": True, "all(w > 0)": False, "w[0, 0] == 1": True}.items():
        assert holds(parse_expr(text), environment(views), views, SCOPE, freeze=True) is expected, text


def test_computing_leaves_the_parameter_alone(views: Views) -> None:
    weight = views.constant(node(views, "layer.weight"))
    assert weight is not None
    before = weight.detach().clone()
    value("w * 0", views, freeze=True)
    assert torch.equal(weight, before) and weight.requires_grad and weight.grad is None


def test_values_are_read_only_with_freeze(views: Views) -> None:
    with pytest.raises(Frozen, match=r"value of `w` is needed: pass freeze=True"):
        value("w * 2", views)
    assert value("w.shape", views) == (2, 3)


def test_captured_nodes_come_back_as_nodes(views: Views) -> None:
    assert value("absent ?? x", views) is node(views, "x")
    assert value("[x, h]", views) == (node(views, "x"), node(views, "relu"))


def test_helpers(views: Views) -> None:
    def merge(p: tuple[int, ...], q: tuple[int, ...]) -> list[int]:
        if len(p) != len(q):
            raise Declined("the permutations differ in length")
        return [p[i] for i in q]

    def first_row(weight: torch.Tensor) -> torch.Tensor:
        return weight[0]

    def broken() -> None:
        raise KeyError("oops")

    scope = Scope(load_table(), helpers={"merge": merge, "first_row": first_row, "broken": broken})
    assert value("merge([2, 0, 1], [1, 2, 0])", views, scope=scope) == (0, 1, 2)
    with pytest.raises(Declined, match="differ in length"):
        value("merge([0], [1, 0])", views, scope=scope)
    row = value("first_row(w)", views, scope=scope, freeze=True)
    assert isinstance(row, torch.Tensor) and row.tolist() == [1.0, -2.0, 4.0]
    with pytest.raises(Unknown, match="value of `unknown`"):
        value("first_row(unknown)", views, scope=scope, freeze=True)
    with pytest.raises(FxrulesError) as caught:
        value("1 + broken()", views, scope=scope)
    assert caught.value.problems[0].message == "the helper `broken` raised KeyError: 'oops'"
    assert str(caught.value.problems[0].span) == "<text>:1:5"


def test_the_evaluator_knows_every_word_of_the_vocabulary(views: Views) -> None:
    assert set(WORDS) | MEASURES == set(VOCABULARY)
    assert {name: value(name, views) for name in DTYPES} == {name: getattr(torch, DTYPES[name]) for name in DTYPES}
    assert [value(name, views) for name in ("True", "False", "None")] == [True, False, None]
    assert {"True", "False", "None", "inf", "nan", "pi"} == CONSTANTS
    on_device, on_dtype = {"type", "index"}, {"is_complex", "is_floating_point"}
    for name in FACTS:
        owner = "x.device" if name in on_device else "x.dtype" if name in on_dtype else "x"
        value(f"{owner}.{name}", views)
