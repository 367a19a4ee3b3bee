"""From a candidate to a match: declarations, sizes, equalities put off, users, ``where`` and ``let``."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from functools import lru_cache

import torch
from torch.fx import Node

from ..dsl import ast
from ..dsl.phrases import format_expr
from . import declarations
from .candidates import Candidate, Match, Mismatch
from .computing import Frozen
from .evaluation import evaluate, holds
from .facts import Capture, capture, describe
from .nodeview import Views, level_of
from .ruleset import Rule
from .shapes import Declared, solve
from .surface import declared_names, header_dims
from .truth import Declined, Unknown, equal
from .words import items_of

__all__ = ["Match", "Mismatch", "accept"]

Bindings = dict[str, object]


def accept(rule: Rule, candidate: Candidate, views: Views, *, freeze: bool) -> Match | Mismatch:
    """The match that a candidate is, with dims and ``let`` values bound; or why it is none.

    ``freeze``: the caller lets values of parameters be baked into new constants.
    """
    root = candidate.root
    bindings: Bindings = {name: candidate.bindings.get(name) for name in _names(rule)}
    nodes = _with_unread_items(rule, candidate, bindings, views)
    kept = tuple(node for node in map(bindings.get, sorted(rule.keep)) if isinstance(node, Node))
    mismatch = (
        _wrong_kind(rule, bindings, views)
        or _bind_dims(rule, bindings, views)
        or _unequal(rule, candidate, bindings, views)
        or _read_outside(root, nodes, kept, views)
        or _conditions(rule, root, bindings, views, freeze)
        or (_not_frozen(root, views, freeze) if rule.freeze else None)
    )
    return mismatch or Match(rule, root, nodes, bindings, kept)


@lru_cache(maxsize=4096)
def _names(rule: Rule) -> tuple[str, ...]:
    return declared_names(rule.ast)


@lru_cache(maxsize=4096)
def _dims(rule: Rule) -> frozenset[str]:
    return header_dims(rule.ast.params) - rule.scope.constants.keys()


# ------------------------------------------------------------ kinds and sizes
def _wrong_kind(rule: Rule, bindings: Bindings, views: Views) -> Mismatch | None:
    found = (declarations.check(param, bindings[param.name], views) for param in rule.ast.params)
    return next((mismatch for mismatch in found if mismatch is not None), None)


def _bind_dims(rule: Rule, bindings: Bindings, views: Views) -> Mismatch | None:
    dims = _dims(rule)
    shapes = list(_declared_shapes(rule, bindings, views))
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


def _declared_shapes(rule: Rule, bindings: Bindings, views: Views) -> Iterator[Declared]:
    for param in rule.ast.params:
        if param.type is None or param.type.dims is None or bindings[param.name] is None:
            continue
        value = bindings[param.name]
        for item in value if param.star and isinstance(value, tuple) else (value,):
            fact = views.fact(item)
            if isinstance(fact, torch.Tensor):
                yield Declared(param.name, param.type.dims, tuple(fact.shape))


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
def _with_unread_items(rule: Rule, candidate: Candidate, bindings: Bindings, views: Views) -> tuple[Node, ...]:
    """The covered nodes, and the items of ``q, k, v = split(...)`` that nobody reads.

    Items that the pattern names but does not reach are bound, so that ``users(k)`` has an answer.
    """
    nodes = list(candidate.nodes)
    for assign in rule.match.assigns:
        for place, node in _items(assign, bindings):
            if bindings.get(assign.targets[place]) is None:
                bindings[assign.targets[place]] = node
            if node not in nodes and not views.users(node):
                nodes.append(node)
    return tuple(nodes)


def _items(assign: ast.Assign, bindings: Bindings) -> list[tuple[int, Node]]:
    """The items of the tuple that a destructuring reads, with their places, as far as the graph has them."""
    if len(assign.targets) < 2:
        return []
    values = [bindings.get(target) for target in assign.targets]
    read = next((value for value in values if isinstance(value, Node)), None)
    if read is None or read.target is not operator.getitem or not isinstance(read.args[0], Node):
        return []
    items = [user for user in read.args[0].users if user.target is operator.getitem]
    places = range(len(assign.targets))
    return [(item.args[1], item) for item in items if isinstance(item.args[1], int) and item.args[1] in places]


def _read_outside(root: Node, nodes: tuple[Node, ...], kept: tuple[Node, ...], views: Views) -> Mismatch | None:
    """An inner node that something outside the match reads; replacing the root would not make it go away."""
    for node in nodes:
        if node is root or node in kept:
            continue
        outside = [user for user in views.users(node) if user not in nodes]
        if outside:
            reader = "an output of the graph" if outside[0].op == "output" else f"also read by `{outside[0].name}`"
            return Mismatch("users", f"inner value `{node.name}` is {reader}; `keep` a name for it to allow that", node)
    return None


# ------------------------------------------------------------------ where, let
def _conditions(rule: Rule, root: Node, bindings: Bindings, views: Views, freeze: bool) -> Mismatch | None:
    """Run ``where`` and ``let`` in written order; ``let`` values go into ``bindings``."""
    may_read = _not_frozen(root, views, freeze) is None
    for clause in rule.conditions:
        expr = clause.assign.value if isinstance(clause, ast.Let) else clause.condition
        try:
            if isinstance(clause, ast.Let):
                value = evaluate(expr, bindings, views, rule.scope, out=root, freeze=may_read)
                bindings.update(_unpacked(clause.assign.targets, value))
            elif not holds(expr, bindings, views, rule.scope, out=root, freeze=may_read):
                return Mismatch("where", clause.reason or f"`{format_expr(expr)}` does not hold", root)
        except Unknown as unknown:
            return Mismatch("missing fact", str(unknown), root)
        except Frozen as frozen:
            return _not_frozen(root, views, freeze) or Mismatch("freeze", frozen.reason, root)
        except Declined as declined:
            return Mismatch("where", f"`{format_expr(expr)}`: {declined.reason}", root)
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
