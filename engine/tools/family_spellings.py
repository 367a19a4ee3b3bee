"""Spellings that neither a schema nor a name gives, and ops that exist at level torch alone (data only)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

_CASTS = {
    "float": "float32", "double": "float64", "half": "float16", "bfloat16": "bfloat16", "int": "int32", "long": "int64",
    "short": "int16", "char": "int8", "byte": "uint8", "bool": "bool", "cfloat": "complex64", "cdouble": "complex128",
    "chalf": "complex32",
}  # fmt: skip

# Keyed by family, in the notation of the file.
SPELLINGS: Mapping[str, Sequence[Sequence[str]]] = {
    "to": [
        ["Tensor.to", "self", "dtype: dtype", "non_blocking", "copy", "*", "memory_format"],
        ["Tensor.to", "self", "device", "dtype", "non_blocking", "copy", "*", "memory_format"],
        ["Tensor.type", "self", "dtype: dtype", "non_blocking"],
        ["Tensor.cpu", "self", "*", "memory_format", ":= device \"cpu\""],
        ["Tensor.cuda", "self", "*", "memory_format", ":= device \"cuda\""],
        *([f"Tensor.{name}", "self", "*", "memory_format", f":= dtype \"torch.{of}\""] for name, of in _CASTS.items()),
    ],
    "to_other": [["Tensor.to", "self", "other: Tensor", "non_blocking", "copy", "*", "memory_format"]],
    "getitem": [["operator.getitem", "input", "index"]],
    "setitem": [["operator.setitem", "input", "index", "value"]],
    "size": [["Tensor.size", "self", "dim"], ["getattr.shape", "self"]],
    "stride": [["Tensor.stride", "self", "dim"]],
    "dim": [["Tensor.ndimension", "self"], ["getattr.ndim", "self"]],
    "numel": [["Tensor.nelement", "self"]],
    "matmul": [["operator.imatmul", "input", "other"]],  # tensors have no __imatmul__: it makes a new one
    "mT": [["getattr.mT", "self"]],
    "T": [["getattr.T", "self"]],
    "mH": [["getattr.mH", "self"]],
    "H": [["getattr.H", "self"]],
    "real": [["getattr.real", "self"]],
    "imag": [["getattr.imag", "self"]],
    "split": [["Tensor.split", "self", "split_size: int|int[] -> split_size_or_sections", "dim"]],
    "unflatten": [["Tensor.unflatten", "self", "dim", "sizes"]],
    "norm": [
        ["torch.norm", "input", "p", "dim", "keepdim", "out: any = null == null", "dtype"],
        ["Tensor.norm", "self", "p", "dim", "keepdim", "dtype"],
    ],
    "stft": [
        ["Tensor.stft", "self", "n_fft", "hop_length", "win_length", "window", "center", "pad_mode", "normalized",
         "onesided", "return_complex", "align_to_window"],
    ],
    "istft": [
        ["Tensor.istft", "self", "n_fft", "hop_length", "win_length", "window", "center", "normalized", "onesided",
         "length", "return_complex"],
    ],
    **{f"atleast_{n}d": [[f"torch.atleast_{n}d", "input"]] for n in (1, 2, 3)},
    "einsum": [["torch.einsum", "equation", "*operands: Tensor[] -> tensors"]],
    "mm": [["torch.spmm", "input", "mat2"], ["torch.dsmm", "input", "mat2"]],
    "im2col": [["torch.nn.functional.unfold", "input", "kernel_size", "dilation", "padding", "stride"]],
    "feature_dropout": [
        ["torch.nn.functional.dropout2d", "input", "p", "training", "inplace: any = false == false"],
    ],
    "bitwise_not": [["operator.inv", "input"]],
    "nonzero_numpy": [
        ["torch.nonzero", "input", "*", "as_tuple: any == true"],
        ["Tensor.nonzero", "self", "*", "as_tuple: any == true"],
    ],
    **{
        f"{name}_": [[f"operator.{op}", "input", f"{other}"]]
        for op, name, other in (
            ("iadd", "add", "other"), ("isub", "sub", "other"), ("imul", "mul", "other"), ("itruediv", "div", "other"),
            ("ifloordiv", "floor_divide", "other"), ("imod", "remainder", "other"), ("ipow", "pow", "exponent"),
            ("iand", "bitwise_and", "other"), ("ior", "bitwise_or", "other"), ("ixor", "bitwise_xor", "other"),
            ("ilshift", "bitwise_left_shift", "other"), ("irshift", "bitwise_right_shift", "other"),
        )
    },
}  # fmt: skip

# Names that a packet shares with a function that does something else.
NOT_SPELLINGS = frozenset(
    {
        "torch.unique_consecutive",
        "torch.nn.functional.unfold",
        *(f"torch.atleast_{n}d" for n in (1, 2, 3)),
        # these give a number for a dtype
        "aten.promote_types.default",
        *(f"aten.result_type.{name}" for name in ("Tensor", "Scalar", "Scalar_Scalar", "Scalar_Tensor")),
    }
)

# Python functions that become several ATen ops: families with a spelling at level torch alone; with their effect.
TORCH_ONLY: Mapping[str, str] = {
    **dict.fromkeys(
        [
            "torch.nn.functional.adaptive_max_pool1d",
            "torch.nn.functional.adaptive_max_pool2d",
            "torch.nn.functional.adaptive_max_pool3d",
            "torch.nn.functional.gaussian_nll_loss",
            "torch.nn.functional.interpolate",
            "torch.nn.functional.local_response_norm",
            "torch.nn.functional.max_unpool1d",
            "torch.nn.functional.max_unpool2d",
            "torch.nn.functional.max_unpool3d",
            "torch.nn.functional.multilabel_soft_margin_loss",
            "torch.nn.functional.normalize",
            "torch.nn.functional.softmin",
            "torch.nn.functional.softsign",
            "torch.nn.functional.tanhshrink",
            "torch.nn.functional.lp_pool1d",
            "torch.nn.functional.lp_pool2d",
            "torch.nn.functional.lp_pool3d",
            "torch.nn.functional.embedding_bag",
            "torch.tensordot",
            "torch.unravel_index",
            "torch.nn.functional.linear_cross_entropy",
            "torch.nn.functional.triplet_margin_with_distance_loss",
        ],
        "pure",
    ),
    **dict.fromkeys(
        [
            "torch.nn.functional.dropout1d",
            "torch.nn.functional.dropout3d",
            "torch.nn.functional.gumbel_softmax",
            "torch.nn.functional.fractional_max_pool2d",
            "torch.nn.functional.fractional_max_pool3d",
            "torch.nn.functional.fractional_max_pool2d_with_indices",
            "torch.nn.functional.fractional_max_pool3d_with_indices",
            "torch.pca_lowrank",
            "torch.svd_lowrank",
        ],
        "random",
    ),
}
