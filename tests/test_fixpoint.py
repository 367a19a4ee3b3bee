"""Rounds: order, limits, cycles, policies, and what the report says of them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.fx import GraphModule, symbolic_trace

import fxrules

X = (torch.randn(3, 4),)


class Chain(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(torch.relu(torch.exp(x)))


def _code(module: GraphModule) -> list[str]:
    return [str(node.target) for node in module.graph.nodes if node.op == "call_function"]


def _rewrite(text: str, model: nn.Module | None = None, **options: Any) -> fxrules.Result:
    return fxrules.rewrite(model or Chain(), fxrules.load(text=text), X, numerics="differs", **options)


def test_rules_feed_each_other_until_nothing_fires() -> None:
    text = """
rule a(x: float[...]) { match tanh(x) rewrite sigmoid(x) numerics differs "test" }
rule b(x: float[...]) { match sigmoid(relu(x)) rewrite silu(x) numerics differs "test" }
rule c(x: float[...]) { match silu(exp(x)) rewrite cos(x) numerics differs "test" }
"""
    result = _rewrite(text)
    assert _code(result.model) == ["aten.cos.default"]
    assert dict(result.report.fired) == {"text.a": 1, "text.b": 1, "text.c": 1}
    assert torch.equal(result.model(*X), torch.cos(*X))


def test_priority_goes_before_load_order() -> None:
    first = 'rule late(x: float[...]) { match tanh(x) rewrite cos(x) numerics differs "t" priority -1 }\n'
    second = 'rule early(x: float[...]) { match tanh(x) rewrite sin(x) numerics differs "t" }\n'
    assert _code(_rewrite(first + second).model)[-1] == "aten.sin.default"
    assert _code(_rewrite((first + second).replace("priority -1", "priority 1")).model)[-1] == "aten.cos.default"


def test_load_order_decides_among_equals() -> None:
    one = 'rule one(x: float[...]) { match tanh(x) rewrite cos(x) numerics differs "t" }\n'
    two = 'rule two(x: float[...]) { match tanh(x) rewrite sin(x) numerics differs "t" }\n'
    assert _code(_rewrite(one + two).model)[-1] == "aten.cos.default"
    assert _code(_rewrite(two + one).model)[-1] == "aten.sin.default"


def test_rules_that_undo_each_other_are_named_with_the_node() -> None:
    text = """
rule there(x: float[...]) { match tanh(x) rewrite sin(x) numerics differs "t" }
rule back(x: float[...]) { match sin(x) rewrite tanh(x) numerics differs "t" }
rule other(x: float[...]) { match exp(x) rewrite cos(x) numerics differs "t" }
"""
    model = symbolic_trace(Chain())
    before = model.code
    with pytest.raises(fxrules.FxrulesError, match=r"these rules undo each other at node `.*`: ") as caught:
        _rewrite(text, model)
    message = caught.value.problems[0].message
    assert "`text.there`" in message and "`text.back`" in message and "`text.other`" not in message
    assert model.code == before and _code(model) == _code(symbolic_trace(Chain()))


def test_a_rule_that_matches_its_own_output_is_stopped() -> None:
    with pytest.raises(fxrules.FxrulesError, match=r"do not come to an end: 101 firings .*`text.grow`"):
        _rewrite('rule grow(x: float[...]) { match relu(x) rewrite relu(x) + 1 numerics differs "t" }')


def test_stop_after_bounds_the_firings() -> None:
    class Many(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            for _ in range(5):
                x = torch.tanh(x)
            return x

    text = 'rule swap(x: float[...]) { match tanh(x) rewrite sin(x) numerics differs "t" }'
    result = _rewrite(text, Many(), stop_after=2)
    assert _code(result.model) == ["aten.tanh.default"] * 3 + ["aten.sin.default"] * 2, "users before producers"
    none = _rewrite(text, Many(), stop_after=0).report
    assert none.fired == {} and none.notes == ("stopped after 0 rewrites, as stop_after asks",)
    assert "found nothing" not in str(none)


def test_the_policy_refuses_weaker_contracts_and_says_so() -> None:
    rules = fxrules.load(text='rule swap(x: float[...]) { match tanh(x) rewrite sin(x) numerics differs "t" }')
    report = fxrules.rewrite(Chain(), rules, X).report
    assert report.fired == {}
    (refusal,) = report["swap"].refused
    assert refusal.kind == "policy" and "numerics='differs'" in refusal.reason
    with pytest.raises(fxrules.FxrulesError, match=r"numerics='roundin'.*\n.*did you mean `rounding`"):
        fxrules.rewrite(Chain(), rules, X, numerics="roundin")


def test_nothing_fires_and_the_model_comes_back_itself() -> None:
    model = symbolic_trace(Chain())
    result = fxrules.rewrite(model, fxrules.load(text="rule no(x: float[...]) { match cos(x) rewrite sin(x) }"))
    assert result.model is model
    assert result.report["no"].outcome == "no node has the ops that it starts from"


def test_a_report_reads_well_and_is_json() -> None:
    import json

    text = """
rule neg_neg(x: float[...]) { match tanh(x) rewrite sin(x) numerics differs "t" }
rule guarded(x: float[...]) { match exp(x) where x.dtype == f16, "only for half" rewrite cos(x) numerics differs "t" }
"""
    report = _rewrite(text).report
    data = json.loads(json.dumps(report.to_dict()))
    assert data["rules"][0]["fired"] == 1 and data["rules"][1]["refused"][0]["reason"] == "only for half"
    assert data["nodes"]["after"] == report.nodes_after and data["contract"] == "differs"
    shown = str(report)
    assert "1 rewrites by 1 of 2 rules" not in shown and "1 rewrite by 1 of 2 rules" in shown
    assert "text.guarded: 1 × where: only for half (at `exp`)" in shown


def test_a_report_leaves_out_where_a_rule_that_fired_did_not_apply() -> None:
    class Two(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.exp(x) + torch.exp(torch.cat([x, x]))[:3]

    text = 'rule small(x: float[...]) { match exp(x) where x.shape[0] < 4 rewrite cos(x) numerics differs "t" }'
    report = _rewrite(text, Two()).report
    assert report["small"].fired == 1 and report["small"].refused[0].count == 1
    assert "refused" not in str(report) and report.to_dict()["rules"][0]["refused"][0]["kind"] == "where"


def test_the_caller_model_is_untouched_by_a_rewrite() -> None:
    model = symbolic_trace(nn.Sequential(nn.Linear(4, 4), nn.ReLU()))
    code, nodes, names = model.code, list(model.graph.nodes), [n for n, _ in model.named_modules()]
    text = 'rule swap(x: float[...]) { match relu(x) rewrite silu(x) numerics differs "t" }'
    result = _rewrite(text, model)
    assert result.report.fired == {"text.swap": 1}
    assert model.code == code and list(model.graph.nodes) == nodes
    assert all("val" not in node.meta for node in nodes)
    assert dict(result.model.named_parameters()).keys() == dict(model.named_parameters()).keys()
    assert all(a is b for a, b in zip(result.model.parameters(), model.parameters(), strict=True))
    assert [n for n, _ in result.model.named_modules()] == names


def test_in_place_changes_the_callers_module() -> None:
    model = symbolic_trace(Chain())
    text = 'rule swap(x: float[...]) { match tanh(x) rewrite sin(x) numerics differs "t" }'
    result = _rewrite(text, model, inplace=True)
    assert result.model is model and "sin" in model.code
    with pytest.raises(fxrules.FxrulesError, match="in place"):
        result.compare(X)


class Reader(nn.Module):
    """``tanh(exp(x))`` can be rewritten only once the other reader of ``exp`` is gone."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = torch.exp(x)
        z = y * 0.0 + torch.sin(x)
        return z, torch.tanh(y)


def test_a_site_is_tried_again_when_another_reader_goes_away() -> None:
    text = """
rule inner(x: float[...]) { match tanh(exp(x)) rewrite sigmoid(x) numerics differs "t" }
rule drop(v: float[...], w: float[...]) { match v * 0.0 + w rewrite cos(w) numerics differs "t" }
"""
    result = _rewrite(text, Reader())
    assert dict(result.report.fired) == {"text.inner": 1, "text.drop": 1} and result.report.rounds == 3
    assert result.report["inner"].tried == 2 and result.report["inner"].refused == ()


def test_rounds_look_only_near_changes_and_miss_nothing() -> None:
    class Deep(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            for _ in range(30):
                x = torch.relu(torch.exp(torch.neg(torch.neg(x)))) + 1.0
            return x

    text = """
rule a(x: float[...]) { match relu(exp(x)) rewrite exp(x) numerics differs "t" }
rule b(x: float[...]) { match neg(neg(x)) rewrite abs(x) numerics differs "t" }
rule c(x: float[...]) { match exp(abs(x)) + 1.0 rewrite cosh(x) numerics differs "t" }
rule d(x: float[...]) { match cosh(cosh(x)) rewrite sinh(x) numerics differs "t" }
"""
    result = _rewrite(text, Deep())
    assert dict(result.report.fired) == {"text.a": 30, "text.b": 30, "text.c": 30, "text.d": 15}
    assert _rewrite(text, result.model).report.fired == {}
    assert result.report["a"].tried == 30, "round 2 must not try again where nothing near changed"


def test_a_measure_must_fall_with_every_firing() -> None:
    text = 'rule fewer(x: float[...]) { match tanh(x) rewrite sin(x) numerics differs "t" shrinks count(tanh) }'
    assert dict(_rewrite(text).report.fired) == {"text.fewer": 1}
    model = symbolic_trace(Chain())
    code = model.code
    with pytest.raises(
        fxrules.FxrulesError, match=r"shrinks `count\(exp\)`: at node `tanh` it went from 1 to 1"
    ) as caught:
        _rewrite(text.replace("count(tanh)", "count(exp)"), model)
    assert str(caught.value).startswith("<text>:1:") and model.code == code


def test_a_root_that_writes_or_draws_is_passed_over_with_the_reason() -> None:
    text = 'rule r(x: float[...]) { match relu(dropout(x, p=_, training=_)) rewrite x numerics differs "" }'
    other = 'rule s(x: float[...]) { match dropout(x, p=_, training=_) rewrite x numerics differs "" }'
    model = torch.nn.Sequential(torch.nn.Dropout(), torch.nn.ReLU(inplace=True))
    rules = fxrules.load(text=f"{text}\n{other}")
    report = fxrules.rewrite(torch.fx.symbolic_trace(model), rules, (torch.ones(2),), numerics="differs").report
    reasons = {rule.name: [(one.kind, one.reason.partition(":")[0]) for one in rule.refused] for rule in report.rules}
    assert reasons == {
        "text.r": [("effect", "`_1` writes to `_0`")],
        "text.s": [("effect", "`_0` draws random numbers")],
    }
