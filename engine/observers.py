"""Observers: nodes that check or read facts of a value without being part of the computation."""

from __future__ import annotations

import torch
from torch.fx import Node

_CHECKS = frozenset(
    {
        "aten::_assert_tensor_metadata",
        "aten::_assert_scalar",
        "aten::_assert_async",
        "aten::_assert_async.msg",
        "aten::sym_constrain_range",
        "aten::sym_constrain_range_for_size",
    }
)
_READS = frozenset(
    {
        "aten::sym_size.int",
        "aten::sym_size",
        "aten::sym_stride.int",
        "aten::sym_stride",
        "aten::sym_numel",
        "aten::sym_storage_offset",
        "aten::size.int",
        "aten::size",
        "aten::dim",
        "aten::numel",
    }
)
_READ_METHODS = frozenset({"size", "dim", "numel", "stride", "storage_offset", "nelement", "ndimension"})
_READ_ATTRIBUTES = frozenset({"shape", "dtype", "device", "ndim", "layout"})
_CHECK_FUNCTIONS = (torch._assert, torch._check, torch._check_is_size, torch.sym_constrain_range)


def is_observer(node: Node) -> bool:
    """Whether a node only checks a value, or reads its sizes for nothing but checks.

    A size that feeds a computation makes its reader an ordinary user: it may not vanish.
    """
    if _is_check(node):
        return True
    return _is_read(node) and all(is_observer(user) for user in node.users)


def _is_check(node: Node) -> bool:
    if node.op == "call_module":
        return str(node.target).rpartition(".")[2] == "_guards_fn"
    if node.op != "call_function":
        return False
    if isinstance(node.target, torch._ops.OpOverload):
        return node.target._name in _CHECKS
    return node.target in _CHECK_FUNCTIONS


def _is_read(node: Node) -> bool:
    if node.op == "call_method":
        return node.target in _READ_METHODS
    if node.op != "call_function":
        return False
    if node.target is getattr:
        return len(node.args) > 1 and node.args[1] in _READ_ATTRIBUTES
    if isinstance(node.target, torch._ops.OpOverload):
        return node.target._name in _READS
    # arithmetic on sizes: only where it is known to be about numbers
    return getattr(node.target, "__module__", "") in ("_operator", "math", "torch") and isinstance(
        node.meta.get("val", node.meta.get("example_value")),
        int | float | bool | torch.SymInt | torch.SymFloat | torch.SymBool,
    )
