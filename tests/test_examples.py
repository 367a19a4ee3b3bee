"""Every program in examples/ runs and prints what it is there to show."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import fxrules
from fxrules.engine.examples import run_examples

ROOT = Path(__file__).resolve().parent.parent
PROGRAMS = sorted((ROOT / "examples").glob("*.py"))

# Runs of spaces count as one.
SHOWN = {
    "demo_gpt2": [
        "std.activation.gelu_tanh fired 12 of 12 tried",
        "gelu: 0 before, 12 after",
        "scaled_dot_product_attention: 0 before, 12 after",
        "outputs on fresh inputs: agree (rounding",
    ],
    "custom_op": [
        "text.fuse fired 2",
        "text.merge fired 1",
        "torch.ops.acme.scaled_relu.default(x, 2.0)",
        "ok buffer counter after the call float32[] equal bits",
    ],
    "decompose_relu": [
        "level torch: 4 ReLUs taken apart, 0 left",
        "level aten: 4 ReLUs taken apart, 0 left",
        "agree (bitwise, except nan, signed_zero",
        "= torch.ops.aten.where.ScalarOther(",
    ],
    "exact_targets": [
        "text.add_becomes_sub: its contract is `differs`: allow it with numerics='differs'",
        "sub = torch.sub(x, y)",
        "add_1 = x + y",
        "torch.add(x, y, alpha = 2)",
        "[1512.0, 8019.0] -> [1008.0, 4455.0]",
    ],
    "first_rule": ["text.merge_scales fired 1", "agree (rounding"],
    "find_patterns": ["<text.unscaled_attention at softmax_1: 3 nodes>", "'E': 64"],
    "insert_dropout": [
        "1. fixpoint double_relu: insert_dropout.double_relu 1",
        "2. once insert_dropout: insert_dropout.insert_dropout 3",
        "train: two runs agree: False",
        "eval: two runs agree: True",
        "eval: as before the rewrite: True",
        "parameters are shared: True",
    ],
    "swap_relu": [
        "its contract is `differs`: allow it with numerics='differs'",
        "swap_relu.leaky_relu fired 4 of 4 tried differs",
        "torch.nn.functional.leaky_relu(linear, 0.02)",
        "torch.ops.aten.leaky_relu.default(linear, 0.02)",
        "as written by hand: True",
    ],
    "frozen_norms": [
        "text.fold_frozen_norm fired 5",
        "text.fold_frozen_norm: 4 × where: the convolution is used elsewhere too",
        "agree (rounding",
    ],
    "resnet_fold": [
        "freeze: this bakes parameter values into new constants: pass freeze=True",
        "std.convolution.fold_batch_norm[conv2d] fired 9",
        "BatchNorms: 9 -> 0",
        "agree (rounding",
    ],
    "transformer_block": [
        "std.activation.gelu_erf fired 1",
        "std.attention.sdpa fired 1",
        "std.normalization.layer_norm fired 2",
        "+ gelu = torch.ops.aten.gelu.default(",
        "agree (rounding",
    ],
}


def shown_in_readme() -> list[str]:
    """What the README shows of the demo, without the lines that hold times or depend on the processor."""
    block = (ROOT / "README.md").read_text().partition("```diff\n")[2].partition("```")[0]
    lines = [re.sub(" +", " ", line) for line in block.splitlines() if " ms" not in line and "RMS" not in line]
    assert len(lines) > 20, "the README shows the demo in a diff block"
    return lines


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_a_program_shows_what_it_promises(program: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    run = subprocess.run(
        [sys.executable, str(program)], env=environment, capture_output=True, text=True, check=False, timeout=300
    )
    assert run.returncode == 0, run.stderr
    printed = re.sub(" +", " ", run.stdout)
    promised = [*SHOWN[program.stem], *(shown_in_readme() if program.stem == "demo_gpt2" else ())]
    missing = [line for line in promised if line not in printed]
    assert missing == [], run.stdout


def test_every_program_is_listed() -> None:
    listed = (ROOT / "examples" / "README.md").read_text()
    assert [program.name for program in PROGRAMS if f"`{program.name}`" not in listed] == []


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.rules")), ids=lambda path: path.stem)
def test_a_rule_file_beside_a_program_is_right(path: Path) -> None:
    assert path.with_suffix(".py") in PROGRAMS
    outcomes = run_examples(fxrules.load(path))
    assert outcomes and [outcome.problem for outcome in outcomes] == [""] * len(outcomes)
