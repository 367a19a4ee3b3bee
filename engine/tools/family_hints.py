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
    "col2im": "fold", "grid_sampler": "grid_sample", "log_sigmoid": "logsigmoid", "sym_size": "size",
    "sym_stride": "stride", "sym_numel": "numel", "sym_storage_offset": "storage_offset",
    "affine_grid_generator": "affine_grid", "dropout2d": "feature_dropout",
}  # fmt: skip


# Aliases by the documentation that are not the same function of their arguments.
NOT_ALIASES = frozenset(
    [
        "pinverse",
        "sigmoid",
        "erf",
        "erfc",
        "erfinv",
        "exp2",
        "expm1",
        "sinc",
        "digamma",
        "polygamma",
        "logit",
        "i0",
        "igamma",
        "igammac",
        "mvlgamma",
        "xlogy",
        "inverse",
        "det",
        "slogdet",
        "matrix_exp",
        "matrix_power",
    ]
)


# ATen ops without a public name that graphs contain all the same.
INTERNAL = frozenset({"slice", "alias", "copy", "lift_fresh_copy", "lift_fresh", "im2col", "_to_copy"})


# Overloads that are another op than the rest of their packet.
ELSEWHERE: Mapping[str, str] = {
    "max.other": "maximum", "min.other": "minimum", "view.dtype": "view_dtype", "view_copy.dtype": "view_copy_dtype",
    "repeat_interleave.Tensor": "repeat_interleave_range", "lstm.data": "lstm_packed", "gru.data": "gru_packed",
    "rnn_relu.data": "rnn_relu_packed", "rnn_tanh.data": "rnn_tanh_packed", "to.other": "to_other",
    "where.default": "nonzero_numpy", "linalg_pinv.default": "linalg_pinv_rcond",
    "linalg_pinv.rcond_tensor": "linalg_pinv_rcond", "linalg_matrix_rank.default": "linalg_matrix_rank_tol",
    "linalg_matrix_rank.tol_tensor": "linalg_matrix_rank_tol", "atleast_1d.Sequence": "atleast_1d_list",
    "atleast_2d.Sequence": "atleast_2d_list", "atleast_3d.Sequence": "atleast_3d_list",
    "dequantize.tensors": "dequantize_list", "quantize_per_tensor.tensors": "quantize_per_tensor_list",
    "rsub.Tensor": "sub", "rsub.Scalar": "sub", "_to_copy.default": "to",
    **{f"adaptive_max_pool{n}d.default": f"adaptive_max_pool{n}d_with_indices" for n in (1, 2, 3)},
    **{f"fractional_max_pool{n}d.default": f"fractional_max_pool{n}d_with_samples" for n in (2, 3)},
    **{f"max_unpool{n}d.default": f"max_unpool{n}d_to_size" for n in (2, 3)},
    **{f"quantized_{rnn}.data{old}": f"quantized_{rnn}_packed" for rnn in ("gru", "lstm") for old in ("", "_legacy")},
    "nll_loss.default": "nll_loss_flat", "unique_consecutive.default": "unique_consecutive_all",
    "tensordot.default": "tensordot_dims",
    "embedding_bag.default": "embedding_bag_all", "embedding_bag.padding_idx": "embedding_bag_all",
}  # fmt: skip


# The signature of a family where no overload and no Python function has it.
_FACTORY = ["dtype: dtype? = null", "layout: layout? = null", "device: device? = null",
            "pin_memory: bool or false = false"]  # fmt: skip
_REDUCTION = ["input: Tensor", "dim: dim[1]? = null", "*", "correction: Scalar or 1 = 1", "keepdim: bool = false"]
PARAMS: Mapping[str, Sequence[str]] = {
    "to": ["input: Tensor", "dtype: dtype? = null", "device: device? = null", "layout: layout? = null",
           "non_blocking: bool = false", "copy: bool = false",
           "memory_format: memory_format or torch.preserve_format = \"torch.preserve_format\""],
    "arange": ["start: Scalar = 0", "end: Scalar", "step: Scalar = 1", "*", *_FACTORY],
    "std": _REDUCTION, "var": _REDUCTION, "std_mean": _REDUCTION, "var_mean": _REDUCTION,
    "softmax": ["input: Tensor", "dim: dim?", "dtype: dtype? = null"],
    "log_softmax": ["input: Tensor", "dim: dim?", "dtype: dtype? = null"],
    "softmin": ["input: Tensor", "dim: dim?", "dtype: dtype? = null"],
    "split": ["input: Tensor", "split_size_or_sections: int|int[]", "dim: dim = 0"],
    "hsplit": ["input: Tensor", "indices_or_sections: int|int[]"],
    "vsplit": ["input: Tensor", "indices_or_sections: int|int[]"],
    "dsplit": ["input: Tensor", "indices_or_sections: int|int[]"],
    "tensor_split": ["input: Tensor", "indices_or_sections: Tensor|int|int[]", "dim: dim = 0"],
    "histogramdd": ["input: Tensor", "bins: int|int[]|Tensor[]", "range: float[]? = null", "weight: Tensor? = null",
                    "density: bool = false"],
    "embedding": ["input: Tensor", "weight: Tensor", "padding_idx: int or -1 = -1",
                  "scale_grad_by_freq: bool = false", "sparse: bool = false"],
    "grid_sample": ["input: Tensor", "grid: Tensor", "mode: str = \"bilinear\"", "padding_mode: str = \"zeros\"",
                    "align_corners: bool or false = false"],
    "affine_grid": ["theta: Tensor", "size: int[]", "align_corners: bool or false = false"],
    "cdist": ["x1: Tensor", "x2: Tensor", "p: float = 2.0",
              "compute_mode: str = \"use_mm_for_euclid_dist_if_necessary\""],
    "adaptive_avg_pool2d": ["input: Tensor", "output_size: int?[2]"],
    "adaptive_avg_pool3d": ["input: Tensor", "output_size: int?[3]"],
    "adaptive_max_pool1d": ["input: Tensor", "output_size: int[1]"],
    "adaptive_max_pool2d": ["input: Tensor", "output_size: int?[2]"],
    "adaptive_max_pool3d": ["input: Tensor", "output_size: int?[3]"],
    "adaptive_max_pool2d_with_indices": ["input: Tensor", "output_size: int?[2]"],
    "adaptive_max_pool3d_with_indices": ["input: Tensor", "output_size: int?[3]"],
    "im2col": ["input: Tensor", "kernel_size: int[2]", "dilation: int[2] = [1, 1]", "padding: int[2] = [0, 0]",
               "stride: int[2] = [1, 1]"],
    "norm": ["input: Tensor", "p: any = \"fro\"", "dim: dim[1]? = null", "keepdim: bool = false",
             "dtype: dtype? = null"],
    "einsum": ["equation: str", "tensors: Tensor[]"],
    "getitem": ["input: any", "index: index"],
    "setitem": ["input: any", "index: index", "value: any"],
    "size": ["input: Tensor", "dim: dim? = null"],
    "stride": ["input: Tensor", "dim: dim? = null"],
    "hamming_window": ["window_length: int", "periodic: bool = true", "alpha: float = 0.54", "beta: float = 0.46", "*",
                       *_FACTORY],
    "nonzero_numpy": ["input: Tensor"],
    "unfold": ["input: Tensor", "dimension: dim", "size: int", "step: int"],
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
_SECTIONS = {"indices": "indices_or_sections", "sections": "indices_or_sections"}
RENAMES: Mapping[str, Mapping[str, str]] = {
    "rsub": {"self": "other", "input": "other", "other": "input"},
    **{name: {"unbiased": "correction"} for name in ("std", "var", "std_mean", "var_mean")},
    "hsplit": _SECTIONS, "vsplit": _SECTIONS, "dsplit": _SECTIONS,
    "tensor_split": {**_SECTIONS, "tensor_indices_or_sections": "indices_or_sections"},
    "isin": {"element": "elements", "test_element": "test_elements"},
    "scatter": {"value": "src"}, "scatter_": {"value": "src"},
    **{name: {"A": "input"} for name in ("linalg_det", "linalg_inv", "linalg_slogdet", "linalg_diagonal")},
    **{f"torch.linalg.{name}": {"A": "input"} for name in ("det", "inv", "slogdet", "diagonal")},
    "orgqr": {"input2": "tau"},
    "result_type": {"tensor": "tensor1", "scalar": "tensor1", "scalar1": "tensor1", "other": "tensor2",
                    "scalar2": "tensor2"},
    "split": {"split_size": "split_size_or_sections", "split_sizes": "split_size_or_sections", "tensor": "input"},
    "split_with_sizes": {"split_sizes": "split_size_or_sections"},
    "dropout": {"train": "training"}, "alpha_dropout": {"train": "training"}, "feature_dropout": {"train": "training"},
    "feature_alpha_dropout": {"train": "training"}, "matmul": {"tensor2": "other"},
    "swapaxes": {"axis0": "dim0", "axis1": "dim1"},
    "embedding": {"indices": "input"}, "torch.nn.functional.embedding": {"input": "input"},
    "grid_sampler": {"interpolation_mode": "mode"}, "embedding_bag": {"indices": "input"},
    "result_type.Scalar_Tensor": {"tensor": "tensor2"}, "where.default": {"condition": "input"},
}  # fmt: skip


# Own parameters that cannot change the result, with the value that is emitted.
IGNORED: Mapping[str, object] = {"cudnn_enabled": True, "cudnn_enable": True, "_stacklevel": 3, "norm_type": 2.0}
# ... unless it matters to these.
HEEDED = frozenset({"embedding_renorm_", "lp_pool1d", "lp_pool2d", "lp_pool3d"})


# Own parameters that must have this value, else the call is not of the family.
FIXED: Mapping[str, object] = {
    "inplace": False, "out": None, "size_average": None, "reduce": None, "requires_grad": False, "max_norm": None,
    "return_indices": False, "names": None, "distance_function": None,
    "generator": None, "as_tuple": False, "path": None,
}  # fmt: skip
# ... in these families only.
FIXED_IN: Mapping[str, Mapping[str, object]] = {
    **{name: {"weight": None} for name in ("mse_loss", "l1_loss", "huber_loss", "smooth_l1_loss")},
    "elu": {"scale": 1, "input_scale": 1},
    "to": {"pin_memory": False},
}

# Own parameters that are words for the user and numbers in a schema; the key is a packet and the parameter.
ENUMS: Mapping[tuple[str, str], str] = {
    ("grid_sampler", "interpolation_mode"): "enum bilinear=0 nearest=1 bicubic=2",
    ("grid_sampler", "padding_mode"): "enum zeros=0 border=1 reflection=2",
    ("cdist", "compute_mode"): "enum use_mm_for_euclid_dist_if_necessary=0 use_mm_for_euclid_dist=1"
    " donot_use_mm_for_euclid_dist=2",
}


# Ops whose first two arguments may be swapped.
COMMUTATIVE = frozenset(
    [
        "add",
        "mul",
        "bitwise_and",
        "bitwise_or",
        "bitwise_xor",
        "logical_and",
        "logical_or",
        "logical_xor",
        "eq",
        "ne",
        "maximum",
        "minimum",
        "fmax",
        "fmin",
        "gcd",
        "lcm",
        "hypot",
        "logaddexp",
        "logaddexp2",
    ]
)

# Ops whose ATen overload on tensors also takes Python numbers.
TAKES_NUMBERS = frozenset(["add", "sub", "mul", "div", "floor_divide", "divide", "multiply", "subtract", "true_divide"])

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
CONSTANTS: Mapping[str, Mapping[str, object]] = {
    "aten._to_copy.default": {"copy": True}, "aten.stft.default": {"center": False},
}  # fmt: skip


# Parameters that are None when they equal another one.
LIKE: Mapping[str, Mapping[str, str]] = {
    f"{name}{n}d{suffix}": {"stride": "kernel_size"}
    for name, suffix in (("max_pool", ""), ("avg_pool", ""), ("lp_pool", ""), ("max_pool", "_with_indices"))
    for n in (1, 2, 3)
}

# Families whose dims are not counted in the first tensor: they broadcast first.
NOT_DIMS = frozenset(
    {"cosine_similarity", "cross", "linalg_cross", "linalg_vecdot", "trapezoid", "cumulative_trapezoid"}
)

# Families whose dims are counted in a result that has one dimension more.
EXTRA_DIM = frozenset({"unsqueeze", "unsqueeze_", "stack", "diag_embed", "unsqueeze_copy"})
