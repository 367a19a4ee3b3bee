"""A program with all kinds of facts, and names for its values: what tests of the rewrite-time language look at."""

from __future__ import annotations

import torch
from torch.fx import Node

from fxrules.dsl.parser import parse_expr
from fxrules.engine.evaluation import evaluate
from fxrules.engine.families import load_table
from fxrules.engine.nodeview import Views
from fxrules.engine.ruleset import Scope

SCOPE = Scope(load_table(), constants={"HALF": 0.5})


class Layer(torch.nn.Module):
    running: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.tensor([[1.0, -2.0, 4.0], [8.0, 16.0, 32.0]]))
        self.register_buffer("running", torch.zeros(2))

    def forward(self, x: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        self.running.add_(1)
        return torch.relu(x @ self.weight.T + self.running) + ids.unsqueeze(-1)


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = Layer()

    def forward(self, x: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        hidden: torch.Tensor = self.layer(x, ids)
        return hidden * x.shape[0]


def program() -> Views:
    """A program with a dynamic batch size: `x` is [batch, 5, 3], `ids` is [batch, 5] of int64."""
    batch = torch.export.Dim("batch", min=2, max=64)
    program = torch.export.export(
        Model().eval(),
        (torch.randn(4, 5, 3), torch.zeros(4, 5, dtype=torch.int64)),
        dynamic_shapes=({0: batch}, {0: batch}),
    )
    return Views(program.module().graph, program.module())


def node(views: Views, name: str) -> Node:
    """The node of this name, or the read of this attribute."""
    found: Node = next(node for node in views.graph.nodes if name in (node.name, str(node.target)))
    return found


def environment(views: Views) -> dict[str, object]:
    size = node(views, "x").meta["val"].shape[0]
    unknown = torch.fx.Graph().placeholder("unknown")
    return {
        "x": node(views, "x"),
        "ids": node(views, "ids"),
        "w": node(views, "layer.weight"),
        "running": node(views, "layer.running"),
        "h": node(views, "relu"),
        "unknown": unknown,
        "absent": None,
        "xs": (node(views, "x"), node(views, "relu")),
        "N": size,
        "L": 5,
        "B": (size, 5),
        "K": (3, 3),
        "empty": (),
        "n": 8,
        "a": 0.5,
        "flag": True,
        "mode": "tanh",
        "d": torch.float16,
    }


def value(text: str, views: Views, *, freeze: bool = False, scope: Scope = SCOPE) -> object:
    return evaluate(parse_expr(text), environment(views), views, scope, out=node(views, "relu"), freeze=freeze)
