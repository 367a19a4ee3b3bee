"""Insert a dropout after each ReLU, once, and switch it off with .eval().

The rules and the pipeline that runs them stand in `insert_dropout.rules`. At torch level the
dropout is a fresh nn.Dropout, so that it follows .train() and .eval() like any other.
Run it with `python examples/insert_dropout.py`.
"""

from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import fxrules

RULES = fxrules.load(Path(__file__).with_suffix(".rules"))


class Net(nn.Module):
    """ReLUs as people write them: a module, a function, a method, and one too many."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.head = nn.Linear(8, 32), nn.Linear(32, 32), nn.Linear(32, 4)
        self.act = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        h = self.act(self.first(x))
        h = h + F.relu(self.second(h))
        return torch.log_softmax(self.head(torch.relu(h.relu())), dim=-1)


def main() -> None:
    torch.manual_seed(0)
    net, x = Net(), torch.randn(16, 8)
    result = fxrules.rewrite(net, RULES, (x,), capture="trace", pipeline="finetune", numerics="differs")
    print(result.report)
    print(result.model.code)

    model = result.model.train()
    print("train: two runs agree:", torch.equal(model(x), model(x)))
    model.eval()
    print("eval:  two runs agree:", torch.equal(model(x), model(x)))
    print("eval:  as before the rewrite:", torch.equal(model(x), net.eval()(x)))
    print("parameters are shared:", all(a is b for a, b in zip(model.parameters(), net.parameters(), strict=True)))


if __name__ == "__main__":
    main()
