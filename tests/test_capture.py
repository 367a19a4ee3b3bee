"""Every way a model can fail to become a graph: the reason, the user's line, and what to try."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from contextlib import redirect_stderr
from typing import Any

import pytest
import torch
from attrs import frozen
from torch import Tensor, nn

from fxrules.dsl.source import FxrulesError, Problem
from fxrules.engine.capture import capture


class Branch(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x if x.sum() > 0 else -x  # here


class Count(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x[: int(x.sum().item())]  # here


class Numpy(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.from_numpy(x.numpy() + 1)  # here


class Text(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        print(f"{x.sum():.2f}")  # here
        return x


class Length(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * len(x)  # here


class Loop(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        for row in x:  # here
            x = x + row
        return x


@frozen
class Box:
    value: Tensor


class TakesBox(nn.Module):
    def forward(self, box: Box) -> Tensor:
        return box.value + 1


class ReturnsBox(nn.Module):
    def forward(self, x: Tensor) -> Box:
        return Box(x)


@torch.library.custom_op("fxrules_test::no_fake", mutates_args=())
def no_fake(x: Tensor) -> Tensor:
    return x + 1


class CustomOp(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = no_fake(x)  # here
        return y


class Broken(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        raise KeyError("weights")  # here


class Keyword(nn.Module):
    def forward(self, x: Tensor, *, mask: Tensor, scale: float = 1.0) -> Tensor:
        return x * mask * scale


class Scripted(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.part = torch.jit.script(nn.Linear(3, 3))

    def forward(self, x: Tensor) -> Tensor:
        return torch.as_tensor(self.part(x))


X = torch.ones(2, 3)


def fail(model: Any, inputs: Any, how: str) -> Problem:
    with pytest.raises(FxrulesError) as caught:
        capture(model, inputs, how=how)
    (problem,) = caught.value.problems
    return problem


@pytest.mark.parametrize(
    ("model", "inputs", "how", "code", "said", "hinted"),
    [
        (Branch(), X, "export", "data-dependent", "depends on values of tensors", "torch.cond"),
        (Count(), X, "export", "data-dependent", "depends on values of tensors", "torch.cond"),
        (Branch(), None, "trace", "data-dependent", "depends on the value of a traced tensor", 'capture="export"'),
        (Numpy(), X, "export", "graph-break", "leaves torch", "custom_op"),
        (Text(), X, "export", "graph-break", "leaves torch", "custom_op"),
        (Count(), None, "trace", "graph-break", "needs the value of a traced tensor", 'capture="export"'),
        (Length(), None, "trace", "graph-break", "'len' is not supported", "torch.fx.wrap"),
        (Loop(), None, "trace", "graph-break", "cannot be iterated", 'capture="export"'),
        (CustomOp(), X, "export", "operator-without-fake", "fxrules_test::no_fake", "register_fake"),
        (nn.Linear(5, 3), X, "export", "wrong-inputs", "(2x3 and 5x3)", "forward takes (input)"),
        (Broken(), X, "export", "wrong-inputs", "KeyError: 'weights'", "forward takes (x)"),
        (Broken(), None, "trace", "untraceable", "KeyError: 'weights'", 'capture="export"'),
    ],
)
def test_reasons_come_with_the_users_line(
    model: nn.Module, inputs: Any, how: str, code: str, said: str, hinted: str
) -> None:
    problem = fail(model, inputs, how)
    assert problem.code == code
    assert type(model).__name__ in problem.message and said in problem.message
    assert hinted in problem.hint
    if type(model).__module__ == __name__:
        assert problem.span is not None and problem.span.source.name == __file__
        line, _ = problem.span.source.line_column(problem.span.start)
        assert problem.span.source.line_text(line).endswith("# here")


def test_carets_point_at_the_expression() -> None:
    span = fail(Numpy(), X, "export").span
    assert span is not None
    assert span.source.text[span.start : span.end] == "x.numpy()"


@pytest.mark.parametrize(
    ("model", "inputs", "code", "said"),
    [
        (Keyword(), None, "needs-example-inputs", "forward takes (x, mask, scale=...)"),
        (Keyword(), X, "wrong-inputs", "missing a required argument: 'mask'"),
        (Keyword(), (X, X), "wrong-inputs", "too many positional arguments"),
        (Keyword(), {"x": X, "maks": X}, "wrong-inputs", "missing a required argument: 'mask'"),
        (nn.ReLU(), [X], "input-list", "several calls"),
        (TakesBox(), Box(X), "unsupported-input", "args[0] is an object of class test_capture.Box"),
        (nn.ReLU(), X.numpy(), "unsupported-input", "args[0] is a numpy array"),
        (nn.ReLU(), X.to_sparse(), "unsupported-input", "args[0] is a sparse_coo tensor"),
        (ReturnsBox(), X, "unsupported-output", "test_capture.Box"),
        (nn.LazyLinear(3), X, "uninitialised", "the parameter weight of LazyLinear has no shape yet"),
        (torch.jit.script(nn.ReLU()), X, "unsupported-module", "RecursiveScriptModule is TorchScript"),
        (Scripted(), X, "unsupported-module", "part of Scripted is TorchScript"),
        (torch.compile(nn.ReLU()), X, "unsupported-module", "comes from torch.compile"),
        (len, X, "not-a-model", "not builtin_function_or_method"),
    ],
)
def test_models_and_inputs_that_cannot_be_captured(model: Any, inputs: Any, code: str, said: str) -> None:
    problem = fail(model, inputs, "export")
    assert (problem.code, said in problem.message) == (code, True), problem


def test_an_unknown_way_of_capturing_names_the_nearest() -> None:
    assert fail(nn.ReLU(), X, "exprot").hint == "did you mean `export`?"


def test_graphs_come_back_themselves() -> None:
    module = torch.fx.symbolic_trace(nn.ReLU())
    program = torch.export.export(nn.ReLU(), (X,))
    assert capture(module) is module
    assert capture(program) is program


@pytest.mark.parametrize("inputs", [((X,), {"mask": X}), {"x": X, "mask": X}])
def test_keyword_arguments_and_a_tensor_given_twice(inputs: Any) -> None:
    """torch.export itself takes two arguments that are one tensor for one: its graph then computes x * x."""
    graph = capture(Keyword(), inputs)
    args, kwargs = ((), {"x": X}) if isinstance(inputs, dict) else ((X,), {})
    assert torch.equal(graph(*args, **kwargs, mask=X * 2), X * 2)


@pytest.mark.parametrize("how", ["export", "trace"])
def test_a_graph_shares_parameters_and_buffers_with_its_model(how: str) -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)).eval()
    graph = capture(model, X, how=how)
    assert isinstance(graph, torch.fx.GraphModule)
    own = dict([*graph.named_parameters(), *graph.named_buffers()])
    for name, value in [*model.named_parameters(), *model.named_buffers()]:
        if name in own or how == "trace":
            assert own[name] is value
    assert {"0.weight", "0.bias", "1.weight", "1.running_mean"} <= set(own)


def test_exporting_in_training_mode_warns_where_it_matters(recwarn: pytest.WarningsRecorder) -> None:
    capture(nn.Sequential(nn.Linear(3, 3), nn.ReLU()), X)
    capture(nn.Sequential(nn.Linear(3, 3), nn.Dropout()).eval(), X)
    assert not [warning for warning in recwarn if "training mode" in str(warning.message)]
    with pytest.warns(UserWarning, match=r"Sequential is in training mode.*dropout is active for good"):
        capture(nn.Sequential(nn.Linear(3, 3), nn.Dropout()), X)


@pytest.mark.parametrize("make", [Branch, Numpy, Broken, lambda: nn.BatchNorm1d(5)])
def test_failing_leaves_the_model_and_the_random_state_as_they_were(make: Callable[[], nn.Module]) -> None:
    model = make()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    attributes, random_state = dict(vars(model)), torch.get_rng_state()
    fail(model, X, "export")
    assert vars(model) == attributes
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert torch.equal(torch.get_rng_state(), random_state)


def test_torch_prints_nothing_beside_the_error(capfd: pytest.CaptureFixture[str]) -> None:
    fail(Branch(), X, "export")
    fail(nn.Linear(5, 3), X, "export")
    assert capfd.readouterr() == ("", "")


def test_what_the_model_prints_is_still_printed() -> None:
    class Prints(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            print("hello", file=sys.stderr)
            return x + 1

    with redirect_stderr(io.StringIO()) as printed:
        capture(Prints(), X)
    assert "hello" in printed.getvalue()
