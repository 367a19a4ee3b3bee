"""Memory at the boundary of a model: what a call returns stays apart from what it was given, whatever is done later."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.export import ExportedProgram, export
from torch.fx import GraphModule, symbolic_trace
from torch.utils import _pytree as pytree

import fxrules

RULES = fxrules.load(
    text="""
rule add_zero(x: float[...]) { match x + 0 rewrite x numerics bitwise except signed_zero changes aliasing, strides }
rule clone_once(x: float[...]) { match clone(x) rewrite x numerics bitwise changes aliasing, strides }
rule twice(x: float[...]) { match neg(neg(x)) rewrite x numerics bitwise changes aliasing, strides }
"""
)
SHARES = "would share memory with"


class Weighted(nn.Module):
    def __init__(self, function: Callable[[Tensor, Tensor], Any]) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.arange(1.0, 4.0))
        self.register_buffer("seen", torch.zeros(3))
        self.function = function

    def forward(self, x: Tensor) -> Any:
        return self.function(x, self.weight)


FORMS: dict[str, Callable[[nn.Module, Tensor], Any]] = {
    "traced": lambda model, x: symbolic_trace(model),
    "exported": lambda model, x: export(model, (x,)).module(),
    "program": lambda model, x: export(model, (x,)),
}

# (what a model returns, what was rewritten, what is said of the rest)
CASES: dict[str, tuple[Callable[[Tensor, Tensor], Any], dict[str, int], str]] = {
    "an input": (lambda x, w: x + 0, {}, f"{SHARES} input"),
    "an input in a dict": (lambda x, w: {"a": [x + 0], "b": x * w}, {}, f"{SHARES} input"),
    "a copy of an input": (lambda x, w: x.clone(), {}, f"{SHARES} input"),
    "a view of an input": (lambda x, w: (x + 0)[1:], {}, f"{SHARES} input"),
    "a transposed view": (lambda x, w: (x + 0).t(), {}, f"{SHARES} input"),
    "a parameter": (lambda x, w: (x * 2, w + 0), {}, f"{SHARES} input"),
    "a view of a parameter": (lambda x, w: (x * 2, (w + 0).view(3, 1)), {}, f"{SHARES} input"),
    "another output": (lambda x, w: (y := x * 2, y + 0), {}, f"{SHARES} output"),
    "a view of another output": (lambda x, w: (y := x * 2, (y + 0)[0]), {}, f"{SHARES} output"),
    "an output of a view": (lambda x, w: ((y := x * 2)[0], y + 0), {}, f"{SHARES} output"),
    "two copies of one value": (lambda x, w: ((y := x * 2) + 0, y.clone()), {"clone_once": 1}, f"{SHARES} output"),
    "two copies of an input": (lambda x, w: (x + 0, x.neg().neg()), {}, f"{SHARES} input"),
    "a dropout that does nothing": (lambda x, w: F.dropout(x.neg().neg(), 0.5, training=False), {}, f"{SHARES} input"),
    "a value of the graph": (lambda x, w: (x * 2) + 0, {"add_zero": 1}, ""),
    "inside": (lambda x, w: torch.exp(x + 0), {"add_zero": 1}, ""),
}  # fmt: skip


def storages(value: Any) -> list[int]:
    return [one.untyped_storage().data_ptr() for one in pytree.tree_leaves(value) if isinstance(one, Tensor)]


def module_of(model: Any) -> nn.Module:
    return model.module() if isinstance(model, ExportedProgram) else model


def after_writes(model: Any) -> list[Tensor]:
    """The outputs of a call; its input and the parameter once the outputs, one by one, are written over."""
    module, x = module_of(model), torch.arange(6.0).view(2, 3)
    parameter = module.get_parameter("weight")
    with torch.no_grad():
        parameter.copy_(torch.arange(1.0, 4.0))
        outputs = [one.detach() for one in pytree.tree_leaves(module(x))]
        found = [one.clone() for one in outputs]
        for number, output in enumerate(outputs):
            output.fill_(100 + number)
        found += [one.clone() for one in (*outputs, x, parameter)]
        outputs = [one.detach() for one in pytree.tree_leaves(module(x))]
        x.fill_(-7)
        parameter.fill_(-8)
        found += [one.clone() for one in outputs]
        parameter.copy_(torch.arange(1.0, 4.0))
    return found


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", CASES)
def test_writes_after_the_call_reach_what_they_reached_before(name: str, form: str) -> None:
    function, fired, reason = CASES[name]
    before = FORMS[form](Weighted(function), torch.randn(2, 3))
    result = fxrules.rewrite(before, RULES, None if form == "program" else (torch.randn(2, 3),))
    assert {rule.removeprefix("text."): count for rule, count in result.report.fired.items()} == fired
    reasons = [one.reason for rule in result.report.rules for one in rule.refused]
    assert not reason or any(reason in one for one in reasons), reasons
    for mine, wanted in zip(after_writes(result.model), after_writes(before), strict=True):
        assert torch.equal(mine, wanted)


def test_the_report_says_which_output_and_which_input() -> None:
    report = fxrules.rewrite(symbolic_trace(Weighted(lambda x, w: x + 0)), RULES, (torch.randn(2, 3),)).report
    assert report["add_zero"].refused[0].reason == "output `add` would share memory with input `x`"
    text = str(report)
    assert "output `add` would share memory with input `x`" in text and "text.add_zero" in text


def test_what_the_engine_copies_for_the_boundary_is_said_and_is_a_copy() -> None:
    rules = fxrules.load(
        text="rule r(x: float[N, M]) { match contiguous(x.mT) rewrite x.mT changes strides, aliasing }"
    )

    class Model(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            y: Tensor = torch.exp(x).mT.contiguous()
            return y

    result = fxrules.rewrite(Model(), rules, (torch.randn(2, 3),), stop_after=1)
    x = torch.randn(2, 3)
    assert result.model(x).stride() == Model()(x).stride()


def test_an_in_place_write_of_the_caller_into_the_result_leaves_the_models_state_alone() -> None:
    class Running(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("total", torch.zeros(3))

        def forward(self, x: Tensor) -> Tensor:
            total = self.get_buffer("total")
            total.add_(x)
            return total + 0

    def totals(model: nn.Module) -> list[Tensor]:
        model.get_buffer("total").zero_()
        found = []
        for _ in range(3):
            output = model(torch.ones(3))
            found.append(output.clone())
            output.fill_(1000)
        return found

    for form in ("exported", "program"):  # symbolic_trace computes with buffers as it goes
        before = FORMS[form](Running(), torch.ones(3))
        if isinstance(before, ExportedProgram):
            before = before.module()
        result = fxrules.rewrite(before, RULES, (torch.ones(3),))
        assert isinstance(result.model, GraphModule) and dict(result.report.fired) == {}
        assert all(map(torch.equal, totals(result.model), totals(before)))
        assert totals(result.model)[2].tolist() == [3.0, 3.0, 3.0]


def test_an_output_goes_on_sharing_the_memory_of_an_input_and_of_another_output() -> None:
    """What the caller writes to either is seen in the other; a rule that ends that says `changes aliasing`."""
    text = "rule r(x: Tensor) { match view(x, [-1]) rewrite clone(flatten(x)) numerics bitwise }"

    def of_input(x: Tensor) -> Tensor:
        return x.view(-1)

    def of_output(x: Tensor) -> tuple[Tensor, Tensor]:
        y = torch.relu(x)
        return y, y.view(-1)

    def inside(x: Tensor) -> Tensor:
        return x.view(-1) * 2

    expected = {of_input: "with input `x`", of_output: "with output `relu`"}
    for function, other in expected.items():
        module = torch.fx.symbolic_trace(function)
        kept = fxrules.rewrite(module, fxrules.load(text=text), (torch.ones(2, 3),))
        assert kept.model is module and f"would no longer share memory {other}" in str(kept.report)
        declared = text.replace("numerics bitwise", "numerics bitwise changes aliasing")
        assert fxrules.rewrite(module, fxrules.load(text=declared), (torch.ones(2, 3),)).report.fired
    assert fxrules.rewrite(torch.fx.symbolic_trace(inside), fxrules.load(text=text), (torch.ones(2, 3),)).report.fired
