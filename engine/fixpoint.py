"""Rounds until nothing fires: order, limits, cycles, invariants between rounds."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf
from time import perf_counter

from attrs import define, field, frozen
from torch.fx import Graph, Node

from ..dsl.phrases import format_expr
from ..dsl.source import FxrulesError, Problem
from .candidates import Candidate, Match, Mismatch
from .contracts import LEVELS
from .dispatch import Dispatch, priority_classes
from .effects import EffectIndex, legal
from .evaluation import evaluate
from .fingerprints import fingerprint
from .guards import accept
from .invariants import violations
from .journal import Journal
from .matching import CompiledRule, compile_rule
from .metadata import Propagation
from .nearness import Nearness, nearness_of
from .nodeview import Views
from .report import Report, Tally
from .ruleset import Rule
from .surgery import apply

# Few sets need so many rounds; only then is the graph compared with its earlier forms.
_FIRST_FINGERPRINT = 8
# Refusals that may depend on nodes far away: such sites are tried again in every round.
_FAR_SIGHTED = frozenset({"effect", "interface"})


@frozen
class Limits:
    """When to stop.

    ``rounds``; ``growth``, nodes for each node of the start; ``depth``, firings that each
    rewrote what the one before had made, in a graph that does not shrink; ``firings`` in
    all (None: no bound).
    """

    rounds: int = 1000
    growth: int = 10
    depth: int = 100
    firings: int | None = None


@frozen
class Policy:
    """What the caller allows: the weakest numeric contract, and folding of constants."""

    numerics: str = "rounding"
    freeze: bool = False

    def refuses(self, rule: Rule) -> Mismatch | None:
        """Why ``rule`` may not run at all, or None."""
        level = rule.numerics.level
        if LEVELS.index(level) <= LEVELS.index(self.numerics):
            return None
        return Mismatch("policy", f"its contract is `{level}`: allow it with numerics={level!r}")


@define(eq=False)
class Workspace:
    """One graph being rewritten and everything that is known about it."""

    views: Views
    journal: Journal
    propagation: Propagation
    effects: EffectIndex

    @property
    def graph(self) -> Graph:
        return self.views.graph

    @property
    def tools(self) -> tuple[Views, Journal, Propagation, EffectIndex]:
        """What surgery works with."""
        return self.views, self.journal, self.propagation, self.effects


@define(eq=False)
class _Run:
    """One run over one graph."""

    work: Workspace
    policy: Policy
    limits: Limits
    tallies: dict[str, Tally]
    dry: bool = False
    fired: int = 0
    history: list[tuple[str, str]] = field(factory=list)
    depths: dict[Node, int] = field(factory=dict)
    changed: dict[Node, bool] = field(factory=dict)
    again: set[tuple[CompiledRule, Node]] = field(factory=set)
    lint_seconds: float = 0.0

    @property
    def exhausted(self) -> bool:
        if self.dry and self.fired:
            return True
        return self.limits.firings is not None and self.fired >= self.limits.firings


def matches(work: Workspace, rules: Iterable[Rule], policy: Policy) -> Iterable[Match]:
    """All matches in the graph as it is, in the order in which they would be tried."""
    compiled = [compile_rule(rule) for rule in rules]
    for group in priority_classes(compiled):
        dispatch = Dispatch.of(group)
        for node in reversed(work.graph.nodes):
            for rule in dispatch.at(node, work.views):
                found = _accepted(rule, node, work, policy)
                if found is not None:
                    yield found


def _accepted(compiled: CompiledRule, node: Node, work: Workspace, policy: Policy) -> Match | None:
    found: list[Match] = []

    def take(candidate: Candidate) -> bool:
        outcome = _allowed(compiled.rule, candidate, work, policy)
        if isinstance(outcome, Match):
            found.append(outcome)
        return bool(found)

    compiled.run(node, work.views, take)
    return found[0] if found else None


def run(work: Workspace, rules: Iterable[Rule], policy: Policy, limits: Limits) -> Report:
    """Rewrite the workspace's graph until nothing fires, under its journal.

    Raises FxrulesError when the rules do not come to an end or an invariant breaks;
    the caller undoes the journal then.
    """
    start, before = perf_counter(), len(work.graph.nodes)
    state, classes = _prepared(work, rules, policy, limits)
    rounds = _rounds(state, classes, before)
    seconds = {"match": perf_counter() - start - state.lint_seconds, "lint": state.lint_seconds}
    return _report(state, before, rounds, seconds)


def search(work: Workspace, rules: Iterable[Rule], policy: Policy, limits: Limits) -> Report | None:
    """Look, without touching the graph, whether anything may fire: None then, else the final report."""
    start = perf_counter()
    state, classes = _prepared(work, rules, policy, limits, dry=True)
    for group in classes:
        _sweep(state, Dispatch.of(group))
        if state.fired:
            return None
    return _report(state, len(work.graph.nodes), 1, {"match": perf_counter() - start})


def _prepared(
    work: Workspace, rules: Iterable[Rule], policy: Policy, limits: Limits, *, dry: bool = False
) -> tuple[_Run, list[list[CompiledRule]]]:
    """The state of a run, and the rules that the policy allows by priority class."""
    rules = [rule for rule in rules if not rule.is_query]
    tallies = {rule.name: Tally(rule.name, rule.numerics) for rule in rules}
    allowed = []
    for rule in rules:
        refusal = policy.refuses(rule)
        if refusal is None:
            allowed.append(compile_rule(rule))
        else:
            tallies[rule.name].forbidden = refusal
    return _Run(work, policy, limits, tallies, dry), priority_classes(allowed)


def _report(state: _Run, before: int, rounds: int, seconds: dict[str, float]) -> Report:
    reports = tuple(tally.close() for tally in state.tallies.values())
    stopped = state.exhausted and not state.dry
    notes = (f"stopped after {state.fired} rewrites, as stop_after asks",) if stopped else ()
    return Report(reports, before, len(state.work.graph.nodes), rounds, seconds, notes)


def _rounds(state: _Run, classes: list[list[CompiledRule]], before: int) -> int:
    dispatches = [Dispatch.of(group) for group in classes]
    reach = max((rule.height for one in dispatches for rule in one.rules if rule.height != inf), default=0)
    seen: dict[int, int] = {}
    for number in range(1, state.limits.rounds + 1):
        done = len(state.history)
        near = None if number == 1 else nearness_of(state.changed, reach)
        state.changed.clear()
        for dispatch in dispatches:
            _sweep(state, dispatch, near)
        fired = state.history[done:]
        if not fired or state.exhausted:
            _check(state, fired or state.history[-1:])
            return number
        _check(state, fired)
        after = len(state.work.graph.nodes)
        deepest = max(state.depths.values(), default=0)
        if after > state.limits.growth * before + 1000 or (after >= before and deepest > state.limits.depth):
            why = f"{deepest} firings built on one another and the graph went from {before} to {after} nodes"
            _endless(state, done, why)
        if number >= _FIRST_FINGERPRINT:
            shape = fingerprint(state.work.graph)
            if shape in seen:
                _endless(state, seen[shape], "")
            seen[shape] = len(state.history)
    return _endless(state, done, f"there were still firings in round {state.limits.rounds}")


def _sweep(state: _Run, dispatch: Dispatch, near: Nearness | None = None) -> None:
    """One priority class of one round: users before producers; ``near`` leaves out what cannot have changed."""
    for node in reversed(list(state.work.graph.nodes)):
        if node._erased:
            continue
        for compiled in dispatch.at(node, state.work.views):
            if state.exhausted:
                return
            if near is not None and not near.reaches(compiled, node) and (compiled, node) not in state.again:
                continue
            if _fire(state, compiled, node):
                break


def _fire(state: _Run, compiled: CompiledRule, node: Node) -> bool:
    """Try one rule at one node; True if it rewrote something."""
    work, rule = state.work, compiled.rule
    tally = state.tallies[rule.name]
    tally.tried += 1
    site, before = node.name, work.journal.size
    refused: list[Mismatch] = []

    def take(candidate: Candidate) -> bool:
        if state.dry:  # effects need the whole graph: they are looked at once there is a copy to change
            outcome = accept(rule, candidate, work.views, freeze=state.policy.freeze)
            refused.extend([outcome] if isinstance(outcome, Mismatch) else [])
            return isinstance(outcome, Match)
        match = _allowed(rule, candidate, work, state.policy)
        measure = _measure(rule, work) if isinstance(match, Match) else None
        applied = apply(match, *work.tools) if isinstance(match, Match) else match
        if isinstance(applied, Mismatch):
            refused.append(applied)
            return False
        _check_shrinks(rule, measure, work, site)
        tally.notes.update(applied.notes)
        depth = 1 + max(state.depths.get(one, 0) for one in candidate.nodes)
        state.depths.update(dict.fromkeys(applied.new_nodes, depth))
        state.changed.update(dict.fromkeys(applied.new_nodes, True))
        return True

    fired = compiled.run(node, work.views, take)
    tally.refusals.pop(node, None)
    if fired:
        tally.fired += 1
        state.fired += 1
        state.history.append((rule.name, site))
        for touched, other in work.journal.touched_since(before).items():
            state.changed[touched] = other or state.changed.get(touched, False)
    elif refused:
        tally.refusals[node] = refused
        if any(one.kind in _FAR_SIGHTED for one in refused):
            state.again.add((compiled, node))
    return fired


def _measure(rule: Rule, work: Workspace) -> float | None:
    """The value of the rule's ``shrinks`` measure in the graph as it is; None if it has none."""
    value = None if rule.shrinks is None else evaluate(rule.shrinks, {}, work.views, rule.scope)
    return value if isinstance(value, int | float) else None


def _check_shrinks(rule: Rule, before: float | None, work: Workspace, site: str) -> None:
    """Every firing must lower the measure: it is the rule's own argument that it comes to an end."""
    after = _measure(rule, work)
    if rule.shrinks is None or before is None or after is None or after < before:
        return
    promise = f"`{rule.name}` says that it shrinks `{format_expr(rule.shrinks)}`"
    what = f"{promise}: at node `{site}` it went from {before} to {after}"
    hint = "another measure, or a `where` that leaves this site out"
    raise FxrulesError(Problem(rule.shrinks.span, "shrinks", what, hint))


def _allowed(rule: Rule, candidate: Candidate, work: Workspace, policy: Policy) -> Match | Mismatch:
    """What a candidate must pass before the graph is touched: guards, then effects."""
    match = accept(rule, candidate, work.views, freeze=policy.freeze)
    return match if isinstance(match, Mismatch) else legal(match, work.effects) or match


def _check(state: _Run, fired: list[tuple[str, str]]) -> None:
    """Invariants after a round; a violation names the rules that fired in it."""
    if not fired:
        return
    start = perf_counter()
    found = violations(state.work.graph, state.work.journal)
    state.lint_seconds += perf_counter() - start
    if found:
        rules = ", ".join(dict.fromkeys(f"`{name}`" for name, _ in fired))
        raise FxrulesError(*(Problem(None, "invariant", f"{one}; rules that fired last: {rules}") for one in found))


def _endless(state: _Run, since: int, why: str) -> int:
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
    hint = "give one of them a `where`, a `shrinks` measure or leave it out: rules - rules[name]"
    raise FxrulesError(Problem(None, "no-fixpoint", message, hint))
