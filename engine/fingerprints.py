"""The structure of a graph as one number, to see whether it was there before."""

from __future__ import annotations

from attrs import frozen
from torch.fx import Graph, Node
from torch.utils._pytree import tree_map_only


def fingerprint(graph: Graph) -> int:
    """A hash of the graph's structure, names left out: equal for equal programs."""
    number: dict[Node, int] = {node: index for index, node in enumerate(graph.nodes)}
    parts = []
    for node in graph.nodes:
        args = tree_map_only(Node, lambda one: _Ref(number[one]), (node.args, node.kwargs))
        target = node.target if node.op != "placeholder" else ""
        parts.append(f"{node.op} {target} {args!r}")
    return hash("\n".join(parts))


@frozen
class _Ref:
    """Stands for the node at a position."""

    index: int
