"""From a candidate to a match: declarations, sizes, equalities put off, users, ``where`` and ``let``."""

from __future__ import annotations

import operator
from collections.abc import Hashable, Iterator
from functools import lru_cache
from sys import maxsize

import torch
from attrs import frozen
from torch.fx import Node

from ..dsl import ast
from ..dsl.phrases import format_expr
from . import declarations
from .candidates import Candidate, Match, Mismatch
from .computing import Frozen
from .evaluation import compiled, evaluate
from .facts import Capture, capture, describe
from .nodeview import Views, level_of
from .observers import is_observer
from .places import Code, Place, is_true, value_of
from .ruleset import Rule, expression_of
from .shapes import Declared, Dim, solve
from .surface import declared_names, header_dims
from .truth import Declined, Unknown, equal
from .verdicts import Verdict, asks_facts_only, is_plain, site_key
from .words import items_of

__all__ = ["Match", "Mismatch", "accept", "read_outside"]

Bindings = dict[str, object]


def accept(rule: Rule, candidate: Candidate, views: Views, *, freeze: bool) -> Match | Mismatch:
    """The match that a candidate is, with dims and ``let`` values bound; or why it is none.

    ``freeze``: the caller lets values of parameters be baked into new constants.
    """
    root, plan = candidate.root, _plan(rule)
    bindings: Bindings = {name: candidate.bindings.get(name) for name in plan.names}
    nodes = _with_unread_items(plan, candidate, bindings, views)
    kept = tuple([node for node in map(bindings.get, plan.keep) if isinstance(node, Node)])
    key = _number(site_key(candidate, bindings, views), views) if plan.asks_facts_only and not freeze else None
    verdict = None if key is None else views.memory.alike.get((plan, key))
    if verdict is None:
        mismatch = (
            _wrong_kind(plan, bindings, views)
            or _bind_dims(rule, plan, bindings, views)
            or _unequal(rule, candidate, bindings, views)
            or read_outside((root, *candidate.others), nodes, kept)
        )
        if mismatch is not None:
            return mismatch
        mismatch = _conditions(rule, plan, root, bindings, views, freeze)
        mismatch = mismatch or (_not_frozen(root, views, freeze) if rule.freeze else None)
        verdict = None if key is None else _verdict(plan, bindings, mismatch)
        if verdict is not None:
            views.memory.alike[plan, key] = verdict
            mismatch = verdict.mismatch(root)
    else:
        mismatch = read_outside((root,), nodes, kept) or verdict.mismatch(root)
        bindings.update(verdict.bound)
    return mismatch or Match(rule, root, nodes, bindings, kept, None if verdict is None else key, candidate.others)


def _number(key: Hashable | None, views: Views) -> int | None:
    """A number for a key, which is quicker to look up."""
    return None if key is None else views.memory.sites.setdefault(key, len(views.memory.sites))


def _verdict(plan: _Plan, bindings: Bindings, mismatch: Mismatch | None) -> Verdict | None:
    """What holds for all sites with the same key; None if it does not: a value or a reason that names nodes."""
    if mismatch is not None:
        return Verdict(refusal=mismatch.reason) if mismatch.reason in plan.reasons else None
    bound = {name: value for name, value in bindings.items() if name not in plan.names}
    return Verdict(bound) if all(map(is_plain, bound.values())) else None


@frozen(eq=False)
class _Plan:
    """What is the same for all candidates of a rule.

    ``typed`` and ``shaped`` are the parameters with a type and with dims, ``unpackings``
    the assignments to several names; ``conditions`` come with their compiled expression
    and the reason to give where it does not hold.
    """

    names: tuple[str, ...]
    keep: tuple[str, ...]
    typed: tuple[ast.Param, ...]
    shaped: tuple[tuple[ast.Param, tuple[Dim, ...]], ...]
    dims: frozenset[str]
    unpackings: tuple[ast.Assign, ...]
    conditions: tuple[tuple[ast.Where | ast.Let, str, Code], ...]
    reasons: frozenset[str]
    asks_facts_only: bool


@lru_cache(maxsize=4096)
def _plan(rule: Rule) -> _Plan:
    params = rule.ast.params
    conditions = tuple((one, _reason(one), compiled(expression_of(one))) for one in rule.conditions)
    return _Plan(
        declared_names(rule.ast, rule.scope.constants.keys()),
        tuple(sorted(rule.keep)),
        tuple(param for param in params if param.type is not None),
        tuple((param, param.type.dims) for param in params if param.type and param.type.dims is not None),
        header_dims(params) - rule.scope.constants.keys(),
        tuple(assign for assign in rule.match.assigns if len(assign.targets) > 1),
        conditions,
        frozenset(reason for _, reason, _ in conditions),
        asks_facts_only(rule),
    )


def _reason(clause: ast.Where | ast.Let) -> str:
    """What to say where a condition does not hold; a ``let`` always does."""
    if isinstance(clause, ast.Let):
        return ""
    return clause.reason or f"`{format_expr(clause.condition)}` does not hold"


# ------------------------------------------------------------ kinds and sizes
def _wrong_kind(plan: _Plan, bindings: Bindings, views: Views) -> Mismatch | None:
    for param in plan.typed:
        mismatch = declarations.check(param, bindings[param.name], views)
        if mismatch is not None:
            return mismatch
    return None


def _bind_dims(rule: Rule, plan: _Plan, bindings: Bindings, views: Views) -> Mismatch | None:
    dims, shapes = plan.dims, list(_declared_shapes(plan, bindings, views))
    if not dims and not shapes:
        return None
    known = {
        name: capture(name, value, views)
        for name, value in {**rule.scope.constants, **bindings}.items()
        if name not in dims
    }
    solved = solve(shapes, known)
    if isinstance(solved, Mismatch):
        return solved
    bindings.update(solved)
    return None


def _declared_shapes(plan: _Plan, bindings: Bindings, views: Views) -> Iterator[Declared]:
    for param, dims in plan.shaped:
        value = bindings[param.name]
        for item in value if param.star and isinstance(value, tuple) else (value,):
            fact = views.fact(item)
            if isinstance(fact, torch.Tensor):
                yield Declared(param.name, dims, tuple(fact.shape))


def _unequal(rule: Rule, candidate: Candidate, bindings: Bindings, views: Views) -> Mismatch | None:
    """The first rewrite-time expression of the pattern that does not equal what stands there."""
    for expr, actual in candidate.deferred:
        try:
            wanted, value = evaluate(expr, bindings, views, rule.scope), capture("", actual, views)
            if isinstance(value, Capture) or not equal(wanted, value):
                return Mismatch("shape", f"`{format_expr(expr)}` is {wanted}, the graph has {describe(actual)} there")
        except Unknown as unknown:
            return Mismatch("missing fact", str(unknown))
        except Declined as declined:
            return Mismatch("shape", f"`{format_expr(expr)}`: {declined.reason}")
    return None


# ---------------------------------------------------------------------- users
def _with_unread_items(plan: _Plan, candidate: Candidate, bindings: Bindings, views: Views) -> tuple[Node, ...]:
    """The covered nodes, and the items of ``q, k, v = split(...)`` that nobody reads.

    Items that the pattern names but does not reach are bound, so that ``users(k)`` has an answer;
    ``*rest`` is the list of those behind the others that the graph has.
    """
    if not plan.unpackings:
        return candidate.nodes
    nodes = list(candidate.nodes)
    for assign in plan.unpackings:
        *_, last = assign.targets
        found = _items(assign, bindings)
        for place, node in found:
            if place < len(assign.targets) and bindings.get(assign.targets[place]) is None:
                bindings[assign.targets[place]] = node
            if node not in nodes and not views.users(node):
                nodes.append(node)
        if last.startswith("*"):
            bindings[last[1:]] = tuple([node for place, node in found if place >= len(assign.targets) - 1])
    return tuple(nodes)


def _items(assign: ast.Assign, bindings: Bindings) -> list[tuple[int, Node]]:
    """The items of the tuple that a destructuring reads, with their places, as far as the graph has them."""
    values = [bindings.get(target) for target in assign.targets]
    read = next((value for value in values if isinstance(value, Node)), None)
    if read is None or read.target is not operator.getitem or not isinstance(read.args[0], Node):
        return []
    items = [user for user in read.args[0].users if user.target is operator.getitem]
    places = range(maxsize if assign.targets[-1].startswith("*") else len(assign.targets))
    found = [(item.args[1], item) for item in items if isinstance(item.args[1], int) and item.args[1] in places]
    return sorted(found, key=lambda one: one[0])


def read_outside(results: tuple[Node, ...], nodes: tuple[Node, ...], kept: tuple[Node, ...]) -> Mismatch | None:
    """An inner node that something outside the match reads; replacing the results would not make it go away."""
    inside = set(nodes)
    for node in nodes:
        if node in results or node in kept:
            continue
        for user in node.users:
            if user not in inside and not is_observer(user):
                reader = "an output of the graph" if user.op == "output" else f"also read by `{user.name}`"
                why = f"inner value `{node.name}` is {reader}; `keep` a name for it to allow that"
                return Mismatch("users", why, node)
    return None


# ------------------------------------------------------------------ where, let
def _conditions(rule: Rule, plan: _Plan, root: Node, bindings: Bindings, views: Views, freeze: bool) -> Mismatch | None:
    """Run ``where`` and ``let`` in written order; ``let`` values go into ``bindings``."""
    may_read = bool(plan.conditions) and _not_frozen(root, views, freeze) is None
    for clause, reason, code in plan.conditions:
        place = Place(bindings, views, rule.scope, root, may_read)
        try:
            if isinstance(clause, ast.Let):
                bindings.update(_unpacked(clause.assign.targets, value_of(code, place)))
            elif not is_true(code, place):
                return Mismatch("where", reason, root)
        except Unknown as unknown:
            return Mismatch("missing fact", str(unknown), root)
        except Frozen as frozen:
            return _not_frozen(root, views, freeze) or Mismatch("freeze", frozen.reason, root)
        except Declined as declined:
            return Mismatch("where", f"`{format_expr(expression_of(clause))}`: {declined.reason}", root)
    return None


def _unpacked(targets: tuple[str, ...], value: object) -> Bindings:
    """The names of ``a, *b = value`` with what they get; raises Declined where the lengths differ."""
    if len(targets) == 1 and not targets[0].startswith("*"):
        return {targets[0]: value}
    items = items_of(value)
    star = next((place for place, target in enumerate(targets) if target.startswith("*")), None)
    extra = len(items) - len(targets)
    if extra < (0 if star is None else -1) or (star is None and extra):
        raise Declined(f"{len(items)} items do not unpack into {len(targets)} names")
    if star is None:
        return dict(zip(targets, items, strict=True))
    behind = star + 1 + extra
    ends = dict(zip((*targets[:star], *targets[star + 1 :]), (*items[:star], *items[behind:]), strict=True))
    return {**ends, targets[star][1:]: items[star:behind]}


def _not_frozen(root: Node, views: Views, freeze: bool) -> Mismatch | None:
    """Why values of parameters may not be baked in now; None if they may.

    Training mode counts at level torch only: in an exported graph the mode is part of the graph,
    and the module's flag says nothing.
    """
    if not freeze:
        return Mismatch("freeze", "this bakes parameter values into new constants: pass freeze=True", root)
    if views.owner is not None and views.owner.training and level_of(root) == "torch":
        return Mismatch("freeze", "the model is in training mode: call .eval() before folding parameters", root)
    return None
