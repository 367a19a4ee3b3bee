"""Ops that draw random numbers or write, named by their exact target."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
import torch.nn.functional as F
from exact_graphs import IN, At, Function, Step, Two, X, acme_op, acme_ops, equal, graph_of, outcome, reasons
from sites import calls
from torch import Tensor
from torch.export import export

import fxrules

aten = torch.ops.aten


@pytest.fixture(scope="module", autouse=True)
def acme() -> Iterator[None]:
    with acme_ops():
        yield


# --------------------------------------------------------------- random ops
def test_a_dropout_in_training_is_replaced_by_its_exact_target() -> None:
    for name in ("F.dropout", "torch.nn.functional.dropout"):
        text = f"rule r(x: float[...]) {{ match {name}(x, p=0.5) rewrite aten.dropout.default(x, 0.5, True) }}"
        model = graph_of((F.dropout, (IN, 0.5, True, False), {}), out=1)
        result = fxrules.rewrite(model, fxrules.load(text=text), X)
        assert calls(result.model.graph) == ["dropout.default"]
        assert equal(outcome(result.model, *X), outcome(model, *X))


def test_native_dropout_and_its_items_are_replaced() -> None:
    rules = fxrules.load(
        text="rule r(x: float[...], p: number) {"
        " match { y, _ = aten.native_dropout.default(x, p, True) return y } rewrite aten.dropout.default(x, p, True) }"
    )
    model = Function(lambda x: torch.native_dropout(x, 0.25, True)[0] + torch.rand_like(x))
    result = fxrules.rewrite(model, rules, X)
    assert calls(result.model.graph)[1:] == ["dropout.default", "rand_like.default", "add.Tensor"]
    torch.manual_seed(0)
    wanted = model(*X)
    torch.manual_seed(0)
    assert torch.equal(result.model(*X), wanted)


def test_random_ops_keep_their_order() -> None:
    rules = fxrules.load(
        text="rule r(x: float[...]) { match neg(F.dropout(x, p=0.5)) rewrite F.dropout(neg(x), p=0.5) }"
    )
    dropout: Step = (F.dropout, (IN, 0.5, True, False), {})
    cases: list[tuple[Step, str]] = [
        ((torch.exp, (IN,), {}), ""),
        ((torch.rand_like, (IN,), {}), "`rand_like` draws random numbers, in the midst of the match"),
        ((F.dropout, (IN, 0.1, True, True), {}), "`dropout_1` draws random numbers, in the midst of the match"),
        ((aten.bernoulli_.float, (IN, 0.5), {}), "`bernoulli__float` draws random numbers, in the midst of the match"),
        ((torch.manual_seed, (7,), {}), "`manual_seed` changes the state of torch, in the midst of the match"),
        ((equal, ([], []), {}), "`equal` calls `exact_graphs.equal`, which is not known to be pure"),
    ]
    for between, reason in cases:
        model = graph_of(dropout, between, (torch.neg, (At(1),), {}), out=3)
        result = fxrules.rewrite(model, rules, X)
        assert equal(outcome(result.model, *X), outcome(model, *X))
        assert dict(result.report.fired) == ({} if reason else {"text.r": 1})
        assert not reason or reasons(result)[0].startswith(reason)


def test_other_random_numbers_need_a_rule_that_differs() -> None:
    model = Function(lambda x: F.dropout(x, 0.5) + torch.rand_like(x))
    texts = {
        "draws no random numbers": "match aten.dropout.default(x, 0.5, True) rewrite x * 1.0",
        "draws random numbers": "match exp(x) rewrite aten.dropout.default(exp(x), 0.0, True)",
    }
    for what, body in texts.items():
        traced = export(model if "no" in what else Function(torch.exp), X)
        result = fxrules.rewrite(traced, fxrules.load(text=f"rule r(x: float[...]) {{ {body} }}"))
        assert dict(result.report.fired) == {}
        assert reasons(result)[0].startswith(f"the replacement {what}, and later ops would draw others")
    text = f'rule r(x: float[...]) {{ {texts["draws no random numbers"]} numerics differs "no noise" }}'
    result = fxrules.rewrite(export(model, X), fxrules.load(text=text), numerics="differs")
    assert dict(result.report.fired) == {"text.r": 1}


def test_a_family_name_never_means_a_random_op() -> None:
    rules = fxrules.load(text='rule r(x: float[...]) { match dropout(x, p=_) rewrite relu(x) numerics differs "t" }')
    model = graph_of((F.dropout, (IN, 0.5, True, False), {}), out=1)
    assert dict(fxrules.rewrite(model, rules, X, numerics="differs").report.fired) == {}


# ------------------------------------------------------------------- writes
def _accumulating(x: Tensor, y: Tensor) -> Tensor:
    z = x.exp()
    acme_op("accumulate")(z, torch.relu(y))
    return z * 2


FUSE = "rule r(o: float[...], x: float[...]) { match fxr_acme.accumulate(o, relu(x)) rewrite %s numerics bitwise }"


def test_a_mutable_op_is_replaced_by_one_that_writes_to_the_same_memory() -> None:
    inputs = (*X, torch.flip(X[0], (0,)))
    for model in (export(Two(_accumulating), inputs), export(Two(_accumulating), inputs).module()):
        result = fxrules.rewrite(model, fxrules.load(text=FUSE % "fxr_acme.accumulate_relu(o, x)"))
        assert dict(result.report.fired) == {"text.r": 1}
        found = calls(result.model.graph)
        assert [name for name in found if name != "_guards_fn"] == [
            "exp.default",
            "accumulate_relu.default",
            "mul.Tensor",
        ]
        assert equal(outcome(result.model, *inputs), outcome(model, *inputs))


@pytest.mark.parametrize(
    ("replacement", "reason"),
    [
        ("o + x", "the replacement must do so too: `accumulate` writes to `exp`"),
        ("fxr_acme.accumulate_relu(x, o)", "the replacement may not have effects: `accumulate_relu` writes to `y`"),
        ("fxr_acme.log(x)", "the replacement may not have effects: `log` is called for its side effect"),
    ],
)
def test_a_mutable_op_is_not_replaced_by_one_that_writes_elsewhere(replacement: str, reason: str) -> None:
    inputs = (*X, torch.flip(X[0], (0,)))

    def accumulating(x: Tensor, y: Tensor) -> Tensor:
        return _accumulating(x, y)

    result = fxrules.rewrite(export(Two(accumulating), inputs), fxrules.load(text=FUSE % replacement))
    assert dict(result.report.fired) == {}
    assert reasons(result)[0] == reason


def test_a_copy_becomes_an_out_variant() -> None:
    rules = fxrules.load(
        text="rule r(x: Tensor, o: Tensor) { match aten.copy_.default(o, relu(x)) rewrite aten.relu.out(x, out=o) }"
    )
    model = graph_of(
        (aten.relu.default, (IN,), {}), (aten.copy_.default, (IN, At(1)), {}), (aten.exp.default, (IN,), {}), out=3
    )
    result = fxrules.rewrite(model, rules, X)
    assert calls(result.model.graph) == ["relu.out", "exp.default"]
    assert equal(outcome(result.model, *X), outcome(model, *X))


def test_a_write_does_not_move_past_a_read() -> None:
    rules = fxrules.load(
        text="rule r(x: float[...]) {"
        " match neg(aten.add_.Tensor(x, 1)) rewrite neg(aten.sub_.Tensor(x, -1)) numerics bitwise }"
    )
    whole = (X[0].mul(3).round(),)
    add: Step = (aten.add_.Tensor, (IN, 1), {})
    cases: list[tuple[Step, str]] = [
        ((aten.exp.default, (At(1),), {}), "inner value `add__tensor` is also read by `exp_default`"),
        ((aten.exp.default, (IN,), {}), "`exp_default` reads what the match writes to, in its midst"),
        ((aten.view.default, (IN, [-1]), {}), "`view_default` reads what the match writes to, in its midst"),
        ((aten.rand.default, ([2],), {}), ""),
    ]
    for between, reason in cases:
        model = graph_of(add, between, (aten.neg.default, (At(1),), {}), out=3)
        result = fxrules.rewrite(model, rules, whole)
        assert equal(outcome(result.model, *whole), outcome(model, *whole))
        assert dict(result.report.fired) == ({} if reason else {"text.r": 1})
        assert not reason or reasons(result)[0].startswith(reason)


def test_where_a_pattern_does_not_say_what_is_first_nothing_is_replaced() -> None:
    rules = fxrules.load(
        text="rule r(x: float[...]) {"
        ' match aten.add_.Tensor(x, 1) * exp(x) rewrite aten.add_.Tensor(x, 1) numerics differs "t" }'
    )
    model = graph_of(
        (aten.exp.default, (IN,), {}), (aten.add_.Tensor, (IN, 1), {}), (aten.mul.Tensor, (At(2), At(1)), {}), out=3
    )
    result = fxrules.rewrite(model, rules, X, numerics="differs")
    assert dict(result.report.fired) == {}
    assert "the pattern does not say which is first" in reasons(result)[0]


def test_a_new_write_is_a_barrier_for_later_rules() -> None:
    text = FUSE % "fxr_acme.accumulate_relu(o, x)"
    text += (
        "\nrule copies(x: float[...]) { match x + 0 rewrite x changes aliasing numerics bitwise except signed_zero }"
    )
    inputs = (*X, torch.flip(X[0], (0,)))

    def function(x: Tensor, y: Tensor) -> Tensor:
        z = x.exp()
        copy = z + 0
        acme_op("accumulate")(z, torch.relu(y))
        return z * copy

    program = export(Two(function), inputs)
    result = fxrules.rewrite(program, fxrules.load(text=text))
    assert dict(result.report.fired) == {"text.r": 1}
    assert any("`accumulate_relu` writes to `exp`" in one for one in reasons(result))
    assert equal(outcome(result.model, *inputs), outcome(program, *inputs))
