"""Fold the BatchNorms of a network into its convolutions.

Folding bakes parameters into new constants, so it needs `freeze=True` and eval mode.
Run it with `python examples/resnet_fold.py`.
"""

import torch
from torch import Tensor, nn
from torch.fx import GraphModule, symbolic_trace

import fxrules


class Block(nn.Module):
    """A residual block: two convolutions, each with its BatchNorm, and a way around them."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)

    def forward(self, x: Tensor) -> Tensor:
        y = torch.relu(self.bn1(self.conv1(x)))
        return torch.relu(self.bn2(self.conv2(y)) + x)


def batch_norms(model: GraphModule) -> int:
    """How many calls of a BatchNorm the graph has."""
    modules = dict(model.named_modules())
    calls = [node for node in model.graph.nodes if node.op == "call_module"]
    return sum(isinstance(modules[str(node.target)], nn.BatchNorm2d) for node in calls)


def main() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), *[Block(16) for _ in range(4)])
    for _ in range(3):  # in training mode, so that the running statistics are not 0 and 1
        model(torch.randn(8, 3, 16, 16))
    traced = symbolic_trace(model.eval())
    x = torch.randn(2, 3, 16, 16)

    refused = fxrules.rewrite(traced, fxrules.load("std.convolution"), (x,))
    print(refused.report)

    result = fxrules.rewrite(traced, fxrules.load("std.convolution"), (x,), freeze=True)
    print(result.report)
    print("BatchNorms:", batch_norms(traced), "->", batch_norms(result.model))
    print(result.compare((torch.randn(2, 3, 16, 16),)))


if __name__ == "__main__":
    main()
