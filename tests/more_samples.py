"""Sample calls and modules that torch's own test samples leave out."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn


def more_calls() -> Iterator[tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]]:
    """Calls that torch's own samples leave out."""
    yield from _operators_and_methods()
    yield from _reductions_and_choices()
    yield from _networks_and_factories()


def _operators_and_methods() -> Iterator[tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]]:
    """Operators, also those that write; sizes, casts and moves."""
    x, y = torch.randn(2, 3, 4), torch.randn(2, 3, 4)
    matrix, counts, mask = torch.randn(3, 3), torch.tensor([2, 0, 1]), x > 0
    for numbers in (torch.maximum, torch.remainder, torch.pow, torch.sub, torch.div):
        yield numbers, (x, y), {}
    for index in (0, (Ellipsis, slice(1, 3)), (None, 1), mask):
        yield operator.getitem, (x, index), {}
    yield operator.setitem, (x, 0, 1.0), {}
    for in_place in (operator.iadd, operator.isub, operator.imul, operator.itruediv, operator.ifloordiv, operator.imod):
        yield in_place, (x, y), {}
        yield in_place, (x, 2), {}
    for bits in (operator.iand, operator.ior, operator.ixor):
        yield bits, (mask, mask), {}
    for shift in (operator.ilshift, operator.irshift):
        yield shift, (counts, 1), {}
    yield operator.ipow, (x, 2), {}
    yield operator.imatmul, (matrix, matrix), {}
    for method in [
        "size",
        "stride",
        "dim",
        "ndimension",
        "numel",
        "nelement",
        "storage_offset",
        "detach",
        "is_contiguous",
    ]:
        yield getattr(torch.Tensor, method), (x,), {}
    yield torch.Tensor.size, (x, -1), {}
    yield torch.Tensor.stride, (x, 1), {}
    yield torch.Tensor.cpu, (x,), {}
    yield torch.Tensor.to, (x, y.double()), {}
    yield torch.Tensor.to, (x, "cpu", torch.float64), {}
    yield torch.Tensor.to, (x,), {"dtype": torch.float64, "copy": True}
    yield torch.Tensor.type, (x, torch.float64), {}
    yield torch.Tensor.type_as, (x, y.double()), {}
    yield torch.Tensor.view, (x, torch.int32), {}


def _reductions_and_choices() -> Iterator[tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]]:
    """Ops whose overloads differ by what they are given."""
    x, y = torch.randn(2, 3, 4), torch.randn(2, 3, 4)
    matrix, image, mask = torch.randn(3, 3), torch.randn(1, 4, 6, 6), x > 0
    for activation in (torch.relu_, torch.celu_, torch.selu_, F.leaky_relu_, F.hardtanh_, F.elu_, torch.detach_):
        yield activation, (x,), {}
    yield torch.Tensor.copy_, (x, y), {}
    for extreme in (torch.max, torch.min):
        yield extreme, (x,), {}
        yield extreme, (x, y), {}
        yield extreme, (x, -1, True), {}
    yield torch.tensor_split, (x, 2, -1), {}
    yield torch.tensor_split, (x, [1, 3], -1), {}
    yield torch.movedim, (x, 0, -1), {}
    yield torch.lerp, (x, y, mask.float()), {}
    yield torch.lerp, (x, y, 0.5), {}
    yield torch.quantile, (x, torch.tensor([0.1, 0.5]), -1), {}
    yield torch.norm, (x, 2, -1), {}
    yield torch.norm, (x,), {"p": 1, "dim": (0, 1), "keepdim": True, "dtype": torch.float64}
    yield torch.linalg.norm, (matrix, "nuc"), {}
    yield torch.linalg.matrix_norm, (matrix, 2), {}
    yield torch.where, (mask, 1.0, 2.0), {}
    yield torch.bernoulli, (x, 0.25), {}
    yield torch.gradient, (x,), {"dim": [0, 2]}
    yield torch.conv3d, (torch.randn(1, 1, 4, 4, 4), torch.randn(2, 1, 2, 2, 2)), {}
    yield torch.conv1d, (image[0], torch.randn(2, 6, 3)), {"padding": "same"}
    yield torch.unsafe_split_with_sizes, (x, [1, 2], 1), {}
    for made in (torch.atleast_1d, torch.atleast_2d, torch.atleast_3d, torch.detach, torch.numel, torch.vander):
        yield made, (x[0, 0],), {}


def _networks_and_factories() -> Iterator[tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]]:
    """Layers, windows, factories, recurrent cells."""
    x, image, weight = torch.randn(2, 3, 4), torch.randn(1, 4, 6, 6), torch.randn(6, 4, 3, 3)
    matrix, counts = torch.randn(3, 3), torch.tensor([2, 0, 1])
    yield torch.conv2d, (image, weight), {"padding": "same"}
    yield torch.conv2d, (image, weight, None, (1, 2), 1), {}
    yield torch.conv_tbc, (torch.randn(5, 2, 3), torch.randn(3, 3, 4), torch.randn(4)), {}
    yield F.fold, (torch.randn(1, 8, 12), (4, 5), (2, 2)), {}
    yield F.affine_grid, (torch.randn(2, 2, 3), [2, 3, 4, 4]), {"align_corners": False}
    yield F.dropout1d, (image[0],), {"p": 0.4}
    for dims, pool in enumerate((F.lp_pool1d, F.lp_pool2d, F.lp_pool3d), start=2):
        yield pool, (torch.rand(*[4] * dims), 2.0, 2), {}
    yield F.gumbel_softmax, (matrix,), {"tau": 0.5}
    yield F.elu, (x, 0.5), {}
    for window in (torch.hann_window, torch.hamming_window, torch.bartlett_window, torch.blackman_window):
        yield window, (7,), {}
        yield window, (7, False), {}
    yield torch.kaiser_window, (7, True, 10.0), {}
    yield torch.hamming_window, (7, True, 0.5), {}
    for shape in (torch.rand, torch.randn, torch.zeros, torch.ones):
        yield shape, (2, 3), {}
        yield shape, ((2, 3),), {"dtype": torch.float64}
    yield torch.randperm, (5,), {}
    yield torch.rand_like, (x,), {}
    yield torch.poisson, (x.abs(),), {}
    yield torch.arange, (5,), {}
    yield torch.arange, (1, 9, 2), {}
    yield torch.repeat_interleave, (counts,), {}
    yield torch.result_type, (x, counts), {}
    yield torch.promote_types, (torch.float16, torch.int32), {}
    yield torch.chain_matmul, (matrix, matrix, matrix), {}
    yield torch.linalg.matrix_rank, (matrix, 0.1), {}
    yield torch.std, (x,), {"dim": 1, "correction": 0}
    yield torch.std, (x, 1, False), {}
    yield torch.std, (x, False), {}
    hidden, weights = torch.randn(1, 2, 3), [torch.randn(12, 4), torch.randn(12, 3), torch.randn(12), torch.randn(12)]
    options = (True, 1, 0.0, False, False, False)
    yield torch.lstm, (torch.randn(5, 2, 4), [hidden, hidden], weights, *options), {}
    yield torch.gru, (torch.randn(5, 2, 4), hidden, [one[:9] for one in weights], *options), {}
    yield torch.lstm_cell, (torch.randn(2, 4), [hidden[0], hidden[0]], *weights), {}


def more_modules() -> Iterator[tuple[nn.Module, tuple[Any, ...], dict[str, Any]]]:
    """Modules that torch's own samples leave out."""
    torch.default_generator.manual_seed(0)
    image, volume, rows = torch.randn(2, 4, 6, 6), torch.randn(2, 4, 6, 6, 6), torch.randn(3, 8)
    words, bags = torch.tensor([1, 2, 4, 5, 4, 3]), torch.tensor([0, 3])
    pooled = [pool(2, return_indices=True) for pool in (nn.MaxPool1d, nn.MaxPool2d, nn.MaxPool3d)]
    yield nn.Flatten(1, -2), (image,), {}
    yield nn.Unflatten(1, (2, 2)), (image,), {}
    yield nn.PixelShuffle(2), (image,), {}
    yield nn.PixelUnshuffle(2), (image,), {}
    yield nn.ChannelShuffle(2), (image,), {}
    yield nn.Unfold((2, 3), stride=2), (image,), {}
    yield nn.Fold((4, 5), (2, 2)), (torch.randn(2, 8, 12),), {}
    yield nn.Upsample(scale_factor=2.0, mode="bilinear"), (image,), {}
    yield nn.UpsamplingNearest2d(scale_factor=2), (image,), {}
    yield nn.UpsamplingBilinear2d(size=(3, 4)), (image,), {}
    yield nn.EmbeddingBag(10, 3, mode="sum"), (words, bags), {}
    yield nn.CosineSimilarity(dim=1), (rows, rows + 1), {}
    yield nn.PairwiseDistance(p=1.0), (rows, rows + 1), {}
    yield nn.TripletMarginLoss(margin=0.5), (rows, rows + 1, rows - 1), {}
    yield nn.NLLLoss2d(), (torch.randn(2, 4, 3, 3), torch.zeros(2, 3, 3, dtype=torch.long)), {}
    yield nn.Hardsigmoid(), (rows,), {}
    yield nn.MaxUnpool1d(2), pooled[0](image[0]), {}
    yield nn.MaxUnpool2d(2), pooled[1](image), {}
    yield nn.MaxUnpool3d(2), pooled[2](volume), {}
    for training in (False, True):
        yield nn.RReLU().train(training), (rows,), {}
        yield nn.Dropout(0.3).train(training), (rows,), {}
        yield nn.Dropout1d(0.3).train(training), (image[0],), {}
        yield nn.Dropout2d(0.3).train(training), (image,), {}
        yield nn.Dropout3d(0.3).train(training), (volume,), {}
        yield nn.AlphaDropout(0.3).train(training), (rows,), {}
        yield nn.FeatureAlphaDropout(0.3).train(training), (image,), {}
