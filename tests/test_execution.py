"""Comparing what two models do beside their numbers, without touching either."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from comparing import check, normal
from torch import Tensor, nn

from fxrules.engine.comparison import compare
from fxrules.engine.execution import observe
from fxrules.engine.inputs import Call


# --------------------------------------------------------------- interface
@pytest.mark.parametrize(
    ("after", "told", "change"),
    [
        (lambda x: (x * 2).double(), "output: dtype torch.float32 before, torch.float64 after", "dtype"),
        (lambda x: (x * 2)[None], "output: shape (4, 6) before, (1, 4, 6) after", "shape"),
        (lambda x: (x * 2).t().contiguous().t(), "output: strides (6, 1) before, (1, 4) after", "strides"),
        (lambda x: (x * 2).to("meta"), "output: device cpu before, meta after", "device"),
        (lambda x: x.mul_(2), "args[0] after the call: written after, not before", None),
        (lambda x: (x * 2, x), "the outputs are nested differently", None),
        (lambda x: 2, "output: tensor", None),
        (lambda x: x.view(7), "the new model raises RuntimeError: shape '[7]' is invalid", None),
    ],
)
def test_the_interface_is_part_of_every_contract(after: Any, told: str, change: str | None) -> None:
    x = normal(4, 6)
    contract = "differs" if change == "device" else "rounding"
    result = check(lambda x: x * 2, after, x, contract=contract)
    assert not result
    assert told in result.problems[0]
    if change:
        assert check(lambda x: x * 2, after, x, contract=contract, changes=[change])


def test_strides_of_dimensions_of_size_one_do_not_count() -> None:
    x = normal(4, 1, 6)
    assert check(lambda x: x * 2, lambda x: (x * 2).as_strided((4, 1, 6), (6, 99, 1)), x)


def test_memory_newly_shared_is_told() -> None:
    result = check(lambda x: x.clone(), lambda x: x.view(-1).view(3), normal(3))
    assert result.problems == ("output shares memory with args[0] after, not before",)
    assert check(lambda x: x.clone(), lambda x: x, normal(3), changes=["aliasing"])
    assert check(lambda x: x, lambda x: x.clone(), normal(3))


def test_plain_values_and_unknown_objects_in_outputs() -> None:
    assert check(lambda x: (x, 3, None), lambda x: (x, 3, None), normal(2))
    assert check(lambda x: (x, 3), lambda x: (x, 4), normal(2)).problems == ("output[1]: 3 before, 4 after",)
    result = check(lambda x: (x, object()), lambda x: (x, object()), normal(2))
    assert result and result.notes == ("output[1] is a object: not compared",)


def test_what_is_written_is_compared() -> None:
    x = normal(5)
    assert check(lambda x: x.add_(1), lambda x: x.add_(1), x)
    wrong = check(lambda x: x.add_(1).sum(), lambda x: x.add_(2).sum() - 5, x)
    assert [output.verdict.ok for output in wrong.outputs if output.name == "args[0] after the call"] == [False]
    assert torch.equal(x, normal(5))


def test_buffers_that_a_model_updates_are_compared_and_put_back() -> None:
    old, new = nn.BatchNorm1d(3), nn.BatchNorm1d(3, momentum=0.5)
    result = compare(old, new, normal(8, 3))
    assert {output.name for output in result.outputs if not output.verdict.ok} == {
        "buffer running_mean after the call",
        "buffer running_var after the call",
    }
    assert torch.equal(torch.as_tensor(old.running_mean), torch.zeros(3))
    assert int(torch.as_tensor(old.num_batches_tracked)) == 0
    assert compare(old, old, normal(8, 3))


def test_neither_model_changes() -> None:
    class Remembers(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(4, 4)
            self.seen = nn.Buffer(torch.zeros(()))
            self.history: list[Tensor] = []
            self.cache = torch.zeros(4)
            self.calls = 0

        def forward(self, x: Tensor) -> Tensor:
            self.calls += 1
            self.history.append(x)
            self.seen.add_(1)
            self.cache.copy_(x[0])
            self.extra = x
            return torch.as_tensor(self.linear(x) * self.calls)

    model = Remembers().train()
    model.linear.weight.grad = torch.ones(4, 4)
    seen, cache = model.seen, model.cache
    names = set(vars(model))
    assert compare(model, model, [normal(2, 4), normal(2, 4, seed=1)])
    assert set(vars(model)) == names
    assert (model.calls, model.history, model.training) == (0, [], True)
    assert model.seen is seen and float(seen) == 0 and model.cache is cache and not cache.any()
    assert model.linear.weight.dtype is torch.float32
    assert torch.equal(model.linear.weight.grad, torch.ones(4, 4)) and model.linear.bias.grad is None


def test_a_returned_buffer_keeps_the_value_of_its_call() -> None:
    class Counter(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.count = nn.Buffer(torch.zeros(()))

        def forward(self) -> Any:
            self.count.add_(1)
            return self.count

    counter = Counter()
    assert [float(observe(counter, Call()).returned["output"]) for _ in range(2)] == [1.0, 1.0]
