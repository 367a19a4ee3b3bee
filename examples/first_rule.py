"""A rule of your own: two scalings in a row become one.

Run it with `python examples/first_rule.py`.
"""

import torch
from torch import Tensor, nn

import fxrules

RULES = fxrules.load(
    text='''
rule merge_scales(x: float[...], a: number, b: number) {
  """(x * a) * b becomes x * (a * b), which rounds once instead of twice."""
  match    x * a * b
  let      c = a * b
  rewrite  x * c
  numerics rounding
  example (x: f32[8])                     x * 2 * 3      =>  x * 6
  example "a tensor" (x: f32[8], y: f32[8])  x * y * 3.0    =>  unchanged
}
'''
)


class Net(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(x * 0.5 * 4) + 1


def main() -> None:
    x = torch.randn(3, 8)
    result = fxrules.rewrite(Net(), RULES, (x,))
    print(result.report)
    print(result.model.code)
    print(result.compare((torch.randn(3, 8),)))


if __name__ == "__main__":
    main()
