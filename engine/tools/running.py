"""What ``fxrules run`` does: load, rewrite, compare, save."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from attrs import frozen
from torch.export import ExportedProgram
from torch.fx import GraphModule

from ...dsl.source import FxrulesError, Problem
from ..capture import capture, export_program
from ..comparison import Comparison
from ..libraries import load
from ..report import Report
from ..rewriting import rewrite
from .differences import code_difference
from .models import load_model


@frozen
class Options:
    """The options of ``fxrules run``."""

    rules: tuple[str, ...]
    trust: tuple[str, ...] = ()
    numerics: str = "rounding"
    freeze: bool = False
    capture: str = "export"
    output: Path | None = None
    pipeline: str | None = None


@frozen
class Outcome:
    """What a run found: the report, the verdict on the outputs (None: nothing to run), the diff of the code."""

    model: str
    report: Report
    comparison: Comparison | None
    difference: str
    saved: Path | None = None

    @property
    def ok(self) -> bool:
        """False where the outputs before and after disagree."""
        return self.comparison is None or self.comparison.ok

    def to_dict(self) -> dict[str, Any]:
        """The outcome as plain data, for JSON."""
        return {
            "model": self.model,
            "ok": self.ok,
            "report": self.report.to_dict(),
            "comparison": self.comparison.to_dict() if self.comparison else None,
            "difference": self.difference,
            "saved": str(self.saved) if self.saved else None,
        }


def run_rules(spec: str, imports: Iterable[str], options: Options) -> Outcome:
    """Rewrite the model behind ``spec`` (see `load_model`); nothing is saved where the outputs disagree."""
    rules = load(*options.rules, trust=options.trust)
    subject = load_model(spec, imports)
    graph = _graph(subject.model, subject.inputs, options.capture)
    result = rewrite(
        graph, rules, subject.inputs, numerics=options.numerics, freeze=options.freeze, pipeline=options.pipeline
    )
    comparison = None if subject.inputs is None else result.compare(subject.inputs)
    difference = code_difference(graph, result.model)
    outcome = Outcome(spec, result.report, comparison, difference)
    if options.output is None or not outcome.ok:
        return outcome
    _save(result.model, subject.inputs, options.output)
    return Outcome(spec, result.report, comparison, difference, options.output)


def _graph(model: torch.nn.Module | ExportedProgram, inputs: Any, how: str) -> GraphModule | ExportedProgram:
    """The model as a graph that can be compared with its rewritten form, and saved as it is where it was exported."""
    if isinstance(model, (GraphModule, ExportedProgram)):
        return model
    return export_program(model, inputs) if how == "export" else capture(model, inputs, how=how)


def _save(model: GraphModule | ExportedProgram, inputs: Any, path: Path) -> None:
    if isinstance(model, GraphModule):
        if inputs is None:
            message = "saving a traced model means exporting it, which needs example inputs"
            hint = "let the factory return (model, example_inputs)"
            raise FxrulesError(Problem(None, "needs-example-inputs", message, hint))
        model = export_program(model, inputs)
    try:
        torch.export.save(model, path)
    except OSError as error:
        raise FxrulesError(Problem(None, "cannot-write", f"{path}: {error.strerror}")) from error
