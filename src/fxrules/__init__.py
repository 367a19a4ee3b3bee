"""fxrules: declarative, verified pattern rewrites for torch.fx graphs.

The public door: `load` rules, `rewrite` a model, `find` matches, `compare` two models.
Names are imported when first used, so that ``import fxrules`` costs little and
checking and formatting rule files needs no torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .dsl.source import FxrulesError, Problem
    from .engine.comparison import Comparison, compare
    from .engine.inferring import infer, replace_pattern
    from .engine.libraries import load
    from .engine.report import Report
    from .engine.rewriting import Found, Result, find, rewrite
    from .engine.ruleset import Rule, RuleSet
    from .engine.truth import Declined

__version__ = "0.1.0"
__all__ = [
    "Comparison", "Declined", "Found", "FxrulesError", "Problem", "Report", "Result", "Rule", "RuleSet",
    "compare", "find", "infer", "load", "replace_pattern", "rewrite",
]  # fmt: skip

_HOMES = {
    "Comparison": "engine.comparison", "compare": "engine.comparison",
    "Found": "engine.rewriting", "Result": "engine.rewriting",
    "find": "engine.rewriting", "rewrite": "engine.rewriting",
    "infer": "engine.inferring", "replace_pattern": "engine.inferring",
    "load": "engine.libraries", "Report": "engine.report", "Rule": "engine.ruleset", "RuleSet": "engine.ruleset",
    "Declined": "engine.truth", "FxrulesError": "dsl.source", "Problem": "dsl.source",
}  # fmt: skip


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module `fxrules` has no attribute `{name}`")
    return getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted(__all__)
