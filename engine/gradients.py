"""Whether a replacement lets gradients through where the original did."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.fx import Node

from .candidates import Mismatch
from .emission import Emitter
from .nodeview import Views

# Ops whose floating result does not depend on their floating arguments, as far as autograd knows.
_STOPS = frozenset(
    {"ones_like", "zeros_like", "full_like", "empty_like", "rand_like", "randn_like", "detach", "sign", "floor", "ceil"}
)


def gradient_problem(old: Node, new: Node, emitter: Emitter) -> Mismatch | None:
    """Why ``new`` may not take the place of ``old``: something that learns would no longer get a gradient.

    Only a replacement that depends on none of its floating inputs loses gradients, and it
    matters only where a parameter (or an input that requires a gradient) is above. A rule
    that says ``except gradient`` may do it.
    """
    if lets_through(old, new, emitter):
        return None
    source = _learning_source(old, emitter.views)
    if source is None:
        return None
    return Mismatch(
        "interface",
        f"`{source.name}` would get no gradient through the new value; the rule needs `except gradient`",
        old,
    )


def lets_through(old: Node, new: Node, emitter: Emitter) -> bool:
    """Whether the new value lets gradients through, or need not."""
    views = emitter.views
    if "gradient" in emitter.match.rule.numerics.waivers or not _is_floating(old, views):
        return True
    return _depends(new, set(emitter.made), views)


def _depends(new: Node, made: set[Node], views: Views) -> bool:
    """Whether a gradient goes from the new value to any floating value that was there before."""
    pending, seen = [new], {new}
    while pending:
        node = pending.pop()
        if node not in made:
            if _is_floating(node, views):
                return True
            continue
        view = views.own(node)
        if view is not None and view.family.name in _STOPS:
            continue
        pending.extend(source for source in node.all_input_nodes if source not in seen)
        seen.update(node.all_input_nodes)
    return False


def _is_floating(node: Node, views: Views) -> bool:
    fact = views.fact(node)
    return isinstance(fact, Tensor) and (fact.is_floating_point() or fact.is_complex())


def _learning_source(node: Node, views: Views) -> Node | None:
    """A parameter, or an input that requires a gradient, above a node."""
    pending, seen = [node], {node}
    while pending:
        one = pending.pop()
        fact = views.fact(one) if one.op in ("placeholder", "get_attr") else None
        if isinstance(fact, torch.Tensor) and fact.requires_grad:
            return one
        if one.op == "call_module":
            module = views.module(str(one.target))
            if module is not None and any(parameter.requires_grad for parameter in module.parameters()):
                return one
        pending.extend(source for source in one.all_input_nodes if source not in seen)
        seen.update(one.all_input_nodes)
    return None
