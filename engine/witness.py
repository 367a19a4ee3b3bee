"""What a matcher looks at, written down."""

from __future__ import annotations

from typing import Any, TypeAlias

from attrs import define, field
from torch.fx import Node

from .nodeview import Value, View, Views
from .submodules import ModuleCall

_Arguments: TypeAlias = tuple[tuple[str, Value, Any], ...]


@define(eq=False)
class Witness:
    """Views as a matcher asks for them, and the nodes that it asks about.

    ``looked`` are the nodes that it looks at, ``facts`` those whose facts it asks for.
    """

    views: Views
    looked: dict[Node, None] = field(factory=dict, init=False)
    facts: dict[Node, None] = field(factory=dict, init=False)

    def views_as(self, node: Node, family: str) -> tuple[View, ...]:
        """As one of a family."""
        self.looked[node] = None
        return self.views.views_as(node, family)

    def item(self, node: Node) -> tuple[Value, Value] | None:
        """As an item of a tuple."""
        self.looked[node] = None
        return self.views.item(node)

    def exact_arguments(self, node: Node, target: str) -> _Arguments | None:
        """As a call of one target."""
        self.looked[node] = None
        return self.views.exact_arguments(node, target)

    def module_call(self, node: Node, wanted: str | None) -> ModuleCall | None:
        """As a call of a module."""
        self.looked[node] = None
        return self.views.module_call(node, wanted)

    def fact(self, value: Any) -> Any:
        """The facts of a value."""
        if isinstance(value, Node):
            self.facts[value] = None
        return self.views.fact(value)

    def users(self, node: Node) -> tuple[Node, ...]:
        """The readers of a node: a rule that asks for them looks beside its pattern, and is not traced."""
        return self.views.users(node)

    def is_default(self, view: View, index: int) -> bool:
        """Of a view, whose node was looked at."""
        return self.views.is_default(view, index)

    def normalise_literal(self, view: View, index: int, value: Any) -> Any:
        """Of a view, whose node was looked at."""
        return self.views.normalise_literal(view, index, value)
