"""Where a rule that found nothing could find something now: near what changed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from math import inf

from attrs import frozen
from torch.fx import Node

from .matching import CompiledRule


@frozen(eq=False)
class Nearness:
    """How far nodes are above the changes of the last round, in edges.

    ``content`` counts from nodes with other arguments or metadata, ``users`` from nodes
    with other users (all that were touched), ``beside`` from these and from their inputs,
    if any rule is wide.
    """

    content: dict[Node, int]
    users: dict[Node, int]
    beside: dict[Node, int]

    def has(self, node: Node) -> bool:
        """Whether a node is above any change."""
        return node in self.users or node in self.beside

    def reaches(self, compiled: CompiledRule, node: Node) -> bool:
        """Whether a rule that found nothing at ``node`` could find something now.

        A pattern reads arguments and metadata down to its leaves, and users of the nodes
        between root and leaves; `CompiledRule.wide` rules also those of leaves and of
        items beside the ones they match.
        """
        height = compiled.height
        if self.content.get(node, inf) <= height or self.users.get(node, inf) < height:
            return True
        return height == inf or (compiled.wide and self.beside.get(node, inf) <= height)


def nearness_of(touched: Mapping[Node, bool], rules: Collection[CompiledRule]) -> Nearness:
    """The nearness to nodes that were touched (True: with other content), as far as any of the rules looks."""
    reach = max((rule.height for rule in rules if rule.height != inf), default=0)
    changed = [node for node in touched if not node._erased]
    content = [node for node in changed if touched[node]]
    inputs = [one for node in changed for one in node.all_input_nodes] if any(rule.wide for rule in rules) else []
    users = _distances(changed, reach)
    return Nearness(_distances(content, reach), users, _distances([*changed, *inputs], reach) if inputs else users)


def _distances(sources: Iterable[Node], reach: float) -> dict[Node, int]:
    """The distance of nodes above ``sources``, following users, up to ``reach``."""
    found: dict[Node, int] = {}
    layer, distance = dict.fromkeys(sources), 0
    while layer and distance <= reach:
        found.update(dict.fromkeys(layer, distance))
        layer = dict.fromkeys(user for node in layer for user in node.users if user not in found)
        distance += 1
    return found
