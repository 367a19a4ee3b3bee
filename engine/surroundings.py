"""The functions of ``where`` and ``let`` that look at the graph around a value, or ask what kind of value it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.fx import Node

from .facts import Capture, CapturedModule, describe
from .truth import SYMBOLIC, Declined
from .values import same_value


def _is_input(value: object) -> bool:
    match value:
        case Capture(_, Node() as node, views):
            return node.op == "placeholder" and node.name not in views.lifted
    return False


def _is_output(value: object) -> bool:
    match value:
        case Capture(_, Node() as node):
            return any(user.op == "output" for user in node.users)
    return False


def _is_const(value: object) -> bool:
    match value:
        case Capture(_, inner, views):
            return views.constant(inner) is not None
    return not isinstance(value, SYMBOLIC)


def _is_tensor(value: object) -> bool:
    match value:
        case Capture(_, inner, views):
            return isinstance(views.fact(inner), torch.Tensor | None)
    return isinstance(value, torch.Tensor)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_symbolic(value: object) -> bool:
    return isinstance(value, SYMBOLIC)


def _path(value: object) -> str:
    match value:
        case CapturedModule(_, submodule):
            return submodule.path
        case Capture(_, Node() as node):
            stack = list((node.meta.get("nn_module_stack") or {}).values())
            return str(stack[-1][0]) if stack else ""
    return ""


def _users(value: object) -> int:
    match value:
        case None:
            return 0
        case Capture(_, Node() as node, views):
            return len(views.users(node))
    raise Declined(f"the users of {describe(value)} are not known")


def _op(value: object) -> str:
    match value:
        case Capture(_, Node() as node, views):
            return _op_of(node, views)
        case Capture():
            return "constant"
    raise Declined(f"{describe(value)} is not computed by an op")


def _op_of(node: Node, views: Any) -> str:
    """The family of a node; what is no op by another word, what no family knows by its target."""
    if node.op == "placeholder":
        return "constant" if node.name in views.lifted else "input"
    if node.op == "get_attr":
        return "constant"
    view = views.own(node)
    return "output" if node.op == "output" else str(node.target) if view is None else str(view.family.name)


def _user_ops(value: object) -> tuple[str, ...]:
    match value:
        case None:
            return ()
        case Capture(_, Node() as node, views):
            return tuple(_op_of(user, views) for user in sorted(views.users(node)))
    raise Declined(f"the users of {describe(value)} are not known")


def _depends_on(value: object, other: object) -> bool:
    """Whether a value is computed, by whatever way, from another."""
    match value, other:
        case (Capture(_, Node() as node), Capture(_, Node() as source)):
            pending, seen = [node], {node}
            while pending:
                for one in pending.pop().all_input_nodes:
                    if one is source:
                        return True
                    if one not in seen and not one < source:
                        seen.add(one)
                        pending.append(one)
    return False


def _same(value: object, other: object) -> bool:
    first, second = (one.value if isinstance(one, Capture) else one for one in (value, other))
    return same_value(first, second)


ABOUT_THE_GRAPH: Mapping[str, Callable[..., object]] = {
    "depends_on": _depends_on,
    "is_const": _is_const,
    "is_input": _is_input,
    "is_number": _is_number,
    "is_output": _is_output,
    "is_symbolic": _is_symbolic,
    "is_tensor": _is_tensor,
    "op": _op,
    "path": _path,
    "same": _same,
    "user_ops": _user_ops,
    "users": _users,
}
"""These words, as plain functions: they take and give what those of `words` do."""
