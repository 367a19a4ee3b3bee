"""Walks over arguments and over the graph that more than one part needs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch import nn
from torch.fx import Node
from torch.fx.node import map_arg


def nodes_in(value: Any) -> list[Node]:
    """The nodes inside an argument, through every kind of container, in order and as often as they stand there."""
    found: list[Node] = []
    map_arg(value, found.append)
    return found


def computed_from(nodes: Iterable[Node]) -> set[Node]:
    """These nodes and all that they are computed from."""
    found: set[Node] = set()
    pending = list(nodes)
    while pending:
        node = pending.pop()
        if node not in found:
            found.add(node)
            pending += node.all_input_nodes
    return found


def attribute_at(owner: nn.Module | None, path: str, missing: Any = None) -> Any:
    """What a module has at a dotted path; ``missing`` if nothing."""
    found: Any = owner
    for name in path.split("."):
        found = getattr(found, name, missing)
    return found
