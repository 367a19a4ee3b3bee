"""Random programs rewritten by random rules, as long as one likes: ``python tests/soak.py [SECONDS] [SEED]``.

Every rewritten graph lints clean and gives the bits that the original gives, on outputs, on
inputs that it writes to, and in what shares memory with what.
"""

from __future__ import annotations

import sys
import warnings
from collections import Counter
from itertools import combinations
from random import Random
from time import monotonic
from typing import Any

import torch
from program_strategies import SHARING, draw_program, draw_rule
from torch import Tensor
from torch.export import export
from torch.fx import GraphModule

import fxrules
from fxrules.engine.ruleset import Rule, RuleSet


def try_one(seed: int) -> Counter[str]:
    """One random program, rewritten by rules drawn from it; what was tried, by kind. Raises AssertionError."""
    random, seen = Random(seed), Counter[str](programs=1)
    module, inputs = draw_program(random)
    module, level = _at_level(module, inputs, random.choice(("torch", "torch", "torch", "aten")))
    seen[level] += 1
    drawn = [draw_rule(random, module, f"r{number}") for number in range(random.randint(1, 4))]
    drawn += random.choice(([], [SHARING]))
    rules: list[Rule] = []
    for text in filter(None, drawn):
        try:
            rules.extend(fxrules.load(text=text))
        except fxrules.FxrulesError as error:
            seen[f"not loaded: {error.problems[0].code}"] += 1
    if not rules:
        return seen
    seen["rules"] += len(rules)
    limit = random.randint(1, 6)
    result = fxrules.rewrite(module, RuleSet(tuple(rules)), _clones(inputs), stop_after=limit)
    for rule in rules:
        fired = result.report.fired.get(rule.name, 0)
        seen["firings"] += fired
        seen["firings with several results"] += fired if len(rule.match.results) > 1 else 0
    seen.update(f"refused: {one.kind}" for report in result.report.rules for one in report.refused)
    result.model.graph.lint()
    try:
        before = _outcome(module, inputs)
    except RuntimeError:  # with other random numbers than it was drawn with it may fail: `bernoulli` of a value above 1
        return seen + Counter({"fails by itself": 1})
    after = _outcome(result.model, inputs)
    told = f"seed {seed}\n{module.code}\n{drawn}\n{result.model.code}"
    assert before[0] == after[0], told
    # a rule of SHARING that says `changes aliasing` may also end what is shared
    assert set(after[1]) <= set(before[1]) if SHARING in drawn else after[1] == before[1], told
    return seen


def _at_level(module: GraphModule, inputs: tuple[Tensor, ...], level: str) -> tuple[GraphModule, str]:
    if level == "aten":
        try:
            return export(module, _clones(inputs), strict=False).module(), "aten"
        except Exception:  # export refuses some programs, such as one that writes to part of its own output
            return module, "torch"
    return module, level


def _clones(inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return tuple(one.clone() for one in inputs)


def _outcome(module: GraphModule, inputs: tuple[Tensor, ...]) -> list[Any]:
    """All that a caller can tell: bits of outputs and inputs, strides, and which of them share memory."""
    torch.manual_seed(7)
    given = _clones(inputs)
    with torch.no_grad():
        found = module(*given)
    values = [*given, *(found if isinstance(found, tuple | list) else [found])]
    bits = [
        (
            value.dtype,
            value.shape,
            value.stride(),
            value.reshape(-1).clone(memory_format=torch.contiguous_format).view(torch.uint8).tolist(),
        )
        for value in values
    ]
    shared = [
        (first, second)
        for first, second in combinations(range(len(values)), 2)
        if values[first].untyped_storage().data_ptr() == values[second].untyped_storage().data_ptr()
    ]
    return [bits, shared]


def main(seconds: float, seed: int) -> None:
    """Try programs until the time is over, and say how many."""
    warnings.simplefilter("ignore")
    total, end = Counter[str](), monotonic() + seconds
    while monotonic() < end:
        total += try_one(seed)
        seed += 1
    for name, count in sorted(total.items(), key=lambda item: -item[1]):
        print(f"{count:8d}  {name}")
    print(f"all rewritten programs lint clean and give the same bits; the next seed is {seed}")


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 300.0, int(sys.argv[2]) if len(sys.argv) > 2 else 0)
