"""Rule sets: selection, sums, differences, identity."""

from __future__ import annotations

import pytest

import fxrules

TEXT = """
rule first(x: float[...]) { match relu(x) rewrite silu(x) numerics differs "another" }
rule second(x: float[...]) { match tanh(x) rewrite sigmoid(x) numerics differs "another" priority 3 }
rule third(x: float[...]) { match exp(x) }
"""


@pytest.fixture
def rules() -> fxrules.RuleSet:
    return fxrules.load(text=TEXT)


def test_a_rule_set_is_a_sequence_in_load_order(rules: fxrules.RuleSet) -> None:
    assert len(rules) == 3
    assert [rule.name for rule in rules] == ["text.first", "text.second", "text.third"]
    assert rules[1].name == "text.second"
    assert [rule.name for rule in rules[1:]] == ["text.second", "text.third"]


def test_rules_are_selected_by_name_and_wildcard(rules: fxrules.RuleSet) -> None:
    assert rules["second"] is rules[1] is rules["text.second"]
    chosen = rules["*ir*"]
    assert isinstance(chosen, fxrules.RuleSet)
    assert [rule.name for rule in chosen] == ["text.first", "text.third"]
    assert "text.first" in rules and "nothing" not in rules


def test_an_unknown_rule_is_named_with_the_nearest(rules: fxrules.RuleSet) -> None:
    with pytest.raises(fxrules.FxrulesError, match=r"`text.secnd`: no such rule.*\n.*did you mean `text.second`"):
        rules["text.secnd"]


def test_sets_add_without_repeats_and_subtract(rules: fxrules.RuleSet) -> None:
    assert [rule.name for rule in rules[:1] + rules] == ["text.first", "text.second", "text.third"]
    assert [rule.name for rule in rules[:1] + rules[2]] == ["text.first", "text.third"]
    assert [rule.name for rule in rules - rules[1]] == ["text.first", "text.third"]
    assert [rule.name for rule in rules - rules[1:]] == ["text.first"]


def test_two_rules_of_one_name_are_an_error(rules: fxrules.RuleSet) -> None:
    with pytest.raises(fxrules.FxrulesError, match=r"two rules are called `text.first`") as caught:
        rules + fxrules.load(text=TEXT)
    assert caught.value.problems[0].code == "duplicate-rule"


def test_clauses_have_their_defaults(rules: fxrules.RuleSet) -> None:
    first, second, third = rules
    assert (first.priority, second.priority) == (0, 3)
    assert first.numerics.level == "differs" and third.numerics.level == "rounding"
    assert third.is_query and not first.is_query
    assert first.freeze == first.keep == first.changes == frozenset()
