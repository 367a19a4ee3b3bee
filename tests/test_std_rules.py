"""The shipped library: every example of every rule, its numbers, its catalogue, and traps it must not fall into."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.fx import symbolic_trace

import fxrules
from fxrules.dsl import ast
from fxrules.dsl.formatter import format_file
from fxrules.dsl.parser import parse, read
from fxrules.engine.contracts import describe
from fxrules.engine.examples import LEVELS, cases_of, examples_of, run_example
from fxrules.engine.samples import draw_inputs

RULES = fxrules.load("std")
HOME = Path(__file__).resolve().parent.parent / "rules"
SPECIAL = (
    0.0,
    -0.0,
    1.0,
    -1.0,
    math.inf,
    -math.inf,
    math.nan,
    1e-40,
    -1e-40,
    3e-8,
    6e4,
    -6e4,
    1e30,
    -1e30,
    1e-3,
    300.0,
)


def cases(*levels: str, firing: bool = False, learning: bool = False) -> Iterator[object]:
    """Every example at each level; ``firing`` ones only, or those whose inputs have gradients, too."""
    for number, (rule, example, siblings) in enumerate(cases_of(RULES)):
        learns = not rule.freeze and any(value.is_floating_point() for value in draw_inputs(example, 0))
        left_out = (firing and example.expected is None) or (learning and not learns)
        for level in () if left_out else levels:
            yield pytest.param(rule, example, siblings, level, id=f"{rule.name}-{number}-{level}")


# ------------------------------------------------------------------ what every rule has
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_rule_explains_itself(rule: fxrules.Rule) -> None:
    kinds = [type(clause) for clause in rule.ast.clauses]
    expected = [example.expected for example in examples_of(rule)]
    assert rule.ast.doc
    assert kinds.count(ast.Numerics) == 1
    assert None in expected, "no example stays unchanged"
    assert any(one is not None for one in expected), "no example fires"
    assert all(clause.reason for clause in rule.ast.clauses if isinstance(clause, ast.Where))


@pytest.mark.parametrize(("rule", "example", "siblings", "level"), list(cases(*LEVELS)))
def test_an_example_does_what_it_says(
    rule: fxrules.Rule, example: ast.Example, siblings: tuple[fxrules.Rule, ...], level: str
) -> None:
    outcome = run_example(rule, example, level, siblings)
    assert outcome.problem == "", outcome.place
    if example.expected is not None and level == "aten":
        calls = [draw_inputs(example, seed) for seed in range(3)]
        compared = fxrules.compare(outcome.before, outcome.after, calls, contract=rule.numerics, changes=rule.changes)
        assert compared, f"{outcome.place}\n{compared}"


@pytest.mark.parametrize(("rule", "example", "siblings", "level"), list(cases("aten", firing=True)))
def test_special_values_go_the_same_way(
    rule: fxrules.Rule, example: ast.Example, siblings: tuple[fxrules.Rule, ...], level: str
) -> None:
    """Zeros of both signs, infinities, nan, tiny and huge values, in every tensor in turn."""
    outcome = run_example(rule, example, level, siblings)
    assert outcome.after is not outcome.before
    for at, plain in enumerate(draw_inputs(example, 0)):
        if plain.is_floating_point():
            inputs = [*draw_inputs(example, 0)]
            inputs[at] = special(plain)
            compared = fxrules.compare(
                outcome.before, outcome.after, tuple(inputs), contract=rule.numerics, changes=rule.changes
            )
            assert compared, f"{outcome.place}\n{compared}"


@pytest.mark.parametrize(("rule", "example", "siblings", "level"), list(cases("torch", firing=True, learning=True)))
def test_gradients_stay(
    rule: fxrules.Rule, example: ast.Example, siblings: tuple[fxrules.Rule, ...], level: str
) -> None:
    outcome = run_example(rule, example, level, siblings)
    inputs = draw_inputs(example, 0)
    coarse = 2e-2 if any(value.dtype is torch.bfloat16 for value in inputs) else 1e-5
    for old, new in zip(gradients(outcome.before, inputs), gradients(outcome.after, inputs), strict=True):
        assert (new.double() - old.double()).norm() <= coarse * old.double().norm()


def gradients(model: nn.Module, inputs: tuple[Tensor, ...]) -> list[Tensor]:
    """The gradients of a random sum of the outputs by each floating input."""
    leaves = [value.clone().requires_grad_(value.is_floating_point()) for value in inputs]
    out = model(*leaves)
    weights = torch.randn(out.shape, generator=torch.Generator().manual_seed(7)).to(out.dtype)
    (out * weights).sum().backward()
    return [leaf.grad for leaf in leaves if leaf.grad is not None]


def special(like: Tensor) -> Tensor:
    """Special values, one for each row of the last dim where there are rows, so that they do not spread to all."""
    values = torch.tensor(SPECIAL, dtype=torch.float64)
    if like.ndim < 2:
        return values[: like.numel()].reshape(like.shape).to(like.dtype)
    rows = like.numel() // like.shape[-1]
    chosen = values.repeat(rows // len(SPECIAL) + 1)[:rows].reshape(like.shape[:-1])
    out = like.clone()
    out[..., 0] = chosen.to(like.dtype)
    return out


# ------------------------------------------------------------------------- the catalogue
def catalogue() -> str:
    """The table of ``rules/README.md``."""
    lines = ["| rule | what | contract | changes |", "|---|---|---|---|"]
    for rule in RULES:
        name = rule.name.partition("[")[0]
        what = " ".join((rule.ast.doc or "").strip().partition("\n\n")[0].split())
        changes = ", ".join(sorted(rule.changes | ({"needs `freeze=True`"} if rule.freeze else set())))
        line = f"| `{name}` | {what.replace('|', '&#124;')} | {describe(rule.numerics)} | {changes} |"
        if line not in lines:
            lines.append(line)
    return "\n".join(lines)


def test_the_catalogue_lists_every_rule() -> None:
    text = (HOME / "README.md").read_text()
    assert catalogue() in text, f"put this table into rules/README.md:\n{catalogue()}"


@pytest.mark.parametrize("path", sorted((HOME / "std").glob("*.rules")), ids=lambda path: path.stem)
def test_the_files_are_formatted(path: Path) -> None:
    source = read(path)
    tree, problems = parse(source)
    assert not problems
    assert format_file(tree) == source.text


# ------------------------------------------------------------------------------- traps
def fired(model: nn.Module, *inputs: Tensor, freeze: bool = False) -> dict[str, int]:
    """What fires on a traced model; the numbers must agree, too."""
    traced = symbolic_trace(model)
    result = fxrules.rewrite(traced, RULES, inputs, freeze=freeze)
    assert result.compare(inputs), result.report
    return dict(result.report.fired)


class Scaled(nn.Module):
    """Attention with the scale applied to q and again to the scores."""

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return torch.softmax((q * 0.5) @ k.transpose(-1, -2) * 0.5, -1) @ v


def test_two_scales_multiply() -> None:
    q, k, v = torch.randn(3, 2, 4, 8, 16)
    result = fxrules.rewrite(symbolic_trace(Scaled()), RULES, (q, k, v))
    (node,) = result.model.graph.find_nodes(op="call_function", target=torch.nn.functional.scaled_dot_product_attention)
    assert node.kwargs["scale"] == 0.25
    assert result.compare((q, k, v))


class Masked(nn.Module):
    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        return torch.softmax(q @ k.mT / 4 + mask, -1) @ v


@pytest.mark.parametrize("scale", [-0.5, 0.0, 3])
def test_unusual_scales_keep_their_meaning(scale: float) -> None:
    class Net(nn.Module):
        def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            return torch.softmax(q @ k.transpose(1, 2) * scale, -1) @ v

    q, k, v = torch.randn(3, 4, 8, 16)
    assert fired(Net(), q, k, v) == {"std.attention.sdpa": 1}


def test_division_by_zero_stays() -> None:
    class Net(nn.Module):
        def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            return torch.softmax(q @ k.transpose(1, 2) / 0, -1) @ v

    q, k, v = torch.randn(3, 4, 8, 16)
    assert fired(Net(), q, k, v) == {}


def test_partly_masked_rows_agree() -> None:
    q, k, v = torch.randn(3, 2, 4, 8, 16)
    mask = torch.zeros(8, 8).masked_fill(torch.ones(8, 8).triu(1).bool(), -math.inf)
    assert fired(Masked(), q, k, v, mask) == {"std.attention.sdpa": 1}


@pytest.mark.parametrize(
    "other",
    [torch.zeros(8, dtype=torch.float32), torch.zeros(8, 8, dtype=torch.float64), torch.ones(8, 8, dtype=torch.bool)],
    ids=["one dim", "other dtype", "bool"],
)
def test_masks_that_the_fused_op_reads_otherwise_stay(other: Tensor) -> None:
    q, k, v = torch.randn(3, 2, 4, 8, 16)
    v = v.to(torch.promote_types(v.dtype, other.dtype))
    assert fired(Masked(), q, k, v, other) == {}


# ----------------------------------------------------------------- batch norms that stay
def norm(**options: object) -> nn.BatchNorm2d:
    made = nn.BatchNorm2d(4, **options)  # type: ignore[arg-type]
    if made.running_mean is not None and made.running_var is not None:
        made.running_mean.normal_()
        made.running_var.uniform_(0.5, 2)
    return made


def folds(*layers: nn.Module, x: Tensor | None = None) -> int:
    model = nn.Sequential(*layers).eval()
    found = fired(model, torch.randn(2, 3, 8, 8) if x is None else x, freeze=True)
    return sum(count for name, count in found.items() if "fold_batch_norm" in name)


def test_a_norm_is_folded_into_the_convolution_before_it() -> None:
    assert folds(nn.Conv2d(3, 4, 3, stride=2, padding=1), norm()) == 1
    assert folds(nn.Conv2d(3, 4, 3, bias=False), norm(affine=False, eps=0.1)) == 1
    assert folds(nn.Conv2d(3, 4, 3, padding="same", dilation=2), norm(momentum=0.3)) == 1


def test_what_is_no_plain_convolution_is_not_folded() -> None:
    assert folds(nn.Conv2d(3, 4, 3, padding=1, padding_mode="circular"), norm()) == 0
    assert folds(nn.ConvTranspose2d(3, 4, 3), norm()) == 0
    assert folds(nn.Conv2d(3, 4, 3), nn.ReLU(), norm()) == 0


def test_a_norm_that_uses_the_batch_is_not_folded() -> None:
    assert folds(nn.Conv2d(3, 4, 3), norm(track_running_stats=False)) == 0
    training = nn.Sequential(nn.Conv2d(3, 4, 3), norm()).train()
    result = fxrules.rewrite(symbolic_trace(training), RULES, (torch.randn(2, 3, 8, 8),), freeze=True)
    assert dict(result.report.fired) == {}


def test_a_norm_with_a_hook_is_not_folded() -> None:
    hooked = norm()
    hooked.register_forward_hook(lambda module, args, out: out * 2)
    assert folds(nn.Conv2d(3, 4, 3), hooked) == 0


def test_a_norm_in_another_dtype_is_folded_in_the_dtype_of_the_convolution() -> None:
    x = torch.randn(2, 3, 8, 8).bfloat16()
    assert folds(nn.Conv2d(3, 4, 3).bfloat16(), norm(), x=x) == 1


if __name__ == "__main__":
    print(catalogue())
