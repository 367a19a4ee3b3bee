"""A real GPT-2, exported, rewritten with the standard rules and checked: ``make demo``.

Twelve layers of the transformers implementation with random weights and eager attention. Every
hand-written GELU and every attention becomes one op; the outputs agree on inputs that the
rewriting never saw.
"""

from __future__ import annotations

import sys
from collections import Counter

import torch
from transformers import GPT2Config, GPT2LMHeadModel

import fxrules
from fxrules.engine.tools.differences import code_difference, hunks

LAYERS = 12
FUSED = ("gelu", "scaled_dot_product_attention")


def make_gpt2() -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
    """GPT-2 small with random weights, and token ids to run it on."""
    torch.manual_seed(0)
    model = GPT2LMHeadModel(GPT2Config(n_layer=LAYERS, use_cache=False, attn_implementation="eager"))
    return model.eval(), (torch.randint(0, 50257, (1, 32)),)


def count_ops(program: torch.export.ExportedProgram) -> Counter[str]:
    """How often each op family stands in the graph."""
    targets = [node.target for node in program.graph.nodes if node.op == "call_function"]
    return Counter(target.overloadpacket.__name__ for target in targets if isinstance(target, torch._ops.OpOverload))


def first_of_its_kind(part: str, parts: list[str]) -> bool:
    """Whether a part of the diff is the first to hold one of the fused ops."""
    return any(part == next((one for one in parts if f"aten.{name}." in one), None) for name in FUSED)


def main() -> int:
    model, inputs = make_gpt2()
    program = torch.export.export(model, inputs)

    result = fxrules.rewrite(program, fxrules.load("std"))

    print(result.report)
    print()
    parts = hunks(code_difference(program, result.model))
    print("\n".join(part for part in parts if first_of_its_kind(part, parts)))
    print(f"... and {len(parts)} changes like these in all")
    print()
    before, after = count_ops(program), count_ops(result.model)
    for name in FUSED:
        print(f"{name}: {before[name]} before, {after[name]} after")
    fresh = torch.randint(0, 50257, (1, 32), generator=torch.Generator().manual_seed(1))
    verdict = result.compare((fresh,))
    print(f"outputs on fresh inputs: {verdict}")
    return 0 if verdict and all(after[name] == LAYERS for name in FUSED) else 1


if __name__ == "__main__":
    sys.exit(main())
