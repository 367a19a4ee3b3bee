"""Rules with several results: where they are found, where their replacement stands, what is refused."""

from __future__ import annotations

from collections.abc import Callable

import models
import pytest
import torch
import torch.nn.functional as F
from sites import calls, done, exported, refused, rule_of, run, site_of, traced
from torch import Tensor, nn
from torch.export import export

import fxrules

X, R = torch.linspace(-2, 2, 12).view(3, 4), torch.linspace(1, 3, 12).view(3, 4)

SINCOS = """
rule sincos(x: f32|f64[...]) {
  match {
    s = sin(x)
    c = cos(x)
    return s, c
  }
  rewrite {
    z = polar(ones_like(x), x)
    return contiguous(z.imag), contiguous(z.real)
  }
}"""
ADD_NORM = """
rule add_norm(x: float[*B, D], r: float[*B, D], w: float[D], eps: number) {
  match {
    s = x + r
    return rms_norm(s, [D], w, eps=eps), s
  }
  rewrite {
    t = x - neg(r)
    return rms_norm(t, [D], w, eps=eps), t
  }
}"""
SAME = """
rule same(x: Tensor) {
  match {
    a = relu(x)
    b = relu(x)
    return a, b
  }
  keep a
  rewrite a
  changes aliasing
}"""


class Norm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.tensor([1.0, 2.0, 3.0, 4.0]))

    def forward(self, x: Tensor, r: Tensor) -> tuple[Tensor, Tensor]:
        s = x + r
        return F.rms_norm(s, [4], self.w, 1e-5), torch.tanh(s)


# ------------------------------------------------------------------ found and replaced
def test_an_inner_value_that_is_a_result_may_have_readers() -> None:
    for site in (traced(Norm(), X, R), exported(Norm(), X, R), site_of(export(Norm(), (X, R)))):
        applied = done(site.rewrite(rule_of(ADD_NORM)))
        assert len(applied.new_nodes) == 3 and len(applied.erased) == 2
        assert [name.partition(".")[0] for name in calls(site.graph) if "guards" not in name] == [
            "neg", "sub", "rms_norm", "tanh",
        ]  # fmt: skip
    model = Norm()
    torch.testing.assert_close(run(traced(model, X, R), X, R), model(X, R))


def test_results_side_by_side_are_replaced_at_once() -> None:
    def forward(x: Tensor) -> Tensor:
        return torch.sin(x) * 2 + torch.cos(x)

    site = traced(forward, X)
    applied = done(site.rewrite(rule_of(SINCOS)))
    assert [node.name for node in applied.erased] == ["cos", "sin"]
    torch.testing.assert_close(run(site, X), forward(X))


def test_what_reads_a_result_too_early_moves_behind_the_replacement() -> None:
    def forward(x: Tensor, r: Tensor) -> Tensor:
        u = torch.tanh(torch.sin(x)) + 1
        k = r * 2
        return (torch.cos(x) * u + k) / (u + 3)

    site = traced(forward, X, R)
    done(site.rewrite(rule_of(SINCOS)))
    assert calls(site.graph) == [
        "mul", "ones_like", "polar", "imag", "contiguous", "real", "contiguous", "tanh", "add", "mul", "add", "add",
        "truediv",
    ]  # fmt: skip
    site.graph.lint()
    torch.testing.assert_close(run(site, X, R), forward(X, R))


def test_each_result_has_one_partner() -> None:
    def forward(x: Tensor) -> Tensor:
        return torch.sin(x) + torch.sin(x) * torch.cos(x)

    model = fxrules.rewrite(torch.fx.symbolic_trace(forward), fxrules.load(text=SINCOS), (X,))
    assert dict(model.report.fired) == {"text.sincos": 1}
    assert sum(node.target is torch.sin for node in model.model.graph.nodes) == 1
    torch.testing.assert_close(model.model(X), forward(X))


def test_a_kept_result_needs_no_new_value() -> None:
    def forward(x: Tensor) -> Tensor:
        return torch.relu(x) + x.relu() * F.relu(x)

    result = fxrules.rewrite(torch.fx.symbolic_trace(forward), fxrules.load(text=SAME), (X,))
    assert dict(result.report.fired) == {"text.same": 2}
    assert len(result.model.graph.nodes) == 5
    torch.testing.assert_close(result.model(X), forward(X), rtol=0, atol=0)


def test_three_projections_of_a_real_model_become_one() -> None:
    text = """
rule merge_qkv(x: float[*B, D], wq: const float[E, D], wk: const float[F, D], wv: const float[G, D],
               bq: const float[E], bk: const float[F], bv: const float[G]) {
  match {
    q = linear(x, wq, bq)
    k = linear(x, wk, bk)
    v = linear(x, wv, bv)
    return q, k, v
  }
  freeze wq, wk, wv, bq, bk, bv
  let w = cat([wq, wk, wv])
  let b = cat([bq, bk, bv])
  rewrite {
    y = linear(x, w, b)
    return y[..., :E], y[..., E : E + F], y[..., E + F :]
  }
  changes aliasing, strides
}"""
    inputs = models.draw_inputs("bert")
    program = export(models.build("bert"), (), inputs, strict=False)
    result = fxrules.rewrite(program, fxrules.load(text=text), freeze=True)
    assert dict(result.report.fired) == {"text.merge_qkv": models.LAYERS}
    linear = torch.ops.aten.linear.default
    count = [len(one.graph.find_nodes(op="call_function", target=linear)) for one in (program, result.model)]
    assert count[1] == count[0] - 2 * models.LAYERS
    assert result.compare(models.draw_inputs("bert", seed=1))


def test_a_program_keeps_the_names_of_several_outputs() -> None:
    class Both(nn.Module):
        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            return torch.cos(x), torch.sin(x)

    program = export(Both(), (X,))
    result = fxrules.rewrite(program, fxrules.load(text=SINCOS))
    assert dict(result.report.fired) == {"text.sincos": 1}
    names = [spec.arg.name for spec in program.graph_signature.output_specs]
    assert [spec.arg.name for spec in result.model.graph_signature.output_specs] == names
    torch.testing.assert_close(result.model.module()(X), Both()(X))


def test_a_query_with_several_results_finds_all_its_nodes() -> None:
    text = SINCOS[: SINCOS.index("  rewrite")] + "}"
    found = fxrules.find(torch.fx.symbolic_trace(lambda x: torch.sin(x) + torch.cos(x)), fxrules.load(text=text), (X,))
    assert [[node.name for node in one.nodes] for one in found] == [["sin", "cos"]]


# ------------------------------------------------------------------ refused at the site
def write_between(x: Tensor, r: Tensor) -> Tensor:
    u = torch.sin(x) + 1
    r.add_(1)
    return torch.cos(x) + u


def view_then_write(x: Tensor) -> Tensor:
    s = torch.sin(x)
    c = torch.cos(x)
    s.add_(1)
    return s + c


KNOT = """
rule knot(x: Tensor, y: Tensor) {
  match {
    s = relu(x)
    return s, s * y
  }
  rewrite { return sigmoid(y), tanh(x) }
}"""
SHARED = SINCOS.replace("contiguous(z.imag), contiguous(z.real)", "z, z").replace("polar(ones_like(x), x)", "exp(x)")


def made_of_each_other(x: Tensor) -> Tensor:
    s = torch.relu(x)
    return s * torch.exp(s)


REFUSED: list[tuple[str, Callable[..., Tensor], tuple[Tensor, ...], str, str]] = [
    (KNOT, made_of_each_other, (X,), "structure", "one result is made of another by way of `exp`"),
    (SINCOS, write_between, (X, R), "effect", "`add` would have to move behind it"),
    (SHARED, lambda x: torch.sin(x) + torch.cos(x), (X,), "interface", "the new values of `sin` and `cos` may share"),
]


@pytest.mark.parametrize(("text", "function", "inputs", "kind", "reason"), REFUSED, ids=["knot", "write", "shared"])
def test_refused_with_the_graph_as_it_was(
    text: str, function: Callable[..., Tensor], inputs: tuple[Tensor, ...], kind: str, reason: str
) -> None:
    site = traced(function, *inputs)
    assert refused(site, text).kind == kind
    assert reason in refused(site, text).reason


def test_results_that_share_memory_may_not_both_leave_the_graph() -> None:
    text = SHARED.replace("return z, z\n  }", "return z, z\n  }\n  changes aliasing")

    def inside(x: Tensor) -> Tensor:
        return torch.sin(x) + torch.cos(x)

    site = traced(inside, X)
    done(site.rewrite(rule_of(text)))
    assert calls(site.graph) == ["exp", "add"]
    site = traced(lambda x: (torch.sin(x), torch.cos(x)), X)
    assert "both leave the graph" in refused(site, text).reason
    site = traced(view_then_write, X)
    assert refused(site, text).kind == "effect"


def test_the_ways_to_fit_several_results_at_one_node_are_bounded_and_the_report_says_so() -> None:
    text = """
rule three(x: Tensor) {
  match { a = relu(x) b = relu(x) c = relu(x) return a, b, c }
  where x.ndim == 7
  rewrite { return sigmoid(x), tanh(x), exp(x) }
  numerics differs "never fires here"
}"""

    def many(x: Tensor) -> Tensor:
        return sum((torch.relu(x) for _ in range(40)), x)

    report = fxrules.rewrite(torch.fx.symbolic_trace(many), fxrules.load(text=text), (X,), numerics="differs").report
    assert not report.fired
    assert "its pattern fits in more than 256 ways; the rest were not tried" in str(report)


# ------------------------------------------------------------------ refused when loaded
UNLOADABLE = [
    ("(x: Tensor, y: Tensor) { match { return relu(x), neg(y) } }", "unconnected", "result 2 has no tensor in common"),
    ("(x: Tensor, y: Tensor, n: int) { match { return sum(x, n), sum(y, n) } }", "unconnected", "result 2"),
    ("(x: Tensor) { match { return relu(x), x } }", "not-a-result", "result 2 is no op"),
    ("(x: Tensor) { match { s = relu(x)\n return s, s } }", "not-a-result", "result 2 stands there already"),
]


@pytest.mark.parametrize(("text", "code", "message"), UNLOADABLE)
def test_results_that_cannot_be_looked_for_are_refused_with_the_place(text: str, code: str, message: str) -> None:
    with pytest.raises(fxrules.FxrulesError) as caught:
        fxrules.load(text=f"rule r{text}")
    (problem,) = caught.value.problems
    assert problem.code == code and message in problem.message
    assert problem.span is not None
