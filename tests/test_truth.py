"""Conditions are three-valued: true, false, or the name of the fact that is missing."""

from __future__ import annotations

import pytest
from evaluating import SCOPE, environment, node, program

from fxrules.dsl.parser import parse_expr
from fxrules.engine.evaluation import Unknown, holds
from fxrules.engine.nodeview import Views


@pytest.fixture(scope="module")
def views() -> Views:
    return program()


CONDITIONS = {
    "1 < 2 <= 2": True,
    "1 < 2 < 2": False,
    "x.dtype == f32 and x.dtype in float": True,
    "ids.dtype in (f16, bf16)": False,
    "ids.dtype not in float": True,
    "x.device.type == 'cpu' and x.device == 'cpu' and x.device.index is None": True,
    "x.dtype.is_floating_point and not ids.is_complex": True,
    "promote_types(f16, ids.dtype) == f16": True,
    "absent is None and x is not None": True,
    "x is xs[0] and x is not xs[1]": True,
    "x in xs and ids not in xs": True,
    "$out is h and $out.shape == [N, 5, 2]": True,
    "mode == 'tanh' and 'an' in mode": True,
    "flag": True,
    "w.requires_grad and not x.requires_grad": True,
    "is_input(x) and not is_input(w) and not is_input(h)": True,
    "path(h) == 'layer' and path($out) == 'layer' and path(x) == ''": True,
    "is_pow2(n) and not is_pow2(0) and not is_pow2(6)": True,
    "is_contiguous(x) and is_contiguous(w)": True,
    "all([i > 0 for i in K]) and not any([i > 3 for i in K])": True,
    "all([]) and not any([])": True,
    "bool(1) and not bool(0)": True,
    "inf > 1e300 and nan != nan": True,
    "same_dtype(x, w, h) and not same_dtype(x, ids)": True,
    "same_device(xs, ids) and same_shape(x, x)": True,
    "same_dtype(empty) and same_dtype(empty, x)": True,
    "same_shape(x, w)": False,
    # sizes: known for every batch size from 2 to 64
    "x.shape[0] == ids.shape[0] and N >= 2": True,
    "N == 1 or N > 64": False,
    "N * 3 == x.shape[0] * x.shape[2]": True,
    "max(N, 1) == N": True,
    "x.shape == [N, L, 3]": True,
    "x.shape == [N, L]": False,
    "broadcastable(ids, [N, 5])": True,
    "broadcastable(w, [2, 3]) and broadcastable([1, 3], x.shape)": True,
    "broadcastable(x, [5, 3])": False,
    "broadcastable([2, 3], [4, 3])": False,
}


@pytest.mark.parametrize("text", CONDITIONS)
def test_conditions(text: str, views: Views) -> None:
    assert holds(parse_expr(text), environment(views), views, SCOPE, out=node(views, "relu")) is CONDITIONS[text]


# a fact that is not known leaves the other side to decide; these are then known all the same
KLEENE = {
    "unknown.dtype == f32 or x.dtype == f32": True,
    "x.dtype == f32 or unknown.dtype == f32": True,
    "unknown.dtype == f32 and x.dtype == f16": False,
    "not (unknown.rank == 2 and False)": True,
    "N == 7 or L == 5": True,
    "N == 7 and L == 6": False,
    "all([unknown.rank == 2, L == 6])": False,
    "any([t.dtype == f32 for t in (unknown, x)])": True,
    "any([unknown.rank == 2, *[True]])": True,
    "same_dtype(x, unknown, ids)": False,
    "x.shape == [N, 6, 3]": False,
    "[7, L, 9] == x.shape": False,
    "N in [7, N]": True,
    "broadcastable([N, 5], [7, 6])": False,
}


@pytest.mark.parametrize("text", KLEENE)
def test_known_in_spite_of_unknown_facts(text: str, views: Views) -> None:
    assert holds(parse_expr(text), environment(views), views, SCOPE) is KLEENE[text]


UNKNOWN = {
    "unknown.dtype == f32": "dtype of `unknown` is unknown; pass example_inputs=",
    "len(unknown.shape) == 2": "shape of `unknown` is unknown; pass example_inputs=",
    "not unknown.device == 'cpu'": "device of `unknown` is unknown; pass example_inputs=",
    "is_contiguous(unknown)": "strides of `unknown` is unknown; pass example_inputs=",
    "unknown.rank == 2 and x.dtype == f32": "rank of `unknown` is unknown; pass example_inputs=",
    "unknown.rank == 2 or x.dtype == f16": "rank of `unknown` is unknown; pass example_inputs=",
    "same_shape(x, unknown)": "shape of `unknown` is unknown; pass example_inputs=",
    "N == 7": "for every size is unknown",
    "not N == 7": "for every size is unknown",
    "N < 10": "for every size is unknown",
    "x.shape == [7, L, 3]": "for every size is unknown",
    "broadcastable(x, [7, 5, 3])": "for every size is unknown",
    "N % 2 == 0 and L == 5": "for every size is unknown",
}


@pytest.mark.parametrize("text", UNKNOWN)
def test_unknown_facts_are_named(text: str, views: Views) -> None:
    with pytest.raises(Unknown) as caught:
        holds(parse_expr(text), environment(views), views, SCOPE)
    assert UNKNOWN[text] in str(caught.value)


def test_comparing_sizes_adds_no_guard(views: Views) -> None:
    size = node(views, "x").meta["val"].shape[0]
    before = len(size.node.shape_env.guards)
    for text in (*CONDITIONS, *KLEENE, *UNKNOWN):
        try:
            holds(parse_expr(text), environment(views), views, SCOPE, out=node(views, "relu"))
        except Unknown:
            continue
    assert len(size.node.shape_env.guards) == before
