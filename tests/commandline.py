"""A folder with models and rules to run the command line in."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent / "src"
GELU = """rule gelu(x: float[...]) {
  match    0.5 * x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x ** 3)))
  rewrite  gelu(x, approximate="tanh")
}
"""
WRONG_GELU = GELU.replace('gelu(x, approximate="tanh")', "relu(x)")
UNTIDY = "rule r(x: Tensor) { match   (x+0)  rewrite x }"
TIDY = "rule r(x: Tensor) {\n  match    x + 0\n  rewrite  x\n}\n"
MODELS = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x):
        x = self.linear(x)
        return 0.5 * x * (1 + torch.tanh(0.7978845608028654 * (x + 0.044715 * x**3)))


class Branch(nn.Module):
    def forward(self, x):
        return x if x.sum() > 0 else -x


def make_net():
    print("building")
    return Net().eval(), (torch.randn(4, 8, generator=torch.Generator().manual_seed(0)),)


def make_bare():
    return Net().eval()


def make_branch():
    return Branch(), (torch.ones(3),)


def make_failure():
    raise ValueError("the weights are missing")


number = 3
ready = Net().eval()
"""

PAIR = """
from dataclasses import dataclass

import torch


@dataclass
class Pair:
    a: torch.Tensor
    b: torch.Tensor


torch.export.register_dataclass(Pair, serialized_type_name="pair_here.Pair")


class Net(torch.nn.Module):
    def forward(self, x):
        return Pair(x + 1, x * 2)


def make():
    return Net(), (torch.ones(2),)
"""


def fill(folder: Path) -> Path:
    """Write a module of models and a file with one rule into a folder."""
    write(folder / "models_here.py", MODELS)
    write(folder / "gelu.rules", GELU)
    return folder


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def run_python(code: str, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *(["-c", code] if code else ["-m", "fxrules"]), *arguments]
    environment = {"PYTHONPATH": str(SOURCE), "PATH": "/usr/bin:/bin"}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
