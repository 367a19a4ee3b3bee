"""Search a model without changing it: a rule without `rewrite` is a query.

Run it with `python examples/find_patterns.py`.
"""

import torch
from torch import Tensor, nn

import fxrules

QUERIES = fxrules.load(
    text='''
rule unscaled_attention(q: float[*B, L, E], k: float[*B, S, E]) {
  """Attention scores that no one scaled: the softmax saturates where E is large."""
  match    softmax(q @ k.mT as scores, dim=-1)
  where    E >= 32
}
'''
)


class Attention(nn.Module):
    def __init__(self, width: int, scaled: bool) -> None:
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(width, width) for _ in range(3))
        self.scale = width**-0.5 if scaled else None

    def forward(self, x: Tensor) -> Tensor:
        scores = self.q(x) @ self.k(x).transpose(-1, -2)
        if self.scale is not None:
            scores = scores * self.scale
        return torch.softmax(scores, dim=-1) @ self.v(x)


def main() -> None:
    model = nn.Sequential(
        Attention(64, scaled=True), Attention(64, scaled=False), nn.Linear(64, 16), Attention(16, scaled=False)
    )
    for found in fxrules.find(model, QUERIES, (torch.randn(2, 10, 64),)):
        print(found, {name: found.bindings[name] for name in ("q", "k", "E")})


if __name__ == "__main__":
    main()
