"""Fake tensors made without the way through the mode are what the mode gives."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch._ops import OpOverload, OpOverloadPacket
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from fxrules.engine.factkeys import FactKeys
from fxrules.engine.recipes import quick

aten = torch.ops.aten


# ------------------------------------------------------------------------------ views
VIEWS: list[tuple[Any, Tensor, tuple[Any, ...]]] = [
    (aten.transpose.int, torch.ones(2, 3, 4), (1, -1)),
    (aten.permute.default, torch.ones(2, 3, 4)[:, 1:], ([2, 0, 1],)),
    (aten.view.default, torch.ones(2, 3, 4), ([6, -1],)),
    (aten.view.dtype, torch.ones(2, 3, 4), (torch.int32,)),
    (aten.reshape.default, torch.ones(2, 3, 4).mT, ([6, 4],)),
    (aten.reshape.default, torch.ones(2, 3, 4), ([3, 8],)),
    (aten.reshape.default, torch.ones(0, 3), ([3, 0],)),
    (aten.expand.default, torch.ones(2, 1, 4), ([5, 2, 3, -1],)),
    (aten.unsqueeze.default, torch.ones(3), (0,)),
    (aten.squeeze.dim, torch.ones(2, 1, 4), (1,)),
    (aten.t.default, torch.ones(2, 3, dtype=torch.bool), ()),
]


@pytest.mark.parametrize(("op", "tensor", "args"), VIEWS, ids=[f"{case[0]}{case[2]}" for case in VIEWS])
def test_a_quick_view_is_what_the_mode_gives(op: Any, tensor: Tensor, args: tuple[Any, ...]) -> None:
    mode = FakeTensorMode()
    fake = mode.from_tensor(tensor)
    with mode, torch.no_grad():
        expected = op(fake, *args)
    found = quick(op, (fake, *args), {}, mode)
    if op is aten.view.dtype:
        assert found is None, "a dtype is no number: left to the mode"
        return
    assert isinstance(found, FakeTensor) and found.fake_mode is mode
    assert FactKeys().equal(found, expected), f"{found} {found.stride()}, {expected} {expected.stride()}"
    shares = [one.untyped_storage()._cdata == fake.untyped_storage()._cdata for one in (found, expected)]
    assert shares[0] is shares[1]


@pytest.mark.parametrize(
    ("op", "args"),
    [(aten.view.default, ([7],)), (aten.transpose.int, (0, 5)), (aten.sum.dim_IntList, ([0],)), (torch.t, ())],
)
def test_what_fails_or_is_no_view_is_left_to_the_mode(op: Any, args: tuple[Any, ...]) -> None:
    mode = FakeTensorMode()
    assert quick(op, (mode.from_tensor(torch.ones(2, 3)), *args), {}, mode) is None


# ------------------------------------------------------------- ops that work element by element
def _pointwise() -> list[Any]:
    """All overloads of ATen that work element by element on one tensor."""
    packets = [getattr(aten, name) for name in dir(aten)]
    found = []
    for packet, name in ((one, name) for one in packets if isinstance(one, OpOverloadPacket) for name in dir(one)):
        op = getattr(packet, name)
        if not isinstance(op, OpOverload):
            continue
        schema = op._schema
        tensors = [arg.name for arg in schema.arguments if "Tensor" in str(arg.type)]
        if torch.Tag.pointwise in op.tags and not schema.is_mutable and tensors == [schema.arguments[0].name]:
            found.append(op)
    return found


SHAPES = {
    "dense": torch.randn(2, 3, 4),
    "transposed": torch.randn(2, 3, 4).transpose(0, 2),
    "expanded": torch.randn(1, 3, 1).expand(2, 3, 4),
    "channels last": torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last),
    "sliced": torch.randn(4, 6)[1:, ::2],
    "int": torch.arange(6),
    "bf16": torch.randn(3).bfloat16(),
    "0-d": torch.tensor(2.0),
    "empty": torch.randn(0, 3),
    "bool": torch.ones(3, dtype=torch.bool),
    "complex": torch.randn(3, dtype=torch.complex64),
    "grad": torch.randn(2, 3, requires_grad=True),
}


@pytest.mark.parametrize("tensor", SHAPES.values(), ids=SHAPES.keys())
def test_a_quick_op_is_what_the_mode_gives(tensor: Tensor) -> None:
    quickly = 0
    for op in _pointwise():
        extra = [
            2 if "int" in str(one.type) else 2.0 for one in op._schema.arguments[1:] if not one.has_default_value()
        ]
        mode = FakeTensorMode()
        fake = mode.from_tensor(tensor)
        found = quick(op, (fake, *extra), {}, mode)
        if found is None:
            continue
        quickly += 1
        with mode, torch.no_grad():
            expected = op(fake, *extra)
        assert FactKeys().equal(found, expected), f"{op}: {found} {found.stride()}, {expected} {expected.stride()}"
        assert expected.untyped_storage()._cdata != fake.untyped_storage()._cdata
    assert quickly > (20 if tensor.dtype is torch.bool else 40)


def test_the_default_dtype_decides_what_integers_become() -> None:
    mode = FakeTensorMode()
    fake = mode.from_tensor(torch.arange(6))
    before = torch.get_default_dtype()
    try:
        for dtype in (torch.float32, torch.float64, torch.float32):
            torch.set_default_dtype(dtype)
            found = quick(aten.sigmoid.default, (fake,), {}, mode)
            assert found is not None and found.dtype is dtype
    finally:
        torch.set_default_dtype(before)
