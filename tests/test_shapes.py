"""How the sizes of declared shapes unify, known and symbolic ones."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from small_rules import bindings, exported, load, mismatch

from fxrules.engine.candidates import Mismatch
from fxrules.engine.shapes import Declared, solve

SHAPES: dict[str, tuple[list[tuple[str, tuple[int, ...]]], Any]] = {
    "one name, two tensors": ([("[M, K]", (2, 3)), ("[K, N]", (3, 4))], {"M": 2, "K": 3, "N": 4}),
    "they differ": ([("[M, K]", (2, 3)), ("[K, N]", (5, 4))], "`K` is 3, but `x1` has 5 there"),
    "star first": ([("[*B, L, E]", (2, 7, 3, 4))], {"B": (2, 7), "L": 3, "E": 4}),
    "star in the middle": ([("[N, *S, C]", (2, 7, 8, 4))], {"N": 2, "S": (7, 8), "C": 4}),
    "empty star": ([("[*B, L]", (2,))], {"B": (), "L": 2}),
    "stars agree": ([("[*B, L]", (2, 3)), ("[*B, L]", (2, 3))], {"B": (2,), "L": 3}),
    "stars differ": ([("[*B, L]", (2, 3)), ("[*B, L]", (4, 3))], "`*B` is [2] and, in `x1`, [4]"),
    "stars of different length": ([("[*B]", (2, 3)), ("[*B]", (2,))], "`x1` must have 2 dims [*B], it has 1"),
    "two stars, one known": ([("[*B, *C]", (2, 3, 4)), ("[*B]", (2, 3))], {"B": (2, 3), "C": (4,)}),
    "two stars, none known": ([("[*B, *C]", (2, 3, 4))], "the dims [*B, *C] of `x0` cannot be solved"),
    "any dims": ([("[..., D]", (2, 3, 4))], {"D": 4}),
    "number": ([("[1, D]", (1, 4))], {"D": 4}),
    "wrong number": ([("[1, D]", (2, 4))], "a dim of 1 is declared, but `x0` has 2 there"),
    "too few dims": ([("[A, B]", (2,))], "`x0` must have 2 dims [A, B], it has 1"),
    "too many dims": ([("[A]", (2, 3))], "`x0` must have 1 dims [A], it has 2"),
    "too few for a star": ([("[*B, L, E]", (2,))], "`x0` must have at least 2 dims [*B, L, E], it has 1"),
    "multiple": ([("[3 * E]", (12,))], {"E": 4}),
    "no multiple": ([("[3 * E]", (13,))], "`3 * E` cannot be 13, as `x0` has it"),
    "linear": ([("[2 * E - 1]", (7,))], {"E": 4}),
    "negative": ([("[E + 4]", (2,))], "`E` would be negative"),
    "solved by a later one": ([("[A * B]", (12,)), ("[A]", (3,))], {"A": 3, "B": 4}),
    "checked by a later one": ([("[D // 2]", (3,)), ("[D]", (7,))], {"D": 7}),
    "not solvable": ([("[D // 2]", (3,))], "`D // 2` of `x0` cannot be solved"),
    "division by zero": ([("[4 // D]", (4,)), ("[D]", (0,))], "divides by zero"),
    "zero size": ([("[A, A]", (0, 0))], {"A": 0}),
}


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("backwards", [False, True])
def test_sizes(name: str, backwards: bool) -> None:
    """The outcome does not depend on the order of the parameters (which of two is blamed may)."""
    shapes, expected = SHAPES[name]
    declared = [_declared(f"x{i}", dims, sizes) for i, (dims, sizes) in enumerate(shapes)]
    found = solve(declared[::-1] if backwards else declared, {})
    if isinstance(expected, dict):
        assert found == expected
    else:
        assert isinstance(found, Mismatch) and found.kind == "shape"
        assert backwards or expected in found.reason


def _declared(name: str, dims: str, sizes: tuple[int, ...]) -> Declared:
    (rule,) = load(f"rule r(x: Tensor{dims}) {{ match relu(x) }}")
    declared = rule.params["x"].type
    assert declared is not None and declared.dims is not None
    return Declared(name, declared.dims, sizes)


def test_symbolic_sizes_unify_and_bind() -> None:
    views = exported(lambda a, b: a @ b, (4, 3, 5), (4, 5, 6), dynamic=True)
    found = bindings("rule r(x: float[B, M, K], y: float[B, K, N]) { match x @ y  where B >= 2 }", views)
    assert isinstance(found["B"], torch.SymInt) and (found["M"], found["K"], found["N"]) == (3, 5, 6)


def test_a_symbolic_size_is_not_a_number() -> None:
    views = exported(lambda a: torch.relu(a), (4, 3), dynamic=True)
    kind, reason = mismatch("rule r(x: float[4, D]) { match relu(x) }", views)
    assert kind == "missing fact" and "a dim of 4 is declared, but `x` has s" in reason
    kind, reason = mismatch("rule r(x: float[1, D]) { match relu(x) }", views)
    assert (kind, reason.partition(" has ")[0]) == ("shape", "a dim of 1 is declared, but `x`")
    kind, reason = mismatch("rule r(x: float[3 * E, D]) { match relu(x) }", views)
    assert kind == "missing fact" and "`3 * E` cannot be s" in reason


def test_a_symbolic_multiple_is_solved() -> None:
    views = exported(lambda a, b: torch.relu(torch.cat([a, b, a])), (4, 3), (4, 3), dynamic=True)
    found = bindings("rule r(x: float[3 * E, D]) { match relu(x) }", views)
    assert isinstance(found["E"], torch.SymInt) and found["D"] == 3


def test_numbers_and_constants_may_name_sizes() -> None:
    views = exported(lambda a: a.sum(1), (4, 1))
    assert bindings("rule r(x: float[N, d], d: int) { match sum(x, [d]) }", views)["N"] == 4
    assert bindings("const ONE = 1 rule r(x: float[N, ONE]) { match sum(x, _) }", views)["N"] == 4
    assert mismatch("const ONE = 2 rule r(x: float[N, ONE]) { match sum(x, _) }", views) == (
        "shape", "`ONE` is 2, but `x` has 1 there",
    )  # fmt: skip


def test_sizes_in_the_pattern_must_agree() -> None:
    text = "rule r(x: float[*B, D]) {{ match x[..., 0 : {}] }}"
    views = exported(lambda a: a[..., 0:4], (2, 8))
    assert bindings(text.format("D // 2"), views)["D"] == 8
    assert mismatch(text.format("D // 4"), views) == ("shape", "`D // 4` is 2, the graph has 4 there")
    kind, reason = mismatch(text.format("D // (D - 8)"), views)
    assert kind == "shape" and reason == "`D // (D - 8)`: 8 // 0: integer division or modulo by zero"
