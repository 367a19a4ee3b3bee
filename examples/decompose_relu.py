"""An op taken apart: every ReLU becomes `where(x > 0, x, 0)`, for a target that has no ReLU.

Run it with `python examples/decompose_relu.py`.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import fxrules

RULES = fxrules.load(
    text='''
rule decompose_relu(x: float[...]) {
  """Any spelling of relu: nn.ReLU, F.relu, torch.relu, x.relu()."""
  match    relu(x)
  rewrite  where(x > 0, x, 0.0)
  numerics bitwise except nan, signed_zero       # relu(nan) is nan, relu(-0.0) is -0.0
  example "bf16" (x: bf16[4])  relu(x)  =>  where(x > 0, x, 0.0)
  example "ints" (x: i64[4])   relu(x)  =>  unchanged
}
'''
)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.act = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        return self.act(x) + F.relu(x - 1) + torch.relu(x + 1) + (2 * x).relu()


def main() -> None:
    model, x = Net(), torch.randn(3, 8)
    for name, graph in (
        ("torch", torch.fx.symbolic_trace(model)),
        ("aten", torch.export.export(model, (x,)).module()),
    ):
        result = fxrules.rewrite(graph, RULES, (x,))
        left = sum("relu" in str(node.target) for node in result.model.graph.nodes)
        print(f"level {name}: {result.report.fired['text.decompose_relu']} ReLUs taken apart, {left} left")
        print(result.compare((torch.randn(3, 8),)))
    print(result.model.code)


if __name__ == "__main__":
    main()
