"""Which rules to try at which node, and in which order."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import groupby
from math import inf
from typing import Any, TypeAlias

from attrs import field, frozen
from torch._ops import OpOverload
from torch.fx import Node

from .families import FamilyTable
from .matching import CompiledRule
from .nodeview import Views

_Rules: TypeAlias = tuple[CompiledRule, ...]


def priority_classes(rules: list[CompiledRule]) -> list[list[CompiledRule]]:
    """Rules by descending priority; load order within a class."""
    ordered = sorted(rules, key=lambda compiled: -compiled.rule.priority)
    return [list(group) for _, group in groupby(ordered, key=lambda compiled: compiled.rule.priority)]


@frozen(eq=False)
class Dispatch:
    """Which rules can match at a node: by the families of what it calls, and of what its inputs call.

    Both are read off targets alone, before any view is made: most nodes need no more.
    ``looks_far``: some rule looks at nodes any number of edges below its root. ``barren``
    are the identities of overloads that no rule can match. What was found out at one
    graph holds at every other whose views use the same families.
    """

    rules: _Rules
    by_family: dict[str, tuple[int, ...]]
    anywhere: tuple[int, ...]
    looks_far: bool
    barren: set[int] = field(factory=set)
    _kept: list[object] = field(factory=list)
    _rooted: dict[object, tuple[_Rules, bool]] = field(factory=dict)
    _fitting: dict[tuple[object, ...], _Rules] = field(factory=dict)

    @classmethod
    def of(cls, rules: Sequence[CompiledRule], table: FamilyTable) -> Dispatch:
        """The dispatch of rules at graphs whose views use this table; one for all of them."""
        return _dispatch(tuple(rules), table)

    @classmethod
    def _of(cls, rules: _Rules) -> Dispatch:
        by_family: dict[str, list[int]] = {}
        for index, compiled in enumerate(rules):
            for family in compiled.families:
                by_family.setdefault(family, []).append(index)
        anywhere = tuple(index for index, compiled in enumerate(rules) if compiled.any_root)
        looks_far = any(compiled.height == inf for compiled in rules)
        return cls(rules, {name: tuple(found) for name, found in by_family.items()}, anywhere, looks_far)

    def at(self, node: Node, views: Views) -> _Rules:
        """The rules to try at a node, in load order."""
        called = _called(node, views)
        known = self._rooted.get(called)
        if known is None:
            self._keep(node)
            known = self._rooted[called] = self._with_root(views.family_names(node))
        rooted, choosy = known
        if not rooted and type(called) is int:
            self.barren.add(called)
        if not choosy:
            return rooted
        inputs: Any = node._input_nodes
        key = (called, *[_called(one, views) for one in inputs])
        fitting = self._fitting.get(key)
        if fitting is None:
            self._keep(*inputs)
            names = frozenset().union(*map(views.family_names, inputs))
            fitting = self._fitting[key] = _with_operands(rooted, names)
        return fitting

    def _keep(self, *nodes: Node) -> None:
        """Keep overloads, whose identities are keys; no other target: it may hold a model."""
        self._kept.extend([node.target for node in nodes if isinstance(node.target, OpOverload)])

    def _with_root(self, names: frozenset[str]) -> tuple[_Rules, bool]:
        """The rules whose root may be one of these families; and whether any of them asks for operands."""
        found = set(self.anywhere).union(*(self.by_family.get(name, ()) for name in names))
        rules = tuple(self.rules[index] for index in sorted(found))
        return rules, any(compiled.operands for compiled in rules)


@lru_cache(maxsize=64)
def _dispatch(rules: _Rules, table: FamilyTable) -> Dispatch:
    return Dispatch._of(rules)


def _called(node: Node, views: Views) -> object:
    """What a node calls, as something quick to hash that tells its families."""
    if isinstance(node.target, OpOverload):
        return id(node.target)  # its own as long as the dispatch keeps the target
    return None if node.op == "placeholder" or node.op == "get_attr" else views.family_names(node)


def _with_operands(rules: _Rules, names: frozenset[str]) -> _Rules:
    return tuple(rule for rule in rules if not any(map(names.isdisjoint, rule.operands)))
