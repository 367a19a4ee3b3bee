"""A transformer block written out by hand becomes four fused ops.

Run it with `python examples/transformer_block.py`.
"""

import difflib
import math

import torch
from torch import Tensor, nn

import fxrules


class LayerNorm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.rand(width)), nn.Parameter(torch.rand(width))

    def forward(self, x: Tensor) -> Tensor:
        mean = x.mean(-1, keepdim=True)
        variance = (x - mean).pow(2).mean(-1, keepdim=True)
        return self.weight * (x - mean) / torch.sqrt(variance + 1e-5) + self.bias


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = LayerNorm(width), LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.dropout = nn.Dropout(0.1)

    def attention(self, x: Tensor) -> Tensor:
        b, s, d = x.shape
        q, k, v = self.qkv(x).view(b, s, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1) / math.sqrt(d // self.heads)
        weights = self.dropout(torch.softmax(scores, dim=-1))
        return self.proj((weights @ v).transpose(1, 2).reshape(b, s, d))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.dropout(self.attention(self.norm1(x)))
        h = self.up(self.norm2(x))
        h = h * 0.5 * (1.0 + torch.erf(h / math.sqrt(2.0)))
        return x + self.dropout(self.down(h))


def main() -> None:
    torch.manual_seed(0)
    program = torch.export.export(Block(32, 4).eval(), (torch.randn(2, 7, 32),))
    result = fxrules.rewrite(program, fxrules.load("std"))
    print(result.report)
    before, after = (str(model.graph_module.code).splitlines() for model in (program, result.model))
    print(*difflib.unified_diff(before, after, "before", "after", lineterm="", n=0), sep="\n")
    print(result.compare((torch.randn(2, 7, 32),)))


if __name__ == "__main__":
    main()
