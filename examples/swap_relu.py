"""Swap ReLU for LeakyReLU in every spelling, in a traced graph and in an exported one.

One rule, in `swap_relu.rules`, names the op; a replacement is written as the graph around it is.
Run it with `python examples/swap_relu.py`.
"""

from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import fxrules

RULES = fxrules.load(Path(__file__).with_suffix(".rules"))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear, self.act = nn.Linear(8, 8), nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        x = self.act(self.linear(x))  # a module
        x = F.relu(self.linear(x))  # functions
        x = torch.relu(self.linear(x))
        return self.linear(x).relu()  # a method


def by_hand(net: Net, x: Tensor) -> Tensor:
    """The same net with the other activation."""
    for _ in range(4):
        x = F.leaky_relu(net.linear(x), 0.02)
    return x


def main() -> None:
    torch.manual_seed(0)
    net, x = Net().eval(), torch.randn(4, 8)
    refused = fxrules.rewrite(net, RULES, (x,))  # the default policy keeps what a model computes
    print(refused.report)

    traced = fxrules.rewrite(net, RULES, (x,), capture="trace", numerics="differs")
    exported = fxrules.rewrite(net, RULES, (x,), capture="export", numerics="differs")
    for result in (traced, exported):
        print(result.report)
        print(result.model.code)
        print("as written by hand:", torch.equal(result.model(x), by_hand(net, x)))


if __name__ == "__main__":
    main()
