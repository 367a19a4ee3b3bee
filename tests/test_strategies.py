"""The steps of a pipeline: what each fires, in which order, and how it is stopped."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from stepping import CHANGE, SINK, Function, X, calls, fired, run
from torch import Tensor
from torch.fx import symbolic_trace

import fxrules

STEPS: dict[str, tuple[Callable[[Tensor], Tensor], list[str]]] = {
    # what one rule makes is no site of a `once` step for another
    "once tanh_sin, sin_cos, cos_exp": (lambda x: torch.tanh(torch.sin(torch.cos(x))), ["exp", "cos", "sin"]),
    "fixpoint tanh_sin, sin_cos, cos_exp": (lambda x: torch.tanh(torch.sin(torch.cos(x))), ["exp", "exp", "exp"]),
    "sweep tanh_sin, sin_cos, cos_exp": (lambda x: torch.tanh(torch.sin(torch.cos(x))), ["exp", "exp", "exp"]),
    "once tanh_sin once sin_cos": (torch.tanh, ["cos"]),
    "once sin_cos once tanh_sin": (torch.tanh, ["sin"]),
    "sweep sin_cos sweep tanh_sin": (torch.tanh, ["sin"]),
    # producers first: the transposition sinks through all of the chain in one pass
    "sweep sink": (lambda x: torch.exp(torch.neg(torch.abs(x.transpose(0, 1)))), ["abs", "neg", "exp", "transpose"]),
    # users first: in one pass it passes one op
    "once sink": (lambda x: torch.exp(torch.neg(torch.abs(x.transpose(0, 1)))), ["abs", "transpose", "neg", "exp"]),
    # new nodes are visited, too: the second transposition sinks behind the first
    "sweep  sink": (lambda x: torch.abs(x.transpose(0, 1).transpose(0, 1)), ["abs", "transpose", "transpose"]),
    "once  sink": (lambda x: torch.abs(x.transpose(0, 1).transpose(0, 1)), ["transpose", "abs", "transpose"]),
    # a rule that matches its own output
    "once grow": (lambda x: torch.relu(torch.relu(x)), ["relu", "add", "relu", "add"]),
    # two rules at one node that stays
    "once keep_neg, keep_abs": (torch.relu, ["relu", "abs", "neg"]),
    "sweep keep_neg, keep_abs": (torch.relu, ["relu", "abs", "neg"]),
}


@pytest.mark.parametrize("steps", STEPS)
def test_a_step_fires(steps: str) -> None:
    model, wanted = STEPS[steps]
    result = run(f"{CHANGE}{SINK}pipeline p {{ {steps} }}", model)
    assert calls(result.model) == wanted


def test_a_step_computes_what_its_rules_say() -> None:
    result = run(f"{SINK}pipeline p {{ sweep sink }}", lambda x: torch.exp(torch.neg(torch.abs(x.transpose(0, 1)))))
    torch.testing.assert_close(result.model(*X), torch.exp(-X[0].abs()).T)
    grown = run(f"{SINK}pipeline p {{ once grow }}", lambda x: torch.relu(torch.relu(x)))
    torch.testing.assert_close(grown.model(*X), X[0].relu() + 2)


@pytest.mark.parametrize("strategy", ["fixpoint", "once", "sweep"])
def test_priorities_hold_within_a_step(strategy: str) -> None:
    text = """
rule low(x: float[...]) { match tanh(x) rewrite cos(x) numerics differs "test" priority -1 }
rule high(x: float[...]) { match tanh(x) rewrite sin(x) numerics differs "test" }
"""
    assert calls(run(f"{text}pipeline p {{ {strategy} low, high }}", torch.tanh).model) == ["sin"]
    turned = text.replace("priority -1", "priority 1")
    assert calls(run(f"{turned}pipeline p {{ {strategy} high, low }}", torch.tanh).model) == ["cos"]
    split = f"{text}pipeline p {{ {strategy} low {strategy} high }}"
    assert calls(run(split, torch.tanh).model) == ["cos"], "steps go before priorities"


LONG = 'rule shift(x: float[...]) { match tanh(sin(x)) rewrite sin(tanh(x)) numerics differs "test" }\n'


def _ladder(x: Tensor) -> Tensor:
    for one in (torch.sin, torch.tanh, torch.tanh, torch.tanh):
        x = one(x)
    return x


def test_once_leaves_alone_what_rules_of_a_higher_priority_made() -> None:
    text = """
rule low(x: float[...]) { match sin(x) rewrite cos(x) numerics differs "test" priority -1 }
rule high(x: float[...]) { match tanh(x) rewrite sin(x) numerics differs "test" }
rule pair(x: float[...]) { match neg(sin(x)) rewrite exp(x) numerics differs "test" priority -2 }
"""
    result = run(f"{text}pipeline p {{ once high, low }}", lambda x: torch.sin(torch.tanh(x)))
    assert calls(result.model) == ["sin", "cos"] and fired(result) == [{"high": 1, "low": 1}]
    assert calls(run(f"{text}pipeline p {{ sweep high, low }}", torch.tanh).model) == ["cos"]
    below = run(f"{text}pipeline p {{ once high, pair }}", lambda x: torch.neg(torch.tanh(x)))
    assert calls(below.model) == ["exp"], "its root was there at the start"


@pytest.mark.parametrize("limit", [1, 2, 3, 100, None])
def test_a_limit_bounds_the_rounds_that_fire(limit: int | None) -> None:
    """One round moves the sine by one place: three rounds fire."""
    text = f"{LONG}pipeline p {{ fixpoint shift {f'limit {limit}' if limit else ''} }}"
    module = symbolic_trace(Function(_ladder))
    if limit is None or limit >= 3:
        result = run(text, module)
        assert calls(result.model) == ["tanh", "tanh", "tanh", "sin"]
        assert (result.report.rounds, result.report.fired) == (4, {"text.shift": 3})
        return
    told = rf"firings in round {limit + 1}, and the step says `limit {limit}`.*`text.shift`.*a higher limit"
    with pytest.raises(fxrules.FxrulesError, match=rf"(?s)^<text>:2:14: step 1 of pipeline `text.p`: .*{told}"):
        run(text, module, inplace=True)
    assert calls(module) == ["sin", "tanh", "tanh", "tanh"]


def test_a_sweep_that_feeds_itself_is_stopped() -> None:
    told = r"(?s)step 1 of pipeline `text.p`: .* `sweep` also visits what it makes.*`text.grow`.*`once` step"
    with pytest.raises(fxrules.FxrulesError, match=told):
        run(f"{SINK}pipeline p {{ sweep grow }}", torch.relu)
    both = 'rule both(x: float[...]) { match relu(x) rewrite relu(x) + relu(x) numerics differs "test" }\n'
    with pytest.raises(fxrules.FxrulesError, match=told.replace("grow", "both")):
        run(f"{both}pipeline p {{ sweep both }}", torch.relu)


def test_the_steps_of_a_long_chain_are_not_taken_for_endless() -> None:
    def chain(x: Tensor) -> Tensor:
        x = x.transpose(0, 1)
        for _ in range(150):
            x = torch.neg(x)
        return x

    result = run(f"{SINK}pipeline p {{ sweep sink }}", chain)
    assert calls(result.model) == ["neg"] * 150 + ["transpose"] and torch.equal(result.model(*X), X[0].T)


@pytest.mark.parametrize(
    ("bound", "wanted", "steps"),
    [
        (0, ["tanh", "tanh", "tanh"], [{}, {}, {}]),
        (2, ["tanh", "sin", "sin"], [{"tanh_sin": 2}, {}, {}]),
        (3, ["sin", "sin", "sin"], [{"tanh_sin": 3}, {}, {}]),
        (4, ["sin", "sin", "cos"], [{"tanh_sin": 3}, {"sin_cos": 1}, {}]),
        (8, ["exp", "exp", "cos"], [{"tanh_sin": 3}, {"sin_cos": 3}, {"cos_exp": 2}]),
        (9, ["exp", "exp", "exp"], [{"tanh_sin": 3}, {"sin_cos": 3}, {"cos_exp": 3}]),
    ],
)
def test_stop_after_counts_across_steps(bound: int, wanted: list[str], steps: list[dict[str, int]]) -> None:
    text = CHANGE + "pipeline p { fixpoint tanh_sin once sin_cos sweep cos_exp }"
    result = run(text, lambda x: torch.tanh(torch.tanh(torch.tanh(x))), stop_after=bound)
    assert calls(result.model) == wanted and fired(result) == steps
    reasons = [step.skipped for step in result.report.steps if step.skipped]
    assert reasons == [f"stopped after {bound} rewrites, as stop_after asks"] * len(reasons)
    assert len(reasons) == {0: 3, 2: 2, 3: 2, 4: 1, 8: 0, 9: 0}[bound]
