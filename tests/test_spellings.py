"""Every spelling of a family means the same, and is read back as it was written."""

from __future__ import annotations

import operator
from collections.abc import Mapping

import pytest
import torch
from op_samples import Sample, module_samples, node_for, node_of, recorded, run, same_result
from torch import nn

from fxrules.engine.families import load_table
from fxrules.engine.nodeview import View, Views, same_value
from fxrules.engine.spellings import Call, emit, emit_form, emit_module

TABLE_TARGETS = load_table().names_by_target
# Modules that become several ATen ops, always or with some of their options.
TORCH_ALONE = {
    *(f"AdaptiveMaxPool{n}d" for n in (1, 2, 3)), *(f"LPPool{n}d" for n in (1, 2, 3)),
    *(f"MaxUnpool{n}d" for n in (1, 2, 3)), "AdaptiveAvgPool3d", "Dropout1d", "Dropout3d", "EmbeddingBag",
    "GaussianNLLLoss", "LocalResponseNorm", "MultiLabelSoftMarginLoss", "Softmin", "Softsign", "Tanhshrink", "Upsample",
    "UpsamplingBilinear2d", "UpsamplingNearest2d",
}  # fmt: skip
# LAPACK's results depend on how memory is aligned.
LOOSE = {"linalg_lstsq"}
# Results are undefined memory.
UNDEFINED = ("empty", "new_empty", "resize")


def test_all_spellings_of_a_family_give_the_same_result() -> None:
    """Each recorded call is viewed, said again in every form of its family, run, and viewed again."""
    checked: set[tuple[str, str]] = set()
    for sample in recorded():
        if sample.name in TABLE_TARGETS and not _is_another_op(sample):
            checked |= _check_forms(sample)
    assert len(checked) > 2200
    assert len({family for family, _ in checked}) > 700


def _is_another_op(sample: Sample) -> bool:
    """Options that make a function write to its argument, or call something that the caller brings."""
    return sample.kwargs.get("inplace") is True or any(callable(arg) for arg in sample.kwargs.values())


def _check_forms(sample: Sample) -> set[tuple[str, str]]:
    graph, node, values = node_for(sample)
    views = Views(graph)
    view = views.own(node)
    assert view is not None, f"no view of {sample.name}{node.args} {node.kwargs}"
    expected = run(sample.target, node.args, node.kwargs, values)
    checked = _check_view(view, views, expected, values)
    for args in _with_numbers(view):
        call = emit(load_table(), view.family, args, "torch")
        if call is not None:
            node = node_of(graph, call)
            numbers = next(one for one in views.views(node) if one.family is view.family)
            assert same_value(numbers.args, args)
            checked |= _check_view(numbers, views, _result(call, values), values)
    return checked


def _with_numbers(view: View) -> list[tuple[object, ...]]:
    """The arguments with a number for a tensor, where the family takes either."""
    either = [
        at
        for at, param in enumerate(view.family.params)
        if {"Tensor", "Scalar"} <= {*param.type.rstrip("?").split("|")}
    ]
    places = [at for at in either if isinstance(view.args[at], torch.fx.Node)]
    tensors = sum(isinstance(arg, torch.fx.Node) for arg in view.args)
    return [(*view.args[:at], 2, *view.args[at + 1 :]) for at in places if tensors > 1]


def _result(call: Call, values: Mapping[torch.fx.Node, torch.Tensor]) -> object:
    """What a call gives; the error's kind if the op refuses its arguments."""
    try:
        return run(*call, values)
    except (RuntimeError, NotImplementedError) as error:
        return type(error).__name__


def _check_view(
    view: View, views: Views, expected: object, values: Mapping[torch.fx.Node, torch.Tensor]
) -> set[tuple[str, str]]:
    """Say the view again in every form: the same result, and the same view of what is said."""
    checked = set()
    for form in view.family.forms:
        call = emit_form(view.family, form, view.args) if form.kind != "module" else None
        if call is None or form.target == "Tensor.cuda":
            continue
        told = f"{view.node.format_node()} as {form.target}{call[1:]}"
        tolerance = 1e-5 if view.family.name in LOOSE else 0.0
        if not view.family.name.startswith(UNDEFINED):
            assert same_result(expected, _result(call, values), tolerance), told
        again = node_of(views.graph, call)
        back = next((one for one in views.views(again) if one.family is view.family), None)
        assert back is not None and same_value(back.args, view.args), told
        checked.add((view.family.name, form.target))
    return checked


def test_module_calls_mean_what_their_functions_mean() -> None:
    seen, unsaid = set(), set()
    for module, inputs, kwargs in module_samples():
        name = f"torch.nn.{type(module).__name__}"
        if name not in TABLE_TARGETS:
            continue
        root = nn.Module()
        root.add_module("inner", module)
        graph, node, values = node_for(Sample("inner", module, inputs, kwargs), module="inner")
        views = Views(graph, root)
        view = views.own(node)
        if view is None:
            assert _differs_by_design(module), f"no view of {module}"
            continue
        expected = run(module, node.args, node.kwargs, values)
        for level in ("torch", "aten"):
            call = emit(load_table(), view.family, view.args, level)
            if call is None:
                assert level == "aten", module
                unsaid.add(type(module).__name__)
                continue
            assert same_result(expected, run(*call, values, views), 1e-5), f"{module} as {call}"
        seen.add(name)
    spelled = {target for target in TABLE_TARGETS if target.startswith("torch.nn.") and target.count(".") == 2}
    assert spelled - seen == set()
    assert unsaid == TORCH_ALONE, "these and no others are several ATen calls, or have options that are"


def _differs_by_design(module: nn.Module) -> bool:
    """Modules whose options make them another op than their family."""
    statistics = not getattr(module, "track_running_stats", True) or getattr(module, "momentum", 0.1) is None
    padded = getattr(module, "padding_mode", "zeros") != "zeros"
    return statistics or padded or getattr(module, "return_indices", False) or getattr(module, "inplace", False)


@pytest.mark.parametrize(
    ("name", "args", "level", "expected"),
    [
        ("add", ("x", 1, 1), "torch", (operator.add, ("x", 1), {})),
        ("add", ("x", "y", 2), "torch", (torch.add, ("x", "y"), {"alpha": 2})),
        ("add", ("x", "y", 2), "aten", (torch.ops.aten.add.Tensor, ("x", "y"), {"alpha": 2})),
        ("sub", (1, "x", 1), "aten", (torch.ops.aten.rsub.Scalar, ("x", 1), {})),
        ("add", (1, "x", 1), "aten", (torch.ops.aten.add.Tensor, ("x", 1), {})),
        ("add", (1, "x", 1), "torch", (operator.add, (1, "x"), {})),
        ("eq", (1, "x"), "aten", (torch.ops.aten.eq.Scalar, ("x", 1), {})),
        ("div", (1, "x", None), "aten", (torch.ops.aten.div.Tensor, (1, "x"), {})),
        ("pow", (2, "x"), "aten", (torch.ops.aten.pow.Scalar, (2, "x"), {})),
        ("pow", ("x", 2), "aten", (torch.ops.aten.pow.Tensor_Scalar, ("x", 2), {})),
        ("pow", ("x", "y"), "aten", (torch.ops.aten.pow.Tensor_Tensor, ("x", "y"), {})),
        ("softmax", ("x", -1, None), "aten", (torch.ops.aten.softmax.int, ("x", -1), {})),
        ("softmax", ("x", None, None), "aten", None),
        ("mean", ("x", (1,), True, None), "aten", (torch.ops.aten.mean.dim, ("x", [1], True), {})),
        ("mean", ("x", None, False, None), "aten", (torch.ops.aten.mean.default, ("x",), {})),
        ("split", ("x", (1, 2), 0), "aten", (torch.ops.aten.split.sizes, ("x", [1, 2]), {})),
        ("view", ("x", (2, 3)), "torch", ("view", ("x", [2, 3]), {})),
        ("interpolate", ("x", None, 2.0, "nearest", None, None, False), "aten", None),
        ("dropout", ("x", 0.5, False, False), "aten", (torch.ops.aten.dropout.default, ("x", 0.5, False), {})),
    ],
)
def test_emission_picks_the_form_that_can_say_it(
    name: str, args: tuple[object, ...], level: str, expected: Call | None
) -> None:
    graph = torch.fx.Graph()
    nodes = {text: graph.placeholder(text) for text in ("x", "y")}

    def with_nodes(value: object) -> object:
        return nodes.get(value, value) if isinstance(value, str) else value

    call = emit(load_table(), load_table().families[name], [with_nodes(arg) for arg in args], level)
    if expected is None:
        assert call is None
    else:
        target, wanted, kwargs = expected
        assert call == (target, tuple(with_nodes(arg) for arg in wanted), kwargs)


def test_numbers_are_added_by_an_operator_at_every_level() -> None:
    family = load_table().families["add"]
    assert emit(load_table(), family, (2, 3, 1), "aten", numbers=True) == (operator.add, (2, 3), {})


def test_a_dropout_can_be_emitted_as_a_module() -> None:
    found = emit_module(load_table().families["dropout"], ("x", 0.25, True, False))
    assert found == (nn.Dropout, {"p": 0.25}, ("x",))
    assert emit_module(load_table().families["linear"], ("x", "w", "b")) is None
