"""The garbage collector rests while a graph is rewritten, and only then."""

from __future__ import annotations

import gc
from typing import Any

import pytest
import torch
from torch.fx import symbolic_trace

import fxrules
from fxrules.engine import pipelines

RULES = "rule twice(x: float[...]) { match relu(relu(x)) rewrite relu(x) }"


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("was_on", [False, True])
def test_the_collector_is_as_it_was_behind_a_rewrite(
    was_on: bool, fails: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[bool] = []
    real = pipelines.run

    def run(*args: Any) -> Any:
        seen.append(gc.isenabled())
        if fails:
            raise KeyboardInterrupt
        return real(*args)

    monkeypatch.setattr("fxrules.engine.rewriting.run", run)
    module, rules = symbolic_trace(lambda x: torch.relu(torch.relu(x))), fxrules.load(text=RULES)
    (gc.enable if was_on else gc.disable)()
    try:
        if fails:
            with pytest.raises(KeyboardInterrupt):
                fxrules.rewrite(module, rules, (torch.ones(2),))
        else:
            assert fxrules.rewrite(module, rules, (torch.ones(2),)).report.fired
        assert seen == [False] and gc.isenabled() is was_on
    finally:
        gc.enable()
