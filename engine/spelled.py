"""The effects of functions and methods: what a spelling gives away, and what belongs to no family."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch._ops import HigherOrderOperator, OpOverloadPacket
from torch.fx import Node

from .effect_names import (
    CALLS,
    DRAWS,
    IN_PLACE_OPERATORS,
    MAY_COPY,
    MAY_RETURN_ARGUMENT,
    PLAIN_BUILTINS,
    QUERIES,
    RENORMALISED,
    STATE,
)
from .schemas import PURE, Effect, called_by, draws_by, memory_of, opaque, overloads_of, random, writing
from .walks import nodes_in


def spelled_effect(node: Node) -> Effect | None:
    """What a spelling alone gives away: ``x.add_(y)``, ``x += y``, ``x[0] = y``, ``out=``, ``inplace=True``."""
    target = node.target
    name = _name(target)
    if isinstance(target, HigherOrderOperator):
        return opaque(node, f"is the higher-order op {target}")
    if isinstance(target, OpOverloadPacket) and (target._qualified_op_name.partition("::")[0] != "aten"):
        return None  # a name of another namespace means nothing; its schema is looked at
    if name in STATE:
        return opaque(node, "changes the state of torch")
    if node.kwargs.get("out") is not None:
        written = tuple(nodes_in(node.kwargs["out"]))
        return writing(node, written, written, draws=draws_by(name))
    if _writes_by_name(target, name) or _asks_in_place(node):
        written = tuple(nodes_in(node.args[:1]) or nodes_in(node.kwargs.get("input")))
        if not written:
            return opaque(node, f"calls {_called(target)}, which writes to something")
        return writing(node, written, written, draws=draws_by(name))
    if name in RENORMALISED and (weight := _renormalised(node)):
        return writing(node, weight, ())
    return None


def _name(target: Any) -> str:
    return target if isinstance(target, str) else getattr(target, "__name__", "")


def _home(target: Any) -> str:
    return getattr(target, "__module__", None) or ""


_TORCH = ("", "torch", "torch.nn.functional", "torch.nn.init", "torch._C._nn", "torch._ops.aten")


def _writes_by_name(target: Any, name: str) -> bool:
    """Whether the name says that the first argument is written to; names of functions of others say nothing."""
    if name in IN_PLACE_OPERATORS and (isinstance(target, str) or _home(target) == "_operator"):
        return True
    if _home(target) == "_operator":
        return False  # `and_`, `or_` and `not_` are so called because Python has the words
    ours = isinstance(target, str) or _home(target) in _TORCH
    return ours and name.endswith("_") and not name.endswith("__")


def _asks_in_place(node: Node) -> bool:
    if "inplace" in node.kwargs:
        return node.kwargs["inplace"] is not False
    at = _position(node.target, "inplace") if callable(node.target) else None
    return at is not None and len(node.args) > at and node.args[at] is not False


@cache
def _position(function: Callable[..., Any], parameter: str) -> int | None:
    if not inspect.isfunction(function):
        return None
    names = list(inspect.signature(function).parameters)
    return names.index(parameter) if parameter in names else None


def _renormalised(node: Node) -> tuple[Node, ...]:
    """The weight that an embedding with ``max_norm`` scales in place; nothing without one."""
    at = _position(node.target, "max_norm") if callable(node.target) else None
    given = node.args[at] if at is not None and len(node.args) > at else node.kwargs.get("max_norm")
    weight = node.args[1] if len(node.args) > 1 else node.kwargs.get("weight")
    return tuple(nodes_in(weight)) if given is not None else ()


def unlisted_effect(node: Node) -> Effect:
    """A function or method that belongs to no family."""
    target, inputs = node.target, tuple(node.all_input_nodes)
    home, name = _home(target), _name(target)
    unknown = f"calls {_called(target)}, which is not known to be pure"
    if home == "math" or (home == "_operator" and name not in CALLS):
        return Effect("pure", aliases=inputs if name in MAY_RETURN_ARGUMENT else ())
    if home == "builtins":
        return Effect("pure", aliases=inputs) if name in PLAIN_BUILTINS else opaque(node, unknown)
    if isinstance(target, str) and (name in QUERIES or name.startswith("is_")):
        return PURE
    if isinstance(target, OpOverloadPacket):
        found = overloads_of(target)
    elif isinstance(target, str) or _is_torch_own(target, name):
        found = called_by(name.removeprefix("__").removesuffix("__"))
    else:
        found = []
    memories = [memory_of(op) for op in found]
    if not found or any(one.writes or one.is_call or one.statistics for one in memories):
        return opaque(node, unknown)
    aliases = inputs if any(one.aliases for one in memories) else ()
    if name in DRAWS or any(one.random for one in memories):
        return random(node, aliases)
    return Effect("pure", (), aliases, copies=name in MAY_COPY)


def _is_torch_own(target: Any, name: str) -> bool:
    """Whether a function is what torch offers under its name; another of that name may do anything."""
    homes = (torch, torch.nn.functional, torch.Tensor, torch.special, torch.linalg, torch.fft)
    return any(getattr(home, name, None) is target for home in homes)


def _called(target: Any) -> str:
    if isinstance(target, str):
        return f"the method `{target}`"
    return f"`{_home(target) or 'torch'}.{_name(target) or target}`"
