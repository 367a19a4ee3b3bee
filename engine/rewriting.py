"""From the caller's model to the rewritten one: `rewrite` and `find`.

The way of a rewrite: capture the model if it is no graph, look whether anything
fires, copy the graph (parameters and buffers stay shared), rewrite the copy under a
journal, recompile once.
"""

from __future__ import annotations

from collections.abc import Mapping
from time import perf_counter
from typing import Any, Literal, TypeAlias

from attrs import evolve, field, frozen
from torch import nn
from torch._export.verifier import SpecViolationError
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node

from ..dsl.nearest import did_you_mean
from ..dsl.source import FxrulesError, Problem
from .candidates import Match
from .capture import capture as capture_graph
from .comparison import Comparison
from .comparison import compare as compare_models
from .contracts import LEVELS
from .copying import copy_module
from .effects import EffectIndex
from .families import FamilyTable, load_table
from .fixpoint import Limits, Policy, Workspace, matches
from .journal import Journal, ModuleOwner, Owner, ProgramOwner
from .metadata import Propagation, annotate
from .nodeview import Views
from .owners import lifted_values, updated_program
from .pausing import collector_paused
from .pipelines import Plan, run, search
from .report import Report
from .ruleset import Rule, RuleSet, known_classes
from .sketches import Memory

Model: TypeAlias = nn.Module | ExportedProgram


@frozen(eq=False)
class Result:
    """The outcome of `rewrite`: the new ``model`` and the ``report``."""

    model: Any
    report: Report
    _before: Model | None = field(repr=False)
    _rules: RuleSet = field(factory=RuleSet, repr=False)

    def compare(self, inputs: Any) -> Comparison:
        """Run the original and the rewritten model on ``inputs`` and hold them to the contract of the rules that fired.

        Raises FxrulesError after ``inplace=True``: the original is gone.
        """
        if self._before is None:
            message = "nothing to compare with: the model was rewritten in place"
            raise FxrulesError(Problem(None, "in-place", message, "rewrite without inplace=True, or copy it before"))
        fired = (rule for rule in self._rules if rule.name in self.report.fired)
        # strides of outputs never change: surgery restores them
        changes = {word for rule in fired for word in rule.changes} & {"dtype", "device", "shape"}
        return compare_models(self._before, self.model, inputs, contract=self.report.contract, changes=changes)


@frozen(eq=False)
class Found:
    """One place where a rule's pattern and conditions hold.

    ``nodes`` are the matched nodes, the root first; ``bindings`` maps the rule's names
    to nodes, numbers, dims, submodules (with ``path`` and ``module``) and what ``let`` computed.
    """

    rule: Rule
    nodes: tuple[Node, ...]
    bindings: Mapping[str, object]

    @property
    def root(self) -> Node:
        """The node whose value the rule would replace."""
        return self.nodes[0]

    def __repr__(self) -> str:
        return f"<{self.rule.name} at {self.root.name}: {len(self.nodes)} nodes>"


def rewrite(
    model: Model,
    rules: RuleSet | Rule,
    example_inputs: Any = None,
    *,
    numerics: str = "rounding",
    freeze: bool = False,
    pipeline: str | None = None,
    inplace: bool = False,
    capture: Literal["export", "trace"] = "export",
    stop_after: int | None = None,
) -> Result:
    """Rewrite a model with a rule set until nothing fires, or in the steps of a pipeline of it.

    A GraphModule comes back as a GraphModule, an ExportedProgram as an ExportedProgram;
    any other ``nn.Module`` is captured (``capture="export"`` or ``"trace"``) and comes
    back as a GraphModule. Parameters and buffers are shared with ``model``, which is
    left as it was unless ``inplace=True`` asks for the opposite.

    ``numerics`` is the weakest contract that rules may have (``bitwise``, ``rounding``,
    ``approx``, ``differs``); ``freeze=True`` lets rules fold parameters of a model in
    eval mode into new constants; ``stop_after`` bounds the number of firings. ``pipeline``
    names a pipeline of the rule files, whose steps say which rules run, and how.
    ``example_inputs`` (a tuple of positional inputs, a dict of keyword inputs or the
    pair of both) are needed to capture a model, and to know shapes and dtypes where a graph has no metadata.

    Raises FxrulesError if the model cannot be captured, there is no such pipeline, the rules do not come to an
    end, or a rewrite breaks an invariant; the model is untouched then, whatever earlier steps did.

    >>> import torch, fxrules
    >>> rules = fxrules.load(text="rule double_neg(x: float[...]) { match neg(neg(x)) rewrite x * 1.0 }")
    >>> class Net(torch.nn.Module):
    ...     def forward(self, x):
    ...         return -(-x) + 1
    >>> result = fxrules.rewrite(Net(), rules, (torch.ones(3),))
    >>> dict(result.report.fired)
    {'text.double_neg': 1}
    >>> bool(result.compare((torch.randn(3),)))
    True
    """
    _check_options(numerics, stop_after)
    plan = Plan.of(_rule_set(rules), pipeline, model)
    if inplace and not isinstance(model, GraphModule):
        what = "an ExportedProgram" if isinstance(model, ExportedProgram) else "a module that must be captured first"
        raise FxrulesError(Problem(None, "in-place", f"{what} cannot be rewritten in place: only a GraphModule can"))
    captured = capture_graph(model, example_inputs, how=capture, leaves=known_classes(plan.rules))
    policy, limits = Policy(numerics, freeze), Limits(firings=stop_after)
    with collector_paused():
        if isinstance(captured, GraphModule) and (inplace or captured is not model):
            report = _rewrite_module(captured, ModuleOwner(captured), plan, policy, limits, example_inputs)
            return Result(captured, report, None if inplace else model, plan.rules)
        return _rewrite_copy(captured, plan, policy, limits, example_inputs)


def find(
    model: Model,
    rules: RuleSet | Rule,
    example_inputs: Any = None,
    *,
    freeze: bool = False,
    capture: Literal["export", "trace"] = "export",
) -> tuple[Found, ...]:
    """All places where rules match, without rewriting; overlapping ones too.

    >>> import torch, fxrules
    >>> rules = fxrules.load(text="rule relus(x: float[...]) { match relu(x) }")
    >>> net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())
    >>> [found.root.name for found in fxrules.find(net, rules, (torch.ones(1, 2),))]
    ['relu']
    """
    rules = _rule_set(rules)
    captured = capture_graph(model, example_inputs, how=capture, leaves=known_classes(rules))
    module = captured.graph_module if isinstance(captured, ExportedProgram) else captured
    owner: Owner = ProgramOwner(captured) if isinstance(captured, ExportedProgram) else ModuleOwner(module)
    metas = _metas(module)
    try:
        if example_inputs is not None and not _has_metadata(module):
            annotate(module, example_inputs)
        return tuple(map(_found, matches(_workspace(module, owner, rules), rules, Policy(LEVELS[-1], freeze))))
    finally:
        _restore_metas(metas)  # the nodes found are the caller's own


def _found(match: Match) -> Found:
    inner = (node for node in match.nodes if node is not match.root)
    return Found(match.rule, (match.root, *inner), match.bindings)


def _metas(module: GraphModule) -> dict[Node, dict[str, Any]]:
    return {node: dict(node.meta) for node in module.graph.nodes}


def _restore_metas(metas: Mapping[Node, Mapping[str, Any]]) -> None:
    for node, meta in metas.items():
        node.meta.clear()
        node.meta.update(meta)


def _rule_set(rules: Any) -> RuleSet:
    match rules:
        case RuleSet():
            return rules
        case Rule():
            return RuleSet((rules,))
        case list() | tuple() if all(isinstance(rule, Rule) for rule in rules):
            return RuleSet(tuple(rules))
    hint = f"load them first: fxrules.load({rules!r})" if isinstance(rules, str) else "fxrules.load gives a rule set"
    raise FxrulesError(Problem(None, "not-rules", f"`rules` is a rule set or a rule, not {type(rules).__name__}", hint))


def _check_options(numerics: str, stop_after: int | None) -> None:
    if stop_after is not None and stop_after < 0:
        raise FxrulesError(Problem(None, "option", f"stop_after={stop_after!r}: the firings to allow, 0 or more"))
    if numerics not in LEVELS:
        hint = did_you_mean(numerics, LEVELS) or f"one of {', '.join(LEVELS)}"
        raise FxrulesError(Problem(None, "option", f"numerics={numerics!r}: no such level", hint))


def _rewrite_copy(
    model: GraphModule | ExportedProgram, plan: Plan, policy: Policy, limits: Limits, example_inputs: Any
) -> Result:
    """Rewrite a copy; the copy is made only once something is known to fire."""
    program = model if isinstance(model, ExportedProgram) else None
    module = model.graph_module if isinstance(model, ExportedProgram) else model
    owner: Owner = ProgramOwner(program) if program else ModuleOwner(module)
    start = perf_counter()
    blind = example_inputs is not None and not _has_metadata(module)
    memory = Memory()
    nothing = None if blind else search(_workspace(module, owner, plan.rules, memory), plan, policy, limits)
    if nothing is not None:
        return Result(model, nothing, model, plan.rules)
    searched = perf_counter()
    copied = copy_module(module)
    seconds = {"match": searched - start, "copy": perf_counter() - searched}
    if program is None:
        report = _rewrite_module(copied, ModuleOwner(copied), plan, policy, limits, example_inputs, seconds, memory)
        return Result(copied if report.fired else model, report, model, plan.rules)
    work = _workspace(copied, owner, plan.rules, memory)
    report = run(work, plan, policy, limits)
    work.journal.commit()
    if not report.fired:
        return Result(model, report, model, plan.rules)
    start = perf_counter()
    try:
        updated = updated_program(program, copied, work.journal.constants)
    except SpecViolationError as error:
        rules_fired = ", ".join(f"`{name}`" for name in report.fired)
        message = f"the rewritten graph is no valid program: {error}; rules that fired: {rules_fired}"
        raise FxrulesError(Problem(None, "invalid-program", message)) from error
    seconds = _added(_added(seconds, report.seconds), {"recompile": perf_counter() - start})
    return Result(updated, evolve(report, seconds=seconds), model, plan.rules)


def _rewrite_module(
    module: GraphModule,
    owner: Owner,
    plan: Plan,
    policy: Policy,
    limits: Limits,
    example_inputs: Any,
    seconds: Mapping[str, float] | None = None,
    memory: Memory | None = None,
) -> Report:
    """Rewrite a module that is ours to change. Whatever fails, an interrupt too, it is as it was."""
    metas, work, compiling = _metas(module), None, False
    try:
        if example_inputs is not None and not _has_metadata(module):
            annotate(module, example_inputs)
        work = _workspace(module, owner, plan.rules, memory)
        report = run(work, plan, policy, limits)
        start = perf_counter()
        if report.fired:
            compiling = True
            module.recompile()
        spent = {"recompile": perf_counter() - start} if report.fired else {}
    except BaseException:
        if work is not None:
            work.journal.undo()
        _restore_metas(metas)
        if compiling:
            module.recompile()
        raise
    work.journal.commit()
    if not report.fired:
        _restore_metas(metas)
    return evolve(report, seconds=_added(_added(seconds or {}, report.seconds), spent))


def _added(first: Mapping[str, float], second: Mapping[str, float]) -> dict[str, float]:
    return {
        name: first.get(name, 0.0) + second.get(name, 0.0) for name in [*first, *(n for n in second if n not in first)]
    }


def _workspace(module: GraphModule, owner: Owner, rules: RuleSet, memory: Memory | None = None) -> Workspace:
    table = _table(rules)
    home: nn.Module = module
    lifted = lifted_values(owner.program) if isinstance(owner, ProgramOwner) else {}
    views = Views(module.graph, home, table, lifted, memory or Memory(), known_classes(rules, replaced=True))
    propagation = Propagation.of(module.graph, views.memory.keys)
    return Workspace(views, Journal(module.graph, owner), propagation, EffectIndex(module.graph, views))


def _table(rules: RuleSet) -> FamilyTable:
    """The built-in families and those that any rule's file declares."""
    table = load_table()
    own = {name: family for rule in rules for name, family in rule.scope.table.own.items()}
    return evolve(table, own={**table.own, **own}) if own else table


def _has_metadata(module: GraphModule) -> bool:
    """Whether the graph knows shapes: any placeholder or call with a value in its meta."""
    return any("val" in node.meta or "example_value" in node.meta for node in module.graph.nodes)
