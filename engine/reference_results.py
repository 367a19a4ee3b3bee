"""Several results, for the reference matcher: each behind the first stands at any other node of the graph."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from torch.fx import Node

from ..dsl import ast
from .environment import Frame, Slot, State
from .nodeview import Value
from .surface import Pattern


def match_elsewhere(
    match: Callable[[Pattern, Value, State, Frame, Slot | None], Iterator[State]],
    patterns: Sequence[ast.Expr | ast.Star],
    results: tuple[Node, ...],
    state: State,
    frame: Frame,
) -> Iterator[tuple[tuple[Node, ...], State]]:
    """The results with those behind the first, each at any node that is not one of the results before it."""
    if not patterns:
        yield results, state
        return
    for node in frame.views.graph.nodes:
        if node not in results:
            for after in match(patterns[0], node, state, frame, None):
                yield from match_elsewhere(match, patterns[1:], (*results, node), after, frame)
