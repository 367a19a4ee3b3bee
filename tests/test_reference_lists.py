"""Both matchers find the same in lists: random lists of starred patterns against random lists."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import torch
from small_rules import load, output
from test_matching import described
from torch.fx.proxy import GraphAppendingTracer, Proxy

from fxrules.engine import matching, reference
from fxrules.engine.nodeview import Views

_ELEMENTS: tuple[Callable[[Any, Any], Any], ...] = (
    lambda x, y: x,
    lambda x, y: torch.relu(x),
    lambda x, y: x * y,
    lambda x, y: torch.tanh(x * y),
    lambda x, y: x + 1,
    lambda x, y: x * 0.5,
    lambda x, y: torch.relu(torch.relu(x)),
    lambda x, y: torch.cat([x, y]),
    lambda x, y: torch.softmax(x, dim=1),
    lambda x, y: torch.softmax(x, dim=0),
    lambda x, y: torch.relu(x * y),
)
_PATTERNS = (
    "x",
    "*xs",
    "*_",
    "relu(_)",
    "*relu(xs)",
    "*relu(x)",
    "*(xs * s)",
    "*(x * ys)",
    "*(xs * ys)",
    "*(relu(xs) or xs)",
    "*(relu(xs) or tanh(zs))",
    "*act(xs)",
    "*act(x)",
    "*(xs as ns)",
    "*(relu(xs) as ns)",
    "*ns",
    "*(xs + n?)",
    "*(xs * ys?)",
    "*tanh(xs * s)",
    "*(xs through noop)",
    "*softmax(xs, **cfg)",
    "*cat([*xs])",
    "*cat([xs, *rests])",
    "*cat([*(xs or relu(xs))])",
    "*same(xs)",
    "*[x, *relu(xs)]",
    "*(line * xs)",
    "line",
    "*(line or xs)",
    "*softmax(xs, dim=D)",
    "*(xs + HALF)",
    "*relu(xs)?",
)


def draw_list(random: Random) -> tuple[str, Views]:
    """A rule with a list of starred patterns, and a graph with a list."""
    graph = torch.fx.Graph()
    values = [graph.placeholder(name) for name in "abc"]
    for value in values:
        value.meta["val"] = torch.empty(1, 4, 4, device="meta")
    made, usual = [], random.choice(_ELEMENTS)
    tracer = GraphAppendingTracer(graph)
    for _ in range(random.randint(1, 5)):
        kind = usual if random.random() < 0.7 else random.choice(_ELEMENTS)
        made.append(kind(*[Proxy(random.choice(values), tracer) for _ in "xy"]).node)
    made += random.choice(([], made[:1]))
    graph.output(graph.call_function(torch.cat, (made, 1)))
    items = ", ".join(random.choice(_PATTERNS) for _ in range(random.choice((1, 1, 2, 2, 3))))
    match = f"cat([{items}], dim=_)"
    return (
        f"""const HALF = 1 / 2  opset soft = relu, tanh
      pattern act(v) = relu(v) or tanh(v * w)  pattern noop(v) = relu(v)  pattern same(v) = v * v or v
      rule r(x: Tensor[D, ...], s, n, line_x) {{ match {{ line = tanh(line_x * s) return {match} }} }}""",
        Views(graph),
    )


def test_both_matchers_find_the_same_in_lists() -> None:
    hits = 0
    for seed in range(600):
        text, views = draw_list(Random(seed))
        rule, root = load(text)[-1], output(views)
        found = [
            [described(one) for one in each(rule, root, views)] for each in (reference.candidates, matching.candidates)
        ]
        assert found[0] == found[1], f"seed {seed}: {text}"
        hits += bool(found[0])
    assert hits > 100
