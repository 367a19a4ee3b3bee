"""Trying rules at nodes: sweeps over the graph, what a candidate must pass, and what a firing leaves behind."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import define, field, frozen
from torch.fx import Graph, Node

from ..dsl.phrases import format_expr
from ..dsl.source import FxrulesError, Problem
from .candidates import Candidate, Match, Mismatch
from .contracts import LEVELS
from .dispatch import Dispatch
from .effects import EffectIndex, legal
from .evaluation import evaluate
from .guards import accept
from .journal import Journal
from .matching import CompiledRule
from .metadata import Propagation
from .nearness import Nearness
from .nodeview import Views
from .report import Tally
from .ruleset import Rule
from .surgery import apply
from .traces import recall, remember
from .witness import Witness

# Ways to fit a pattern at one node that may be refused: of n alike nodes, three results make as many as n cubed.
_PATIENCE = 256
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
class Run:
    """One run over one graph.

    ``changed`` has the nodes touched in this round (True: with other content), ``again``
    what is to be tried in every round, ``failed`` what need not be tried at equal nodes,
    ``latest`` the nodes that the last firing made.
    """

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
    failed: dict[tuple[CompiledRule, int], Sequence[Mismatch]] = field(factory=dict)
    latest: tuple[Node, ...] = ()
    lint_seconds: float = 0.0

    @property
    def exhausted(self) -> bool:
        """Whether nothing more may fire."""
        if self.dry and self.fired:
            return True
        return self.limits.firings is not None and self.fired >= self.limits.firings


def accepted(compiled: CompiledRule, node: Node, work: Workspace, policy: Policy) -> Match | None:
    """The first match of a rule at a node; the graph stays as it is."""
    found: list[Match] = []

    def take(candidate: Candidate) -> bool:
        outcome = _allowed(compiled.rule, candidate, work, policy)
        if isinstance(outcome, Match):
            found.append(outcome)
        return bool(found)

    compiled.run(node, work.views, take)
    return found[0] if found else None


def sweep(state: Run, dispatch: Dispatch, near: Nearness | None = None) -> None:
    """One priority class of one round: users before producers; ``near`` leaves out what cannot have changed."""
    views = state.work.views
    if state.exhausted:
        return
    again = {node for _, node in state.again}
    barren = dispatch.barren
    for node in reversed(list(state.work.graph.nodes)):
        if id(node.target) in barren:
            continue
        if node._erased or not (near is None or dispatch.looks_far or near.has(node) or node in again):
            continue
        for compiled in dispatch.at(node, views):
            if near is not None and not near.reaches(compiled, node) and (compiled, node) not in state.again:
                continue
            if fire(state, compiled, node):
                if state.exhausted:
                    return
                break


def fire(state: Run, compiled: CompiledRule, node: Node) -> bool:
    """Try one rule at one node; True if it rewrote something."""
    views, freeze = state.work.views, state.policy.freeze
    tally = state.tallies[compiled.rule.name]
    tally.tried += 1
    sketch = views.sketch(node) if compiled.by_facts and not freeze else None
    known = state.failed.get((compiled, sketch.number)) if compiled.alike and sketch is not None else None
    if known is not None:
        tally.refuse(node, known)
        return False
    recalled = None if sketch is None or state.dry else recall(compiled, node, views)
    refused: list[Mismatch] = []
    taken: list[Match] = []
    witness = Witness(views)

    def take(candidate: Candidate) -> bool:
        if len(refused) == _PATIENCE:
            tally.notes.update(
                (f"at `{node.name}` its pattern fits in more than {_PATIENCE} ways; the rest were not tried",)
            )
            return True
        match = accept(compiled.rule, candidate, views, freeze=freeze)
        if isinstance(match, Match) and sketch is not None and recalled is None and not refused:
            remember(compiled, match, witness)
        # effects need the whole graph: they are looked at once there is a copy to change
        outcome = match if state.dry or isinstance(match, Mismatch) else _rewritten(state, match)
        if isinstance(outcome, Mismatch):
            refused.append(outcome)
        else:
            taken.append(outcome)
        return bool(taken)

    fired = recalled is not None and isinstance(_rewritten(state, recalled), Match)
    if not fired:
        compiled.run(node, views if sketch is None else witness, take)
        fired = bool(taken)
    reasons = () if fired else refused or _effect_of_root(compiled, node, state.work)
    tally.refuse(node, reasons)
    if fired:
        tally.fired += 1
        state.fired += 1
    elif any(one.kind in _FAR_SIGHTED for one in refused):
        state.again.add((compiled, node))
    elif compiled.alike and sketch is not None and all(one.by_facts for one in refused):
        state.failed[compiled, sketch.number] = reasons
    return fired


def _effect_of_root(compiled: CompiledRule, node: Node, work: Workspace) -> list[Mismatch]:
    """That a node calls what the pattern begins with, and is passed over for what it does besides."""
    view = work.views.own(node)
    if (view is not None and view.effect == "pure") or compiled.families.isdisjoint(work.views.family_names(node)):
        return []
    effect = work.effects.effect(node)
    if effect.kind != "mutates" and effect.kind != "random":
        return []
    return [Mismatch("effect", f"{effect.reason}: only a pattern with its exact target matches it", node)]


def _rewritten(state: Run, match: Match) -> Match | Mismatch:
    """The match, if its replacement is in the graph now; else why not, and the graph is as it was."""
    work, site = state.work, match.root.name
    mismatch = legal(match, work.effects)
    if mismatch is not None:
        return mismatch
    measure = _measure(match.rule, work)
    applied = apply(match, *work.tools)
    if isinstance(applied, Mismatch):
        return applied
    _check_shrinks(match.rule, measure, work, site)
    if applied.notes:
        state.tallies[match.rule.name].notes.update(applied.notes)
    state.history.append((match.rule.name, site))
    depth = 1 + max([state.depths.get(one, 0) for one in match.nodes])
    state.depths.update(dict.fromkeys(applied.new_nodes, depth))
    if match.root in match.kept:  # the next firing at a root that stays is built on this one
        state.depths[match.root] = depth
    state.latest = applied.new_nodes
    for node, other in applied.touched.items():
        state.changed[node] = other or state.changed.get(node, False)
    return match


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
