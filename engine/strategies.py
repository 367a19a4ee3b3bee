"""The passes of ``once`` and ``sweep`` steps: each node is visited once, in one direction."""

from __future__ import annotations

from torch.fx import Node

from .dispatch import Dispatch
from .firing import Run, fire
from .fixpoint import check, endless, run_rounds
from .matching import CompiledRule

_Classes = list[list[CompiledRule]]


def run_step(strategy: str, state: Run, classes: _Classes, limit: int | None) -> int:
    """Run rules, by priority class, as a step of a pipeline does; how many rounds it took.

    Raises FxrulesError as `fixpoint.run` does.
    """
    state.changed.clear()
    state.depths.clear()
    state.again.clear()
    if strategy == "fixpoint":
        return run_rounds(state, classes, limit)
    done, start = len(state.history), list(state.work.graph.nodes)
    for group in classes:
        dispatch = Dispatch.of(group, state.work.views.table)
        if strategy == "once":
            _visit(start, state, dispatch)
        else:
            _follow(state, dispatch, done)
    check(state, state.history[done:])
    return 1


def _visit(start: list[Node], state: Run, dispatch: Dispatch) -> None:
    """Users before producers, only the nodes of the step's start; a root that stays is tried by the other rules, too.

    What is made stands behind the node that is visited, and so behind all that are visited
    later: no rule ever sees its own work.
    """
    for node in reversed(start):
        if node._erased or id(node.target) in dispatch.barren:
            continue
        for compiled in dispatch.at(node, state.work.views):
            if state.exhausted or node._erased:
                break
            fire(state, compiled, node)


def _follow(state: Run, dispatch: Dispatch, done: int) -> None:
    """Producers before users, new nodes too: they stand behind the root that they replace."""
    nodes, limits = state.work.graph.nodes, state.limits
    most = limits.growth * len(nodes) + 1000
    generations: dict[Node, int] = {}  # new nodes made in place of new nodes: without a bound this need not end
    node = next(iter(nodes))
    while node.op != "root" and not state.exhausted:
        for compiled in () if id(node.target) in dispatch.barren else dispatch.at(node, state.work.views):
            if state.exhausted or node._erased:
                break
            if fire(state, compiled, node):
                generation = generations.get(node, 0) + 1
                generations.update(dict.fromkeys(state.latest, generation))
                if generation > limits.depth or len(nodes) > most:
                    why = f"a `sweep` also visits what it makes, and {generation} firings were built on one another"
                    endless(state, done, why)
        node = _next_live(node)


def _next_live(node: Node) -> Node:
    """The node behind this one, which may be gone: what stands where it stood."""
    while node._erased:
        node = node._prev
    return node.next
