"""Where new nodes come from: the matched nodes' meta, and what a new constant was computed from."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any

import attrs
from torch import Tensor
from torch.fx import Node
from torch.fx.proxy import _COPY_META_FIELDS

from ..dsl import ast
from ..dsl.source import Span
from .candidates import Match
from .kinds import ModuleAttr

RULES = "fxrules"
"""The entry of ``node.meta`` that names the rules which made a node, the first one first."""

_COPIED = (*_COPY_META_FIELDS, "stack_trace", "seq_nr", "autograd_backward")


def merged_meta(match: Match) -> Mapping[str, object]:
    """The meta of new nodes, facts left out.

    The root's own entries win; others fill in what it lacks. The module stack is the
    part that all nodes share, so that a node made of two modules belongs to their parent.
    """
    metas = [match.root.meta, *[node.meta for node in match.nodes if node is not match.root]]
    merged: dict[str, object] = {}
    for meta in reversed(metas):
        merged.update(meta)
    found = {field: merged[field] for field in _COPIED if merged.get(field) is not None}
    stacks = [meta["nn_module_stack"] for meta in metas if meta.get("nn_module_stack")]
    if stacks:
        found["nn_module_stack"] = _common(stacks)
    customs = [meta["custom"] for meta in (*metas[1:], metas[0]) if isinstance(meta.get("custom"), dict)]
    if customs:
        found["custom"] = {key: value for custom in customs for key, value in custom.items()}
    rules = dict.fromkeys([name for node in match.nodes for name in node.meta.get(RULES, ())])
    found[RULES] = (*rules, *(() if match.rule.name in rules else (match.rule.name,)))
    return found


def _common(stacks: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    first, rest = stacks[0], stacks[1:]
    if rest.count(first) == len(rest):
        return dict(first)
    columns = zip(*(stack.items() for stack in stacks), strict=False)
    return dict(column[0] for column in takewhile(lambda column: all(one == column[0] for one in column), columns))


def constant_key(match: Match, name: str) -> Hashable:
    """What a ``let`` is computed from: equal keys mean the same expression of the same sources."""
    return (match.rule.name, name, _source(match, name, ()))


def _source(match: Match, name: str, inside: tuple[str, ...]) -> Hashable:
    value = match.bindings.get(name)
    for condition in match.rule.conditions:
        if isinstance(condition, ast.Let) and name in condition.assign.targets and name not in inside:
            names = sorted(set(_names_in(condition.assign.value)))
            known = [one for one in names if one in match.bindings]
            return tuple((one, _source(match, one, (*inside, name))) for one in known)
    return _identity(value)


def _identity(value: object) -> Hashable:
    match value:
        case Node(op="get_attr", target=target):
            return ("attribute", str(target))
        case ModuleAttr(path):
            return ("attribute", path)
        case tuple():
            return tuple(map(_identity, value))
        case Node() | int() | float() | str() | None:
            return (type(value).__name__, value)
        case Tensor():
            return ("tensor", id(value))
    return (type(value).__name__, repr(value))


def _names_in(value: object) -> Iterator[str]:
    """Every name in an expression, those of functions included."""
    if isinstance(value, ast.Name):
        yield value.id
    elif isinstance(value, tuple):
        for item in value:
            yield from _names_in(item)
    kind: Any = type(value)
    if attrs.has(kind) and kind is not Span:
        for field in attrs.fields_dict(kind):
            yield from _names_in(getattr(value, field))
