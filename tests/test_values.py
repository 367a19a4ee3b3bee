"""When two values are the same, and when a number equals a literal."""

from __future__ import annotations

import pytest
import torch
from single_nodes import Site

from fxrules.dsl import ast
from fxrules.engine.nodeview import same_number, same_value

aten = torch.ops.aten


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        (1, 1.0, True),
        (True, 1, False),
        (float("nan"), float("nan"), True),
        ((1, (2.0,)), (1.0, (2,)), True),
        ((1, 2), (1,), False),
        (slice(None, 2), slice(None, 2), True),
        (slice(None, 2), slice(0, 2), False),
        (torch.float32, torch.float32, True),
        (torch.float32, "float32", False),
        (None, 0, False),
        ("a", "a", True),
        (torch.device("cpu"), torch.device("cpu"), True),
    ],
)
def test_equal_values(a: object, b: object, same: bool) -> None:
    assert same_value(a, b) is same
    assert same_value(b, a) is same


def test_nodes_are_one_value_if_they_are_one_node_or_read_one_attribute() -> None:
    site = Site()
    first, second, third = (site.graph.get_attr(name) for name in ("w", "w", "v"))
    assert same_value(first, second)
    assert not same_value(first, third)
    assert same_value(site.x, site.x)
    assert not same_value(site.x, site.y)
    assert not same_value(site.x, 1)


@pytest.mark.parametrize(
    ("literal", "value", "dtype", "same"),
    [
        (0.7978845608028654, 0.7978845834732056, torch.float32, True),
        (0.7978845608028654, 0.7978845834732056, torch.bfloat16, True),
        (0.7978845608028654, 0.7978845834732056, torch.float64, False),
        (0.7978845608028654, 0.7978845834732056, None, False),
        (0.797, 0.79788, torch.bfloat16, False),
        (1, 1.0, None, True),
        (1, True, None, False),
        (16777217, 16777216, torch.float32, False),
        (float("inf"), float("inf"), None, True),
        (ast.Number(0.8, 1e-3), 0.8005, None, True),
        (ast.Number(0.8, 1e-3), 0.802, torch.float32, False),
        (ast.Number(0.5), 0.5, torch.float16, True),
    ],
)
def test_literals_are_compared_in_the_dtype_of_the_op(
    literal: ast.Number | float, value: float, dtype: torch.dtype | None, same: bool
) -> None:
    assert same_number(literal, value, dtype) is same
