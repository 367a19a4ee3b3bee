"""Spellings by nn.Module classes: which attribute of the module is which argument of the op."""

from __future__ import annotations

from collections.abc import Mapping

_CONV = "@weight @bias @stride @padding @dilation @groups @padding_mode=='zeros'"
_TRANSPOSED = "@weight @bias @stride @padding @output_padding @groups @dilation @padding_mode=='zeros'"
_BATCH_NORM = "@running_mean @running_var @weight @bias @training @momentum @eps @track_running_stats==true"
_MAX_POOL = "@kernel_size @stride @padding @dilation @ceil_mode"

# Class of torch.nn to a family and its own arguments: those of the call, then attributes with `@`. `own>name` is bound
# to another name, `own==value` must hold, `name:=value` is what the class fixes for the family,
# `own?` a tensor that may be left out.
MODULES: Mapping[str, tuple[str, str]] = {
    "Linear": ("linear", "input @weight @bias"),
    "Bilinear": ("bilinear", "input1 input2 @weight @bias"),
    "Conv1d": ("conv1d", f"input {_CONV}"),
    "Conv2d": ("conv2d", f"input {_CONV}"),
    "Conv3d": ("conv3d", f"input {_CONV}"),
    "ConvTranspose1d": ("conv_transpose1d", f"input {_TRANSPOSED}"),
    "ConvTranspose2d": ("conv_transpose2d", f"input {_TRANSPOSED}"),
    "ConvTranspose3d": ("conv_transpose3d", f"input {_TRANSPOSED}"),
    "LayerNorm": ("layer_norm", "input @normalized_shape @weight @bias @eps"),
    "RMSNorm": ("rms_norm", "x>input @normalized_shape @weight @eps"),
    "GroupNorm": ("group_norm", "input @num_groups @weight @bias @eps"),
    "BatchNorm1d": ("batch_norm", f"input {_BATCH_NORM}"),
    "BatchNorm2d": ("batch_norm", f"input {_BATCH_NORM}"),
    "BatchNorm3d": ("batch_norm", f"input {_BATCH_NORM}"),
    "LocalResponseNorm": ("local_response_norm", "input @size @alpha @beta @k"),
    "Embedding": ("embedding", "input @weight @padding_idx @max_norm==null @scale_grad_by_freq @sparse"),
    "EmbeddingBag": (
        "embedding_bag",
        "input offsets? per_sample_weights? @weight @max_norm==null @scale_grad_by_freq @mode @sparse"
        " @include_last_offset @padding_idx",
    ),
    "Dropout": ("dropout", "input @p @training @inplace==false"),
    "Dropout1d": ("dropout1d", "input @p @training @inplace==false"),
    "Dropout2d": ("feature_dropout", "input @p @training @inplace==false"),
    "Dropout3d": ("dropout3d", "input @p @training @inplace==false"),
    "AlphaDropout": ("alpha_dropout", "input @p @training @inplace==false"),
    "FeatureAlphaDropout": ("feature_alpha_dropout", "input @p @training @inplace==false"),
    # activations
    "ReLU": ("relu", "input @inplace==false"),
    "ReLU6": ("relu6", "input @inplace==false"),
    "RReLU": ("rrelu", "input @lower @upper @training @inplace==false"),
    "GELU": ("gelu", "input @approximate"),
    "SiLU": ("silu", "input @inplace==false"),
    "Mish": ("mish", "input @inplace==false"),
    "Hardswish": ("hardswish", "input @inplace==false"),
    "Hardsigmoid": ("hardsigmoid", "input @inplace==false"),
    "Hardtanh": ("hardtanh", "input @min_val @max_val @inplace==false"),
    "Hardshrink": ("hardshrink", "input @lambd"),
    "LeakyReLU": ("leaky_relu", "input @negative_slope @inplace==false"),
    "ELU": ("elu", "input @alpha @inplace==false"),
    "CELU": ("celu", "input @alpha @inplace==false"),
    "SELU": ("selu", "input @inplace==false"),
    "PReLU": ("prelu", "input @weight"),
    "GLU": ("glu", "input @dim"),
    "Sigmoid": ("sigmoid", "input"),
    "LogSigmoid": ("logsigmoid", "input"),
    "Tanh": ("tanh", "input"),
    "Tanhshrink": ("tanhshrink", "input"),
    "Threshold": ("threshold", "input @threshold @value @inplace==false"),
    "Softplus": ("softplus", "input @beta @threshold"),
    "Softshrink": ("softshrink", "input @lambd"),
    "Softsign": ("softsign", "input"),
    "Softmin": ("softmin", "input @dim"),
    "Softmax": ("softmax", "input @dim"),
    "Softmax2d": ("softmax", "input dim:=-3"),
    "LogSoftmax": ("log_softmax", "input @dim"),
    # pooling, padding, shapes
    "MaxPool1d": ("max_pool1d", f"input {_MAX_POOL} @return_indices==false"),
    "MaxPool2d": ("max_pool2d", f"input {_MAX_POOL} @return_indices==false"),
    "MaxPool3d": ("max_pool3d", f"input {_MAX_POOL} @return_indices==false"),
    "AvgPool1d": ("avg_pool1d", "input @kernel_size @stride @padding @ceil_mode @count_include_pad"),
    "AvgPool2d": ("avg_pool2d", "input @kernel_size @stride @padding @ceil_mode @count_include_pad @divisor_override"),
    "AvgPool3d": ("avg_pool3d", "input @kernel_size @stride @padding @ceil_mode @count_include_pad @divisor_override"),
    "LPPool1d": ("lp_pool1d", "input @norm_type @kernel_size @stride @ceil_mode"),
    "LPPool2d": ("lp_pool2d", "input @norm_type @kernel_size @stride @ceil_mode"),
    "LPPool3d": ("lp_pool3d", "input @norm_type @kernel_size @stride @ceil_mode"),
    "AdaptiveAvgPool1d": ("adaptive_avg_pool1d", "input @output_size"),
    "AdaptiveAvgPool2d": ("adaptive_avg_pool2d", "input @output_size"),
    "AdaptiveAvgPool3d": ("adaptive_avg_pool3d", "input @output_size"),
    "AdaptiveMaxPool1d": ("adaptive_max_pool1d", "input @output_size @return_indices==false"),
    "AdaptiveMaxPool2d": ("adaptive_max_pool2d", "input @output_size @return_indices==false"),
    "AdaptiveMaxPool3d": ("adaptive_max_pool3d", "input @output_size @return_indices==false"),
    "MaxUnpool1d": ("max_unpool1d", "input indices @kernel_size @stride @padding"),
    "MaxUnpool2d": ("max_unpool2d", "input indices @kernel_size @stride @padding"),
    "MaxUnpool3d": ("max_unpool3d", "input indices @kernel_size @stride @padding"),
    "PixelShuffle": ("pixel_shuffle", "input @upscale_factor"),
    "PixelUnshuffle": ("pixel_unshuffle", "input @downscale_factor"),
    "ChannelShuffle": ("channel_shuffle", "input @groups"),
    "Flatten": ("flatten", "input @start_dim @end_dim"),
    "Unflatten": ("unflatten", "input @dim @unflattened_size>sizes"),
    **dict.fromkeys(
        ("Upsample", "UpsamplingNearest2d", "UpsamplingBilinear2d"),
        ("interpolate", "input @size @scale_factor @mode @align_corners @recompute_scale_factor"),
    ),
    "Fold": ("fold", "input @output_size @kernel_size @dilation @padding @stride"),
    "Unfold": ("im2col", "input @kernel_size @dilation @padding @stride"),
    **{f"ConstantPad{n}d": ("pad", "input @padding>pad @value") for n in (1, 2, 3)},
    **{f"ZeroPad{n}d": ("pad", "input @padding>pad @value") for n in (1, 2, 3)},
    **{f"ReflectionPad{n}d": ("pad", "input @padding>pad mode:='reflect'") for n in (1, 2, 3)},
    **{f"ReplicationPad{n}d": ("pad", "input @padding>pad mode:='replicate'") for n in (1, 2, 3)},
    **{f"CircularPad{n}d": ("pad", "input @padding>pad mode:='circular'") for n in (1, 2, 3)},
    "CosineSimilarity": ("cosine_similarity", "x1 x2 @dim @eps"),
    "PairwiseDistance": ("pairwise_distance", "x1 x2 @norm>p @eps @keepdim"),
    # losses
    "L1Loss": ("l1_loss", "input target @reduction"),
    "MSELoss": ("mse_loss", "input target @reduction"),
    "HuberLoss": ("huber_loss", "input target @reduction @delta"),
    "SmoothL1Loss": ("smooth_l1_loss", "input target @reduction @beta"),
    "BCELoss": ("binary_cross_entropy", "input target @weight @reduction"),
    "BCEWithLogitsLoss": ("binary_cross_entropy_with_logits", "input target @weight @pos_weight @reduction"),
    "CrossEntropyLoss": ("cross_entropy", "input target @weight @ignore_index @reduction @label_smoothing"),
    "NLLLoss2d": ("nll_loss", "input target @weight @ignore_index @reduction"),
    "NLLLoss": ("nll_loss", "input target @weight @ignore_index @reduction"),
    "KLDivLoss": ("kl_div", "input target @reduction @log_target"),
    "SoftMarginLoss": ("soft_margin_loss", "input target @reduction"),
    "HingeEmbeddingLoss": ("hinge_embedding_loss", "input target @margin @reduction"),
    "CosineEmbeddingLoss": ("cosine_embedding_loss", "input1 input2 target @margin @reduction"),
    "MarginRankingLoss": ("margin_ranking_loss", "input1 input2 target @margin @reduction"),
    "MultiMarginLoss": ("multi_margin_loss", "input target @p @margin @weight @reduction"),
    "MultiLabelMarginLoss": ("multilabel_margin_loss", "input target @reduction"),
    "MultiLabelSoftMarginLoss": ("multilabel_soft_margin_loss", "input target @weight @reduction"),
    "TripletMarginLoss": ("triplet_margin_loss", "anchor positive negative @margin @p @eps @swap @reduction"),
    "PoissonNLLLoss": ("poisson_nll_loss", "log_input>input target @log_input @full @eps @reduction"),
    "GaussianNLLLoss": ("gaussian_nll_loss", "input target var @full @eps @reduction"),
    "CTCLoss": (
        "ctc_loss",
        "log_probs targets input_lengths target_lengths @blank @reduction @zero_infinity",
    ),
}


def module_spellings(family: str) -> list[list[str]]:
    """The module classes that spell a family, as the file has them.

    >>> module_spellings("gelu")
    [['torch.nn.GELU', 'input', '@approximate -> approximate']]
    """
    return [
        [f"torch.nn.{name}", *(_entry(word) for word in words.split())]
        for name, (of, words) in MODULES.items()
        if of == family
    ]


def _entry(word: str) -> str:
    own, fixed, value = word.partition("==")
    if fixed:
        return f"{own}: any == {_json(value)}"
    own, said, value = word.partition(":=")
    if said:
        return f":= {own} {_json(value)}"
    if word.endswith("?"):
        return f"{word[:-1]}: Tensor? = null"
    own, renamed, name = word.partition(">")
    if renamed:
        return f"{own}:  -> {name}"
    return f"{own} -> {own[1:]}" if own.startswith("@") else own


def _json(text: str) -> str:
    return text.replace("'", '"')
