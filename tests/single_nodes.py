"""Graphs for tests of single nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from op_samples import node_of
from torch import nn
from torch.fx import Graph, Node

from fxrules.engine.nodeview import Views


class Site:
    """A graph with two inputs of known shape and one without facts, for tests of single nodes."""

    def __init__(self, owner: nn.Module | None = None, shape: tuple[int, ...] = (2, 3, 4, 5)) -> None:
        self.graph, self.owner = Graph(), owner
        self.x, self.y, self.unknown = (self.graph.placeholder(name) for name in ("x", "y", "unknown"))
        for node in (self.x, self.y):
            node.meta["val"] = torch.randn(shape)
        self.views = Views(self.graph, owner)

    def call(self, target: Callable[..., Any] | str, /, *args: Any, **kwargs: Any) -> Node:
        return node_of(self.graph, (target, args, kwargs))

    def seen(self, node: Node) -> tuple[str, tuple[Any, ...]] | None:
        view = self.views.own(node)
        return None if view is None else (view.family.name, view.args)
