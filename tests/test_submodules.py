"""Module leaves: ``m(x)`` matches by class and by the signature of ``forward``; attributes such as ``m.weight``."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from leaf_nets import Gate, Local, Sum, X, graph_of, refusals
from small_rules import load
from torch import nn
from torch.nn.utils import parametrizations, parametrize

import fxrules
from fxrules.engine import matching, reference
from fxrules.engine.nodeview import Views
from fxrules.engine.optable import OTHER_MODULES, op_table
from fxrules.engine.submodules import is_of_class

# ----------------------------------------------------------------------- matching
CALLS: list[tuple[str, Callable[..., Any], dict[str, Any] | None]] = [
    ("m(x)", lambda s, x, y: s.gate(x), {"x": "x"}),
    ("m(x)", lambda s, x, y: s.gate(x, None), {"x": "x"}),
    ("m(x)", lambda s, x, y: s.gate(x=x, k=2), {"x": "x"}),
    ("m(x)", lambda s, x, y: s.gate(x, k=3), None),
    ("m(x)", lambda s, x, y: s.gate(x, y), None),
    ("m(x, ...)", lambda s, x, y: s.gate(x, y, k=3), {"x": "x"}),
    ("m(x, y)", lambda s, x, y: s.gate(x, y=y), {"x": "x", "y": "y"}),
    ("m(x, y=y)", lambda s, x, y: s.gate(x, y), {"x": "x", "y": "y"}),
    ("m(y=y, x=x)", lambda s, x, y: s.gate(x, y), {"x": "x", "y": "y"}),
    ("m(x, x)", lambda s, x, y: s.gate(y, y), {"x": "y"}),
    ("m(x, x)", lambda s, x, y: s.gate(x, y), None),
    ("m(x, k=3)", lambda s, x, y: s.gate(x, k=3), {"x": "x"}),
    ("m(x, k=n)", lambda s, x, y: s.gate(x, k=3), {"x": "x", "n": 3}),
    ("m(x, k=n)", lambda s, x, y: s.gate(x), {"x": "x", "n": 2}),
    ("m(x, None, k=2)", lambda s, x, y: s.gate(x), {"x": "x"}),
    ("m(x, y, n)", lambda s, x, y: s.gate(x, y), {"x": "x", "y": "y", "n": 2}),
    ("m(x, y, n, 1)", lambda s, x, y: s.gate(x, y), None),
    ("m(x, z=y)", lambda s, x, y: s.gate(x, y), None),
    ("m(relu(x))", lambda s, x, y: s.gate(torch.relu(x)), {"x": "x"}),
    ("relu(m(x)) + x", lambda s, x, y: x + torch.relu(s.gate(x)), {"x": "x"}),
    ("m(x)", lambda s, x, y: s.sum(x), None),
    ("m(m(x))", lambda s, x, y: s.gate(s.gate(x)), {"x": "x"}),
    ("m(m(x))", lambda s, x, y: s.gate(s.twin(x)), {"x": "x"}),
    ("m(m(x))", lambda s, x, y: s.gate(s.other(x)), None),
    ("m(n(x))", lambda s, x, y: s.gate(s.other(x)), None),  # `n` is a value
    ("v(x, y)", lambda s, x, y: s.sum(x, y), {"x": "x", "y": "y"}),
    ("v(x)", lambda s, x, y: s.sum(x, y), None),
    ("v(x, ...)", lambda s, x, y: s.sum(x, y), {"x": "x"}),
    ("a(x)", lambda s, x, y: s.sum(x), {"x": "x"}),
    ("a(x)", lambda s, x, y: torch.relu(x), None),
    ("a(x)", lambda s, x, y: s.act(x), {"x": "x"}),
]
HEADER = "m: module leaf_nets.Gate, v: module leaf_nets.Sum, a: module, n: int, x: Tensor, y: Tensor"


@pytest.mark.parametrize(("pattern", "run", "expected"), CALLS, ids=[f"{i}:{one[0]}" for i, one in enumerate(CALLS)])
def test_a_call_is_matched_by_class_and_by_the_signature_of_forward(
    pattern: str, run: Callable[..., Any], expected: dict[str, Any] | None
) -> None:
    gate = Gate()
    module = graph_of(run, gate=gate, twin=Gate(), other=Gate(), sum=Sum(), act=nn.ReLU())
    root = module.graph.output_node().args[0]
    assert isinstance(root, torch.fx.Node)
    if "n(x)" in pattern:
        with pytest.raises(fxrules.FxrulesError, match="`n` is a value and not an op"):
            fxrules.load(text=f"rule r({HEADER}) {{ match {pattern} }}")
        return
    rule = load(f"rule r({HEADER}) {{ match {pattern} }}")[0]
    found = []
    for matcher in (reference.candidates, matching.candidates):
        got = [one.bindings for one in matcher(rule, root, Views(module.graph, module))]
        named = [{k: getattr(v, "name", v) for k, v in one.items() if k in "xyn" and v is not None} for one in got]
        found.append(named)
    assert found == [[expected] if expected is not None else []] * 2


def test_a_wrapper_that_may_be_missing() -> None:
    rules = fxrules.load(
        text="rule r(m: module nn.ReLU?, x: Tensor) { match neg(m(x)?) let there = m is not None where there == there }"
    )
    for run, there in ((lambda s, x, y: -s.act(x), True), (lambda s, x, y: -x, False)):
        (found,) = fxrules.find(graph_of(run, act=nn.ReLU()), rules, (X, X))
        assert found.bindings["there"] is there


CLASSES = [
    (nn.LayerNorm(4), "nn.LayerNorm", True),
    (nn.LayerNorm(4), "torch.nn.LayerNorm", True),
    (nn.LayerNorm(4), "torch.nn.modules.normalization.LayerNorm", True),
    (nn.LayerNorm(4), "acme.nn.LayerNorm", False),
    (nn.RMSNorm(4), "nn.LayerNorm", False),
    (Local.Norm(4), "nn.LayerNorm", False),
    (Local.Norm(4), "leaf_nets.Local.Norm", True),
    (Local.Norm(4), "Local.Norm", True),
    (Local.Norm(4), "cal.Norm", False),
    (Local.Norm(4), "no.such.package.Norm", False),
    (nn.LSTM(2, 2), "nn.LSTM", True),
    (parametrizations.weight_norm(nn.Linear(2, 2)), "nn.Linear", True),
    (torch.ao.nn.quantized.FloatFunctional(), "torch.ao.nn.quantized.FloatFunctional", True),
]


@pytest.mark.parametrize(("module", "name", "expected"), CLASSES)
def test_a_class_goes_by_its_full_name_the_end_of_it_or_where_it_is_offered(
    module: nn.Module, name: str, expected: bool
) -> None:
    assert is_of_class(module, name) is expected


def test_naming_a_class_imports_nothing() -> None:
    before = set(sys.modules)
    rules = fxrules.load(text="rule r(m: module wsgiref.util.Norm, x: Tensor) { match m(x) rewrite x }")
    module = graph_of(lambda s, x, y: s.gate(x), gate=Gate())
    assert fxrules.rewrite(module, rules, (X, X)).model is module
    assert not {"wsgiref", "wsgiref.util"} & (set(sys.modules) - before)


# ------------------------------------------------------------------ strange modules
def _hooked(gate: Gate) -> None:
    gate.register_forward_hook(lambda *_: None)


def _pre_hooked(gate: Gate) -> None:
    gate.register_forward_pre_hook(lambda *_: None)


def _part_hooked(gate: Gate) -> None:
    gate.proj.register_full_backward_hook(lambda *_: None)


def _parametrized(gate: Gate) -> None:
    parametrizations.weight_norm(gate.proj)


def _parametrized_itself(gate: Gate) -> None:
    parametrize.register_parametrization(gate, "weight", nn.Tanh())


def _replaced_forward(gate: Gate) -> None:
    setattr(gate, "forward", lambda x: x)  # noqa: B010 - as wrappers of other libraries do it


STRANGE = [
    (_hooked, "`gate`: it has forward hooks"),
    (_pre_hooked, "`gate`: it has forward hooks"),
    (_part_hooked, "`gate`: its part `proj` has backward hooks"),
    (_parametrized, "`gate`: its part `proj` has parametrizations"),
    (_parametrized_itself, "`gate`: it has parametrizations"),
    (_replaced_forward, "`gate`: it has a `forward` of its own, not that of its class"),
]


@pytest.mark.parametrize(("change", "reason"), STRANGE, ids=[change.__name__ for change, _ in STRANGE])
def test_a_module_that_does_more_than_its_class_says_is_left_alone(change: Callable[[Gate], None], reason: str) -> None:
    gate = Gate()
    module = graph_of(lambda s, x, y: s.gate(x), gate=gate)
    change(gate)
    rules = fxrules.load(text="rule r(m: module leaf_nets.Gate, x: Tensor) { match m(x) rewrite x * 2 }")
    result = fxrules.rewrite(module, rules, (X, X))
    assert result.model is module
    assert f"type: `m` is no plain module: {reason}" in str(result.report)


# ---------------------------------------------------------------------- attributes
ATTRIBUTES: list[tuple[str, Any]] = [
    ("m.scale", 0.5),
    ("m.scale * 2 + 1", 2.0),
    ("m.sizes", (1, 2)),
    ("m.training", False),
    ("m.KIND", "gate"),
    ("m.bias", None),
    ("m.bias ?? 7", 7),
    ("m.proj.in_features", 6),
    ("m.proj.bias is None", True),
    ("m.weight.shape", (6,)),
    ("m.proj.weight.dtype", torch.float32),
    ("m.weight is m.shift", False),
    ("path(m)", "gate"),
    ("path(m.proj)", "gate.proj"),
]


@pytest.mark.parametrize(("expr", "expected"), ATTRIBUTES, ids=[one[0] for one in ATTRIBUTES])
def test_attributes_at_rewrite_time(expr: str, expected: Any) -> None:
    module = graph_of(lambda s, x, y: s.gate(x), gate=Gate())
    rules = fxrules.load(
        text=f"rule r(m: module leaf_nets.Gate, x: Tensor) {{ match m(x) let v = {expr} where v == v or True }}"
    )
    (found,) = fxrules.find(module, rules, (X, X))
    assert found.bindings["v"] == expected
    assert type(found.bindings["v"]) is type(expected)


MISSING = [
    ("m.scal == 1", "where: `m.scal == 1`: `m` (leaf_nets.Gate) has no `scal`; did you mean `scale`?"),
    ("m.act is None", "where: `m.act is None`: `m.act` is neither a tensor nor a plain value"),
    ("m.computed > 0", "where: `m.computed > 0`: `m.computed` is neither a tensor nor a plain value"),
    ("m.proj.wieght is None", "`m.proj` (torch.nn.modules.linear.Linear) has no `wieght`; did you mean `weight`?"),
    ("sum(m.weight) > 0", "freeze: this bakes parameter values into new constants: pass freeze=True"),
]


@pytest.mark.parametrize(("condition", "reason"), MISSING, ids=[one[0] for one in MISSING])
def test_what_a_module_does_not_have_is_a_reason(condition: str, reason: str) -> None:
    module = graph_of(lambda s, x, y: s.gate(x), gate=Gate())
    text = f"rule r(m: module leaf_nets.Gate, x: Tensor) {{ match m(x) where {condition} rewrite x * 2 }}"
    result = fxrules.rewrite(module, fxrules.load(text=text), (X, X))
    assert result.model is module
    assert reason in str(result.report)


# --------------------------------------------------------------------- the language
def test_every_module_of_torch_can_be_named() -> None:
    known = {name.removeprefix("nn.") for name in op_table().modules if name.startswith("nn.")}
    classes = {name for name, one in vars(nn).items() if isinstance(one, type) and issubclass(one, nn.Module)}
    abstract = {
        "Container",
        "Module",
        "ModuleDict",
        "ModuleList",
        "ParameterDict",
        "ParameterList",
        "RNNBase",
        "RNNCellBase",
    }
    assert known == {name for name in classes - abstract if not name.startswith("Lazy")}
    assert set(OTHER_MODULES) < known


def test_a_class_that_is_misspelled_is_reported_with_the_nearest() -> None:
    module = graph_of(lambda s, x, y: s.gate(x), gate=Gate())
    for name, hint in (("leaf_nets.Gates", "did you mean `leaf_nets.Gate`?"), ("acme.Norm", ""), ("nn.GLU", "")):
        rules = fxrules.load(text=f"rule r(m: module {name}, x: Tensor) {{ match m(x) rewrite x }}")
        reason = {f"type: the model has no module of class `{name}`; {hint}": 1} if hint else {}
        assert refusals(fxrules.rewrite(module, rules, (X, X))) == reason


def test_checks_of_an_exported_graph_are_no_calls() -> None:
    module = torch.export.export(nn.Linear(6, 6), (X,)).module()
    assert [node.op for node in module.graph.nodes].count("call_module") == 1
    assert fxrules.find(module, fxrules.load(text="rule r(m: module, x: Tensor) { match m(x) }")) == ()
