"""Models that tests rewrite: transformers with random weights and eager attention, and hand-written nets.

Norm weights, biases and running statistics are drawn at random as well: with ones and
zeros, a wrong fold would not show.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
import transformers
from attrs import frozen
from torch import Tensor, nn

LAYERS = 12
_WIDTH, _HEADS, _WORDS, _LENGTH = 48, 4, 97, 32
# With the usual range of 0.02 attention is nearly uniform, and a wrong key changes the outputs by 1e-6.
_OPTIONS: dict[str, Any] = {"attn_implementation": "eager", "initializer_range": 0.2}


@frozen
class Family:
    """One kind of model: how to build it, and how to draw inputs for it."""

    name: str
    build: Callable[[], nn.Module]
    inputs: Callable[[torch.Generator], Mapping[str, Tensor]]


def _gpt2() -> nn.Module:
    config = transformers.GPT2Config(
        n_embd=_WIDTH, n_layer=LAYERS, n_head=_HEADS, vocab_size=_WORDS, n_positions=_LENGTH,
        bos_token_id=0, eos_token_id=0, use_cache=False, **_OPTIONS,
    )  # fmt: skip
    return transformers.GPT2Model(config)


def _bert() -> nn.Module:
    config = transformers.BertConfig(
        hidden_size=_WIDTH, num_hidden_layers=LAYERS, num_attention_heads=_HEADS, intermediate_size=2 * _WIDTH,
        vocab_size=_WORDS, max_position_embeddings=_LENGTH, **_OPTIONS,
    )  # fmt: skip
    return transformers.BertModel(config)


def _vit() -> nn.Module:
    config = transformers.ViTConfig(
        hidden_size=_WIDTH, num_hidden_layers=LAYERS, num_attention_heads=_HEADS, intermediate_size=2 * _WIDTH,
        image_size=32, patch_size=8, **_OPTIONS,
    )  # fmt: skip
    return transformers.ViTModel(config)


def _llama() -> nn.Module:
    config = transformers.LlamaConfig(
        hidden_size=_WIDTH, num_hidden_layers=LAYERS, num_attention_heads=_HEADS, num_key_value_heads=_HEADS // 2,
        intermediate_size=2 * _WIDTH, vocab_size=_WORDS, max_position_embeddings=_LENGTH, use_cache=False, **_OPTIONS,
    )  # fmt: skip
    return transformers.LlamaModel(config)


def _t5() -> nn.Module:
    config = transformers.T5Config(
        d_model=_WIDTH, d_kv=12, d_ff=2 * _WIDTH, num_layers=2, num_heads=_HEADS, vocab_size=_WORDS, use_cache=False,
        feed_forward_proj="gated-gelu",
    )  # fmt: skip
    config._attn_implementation = "eager"
    return transformers.T5EncoderModel(config)


def _gemma() -> nn.Module:
    config = transformers.GemmaConfig(
        hidden_size=_WIDTH, num_hidden_layers=2, num_attention_heads=_HEADS, num_key_value_heads=_HEADS // 2,
        head_dim=12, intermediate_size=2 * _WIDTH, vocab_size=_WORDS, max_position_embeddings=_LENGTH, use_cache=False,
        **_OPTIONS,
    )  # fmt: skip
    return transformers.GemmaModel(config)


def _gpt_neox() -> nn.Module:
    config = transformers.GPTNeoXConfig(
        hidden_size=_WIDTH, num_hidden_layers=2, num_attention_heads=_HEADS, intermediate_size=2 * _WIDTH,
        vocab_size=_WORDS, max_position_embeddings=_LENGTH, use_cache=False, **_OPTIONS,
    )  # fmt: skip
    return transformers.GPTNeoXModel(config)


def _words(draw: torch.Generator) -> Mapping[str, Tensor]:
    return {"input_ids": torch.randint(0, _WORDS, (2, 11), generator=draw)}


def _masked_words(draw: torch.Generator) -> Mapping[str, Tensor]:
    """The second sentence is padded."""
    mask = torch.ones(2, 11, dtype=torch.long)
    mask[1, 7:] = 0
    return {**_words(draw), "attention_mask": mask}


def _images(draw: torch.Generator) -> Mapping[str, Tensor]:
    return {"pixel_values": torch.randn(2, 3, 32, 32, generator=draw)}


TRANSFORMERS = {
    family.name: family
    for family in (
        Family("gpt2", _gpt2, _words),
        Family("bert", _bert, _masked_words),
        Family("vit", _vit, _images),
        Family("llama", _llama, _words),
    )
}

SMALL = {
    family.name: family
    for family in (
        Family("t5", _t5, _masked_words),
        Family("gemma", _gemma, _words),
        Family("gpt_neox", _gpt_neox, _masked_words),
    )
}
"""Models of two layers that write the same things in other ways."""


def build(name: str, dtype: torch.dtype = torch.float32) -> nn.Module:
    """A model by name, in eval mode, with random weights."""
    torch.manual_seed(0)
    return randomised(_family(name).build()).to(dtype).eval()


def draw_inputs(name: str, dtype: torch.dtype = torch.float32, seed: int = 0) -> dict[str, Any]:
    """Random keyword inputs for a model by name."""
    drawn = _family(name).inputs(torch.Generator().manual_seed(seed))
    return {key: value.to(dtype) if value.is_floating_point() else value for key, value in drawn.items()}


def _family(name: str) -> Family:
    return TRANSFORMERS[name] if name in TRANSFORMERS else SMALL[name]


def randomised(model: nn.Module) -> nn.Module:
    """The model with random vectors (weights of norms, biases, running statistics) in place of ones and zeros."""
    with torch.no_grad():
        for name, value in [*model.named_parameters(), *model.named_buffers()]:
            if value.ndim == 1 and value.is_floating_point() and "inv_freq" not in name:
                positive = name.endswith(("weight", "var"))
                value.uniform_(0.5, 1.5) if positive else value.normal_(0.0, 0.2)
    return model


# ---------------------------------------------------------------------- a ResNet
class BasicBlock(nn.Module):
    """Two convolutions and a way around them."""

    def __init__(self, narrow: int, wide: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(narrow, wide, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(wide)
        self.relu = nn.ReLU()
        self.conv2 = nn.Conv2d(wide, wide, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(wide)
        self.downsample: nn.Module | None = None
        if stride != 1 or narrow != wide:
            self.downsample = nn.Sequential(nn.Conv2d(narrow, wide, 1, stride), nn.BatchNorm2d(wide))

    def forward(self, x: Tensor) -> Tensor:
        around = x if self.downsample is None else self.downsample(x)
        y = self.relu(self.bn1(self.conv1(x)))
        z: Tensor = self.relu(self.bn2(self.conv2(y)) + around)
        return z


class ResNet(nn.Module):
    """A small ResNet, written by hand; three of its blocks downsample."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 7, 2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(8)
        self.relu = nn.ReLU()
        widths = [(8, 8, 1), (8, 8, 1), (8, 16, 2), (16, 16, 1), (16, 24, 2), (24, 24, 1), (24, 32, 2), (32, 32, 1)]
        self.layers = nn.Sequential(*[BasicBlock(*width) for width in widths])
        self.fc = nn.Linear(32, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.layers(self.relu(self.bn1(self.conv1(x))))
        scores: Tensor = self.fc(x.mean(dim=(2, 3)))
        return scores


BATCH_NORMS = 1 + 2 * 8 + 3
"""How many BatchNorms a `ResNet` has."""


def resnet(dtype: torch.dtype = torch.float32) -> nn.Module:
    """A `ResNet` in eval mode, with random running statistics."""
    torch.manual_seed(0)
    return randomised(ResNet()).to(dtype).eval()
