"""Families that a file declares: what their spellings stand for, and what is wrong with those that make no sense."""

from __future__ import annotations

import sys
import types

import pytest
import torch
from torch import nn

import fxrules
from fxrules.dsl import ast
from fxrules.dsl.source import FxrulesError
from fxrules.engine.families import FamilyTable, extend, load_table, signature_table
from fxrules.engine.kinds import ModuleAttr
from fxrules.engine.nodeview import View, Views
from fxrules.engine.spellings import emit


def _call(target: str, *args: ast.Expr, **kwargs: ast.Expr) -> ast.Call:
    head, *rest = target.split(".")
    func: ast.Expr = ast.Name(head)
    for name in rest:
        func = ast.Attribute(func, name)
    return ast.Call(func, (*args, *(ast.Keyword(name, value) for name, value in kwargs.items())))


X, W, EPS, ANY = ast.Name("x"), ast.Name("weight"), ast.Name("eps"), ast.Name("_")
RMS_NORM = ast.Family(
    "rms_norm",
    (ast.Param("x"), ast.Param("weight", optional=True), ast.Param("eps", default=ast.Number(1e-6))),
    ("pure",),
    (_call("F.rms_norm", X, ANY, W, EPS), _call("acme_test.rms_norm", X, W, EPS), _call("nn.RMSNorm", X)),
)


def _view_of(graph: torch.fx.Graph, node: torch.fx.Node, table: FamilyTable, owner: nn.Module | None = None) -> View:
    view = Views(graph, owner, table).own(node)
    assert view is not None
    return view


def test_a_declared_family_takes_the_place_of_a_built_in_one() -> None:
    table = extend(load_table(), [RMS_NORM])
    graph = torch.fx.Graph()
    x, w = graph.placeholder("x"), graph.placeholder("w")
    for target in (torch.nn.functional.rms_norm, torch.rms_norm, torch.ops.aten.rms_norm.default):
        view = _view_of(graph, graph.call_function(target, (x, [8], w, 1e-5)), table)
        assert (view.family.name, view.args) == ("rms_norm", (x, w, 1e-5))
    owner = nn.Module()
    owner.add_module("norm", nn.RMSNorm(8, eps=0.5))
    view = _view_of(graph, graph.call_module("norm", (x,)), table, owner)
    assert view.args == (x, ModuleAttr("norm.weight"), 0.5)
    assert [param.name for param in signature_table(table)["rms_norm"].params] == ["x", "weight", "eps"]
    assert load_table().families["rms_norm"].params[1].name == "normalized_shape", "the built-in table is as before"


def test_a_declared_form_with_a_free_argument_is_matched_but_not_emitted() -> None:
    table = extend(load_table(), [RMS_NORM])
    graph = torch.fx.Graph()
    x, w = graph.placeholder("x"), graph.placeholder("w")
    assert emit(table, table.families["rms_norm"], (x, w, 1e-6), "aten") is None


def test_a_custom_op_is_a_form_once_it_is_registered() -> None:
    with torch.library._scoped_library("acme_test", "FRAGMENT") as library:
        library.define("rms_norm(Tensor a, Tensor? b, float epsilon=1e-3, bool fast=False) -> Tensor")
        op = torch.ops.acme_test.rms_norm.default
        table = extend(load_table(), [RMS_NORM])
        graph = torch.fx.Graph()
        x, w = graph.placeholder("x"), graph.placeholder("w")
        view = _view_of(graph, graph.call_function(op, (x,), {"b": w, "epsilon": 0.1}), table)
        assert view.args == (x, w, 0.1)
        assert _view_of(graph, graph.call_function(op, (x, w)), table).args == (x, w, 1e-3), "the op's own default"
        assert Views(graph, None, table).own(graph.call_function(op, (x, w, 0.1, True))) is None, "fast is not said"
        assert emit(table, table.families["rms_norm"], (x, w, 0.5), "aten") == (op, (x, w, 0.5), {})


def test_a_python_function_is_found_only_if_its_module_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("acme_kernels")

    def geglu(a: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return a @ w

    module.geglu = geglu  # type: ignore[attr-defined]
    statement = ast.Family(
        "geglu",
        (ast.Param("a"), ast.Param("w")),
        ("pure",),
        (_call("acme_kernels.geglu", ast.Name("a"), ast.Name("w")),),
    )
    graph = torch.fx.Graph()
    a, w = graph.placeholder("a"), graph.placeholder("w")
    node = graph.call_function(geglu, (a, w))
    assert Views(graph, None, extend(load_table(), [statement])).own(node) is None
    assert emit(load_table(), extend(load_table(), [statement]).families["geglu"], (a, w), "torch") is None
    monkeypatch.setitem(sys.modules, "acme_kernels", module)
    table = extend(load_table(), [statement])
    assert _view_of(graph, node, table).args == (a, w)
    assert emit(table, table.families["geglu"], (a, w), "torch") == (geglu, (a, w), {})


def test_effects_and_commutativity_are_declared() -> None:
    statement = ast.Family(
        "mix",
        (ast.Param("a"), ast.Param("b")),
        ("commutative", "random"),
        (_call("acme_test.mix", ast.Name("a"), ast.Name("b")),),
    )
    family = extend(load_table(), [statement]).families["mix"]
    assert (family.commutative, family.effect) == (True, "random")


def test_one_target_may_spell_two_families() -> None:
    statement = ast.Family("unweighted", (ast.Param("x"),), ("pure",), (_call("F.rms_norm", X, ANY),))
    table = extend(load_table(), [statement])
    graph = torch.fx.Graph()
    x, w = graph.placeholder("x"), graph.placeholder("w")
    views = Views(graph, None, table)
    plain = graph.call_function(torch.nn.functional.rms_norm, (x, [8]))
    weighted = graph.call_function(torch.nn.functional.rms_norm, (x, [8], w))
    assert [view.family.name for view in views.views(plain)] == ["unweighted", "rms_norm"]
    assert [view.family.name for view in views.views(weighted)] == ["rms_norm"]


@pytest.mark.parametrize(
    ("spelling", "code"),
    [
        (_call("F.rms_norm", X, wight=W), "unknown-keyword"),
        (_call("F.relu", X, ANY, ANY, ANY), "arity"),
        (_call("F.relu", ast.Binary("+", X, X)), "not-a-constant"),
        (ast.Call(ast.Call(X)), "not-a-spelling"),
        (ast.Call(ast.Name("relu"), (ast.Star(X),)), "not-a-spelling"),
    ],
)
def test_a_spelling_that_makes_no_sense_is_a_located_problem(spelling: ast.Call, code: str) -> None:
    statement = ast.Family("mine", (ast.Param("x"), ast.Param("weight")), (), (spelling,))
    with pytest.raises(FxrulesError) as caught:
        extend(load_table(), [statement])
    assert [problem.code for problem in caught.value.problems] == [code]


def test_a_custom_op_is_emitted_as_an_overload_in_an_exported_program() -> None:
    with torch.library._scoped_library("fxr_declared", "DEF") as library:
        library.define("twice(Tensor x, int n=2) -> Tensor")
        library.impl("twice", lambda x, n=2: x * n, "CompositeExplicitAutograd")
        for prefix in ("", "torch.ops."):
            text = f"family twice(x, n=2) pure = {prefix}fxr_declared.twice(x, n)\n"
            rules = fxrules.load(text=text + "rule r(x: float[...]) { match neg(neg(x)) rewrite twice(x, 1) }")
            program = torch.export.export(Negations(), (torch.ones(2),))
            found = fxrules.rewrite(program, rules)
            targets = [node.target for node in found.model.graph.nodes if node.op == "call_function"]
            assert targets == [torch.ops.fxr_declared.twice.default]
            back = fxrules.load(text=text + "rule r(x: float[...]) { match twice(x, 1) rewrite x * 1 }")
            assert sum(fxrules.rewrite(found.model, back).report.fired.values()) == 1


class Negations(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.neg().neg()
