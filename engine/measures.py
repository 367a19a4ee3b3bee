"""Measures of a graph, for ``shrinks``: how many nodes of an op there are, and how deep they lie."""

from __future__ import annotations

from collections.abc import Sequence

from torch.fx import Node

from ..dsl import ast
from .nodeview import Views
from .ruleset import Scope
from .truth import Declined


def measure(word: str, args: Sequence[object], views: Views, scope: Scope) -> int:
    """``count(op)`` or ``depth(op)`` of the graph that ``views`` looks at."""
    match args:
        case [ast.Name(id)]:
            family = scope.ops.get(id, id)
        case _:
            raise Declined(f"`{word}` takes the name of an op")
    if family not in scope.table.families:
        raise Declined(f"`{family}`: no such op")
    nodes = [node for node in views.graph.nodes if views.view_as(node, family) is not None]
    return len(nodes) if word == "count" else _depth(nodes, list(views.graph.nodes))


def _depth(nodes: list[Node], order: list[Node]) -> int:
    """The sum, over ``nodes``, of the number of nodes that their value reaches."""
    position = {node: i for i, node in enumerate(order)}
    reached: dict[Node, int] = {}
    for node in reversed(order):
        bits = 0
        for user in node.users:
            bits |= reached[user] | 1 << position[user]
        reached[node] = bits
    return sum(reached[node].bit_count() for node in nodes)
