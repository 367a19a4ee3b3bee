"""New constants: folded into modules and programs, shared by what they are computed from, never learning."""

from __future__ import annotations

from typing import Any

import torch
from sites import Site, calls, done, rule_of, site_of
from torch import Tensor, nn
from torch.export import ExportedProgram, export
from torch.export.graph_signature import InputKind
from torch.fx import symbolic_trace

from fxrules.engine.candidates import Mismatch
from fxrules.engine.owners import updated_program
from fxrules.engine.surgery import Applied

CONV_BN = rule_of("""
rule conv_bn(x: float[N, C, *S], w: const float[O, CG, *K], b: const float[O]?,
             mean: const float[O], var: const float[O],
             g: const float[O]?, beta: const float[O]?, eps: number) {
  match {
    y = conv2d(x, w, b?, **cfg)
    return batch_norm(y, mean, var, g?, beta?, training=False, momentum=_, eps=eps)
  }
  freeze   w, b, mean, var, g, beta
  let      s  = (g ?? 1) * rsqrt(var + eps)
  let      w2 = w * reshape(s, [-1, 1, *ones(K)])
  let      b2 = ((b ?? 0) - mean) * s + (beta ?? 0)
  rewrite  conv2d(x, w2, b2, **cfg)
  numerics rounding rtol=1e-4
}""")
X = torch.randn(2, 3, 8, 8)


class ConvNorm(nn.Module):
    """The same pair twice, then another one."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv, self.norm = nn.Conv2d(3, 3, 3, padding=1, groups=3, bias=False), nn.BatchNorm2d(3)
        self.last_conv, self.last_norm = nn.Conv2d(3, 4, 3, stride=2), nn.BatchNorm2d(4)
        for norm in (self.norm, self.last_norm):
            assert norm.running_mean is not None and norm.running_var is not None
            nn.init.uniform_(norm.running_var, 0.5, 2.0)
            nn.init.normal_(norm.running_mean)
            nn.init.normal_(norm.weight)
        self.eval()

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.norm(self.conv(x)))
        x = torch.relu(self.norm(self.conv(x)))
        return torch.relu(self.last_norm(self.last_conv(x)))


def fold_all(site: Site) -> list[Applied]:
    found: list[Applied] = []
    while isinstance(outcome := site.rewrite(CONV_BN, freeze=True), Applied):
        found.append(outcome)
    return found


def test_conv_and_norm_are_folded_in_a_traced_module() -> None:
    model = ConvNorm()
    traced = symbolic_trace(model)
    site = site_of(traced, (X,))
    before = dict(traced.named_parameters())
    assert len(fold_all(site)) == 3
    traced.recompile()
    assert calls(site.graph) == ["conv2d", "relu"] * 3
    torch.testing.assert_close(traced(X), model(X), rtol=1e-4, atol=1e-5)
    new = {name: value for name, value in traced.named_parameters() if name not in before}
    # The pair that is called twice is folded once: one weight and one bias for each of the two pairs.
    assert sorted(tuple(value.shape) for value in new.values()) == [(3,), (3, 1, 3, 3), (4,), (4, 3, 3, 3)]
    assert not any(value.requires_grad for value in new.values())
    assert all(dict(traced.named_parameters())[name] is value for name, value in before.items())


def test_equal_values_of_other_sources_are_not_shared() -> None:
    class Twins(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = (nn.Sequential(nn.Conv2d(3, 3, 1), nn.BatchNorm2d(3)) for _ in range(2))
            self.second.load_state_dict(self.first.state_dict())
            self.eval()

        def forward(self, x: Tensor) -> Tensor:
            result: Tensor = self.second(self.first(x))
            return result

    traced = symbolic_trace(Twins())
    count = len(list(traced.parameters()))
    assert len(fold_all(site_of(traced, (X,)))) == 2
    assert len(list(traced.parameters())) == count + 4


def test_folding_needs_freeze() -> None:
    outcome = site_of(symbolic_trace(ConvNorm()), (X,)).rewrite(CONV_BN)
    assert isinstance(outcome, Mismatch) and outcome.kind == "freeze"


def _fold_program(program: ExportedProgram) -> tuple[ExportedProgram, list[Any]]:
    site = site_of(program)
    assert len(fold_all(site)) == 3
    constants = list(site.journal.constants)
    return updated_program(program, program.graph_module, constants), constants


def test_a_program_gains_placeholders_among_its_parameters() -> None:
    model = ConvNorm()
    program = export(model, (X,))
    names = list(program.state_dict)
    updated, constants = _fold_program(program)
    kinds = [spec.kind for spec in updated.graph_signature.input_specs]
    assert kinds == sorted(kinds, key=[InputKind.PARAMETER, InputKind.BUFFER, InputKind.USER_INPUT].index)
    placeholders = [node.name for node in updated.graph.nodes if node.op == "placeholder"]
    assert placeholders == [spec.arg.name for spec in updated.graph_signature.input_specs]
    assert list(updated.state_dict) == names + [constant.target for constant in constants] and len(constants) == 4
    assert list(program.state_dict) == names
    assert all(updated.state_dict[name] is program.state_dict[name] for name in names)
    torch.testing.assert_close(updated.module()(X), model(X), rtol=1e-4, atol=1e-5)


def test_a_folded_program_survives_saving(tmp_path: Any) -> None:
    model = ConvNorm()
    updated, _ = _fold_program(export(model, (X,)))
    torch.export.save(updated, tmp_path / "folded.pt2")
    loaded = torch.export.load(tmp_path / "folded.pt2")
    torch.testing.assert_close(loaded.module()(X), model(X), rtol=1e-4, atol=1e-5)


def test_integer_constants_become_buffers() -> None:
    rule = rule_of("rule r(x: int[...], c: const int[...]) { match (x + c) + c freeze c let d = c + c rewrite x + d }")

    class Counted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("step", torch.tensor([1, 2, 3]))

        def forward(self, x: Tensor) -> Tensor:
            step = self.get_buffer("step")
            return (x + step) + step

    x = torch.tensor([10, 20, 30])
    program = export(Counted().eval(), (x,))
    site = site_of(program)
    assert isinstance(site.rewrite(rule, freeze=True), Applied)
    (constant,) = site.journal.constants
    updated = updated_program(program, program.graph_module, [constant])
    spec = updated.graph_signature.input_specs[1]
    assert (spec.kind, spec.persistent, spec.target) == (InputKind.BUFFER, True, constant.target)
    assert updated.module()(x).tolist() == [12, 24, 36]


def test_preserved_module_calls_that_are_gone_are_forgotten() -> None:
    class Block(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.neg(torch.relu(x))

    class Whole(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = Block(), Block()

        def forward(self, x: Tensor) -> Tensor:
            return torch.exp(self.second(torch.sin(self.first(x))))

    x = torch.randn(3)
    program = export(Whole(), (x,), preserve_module_call_signature=("first", "second"))
    site = site_of(program)
    done(site.rewrite(rule_of('rule r(x: Tensor) { match neg(relu(x)) rewrite tanh(x) numerics differs "test" }')))
    updated = updated_program(program, program.graph_module, site.journal.constants)
    kept = {call.fqn: call.signature is not None for call in updated.module_call_graph if call.fqn}
    assert kept == {"first": True, "second": False}
    torch.testing.assert_close(torch.export.unflatten(updated)(x), updated.module()(x))
