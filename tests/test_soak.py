"""Random programs and random rules: rewritten programs lint clean and give the same bits; and the test sees faults."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from soak import try_one

from fxrules.dsl.source import FxrulesError
from fxrules.engine import firing, surgery
from fxrules.engine.candidates import Match


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def test_rewritten_programs_compute_the_same() -> None:
    seen = Counter[str]()

    @settings(
        max_examples=120,
        derandomize=True,
        database=None,
        deadline=None,
        phases=(Phase.generate,),  # a smaller seed is no smaller program
        suppress_health_check=list(HealthCheck),
    )
    @given(st.integers(0, 10**9))
    def holds(seed: int) -> None:
        seen.update(try_one(seed))

    holds()
    assert seen["firings"] > 200 and seen["firings with several results"] > 15, seen
    assert seen["refused: effect"] > 5 and seen["refused: interface"] > 2 and seen["aten"] > 10, seen


def _anything_is_legal(match: Match, *_: Any) -> None:
    return None


def _behind_the_root(match: Match, *_: Any) -> Any:
    return match.root.next


FAULTS: list[tuple[Any, str, Callable[..., Any], range]] = [
    (firing, "legal", _anything_is_legal, range(80, 95)),
    (surgery, "_effect_problem", _anything_is_legal, range(30, 70)),
    (surgery, "make_room", _behind_the_root, range(65, 80)),
]


@pytest.mark.parametrize(("module", "name", "fault", "seeds"), FAULTS, ids=[name for _, name, _, _ in FAULTS])
def test_a_fault_in_the_engine_shows(
    module: Any, name: str, fault: Callable[..., Any], seeds: range, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, name, fault)
    for seed in seeds:
        try:
            try_one(seed)
        except (AssertionError, FxrulesError):
            return
    pytest.fail(f"without `{name}` all programs still compute the same")
