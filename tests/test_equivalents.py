"""Other ways to see one node: a swap of two dims is a transpose, a permute and a movedim."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch
from op_samples import run, same_result
from single_nodes import Site

from fxrules.engine.families import load_table
from fxrules.engine.spellings import emit

aten = torch.ops.aten


def _ways_to_transpose(rank: int) -> list[tuple[Callable[..., Any] | str, tuple[Any, ...]]]:
    ways: list[tuple[Callable[..., Any] | str, tuple[Any, ...]]] = [
        ("permute", (order,)) for order in itertools.permutations(range(rank))
    ]
    ways += [(torch.transpose, pair) for pair in itertools.product(range(-rank, rank), repeat=2)]
    ways += [(torch.movedim, pair) for pair in itertools.product(range(rank), repeat=2)]
    ways += [("t", ()), (aten.numpy_T.default, ())] if rank == 2 else []
    return [*ways, (aten.mT.default, ())]


@pytest.mark.parametrize("rank", [2, 3, 4])
def test_every_view_of_a_transposition_computes_the_same(rank: int) -> None:
    site = Site(shape=(2, 3, 4, 5)[:rank])
    names = set()
    for target, args in _ways_to_transpose(rank):
        node = site.call(target, site.x, *args)
        expected = run(target, (site.x, *args), {}, {site.x: site.x.meta["val"]})
        views = site.views.views(node)
        assert len({(view.family.name, view.args) for view in views}) == len(views)
        for view in views:
            call = emit(load_table(), view.family, view.args, "aten")
            assert call is not None
            assert same_result(expected, run(*call, {site.x: site.x.meta["val"]})), f"{node.format_node()} as {view}"
            names.add(view.family.name)
    assert names == {"permute", "transpose", "movedim", "mT", *(("t", "T") if rank == 2 else ())}


def test_a_swap_of_the_last_two_is_seen_in_every_way() -> None:
    site = Site()
    ways = [
        site.call(getattr, site.x, "mT"),
        site.call("transpose", site.x, -2, -1),
        site.call(torch.swapaxes, site.x, 3, 2),
        site.call("permute", site.x, 0, 1, 3, 2),
        site.call(aten.movedim.int, site.x, 2, 3),
    ]
    for node in ways:
        assert site.views.view_as(node, "mT") is not None
        assert [view.args[1:] for view in site.views.views_as(node, "permute")] == [((0, 1, 3, 2),)]
        assert {view.args[1:] for view in site.views.views_as(node, "transpose")} == {(2, 3), (3, 2)}
    assert site.views.view_as(site.call("permute", site.x, 0, 2, 1, 3), "mT") is None
    assert site.views.view_as(site.call("permute", site.x, 0, 2, 3, 1), "transpose") is None


def test_without_a_rank_only_what_holds_for_every_rank() -> None:
    site = Site()
    swap = site.call("transpose", site.unknown, -1, -2)
    other = site.call("transpose", site.unknown, 1, 2)
    assert [(view.family.name, view.args[1:]) for view in site.views.views(swap)] == [
        ("transpose", (-1, -2)),
        ("transpose", (-2, -1)),
        ("mT", ()),
    ]
    assert [(view.family.name, view.args[1:]) for view in site.views.views(other)] == [
        ("transpose", (1, 2)),
        ("transpose", (2, 1)),
    ]


def test_square_is_the_second_power() -> None:
    site = Site()
    square, power, cube = (
        site.call(torch.square, site.x),
        site.call(operator.pow, site.x, 2),
        site.call("pow", site.x, 3),
    )
    assert [view.family.name for view in site.views.views(square)] == ["square", "pow"]
    assert [view.family.name for view in site.views.views(power)] == ["pow", "square"]
    assert [view.family.name for view in site.views.views(cube)] == ["pow"]
    assert site.views.view_as(site.call(operator.mul, site.x, site.x), "square") is None
