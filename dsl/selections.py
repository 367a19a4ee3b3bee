"""Rule sets and pipelines: which rules run, and in what steps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

from attrs import evolve

from . import ast
from .headers import Kind
from .nearest import did_you_mean
from .phrases import format_expr
from .rewritetime import Moment, check_now
from .scopes import FileScope
from .source import Problem, Span
from .vocabulary import SITUATION, STRATEGIES
from .walking import locate, walk

_KNOWN = 'a step knows `device`, `mode` and `level`: device == "cuda", mode == "train", level == "aten"'


def check_rulesets(file: ast.File, scope: FileScope) -> Iterator[Problem]:
    """Each selector names a rule, a rule set, or those of an import; no set holds itself."""
    sets = {one.name: one for one in file.statements if isinstance(one, ast.Ruleset)}
    for ruleset in sets.values():
        yield from _check_selectors(ruleset.selectors, scope)
        if ruleset.name in _reachable(ruleset, sets):
            what = f"the rule set `{ruleset.name}` holds itself"
            yield Problem(locate(ruleset.span, ruleset.name), "recursive-ruleset", what)


def _reachable(ruleset: ast.Ruleset, sets: dict[str, ast.Ruleset]) -> set[str]:
    found: set[str] = set()
    pending = [ruleset]
    while pending:
        for selector in pending.pop().selectors:
            if selector.name in sets and selector.name not in found:
                found.add(selector.name)
                pending.append(sets[selector.name])
    return found


def _check_selectors(selectors: Sequence[ast.Selector], scope: FileScope) -> Iterator[Problem]:
    seen: set[ast.Selector] = set()
    for selector in selectors:
        if selector in seen:
            yield Problem(selector.span, "repeated", f"`{selector.name}` is listed twice")
        seen.add(selector)
        yield from _check_selector(selector, scope)
    if selectors and all(selector.minus for selector in selectors):
        yield Problem(selectors[0].span, "bad-selector", "nothing is selected that `-` could take away")


def _check_selector(selector: ast.Selector, scope: FileScope) -> Iterator[Problem]:
    alias, dot, rest = selector.name.partition(".")
    span = selector.span
    if selector.wildcard and dot:
        hint = f"write `{selector.name}`, or `{alias}.*` for all rules of the import"
        yield Problem(span, "bad-selector", f"`{selector.name}` is no import: `.*` stands behind an import", hint)
        return
    if selector.wildcard or dot:
        if alias not in scope.imports:
            what = f"`{alias}`: nothing is imported under this name"
            yield Problem(locate(span, alias), "unknown-import", what, did_you_mean(alias, scope.imports))
            return
        names = scope.imports[alias]
        if rest and names is not None and rest not in names.rules | names.rulesets:
            hint = did_you_mean(rest, names.rules | names.rulesets)
            yield Problem(span, "unknown-rule", f"`{alias}` has no rule `{rest}`", hint)
        return
    known = scope.own.rules | scope.own.rulesets
    if selector.name not in known:
        hint = did_you_mean(selector.name, known | scope.imports.keys())
        if selector.name in scope.imports:
            hint = f"all rules of an import are `{selector.name}.*`"
        yield Problem(locate(span, alias), "unknown-rule", f"`{selector.name}`: no such rule or rule set", hint)


def check_pipelines(file: ast.File, scope: FileScope) -> Iterator[Problem]:
    """Each step has a strategy, selectors that exist, and a limit or condition that means something."""
    for pipeline in file.statements:
        if not isinstance(pipeline, ast.Pipeline):
            continue
        for step in pipeline.steps:
            yield from _check_step(step, scope)


def _check_step(step: ast.Step, scope: FileScope) -> Iterator[Problem]:
    yield from _check_selectors(step.selectors, scope)
    if step.strategy not in STRATEGIES:
        hint = did_you_mean(step.strategy, STRATEGIES)
        yield Problem(_start(step.span, step.strategy), "unknown-step", f"`{step.strategy}`: no such step", hint)
    if step.limit is not None and step.strategy != "fixpoint":
        what = f"`limit` bounds the rounds of a `fixpoint`; `{step.strategy}` has one round"
        yield Problem(locate(step.span, "limit"), "bad-step", what)
    if step.condition is not None:
        # These are the only things known before any rule has run.
        moment = Moment(scope, dict.fromkeys(SITUATION, Kind.VALUE), has_root=False)
        for problem in check_now(step.condition, moment):
            bare = problem.code == "unbound" and not problem.hint
            yield evolve(problem, hint=_KNOWN) if bare else problem
        yield from _check_values(step.condition)


def _check_values(condition: ast.Expr) -> Iterator[Problem]:
    """A comparison with a value that can never be: the step would be skipped for ever, without an error."""
    for part in walk(condition):
        if not isinstance(part, ast.Compare):
            continue
        names = [one.id for one in part.operands if isinstance(one, ast.Name) and SITUATION.get(one.id)]
        lists = [one.items for one in part.operands if isinstance(one, ast.List | ast.Tuple)]
        for text in (one for one in [*part.operands, *chain(*lists)] if isinstance(one, ast.String)):
            for name in names:
                if text.value not in SITUATION[name]:
                    known = " or ".join(f'"{one}"' for one in SITUATION[name])
                    what = f"`{name}` is {known}, never {format_expr(text)}"
                    yield Problem(text.span, "bad-step", what, did_you_mean(text.value, SITUATION[name]))


def _start(span: Span | None, word: str) -> Span | None:
    return span and Span(span.source, span.start, span.start + len(word))
