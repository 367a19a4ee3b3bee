"""Rewrites of module calls: opened, called again, left alone; and nothing of the model is lost."""

from __future__ import annotations

import pytest
import torch
from leaf_nets import GATE, Frozen, Gate, Net, Sum, X, graph_of, refusals, shown, traced
from torch import Tensor, nn
from torch.fx import symbolic_trace

import fxrules

# ------------------------------------------------------------------------ rewriting
OPENED = [
    "rewrite linear(x, m.proj.weight) * m.weight * m.scale * 2 + m.shift * 2",
    "rewrite m.proj(x) * m.weight * (m.scale * 2) + m.shift * 2",
    "rewrite (m.proj(x) * m.weight * m.scale + m.shift) * 2 + (m.bias ?? 0)",
    "rewrite x.matmul(m.proj.weight.T) * m.weight.reshape([1, -1]) + m.shift * 2",
    "rewrite m(x, k=2) * 1",
]


@pytest.mark.parametrize("clause", OPENED)
def test_a_module_is_opened_with_its_own_parameters(clause: str) -> None:
    gate = Gate()
    module = graph_of(lambda s, x, y: s.gate(x), gate=gate)
    rules = fxrules.load(text=GATE % clause)
    result = fxrules.rewrite(module, rules, (X, X), stop_after=1)
    assert dict(result.report.fired) == {"text.r": 1}, result.report
    assert bool(result.compare((X, X)))
    read = {node.target for node in result.model.graph.nodes if node.op == "get_attr"}
    assert all(target.startswith("gate.") for target in read)
    assert set(result.model.state_dict()) == set(module.state_dict()), "nothing is copied without freeze"
    (gradient,) = torch.autograd.grad(result.model(X, X).sum(), gate.weight, allow_unused=True)
    (before,) = torch.autograd.grad(module(X, X).sum(), gate.weight)
    torch.testing.assert_close(gradient, before)


def test_a_call_is_kept_and_wrapped() -> None:
    module = graph_of(lambda s, x, y: s.gate(torch.relu(x)) + s.gate(x), gate=Gate())
    text = 'match m(relu(x)) rewrite relu(m(x)) numerics differs "moved"'
    rules = fxrules.load(text=GATE.replace("match m(x) %s", text))
    result = fxrules.rewrite(module, rules, (X, X), numerics="differs")
    assert shown(result) == ["gate", "relu", "gate", "add"]
    gate = module.gate
    assert callable(gate)
    torch.testing.assert_close(result.model(X, X), torch.relu(gate(X)) + gate(X))
    assert result.model.gate is gate


def test_layer_norms_of_a_traced_net_become_rms_norms_of_the_same_weight() -> None:
    net = nn.Sequential(
        nn.Linear(6, 6), nn.LayerNorm(6, bias=False), nn.ReLU(), nn.LayerNorm(6), nn.LayerNorm(6)
    ).eval()
    net[4].load_state_dict({"weight": torch.rand(6), "bias": torch.zeros(6)})
    text = """rule r(m: module nn.LayerNorm, x: float[*B, D]) {
      match    m(x)
      where    m.bias is None, "it shifts"
      rewrite  rms_norm(x - mean(x, [-1], True), m.normalized_shape, m.weight, m.eps)
    }"""
    result = fxrules.rewrite(symbolic_trace(net), fxrules.load(text=text), (X,))
    assert shown(result) == ["0", "mean", "sub", "rms_norm", "2", "3", "4"]
    assert refusals(result) == {"where: it shifts": 2}
    assert bool(result.compare((X,)))


# ------------------------------------------------- what else a call does, or may do
FROZEN = """
rule frozen_norm(m: module leaf_nets.Frozen, x: float[N, C, *S]) {
  match    m(x)
  where    m.eps == 0.0
  let      s = m.weight * rsqrt(m.running_var)
  rewrite  x * reshape(s, [1, -1, *ones(S)]) + reshape(m.bias - m.running_mean * s, [1, -1, *ones(S)])
  numerics rounding
}
"""


class Block(nn.Module):
    def __init__(self, channels: int, eps: float) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn1 = Frozen(channels, eps)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn2 = Frozen(channels, eps)

    def forward(self, x: Tensor) -> Tensor:
        y = torch.relu(self.bn1(self.conv1(x)))
        return torch.relu(self.bn2(self.conv2(y)) + self.bn1(x))


def resnet() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(4, 8, 3), Frozen(8), Block(8, 0.0), Block(8, 1e-5))


def test_the_frozen_norms_of_a_resnet() -> None:
    module = traced(resnet().eval())
    result = fxrules.rewrite(module, fxrules.load(text=FROZEN), (X,), freeze=True)
    assert dict(result.report.fired) == {"text.frozen_norm": 4}
    assert refusals(result) == {"where: `m.eps == 0.0` does not hold": 3}
    assert bool(result.compare((torch.randn(3, 4, 9, 9),)))
    new = set(result.model.state_dict()) - set(module.state_dict())
    assert len(new) == 3, "the block's first norm is called twice and has one scale"


def test_a_module_in_training_mode_may_update_its_buffers() -> None:
    module = traced(resnet().train())
    result = fxrules.rewrite(module, fxrules.load(text=FROZEN.replace("s = m", "s = 1 # m").replace("* s", "")), (X,))
    assert result.model is module
    assert "effect: `_2_bn2` updates the state of module `2.bn2`" in str(result.report)


def test_a_query_finds_calls_that_no_rule_could_replace() -> None:
    module = traced(resnet().train())
    rules = fxrules.load(text="rule r(m: module, x: Tensor) { match m(x) }")
    found = [one.bindings["m"].path for one in fxrules.find(module, rules, (X,))]  # type: ignore[attr-defined]
    assert found == [
        "3.bn1",
        "3.bn2",
        "3.conv2",
        "3.bn1",
        "3.conv1",
        "2.bn1",
        "2.bn2",
        "2.conv2",
        "2.bn1",
        "2.conv1",
        "1",
        "0",
    ]


def test_a_class_that_no_rule_names_is_still_a_barrier() -> None:
    module = graph_of(lambda s, x, y: s.gate(x + 0) - s.sum(x), gate=Gate(), sum=Sum())
    rules = fxrules.load(text="rule r(m: module, x: Tensor) { match m(x) rewrite x }")
    result = fxrules.rewrite(module, rules, (X, X))
    assert "effect: `sum_1` calls module `sum` of class Sum" in str(result.report)


# ------------------------------------------------------------------ nothing is lost
def test_nothing_of_the_model_is_lost() -> None:
    seen: list[str] = []
    gate, spare, head = Gate(), nn.Linear(3, 3), nn.Linear(6, 6)
    net = Net(lambda s, x, y: s.head(s.gate(x)) + s.other(y), gate=gate, head=head, other=Gate(2.0))
    module = traced(net.eval())
    module.add_module("twin", gate)
    module.add_module("spare", spare)
    module.register_buffer("counter", torch.tensor(3))
    module.register_buffer("hidden", torch.tensor(4), persistent=False)
    module.train()
    spare.eval()
    gate.eval()
    head.register_forward_hook(lambda *_: seen.append("head"))
    spare.weight.requires_grad_(False)
    module.meta["mine"] = 1
    state, flags = set(module.state_dict()), {name: part.training for name, part in module.named_modules()}
    clauses = 'where m.scale == 0.5 rewrite x * m.weight numerics differs "shorter"'
    rules = fxrules.load(text=GATE % clauses)
    result = fxrules.rewrite(module, rules, (X, X), numerics="differs")
    assert dict(result.report.fired) == {"text.r": 1}
    model = result.model
    assert set(model.state_dict()) == state
    assert {name: part.training for name, part in model.named_modules()} == flags
    assert model.gate is gate and model.twin is gate and model.spare is spare, "never called again, and still there"
    assert dict(model.named_buffers())["hidden"].item() == 4 and "hidden" not in state
    assert not model.spare.weight.requires_grad
    assert model.meta["mine"] == 1
    seen.clear()  # facts were computed with fake tensors, which ran it too
    model(X, X)
    assert seen == ["head"]
    in_place = fxrules.rewrite(module, rules, (X, X), numerics="differs", inplace=True)
    assert in_place.model is module and module.gate is gate and set(module.state_dict()) == state


def test_tracing_keeps_the_modules_that_a_rule_names() -> None:
    net = resnet().eval()
    rules = fxrules.load(text=FROZEN)
    result = fxrules.rewrite(net, rules, (X,), freeze=True, capture="trace")
    assert dict(result.report.fired) == {"text.frozen_norm": 4}
    assert shown(result).count("3.bn1") == 2, "and so those that it refuses"
    torch.testing.assert_close(result.model(X), net(X), rtol=1e-4, atol=1e-4)
    assert [one.root.target for one in fxrules.find(net, rules, (X,), freeze=True, capture="trace")] == [
        "2.bn1", "2.bn2", "2.bn1", "1",
    ]  # fmt: skip


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.norm2 = nn.LayerNorm(16), nn.LayerNorm(16)
        self.attention = nn.MultiheadAttention(16, 2, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16))

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(x)
        y, _ = self.attention(y, y, y, need_weights=False)
        x = x + y
        out: Tensor = x + self.mlp(self.norm2(x))
        return out


TRANSFORMER = """
rule attention(m: module nn.MultiheadAttention, x: float[B, L, D]) {
  match {
    y, _ = m(x, x, x, need_weights=False)
    return y
  }
  where    m.batch_first and m.in_proj_weight is not None and m.bias_k is None and not m.add_zero_attn
  rewrite {
    q, k, v = chunk(linear(x, m.in_proj_weight, m.in_proj_bias), 3, dim=-1)
    heads   = [B, L, m.num_heads, m.head_dim]
    qh      = transpose(reshape(q, heads), 1, 2)
    kh      = transpose(reshape(k, heads), 1, 2)
    vh      = transpose(reshape(v, heads), 1, 2)
    out     = scaled_dot_product_attention(qh, kh, vh, dropout_p=m.dropout)
    return m.out_proj(reshape(transpose(out, 1, 2), [B, L, D]))
  }
  changes  strides, aliasing
}
rule norm_into_linear(n: module nn.LayerNorm, m: module nn.Linear, x: float[*B, D]) {
  match    m(n(x))
  where    uses(m) == 1 and uses(n) == 1 and n.elementwise_affine
  freeze   n, m
  let      w = m.weight * n.weight
  let      b = m.weight @ n.bias + (m.bias ?? 0)
  rewrite  linear(layer_norm(x, n.normalized_shape, None, None, n.eps), w, b)
}
"""


def test_a_traced_transformer_of_modules() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(Layer(), Layer(), nn.LayerNorm(16)).eval()
    for part in net.modules():
        if isinstance(part, nn.LayerNorm):
            nn.init.uniform_(part.weight, 0.5, 1.5)
            nn.init.normal_(part.bias)
    x = torch.randn(2, 5, 16)
    result = fxrules.rewrite(symbolic_trace(net), fxrules.load(text=TRANSFORMER), (x,), freeze=True)
    assert dict(result.report.fired) == {"text.attention": 2, "text.norm_into_linear": 2}
    assert "0.attention" not in shown(result) and shown(result).count("scaled_dot_product_attention") == 2
    assert bool(result.compare((torch.randn(2, 5, 16),)))
    assert len(set(result.model.state_dict()) - set(net.state_dict())) == 4, "a weight and a bias for each pair"
