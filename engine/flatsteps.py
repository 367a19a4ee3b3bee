"""The compiled matcher's steps for ``flat add(p, *rest)``: a sum of any nesting as one list of operands."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Node

from .nodeview import View, Views
from .steps import NODES, VIEWS, Continuation, Env, Matcher


def flat(family: str, operands: int, left: int, after: Continuation) -> Matcher:
    """The operands of a node and of the same ops inside it go into slots; ``left`` are those still to match."""

    def match(value: Any, env: Env) -> bool:
        views: Views = env[VIEWS]
        view = _plain_view(value, family, views) if isinstance(value, Node) else None
        if view is None:
            return False
        nodes, found = _operands(view, family, views)
        outer, count = (env[operands], env[left]), len(env[NODES])
        env[operands], env[left] = found, tuple(range(len(found)))
        env[NODES].extend(nodes)
        taken = after(env)
        del env[NODES][count:]
        env[operands], env[left] = outer
        return taken

    return match


def choose(operands: int, left: int, match: Matcher) -> Continuation:
    """One of the operands that are left, the first one first."""

    def step(env: Env) -> bool:
        before, values = env[left], env[operands]
        for place in before:
            env[left] = tuple([other for other in before if other != place])
            taken = match(values[place], env)
            env[left] = before
            if taken:
                return True
        return False

    return step


def others(operands: int, left: int, rest: Matcher) -> Continuation:
    """What is left, as a list."""
    return lambda env: rest(tuple([env[operands][place] for place in env[left]]), env)


def _plain_view(node: Node, family: str, views: Views) -> View | None:
    """The node as this op with nothing but its two operands."""
    for view in views.views_as(node, family):
        if view.effect == "pure" and all(views.is_default(view, at) for at in range(2, len(view.args))):
            return view
    return None


def _operands(root: View, family: str, views: Views) -> tuple[list[Node], list[Any]]:
    """The nodes of one sum, each before those inside it, and its operands in written order."""
    nodes: list[Node] = []
    found: list[Any] = []
    pending: list[tuple[Any, View | None]] = [(root.node, None)]  # a value, and the op that reads it
    while pending:
        value, reader = pending.pop()
        view = root if reader is None else _inside(value, reader, family, views)
        if view is None:
            found.append(value)
            continue
        nodes.append(view.node)
        pending += [(view.args[1], view), (view.args[0], view)]
    return nodes, found


def _inside(value: Any, reader: View, family: str, views: Views) -> View | None:
    """The view of an operand that belongs to the same sum: nobody else reads it, and no dtype changes there."""
    if not isinstance(value, Node) or views.users(value) != (reader.node,):
        return None
    view = _plain_view(value, family, views)
    return view if view is not None and _one_dtype(view, views) and _one_dtype(reader, views) else None


def _one_dtype(view: View, views: Views) -> bool:
    """Whether what is known of the result and of the two operands has one dtype."""
    facts = [views.fact(value) for value in (view.node, *view.args[:2]) if isinstance(value, Node)]
    return len({fact.dtype for fact in facts if isinstance(fact, torch.Tensor)}) <= 1
