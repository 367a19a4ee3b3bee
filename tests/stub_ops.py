"""A small op table, so that the tests of the language need no torch."""

from __future__ import annotations

from fxrules.dsl.scopes import ImportedNames
from fxrules.dsl.signatures import OpSignature, OpTable, signature

_UNARY = """relu neg exp tanh sigmoid silu sin cos erf rsqrt sqrt log abs sum max ones_like real imag mT T alias detach
bitwise_not"""
_COMMUTATIVE = {"add": "input, other, alpha=1", "mul": "input, other"}
_OTHERS = {
    "sub": "input, other, alpha=1",
    "div": "input, other, rounding_mode=None",
    "pow": "input, exponent",
    "gt": "input, other",
    "where": "condition, input, other",
    "matmul": "input, other",
    "bmm": "input, mat2",
    "cat": "tensors, dim=0",
    "stack": "tensors, dim=0",
    "split": "input, split_size, dim=0",
    "chunk": "input, chunks, dim=0",
    "linear": "input, weight, bias=None",
    "conv2d": "input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1",
    "batch_norm": ("input, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-05"),
    "layer_norm": "input, normalized_shape, weight=None, bias=None, eps=1e-05",
    "dropout": "input, p=0.5, training=True, inplace=False",
    "clone": "input, *, memory_format=None",
    "softmax": "input, dim, dtype=None",
    "gelu": "input, approximate='none'",
    "leaky_relu": "input, negative_slope=0.01, inplace=False",
    "scaled_dot_product_attention": "query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None",
    "reshape": "input, shape",
    "view": "input, *size",
    "expand": "input, *size",
    "permute": "input, dims",
    "transpose": "input, dim0, dim1",
    "squeeze": "input, dim",
    "unsqueeze": "input, dim",
    "to": "input, dtype=None, device=None",
    "polar": "abs, angle",
    "bitwise_left_shift": "input, other",
    "full": "size, fill_value, *, dtype=None",
}
_TARGETS = {
    "aten.add.Tensor": "self, other, *, alpha=1",
    "aten.div.Tensor": "self, other",
    "aten.copy_.default": "self, src, non_blocking=False",
    "aten.sub_.Tensor": "self, other, *, alpha=1",
    "torch.cat": "tensors, dim=0",
    "torch.relu": "input",
    "torch.nn.functional.rms_norm": "input, normalized_shape, weight=None, eps=None",
    "acme.geglu": "x, weight",
    "vllm.rms_norm": "x, weight, eps",
    "vllm.fused_add_rms_norm": "x, residual, weight, eps",
}


def _table() -> OpTable:
    families: dict[str, OpSignature] = {name: signature("input: Tensor") for name in _UNARY.split()}
    families |= {name: signature(text, commutative=True) for name, text in _COMMUTATIVE.items()}
    families |= {name: signature(text) for name, text in _OTHERS.items()}
    return OpTable(
        families,
        {name: signature(text) for name, text in _TARGETS.items()},
        frozenset({"torch", "aten", "F", "nn", "operator", "acme", "vllm"}),
        frozenset({"torch.nn.ReLU", "torch.nn.LayerNorm", "torch.nn.RMSNorm", "acme.nn.FrozenBatchNorm2d"}),
    )


OPS = _table()

IMPORTS = {
    "shape": ImportedNames(frozenset({"noop", "legacy_view"}), consts=frozenset({"EPS"})),
    "extra": ImportedNames(frozenset({"fold"})),
}
