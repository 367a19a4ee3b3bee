"""Replacements in real graphs: what is built, what is checked, what is erased, what stays."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from sites import calls, done, exported, node_of, refused, rule_of, run, site_of, traced
from torch import Tensor, nn
from torch.export import Dim, export
from torch.fx import Graph, GraphModule, symbolic_trace

from fxrules.engine.owners import updated_program
from fxrules.engine.surgery import UNCHECKED

GELU = rule_of("""
const SQRT_2_OVER_PI = sqrt(2 / pi)
rule gelu_tanh(x: float[...]) {
  match    0.5 * x * (1 + tanh(SQRT_2_OVER_PI * (x + 0.044715 * x ** 3)))
  rewrite  gelu(x, approximate="tanh")
}""")
X = torch.linspace(-2, 2, 12).view(3, 4)


class Gelu(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = self.linear(x)
        return 0.5 * x * (1 + torch.tanh(0.7978845608028654 * (x + 0.044715 * x**3)))


# ----------------------------------------------------------------- levels and meta
def test_one_rule_at_every_level() -> None:
    model = Gelu()
    program = export(model, (X,))
    sites = [
        (traced(model, X), ["linear", "gelu"]),
        (site_of(program.module()), ["_guards_fn", "linear.default", "gelu.default"]),
    ]
    for site, wanted in sites:
        applied = done(site.rewrite(GELU))
        assert calls(site.graph) == wanted
        assert len(applied.new_nodes) == 1 and len(applied.erased) == 8
        torch.testing.assert_close(run(site, X), model(X))
    site = site_of(program)
    (new,) = done(site.rewrite(GELU)).new_nodes
    assert calls(site.graph) == ["linear.default", "gelu.default"]
    assert (new.target, new.kwargs) == (torch.ops.aten.gelu.default, {"approximate": "tanh"})


def test_new_nodes_have_facts_and_tell_where_they_come_from() -> None:
    site = exported(Gelu(), X)
    old = node_of(site.graph, "mul_3")
    (new,) = done(site.rewrite(GELU)).new_nodes
    assert tuple(new.meta["val"].shape) == (3, 4) and new.meta["val"].dtype == torch.float32
    assert new.meta["val"].fake_mode is node_of(site.graph, "linear").meta["val"].fake_mode
    assert tuple(new.meta["tensor_meta"].shape) == (3, 4)
    assert new.meta["fxrules"] == ("test.gelu_tanh",)
    assert new.meta["stack_trace"] == old.meta["stack_trace"]
    assert new.meta["nn_module_stack"] == old.meta["nn_module_stack"]


def test_a_graph_without_shapes_is_rewritten_with_a_note() -> None:
    site = site_of(symbolic_trace(lambda x: torch.neg(torch.relu(x))))
    applied = done(site.rewrite(rule_of("rule r(x) { match neg(relu(x)) rewrite tanh(x) }")))
    assert applied.notes == (UNCHECKED,)
    assert calls(site.graph) == ["tanh"]


def test_an_exported_program_keeps_its_output_names() -> None:
    program = export(Gelu(), (X,))
    site = site_of(program)
    done(site.rewrite(GELU))
    assert [node.name for node in site.graph.nodes][-2:] == ["mul_3", "output"]
    updated = updated_program(program, program.graph_module, site.journal.constants)
    assert [spec.arg.name for spec in updated.graph_signature.output_specs] == ["mul_3"]
    torch.testing.assert_close(updated.module()(X), program.module()(X))


# --------------------------------------------------------------- kinds of values
def test_a_variable_as_the_replacement_makes_no_node() -> None:
    site = traced(lambda x: torch.exp(torch.relu(x) * 1.0), X)
    applied = done(site.rewrite(rule_of("rule r(x: Tensor) { match x * 1 rewrite x changes aliasing, strides }")))
    assert applied.new_nodes == ()
    assert calls(site.graph) == ["relu", "exp"]


def test_numbers_are_computed_and_methods_attributes_and_operators_are_graph_code() -> None:
    rule = rule_of("""
rule r(x: f32[N, M], a: number, b: number) {
  match (x + a) + b
  let c = a + b
  rewrite (x + c).mT.mT * (2 * a - 1)
  changes strides
  numerics differs "t"
}""")
    for make in (traced, exported):
        site = make(lambda x: torch.exp((x + 1.0) + 2.0), X)
        done(site.rewrite(rule))
        torch.testing.assert_close(run(site, X), torch.exp(X + 3.0))


def test_an_optional_that_is_absent_is_left_out() -> None:
    rule = rule_of("""
rule r(x: f32[N, M], w: f32[M, K], b: f32[K]?) {
  match (x @ w) + b?
  rewrite linear(x, w.mT, b)
  changes strides
}""")
    w, b = torch.randn(4, 2), torch.randn(2)
    site = exported(lambda x, w: torch.relu(x @ w), X, w)
    done(site.rewrite(rule))
    assert len(node_of(site.graph, "linear").args) == 2
    torch.testing.assert_close(run(site, X, w), torch.relu(X @ w))
    site = exported(lambda x, w, b: torch.relu(x @ w + b), X, w, b)
    done(site.rewrite(rule))
    assert len(node_of(site.graph, "linear").args) == 3
    torch.testing.assert_close(run(site, X, w, b), torch.relu(X @ w + b))


def test_lists_are_spread_and_configs_carried_over() -> None:
    cat = rule_of("""
rule r(d: int) {
  match cat([*pre, cat([*mid], dim=d), *post], dim=d)
  rewrite cat([*pre, *mid, *post], dim=d)
}""")
    site = exported(lambda x: torch.cat([x, torch.cat([x, x], 1)], 1), X)
    done(site.rewrite(cat))
    assert calls(site.graph) == ["_guards_fn", "cat.default"]
    assert run(site, X).shape == (3, 12)
    soft = rule_of(
        'rule r(x: f32[...]) { match softmax(neg(x), **cfg) rewrite log_softmax(neg(x), **cfg) numerics differs "t" }'
    )
    for make in (traced, exported):
        site = make(lambda x: F.softmax(-x, 1, dtype=torch.float64), X)
        done(site.rewrite(soft))
        assert torch.equal(run(site, X), F.log_softmax(-X, 1, dtype=torch.float64))


def test_indexing_is_spelled_at_the_level_of_the_site() -> None:
    rule = rule_of("""
rule r(x: f32[N, M]) {
  match neg(relu(x))
  rewrite x[..., 1:3][0]
  changes shape, strides, aliasing
  numerics differs "t"
}""")
    for make, wanted in (
        (traced, ["getitem", "getitem", "exp"]),
        (exported, ["_guards_fn", "slice.Tensor", "select.int", "exp.default"]),
    ):
        site = make(lambda x: torch.exp(torch.neg(torch.relu(x))), X)
        done(site.rewrite(rule))
        assert calls(site.graph) == wanted
        assert torch.equal(run(site, X), torch.exp(X[0, 1:3]))


def test_results_of_a_tuple_op_are_taken_apart() -> None:
    rule = rule_of("""
rule r(x: f32[N, M]) {
  match relu(x)
  rewrite { a, b = chunk(x, 2, dim=1)  return cat([b, a], dim=1) }
  numerics differs "t"
}""")
    for make in (traced, exported):
        site = make(lambda x: torch.exp(torch.relu(x)), X)
        done(site.rewrite(rule))
        assert torch.equal(run(site, X), torch.exp(X.roll(2, 1)))


def test_a_list_takes_the_place_of_a_list() -> None:
    rule = rule_of("""
rule r(x: f32[N, M]) {
  match chunk(x, 2, dim=1)
  rewrite [relu(x[:, 0:2]), relu(x[:, 2:4])]
  numerics differs "t"
  changes strides
}""")
    site = exported(lambda x: [piece.exp() for piece in x.chunk(2, 1)], X)
    done(site.rewrite(rule))
    assert [tuple(one.shape) for one in run(site, X)] == [(3, 2), (3, 2)]
    assert torch.equal(run(site, X)[1], X.relu().exp()[:, 2:])
    assert "chunk.default" not in calls(site.graph)


def test_a_qualified_target_is_called_as_it_is() -> None:
    rule = rule_of(
        'rule r(x: f32[N, M]) { match neg(relu(x)) rewrite aten.add.Tensor(x, x, alpha=2) numerics differs "t" }'
    )
    site = exported(lambda x: torch.neg(torch.relu(x)), X)
    (new,) = done(site.rewrite(rule)).new_nodes
    assert (new.target, new.kwargs) == (torch.ops.aten.add.Tensor, {"alpha": 2})
    assert torch.equal(run(site, X), 3 * X)


def test_symbolic_sizes_are_read_from_the_graph() -> None:
    rule = rule_of("""
rule r(x: f32[N, M]) {
  match neg(relu(x))
  rewrite reshape(cat([x, x], dim=0)[0:N], [N, M])
  numerics differs "t"
  changes aliasing
}""")
    site = exported(lambda x: torch.exp(torch.neg(torch.relu(x))), X, dynamic=(({0: Dim("n")},),))
    done(site.rewrite(rule))
    assert calls(site.graph).count("sym_size.int") == 1
    bigger = torch.randn(7, 4)
    assert torch.equal(run(site, bigger), bigger.exp())


# ------------------------------------------------------------------ keep and erase
def test_a_kept_inner_value_stays_for_its_other_users() -> None:
    rule = rule_of(
        'rule r(x: f32[N, M]) { match neg(relu(x) as inner) keep inner rewrite tanh(x) numerics differs "t" }'
    )
    site = traced(lambda x: (torch.neg(y := torch.relu(x)), y + 1), X)
    applied = done(site.rewrite(rule))
    assert [node.name for node in applied.erased] == ["neg"]
    assert calls(site.graph) == ["relu", "tanh", "add"]


REGULARISE = rule_of(
    'rule regularise(x: float[...]) { match relu(x) as y keep y rewrite dropout(y, p=0.25) numerics differs "t" }'
)


def test_a_kept_root_is_read_by_the_new_nodes_and_by_nobody_else() -> None:
    site = exported(lambda x: torch.exp(torch.relu(x)), X)
    (new,) = done(site.rewrite(REGULARISE)).new_nodes
    assert calls(site.graph) == ["_guards_fn", "relu.default", "dropout.default", "exp.default"]
    assert (new.args[1:], new.kwargs) == ((0.25, True), {})
    assert list(node_of(site.graph, "relu").users) == [new]


def test_dropout_at_torch_level_is_a_module_that_follows_train_and_eval() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
    site = traced(model, X)
    done(site.rewrite(REGULARISE))
    module = site.graph.owning_module
    assert module is not None and isinstance(module.get_submodule("dropout"), nn.Dropout)
    assert module.get_submodule("dropout").p == 0.25
    module.recompile()
    assert torch.equal(module.eval()(X), model(X))
    assert not torch.equal(module.train()(X), model(X))


def test_observers_of_erased_values_are_erased_with_them() -> None:
    graph = Graph()
    x = graph.placeholder("x")
    relu = graph.call_function(torch.ops.aten.relu.default, (x,))
    graph.call_function(torch.ops.aten._assert_tensor_metadata.default, (relu, None, None, torch.float32))
    size = graph.call_function(torch.ops.aten.sym_size.int, (relu, 0))
    graph.call_function(torch.ops.aten._assert_scalar.default, (size, "positive"))
    neg = graph.call_function(torch.ops.aten.neg.default, (relu,))
    graph.call_function(torch.ops.aten._assert_tensor_metadata.default, (neg, None, None, torch.float32))
    graph.output(neg)
    site = site_of(GraphModule(nn.Module(), graph), (X,))
    applied = done(site.rewrite(rule_of("rule r(x: Tensor) { match neg(relu(x)) rewrite tanh(x) }")))
    assert calls(graph) == ["tanh.default", "_assert_tensor_metadata.default"]
    assert len(applied.erased) == 5


def test_only_matched_nodes_are_erased() -> None:
    site = traced(lambda x: (x.add_(1), torch.dropout(x, 0.5, True), torch.neg(torch.relu(x)))[2], X)
    done(site.rewrite(rule_of("rule r(x: Tensor) { match neg(relu(x)) rewrite tanh(x) }")))
    assert calls(site.graph) == ["add_", "dropout", "tanh"]


# ---------------------------------------------------------------- the interface
@pytest.mark.parametrize(
    ("rewrite", "reason"),
    [
        ("to(x, f64)", "dtype torch.float32 would become torch.float64"),
        ("x[0:1]", "shape (3, 4) would become (1, 4)"),
        ("contiguous(x.mT).mT", "strides (4, 1) would become (1, 3)"),
        ("ones_like(x) @ x", "the replacement does not fit: `matmul` does not run on its inputs"),
        ("sum(x)", "shape (3, 4) would become ()"),
        ("chunk(x, 2, dim=0)", "the replacement does not fit"),
    ],
)
def test_the_interface_of_a_value_may_not_change(rewrite: str, reason: str) -> None:
    site = exported(lambda x: torch.exp(torch.neg(torch.relu(x))), X)
    text = f"rule r(x: f32[N, M]) {{ match neg(relu(x)) rewrite {rewrite} changes aliasing }}"
    if rewrite.startswith("chunk"):
        text = text.replace("neg(relu(x))", "relu(x)").replace("chunk(x, 2, dim=0)", "fxrules_test.missing(x)")
        outcome = refused(site, text)
        assert (outcome.kind, outcome.reason) == ("form", "`fxrules_test.missing` is not installed here")
        return
    outcome = refused(site, text)
    assert outcome.kind == "interface" and outcome.reason.startswith(reason)


def test_a_number_is_no_replacement_for_a_tensor() -> None:
    site = exported(lambda x: torch.exp(torch.neg(torch.relu(x))), X)
    outcome = refused(site, "rule r(x: f32[N, M]) { match neg(relu(x)) rewrite 2 * N }")
    assert outcome.reason == "a value of the graph would become the int 6"


def test_what_is_there_already_is_no_replacement() -> None:
    site = exported(lambda x: torch.exp(torch.relu(x)), X)
    outcome = refused(site, "rule r(x: f32[N, M]) { match relu(x) as y keep y rewrite y }")
    assert outcome.reason == "the replacement is what is there already"
