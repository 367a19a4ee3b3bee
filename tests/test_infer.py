"""Rules from two Python functions: their text, what they match, and models moved over from `torch.fx`."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.export import ExportedProgram, export
from torch.fx import symbolic_trace
from transformers import GPT2Config, GPT2Model, LlamaConfig, LlamaModel

import fxrules
from fxrules import FxrulesError


# ------------------------------------------------------- functions as users have them
def gelu(input: Tensor) -> Tensor:
    """The GELU of GPT-2."""
    return 0.5 * input * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (input + 0.044715 * torch.pow(input, 3.0))))


def fused_gelu(input: Tensor) -> Tensor:
    return F.gelu(input, approximate="tanh")


def rotate_half(x: Tensor) -> Tensor:
    first = x[..., : x.shape[-1] // 2]
    second = x[..., x.shape[-1] // 2 :]
    return torch.cat((-second, first), dim=-1)


def rotary(q: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    return (q * cos) + (rotate_half(q) * sin)


def rotary_of_halves(q: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    half = q.shape[-1] // 2
    a, b = q.chunk(2, dim=-1)
    c, s = cos[..., :half], sin[..., :half]
    return torch.cat([a * c - b * s, b * c + a * s], dim=-1)


def attention(q: Tensor, k: Tensor, v: Tensor, scale: float, mask: Tensor) -> Tensor:
    weights = torch.matmul(q, k.transpose(-1, -2)) * scale + mask
    return F.softmax(weights, dim=-1) @ v


def fused_attention(q: Tensor, k: Tensor, v: Tensor, scale: float, mask: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale)


class Act(nn.Module):
    """A pattern as a module, with a module in it."""

    def __init__(self) -> None:
        super().__init__()
        self.act = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.act(x) + 1
        return out


def same(x: Any, *more: Any) -> Any:
    return x


# ------------------------------------------------------------------------ text
LINES: dict[str, tuple[Any, str, str]] = {
    "a parameter that is anything": (lambda x, y: torch.add(x, y).mul(2), "(x, y)", "(x + y) * 2"),
    "an int and a float": (
        lambda x, d, p: F.dropout(F.softmax(x, dim=d), p, False),
        "(x, d: int, p: number)",
        "dropout(softmax(x, d), p=p, training=False)",
    ),
    "a list": (lambda x, size: x.view(size).relu(), "(x, *size: int)", "relu(view(x, [*size]))"),
    "items of a list": (lambda x, a, b: x.view(a, b).abs(), "(x, a: int, b: int)", "abs(view(x, [a, b]))"),
    "a list of tensors": (lambda xs: torch.cat(xs, 1).exp(), "(*xs)", "exp(cat([*xs], dim=1))"),
    "a dtype": (lambda x, d: x.to(d) + 1, "(x, d: dtype)", "to(x, dtype=d) + 1"),
    "a bool": (lambda x, k: x.sum(-1, keepdim=k) + 1, "(x, k: bool)", "sum(x, dim=[-1], keepdim=k) + 1"),
    "literals": (
        lambda x: x.masked_fill(x > 0, float("-inf")).to(torch.float16) / 1e-5,
        "(x)",
        "to(masked_fill(x, gt(x, 0), -inf), dtype=f16) / 1e-5",
    ),
    "sizes": (
        lambda q, k: (q @ k.mT) / math.sqrt(q.size(-1)),
        "(q: Tensor[..., Q_LAST], k)",
        "q @ k.mT / sqrt(Q_LAST)",
    ),
    "sizes from both ends": (
        lambda x: x.view(x.shape[0], -1, x.shape[-2]),
        "(x: Tensor[X_0, ..., X_LAST2, X_LAST])",
        "view(x, [X_0, -1, X_LAST2])",
    ),
    "an index": (lambda x, n: x[:, None, ..., n:, 0] * 2, "(x, n: int)", "x[:, None, ..., n:, 0] * 2"),
    "names that are ops": (
        lambda sum, pi, mean: torch.sum(sum + mean) * pi,
        "(sum_, pi_, mean)",
        "sum(sum_ + mean) * pi_",
    ),
    "exact overloads": (lambda x: torch.ops.aten.add.Tensor(x, 1, alpha=2), "(x)", "add(x, 1, alpha=2)"),
    "negative numbers": (lambda x: -(x - 2) ** -0.5, "(x)", "-(x - 2) ** -0.5"),
    "defaults": (lambda x, w: F.conv2d(x, w, None, 2, 0).t(), "(x, w)", "t(conv2d(x, w, stride=[2, 2]))"),
}  # fmt: skip


@pytest.mark.parametrize("case", LINES)
def test_a_pattern_as_text(case: str) -> None:
    function, header, line = LINES[case]
    rule = fxrules.infer(function, function, name="r")
    assert rule.text == f"rule r{header} {{\n  match    {line}\n  rewrite  {line}\n  numerics rounding\n}}\n"


def test_what_is_used_twice_has_a_line_of_its_own() -> None:
    def pattern(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
        gate, up = torch.split(F.linear(x, w, b), 4, dim=-1)
        return F.silu(gate) * up + gate.sum()

    rule = fxrules.infer(pattern, lambda x, w: x + w, numerics="approx atol=1e-3 except nan", changes=["strides"])
    assert (
        rule.text
        == """rule pattern(x, w, b) {
  match {
    split_0   = split(linear(x, w, bias=b), 4, dim=-1)
    getitem_0 = split_0[0]
    return silu(getitem_0) * split_0[1] + sum(getitem_0)
  }
  rewrite  x + w
  numerics approx atol=1e-3 except nan
  changes  strides
}
"""
    )


def test_long_chains_are_cut_into_lines() -> None:
    def chain(x: Tensor) -> Tensor:
        for _ in range(60):
            x = torch.relu(x) + 1
        return x

    rule = fxrules.infer(chain, lambda x: x, changes=["aliasing"])
    assert len(rule.text.splitlines()) > 12
    result = fxrules.rewrite(symbolic_trace(lambda x: torch.exp(chain(torch.neg(x)))), rule)
    assert [node.name for node in result.model.graph.nodes] == ["x", "neg", "exp", "output"]


def test_a_module_is_a_pattern_too() -> None:
    assert "match    relu(x) + 1\n" in fxrules.infer(Act(), lambda x: x).text
    assert "match    relu(x) + 1\n" in fxrules.infer(symbolic_trace(Act()), symbolic_trace(Act()).graph).text


def test_the_doc_string_and_the_name_come_from_the_function() -> None:
    rule = fxrules.infer(gelu, fused_gelu)
    assert rule.name == "text.gelu"
    assert rule.text.splitlines()[:2] == ["rule gelu(input) {", '  """The GELU of GPT-2."""']


def test_functions_with_several_results_make_a_rule_with_several_results() -> None:
    def pattern(x: Tensor) -> tuple[Tensor, Tensor]:
        return torch.sin(x), torch.cos(x)

    def replacement(x: Tensor) -> tuple[Tensor, Tensor]:
        return torch.cos(x - torch.pi / 2), torch.sin(x + torch.pi / 2)

    rule = fxrules.infer(pattern, replacement)
    assert "return sin(x), cos(x)" in rule.text
    model = symbolic_trace(lambda x: torch.cos(x) * 2 + torch.sin(x))
    result = fxrules.rewrite(model, rule, stop_after=1)
    x = torch.linspace(-1, 1, 5)
    assert dict(result.report.fired) == {"text.pattern": 1}
    torch.testing.assert_close(result.model(x), model(x))


# ---------------------------------------------------------------------- refusals
REFUSED: dict[str, tuple[Any, Any, dict[str, Any], str]] = {
    "not used": (lambda x, y: torch.relu(x), same, {}, "the pattern does not use its parameter `y`"),
    "used in dead code": (lambda x, y: (torch.relu(x), y + 1)[0], same, {}, "does not use its parameter `y`"),
    "not in the pattern": (lambda x: x + 1, lambda x, y: x + y, {}, "takes `y`, which the pattern does not"),
    "another order": (lambda x, y: x - y, lambda y, x: x + y, {}, "give both the same order"),
    "any number": (lambda *x: x[0], lambda x: x, {}, "takes `\\*x`: a rule has a fixed number of leaves"),
    "no op": (lambda x: x, lambda x: x, {}, "the pattern calls no op"),
    "control flow": (lambda x: x if x.sum() > 0 else -x, lambda x: x, {}, "test_infer.py:.* cannot be traced"),
    "a tensor": (lambda x: x + torch.ones(2), lambda x: x, {}, "the pattern reads a tensor of its own"),
    "a weight": (nn.Linear(2, 2), lambda input: input, {}, "the pattern reads a tensor of"),
    "two kinds": (
        lambda x, p: F.dropout(x, p, False), lambda x, p: x @ p, {}, "`p` stands for a number and for a Tensor",
    ),
    "no family": (lambda x: x.no_such_method(), lambda x: x, {}, "calls the method `no_such_method`"),
    "a parameter for a text": (
        lambda x, a: F.gelu(x, approximate=a), lambda x, a: x, {}, "arguments that its op family cannot hold",
    ),
    "index by a list": (lambda x: x[[0, 1]] + 1, lambda x: x, {}, "indexes by a list"),
    "the shape of a value": (lambda x: x.view((x + 1).shape), lambda x: x, {}, "asks for the shape of `add`"),
    "the contract": (gelu, fused_gelu, {"numerics": "roundnig"}, "did you mean `rounding`?"),
    "no reason": (gelu, fused_gelu, {"numerics": "differs"}, "`differs` needs a reason"),
    "the change": (gelu, fused_gelu, {"changes": ["stride"]}, "did you mean `strides`?"),
    "the name": (gelu, fused_gelu, {"name": "my gelu"}, "`my gelu` is no name of a rule"),
    "no function": (None, fused_gelu, {}, "the pattern is None"),
    "results apart": (lambda x, y: (x.sin(), y.cos()), lambda x, y: (x, y), {}, "no tensor in common"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_rule(case: str) -> None:
    pattern, replacement, options, message = REFUSED[case]
    if replacement is same:
        replacement = lambda x, y: x  # noqa: E731
    with pytest.raises(FxrulesError, match=message):
        fxrules.infer(pattern, replacement, **options)


# ----------------------------------------------------------------- models moved over
def evaluated(model: nn.Module) -> nn.Module:
    return model.train(False)


def count(model: Any, name: str) -> int:
    graph = model.graph_module.graph if isinstance(model, ExportedProgram) else model.graph
    return sum(name in str(getattr(node.target, "__name__", node.target)) for node in graph.nodes)


def test_the_gelu_of_gpt2_as_the_peer_replaces_it_and_in_an_exported_program() -> None:
    """`torch.fx` needs the spelling of the pattern; one rule does for any, and for ATen."""

    class Mlp(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.up = nn.Linear(4, 8)

        def forward(self, x: Tensor) -> Tensor:
            return gelu(self.up(x))

    mlp, x = Mlp(), torch.randn(3, 4)
    peer = symbolic_trace(mlp)
    assert len(torch.fx.replace_pattern(peer, gelu, fused_gelu)) == 1
    result = fxrules.replace_pattern(symbolic_trace(mlp), gelu, fused_gelu)
    assert torch.equal(result.model(x), peer(x)) and result.model.code == peer.code

    config = GPT2Config(n_layer=2, n_head=2, n_embd=32, vocab_size=64, n_positions=32, bos_token_id=1, eos_token_id=2)
    model = evaluated(GPT2Model(config))
    inputs = ((torch.arange(8)[None],), {"use_cache": False})
    program = export(model, *inputs)
    moved = fxrules.replace_pattern(program, gelu, fused_gelu)
    assert dict(moved.report.fired) == {"text.gelu": 2}
    assert (count(moved.model, "gelu"), count(moved.model, "tanh"), count(program, "tanh")) == (2, 0, 2)
    assert moved.compare(inputs).ok
    written = fxrules.load(text=fxrules.infer(gelu, fused_gelu, name="other").text)
    assert dict(fxrules.rewrite(program, written).report.fired) == {"text.other": 2}


def test_the_rotary_embedding_of_llama() -> None:
    config = LlamaConfig(
        num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=2, hidden_size=32, intermediate_size=48,
        vocab_size=64, max_position_embeddings=32, bos_token_id=1, eos_token_id=2,
    )  # fmt: skip
    model = evaluated(LlamaModel(config))
    inputs = ((torch.arange(8)[None],), {"use_cache": False})
    program = export(model, *inputs)
    as_it_is = fxrules.replace_pattern(program, rotary, rotary_of_halves)
    (refusal,) = as_it_is.report["rotary"].refused
    assert as_it_is.model is program and (refusal.kind, refusal.count) == ("interface", 4)
    result = fxrules.replace_pattern(program, rotary, rotary_of_halves, changes=["strides"])
    assert dict(result.report.fired) == {"text.rotary": 4}
    assert result.compare(inputs).ok


def test_numbers_and_masks_are_captured() -> None:
    class Net(nn.Module):
        def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
            return torch.relu(attention(q, k, v, 0.25, mask)) + attention(v, k, q, 0.5, mask)

    inputs = (*(torch.randn(2, 3, 5, 5) for _ in range(3)), torch.randn(5, 5))
    captures: tuple[Any, ...] = ("export", "trace")
    for capture in captures:
        result = fxrules.replace_pattern(
            Net(),
            attention,
            fused_attention,
            inputs,
            capture=capture,
            changes=["strides"],
        )
        assert result.report["attention"].fired == 2 and result.compare(inputs).ok
        torch.testing.assert_close(result.model(*inputs), Net()(*inputs))


def test_options_reach_the_rewrite() -> None:
    graph = symbolic_trace(lambda x: torch.relu(torch.relu(x)) - 1)
    options: dict[str, Any] = {"numerics": 'differs "for the test"', "stop_after": 1}
    result = fxrules.replace_pattern(graph, lambda x: torch.relu(x), lambda x: torch.tanh(x), **options)
    assert (count(result.model, "relu"), count(result.model, "tanh"), count(graph, "relu")) == (1, 1, 2)
    inplace = fxrules.replace_pattern(
        graph, lambda x: torch.relu(x), lambda x: torch.tanh(x), (torch.ones(2),), inplace=True, **options
    )
    assert inplace.model is graph and count(graph, "relu") == 1
    with pytest.raises(FxrulesError, match="the rules do not come to an end"):
        fxrules.replace_pattern(
            graph, lambda x: torch.relu(x), lambda x: torch.relu(x) + 1, numerics=options["numerics"]
        )
