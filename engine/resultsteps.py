"""The steps that look for results behind the first: other nodes of the graph that a value in common leads to."""

from __future__ import annotations

from torch.fx import Node

from .steps import NODES, OTHERS, UNBOUND, VIEWS, Continuation, Env, Matcher


def elsewhere(match: Matcher, own: int | None, ties: tuple[int, ...], reach: float) -> Continuation:
    """One more result, at any other node that a value it has in common with the rest leads to.

    ``own`` is the slot of its name, if it has one; ``ties`` are slots of what it surely
    reads; ``reach``: how far below it that may be, in edges. In graph order.
    """

    def step(env: Env) -> bool:
        if not env[NODES]:
            return False  # the first result is a leaf here: there is nothing to replace
        others = env[OTHERS]
        for node in _nodes_tied(env, own, ties, reach):
            if node is not env[NODES][0] and node not in others:
                others.append(node)
                taken = match(node, env)
                others.pop()
                if taken:
                    return True
        return False

    return step


def _nodes_tied(env: Env, own: int | None, ties: tuple[int, ...], reach: float) -> list[Node]:
    if own is not None and env[own] is not UNBOUND:
        return [env[own]] if isinstance(env[own], Node) else []
    graph = env[VIEWS].graph
    values = [env[slot] for slot in ties if isinstance(env[slot], Node)]
    if not values:
        return list(graph.nodes)
    value = min(values, key=lambda node: len(node.users))
    # two nodes that read one attribute are one value
    layer = {value} if value.op != "get_attr" else set(graph.find_nodes(op="get_attr", target=value.target))
    found, distance = set(layer), 0
    while layer and distance < reach:
        layer = {user for node in layer for user in node.users} - found
        found |= layer
        distance += 1
    return sorted(found)
