"""Symbolic sizes as values of the graph: which node carries one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.fx import Node

from .candidates import Config, Match
from .nodeview import Views

# By the classes of the expressions, which are sympy's and torch's own.
_OPS = {"Mul": "mul", "Add": "add", "FloorDiv": "floor_divide", "PythonMod": "remainder"}
_SIZE_OF = torch.ops.aten.sym_size.int


def find_size(size: Any, match: Match, before: Node, views: Views) -> int | Node | tuple[Node, int] | None:
    """Where a symbolic size comes from at a node's place: a number, a node, or a tensor and its dim.

    Only values that the match binds or reads are asked. None if none of them has the size.
    """
    expr = size.node.expr
    if expr.is_number:
        return int(expr)
    tensors = []
    for node in _known(match):
        fact = views.fact(node)
        if isinstance(fact, torch.SymInt) and fact.node.expr == expr:
            return node
        if isinstance(fact, Tensor):
            tensors.append((node, fact))
    for node, fact in tensors:
        for dim, one in enumerate(fact.shape):
            if isinstance(one, torch.SymInt) and one.node.expr == expr:
                return _reader(node, dim, before) or (node, dim)
    return None


def parts_of(size: torch.SymInt) -> tuple[str, tuple[int | torch.SymInt, ...]] | None:
    """A size as an op on other sizes, by the name of the family: ``b * s`` is ``mul`` of both; None if it is none."""
    expr, env = size.node.expr, size.node.shape_env
    name = _OPS.get(type(expr).__name__)
    if name is None:
        return None
    first, *rest = expr.args
    other = rest[0] if len(rest) == 1 else expr.func(*rest)

    def sized(part: Any) -> int | torch.SymInt:
        found: int | torch.SymInt = int(part) if part.is_number else env.create_symintnode(part, hint=None)
        return found

    return name, (sized(first), sized(other))


def _known(match: Match) -> Iterator[Node]:
    """The nodes a replacement may read: bound ones and inputs of the match, those that stay in the graph first."""
    inside = set(match.nodes) - set(match.kept)
    found: dict[Node, None] = {}
    pending: list[object] = list(match.bindings.values())
    while pending:
        match pending.pop():
            case Node() as node:
                found[node] = None
            case tuple() as items:
                pending.extend(items)
            case Config(items):
                pending.extend(value for _, value in items)
    for node in match.nodes:
        found.update(dict.fromkeys(node.all_input_nodes))
    yield from (node for node in found if node not in inside)


def _reader(tensor: Node, dim: int, before: Node) -> Node | None:
    """A node that already reads this size and stands early enough."""
    for user in tensor.users:
        if user.target is _SIZE_OF and user.args == (tensor, dim) and user < before:
            return user
    return None
