"""The peers, timed on the same graph: `fx.replace_pattern` and Inductor's pattern matcher."""

from __future__ import annotations

import copy
from unittest import mock

import torch
from torch._inductor.fx_passes import joint_graph
from torch.fx import GraphModule, replace_pattern

from .sampling import Sample, sample


def gelu_pattern(x: torch.Tensor) -> torch.Tensor:
    """The tanh GELU in the one spelling that GPT-2's export has."""
    aten = torch.ops.aten
    half = aten.mul.Tensor(x, 0.5)
    inner = aten.add.Tensor(x, aten.mul.Tensor(aten.pow.Tensor_Scalar(x, 3.0), 0.044715))
    tanh = aten.tanh.default(aten.mul.Tensor(inner, 0.7978845608028654))
    result: torch.Tensor = aten.mul.Tensor(half, aten.add.Tensor(tanh, 1.0))
    return result


def gelu_replacement(x: torch.Tensor) -> torch.Tensor:
    result: torch.Tensor = torch.ops.aten.gelu.default(x, approximate="tanh")
    return result


def time_replace_pattern(module: GraphModule, runs: int) -> tuple[int, Sample, Sample]:
    """Matches of the one GELU pattern; time as it is, and with ``recompile`` stubbed."""
    found: list[int] = []

    def once(target: GraphModule) -> None:
        found.append(len(replace_pattern(target, gelu_pattern, gelu_replacement)))

    whole = sample(once, lambda: copy.deepcopy(module), runs)
    with mock.patch.object(GraphModule, "recompile"):
        bare = sample(once, lambda: copy.deepcopy(module), runs)
    return found[0], whole, bare


def time_inductor(module: GraphModule, runs: int) -> tuple[int, int, Sample]:
    """Inductor's joint-graph patterns: their number, matches, time of one ``apply``."""
    joint_graph.lazy_init(torch.device("cpu"))
    patterns = joint_graph.patterns
    found: list[int] = []

    def once(target: GraphModule) -> None:
        found.append(patterns.apply(target.graph))

    taken = sample(once, lambda: copy.deepcopy(module), runs)
    return sum(len(entries) for entries in patterns.patterns.values()), found[0], taken
