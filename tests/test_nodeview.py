"""The canonical view of a node: one op, one signature, whatever the spelling."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from op_samples import run, same_result
from single_nodes import Site

from fxrules.engine.families import REQUIRED, load_table
from fxrules.engine.nodeview import level_of, normalise_dim
from fxrules.engine.spellings import emit

aten = torch.ops.aten


# ------------------------------------------------------------------ one op, many spellings
ADDITIONS: list[tuple[Callable[..., Any] | str, dict[str, Any]]] = [
    (operator.add, {}),
    (torch.add, {}),
    ("add", {}),
    (aten.add.Tensor, {}),
    (torch.add, {"alpha": 1}),
    (aten.add.Tensor, {"alpha": 1}),
]


@pytest.mark.parametrize(("target", "kwargs"), ADDITIONS)
def test_additions_are_one_op(target: Callable[..., Any] | str, kwargs: dict[str, Any]) -> None:
    site = Site()
    assert site.seen(site.call(target, site.x, site.y, **kwargs)) == ("add", (site.x, site.y, 1))


def test_an_argument_that_is_not_default_is_in_the_view() -> None:
    site = Site()
    assert site.seen(site.call(torch.add, site.x, site.y, alpha=2)) == ("add", (site.x, site.y, 2))


def test_arguments_may_come_as_keywords() -> None:
    site = Site()
    assert site.seen(site.call(torch.sub, other=site.y, input=site.x)) == ("sub", (site.x, site.y, 1))
    assert site.seen(site.graph.call_function(aten.sub.Tensor, (), {"self": site.x, "other": site.y})) == (
        "sub",
        (site.x, site.y, 1),
    )
    assert site.seen(site.call(torch.sub, site.x, site.y, no_such=1)) is None
    assert site.seen(site.call(torch.sub, site.x, site.y, input=site.x)) is None


def test_rsub_is_sub_with_its_operands_swapped() -> None:
    site = Site()
    assert site.seen(site.call(aten.rsub.Scalar, site.x, 1)) == ("sub", (1, site.x, 1))
    assert site.seen(site.call(torch.rsub, site.x, site.y, alpha=3)) == ("sub", (site.y, site.x, 3))
    assert site.seen(site.call(operator.sub, 1, site.x)) == ("sub", (1, site.x, 1))


def test_embedding_swaps_its_arguments_between_levels() -> None:
    site = Site()
    expected = ("embedding", (site.x, site.y, -1, False, False))
    assert site.seen(site.call(F.embedding, site.x, site.y)) == expected
    assert site.seen(site.call(aten.embedding.default, site.y, site.x)) == expected
    assert site.seen(site.call(F.embedding, site.x, site.y, 3)) == site.seen(
        site.call(aten.embedding.default, site.y, site.x, 3)
    )
    assert site.seen(site.call(F.embedding, site.x, site.y, max_norm=1.0)) is None, "it would write to the weight"


def test_batch_norm_has_the_order_of_the_function() -> None:
    site = Site()
    m, v, w, b = (site.graph.placeholder(name) for name in "mvwb")
    expected = ("batch_norm", (site.x, m, v, w, b, False, 0.1, 1e-5))
    assert site.seen(site.call(F.batch_norm, site.x, m, v, w, b, False, 0.1, 1e-5)) == expected
    assert site.seen(site.call(aten.batch_norm.default, site.x, w, b, m, v, False, 0.1, 1e-5, True)) == expected
    assert site.seen(site.call(aten.batch_norm.default, site.x, w, b, m, v, False, 0.1, 1e-5, False)) == expected


def test_a_list_may_be_spread_over_the_arguments_of_a_method() -> None:
    site = Site()
    for args in ((6, 20), ((6, 20),), ([6, 20],)):
        assert site.seen(site.call("view", site.x, *args)) == ("view", (site.x, (6, 20)))
    assert site.seen(site.call("permute", site.x, 0, 2, 1, 3)) == ("permute", (site.x, (0, 2, 1, 3)))
    assert site.seen(site.call("view", site.x, -1)) == ("view", (site.x, (-1,)))
    assert site.seen(site.call("view", site.x, torch.int32)) == ("view_dtype", (site.x, torch.int32))


def test_a_stride_of_two_is_a_stride_of_two_by_two() -> None:
    site = Site()
    expected = ("conv2d", (site.x, site.y, None, (2, 2), (0, 0), (1, 1), 1))
    assert site.seen(site.call(F.conv2d, site.x, site.y, None, 2)) == expected
    assert site.seen(site.call(aten.conv2d.default, site.x, site.y, None, [2, 2])) == expected
    assert site.seen(site.call(F.conv2d, site.x, site.y, padding="same")) == (
        "conv2d",
        (site.x, site.y, None, (1, 1), "same", (1, 1), 1),
    )


def test_a_pooling_stride_that_equals_the_kernel_is_the_default() -> None:
    site = Site()
    expected = ("max_pool2d", (site.x, (2, 2), None, (0, 0), (1, 1), False))
    assert site.seen(site.call(F.max_pool2d, site.x, 2)) == expected
    assert site.seen(site.call(F.max_pool2d, site.x, 2, stride=2)) == expected
    assert site.seen(site.call(aten.max_pool2d.default, site.x, [2, 2], [2, 2])) == expected
    assert site.seen(site.call(aten.max_pool2d.default, site.x, [2, 2])) == expected
    assert site.seen(site.call(F.max_pool2d, site.x, 2, 1))[1][2] == (1, 1)  # type: ignore[index]
    view = site.views.own(site.call(F.max_pool2d, site.x, 2))
    assert view is not None
    assert site.views.normalise_literal(view, 2, 2) is None
    assert site.views.normalise_literal(view, 2, 3) == (3, 3)


@pytest.mark.parametrize(
    ("target", "args", "kwargs", "expected"),
    [
        ("float", (), {}, {"dtype": torch.float32}),
        ("half", (), {}, {"dtype": torch.float16}),
        ("to", (torch.float16,), {}, {"dtype": torch.float16}),
        ("to", ("cpu",), {}, {"device": torch.device("cpu")}),
        ("to", ("cpu", torch.int64), {}, {"device": torch.device("cpu"), "dtype": torch.int64}),
        ("to", (), {"dtype": torch.int8, "copy": True}, {"dtype": torch.int8, "copy": True}),
        ("cpu", (), {}, {"device": torch.device("cpu")}),
        ("type", (torch.bool,), {}, {"dtype": torch.bool}),
        (aten.to.dtype, (torch.float16,), {}, {"dtype": torch.float16}),
        (aten.to.device, ("cpu", torch.int64), {}, {"device": torch.device("cpu"), "dtype": torch.int64}),
        (aten.to.dtype_layout, (), {"dtype": torch.int64, "layout": torch.strided}, {"dtype": torch.int64}),
        (aten._to_copy.default, (), {"dtype": torch.int64}, {"dtype": torch.int64, "copy": True}),
    ],
)
def test_casts_and_moves_are_one_op(
    target: Callable[..., Any] | str, args: tuple[Any, ...], kwargs: dict[str, Any], expected: dict[str, Any]
) -> None:
    site = Site()
    family = load_table().families["to"]
    defaults = {param.name: param.default for param in family.params[1:]}
    seen = site.seen(site.call(target, site.x, *args, **kwargs))
    assert seen == ("to", (site.x, *{**defaults, **expected}.values()))


def test_what_a_node_carries_tells_overloads_apart() -> None:
    site = Site()
    number = site.graph.placeholder("n")
    number.meta["val"] = 1
    assert site.seen(site.call(torch.max, site.x)) == ("max", (site.x, None, False))
    assert site.seen(site.call(torch.max, site.x, -1)) == ("max", (site.x, 3, False))
    assert site.seen(site.call(torch.max, site.x, site.y)) == ("maximum", (site.x, site.y))
    assert site.seen(site.call(torch.max, site.x, site.unknown)) == ("maximum", (site.x, site.unknown))
    assert site.seen(site.call(torch.max, site.x, number)) == ("max", (site.x, number, False))


def test_the_same_reduction_in_old_words() -> None:
    site = Site()
    assert site.seen(site.call(torch.std, site.x)) == ("std", (site.x, None, 1, False))
    assert site.seen(site.call(torch.std, site.x, False)) == ("std", (site.x, None, 0, False))
    assert site.seen(site.call(torch.std, site.x, 1, False, True)) == ("std", (site.x, (1,), 0, True))
    assert site.seen(site.call(aten.std.correction, site.x, [1], correction=2)) == ("std", (site.x, (1,), 2, False))
    assert site.seen(site.call(F.cross_entropy, site.x, site.y, reduction="sum")) == site.seen(
        site.call(aten.cross_entropy_loss.default, site.x, site.y, None, 2)
    )


def test_what_the_builtins_forget_is_not_assumed() -> None:
    """``torch.kl_div(x, y)`` does not reduce in torch 2.13, though its schema says that it takes the mean."""
    site = Site()
    assert site.seen(site.call(torch.kl_div, site.x, site.y)) is None
    assert site.seen(site.call(torch.kl_div, site.x, site.y, 1)) == ("kl_div", (site.x, site.y, "mean", False))


def test_an_index_that_is_a_list_is_no_view() -> None:
    site = Site()
    assert site.seen(site.call(operator.getitem, site.x, (0, slice(1, 2)))) == ("getitem", (site.x, (0, slice(1, 2))))
    assert site.seen(site.call(operator.getitem, site.x, [0, 1])) is None, "it picks rows: x[[0, 1]] is not x[0, 1]"


def test_attributes_are_ops() -> None:
    site = Site()
    assert site.seen(site.call(getattr, site.x, "mT")) == ("mT", (site.x,))
    assert site.seen(site.call(getattr, site.x, "shape")) == ("size", (site.x, None))
    assert site.seen(site.call(getattr, site.x, "no_such")) is None
    for name in ("T", "mT", "H", "mH"):
        node = site.call(getattr, site.x, name)
        view = site.views.own(node)
        assert view is not None
        assert emit(load_table(), view.family, view.args, "torch") == (getattr, (site.x, name), {})
        aten_call = emit(load_table(), view.family, view.args, "aten")
        assert aten_call is not None
        matrix = torch.randn(3, 4, dtype=torch.complex64)
        assert same_result(getattr(matrix, name), run(*aten_call, {site.x: matrix}))


@pytest.mark.parametrize(
    ("target", "args", "kwargs"),
    [
        (F.relu, (), {"inplace": True}),
        (F.silu, (True,), {}),
        (torch.relu, (), {"out": "y"}),
        (F.dropout, (0.5, False, True), {}),
    ],
)
def test_a_call_that_writes_has_no_view_of_the_pure_op(
    target: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    site = Site()
    given = {name: site.y if value == "y" else value for name, value in kwargs.items()}
    assert site.seen(site.call(target, site.x, *args, **given)) is None
    assert site.seen(site.call(torch.relu, site.x, out=None)) == ("relu", (site.x, False))


# ------------------------------------------------------------------------------ effects
def test_effects_depend_on_the_arguments() -> None:
    site = Site()
    m, v = site.graph.placeholder("m"), site.graph.placeholder("v")
    effects = {
        "eval": site.call(F.dropout, site.x, 0.5, False),
        "train": site.call(F.dropout, site.x, 0.5, True),
        "norm": site.call(F.batch_norm, site.x, m, v),
        "statistics": site.call(F.batch_norm, site.x, m, v, training=True),
        "no statistics": site.call(F.batch_norm, site.x, None, None, training=True),
        "attention": site.call(F.scaled_dot_product_attention, site.x, site.y, site.y),
        "dropping attention": site.call(F.scaled_dot_product_attention, site.x, site.y, site.y, dropout_p=0.1),
        "in place": site.call("add_", site.x, site.y),
        "augmented": site.call(operator.iadd, site.x, site.y),
        "random": site.call(torch.rand_like, site.x),
        "unknown": site.call(print, site.x),
    }
    found = {name: site.views.effect(node) for name, node in effects.items()}
    assert found == {
        "eval": "pure",
        "train": "random",
        "norm": "pure",
        "statistics": "mutates",
        "no statistics": "pure",
        "attention": "pure",
        "dropping attention": "random",
        "in place": "mutates",
        "augmented": "mutates",
        "random": "random",
        "unknown": "opaque",
    }


# --------------------------------------------------------------------------------- dims
def test_dims_are_counted_from_the_front_where_the_rank_is_known() -> None:
    site = Site()
    assert site.seen(site.call(F.softmax, site.x, dim=-1)) == ("softmax", (site.x, 3, None))
    assert site.seen(site.call(F.softmax, site.unknown, dim=-1)) == ("softmax", (site.unknown, -1, None))
    assert site.seen(site.call(torch.sum, site.x, [-1, 0])) == ("sum", (site.x, (3, 0), False, None))
    assert site.seen(site.call(torch.unsqueeze, site.x, -1)) == ("unsqueeze", (site.x, 4))
    assert site.seen(site.call(torch.stack, [site.x, site.y], -1)) == ("stack", ((site.x, site.y), 4))
    assert site.seen(site.call(torch.cat, [site.x, site.y], -1)) == ("cat", ((site.x, site.y), 3))
    assert site.seen(site.call(torch.cat, [site.x, site.unknown], -1)) == ("cat", ((site.x, site.unknown), -1))
    assert site.seen(site.call(F.cosine_similarity, site.x, site.y, -1))[1][2] == -1  # type: ignore[index]


def test_literals_and_defaults_are_written_as_the_view_writes_them() -> None:
    site = Site()
    softmax = site.views.own(site.call(F.softmax, site.x, dim=3))
    flatten = site.views.own(site.call("flatten", site.x, 0, 3))
    total = site.views.own(site.call(torch.sum, site.x, 1))
    assert softmax is not None and flatten is not None and total is not None
    assert site.views.normalise_literal(softmax, 1, -1) == 3
    assert site.views.normalise_literal(total, 1, -1) == (3,)
    assert [site.views.is_default(flatten, index) for index in (1, 2)] == [True, True]
    assert [site.views.is_default(total, index) for index in (1, 2, 3)] == [False, True, True]


def test_a_dim_out_of_range_stays_as_it_is() -> None:
    assert normalise_dim((-1, 2, -5), 4) == (3, 2, -5)
    assert normalise_dim(-1, None) == -1
    assert normalise_dim(None, 3) is None


# ---------------------------------------------------------------------- users, exactness
def test_observers_are_not_users() -> None:
    site = Site()
    site.graph.call_function(aten._assert_tensor_metadata.default, (site.x, None, None, torch.float32))
    checked = site.graph.call_function(aten.sym_size.int, (site.x, 0))
    checked.meta["val"] = 2
    enough = site.graph.call_function(operator.ge, (checked, 1))
    enough.meta["val"] = True
    site.graph.call_function(aten._assert_scalar.default, (enough, "batch"))
    used = site.graph.call_function(aten.sym_size.int, (site.x, 1))
    real = site.call("view", site.x, used, -1)
    assert site.views.users(site.x) == (used, real), "a size that feeds a computation may not vanish"
    assert checked in site.views.observers(site.x)
    assert len(site.views.observers(site.x)) == 2


def test_an_exact_target_has_its_own_arguments_in_its_own_order() -> None:
    site = Site()
    node = site.call(aten.embedding.default, site.y, site.x)
    assert site.views.exact(node, "aten.embedding.default") == (site.y, site.x, -1, False, False)
    assert site.views.exact(node, "aten.embedding") == (site.y, site.x, -1, False, False)
    assert site.views.exact(node, "torch.embedding") is None
    cat = site.call(torch.cat, [site.x, site.y])
    assert site.views.exact(cat, "torch.cat") == ((site.x, site.y), 0)
    relu = site.call(F.relu, site.x)
    assert site.views.exact_arguments(relu, "torch.nn.functional.relu") == (
        ("input", site.x, REQUIRED),
        ("inplace", False, False),
    )
    assert [level_of(one) for one in (node, cat)] == ["aten", "torch"]


def test_forget_looks_again() -> None:
    site = Site()
    node = site.call(torch.sub, site.x, site.y)
    reader = site.call(F.softmax, node, -1)
    assert site.seen(node) == ("sub", (site.x, site.y, 1))
    assert site.seen(reader) == ("softmax", (node, -1, None))
    node.args = (site.y, site.x)
    node.meta["val"] = torch.empty(2, 2)
    assert site.seen(node) == ("sub", (site.x, site.y, 1)), "views are kept"
    site.views.forget([node])
    assert site.seen(node) == ("sub", (site.y, site.x, 1))
    assert site.seen(reader) == ("softmax", (node, 1, None)), "so are those of its readers"
