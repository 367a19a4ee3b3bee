"""Rounds until nothing fires: order, limits, cycles, invariants between rounds."""

from __future__ import annotations

from collections.abc import Iterable
from time import perf_counter

from ..dsl.source import FxrulesError, Problem
from .candidates import Match, Mismatch
from .dispatch import Dispatch, priority_classes
from .fingerprints import fingerprint
from .firing import Limits, Policy, Run, Workspace, accepted, sweep
from .invariants import violations
from .matching import CompiledRule, compile_rule
from .nearness import nearness_of
from .report import Report, Tally
from .ruleset import Rule, known_classes
from .submodules import similar_class

__all__ = ["Limits", "Policy", "Workspace", "matches", "run", "search"]

# Few sets need so many rounds; only then is the graph compared with its earlier forms.
_FIRST_FINGERPRINT = 8


def matches(work: Workspace, rules: Iterable[Rule], policy: Policy) -> Iterable[Match]:
    """All matches in the graph as it is, in the order in which they would be tried."""
    compiled = [compile_rule(rule) for rule in rules]
    for group in priority_classes(compiled):
        dispatch = Dispatch.of(group, work.views.table)
        for node in reversed(work.graph.nodes):
            for rule in dispatch.at(node, work.views):
                found = accepted(rule, node, work, policy)
                if found is not None:
                    yield found


def run(work: Workspace, rules: Iterable[Rule], policy: Policy, limits: Limits) -> Report:
    """Rewrite the workspace's graph until nothing fires, under its journal.

    Raises FxrulesError when the rules do not come to an end or an invariant breaks;
    the caller undoes the journal then.
    """
    start, before = perf_counter(), len(work.graph.nodes)
    state, classes = prepare(work, rules, policy, limits)
    rounds = run_rounds(state, classes)
    return close(state, before, rounds, perf_counter() - start)


def search(work: Workspace, rules: Iterable[Rule], policy: Policy, limits: Limits) -> Report | None:
    """Look, without touching the graph, whether anything may fire: None then, else the final report."""
    start = perf_counter()
    state, classes = prepare(work, rules, policy, limits, dry=True)
    for group in classes:
        sweep(state, Dispatch.of(group, work.views.table))
        if state.fired:
            return None
    return close(state, len(work.graph.nodes), 1, perf_counter() - start)


def prepare(
    work: Workspace, rules: Iterable[Rule], policy: Policy, limits: Limits, *, dry: bool = False
) -> tuple[Run, list[list[CompiledRule]]]:
    """The state of a run, and the rules that the policy allows by priority class."""
    rules = [rule for rule in rules if not rule.is_query]
    tallies = {rule.name: Tally(rule.name, rule.numerics) for rule in rules}
    allowed = []
    for rule in rules:
        refusal = policy.refuses(rule)
        if refusal is None:
            allowed.append(compile_rule(rule))
        tallies[rule.name].forbidden = refusal or _misnamed(rule, work)
    return Run(work, policy, limits, tallies, dry), priority_classes(allowed)


def _misnamed(rule: Rule, work: Workspace) -> Mismatch | None:
    """That a rule names a class of modules which the model does not have, and has one whose name is near."""
    names = known_classes((rule,))
    if not names or work.views.owner is None:
        return None
    modules = tuple(work.views.owner.modules())
    for name in sorted(names):
        hint = similar_class(name, modules)
        if hint:
            return Mismatch("type", f"the model has no module of class `{name}`; {hint}")
    return None


def close(state: Run, before: int, rounds: int, spent: float) -> Report:
    """The report of a run that is over, after so many rounds and seconds, on a graph that had ``before`` nodes."""
    seconds = {"match": spent} if state.dry else {"match": spent - state.lint_seconds, "lint": state.lint_seconds}
    reports = tuple(tally.close() for tally in state.tallies.values())
    stopped = state.exhausted and not state.dry
    notes = (f"stopped after {state.fired} rewrites, as stop_after asks",) if stopped else ()
    return Report(reports, before, len(state.work.graph.nodes), rounds, seconds, notes)


def run_rounds(state: Run, classes: list[list[CompiledRule]], limit: int | None = None) -> int:
    """Rounds until nothing fires, firings in ``limit`` of them at most; how many there were."""
    before = len(state.work.graph.nodes)
    dispatches = [Dispatch.of(group, state.work.views.table) for group in classes]
    rules = [rule for one in dispatches for rule in one.rules]
    seen: dict[int, int] = {}
    most = state.limits.rounds if limit is None else limit + 1  # in the last one nothing may fire
    for number in range(1, most + 1):
        done = len(state.history)
        near = None if number == 1 else nearness_of(state.changed, rules)
        state.changed.clear()
        for dispatch in dispatches:
            sweep(state, dispatch, near)
        fired = state.history[done:]
        if not fired or state.exhausted:
            check(state, fired or state.history[-1:])
            return number
        check(state, fired)
        after = len(state.work.graph.nodes)
        deepest = max(state.depths.values(), default=0)
        if after > state.limits.growth * before + 1000 or (after >= before and deepest > state.limits.depth):
            why = f"{deepest} firings built on one another and the graph went from {before} to {after} nodes"
            endless(state, done, why)
        if number >= _FIRST_FINGERPRINT:
            shape = fingerprint(state.work.graph)
            if shape in seen:
                endless(state, seen[shape], "")
            seen[shape] = len(state.history)
    why = f"there were still firings in round {most}"
    if limit is None:
        return endless(state, done, why)
    return endless(state, done, f"{why}, and the step says `limit {limit}`", "a higher limit, or none")


def check(state: Run, fired: list[tuple[str, str]]) -> None:
    """Invariants after a round; a violation names the rules that fired in it."""
    if not fired:
        return
    start = perf_counter()
    found = violations(state.work.graph, state.work.journal)
    state.lint_seconds += perf_counter() - start
    if found:
        rules = ", ".join(dict.fromkeys(f"`{name}`" for name, _ in fired))
        raise FxrulesError(*(Problem(None, "invariant", f"{one}; rules that fired last: {rules}") for one in found))


def endless(state: Run, since: int, why: str, hint: str = "") -> int:
    """Report rules that do not come to an end, by name and place."""
    recent = state.history[since:]
    names = list(dict.fromkeys(name for name, _ in recent))
    quoted = " and ".join(f"`{name}`" for name in names[:4])
    place = recent[-1][1] if recent else "?"
    if why:
        message = f"the rules do not come to an end: {why}; last fired: {quoted}, at node `{place}`"
    elif len(names) == 1:
        message = f"rule {quoted} undoes its own work at node `{place}`"
    else:
        message = f"these rules undo each other at node `{place}`: {quoted}"
    if len(names) == 1:
        hint = hint or "if it should fire once at each place: a `once` step of a pipeline; else give it a `where`"
    hint = hint or "give one of them a `where`, a `shrinks` measure or leave it out: rules - rules[name]"
    raise FxrulesError(Problem(None, "no-fixpoint", message, hint))
