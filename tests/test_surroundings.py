"""What conditions can ask of the graph around a value, and of the kind of a value."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from evaluating import program, value
from torch import Tensor

import fxrules
from fxrules.engine.nodeview import Views
from fxrules.engine.truth import Declined


@pytest.fixture(scope="module")
def views() -> Views:
    return program()


# `x` and `ids` are inputs, `h` is relu(x @ w.T + running), `running` is written to, `N` is a symbolic size
ANSWERS = {
    "op(h)": "relu",
    "op(x)": "input",
    "op(w)": "constant",
    "user_ops(h)": ("add",),
    "user_ops(x)": ("matmul",),
    "user_ops(absent)": (),
    "h.user_ops()": ("add",),
    "depends_on(h, x)": True,
    "depends_on(h, w)": True,
    "depends_on(x, h)": False,
    "depends_on(h, ids)": False,
    "depends_on(h, h)": False,
    "is_output(h)": False,
    "is_const(w)": True,
    "is_const(running)": False,
    "is_const(x)": False,
    "is_const(n)": True,
    "is_const(N)": False,
    "is_tensor(h)": True,
    "is_tensor(n)": False,
    "is_number(n)": True,
    "is_number(flag)": False,
    "is_number(N)": False,
    "is_symbolic(N)": True,
    "is_symbolic(L)": False,
    "same(x, x)": True,
    "same(x, h)": False,
    "same(n, 8)": True,
    "same(flag, 1)": False,
    "is_contiguous(h)": True,
    "is_contiguous(h, channels_last)": False,
}


@pytest.mark.parametrize("text", ANSWERS)
def test_answers(text: str, views: Views) -> None:
    assert value(text, views) == ANSWERS[text]


@pytest.mark.parametrize("text", ["op(n)", "user_ops(n)", "is_contiguous(h, strided)"])
def test_questions_without_a_meaning_are_declined(text: str, views: Views) -> None:
    with pytest.raises(Declined):
        value(text, views)


# ------------------------------------------------------------------ in rules
def fired(text: str, function: object, *inputs: Tensor) -> int:
    module = torch.fx.symbolic_trace(function)  # type: ignore[arg-type]
    result = fxrules.rewrite(module, fxrules.load(text=text), inputs)
    torch.testing.assert_close(result.model(*inputs), module(*inputs))
    return sum(result.report.fired.values())


X = torch.linspace(-2, 2, 12).view(3, 4)
CONDITIONS = [
    ('"softmax" in user_ops($out)', lambda x: F.softmax(x * 2, -1), 1),
    ('"softmax" in user_ops($out)', lambda x: torch.relu(x * 2), 0),
    ('"exp" in user_ops(x)', lambda x: x * 2 + torch.exp(x), 1),  # a sibling reads the same value
    ('op(x) == "relu"', lambda x: torch.relu(x) * 2, 1),
    ('op(x) == "relu"', lambda x: x * 2, 0),
    ("is_output($out)", lambda x: x * 2, 1),
    ("is_output($out)", lambda x: torch.relu(x * 2), 0),
    ("not is_input(x)", lambda x: x * 2, 0),
]


@pytest.mark.parametrize(("condition", "function", "count"), CONDITIONS)
def test_a_rule_asks_for_what_stands_around_its_match(condition: str, function: object, count: int) -> None:
    text = f"rule r(x: float[...]) {{ match x * 2 where {condition} rewrite x + x }}"
    assert fired(text, function, X) == count


def test_two_names_may_have_to_be_different_values() -> None:
    text = "rule r(x: float[...], y: float[...]) { match x * y where not same(x, y) rewrite y.mul(x) / 1.0 }"
    rules = fxrules.load(text=text)
    module = torch.fx.symbolic_trace(lambda x, y: x * y + x * x)
    result = fxrules.rewrite(module, rules, (X, X + 1), stop_after=5)
    divided = [node.args[0] for node in result.model.graph.nodes if "div" in node.name]
    assert len(divided) == 5 and sum(result.report.fired.values()) == 5
    assert "mul_1 = x * x" in result.model.code
    torch.testing.assert_close(result.model(X, X + 1), module(X, X + 1))


def test_an_answer_is_asked_again_when_something_far_away_has_changed() -> None:
    """The first rule cuts `x` off from what `y` is computed from, four ops below; only then may the second one fire."""
    text = """
rule cut(x: float[...], r: float[...]) { match (r + x) - x rewrite r numerics rounding changes aliasing }
rule late(x: float[...], y: float[...]) { match x / y where not depends_on(y, x) rewrite x * reciprocal(y) }
"""

    def forward(x: Tensor, r: Tensor) -> Tensor:
        return x / torch.tanh(torch.exp(torch.neg((r + x) - x)))

    module = torch.fx.symbolic_trace(forward)
    alone = fxrules.rewrite(module, fxrules.load(text=text)["text.late"], (X, X + 1))
    assert not alone.report.fired
    result = fxrules.rewrite(module, fxrules.load(text=text), (X, X + 1))
    assert dict(result.report.fired) == {"text.cut": 1, "text.late": 1} and result.report.rounds == 3
    torch.testing.assert_close(result.model(X, X + 1), module(X, X + 1))


def test_channels_last_is_an_order_that_a_rule_can_ask_for() -> None:
    text = (
        "rule r(x: float[N, C, H, W]) { match relu(x) where is_contiguous(x, channels_last) rewrite clamp(x, min=0) }"
    )
    image = torch.randn(2, 3, 4, 5)
    assert fired(text, lambda x: torch.relu(x), image.to(memory_format=torch.channels_last)) == 1
    assert fired(text, lambda x: torch.relu(x), image) == 0
