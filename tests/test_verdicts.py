"""What is worked out once for alike sites is what each site would give by itself."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from random import Random
from typing import Any
from unittest.mock import Mock

import models
import pytest
import torch
from rule_strategies import Case, draw_case
from small_rules import load, traced
from torch import Tensor
from torch.fx import Graph, GraphModule, Node

import fxrules
from fxrules.engine import guards, matching, replays
from fxrules.engine.candidates import Candidate, Mismatch
from fxrules.engine.dispatch import Dispatch
from fxrules.engine.guards import accept
from fxrules.engine.matching import CompiledRule
from fxrules.engine.nodeview import Views
from fxrules.engine.verdicts import asks_facts_only, site_key

CASES = [draw_case(Random(seed)) for seed in range(300)]


def number(node: Node, views: Views) -> int | None:
    sketch = views.sketch(node)
    return None if sketch is None else sketch.number


def fits(rule: CompiledRule, node: Node, case: Case) -> bool:
    return any(True for _ in matching.candidates(rule.rule, node, case.views))


def test_a_rule_is_tried_wherever_it_fits() -> None:
    fitted = spared = 0
    for case in CASES:
        rules = case.compiled()
        dispatch = Dispatch.of(rules, case.views.table)
        for node in case.views.graph.nodes:
            tried = dispatch.at(node, case.views)
            for rule in rules:
                assert rule in tried or not fits(rule, node, case), f"{rule.rule} at {node}\n{case.views.graph}"
                fitted += rule in tried and fits(rule, node, case)
                spared += rule not in tried
    assert fitted > 500 and spared > 1000


def test_a_dispatch_serves_all_graphs_and_keeps_no_function_of_a_model() -> None:
    text = "rule r(x: float[...]) { match relu(x * 1.0) rewrite relu(x) }"
    rules = [matching.compile_rule(rule) for rule in load(text)]

    def scale(x: Tensor) -> Tensor:
        return x * 2.0

    graph = Graph()
    x = graph.placeholder("x")
    graph.output(graph.call_function(torch.relu, (graph.call_function(scale, (x,)),)))
    views = Views(graph)
    dispatch = Dispatch.of(rules, views.table)
    assert [dispatch.at(node, views) for node in graph.nodes] == [()] * 4
    again = traced(lambda x: torch.relu(x * 1.0))
    assert Dispatch.of(rules, again.table) is dispatch
    assert [len(dispatch.at(node, again)) for node in again.graph.nodes] == [0, 0, 1, 0]
    gone = weakref.ref(scale)
    del scale, graph, x, views
    gc.collect()
    assert gone() is None


def test_a_rule_that_looks_at_one_node_fits_all_nodes_of_one_key_or_none() -> None:
    pairs = 0
    for case in CASES:
        alike = [rule for rule in case.compiled() if rule.alike]
        first: dict[Any, Node] = {}
        for node in case.views.graph.nodes:
            key = number(node, case.views)
            other = first.setdefault(key, node) if key is not None else node
            for rule in alike if other is not node else ():
                assert fits(rule, node, case) == fits(rule, other, case), f"{rule.rule}: {node}, {other}"
                pairs += 1
    assert pairs > 20


def outcome(candidate: Candidate, rule: CompiledRule, case: Case) -> tuple[Any, ...]:
    found = accept(rule.rule, candidate, case.views, freeze=False)
    if isinstance(found, Mismatch):
        return found.kind, found.reason, found.node
    return tuple(found.bindings.items()), found.nodes, found.kept


def test_a_verdict_from_memory_is_the_verdict_of_the_site() -> None:
    remembered = 0
    for case in CASES:
        for rule in case.compiled():
            for node in case.views.graph.nodes:
                for candidate in matching.candidates(rule.rule, node, case.views):
                    known = len(case.views.memory.alike)
                    first = outcome(candidate, rule, case)
                    remembered += known == len(case.views.memory.alike) > 0
                    kept = dict(case.views.memory.alike)
                    case.views.memory.alike.clear()
                    assert outcome(candidate, rule, case) == first, f"{rule.rule} at {node}"
                    case.views.memory.alike.update(kept)
    assert remembered > 100


# ------------------------------------------------------------------- what keys tell apart
def two(first: Callable[[Tensor, Tensor], Tensor], second: Callable[[Tensor, Tensor], Tensor]) -> tuple[Any, Any]:
    views = traced(lambda x, y: (first(x, y), second(x, y)))
    one, other = [node for node in views.graph.nodes if node.op == "call_function"]
    return number(one, views), number(other, views)


def test_equal_nodes_have_equal_keys() -> None:
    one, other = two(lambda x, y: torch.add(x, 1.5), lambda x, y: torch.add(y, 1.5))
    assert one is not None and one == other


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (lambda x, y: torch.add(x, 0.0), lambda x, y: torch.add(x, -0.0)),
        (lambda x, y: torch.add(x, 1), lambda x, y: torch.add(x, True)),
        (lambda x, y: torch.add(x, 1), lambda x, y: torch.add(x, 1.0)),
        (lambda x, y: torch.add(x, y), lambda x, y: torch.add(x, x)),
        (lambda x, y: torch.add(x, y), lambda x, y: torch.sub(x, y)),
        (lambda x, y: torch.add(x, y), lambda x, y: torch.add(x, y, alpha=2)),
        (lambda x, y: torch.sum(x, [1]), lambda x, y: torch.sum(x, (1,))),
        (lambda x, y: torch.sum(x, 1), lambda x, y: torch.sum(x, 2)),
        (lambda x, y: torch.cat([x, y]), lambda x, y: torch.cat([x, y, x])),
    ],
)
def test_nodes_that_a_rule_can_tell_apart_have_other_keys(first: Any, second: Any) -> None:
    one, other = two(first, second)
    assert one is not None and other is not None and one != other


@pytest.mark.parametrize(
    "change",
    [lambda fact: fact.double(), lambda fact: fact.mT.contiguous().mT, lambda fact: fact.requires_grad_()],
    ids=["dtype", "strides", "requires_grad"],
)
def test_other_facts_are_another_key(change: Any) -> None:
    views = traced(lambda x: torch.relu(x))
    node = next(one for one in views.graph.nodes if one.op == "call_function")
    before = number(node, views)
    node.meta["val"] = change(torch.ones(2, 3, 4))
    views.forget([node])
    assert before is not None and number(node, views) not in (None, before)


def test_an_unknown_fact_has_no_key() -> None:
    views = traced(lambda x: torch.relu(x), None)
    node = next(one for one in views.graph.nodes if one.op == "call_function")
    assert number(node, views) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("rule r(x: float[...]) { match relu(x) where x.ndim == 3 rewrite x }", True),
        ("rule r(x: float[...]) { match relu(x) rewrite view(x, x.shape) }", True),
        ("rule r(x: float[...]) { match relu(x) where users(x) == 1 rewrite x }", False),
        ("rule r(x: float[...]) { match relu(x) where is_input(x) rewrite x }", False),
        ('rule r(x: float[...]) { match relu(x) where path(x) == "a" rewrite x }', False),
        ("rule r(x: const float[...]) { match relu(x) rewrite x }", False),
        ("rule r(x: const float[...]) { match relu(x) freeze x let y = x * 2 rewrite y }", False),
    ],
)
def test_what_depends_on_more_than_facts_is_not_kept(text: str, expected: bool) -> None:
    assert asks_facts_only(load(text)[0]) is expected


# -------------------------------------------------------------------------- whole models
def forget_everything(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Views, "sketch", lambda *_: None)
    patch.setattr(guards, "site_key", lambda *_: None)


def described(result: fxrules.Result) -> list[str]:
    """Code, facts and provenance of every node, and the report without its times."""
    nodes = [
        f"{node.format_node()} {node.meta.get('val')} {node.meta.get('fxrules')} {node.meta.get('nn_module_stack')}"
        for node in result.model.graph.nodes
    ]
    report = {name: value for name, value in result.report.to_dict().items() if name != "seconds"}
    return [*nodes, str(report)]


@pytest.mark.parametrize("name", ["gpt2", "llama", "vit"])
def test_a_model_is_rewritten_the_same_without_memory(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program = torch.export.export(models.build(name), (), models.draw_inputs(name), strict=False)
    module, rules = program.module(), fxrules.load("std")
    assert isinstance(module, GraphModule)
    replay = Mock(wraps=replays.replay)
    monkeypatch.setattr("fxrules.engine.surgery.replay", replay)
    expected = described(fxrules.rewrite(module, rules))
    assert replay.call_count > 20
    with monkeypatch.context() as patch:
        forget_everything(patch)
        alone = described(fxrules.rewrite(module, rules))
    assert alone == expected


def test_a_site_with_an_other_scale_is_not_the_replay_of_the_first() -> None:
    """The scale of an attention is worked out by ``let``: each site must get its own."""

    class Net(torch.nn.Module):
        def forward(self, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, ...]:
            def attention(scale: float) -> Tensor:
                return torch.softmax(q @ k.mT * scale, dim=-1) @ v

            return attention(0.25), attention(0.5), attention(0.25)

    inputs = tuple(torch.randn(2, 4, 8, 16) for _ in range(3))
    result = fxrules.rewrite(Net(), fxrules.load("std.attention"), inputs)
    scales = [node.kwargs["scale"] for node in result.model.graph.nodes if "scale" in node.kwargs]
    assert scales == [0.25, 0.5, 0.25]
    assert result.compare(inputs)


class Layers(torch.nn.Module):
    """Three equal layers with an attention and a GELU by hand."""

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(3):
            x = torch.softmax(x @ x.mT * 0.25, dim=-1) @ x
            x = 0.5 * x * (1 + torch.tanh(0.7978845608028654 * (x + 0.044715 * x**3)))
        return x


def test_layers_of_unknown_size_are_rewritten_the_same_without_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = {"x": {0: torch.export.Dim("batch"), 1: torch.export.Dim("length")}}
    module = torch.export.export(Layers(), (torch.randn(2, 8, 16),), dynamic_shapes=sizes).module()
    assert isinstance(module, GraphModule)
    rules = fxrules.load("std")
    result = fxrules.rewrite(module, rules)
    assert result.report.fired["std.attention.sdpa"] == result.report.fired["std.activation.gelu_tanh"] == 3
    assert result.compare((torch.randn(3, 5, 16),))
    forget_everything(monkeypatch)
    assert described(fxrules.rewrite(module, rules)) == described(result)


def test_keys_of_sites_hold_the_identity_of_values() -> None:
    (rule,) = load("rule r(x, y) { match x * y rewrite x + y }")
    views = traced(lambda x, y: (torch.mul(x, y), torch.mul(x, x), torch.mul(y, y)))
    keys = []
    for node in views.graph.nodes:
        for candidate in list(matching.candidates(rule, node, views))[:1]:
            keys.append(site_key(candidate, candidate.bindings, views))
    assert len(keys) == 3 and keys[0] != keys[1] == keys[2]


@pytest.mark.parametrize("fact", [None, 4, "text"])
def test_a_site_with_a_value_of_unknown_facts_has_no_key(fact: Any) -> None:
    """A number in the graph may be another at each site: nothing is remembered of it."""
    (rule,) = load("rule r(x, y) { match x * y rewrite x + y }")
    views = traced(lambda x, y: torch.mul(x, y))
    site = next(node for node in views.graph.nodes if node.op == "call_function")
    (first, *_) = matching.candidates(rule, site, views)
    assert site_key(first, first.bindings, views) is not None
    views.graph.find_nodes(op="placeholder")[1].meta["val"] = fact
    views.forget(list(views.graph.nodes))
    assert site_key(first, first.bindings, views) is None
    assert number(site, views) is None
