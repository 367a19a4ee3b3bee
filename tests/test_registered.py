"""Ops that are registered with torch, on both sides of a rule, by their names."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from exact_graphs import IN, At, Function, X, acme_op, acme_ops, graph_of
from sites import calls
from torch import Tensor, nn
from torch.export import export

import fxrules
from fxrules.engine import reference
from fxrules.engine.matching import candidates
from fxrules.engine.nodeview import Views


@pytest.fixture(scope="module", autouse=True)
def acme() -> Iterator[None]:
    with acme_ops():
        yield


def test_a_registered_op_is_matched_and_written_by_its_name() -> None:
    text = "rule r(x: float[...], s: number) { match fxr_acme.scaled(x, s) rewrite %s }"
    model = Function(lambda x: acme_op("scaled")(x, 3.0).exp())
    for prefix in ("", "torch.ops."):
        for capture in ("export", "trace"):
            there = fxrules.load(text=text.replace("fxr_acme", f"{prefix}fxr_acme") % "x * s")
            found = fxrules.rewrite(model, there, X, capture=capture)
            assert bool(found.compare(X)) and dict(found.report.fired) == {"text.r": 1}
            back = fxrules.load(
                text=f"rule r(x: float[...]) {{ match x * 3 rewrite {prefix}fxr_acme.scaled(x, scale=3.0) }}"
            )
            again = fxrules.rewrite(found.model, back)
            assert dict(again.report.fired) == {"text.r": 1} and bool(again.compare(X))
            assert "scaled.default" in calls(again.model.graph)


def test_an_argument_of_a_registered_op_that_is_not_mentioned_is_at_its_default() -> None:
    rules = fxrules.load(text="rule r(x: float[...]) { match fxr_acme.scaled(x) rewrite x * 1 }")
    for scale, fired in ((1.0, {"text.r": 1}), (2.0, {})):
        model = graph_of((acme_op("scaled").default, (IN, scale), {}), out=1)
        assert dict(fxrules.rewrite(model, rules, X, stop_after=1).report.fired) == fired


def test_items_of_a_registered_op_are_replaced() -> None:
    rules = fxrules.load(text="rule r(x: float[...]) { match { _, c = fxr_acme.pair(x) return c } rewrite cos(x) }")
    model = Function(lambda x: acme_op("pair")(x)[1])
    result = fxrules.rewrite(model, rules, X)
    assert calls(result.model.graph)[1:] == ["cos.default"] and bool(result.compare(X))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("fxr_acme.scald(x)", "`fxr_acme.scald`: no such target [unknown-op]"),
        ("fxr_acme.scaled(x, 1.0, 2.0)", "`fxr_acme.scaled` takes at most 2 arguments by place, 3 are given [arity]"),
        ("fxr_acme.scaled(x, scal=1.0)", "`fxr_acme.scaled` has no parameter `scal` [unknown-keyword]"),
        ("fxr_acme.scaled()", "`fxr_acme.scaled` needs `x` [arity]"),
        ("fxr_other.scaled(x)", "`fxr_other`: no such package or import [unknown-package]"),
    ],
)
def test_a_wrong_call_of_a_registered_op_is_told_with_its_place(call: str, message: str) -> None:
    with pytest.raises(fxrules.FxrulesError) as caught:
        fxrules.load(text=f"rule r(x: float[...]) {{ match {call} rewrite relu(x) }}")
    assert message in str(caught.value) and "<text>:1:" in str(caught.value)


def test_both_matchers_agree_on_registered_ops() -> None:
    rules = fxrules.load(
        text="""
rule a(x: float[...], s: number) { match neg(fxr_acme.scaled(x, s)) rewrite x }
rule b(x: float[...]) { match fxr_acme.scaled(x) rewrite x }
rule c(x: float[...]) { match fxr_acme.scaled(x, ...) rewrite x }
rule d(o: float[...], x: float[...]) { match fxr_acme.accumulate(o, x) rewrite fxr_acme.accumulate(o, x) }
rule e(x: float[...]) { match fxr_acme.noise(x) * fxr_acme.noise(x) rewrite x }
"""
    )
    scaled, noise = acme_op("scaled"), acme_op("noise")
    module = graph_of(
        (scaled.default, (IN,), {"scale": 2.0}), (torch.neg, (At(1),), {}), (scaled, (IN, 1.0), {}),
        (acme_op("accumulate").default, (At(3), IN), {}), (noise.default, (IN,), {}), (noise.default, (IN,), {}),
        (torch.mul, (At(5), At(6)), {}),
    )  # fmt: skip
    views = Views(module.graph, module)
    found: dict[str, list[str]] = {}
    for rule in rules:
        for node in module.graph.nodes:
            mine = list(candidates(rule, node, views))
            assert mine == list(reference.candidates(rule, node, views))
            if mine:
                found.setdefault(rule.name, []).append(node.name)
    assert found == {
        "text.a": ["neg"], "text.b": ["scaled"], "text.c": ["scaled_default", "scaled"],
        "text.d": ["accumulate_default"], "text.e": ["mul"],
    }  # fmt: skip


# What `torch.library.custom_op` makes is registered when this file is imported.
@torch.library.custom_op("fxr_team::leaky", mutates_args=())
def leaky(x: Tensor, slope: float = 0.1) -> Tensor:
    return torch.where(x > 0, x, x * slope)


@leaky.register_fake
def _(x: Tensor, slope: float = 0.1) -> Tensor:
    return torch.empty_like(x)


@torch.library.custom_op("fxr_team::gather_into", mutates_args={"out"})
def gather_into(out: Tensor, x: Tensor, scale: float) -> None:
    out.add_(x * scale)


class Gathering(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        out = torch.zeros_like(x)
        torch.ops.fxr_team.gather_into(out, torch.ops.fxr_team.leaky(x), 2.0)
        torch.ops.fxr_team.gather_into(out, x, 0.5)
        return out


def test_custom_ops_functional_and_mutable_are_matched_and_written() -> None:
    text = """
rule open(x: float[...], s: number) { match fxr_team.leaky(x, slope=s) rewrite leaky_relu(x, s) numerics bitwise }
rule unscaled(o: float[...], x: float[...], s: number) {
  match fxr_team.gather_into(o, x, s) where s != 1 rewrite fxr_team.gather_into(o, x * s, 1.0) numerics bitwise
}"""
    for capture in (True, False):
        model = export(Gathering(), X)
        result = fxrules.rewrite(model if capture else model.module(), fxrules.load(text=text))
        assert dict(result.report.fired) == {"text.unscaled": 2, "text.open": 1}
        found = [name for name in calls(result.model.graph) if name != "_guards_fn"]
        assert found == [
            "zeros_like.default", "leaky_relu.default", "mul.Tensor", "gather_into.default", "mul.Tensor",
            "gather_into.default",
        ]  # fmt: skip
        assert bool(result.compare(X))


def test_a_read_stays_between_the_writes_of_custom_ops() -> None:
    class Reading(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            out = torch.zeros_like(x)
            torch.ops.fxr_team.gather_into(out, x, 2.0)
            copy = out.clone()
            torch.ops.fxr_team.gather_into(out, x, 0.5)
            return out - copy

    text = "rule r(x: float[...]) { match clone(x) rewrite x numerics bitwise changes aliasing, strides }"
    result = fxrules.rewrite(export(Reading(), X), fxrules.load(text=text))
    assert dict(result.report.fired) == {} and bool(result.compare(X))
    assert "writes to `zeros_like`" in result.report["r"].refused[0].reason
