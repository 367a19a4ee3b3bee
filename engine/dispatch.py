"""Which rules to try at which node, and in which order."""

from __future__ import annotations

from itertools import groupby

from attrs import field, frozen
from torch.fx import Node

from .matching import CompiledRule
from .nodeview import Views


def priority_classes(rules: list[CompiledRule]) -> list[list[CompiledRule]]:
    """Rules by descending priority; load order within a class."""
    ordered = sorted(rules, key=lambda compiled: -compiled.rule.priority)
    return [list(group) for _, group in groupby(ordered, key=lambda compiled: compiled.rule.priority)]


@frozen(eq=False)
class Dispatch:
    """Which rules can match at a node: by family of its views, plus those that may match anywhere."""

    by_family: dict[str, tuple[int, ...]]
    anywhere: tuple[int, ...]
    rules: tuple[CompiledRule, ...]
    _known: dict[tuple[str, ...], tuple[CompiledRule, ...]] = field(factory=dict)

    @classmethod
    def of(cls, rules: list[CompiledRule]) -> Dispatch:
        by_family: dict[str, list[int]] = {}
        for index, compiled in enumerate(rules):
            for family in compiled.families:
                by_family.setdefault(family, []).append(index)
        anywhere = tuple(index for index, compiled in enumerate(rules) if compiled.any_root)
        return cls({name: tuple(found) for name, found in by_family.items()}, anywhere, tuple(rules))

    def at(self, node: Node, views: Views) -> tuple[CompiledRule, ...]:
        """The rules to try at a node, in load order."""
        if not self.anywhere and self.by_family.keys().isdisjoint(views.family_names(node)):
            return ()
        families = tuple([view.family.name for view in views.views(node)])
        if families not in self._known:
            found = set(self.anywhere).union(*(self.by_family.get(name, ()) for name in families))
            self._known[families] = tuple(self.rules[index] for index in sorted(found))
        return self._known[families]
