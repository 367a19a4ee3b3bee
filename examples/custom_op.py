"""A team's own op on both sides of rules: by its name, once it is registered.

`acme.scaled_relu` is fused in where its parts stand, and two of them in a row become one. `acme.count_` writes to its
argument: no rule moves anything past it, and what it writes is the same after the rewrite.
Run it with `python examples/custom_op.py`.
"""

import torch
from torch import Tensor, nn

import fxrules


@torch.library.custom_op("acme::scaled_relu", mutates_args=())
def scaled_relu(x: Tensor, scale: float = 1.0) -> Tensor:
    return torch.relu(x) * scale


@scaled_relu.register_fake
def _(x: Tensor, scale: float = 1.0) -> Tensor:
    return torch.empty_like(x)


@torch.library.custom_op("acme::count_", mutates_args=("counter",))
def count_(counter: Tensor, by: int) -> None:
    counter.add_(by)


RULES = fxrules.load(
    text="""
rule fuse(x: float[...], s: float) {
  match    relu(x) * s
  rewrite  acme.scaled_relu(x, s)
  numerics bitwise
}
rule merge(x: float[...], a: float, b: float) {
  match    acme.scaled_relu(acme.scaled_relu(x, a), b)
  where    a > 0
  let      c = a * b
  rewrite  acme.scaled_relu(x, c)
  numerics rounding
}
"""
)


class Net(nn.Module):
    counter: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("counter", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        torch.ops.acme.count_(self.counter, 1)
        return torch.relu(torch.relu(x) * 0.5) * 4.0 - 1


def main() -> None:
    program = torch.export.export(Net(), (torch.randn(3, 8),))
    result = fxrules.rewrite(program, RULES)
    print(result.report)
    print(result.model.module().code)
    print(result.compare((torch.randn(3, 8),)))


if __name__ == "__main__":
    main()
