"""``make bench``: what fxrules costs beside its peers, on one exported GPT-2.

Absolute times drift with the machine: read the ratios.
"""

from __future__ import annotations

import argparse
import gc
from functools import partial
from statistics import median

import torch
from models import build, draw_inputs
from rich.console import Console
from rich.table import Table
from torch.fx import GraphModule

import fxrules
from fxrules.engine.copying import copy_module

from .peers import time_inductor, time_replace_pattern
from .sampling import Sample, sample


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks", description=__doc__)
    parser.add_argument("--runs", type=int, default=7, help="samples for each median")
    runs: int = parser.parse_args().runs
    console = Console(width=110)
    model, inputs = build("gpt2"), draw_inputs("gpt2")
    module = torch.export.export(model, (), inputs, strict=False).module()
    assert isinstance(module, GraphModule)
    rules = fxrules.load("std")
    parts = _parts(module, rules, runs)
    console.print(_costs(module, rules, parts))
    console.print(_beside(module, rules, parts, runs))


_WHOLE = "one recompile of the graph before"


def _parts(module: GraphModule, rules: fxrules.RuleSet, runs: int) -> dict[str, Sample]:
    """The report's own clock, part by part, and one recompile in turn with each run: the machine's pace changes."""
    found: list[dict[str, float]] = []

    def once(target: GraphModule) -> None:
        whole = sample(GraphModule.recompile, lambda: copy_module(module), 1)
        gc.collect()
        found.append({**fxrules.rewrite(target, rules).report.seconds, _WHOLE: whole.median})

    sample(once, lambda: module, runs)
    return {name: Sample(tuple(one[name] for one in found[1:])) for name in found[0]}


def _costs(module: GraphModule, rules: fxrules.RuleSet, parts: dict[str, Sample]) -> Table:
    report = fxrules.rewrite(module, rules).report
    total = sum(report.fired.values())
    table = Table(title=f"std on exported GPT-2: {report.nodes_before} -> {report.nodes_after} nodes, "
                        f"{len(rules)} rules, {total} matches, {report.rounds} rounds")  # fmt: skip
    table.add_column("part")
    table.add_column("ms, median (min to max)", justify="right")
    table.add_column("of one recompile, median", justify="right")
    whole = parts[_WHOLE]
    for name, taken in parts.items():
        ratio = median(one / other for one, other in zip(taken.seconds, whole.seconds, strict=True))
        table.add_row("match + splice" if name == "match" else name, taken.ms, f"{ratio:.2f} ×")
    return table


def _beside(module: GraphModule, rules: fxrules.RuleSet, parts: dict[str, Sample], runs: int) -> Table:
    total = sum(fxrules.rewrite(module, rules).report.fired.values())
    gelu = rules["gelu_tanh"]
    ours: list[fxrules.Report] = []
    alone = sample(lambda target: ours.append(fxrules.rewrite(target, gelu).report), lambda: module, runs)
    bare = Sample(tuple(report.seconds["match"] for report in ours[1:]))
    matches, whole, stubbed = time_replace_pattern(module, runs)
    patterns, found, inductor = time_inductor(module, runs)
    table = Table(title="beside the peers, on the same graph")
    for column in ("what", "rules", "matches", "ms, median (min to max)", "of ours"):
        table.add_column(column, justify="left" if column == "what" else "right")
    base = parts["match"]
    row = partial(_row, table)
    row("fxrules, all of std: match + splice", len(rules), total, base, base)
    row("fxrules, gelu_tanh: match + splice", 1, ours[0].fired.get(gelu.name, 0), bare, bare)
    row("fx.replace_pattern, tanh GELU, recompile stubbed", 1, matches, stubbed, bare)
    row("fxrules, gelu_tanh: everything, copy and recompile too", 1, ours[0].fired.get(gelu.name, 0), alone, alone)
    row("fx.replace_pattern, tanh GELU, everything but a copy", 1, matches, whole, alone)
    row("Inductor, joint-graph patterns (beside all of std)", patterns, found, inductor, base)
    return table


def _row(table: Table, what: str, rules: int, matches: int, taken: Sample, base: Sample) -> None:
    table.add_row(what, str(rules), str(matches), taken.ms, f"{taken.median / base.median:.1f} ×")


if __name__ == "__main__":
    main()
