"""Runs in steps: the pipeline that the caller names, under one journal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from time import perf_counter

from attrs import evolve, frozen

from ..dsl.source import FxrulesError
from . import fixpoint
from .candidates import Mismatch
from .dispatch import Dispatch, priority_classes
from .firing import Limits, Policy, Run, Workspace, sweep
from .fixpoint import close, prepare
from .matching import CompiledRule, compile_rule
from .report import Report, StepReport
from .ruleset import Pipeline, Rule, RuleSet, Step
from .situations import Situation, reason_to_skip, training_flag
from .strategies import run_step


@frozen(eq=False)
class Plan:
    """What to run: ``rules`` to a fixpoint, or in the steps of ``pipeline``.

    ``training`` is the flag of the module that the graph is captured from, None where
    that is not known.
    """

    rules: RuleSet
    pipeline: Pipeline | None = None
    training: bool | None = None

    @classmethod
    def of(cls, rules: RuleSet, name: str | None, model: object) -> Plan:
        """The plan for these rules, or for their pipeline ``name``; raises FxrulesError where there is none."""
        if name is None:
            return cls(rules)
        pipeline = rules.pipeline(name)
        return cls(RuleSet(pipeline.rules), pipeline, training_flag(model))


def run(work: Workspace, plan: Plan, policy: Policy, limits: Limits) -> Report:
    """Rewrite the workspace's graph as planned, under its journal.

    Raises FxrulesError as `fixpoint.run` does, with the step and its place; the caller
    undoes the journal then, and with it all steps.
    """
    if plan.pipeline is None:
        return fixpoint.run(work, plan.rules, policy, limits)
    start, before = perf_counter(), len(work.graph.nodes)
    reasons = _reasons_to_skip(work, plan.pipeline, plan.training)
    state, _ = prepare(work, plan.rules, policy, limits)
    reports = []
    for number, (step, reason) in enumerate(zip(plan.pipeline.steps, reasons, strict=True), 1):
        skipped = reason or _stopped(state)
        try:
            reports.append(StepReport(step.text, skipped=skipped) if skipped else _run(step, state))
        except FxrulesError as error:
            raise _located(error, f"step {number} of pipeline `{plan.pipeline.name}`", step) from error
    return _closed(state, plan.pipeline, reports, before, perf_counter() - start)


def search(work: Workspace, plan: Plan, policy: Policy, limits: Limits) -> Report | None:
    """Look, without touching the graph, whether anything may fire: None then, else the final report.

    In a graph in which no rule of any step fires, the steps change nothing for one another.
    """
    if plan.pipeline is None:
        return fixpoint.search(work, plan.rules, policy, limits)
    start, before = perf_counter(), len(work.graph.nodes)
    steps, reasons = plan.pipeline.steps, _reasons_to_skip(work, plan.pipeline, plan.training)
    state, _ = prepare(work, plan.rules, policy, limits, dry=True)
    live = dict.fromkeys(rule for step, reason in zip(steps, reasons, strict=True) if not reason for rule in step.rules)
    for group in _classes(live, state):
        sweep(state, Dispatch.of(group, work.views.table))
        if state.fired:
            return None
    stopped = _stopped(state)
    skipped = [reason or stopped for reason in reasons]
    reports = [
        StepReport(step.text, rounds=0 if reason else 1, skipped=reason)
        for step, reason in zip(steps, skipped, strict=True)
    ]
    return _closed(state, plan.pipeline, reports, before, perf_counter() - start)


def _run(step: Step, state: Run) -> StepReport:
    done = len(state.history)
    rounds = run_step(step.ast.strategy, state, _classes(step.rules, state), step.ast.limit)
    return StepReport(step.text, dict(Counter(name for name, _ in state.history[done:])), rounds)


def _classes(rules: Iterable[Rule], state: Run) -> list[list[CompiledRule]]:
    """Rules by priority class, but for queries and those that the policy forbids."""
    allowed = (rule for rule in rules if not rule.is_query and state.policy.refuses(rule) is None)
    return priority_classes([compile_rule(rule) for rule in allowed])


def _reasons_to_skip(work: Workspace, pipeline: Pipeline, training: bool | None) -> list[str]:
    """For each step why its condition does not hold; "" where it runs. Asked of the model before any rule runs."""
    situation = Situation(work.views, training)
    return [reason_to_skip(step.ast.condition, situation, pipeline.scope) for step in pipeline.steps]


def _stopped(state: Run) -> str:
    return f"stopped after {state.fired} rewrites, as stop_after asks" if state.exhausted else ""


def _located(error: FxrulesError, where: str, step: Step) -> FxrulesError:
    problems = (
        evolve(one, message=f"{where}: {one.message}", span=one.span or step.ast.span) for one in error.problems
    )
    return FxrulesError(*problems)


def _closed(state: Run, pipeline: Pipeline, steps: list[StepReport], before: int, spent: float) -> Report:
    """The report of all steps; of a rule that none of them ran, with the reason."""
    ran = {rule for step, one in zip(pipeline.steps, steps, strict=True) if not one.skipped for rule in step.rules}
    for step, one in zip(pipeline.steps, steps, strict=True):
        for rule in step.rules:
            tally = state.tallies.get(rule.name)  # a query has none
            if tally is not None and rule not in ran and tally.forbidden is None:
                tally.forbidden = Mismatch("pipeline", f"its step was skipped, {one.skipped}")
    report = close(state, before, sum(one.rounds for one in steps), spent)
    return evolve(report, pipeline=pipeline.name, steps=tuple(steps))
