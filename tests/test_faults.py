"""Faults at every step of a rewrite leave the caller's graph and module as they were, bit for bit."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from sites import Site, rule_of, site_of
from snapshots import interrupt_at, snapshot
from torch import Tensor, nn
from torch.export import ExportedProgram, export
from torch.fx import GraphModule, symbolic_trace

from fxrules.engine import effects, emission, expansion, metadata, settling, surgery
from fxrules.engine.journal import Journal
from fxrules.engine.surgery import Applied

RULES = [
    rule_of(text)
    for text in (
        """rule sdpa(q: float[*B, L, E], k: float[*B, S, E], v: float[*B, S, Ev]) {
             match softmax(q @ k.mT, dim=-1) @ v
             rewrite contiguous(scaled_dot_product_attention(q, k, v, scale=1.0).mT).mT
             changes strides }""",
        """rule add_zero(x: Tensor) { match x + 0 rewrite x changes aliasing, strides }""",
        """rule folded(x: float[N, M], w: const float[K, M], b: const float[K]) {
             match linear(x, w, b)
             freeze w, b  let w2 = w * 2  let b2 = b * 2
             rewrite linear(x, w2, b2) / 2 + (b - b) }""",
        """rule regularise(x: float[...]) {
             match relu(x) as y keep y rewrite dropout(y, p=0.5) numerics differs "test" }""",
        """rule last(x: f32[N, M]) {
             match tanh(x) rewrite tanh(sigmoid(x)[..., 0:max([M, 2])]) numerics differs "test" }""",
    )
]
X = torch.randn(2, 6, 6)


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 6)

    def forward(self, x: Tensor) -> Tensor:
        y = torch.softmax(x @ x.transpose(-2, -1), dim=-1) @ x
        y = torch.relu(y.view(12, 6) + 0)
        return torch.tanh(self.linear(y))


def _exported() -> GraphModule:
    module: GraphModule = export(Model().eval(), (X,)).module()
    return module


def _traced() -> GraphModule:
    traced = symbolic_trace(Model().eval())
    metadata.annotate(traced, (X,))
    return traced


def _program() -> ExportedProgram:
    return export(Model().eval(), (X,))


KINDS: dict[str, Callable[[], GraphModule | ExportedProgram]] = {
    "exported": _exported,
    "traced": _traced,
    "program": _program,
}


@pytest.fixture(params=list(KINDS))
def model(request: pytest.FixtureRequest) -> GraphModule | ExportedProgram:
    made = KINDS[request.param]()
    _module(made).recompile()
    return made


def _module(model: GraphModule | ExportedProgram) -> GraphModule:
    return model.graph_module if isinstance(model, ExportedProgram) else model


def _picture(model: GraphModule | ExportedProgram) -> Any:
    module = _module(model)
    return snapshot(module.graph, module)


def _rewrite_everything(site: Site) -> int:
    return sum(isinstance(site.rewrite(rule, freeze=True), Applied) for rule in RULES)


STEPS = [
    *((Journal, name) for name in ("mark", "create", "erase", "replace_uses", "set_meta", "take_name")),
    *((Journal, name) for name in ("touch_module", "share", "_touch", "_touch_users", "_reserve", "_touch_bucket")),
    *((emission, name) for name in ("add_constant", "read_constant", "add_module", "emit", "emit_module")),
    *((surgery, name) for name in ("settle", "build", "sharing_problem", "_erase", "_redirect")),
    (settling, "_push"),
    *((expansion, name) for name in ("evaluate", "steps_of")),
    (effects.EffectIndex, "effect"),
    *((metadata.Propagation, name) for name in ("entries", "difference")),
]


def _faulty(real: Callable[..., Any], turn: int, after: bool, error: type[BaseException]) -> Callable[..., Any]:
    """The function, but its call number ``turn`` fails, before or after it has done its work."""
    calls = 0

    def call(*args: Any, **kwargs: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == turn and not after:
            raise error
        result = real(*args, **kwargs)
        if calls == turn:
            raise error
        return result

    return call


def test_the_faults_hit_everything_that_a_rewrite_does(monkeypatch: pytest.MonkeyPatch) -> None:
    called: set[str] = set()

    def counted(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            called.add(name)
            return real(*args, **kwargs)

        return call

    with monkeypatch.context() as patch:
        for home, name in STEPS:
            patch.setattr(home, name, counted(name, getattr(home, name)))
        for make in KINDS.values():
            assert _rewrite_everything(site_of(make())) == len(RULES)
    assert called == {name for _, name in STEPS}


@pytest.mark.parametrize(("after", "error"), [(False, KeyboardInterrupt), (True, RuntimeError)])
def test_an_exception_at_any_step_is_undone(
    model: GraphModule | ExportedProgram, error: type[BaseException], after: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = _picture(model)
    for home, name in STEPS:
        turn, done = 0, False
        while not done:
            turn += 1
            site = site_of(model)
            with monkeypatch.context() as patch:
                patch.setattr(home, name, _faulty(getattr(home, name), turn, after, error))
                try:
                    _rewrite_everything(site)
                    done = True
                except error:
                    pass
            site.journal.undo()
            assert _picture(model) == before, f"{name}, call {turn}"


FILES = (
    "engine/surgery.py", "engine/emission.py", "engine/expansion.py", "engine/journal.py", "engine/images.py",
    "engine/owners.py", "engine/settling.py", "torch/fx/graph.py", "torch/fx/node.py",
)  # fmt: skip


def test_an_interrupt_at_lines_all_over_a_rewrite_is_undone(model: GraphModule | ExportedProgram) -> None:
    before = _picture(model)
    line, done = 1, False
    while not done:
        site = site_of(model)
        sys.settrace(interrupt_at(line, FILES))
        try:
            _rewrite_everything(site)
            done = True
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(None)
        site.journal.undo()
        assert _picture(model) == before, f"after an interrupt at line {line}"
        line += 97
    assert line > 1500


def test_a_fault_in_one_rewrite_leaves_the_earlier_ones(
    model: GraphModule | ExportedProgram, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = site_of(model)
    assert isinstance(site.rewrite(RULES[0], freeze=True), Applied)
    between = _picture(model)
    with monkeypatch.context() as patch:
        patch.setattr(surgery, "_erase", _faulty(surgery._erase, 1, True, RuntimeError))
        with pytest.raises(RuntimeError):
            site.rewrite(RULES[1])
    assert _picture(model) == between
    assert isinstance(site.rewrite(RULES[1]), Applied)
