"""The compiled matcher finds exactly what the reference matcher finds, in the same order; and the test sees faults."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, TypeAlias

import models
import pytest
import torch
from attrs import evolve
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from rule_strategies import Case, draw_case
from torch.fx import Node

import fxrules
from fxrules.dsl.phrases import format_expr
from fxrules.dsl.source import FxrulesError
from fxrules.engine import compiler, matching, reference, steps
from fxrules.engine.candidates import Candidate, Config, Match
from fxrules.engine.guards import accept
from fxrules.engine.nodeview import Views, same_number
from fxrules.engine.ruleset import Rule

Matcher: TypeAlias = Callable[[Rule, Node, Views], Iterator[Candidate]]
ROOT = Path(__file__).parent


def shown(value: object) -> str:
    """A bound value as text that tells apart whatever a rule can tell apart."""
    match value:
        case Node():
            return value.name
        case Config(items):
            return f"**{[(name, shown(item)) for name, item in items]}"
        case tuple():
            return f"({', '.join(map(shown, value))})"
    return f"{type(value).__name__} {value}"


def described(candidate: Candidate) -> str:
    """A candidate as text; a name bound to None counts as not bound."""
    bindings = sorted(f"{name}={shown(value)}" for name, value in candidate.bindings.items() if value is not None)
    nodes = [node.name for node in candidate.nodes]
    deferred = [f"{format_expr(expr)} == {shown(value)}" for expr, value in candidate.deferred]
    others = [node.name for node in candidate.others]
    with_others = f" with {others}" if others else ""
    return f"{candidate.root.name}: {bindings} covers {nodes} if {deferred}{with_others}"


def is_refused(rule: Rule) -> bool:
    try:
        matching.compile_rule(rule)
    except FxrulesError:
        return True
    return False


def found(case: Case, matcher: Matcher) -> dict[str, list[str]]:
    """All candidates of each rule over the whole graph, in order."""
    return {
        rule.name: [described(one) for node in case.views.graph.nodes for one in matcher(rule, node, case.views)]
        for rule in case.rules
        if not is_refused(rule)
    }


def assert_agreement(examples: int, phases: tuple[Phase, ...] = tuple(Phase)) -> None:
    """The property: on every rule and every graph the two matchers give equal lists of candidates."""

    @settings(
        max_examples=examples,
        derandomize=True,
        database=None,
        deadline=None,
        phases=phases,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.randoms(use_true_random=False))
    def run(random: Random) -> None:
        case = draw_case(random)
        expected, actual = found(case, reference.candidates), found(case, matching.candidates)
        patterns = {rule.name: (rule.match, rule.scope.patterns) for rule in case.rules}
        assert actual == expected, f"{patterns}\n{case.views.graph}"

    run()


def test_compiled_and_reference_matcher_agree() -> None:
    assert_agreement(100)


def test_they_agree_on_many_more_cases() -> None:
    for seed in range(1000, 1250):
        case = draw_case(Random(seed))
        assert found(case, matching.candidates) == found(case, reference.candidates), f"seed {seed}"


def test_most_random_rules_match_somewhere() -> None:
    """A comparison of two matchers that find nothing would prove nothing."""
    rules, matched, constructs = 0, 0, Counter[str]()
    for seed in range(250):
        case = draw_case(Random(seed))
        for rule in case.rules:
            rules += 1
            hits = [one for node in case.views.graph.nodes for one in reference.candidates(rule, node, case.views)]
            matched += bool(hits)
            text = repr(rule.match) if hits else ""
            constructs.update(word for word in CONSTRUCTS if word in text)
            constructs["module"] += bool(hits) and any(param.type and param.type.qualifier for param in rule.ast.params)
            constructs["deferred"] += any(one.deferred for one in hits)
            constructs["named pattern"] += bool(hits) and len(rule.scope.patterns) > 3
            constructs["several candidates at one node"] += len({one.root for one in hits}) < len(hits)
    assert matched / rules > 0.6
    assert {word: constructs[word] for word in constructs if constructs[word] < 5} == {}


CONSTRUCTS = (
    "Optional(", "Or(", "As(", "Through(", "StarStar(", "Dots(", "Star(", "Index(", "Keyword(", "Number(", "Unary(",
    "'noop'", "'gelu_like'", "'pointwise'", "'aten'", "'torch'", "item", "'f'", "HALF", "tolerance=0.001", "'rest'",
)  # fmt: skip


def digest(cases: int) -> str:
    """A fingerprint of everything both matchers find in the first cases."""
    found_by_both = [[found(draw_case(Random(seed)), one) for one in MATCHERS] for seed in range(cases)]
    return hashlib.sha256(repr(found_by_both).encode()).hexdigest()


MATCHERS: tuple[Matcher, ...] = (reference.candidates, matching.candidates)


def test_the_result_does_not_depend_on_the_hash_seed() -> None:
    paths = [str(ROOT.parent / "src"), str(ROOT)]
    program = f"import sys; sys.path[:0] = {paths}; import test_matching; print(test_matching.digest(40))"
    runs = [
        subprocess.Popen(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            stdout=subprocess.PIPE,
            text=True,
        )
        for seed in ("1", "2")
    ]
    first, second = (run.communicate()[0].strip() for run in runs)
    assert len(first) == 64
    assert first == second


def test_a_real_model_and_the_standard_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """Over an exported GPT-2 of two layers both find the same; and what they find is two GELUs, two attentions."""
    monkeypatch.setattr(models, "LAYERS", 2)
    model, rules = models.build("gpt2"), fxrules.load("std")
    module = torch.export.export(model, (torch.zeros(2, 8, dtype=torch.int64),)).module()
    assert isinstance(module, torch.fx.GraphModule)
    case = Case(Views(module.graph, module), tuple(rule for rule in rules if len(rule.match.results) == 1))
    assert found(case, matching.candidates) == found(case, reference.candidates)
    for name in ("std.activation.gelu_tanh", "std.attention.sdpa"):
        rule = rules[name]
        assert isinstance(rule, Rule)
        verdicts = [
            {
                isinstance(accept(rule, one, case.views, freeze=False), Match)
                for one in matching.candidates(rule, node, case.views)
            }
            for node in module.graph.nodes
        ]
        assert sum(True in verdict for verdict in verdicts) == 2, name


# ---------------------------------------------------------------- planted faults
Patch: TypeAlias = pytest.MonkeyPatch


def _no_commutativity(patch: Patch) -> None:
    sound = steps.op
    patch.setattr(
        steps, "op", lambda name, view, args, strict, swaps, after: sound(name, view, args, strict, False, after)
    )


def _defaults_not_checked(patch: Patch) -> None:
    sound = steps.op
    patch.setattr(steps, "op", lambda name, view, args, strict, swaps, after: sound(name, view, args, (), swaps, after))


def _repeated_variable_not_compared(patch: Patch) -> None:
    def bind(slot: int, after: Any) -> Any:
        def match(value: Any, env: Any) -> bool:
            before, env[slot] = env[slot], value
            taken: bool = after(env)
            env[slot] = before
            return taken

        return match

    patch.setattr(steps, "bind", bind)


def _absent_not_tried(patch: Patch) -> None:
    patch.setattr(steps, "with_none", lambda slot, then: lambda value, env: False)


def _alternatives_reversed(patch: Patch) -> None:
    sound = steps.first_of
    patch.setattr(steps, "first_of", lambda options: sound(options[::-1]))


def _through_once_at_most(patch: Patch) -> None:
    def through(self: Any, term: Any, after: Any) -> Any:
        here = self.compile(term.term, after)
        outer, self.hole = self.hole, lambda rest: self.compile(term.term, rest)
        below = self.compile(term.step, after)
        self.hole = outer
        return lambda value, env: here(value, env) or below(value, env)

    patch.setattr(compiler.Compiler, "_through", through)


def _wide_tolerance(patch: Patch) -> None:
    def same(literal: Any, value: Any, dtype: Any) -> bool:
        return same_number(literal, value, dtype) or (type(value) is float and abs(literal.value - value) < 1e-3)

    patch.setattr(steps, "same_number", same)


def _true_is_one(patch: Patch) -> None:
    def same(literal: Any, value: Any, dtype: Any) -> bool:
        return same_number(literal, int(value) if isinstance(value, bool) else value, dtype)

    patch.setattr(steps, "same_number", same)


def _config_lacks_one(patch: Patch) -> None:
    sound = steps.config
    patch.setattr(steps, "config", lambda slot, family, rest, view, after: sound(slot, family, rest[:-1], view, after))


def _at(after: Any, end: int, env: Any) -> bool:
    return bool(after(env, end))


def _longest_rest_first(patch: Patch) -> None:
    def rest(slot: int | None, items_slot: int, later: int, after: Any) -> Any:
        def step(env: Any, index: int) -> bool:
            items = env[items_slot]
            for end in reversed(range(index, len(items) - later + 1)):
                then = partial(_at, after, end)
                if then(env) if slot is None else steps.bind(slot, then)(items[index:end], env):
                    return True
            return False

        return step

    patch.setattr(steps, "rest", rest)


def _exact_defaults_not_checked(patch: Patch) -> None:
    sound = steps.exact
    patch.setattr(steps, "exact", lambda term, *others: sound(evolve(term, loose=True), *others))


def _class_not_checked(patch: Patch) -> None:
    sound = steps.module
    patch.setattr(steps, "module", lambda term, *others: sound(evolve(term, kind=None), *others))


def _submodule_not_compared(patch: Patch) -> None:
    sound = steps.module

    def module(term: Any, slot: int, *others: Any) -> Any:
        match = sound(term, slot, *others)

        def match_anew(value: Any, env: Any) -> bool:
            before, env[slot] = env[slot], steps.UNBOUND
            taken = match(value, env)
            env[slot] = before
            return taken

        return match_anew

    patch.setattr(steps, "module", module)


def _shared_node_not_compared(patch: Patch) -> None:
    patch.setattr(compiler, "same_value", lambda first, second: True)


def _compute_dtype_ignored(patch: Patch) -> None:
    patch.setattr(steps, "compute_dtype", lambda node, args, views: None)


FAULTS: tuple[Callable[[Patch], None], ...] = (
    _no_commutativity, _defaults_not_checked, _repeated_variable_not_compared, _absent_not_tried,
    _alternatives_reversed, _through_once_at_most, _wide_tolerance, _true_is_one, _config_lacks_one,
    _longest_rest_first, _exact_defaults_not_checked, _class_not_checked, _submodule_not_compared,
    _shared_node_not_compared, _compute_dtype_ignored,
)  # fmt: skip


@pytest.mark.parametrize("plant", FAULTS, ids=lambda plant: plant.__name__.strip("_"))
def test_a_planted_fault_is_found(plant: Callable[[Patch], None], monkeypatch: Patch) -> None:
    plant(monkeypatch)
    with pytest.raises(AssertionError):
        assert_agreement(400, (Phase.generate,))
        for seed in range(2000):  # what Hypothesis draws depends on which modules are loaded
            case = draw_case(Random(seed))
            assert found(case, matching.candidates) == found(case, reference.candidates)
