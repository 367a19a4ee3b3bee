"""`rewrite via`: helpers traced at a site, their calls spelled at its level."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import via_helpers
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram, export
from torch.fx import GraphModule, symbolic_trace
from via_rules import ROTARY, ROTARY_INPUTS, Relu, Rotary, X, helped, rewritten, tables

import fxrules
from fxrules.engine.examples import run_examples


def targets(model: GraphModule) -> list[Any]:
    return [node.target for node in model.graph.nodes if node.op.startswith("call")]


BOTH = pytest.mark.parametrize("capture", ["export", "trace"])


# ---------------------------------------------------------------------- what works
@BOTH
def test_rotary_from_half_of_the_tables(capture: str) -> None:
    rules = fxrules.load(text="from via_helpers import rotary\n" + ROTARY, trust=["via_helpers"])
    model = Rotary()
    result = fxrules.rewrite(model, rules, ROTARY_INPUTS, capture=capture)  # type: ignore[arg-type]
    assert dict(result.report.fired) == {"text.rotary_half": 1}
    assert result.compare(ROTARY_INPUTS).ok
    torch.testing.assert_close(result.model(*ROTARY_INPUTS), model(*ROTARY_INPUTS))
    called = targets(result.model)
    aten = torch.ops.aten
    if capture == "export":
        wanted = [aten.slice.Tensor] * 4 + [aten.mul.Tensor] * 2 + [aten.sub.Tensor] + [aten.mul.Tensor] * 2
        assert called[-12:] == [*wanted, aten.add.Tensor, aten.cat.default, aten.relu.default]
    assert aten.exp.default not in called and torch.exp not in called, "what nothing reads is not left in the graph"
    new = next(node for node in result.model.graph.nodes if node.name.startswith("cat"))
    assert new.meta["fxrules"] == ("text.rotary_half",) and tuple(new.meta["val"].shape) == (2, 3, 5, 8)


def test_rotary_of_a_program_of_any_batch_and_length() -> None:
    batch, length = Dim("batch"), Dim("length")
    shapes = ({0: batch, 2: length}, {0: length}, {0: length})
    program = export(Rotary(), ROTARY_INPUTS, dynamic_shapes=shapes)
    rules = fxrules.load(text="from via_helpers import rotary\n" + ROTARY, trust=["via_helpers"])
    result = fxrules.rewrite(program, rules)
    assert isinstance(result.model, ExportedProgram) and result.report.fired
    inputs = (torch.randn(3, 3, 7, 8), *tables(7))
    torch.testing.assert_close(result.model.module()(*inputs), program.module()(*inputs))
    assert result.model.range_constraints == program.range_constraints


@BOTH
def test_functions_methods_operators_and_properties_are_traced(capture: str) -> None:
    result = rewritten(Relu(), helped("spelled_many_ways(x)"), X, capture=capture)
    assert result.report.fired
    assert torch.equal(result.model(X), torch.tanh(via_helpers.spelled_many_ways(X)))
    if capture == "export":
        own = [target for target in targets(result.model) if isinstance(target, torch._ops.OpOverload)]
        assert len(own) > 10 and len(targets(result.model)) == len(own) + 3, "all but getitem and the guards are ATen"


@BOTH
def test_plain_values_reach_the_helper_as_they_are(capture: str) -> None:
    class Net(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.tanh(x.view(4, 4) * 3)

    rules = helped(
        "plus(x, p, *p, a, N, scale=s)",
        match="view(x, [*p]) * a",
        header="x: float[N, M], a: int",
        clauses="let s = a / 2",
    )
    result = rewritten(Net(), rules, X, capture=capture)
    assert torch.equal(result.model(X), torch.tanh(X + 1.5 * (8 + 8 + 3 + 4)))


@BOTH
def test_lists_of_tensors_are_lists_of_proxies(capture: str) -> None:
    class Net(nn.Module):
        def forward(self, x: Tensor, y: Tensor) -> Tensor:
            return torch.exp(torch.cat([x, y, x, y[:0]], 0))

    rules = helped("all_but_one(xs)", match="cat([*xs], dim=0)", header="*xs: float[...]")
    result = rewritten(Net(), rules, X, X + 1, capture=capture)
    assert result.report["r"].fired == 1, "the last of four is empty, that of three is not"
    assert torch.equal(result.model(X, X + 1), torch.exp(torch.cat([X, X + 1, X])))


@BOTH
def test_a_tensor_made_by_the_helper_is_made_in_the_graph(capture: str) -> None:
    result = rewritten(Relu(), helped("with_positions(x)"), X, capture=capture)
    assert torch.equal(result.model(X), torch.tanh(X + torch.arange(4.0)))
    assert dict(result.model.named_parameters()) == dict(result.model.named_buffers()) == {}
    assert (torch.arange if capture == "trace" else torch.ops.aten.arange.default) in targets(result.model)


def test_a_dropout_at_level_torch_follows_train_and_eval() -> None:
    result = rewritten(Relu(), helped("with_dropout(x)"), X, capture="trace")
    result.model.eval()
    assert torch.equal(result.model(X), torch.tanh(X))
    result.model.train()
    assert not torch.equal(result.model(X), torch.tanh(X))


@BOTH
def test_a_list_replaces_a_list(capture: str) -> None:
    class Net(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            first, second = torch.chunk(torch.relu(x), 2)
            return first * second

    result = rewritten(Net(), helped("halves(x)", match="chunk(relu(x), 2)"), X, capture=capture)
    assert torch.equal(result.model(X), (X[:2] + 1) * (X[2:] + 1))


def test_a_captured_value_may_come_back() -> None:
    rules = helped("given_back(x)", match="x * 1.0", clauses="changes aliasing, strides")
    result = fxrules.rewrite(symbolic_trace(lambda x: torch.tanh(x * 1.0)), rules, (X,), numerics="differs")
    assert targets(result.model) == [torch.tanh]


def test_folded_tensors_and_weights_are_proxies() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.arange(4.0))

        def forward(self, x: Tensor) -> Tensor:
            return torch.tanh(x * self.weight)

    plain = helped("scaled(x, w)", match="x * w", header="x: float[...], w: const float[D]")
    model = Net().eval()
    once = rewritten(model, plain, X, stop_after=1)
    assert torch.equal(once.model(X), model(X))
    folding = helped(
        "scaled(x, v)", match="x * w", header="x: float[...], w: const float[D]", clauses="freeze w let v = w + 1"
    )
    result = rewritten(model, folding, X, freeze=True, stop_after=1)
    assert torch.equal(result.model(X), torch.tanh(X * torch.tensor([1.0, 2.0, 3.0, 4.0])))
    inline = helped("scaled(x, w + 1)", match="x * w", header="x: float[...], w: const float[D]", clauses="freeze w")
    (rule,) = rewritten(model, inline, X, freeze=True).report.rules
    reason = "`scaled(x, w + 1)`: `w + 1` is a computed tensor: give it a name with `let`"
    assert reason in [one.reason for one in rule.refused if one.kind == "where"]


def test_symbolic_sizes_become_nodes() -> None:
    x = torch.randn(2, 3, 4)
    program = export(Relu(), (x,), dynamic_shapes=({0: Dim("b"), 1: Dim("n")},))
    result = fxrules.rewrite(
        program, helped("flattened(x)", header="x: float[A, B, C]"), stop_after=1, numerics="differs"
    )
    assert result.report.fired
    other = torch.randn(5, 6, 4)
    assert torch.equal(result.model.module()(other), torch.tanh(torch.relu(other)))


def test_a_tensor_of_a_symbolic_size_is_made_in_the_graph() -> None:
    program = export(Relu(), (X,), dynamic_shapes=({0: Dim("b")},))
    result = fxrules.rewrite(program, helped("with_rows(x)"), numerics="differs")
    assert result.report.fired
    other = torch.randn(6, 4)
    assert torch.equal(result.model.module()(other), torch.tanh(other + torch.arange(6.0)[:, None]))


def test_examples_of_such_rules_run() -> None:
    text = """from via_helpers import rotary
rule rotary_half(q: float[B, H, S, D], cos: float[S, D], sin: float[S, D]) {
  match    q * cos + cat([-q[..., D // 2 : D], q[..., 0 : D // 2]], dim=-1) * sin
  rewrite via rotary(q, cos, sin)
  example "f32" (q: f32[1, 2, 3, 4], cos: f32[3, 4], sin: f32[3, 4])
      q * cos + cat([-q[..., 2:4], q[..., 0:2]], dim=-1) * sin
   => cat([q[..., :2] * cos[..., :2] - q[..., 2:] * sin[..., :2],
           q[..., 2:] * cos[..., :2] + q[..., :2] * sin[..., :2]], dim=-1)
  example "declines" (q: f16[1, 2, 3, 4], cos: f16[3, 4], sin: f16[3, 4])
      q * cos + cat([-q[..., 2:4], q[..., 0:2]], dim=-1) * sin
   => unchanged
}"""
    outcomes = run_examples(fxrules.load(text=text, trust=["via_helpers"]))
    assert [outcome.problem for outcome in outcomes] == [""] * 4
