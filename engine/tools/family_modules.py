"""Spellings by nn.Module classes: which attribute of the module is which argument of the op."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

# Class of torch.nn to its family, the call's arguments, and attributes; `name==value` must hold, `own>name` renames.
_CONV = "@weight @bias @stride @padding @dilation @groups @padding_mode=='zeros'"
_NORM = "@running_mean @running_var @weight @bias @training @momentum @eps"
_LOSS = "@reduction"
MODULES: Mapping[str, tuple[str, str]] = {
    "Linear": ("linear", "input @weight @bias"),
    "Bilinear": ("bilinear", "input1 input2 @weight @bias"),
    "Conv1d": ("conv1d", f"input {_CONV}"),
    "Conv2d": ("conv2d", f"input {_CONV}"),
    "Conv3d": ("conv3d", f"input {_CONV}"),
    "LayerNorm": ("layer_norm", "input @normalized_shape @weight @bias @eps"),
    "RMSNorm": ("rms_norm", "x>input @normalized_shape @weight @eps"),
    "GroupNorm": ("group_norm", "input @num_groups @weight @bias @eps"),
    "BatchNorm1d": ("batch_norm", f"input {_NORM} @track_running_stats==true"),
    "BatchNorm2d": ("batch_norm", f"input {_NORM} @track_running_stats==true"),
    "BatchNorm3d": ("batch_norm", f"input {_NORM} @track_running_stats==true"),
    "Embedding": ("embedding", "input @weight @padding_idx @max_norm==null @scale_grad_by_freq @sparse"),
    "Dropout": ("dropout", "input @p @training @inplace==false"),
    "ReLU": ("relu", "input @inplace==false"),
    "ReLU6": ("relu6", "input @inplace==false"),
    "GELU": ("gelu", "input @approximate"),
    "SiLU": ("silu", "input @inplace==false"),
    "Mish": ("mish", "input @inplace==false"),
    "Hardswish": ("hardswish", "input @inplace==false"),
    "Hardsigmoid": ("hardsigmoid", "input @inplace==false"),
    "Hardtanh": ("hardtanh", "input @min_val @max_val @inplace==false"),
    "LeakyReLU": ("leaky_relu", "input @negative_slope @inplace==false"),
    "ELU": ("elu", "input @alpha @inplace==false"),
    "CELU": ("celu", "input @alpha @inplace==false"),
    "SELU": ("selu", "input @inplace==false"),
    "PReLU": ("prelu", "input @weight"),
    "Sigmoid": ("sigmoid", "input"),
    "Tanh": ("tanh", "input"),
    "Softplus": ("softplus", "input @beta @threshold"),
    "Softmax": ("softmax", "input @dim"),
    "LogSoftmax": ("log_softmax", "input @dim"),
    "MaxPool1d": ("max_pool1d", "input @kernel_size @stride @padding @dilation @ceil_mode @return_indices==false"),
    "MaxPool2d": ("max_pool2d", "input @kernel_size @stride @padding @dilation @ceil_mode @return_indices==false"),
    "MaxPool3d": ("max_pool3d", "input @kernel_size @stride @padding @dilation @ceil_mode @return_indices==false"),
    "AvgPool1d": ("avg_pool1d", "input @kernel_size @stride @padding @ceil_mode @count_include_pad"),
    "AvgPool2d": ("avg_pool2d", "input @kernel_size @stride @padding @ceil_mode @count_include_pad @divisor_override"),
    "AvgPool3d": ("avg_pool3d", "input @kernel_size @stride @padding @ceil_mode @count_include_pad @divisor_override"),
    "AdaptiveAvgPool1d": ("adaptive_avg_pool1d", "input @output_size"),
    "AdaptiveAvgPool2d": ("adaptive_avg_pool2d", "input @output_size"),
    "AdaptiveAvgPool3d": ("adaptive_avg_pool3d", "input @output_size"),
    "Flatten": ("flatten", "input @start_dim @end_dim"),
}


def module_spellings(family: str) -> list[list[str]]:
    """The module classes that spell a family, as the file has them."""
    return [
        [f"torch.nn.{name}", *(_entry(word) for word in words.split())]
        for name, (of, words) in MODULES.items()
        if of == family
    ]


def _entry(word: str) -> str:
    attribute, has_value, value = word.partition("==")
    if has_value:
        return f"{attribute}: any == {value.replace(chr(39), chr(34))}"
    own, renamed, name = word.partition(">")
    if renamed:
        return f"{own}:  -> {name}"
    return f"{own} -> {own[1:]}" if own.startswith("@") else own


def modules_of(families: Sequence[str]) -> list[str]:
    """The classes of torch.nn that spell one of these families."""
    return [name for name, (family, _) in MODULES.items() if family in families]
