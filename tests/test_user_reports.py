"""What users of other rewriters report: a test for each symptom; the table is in `user_reports`."""

from __future__ import annotations

import itertools
import logging
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from sites import calls
from torch import Tensor, nn
from torch.export import export
from torch.fx import GraphModule, symbolic_trace
from user_reports import REPORTS, Report

import fxrules

X = torch.linspace(-2, 2, 12).view(3, 4)
STD = fxrules.load("std")


@pytest.mark.parametrize("report", REPORTS, ids=[report.sources for report in REPORTS])
def test_every_report_is_held_by_a_test_or_cannot_occur(report: Report) -> None:
    assert report.tests or report.impossible
    for name in report.tests.split():
        file, _, test = name.partition("::")
        text = (Path(__file__).parent / f"test_{file}.py").read_text(encoding="utf-8")
        assert re.search(rf"^def test_{test}\(", text, re.MULTILINE), name


def test_no_report_stands_twice() -> None:
    counts = Counter(source for report in REPORTS for source in report.sources.split())
    assert max(counts.values()) == 1 and len(counts) >= 60


class Function(nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Any:
        return self.function(x)


def rewritten(text: str, model: Any, *inputs: Tensor, **options: Any) -> Any:
    """The result of a rewrite that gives the same numbers."""
    result = fxrules.rewrite(model, fxrules.load(text=text), inputs or (X,), **options)
    assert bool(result.compare(inputs or (X,)))
    return result


def fired(result: Any) -> int:
    return sum(result.report.fired.values())


# ------------------------------------------------------------------ bookkeeping
def test_matches_in_a_row_that_meet_in_a_list() -> None:
    def function(x: Tensor) -> Tensor:
        first = x.neg().neg()
        second = first.neg().neg()
        return torch.cat([first, second, second.neg().neg()])

    rule = "rule r(x: float[...]) { match neg(neg(x)) rewrite x * 1 numerics bitwise }".replace(" keep inner", "")
    for model in (symbolic_trace(Function(function)), export(Function(function), (X,)).module()):
        result = rewritten(rule, model)
        assert fired(result) == 3
        result.model.graph.lint()
        assert [name for name in calls(result.model.graph) if "neg" in name] == []


def test_overlapping_matches_are_looked_for_anew() -> None:
    for count in (5, 6):
        model = symbolic_trace(Function(lambda x, n=count: torch.exp(_negated(x, n))))
        result = rewritten("rule r(x: float[...]) { match neg(neg(x)) rewrite x changes aliasing }", model)
        assert fired(result) == count // 2
        assert calls(result.model.graph) == ["neg"] * (count % 2) + ["exp"]


def _negated(x: Tensor, count: int) -> Tensor:
    for _ in range(count):
        x = torch.neg(x)
    return x


def test_a_pattern_whose_op_the_model_lacks_does_not_match() -> None:
    text = "rule r(x: float[...], y: float[...]) { match { a = relu(x) b = sigmoid(y) return a + b } rewrite x + y }"
    for model in (lambda x: torch.relu(x) + x, lambda x: torch.relu(x) + torch.tanh(x), lambda x: torch.relu(x)):
        assert fired(rewritten(text, symbolic_trace(Function(model)))) == 0


def test_a_rule_that_finds_nothing_says_so() -> None:
    result = rewritten("rule r(x: float[...]) { match erf(sinh(x)) rewrite x }", Function(torch.exp))
    assert "1 rule found nothing to rewrite" in str(result.report)


def test_code_is_generated_once_for_all_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    model = symbolic_trace(Function(lambda x: torch.exp((x + 0) * 1 - 0).neg().neg() / 1))
    count: list[GraphModule] = []
    real = GraphModule.recompile

    def counted(module: GraphModule) -> Any:
        count.append(module)
        return real(module)

    monkeypatch.setattr(GraphModule, "recompile", counted)
    result = fxrules.rewrite(model, STD, (X,))
    assert len(result.report.fired) == 5 and count == [result.model]


def test_loading_prints_and_logs_nothing(capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        assert len(fxrules.load("std")) > 20
    assert capfd.readouterr() == ("", "") and not caplog.records


def test_placeholders_stay_when_nothing_reads_them() -> None:
    program = export(nn.Linear(4, 4), (X,))
    text = 'rule r(x: float[...], w: Tensor, b: Tensor) { match linear(x, w, b) rewrite relu(x) numerics differs "t" }'
    result = fxrules.rewrite(program, fxrules.load(text=text), numerics="differs")
    names = [[node.name for node in one.graph.nodes if node.op == "placeholder"] for one in (program, result.model)]
    assert names[0] == names[1] and result.model.state_dict.keys() == program.state_dict.keys()
    assert torch.equal(result.model.module()(X), torch.relu(X))


# ------------------------------------------------------------ modules, parameters
def test_modules_are_matched_by_class_and_not_by_path() -> None:
    inner = nn.Sequential(nn.Linear(4, 4), nn.GELU())
    model = nn.Sequential(inner, nn.Sequential(nn.Sequential(nn.Linear(4, 4), nn.GELU())), nn.Linear(4, 4))
    text = """rule r(x: float[*B, K], w: float[N, K], b: float[N]) {
      match gelu(linear(x, w, b)) rewrite gelu(x @ w.mT + b) }"""
    assert fired(rewritten(text, symbolic_trace(model))) == 2


def test_parameters_are_matched_by_what_they_are_and_not_by_name() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.some, self.other = nn.Parameter(torch.randn(4, 4)), nn.Parameter(torch.randn(4))

        def forward(self, x: Tensor) -> Tensor:
            return x @ self.some * self.other

    text = """rule r(x: float[...], w: const float[K, N], s: const float[N]) {
      match (x @ w) * s freeze w, s let v = w * s rewrite x @ v }"""
    model = symbolic_trace(Model().eval())
    result = rewritten(text, model, freeze=True)
    assert fired(result) == 1 and calls(result.model.graph) == ["matmul"]


def test_a_site_is_left_out_by_its_module_path() -> None:
    model = nn.Sequential(nn.Sequential(nn.Linear(4, 4), nn.ReLU()), nn.Sequential(nn.Linear(4, 4), nn.ReLU()))
    text = 'rule r(x: float[...]) { match relu(x) where path($out) != "0.1", "not here" rewrite clamp(x, min=0) }'
    result = rewritten(text, model)
    assert fired(result) == 1
    names = [name for name in calls(result.model.graph) if "relu" in name or "clamp" in name]
    assert names == ["relu.default", "clamp.default"]


def _conv_bn(seed: int = 0) -> tuple[nn.Conv2d, nn.BatchNorm2d]:
    torch.manual_seed(seed)
    conv, norm = nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3)
    assert norm.running_mean is not None and norm.running_var is not None
    norm.running_mean.normal_()
    norm.running_var.uniform_(0.5, 2)
    return conv, norm.eval()


def test_a_convolution_that_is_used_twice_keeps_its_weight() -> None:
    conv, norm = _conv_bn()

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.norm = conv, norm

        def forward(self, x: Tensor) -> Tensor:
            y: Tensor = self.norm(self.conv(x)) + self.conv(x + 1)
            return y

    image = torch.randn(2, 2, 6, 6)
    weight = conv.weight.detach().clone()
    for capture in ("trace", "export"):
        result = fxrules.rewrite(Model().eval(), STD, (image,), capture=capture, freeze=True)
        assert any("fold_batch_norm" in name for name in result.report.fired)
        assert bool(result.compare((image,))) and torch.equal(conv.weight, weight)


def test_conv_bn_keeps_keyword_arguments() -> None:
    conv, norm = _conv_bn()
    weight = conv.weight.detach()

    def function(x: Tensor) -> Tensor:
        y = F.conv2d(x, weight=weight, bias=None, stride=2, padding=(1, 0), dilation=1)
        return F.batch_norm(y, norm.running_mean, norm.running_var, eps=0.1)

    image = torch.randn(2, 2, 7, 7)
    for capture in ("trace", "export"):
        result = fxrules.rewrite(Function(function).eval(), STD, (image,), capture=capture, freeze=True)
        assert any("fold_batch_norm" in name for name in result.report.fired)
        assert bool(result.compare((image,))) and result.model(image).shape == function(image).shape


def test_batch_norm_with_three_arguments_is_folded() -> None:
    conv, norm = _conv_bn()
    model = Function(
        lambda x: F.batch_norm(F.conv2d(x, conv.weight.detach()), norm.running_mean, norm.running_var)
    ).eval()
    image = torch.randn(2, 2, 6, 6)
    result = fxrules.rewrite(model, STD, (image,), capture="trace", freeze=True)
    assert calls(result.model.graph) == ["conv2d"] and bool(result.compare((image,)))


# ------------------------------------------------------------ literals, defaults
def test_a_literal_is_captured_by_name_and_carried_over() -> None:
    text = "rule r(x: float[...], n: number, d: int) { match cumsum(x * n, dim=d) rewrite cumsum(x, dim=d) * n }"
    for n, d in ((2.0, 0), (4, 1), (0.25, -1)):
        result = rewritten(text, symbolic_trace(Function(lambda x, n=n, d=d: torch.cumsum(x * n, dim=d))))
        assert fired(result) == 1
        assert calls(result.model.graph) == ["cumsum", "mul"]


def test_layer_norm_of_any_shape_and_eps_is_one_rule() -> None:
    text = """rule r(x: float[...], s: int, w: float[...], e: number) {
      match layer_norm(x, [s], w, eps=e) rewrite layer_norm(x, [s], None, None, e) * w }"""
    for size, eps in itertools.product((4, 6), (1e-5, 0.5)):
        weight = torch.randn(size)
        model = Function(lambda x, w=weight, e=eps: F.layer_norm(x, (w.numel(),), w, eps=e))
        assert fired(rewritten(text, model, torch.randn(3, size))) == 1


def test_a_literal_that_is_not_named_must_be_equal() -> None:
    text = "rule r(x: float[...]) { match layer_norm(x, [4]) rewrite layer_norm(x, [4], None, None, 1e-5) * 1.0 }"
    for eps, times in ((1e-5, 1), (1e-6, 0)):
        model = symbolic_trace(Function(lambda x, e=eps: F.layer_norm(x, (4,), eps=e)))
        assert fired(rewritten(text, model, stop_after=1)) == times
    switch = """rule r(x: float[...]) {
      match F.dropout(x) rewrite F.dropout(x, p=0.5, training=False) changes aliasing numerics differs "no noise" }"""
    for p, times in ((0.5, 1), (0.1, 0)):
        model = symbolic_trace(Function(lambda x, p=p: F.dropout(x, p) + 1))
        result = fxrules.rewrite(model, fxrules.load(text=switch), (X,), numerics="differs")
        assert fired(result) == times, result.report


ADDMM = "rule r(b: float[...], x: float[M, K], w: float[K, N]) { match addmm(b, x, w) rewrite x @ w + b }"


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.addmm(x, x, x),
        lambda x: torch.addmm(x, x, x, beta=1, alpha=1),
        lambda x: torch.addmm(input=x, mat1=x, mat2=x, alpha=1.0),
        lambda x: x.addmm(x, x, beta=1),
        lambda x: torch.ops.aten.addmm.default(x, x, x),
    ],
    ids=["plain", "defaults", "keywords", "method", "aten"],
)
def test_addmm_is_one_op_however_it_is_spelled(function: Any) -> None:
    square = torch.randn(4, 4)
    for capture in ("trace", "export"):
        assert fired(rewritten(ADDMM, Function(function), square, capture=capture)) == 1


def test_addmm_with_alpha_is_not_taken_for_plain_addmm() -> None:
    square = torch.randn(4, 4)
    for given in ({"alpha": 2}, {"beta": 0.5}, {"alpha": 2, "beta": 0}):
        for capture in ("trace", "export"):
            model = Function(lambda x, given=given: torch.addmm(x, x, x, **given))
            assert fired(rewritten(ADDMM, model, square, capture=capture)) == 0
    for function in (lambda x: torch.add(x, x @ x, alpha=2), lambda x: torch.sub(x @ x, x, alpha=3)):
        model = Function(function)
        text = "rule r(b: float[...], x: float[M, K], w: float[K, N]) { match x @ w + b rewrite addmm(b, x, w) }"
        assert fired(rewritten(text, model, square)) == 0
