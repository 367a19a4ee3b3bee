"""What the schemas do not say: other names, what an absent argument means, effects, odd spellings.

All of it is data for `generate_families`. Parameters and spellings are written as in
``families.json`` (see `engine.entries`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

# Packets that are another name of an op, where the documentation does not say "Alias for".
ALIASES: Mapping[str, str] = {
    "numpy_T": "T", "matrix_H": "H", "__and__": "bitwise_and", "__or__": "bitwise_or", "__xor__": "bitwise_xor",
    "__lshift__": "bitwise_left_shift", "__rshift__": "bitwise_right_shift", "special_expit": "sigmoid",
    "special_softmax": "softmax", "special_log_softmax": "log_softmax", "special_erf": "erf",
    "special_erfc": "erfc", "special_erfinv": "erfinv", "special_exp2": "exp2", "special_expm1": "expm1",
    "special_sinc": "sinc", "special_psi": "digamma", "special_digamma": "digamma",
    "special_polygamma": "polygamma", "special_logit": "logit", "special_i0": "i0", "special_gammaln": "lgamma",
    "special_gammainc": "igamma", "special_gammaincc": "igammac", "special_multigammaln": "mvlgamma",
    "special_xlogy": "xlogy", "linalg_inv": "inverse", "linalg_det": "det", "linalg_slogdet": "slogdet",
    "linalg_matrix_exp": "matrix_exp", "linalg_matrix_power": "matrix_power", "arctan2": "atan2",
    "split_with_sizes": "split", "nll_loss_nd": "nll_loss", "cross_entropy_loss": "cross_entropy",
    "col2im": "fold", "grid_sampler": "grid_sample", "_softmax": "_softmax", "sym_size": "size",
    "sym_stride": "stride", "sym_numel": "numel", "sym_storage_offset": "storage_offset", "sym_is_contiguous": "is_contiguous", "_reshape_alias": "_reshape_alias",
}  # fmt: skip

# Aliases by the documentation that are not the same function of their arguments.
NOT_ALIASES = frozenset({"orgqr", "pinverse", "sigmoid", "erf", "erfc", "erfinv", "exp2", "expm1", "sinc", "digamma",
    "polygamma", "logit", "i0", "igamma", "igammac", "mvlgamma", "xlogy", "inverse", "det", "slogdet", "matrix_exp",
    "matrix_power"})  # fmt: skip

# ATen ops without a public name that graphs contain all the same.
INTERNAL = frozenset({"slice", "alias", "copy", "lift_fresh_copy", "lift_fresh", "im2col", "T", "H", "sym_size"})

# Overloads that are another op than the rest of their packet.
ELSEWHERE: Mapping[str, str] = {
    "max.other": "maximum", "min.other": "minimum", "view.dtype": "view_dtype", "view_copy.dtype": "view_copy_dtype",
    "repeat_interleave.Tensor": "repeat_interleave_range", "lstm.data": "lstm_packed", "gru.data": "gru_packed",
    "rnn_relu.data": "rnn_relu_packed", "rnn_tanh.data": "rnn_tanh_packed", "to.other": "to_other",
    "where.default": "where_nonzero", "linalg_pinv.default": "linalg_pinv_rcond", "linalg_pinv.rcond_tensor": "linalg_pinv_rcond",
    "linalg_matrix_rank.default": "linalg_matrix_rank_tol", "linalg_matrix_rank.tol_tensor": "linalg_matrix_rank_tol",
    "atleast_1d.Sequence": "atleast_1d_list", "atleast_2d.Sequence": "atleast_2d_list",
    "atleast_3d.Sequence": "atleast_3d_list", "dequantize.tensors": "dequantize_list",
    "quantize_per_tensor.tensors": "quantize_per_tensor_list", "rsub.Tensor": "sub", "rsub.Scalar": "sub", "_to_copy.default": "to",
}  # fmt: skip

# The signature of a family where no overload and no Python function has it.
PARAMS: Mapping[str, Sequence[str]] = {
    "to": ["input: Tensor", "dtype: dtype? = null", "device: device? = null", "layout: layout? = null",
           "non_blocking: bool = false", "copy: bool = false", "memory_format: memory_format or torch.preserve_format = \"torch.preserve_format\""],
    "arange": ["start: Scalar = 0", "end: Scalar", "step: Scalar = 1", "*", "dtype: dtype? = null",
               "layout: layout? = null", "device: device? = null", "pin_memory: bool or false = false"],
    "std": ["input: Tensor", "dim: dim[1]? = null", "*", "correction: Scalar or 1 = 1", "keepdim: bool = false"],
    "var": ["input: Tensor", "dim: dim[1]? = null", "*", "correction: Scalar or 1 = 1", "keepdim: bool = false"],
    "std_mean": ["input: Tensor", "dim: dim[1]? = null", "*", "correction: Scalar or 1 = 1", "keepdim: bool = false"],
    "var_mean": ["input: Tensor", "dim: dim[1]? = null", "*", "correction: Scalar or 1 = 1", "keepdim: bool = false"],
    "softmax": ["input: Tensor", "dim: dim?", "dtype: dtype? = null"],
    "log_softmax": ["input: Tensor", "dim: dim?", "dtype: dtype? = null"],
    "softmin": ["input: Tensor", "dim: dim?", "dtype: dtype? = null"],
    "split": ["input: Tensor", "split_size_or_sections: int|int[]", "dim: dim = 0"],
    "embedding": ["input: Tensor", "weight: Tensor", "padding_idx: int or -1 = -1", "scale_grad_by_freq: bool = false",
                  "sparse: bool = false"],
    "getitem": ["input: any", "index: any"],
    "size": ["input: Tensor", "dim: dim? = null"],
    "hamming_window": ["window_length: int", "periodic: bool = true", "alpha: float = 0.54", "beta: float = 0.46", "*",
                       "dtype: dtype? = null", "layout: layout? = null", "device: device? = null", "pin_memory: bool or false = false"],
    "mT": ["input: Tensor"], "T": ["input: Tensor"], "mH": ["input: Tensor"], "H": ["input: Tensor"],
}  # fmt: skip

# What an overload that lacks a parameter has in its place; None where nothing is said.
ABSENT: Mapping[str, Mapping[str, object]] = {
    "bartlett_window": {"periodic": True}, "blackman_window": {"periodic": True}, "hann_window": {"periodic": True},
    "kaiser_window": {"periodic": True, "beta": 12.0}, "randint": {"low": 0}, "randint_like": {"low": 0},
    "round": {"decimals": 0}, "argsort": {"stable": False}, "sort": {"stable": False}, "range": {"step": 1},
    "norm": {"p": 2}, "native_norm": {"p": 2}, "div": {"rounding_mode": None}, "bernoulli": {"p": None},
}  # fmt: skip

# Own names that differ from the family's; the key is a packet, an overload or a target.
RENAMES: Mapping[str, Mapping[str, str]] = {
    "rsub": {"self": "other", "input": "other", "other": "input"},
    **{name: {"unbiased": "correction"} for name in ("std", "var", "std_mean", "var_mean")},
    "embedding": {"indices": "input"},
    "torch.nn.functional.embedding": {},
    "hsplit": {"indices": "indices_or_sections", "sections": "indices_or_sections"},
    "vsplit": {"indices": "indices_or_sections", "sections": "indices_or_sections"},
    "dsplit": {"indices": "indices_or_sections", "sections": "indices_or_sections"},
    "tensor_split": {"indices": "indices_or_sections", "sections": "indices_or_sections", "tensor_indices_or_sections": "indices_or_sections"},
    "isin": {"element": "elements", "test_element": "test_elements"},
    "scatter": {"value": "src"},
    "result_type": {"tensor": "tensor1", "scalar": "tensor1", "scalar1": "tensor1", "other": "tensor2", "scalar2": "tensor2", "Scalar_Tensor.tensor": "tensor2"},
    "split": {"split_size": "split_size_or_sections", "split_sizes": "split_size_or_sections", "tensor": "input"},
    "split_with_sizes": {"split_sizes": "split_size_or_sections"},
    "dropout": {"train": "training"}, "alpha_dropout": {"train": "training"}, "feature_dropout": {"train": "training"},
    "feature_alpha_dropout": {"train": "training"},
    "matmul": {"tensor2": "other"}, "mm": {}, "cross_entropy_loss": {"self": "input"},
    "torch.nn.functional.fold": {}, "atan2": {}, "trapz": {}, "fill": {},
}  # fmt: skip

# Own parameters that cannot change the result, with the value that is emitted.
IGNORED: Mapping[str, object] = {"cudnn_enabled": True, "cudnn_enable": True, "_stacklevel": 3, "norm_type": 2.0}

# Own parameters that must have this value, else the call is not of the family.
FIXED: Mapping[str, object] = {
    "inplace": False, "out": None, "size_average": None, "reduce": None, "requires_grad": False, "max_norm": None,
    "return_indices": False, "names": None,
}  # fmt: skip

COMMUTATIVE = frozenset(
    "add mul bitwise_and bitwise_or bitwise_xor logical_and logical_or logical_xor eq ne maximum minimum fmax fmin gcd lcm"
    " hypot logaddexp logaddexp2".split()
)

# Ops whose ATen overload on tensors also takes Python numbers.
TAKES_NUMBERS = frozenset("add sub mul div floor_divide divide multiply subtract true_divide".split())

# Families that draw random numbers or write, with the arguments under which they do neither.
EFFECTS: Mapping[str, tuple[str, Sequence[Mapping[str, object]]]] = {
    "dropout": ("random", [{"training": False}]),
    "alpha_dropout": ("random", [{"training": False}]),
    "feature_dropout": ("random", [{"training": False}]),
    "feature_alpha_dropout": ("random", [{"training": False}]),
    "dropout1d": ("random", [{"training": False}]), "dropout2d": ("random", [{"training": False}]),
    "dropout3d": ("random", [{"training": False}]), "rrelu": ("random", [{"training": False}]),
    "scaled_dot_product_attention": ("random", [{"dropout_p": 0.0}]),
    "batch_norm": ("mutates", [{"training": False}, {"running_mean": None, "running_var": None}]),
    "instance_norm": ("mutates", [{"use_input_stats": False}, {"running_mean": None, "running_var": None}]),
    "lstm": ("random", [{"train": False}, {"dropout": 0.0}]), "gru": ("random", [{"train": False}, {"dropout": 0.0}]),
    "lstm_packed": ("random", [{"train": False}, {"dropout": 0.0}]),
    "gru_packed": ("random", [{"train": False}, {"dropout": 0.0}]),
    "rnn_relu": ("random", [{"train": False}, {"dropout": 0.0}]),
    "rnn_tanh": ("random", [{"train": False}, {"dropout": 0.0}]),
    "rnn_relu_packed": ("random", [{"train": False}, {"dropout": 0.0}]),
    "rnn_tanh_packed": ("random", [{"train": False}, {"dropout": 0.0}]),
}  # fmt: skip

# Family parameters that a spelling cannot vary, where that is not the default.
CONSTANTS: Mapping[str, Mapping[str, object]] = {"aten._to_copy.default": {"copy": True}}

# Parameters that are None when they equal another one.
LIKE: Mapping[str, Mapping[str, str]] = {
    name: {"stride": "kernel_size"}
    for name in ("max_pool1d", "max_pool2d", "max_pool3d", "avg_pool1d", "avg_pool2d", "avg_pool3d", "lp_pool1d",
                 "lp_pool2d", "lp_pool3d", "max_pool1d_with_indices", "max_pool2d_with_indices", "max_pool3d_with_indices")
}  # fmt: skip

# Families whose dims are counted in a result that has one dimension more.
EXTRA_DIM = frozenset({"unsqueeze", "stack", "diag_embed", "unsqueeze_copy"})

_CASTS = {
    "float": "float32", "double": "float64", "half": "float16", "bfloat16": "bfloat16", "int": "int32", "long": "int64",
    "short": "int16", "char": "int8", "byte": "uint8", "bool": "bool", "cfloat": "complex64", "cdouble": "complex128",
    "chalf": "complex32",
}  # fmt: skip

# Spellings that neither a schema nor a signature gives.
SPELLINGS: Mapping[str, Sequence[Sequence[str]]] = {
    "to": [
        ["Tensor.to", "self: Tensor -> input", "dtype: dtype", "non_blocking", "copy", "*", "memory_format"],
        ["Tensor.to", "self: Tensor -> input", "device", "dtype", "non_blocking", "copy", "*", "memory_format"],
        ["Tensor.type", "self: Tensor -> input", "dtype: dtype", "non_blocking"],
        ["Tensor.cpu", "self: Tensor -> input", "memory_format", ":= device \"cpu\""],
        *(
            [f"Tensor.{name}", "self: Tensor -> input", "memory_format", f":= dtype \"torch.{dtype}\""]
            for name, dtype in _CASTS.items()
        ),
    ],
    "to_other": [["Tensor.to", "self: Tensor -> input", "other: Tensor", "non_blocking", "copy", "*", "memory_format"]],
    "getitem": [["operator.getitem", "input", "index"]],
    "size": [["getattr.shape", "self: Tensor -> input"]],
    "dim": [["getattr.ndim", "self: Tensor -> input"]],
    "mT": [["getattr.mT", "self: Tensor -> input"]],
    "T": [["getattr.T", "self: Tensor -> input"]],
    "mH": [["getattr.mH", "self: Tensor -> input"]],
    "H": [["getattr.H", "self: Tensor -> input"]],
    "real": [["getattr.real", "self: Tensor -> input"]],
    "imag": [["getattr.imag", "self: Tensor -> input"]],
    "split": [["Tensor.split", "self: Tensor -> input", "split_size: int|int[] -> split_size_or_sections", "dim"]],
}  # fmt: skip
