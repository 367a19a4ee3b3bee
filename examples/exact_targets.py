"""A rule for one exact target: `torch.add` becomes `torch.sub`, `x + y` and `x.add(y)` stay as they are.

An op's plain name means all its spellings; a qualified name means that one.
Run it with `python examples/exact_targets.py`.
"""

import torch
from torch import Tensor, nn

import fxrules

RULES = fxrules.load(
    text="""
rule add_becomes_sub(x: Tensor, y: Tensor) {
  match    torch.add(x, y)
  rewrite  torch.sub(x, y)
  numerics differs "shows that a rule can change what a model computes, if it says so"
}
"""
)


class Net(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return torch.add(x, y) * (x + y) * x.add(y) * torch.add(x, y, alpha=2)


def main() -> None:
    x, y = torch.tensor([5.0, 7.0]), torch.tensor([1.0, 2.0])
    refused = fxrules.rewrite(torch.fx.symbolic_trace(Net()), RULES, (x, y))
    print(refused.report)
    result = fxrules.rewrite(torch.fx.symbolic_trace(Net()), RULES, (x, y), numerics="differs")
    print(result.model.code)
    print(Net()(x, y).tolist(), "->", result.model(x, y).tolist())


if __name__ == "__main__":
    main()
