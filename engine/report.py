"""What a run did: per rule how often it fired, was tried and was refused, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from attrs import define, field, frozen
from torch.fx import Node

from ..dsl.ast import Numerics
from .candidates import Mismatch, MismatchKind
from .contracts import compose, describe

_MOST_REASONS = 4  # printed for one rule


@frozen
class Refusal:
    """One reason for which a rule's pattern fitted and the rule still did not fire.

    ``count`` sites have it in the graph as it is at the end; ``node`` names one of them.
    """

    kind: MismatchKind
    reason: str
    count: int
    node: str

    def __str__(self) -> str:
        return f"{self.count} × {self.kind}: {self.reason} (at `{self.node}`)" if self.node else self.reason


@frozen
class RuleReport:
    """One rule's part of the report.

    ``tried`` counts the nodes at which its pattern was tried, over all rounds: their op and the ops that they read fit;
    ``refused`` is about the graph as it is at the end. ``notes`` say what the engine
    added or left (a ``contiguous``, for one).
    """

    name: str
    fired: int
    tried: int
    refused: tuple[Refusal, ...]
    numerics: Numerics
    notes: tuple[str, ...] = ()

    @property
    def outcome(self) -> str:
        """One line on why the rule did nothing; "" if it fired."""
        if self.fired:
            return ""
        if self.refused:
            return "; ".join(map(str, self.refused))
        return "its pattern fitted nowhere" if self.tried else "no node has the ops that it starts from"


@frozen
class StepReport:
    """What a step of a pipeline did: how it is written, how often which rule fired in it, in how many rounds.

    ``skipped`` is the reason why it did not run; "" if it ran.
    """

    text: str
    fired: Mapping[str, int] = field(factory=dict)
    rounds: int = 0
    skipped: str = ""

    def __str__(self) -> str:
        if self.skipped:
            return f"{self.text}: skipped, {self.skipped}"
        counts = ", ".join(f"{name} {count}" for name, count in self.fired.items())
        return f"{self.text}: {counts or 'nothing fired'}"


@frozen
class Report:
    """What happened to one graph.

    ``seconds`` has the time for ``match`` (matching, guards and splicing), ``copy``,
    ``lint`` and ``recompile``, each measured apart. ``pipeline`` is the name of the pipeline
    that was run, "" for none, and ``steps`` are its steps.
    """

    rules: tuple[RuleReport, ...]
    nodes_before: int
    nodes_after: int
    rounds: int
    seconds: Mapping[str, float] = field(factory=dict)
    notes: tuple[str, ...] = ()
    pipeline: str = ""
    steps: tuple[StepReport, ...] = ()

    @property
    def fired(self) -> Mapping[str, int]:
        """How often each rule fired, rules that never did left out."""
        return {rule.name: rule.fired for rule in self.rules if rule.fired}

    @property
    def contract(self) -> Numerics:
        """The contracts of the rules that fired as one: the weakest level, all waivers (``bitwise`` if none fired)."""
        return compose(rule.numerics for rule in self.rules if rule.fired)

    def __getitem__(self, name: str) -> RuleReport:
        for rule in self.rules:
            if name in (rule.name, rule.name.rpartition(".")[2]):
                return rule
        raise KeyError(name)

    def to_dict(self) -> dict[str, Any]:
        """The report as JSON-ready data."""
        return {
            "nodes": {"before": self.nodes_before, "after": self.nodes_after},
            "rounds": self.rounds,
            "contract": describe(self.contract),
            "seconds": {name: round(value, 6) for name, value in self.seconds.items()},
            "notes": list(self.notes),
            "pipeline": self.pipeline or None,
            "steps": [
                {"step": one.text, "fired": dict(one.fired), "rounds": one.rounds, "skipped": one.skipped or None}
                for one in self.steps
            ],
            "rules": [
                {
                    "name": rule.name,
                    "fired": rule.fired,
                    "tried": rule.tried,
                    "numerics": describe(rule.numerics),
                    "refused": [
                        {"kind": one.kind, "reason": one.reason, "count": one.count, "node": one.node}
                        for one in rule.refused
                    ],
                    "notes": list(rule.notes),
                }
                for rule in self.rules
            ],
        }

    def __str__(self) -> str:
        notes = (f"note: {one}" for one in self.notes)
        return "\n".join([self._headline(), *self._table(), *self._steps(), *self._refusals(), *notes])

    def _headline(self) -> str:
        total = sum(rule.fired for rule in self.rules)
        spent = ", ".join(f"{name} {value * 1e3:.1f} ms" for name, value in self.seconds.items())
        change = (
            f"{self.nodes_before} -> {self.nodes_after} nodes" if total else f"{self.nodes_before} nodes, unchanged"
        )
        rounds = f"{self.rounds} round{'s' if self.rounds != 1 else ''}"
        rewrites = f"{total} rewrite{'s' if total != 1 else ''}"
        head = f"{rewrites} by {len(self.fired)} of {len(self.rules)} rules: {change}, {rounds}"
        return f"{head} ({spent})" if spent else head

    def _table(self) -> list[str]:
        shown = [rule for rule in self.rules if rule.fired]
        width = max((len(rule.name) for rule in shown), default=0)
        lines = []
        for rule in shown:
            counts = f"fired {rule.fired:>4} of {rule.tried:>5} tried"
            lines.append(f"  {rule.name:<{width}}  {counts}  {rule.numerics.level}")
            lines += [f"  {'':<{width}}  note: {note}" for note in rule.notes]
        return lines

    def _steps(self) -> list[str]:
        head = [f"pipeline {self.pipeline}:"] if self.pipeline else []
        return head + [f"  {number}. {step}" for number, step in enumerate(self.steps, 1)]

    def _refusals(self) -> list[str]:
        refused = {rule.name: _notable(rule) for rule in self.rules}
        silent = sum(not rule.fired and not rule.refused for rule in self.rules)
        lines = ["refused:"] if any(refused.values()) else []
        for name, reasons in refused.items():
            lines += [f"  {name}: {one}" for one in reasons[:_MOST_REASONS]]
            if len(reasons) > _MOST_REASONS:
                lines.append(f"  {name}: … and {len(reasons) - _MOST_REASONS} more reasons, see to_dict()")
        lines += [f"  {rule.name}: note: {note}" for rule in self.rules if not rule.fired for note in rule.notes]
        if silent and not self.notes:  # of a run that was stopped, nobody knows what the others would have found
            lines.append(f"{silent} rule{'s' if silent != 1 else ''} found nothing to rewrite")
        return lines


def _notable(rule: RuleReport) -> list[Refusal]:
    """The refusals to print: where a rule fired, that its conditions fail elsewhere is what they are for.

    Of a rule that only skipped steps have, the step tells the reason.
    """
    hidden = ("where", "type", "shape", "pipeline") if rule.fired else ("pipeline",)
    shown = [one for one in rule.refused if one.kind not in hidden]
    return sorted(shown, key=lambda one: -one.count)


@define
class Tally:
    """Counts for one rule while a run is going on.

    ``refusals`` has, for each root node where the pattern fitted and the rule did not
    fire when it was last tried, the reasons.
    """

    name: str
    numerics: Numerics
    fired: int = 0
    tried: int = 0
    forbidden: Mismatch | None = None
    notes: Counter[str] = field(factory=Counter)
    refusals: dict[Node, Sequence[Mismatch]] = field(factory=dict)

    def refuse(self, node: Node, reasons: Sequence[Mismatch]) -> None:
        """Write down why the rule did not fire at a node this time; no reasons where its pattern does not fit."""
        if reasons:
            self.refusals[node] = reasons
        else:
            self.refusals.pop(node, None)

    def close(self) -> RuleReport:
        """The counts as they are now."""
        sites: dict[tuple[MismatchKind, str], list[str]] = {}
        for node, mismatches in self.refusals.items():
            if not node._erased:
                for kind, reason in dict.fromkeys((one.kind, one.reason) for one in mismatches):
                    sites.setdefault((kind, reason), []).append(node.name)
        refused = [Refusal(kind, reason, len(names), names[0]) for (kind, reason), names in sites.items()]
        if self.forbidden is not None:
            refused.append(Refusal(self.forbidden.kind, self.forbidden.reason, 1, ""))
        notes = tuple(f"{count} × {text}" for text, count in self.notes.items())
        return RuleReport(self.name, self.fired, self.tried, tuple(refused), self.numerics, notes)
