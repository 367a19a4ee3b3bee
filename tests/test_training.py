"""Rewritten models learn as the original does: the same steps, the same parameters, the same optimizer."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from models import BATCH_NORMS, ResNet, build, draw_inputs, randomised
from torch import Tensor, nn
from torch.fx import symbolic_trace

import fxrules

STD = fxrules.load("std")
FOLDED = "std.convolution.fold_batch_norm[conv2d]"
# The hand-written GPT-2 MLP and attention, fused, lose nothing that a float32 step can see.
TOLERANCE = {None: 2e-5, torch.bfloat16: 3e-2}


def gpt2() -> tuple[nn.Module, Mapping[str, Any], Callable[[Any], Tensor]]:
    return build("gpt2"), draw_inputs("gpt2"), lambda found: found["last_hidden_state"].float().pow(2).mean()


def resnet() -> tuple[nn.Module, Mapping[str, Any], Callable[[Any], Tensor]]:
    torch.manual_seed(0)
    images = {"x": torch.randn(4, 3, 32, 32, generator=torch.Generator().manual_seed(1))}
    return randomised(ResNet()).eval(), images, lambda found: found.float().pow(2).mean()


def step(
    model: nn.Module, optimizer: torch.optim.Optimizer, inputs: Any, loss_of: Any, autocast: torch.dtype | None
) -> float:
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=autocast, enabled=autocast is not None):
        loss: Tensor = loss_of(model(**inputs))
    torch.autograd.backward(loss)
    optimizer.step()
    return float(loss.detach())


def distance(first: Tensor, second: Tensor) -> float:
    """The RMS of a difference, beside the RMS of what it should be."""
    scale = second.double().pow(2).mean().sqrt().clamp_min(1e-9)
    return float((first.double() - second.double()).pow(2).mean().sqrt() / scale)


@pytest.mark.parametrize("autocast", [None, torch.bfloat16], ids=["float32", "autocast"])
@pytest.mark.parametrize("family", [gpt2, resnet])
def test_a_rewritten_model_takes_the_steps_of_the_original(family: Any, autocast: torch.dtype | None) -> None:
    model, inputs, loss_of = family()
    twin = copy.deepcopy(model)
    optimizers = [torch.optim.SGD(one.parameters(), lr=0.01, momentum=0.9) for one in (model, twin)]  # before
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    result = fxrules.rewrite(model, STD, ((), inputs))
    assert family is not gpt2 or result.report.fired["std.attention.sdpa"] > 0
    kept = {id(parameter) for parameter in result.model.parameters()}
    assert kept <= names.keys(), "a step must reach the parameters that the optimizer knows"
    for number in range(3):
        mine = step(result.model, optimizers[0], inputs, loss_of, autocast)
        wanted = step(twin, optimizers[1], inputs, loss_of, autocast)
        assert mine == pytest.approx(wanted, rel=TOLERANCE[autocast]), number
        for (name, one), (_, other) in zip(model.named_parameters(), twin.named_parameters(), strict=True):
            assert (one.grad is None) == (other.grad is None), name
            if one.grad is not None and other.grad is not None and number == 0 and other.grad.abs().max() > 1e-6:
                assert distance(one.grad, other.grad) < 10 * TOLERANCE[autocast], name
            assert distance(one.detach(), other.detach()) < 10 * TOLERANCE[autocast], name


def gradients(model: nn.Module, owner: nn.Module, inputs: Any, loss_of: Any) -> dict[str, Tensor]:
    owner.zero_grad()
    torch.autograd.backward(loss_of(model(**inputs)))
    return {name: one.grad.double().clone() for name, one in owner.named_parameters() if one.grad is not None}


def test_the_gradients_are_held_to_the_contract() -> None:
    model, inputs, loss_of = gpt2()
    result = fxrules.rewrite(model, STD, ((), inputs))
    mine, before = (gradients(one, model, inputs, loss_of) for one in (result.model, model))
    wide = copy.deepcopy(model).double()
    oracle = gradients(wide, wide, inputs, loss_of)
    assert mine.keys() == before.keys() and len(mine) > 20
    for name, exact in oracle.items():
        floor = 2e-6 * exact.pow(2).mean().sqrt() + 1e-12
        errors = [(one[name] - exact).pow(2).mean().sqrt() for one in (mine, before)]
        assert errors[0] <= 3 * errors[1] + floor, name


def test_rules_for_evaluation_do_not_fire_in_training() -> None:
    model, inputs, _ = resnet()
    for capture in ("trace", "export"):
        model.train()
        with pytest.warns(UserWarning, match="training mode") if capture == "export" else nullcontext():
            result = fxrules.rewrite(model, STD, ((), inputs), capture=capture, freeze=True)
        assert FOLDED not in result.report.fired
        model.eval()
        found = fxrules.rewrite(model, STD, ((), inputs), capture=capture, freeze=True)
        assert found.report.fired[FOLDED] == BATCH_NORMS


class Regularised(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.drop, self.last = nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.last(self.drop(self.norm(x + 0))) * 1
        return y


def test_a_traced_model_goes_on_to_follow_train_and_eval() -> None:
    x = torch.randn(8, 4)
    for training in (True, False):
        torch.manual_seed(0)
        model = Regularised().train(training)
        twin = copy.deepcopy(model)
        result = fxrules.rewrite(symbolic_trace(model), STD, (x,))
        dropped = "std.dropout.eval[dropout]" in result.report.fired
        assert dropped == (not training) and result.report.fired["std.identity.add_zero"] == 1
        outcomes = []
        for one in (result.model, twin):
            torch.manual_seed(1)
            outcomes.append([one(x), one(x), *(value.clone() for value in one.state_dict().values())])
        assert all(map(torch.equal, *outcomes))
        if training:  # nothing was decided by the mode of the day
            for mode in (False, True):
                torch.manual_seed(2)
                mine = result.model.train(mode)(x)
                torch.manual_seed(2)
                assert torch.equal(mine, twin.train(mode)(x))


def test_dropout_in_training_draws_the_same_numbers() -> None:
    model, inputs, loss_of = gpt2()
    config: Any = model.config
    assert config.resid_pdrop > 0
    model.train()
    with pytest.warns(UserWarning, match="training mode"):
        program = fxrules.rewrite(model, fxrules.RuleSet(), ((), inputs)).model
    result = fxrules.rewrite(program, STD)
    assert "std.dropout.eval[dropout]" not in result.report.fired and sum(result.report.fired.values()) > 0
    losses = []
    for one in (result.model, program):
        torch.manual_seed(3)
        losses.append(float(loss_of(one(**inputs)).detach()))
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


def test_frozen_and_learning_parameters_stay_what_they_are() -> None:
    model, inputs, loss_of = gpt2()
    for number, parameter in enumerate(model.parameters()):
        parameter.requires_grad_(number % 2 == 0)
    result = fxrules.rewrite(model, STD, ((), inputs))
    torch.autograd.backward(loss_of(result.model(**inputs)))
    for number, (name, parameter) in enumerate(model.named_parameters()):
        assert parameter.requires_grad == (number % 2 == 0), name
        assert (parameter.grad is not None) == (number % 2 == 0), name
