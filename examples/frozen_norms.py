"""Fold norms of a class of your own into the convolutions before them.

Detection models keep such a FrozenBatchNorm2d, which no op of torch stands for. The rule names the class: modules of
exactly that class match, nothing is imported for it, and `capture="trace"` keeps their calls as they are.
Run it with `python examples/frozen_norms.py`.
"""

import torch
from torch import Tensor, nn

import fxrules

RULES = """
rule fold_frozen_norm(conv: module nn.Conv2d, norm: module HERE.FrozenBatchNorm2d, x: float[N, C, H, W]) {
  match    norm(conv(x))
  where    uses(conv) == 1, "the convolution is used elsewhere too"
  freeze   conv, norm
  let      s = norm.weight * rsqrt(norm.running_var + norm.eps)
  let      w = conv.weight * reshape(s, [-1, 1, 1, 1])
  let      b = ((conv.bias ?? 0) - norm.running_mean) * s + norm.bias
  rewrite  conv2d(x, w, b, conv.stride, conv.padding, conv.dilation, conv.groups)
  numerics rounding rtol=1e-4
}
""".replace("HERE", __name__)


class FrozenBatchNorm2d(nn.Module):
    """A BatchNorm whose statistics and weights are fixed."""

    weight: Tensor
    bias: Tensor
    running_mean: Tensor
    running_var: Tensor

    def __init__(self, channels: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.eps = eps
        self.register_buffer("weight", torch.rand(channels) + 0.5)
        self.register_buffer("bias", torch.randn(channels))
        self.register_buffer("running_mean", torch.randn(channels))
        self.register_buffer("running_var", torch.rand(channels) + 0.5)

    def forward(self, x: Tensor) -> Tensor:
        scale = self.weight * (self.running_var + self.eps).rsqrt()
        shift = self.bias - self.running_mean * scale
        return x * scale.reshape(1, -1, 1, 1) + shift.reshape(1, -1, 1, 1)


class Block(nn.Module):
    """A residual block."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn1 = FrozenBatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn2 = FrozenBatchNorm2d(channels)

    def forward(self, x: Tensor) -> Tensor:
        y = torch.relu(self.bn1(self.conv1(x)))
        return torch.relu(self.bn2(self.conv2(y)) + x)


def main() -> None:
    torch.manual_seed(0)
    shared = Block(16)
    net = nn.Sequential(nn.Conv2d(3, 16, 3), FrozenBatchNorm2d(16), Block(16), shared, Block(16), shared).eval()
    x = torch.randn(2, 3, 16, 16)

    result = fxrules.rewrite(net, fxrules.load(text=RULES), (x,), freeze=True, capture="trace")
    print(result.report)
    for rule in result.report.rules:
        for refusal in rule.refused:
            print(f"{rule.name}: {refusal.count} × {refusal.kind}: {refusal.reason}")
    print(result.compare((torch.randn(2, 3, 16, 16),)))


if __name__ == "__main__":
    main()
