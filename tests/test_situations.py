"""The conditions of steps: device, mode and level of a model, known or not."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from stepping import CHANGE, Function, X, fired, run
from torch import Tensor, nn
from torch.export import ExportedProgram, export
from torch.fx import GraphModule, symbolic_trace

import fxrules


class Noisy(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear, self.drop = nn.Linear(4, 4), nn.Dropout(0.3)

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(self.drop(self.linear(x)))


def _noisy(training: bool, inner: bool | None = None) -> Noisy:
    model = Noisy().train(training)
    model.drop.train(training if inner is None else inner)
    return model


def _meta(*, partly: bool = False) -> GraphModule:
    model = Noisy().to("meta")
    if partly:
        model.linear.register_buffer("steps", torch.zeros(3))
    return symbolic_trace(model)


MODELS: dict[str, Callable[[], GraphModule | ExportedProgram | nn.Module]] = {
    "eval": lambda: symbolic_trace(_noisy(False)),
    "train": lambda: symbolic_trace(_noisy(True)),
    "mixed": lambda: symbolic_trace(_noisy(True, False)),
    "program eval": lambda: export(_noisy(False), X),
    "program train": lambda: export(_noisy(True), X),
    "exported eval": lambda: export(_noisy(False), X).module(),
    "no mode": lambda: export(Function(torch.tanh).eval(), X),
    "module eval": lambda: Function(torch.tanh).eval(),
    "module train": lambda: Function(torch.tanh).train(),
    "meta": _meta,
    "partly meta": lambda: _meta(partly=True),
}
RUNS = "runs"
CONDITIONS = [
    ('device == "cpu"', "eval", RUNS),
    ('device == "cuda"', "eval", '`device == "cuda"` is false: device is cpu'),
    ('device == "cuda"', "program eval", '`device == "cuda"` is false: device is cpu'),
    ('device == "meta"', "meta", RUNS),
    ('device in ("cuda", "meta")', "meta", RUNS),
    ('device.type == "meta"', "meta", RUNS),
    ('device == "meta"', "partly meta", '`device == "meta"` is unknown: the model is on cpu and meta'),
    ('not device == "meta"', "partly meta", '`not device == "meta"` is unknown: the model is on cpu and meta'),
    ('device == "meta" or level == "torch"', "partly meta", RUNS),
    (
        'device == "meta" and level == "aten"', "partly meta",
        '`device == "meta" and level == "aten"` is false: device is unknown, level is torch',
    ),
    ('mode == "eval"', "eval", RUNS),
    ('mode == "train"', "eval", '`mode == "train"` is false: mode is eval'),
    ('mode == "train"', "train", RUNS),
    ('mode == "train"', "mixed", '`mode == "train"` is unknown: parts of the model train and others do not'),
    ('mode == "eval"', "program eval", RUNS),
    ('mode == "train"', "program train", RUNS),
    ('mode == "eval"', "exported eval", RUNS),
    (
        'mode == "eval"', "no mode",
        '`mode == "eval"` is unknown: no op of this graph tells the mode; rewrite the nn.Module, before it is exported',
    ),
    ('mode == "eval"', "module eval", RUNS),
    ('mode == "train"', "module train", RUNS),
    ('level == "torch"', "eval", RUNS),
    ('level == "aten"', "program eval", RUNS),
    ('level == "aten"', "exported eval", RUNS),
    ('level != "aten"', "module eval", '`level != "aten"` is false: level is aten'),
    ("device < 3", "eval", "has no value"),
    ("LEVEL > 2", "eval", RUNS),
    ("LEVEL > 3", "eval", "`LEVEL > 3` is false"),
]  # fmt: skip


@pytest.mark.filterwarnings("ignore:Noisy is in training mode")
@pytest.mark.parametrize(("condition", "model", "wanted"), CONDITIONS)
def test_a_condition_is_asked_of_the_model(condition: str, model: str, wanted: str) -> None:
    text = f"const LEVEL = 3\n{CHANGE.replace('x: float[...]', 'x')}pipeline p {{ once tanh_sin when {condition} }}"
    subject = MODELS[model]()
    result = fxrules.rewrite(
        subject, fxrules.load(text=text), X if "module" in model else None, numerics="differs", pipeline="p"
    )
    (step,) = result.report.steps
    if wanted == RUNS:
        assert (step.skipped, step.fired) == ("", {"text.tanh_sin": 1})
    else:
        assert wanted in step.skipped and step.fired == {}
        assert isinstance(subject, nn.Module) or result.model is subject
        (refusal,) = result.report["tanh_sin"].refused
        assert refusal.kind == "pipeline" and step.skipped in result.report["tanh_sin"].outcome


def test_a_condition_sees_the_model_before_the_first_step() -> None:
    text = f'{CHANGE}pipeline p {{ once tanh_sin when mode == "eval" once sin_cos when mode == "eval" }}'
    assert fired(run(text, symbolic_trace(_noisy(False)))) == [{"tanh_sin": 1}, {"sin_cos": 1}]
