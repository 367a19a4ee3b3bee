"""What each node does: writes, randomness, which arguments its value may alias."""

from __future__ import annotations

import operator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from sites import Site, node_of, site_of
from torch import Tensor, nn
from torch.fx import Graph, GraphModule

aten = torch.ops.aten


def one_node(
    op: str, target: Any, args: int = 1, *rest: Any, modules: dict[str, nn.Module] | None = None, **kw: Any
) -> Site:
    graph = Graph()
    inputs = [graph.placeholder(name) for name in "xyz"[:args]]
    node = graph.create_node(op, target, (*inputs, *rest), kw, name="node")
    graph.output(node)
    return site_of(GraphModule(nn.ModuleDict(modules or {}), graph))


def own_relu_(x: Tensor, y: Tensor) -> None:
    """A name ends in ``_``; what it writes to, nobody knows."""
    y.relu_()


FUNCTIONS: list[tuple[str, Any, tuple[Any, ...], dict[str, Any], str, str, str]] = [
    # name, target, (inputs, *rest), keywords, kind, writes, aliases
    ("add", aten.add.Tensor, (2,), {}, "pure", "", ""),
    ("add_", aten.add_.Tensor, (2,), {}, "mutates", "x", "x"),
    ("add.out", aten.add.out, (2,), {"out": "z"}, "mutates", "z", "z"),
    ("view", aten.view.default, (1, [2]), {}, "pure", "", "x"),
    ("reshape", aten.reshape.default, (1, [2]), {}, "pure", "", "x"),
    ("clone", aten.clone.default, (1,), {}, "pure", "", ""),
    ("to", aten.to.dtype, (1, torch.float32), {}, "pure", "", "x"),
    ("cartesian_prod", aten.cartesian_prod.default, (1,), {}, "pure", "", "x"),
    ("unsafe_split", aten.unsafe_split.Tensor, (1, 1), {}, "pure", "", "x"),
    ("type_as", aten.type_as.default, (2,), {}, "pure", "", "x y"),
    ("einsum", aten.einsum.default, (0, "ij->ji"), {}, "pure", "", ""),
    ("bernoulli", aten.bernoulli.default, (1,), {}, "random", "", ""),
    ("dropout eval", aten.dropout.default, (1, 0.5, False), {}, "pure", "", "x"),
    ("dropout train", aten.dropout.default, (1, 0.5, True), {}, "random", "", ""),
    ("dropout of nothing", aten.dropout.default, (1, 0.0, True), {}, "random", "", "x"),
    ("sdpa", aten.scaled_dot_product_attention.default, (3,), {}, "pure", "", ""),
    ("sdpa dropout", aten.scaled_dot_product_attention.default, (3, None, 0.1), {}, "random", "", ""),
    ("torch.add", torch.add, (2,), {}, "pure", "", ""),
    ("torch.add out", torch.add, (2,), {"out": "z"}, "mutates", "z", "z"),
    ("operator.add", operator.add, (2,), {}, "pure", "", ""),
    ("operator.iadd", operator.iadd, (2,), {}, "mutates", "x", "x"),
    ("operator.and_", operator.and_, (2,), {}, "pure", "", ""),
    ("operator.or_", operator.or_, (2,), {}, "pure", "", ""),
    ("operator.setitem", operator.setitem, (1, 0, 1), {}, "mutates", "x", "x"),
    ("operator.invert", operator.invert, (1,), {}, "pure", "", ""),
    ("tuple", tuple, (1,), {}, "pure", "", "x"),
    ("operator.index", operator.index, (1,), {}, "pure", "", ""),
    ("getitem", operator.getitem, (1, 0), {}, "pure", "", "x"),
    ("getattr mT", getattr, (1, "mT"), {}, "pure", "", "x"),
    ("relu", F.relu, (1,), {"inplace": False}, "pure", "", ""),
    ("relu inplace", F.relu, (1,), {"inplace": True}, "mutates", "x", "x"),
    ("relu inplace by place", F.relu, (1, True), {}, "mutates", "x", "x"),
    ("torch.relu_", torch.relu_, (1,), {}, "mutates", "x", "x"),
    ("F.dropout", F.dropout, (1, 0.5, False), {}, "pure", "", "x"),
    ("F.dropout train", F.dropout, (1, 0.5, True), {}, "random", "", ""),
    ("F.dropout of nothing", F.dropout, (1, 0, True), {}, "random", "", "x"),
    ("torch.rand_like", torch.rand_like, (1,), {}, "random", "", ""),
    ("F.batch_norm", F.batch_norm, (3,), {}, "pure", "", ""),
    ("F.batch_norm train", F.batch_norm, (3, None, None, True), {}, "mutates", "y z", ""),
    ("no statistics", aten.batch_norm.default, (1, None, None, None, None, True, 0.1, 1e-5, False), {}, "pure", "", ""),
    ("statistics by name", torch.batch_norm_update_stats, (3, 0.1), {}, "mutates", "y z", ""),
    ("embedding", F.embedding, (2,), {}, "pure", "", ""),
    ("embedding that renormalises", F.embedding, (2, None, 1.0), {}, "mutates", "y", ""),
    ("by keyword", F.embedding, (2,), {"max_norm": 1.0}, "mutates", "y", ""),
    ("embedding_bag that renormalises", F.embedding_bag, (2,), {"max_norm": 1.0}, "mutates", "y", ""),
    ("sampling pool", F.fractional_max_pool2d, (1, 2), {"output_size": 2}, "random", "", ""),
    ("setattr", setattr, (1, "grad", None), {}, "opaque", "x", "x"),
    ("next", next, (1,), {}, "opaque", "x", "x"),
    ("operator.call", operator.call, (2,), {}, "opaque", "x y", "x y"),
    ("name of another's function", own_relu_, (2,), {}, "opaque", "x y", "x y"),
    ("clip_grad_norm_", torch.nn.utils.clip_grad_norm_, (1, 1.0), {}, "opaque", "x", "x"),
    ("_foreach_add_", torch._foreach_add_, (2,), {}, "mutates", "x", "x"),
    ("init", torch.nn.init.normal_, (1,), {}, "mutates", "x", "x"),
    ("check", torch._assert, (1, "positive"), {}, "pure", "", ""),
    ("device_put", torch.ops.prims.device_put.default, (1, torch.device("cpu")), {}, "pure", "", "x"),
    ("update_stats", aten.batch_norm_update_stats.default, (3, 0.1), {}, "mutates", "y z", ""),
    ("no result", aten._cufft_clear_plan_cache.default, (0, 0), {}, "opaque", "", ""),
    ("print", aten._print.default, (0, "text"), {}, "opaque", "", ""),
    ("grad mode", torch._C._set_grad_enabled, (0, False), {}, "opaque", "", ""),
    ("grad mode class", torch.set_grad_enabled, (0, False), {}, "opaque", "", ""),
    ("autocast", torch.amp.autocast_mode._enter_autocast, (0, "cpu"), {}, "opaque", "", ""),
    ("autocast exit", torch.amp.autocast_mode._exit_autocast, (1,), {}, "opaque", "x", "x"),
    ("inference mode", torch.inference_mode, (0,), {}, "opaque", "", ""),
    ("dtype of all", torch.set_default_dtype, (0, torch.float64), {}, "opaque", "", ""),
    ("rng state", torch.set_rng_state, (1,), {}, "opaque", "x", "x"),
    ("manual_seed", torch.manual_seed, (0, 3), {}, "opaque", "", ""),
    ("unknown", one_node, (1,), {}, "opaque", "x", "x"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("target", "args", "kw", "kind", "writes", "aliases"),
    [case[1:] for case in FUNCTIONS],
    ids=[case[0] for case in FUNCTIONS],
)
def test_effects_of_functions(
    target: Any, args: tuple[Any, ...], kw: dict[str, Any], kind: str, writes: str, aliases: str
) -> None:
    graph = Graph()
    inputs = [graph.placeholder(name) for name in "xyz"]
    keywords = {name: inputs[2] if value == "z" else value for name, value in kw.items()}
    node = graph.call_function(target, (*inputs[: args[0]], *args[1:]), keywords)
    graph.output(node)
    effect = site_of(GraphModule(nn.Module(), graph)).effects.effect(node)
    assert effect.kind == kind
    assert [str(place) for place in effect.writes] == writes.split()
    assert [str(source) for source in effect.aliases] == aliases.split()
    assert effect.draws or kind not in ("random", "opaque")


METHODS = [
    ("add", "pure", ""), ("add_", "mutates", "x"), ("view", "pure", "x"), ("contiguous", "pure", "x"),
    ("relu", "pure", ""),
    ("__setitem__", "mutates", "x"), ("__iadd__", "mutates", "x"), ("__add__", "pure", ""), ("size", "pure", ""),
    ("bernoulli", "random", ""), ("uniform_", "mutates", "x"), ("frobnicate", "opaque", "x"),
    ("backward", "opaque", "x"), ("register_hook", "opaque", "x"), ("retain_grad", "opaque", "x"),
]  # fmt: skip


@pytest.mark.parametrize(("method", "kind", "aliases"), METHODS)
def test_effects_of_methods(method: str, kind: str, aliases: str) -> None:
    site = one_node("call_method", method, 2 if "add" in method else 1)
    effect = site.effects.effect(node_of(site.graph, "node"))
    assert (effect.kind, [str(source) for source in effect.aliases]) == (kind, aliases.split())


class Own(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.add_(1)


def _hooked() -> nn.Module:
    module = nn.ReLU()
    module.register_forward_hook(lambda module, args, output: output.add_(1))
    return module


def _training(module: nn.Module) -> nn.Module:
    """A sequence in eval mode, with one part in training."""
    whole = nn.Sequential(module, nn.Linear(2, 2)).eval()
    module.train()
    return whole


def _forward_replaced() -> nn.Module:
    module = nn.ReLU()
    setattr(module, "forward", lambda x: x.add_(1))  # noqa: B010 - as wrappers of other libraries do it
    return module


class Local(nn.Module):
    """A class that no rule names."""


class Named(nn.Module):
    """A class that rules name: what they know of it is what its parts do."""

    def __init__(self, part: nn.Module | None = None, *, buffer: bool = False) -> None:
        super().__init__()
        self.part = part
        if buffer:
            self.register_buffer("scale", torch.ones(2))


MODULES = [
    ("linear", nn.Linear(2, 2), "pure", "", ""),
    ("relu inplace", nn.ReLU(inplace=True), "mutates", "x", "x"),
    ("dropout", nn.Dropout(), "random", "", ""),
    ("dropout of nothing", nn.Dropout(0.0), "random", "", "x"),
    ("dropout eval", nn.Dropout().eval(), "pure", "", "x"),
    ("batch norm", nn.BatchNorm1d(2), "mutates", "part.", ""),
    ("batch norm eval", nn.BatchNorm1d(2).eval(), "pure", "", ""),
    ("identity", nn.Identity(), "pure", "", "x"),
    ("lstm eval", nn.LSTM(2, 2).eval(), "pure", "", "x"),
    ("part in training", _training(nn.BatchNorm1d(2)), "mutates", "part.", "x"),
    ("part that drops", _training(nn.Dropout()), "random", "", "x"),
    ("part in eval", nn.Sequential(nn.BatchNorm1d(2), nn.Dropout()).eval(), "pure", "", "x"),
    ("renormalises", nn.Embedding(2, 2, max_norm=1.0).eval(), "mutates", "part.", "x"),
    ("samples", nn.FractionalMaxPool2d(2, output_size=1).eval(), "random", "", "x"),
    ("own", Own(), "opaque", "x part.", "x"),
    ("hooked", _hooked(), "opaque", "x part.", "x"),
    ("forward replaced", _forward_replaced(), "opaque", "x part.", "x"),
    ("not named", Local(), "opaque", "x part.", "x"),
    ("named", Named(), "pure", "", "x"),
    ("named, with a buffer", Named(buffer=True), "mutates", "part.", "x"),
    ("named, with a buffer, eval", Named(buffer=True).eval(), "pure", "", "x"),
    ("named, with a part of any class", Named(Local()), "pure", "", "x"),
    ("named, with a part in place", Named(nn.ReLU(inplace=True)).eval(), "mutates", "x", "x"),
    ("named, with a batch norm", Named(nn.BatchNorm1d(2)), "mutates", "part.", "x"),
    ("named, with a dropout", Named(nn.Dropout()), "random", "", "x"),
    ("named, with a hook", Named(_hooked()).eval(), "opaque", "x part.", "x"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("module", "kind", "writes", "aliases"), [case[1:] for case in MODULES], ids=[case[0] for case in MODULES]
)
def test_effects_of_modules(module: nn.Module, kind: str, writes: str, aliases: str) -> None:
    site = one_node("call_module", "part", modules={"part": module})
    site.views.classes = frozenset({"test_memory.Named"})
    effect = site.effects.effect(node_of(site.graph, "node"))
    assert effect.kind == kind
    assert [str(place) for place in effect.writes] == writes.split()
    assert [str(source) for source in effect.aliases] == aliases.split()


# ----------------------------------------------------------------- random state
@pytest.mark.parametrize(
    ("op", "target", "draws"),
    [
        ("call_method", "uniform_", True),
        ("call_method", "bernoulli_", True),
        ("call_method", "add_", False),
        ("call_function", torch.dropout_, True),
        ("call_function", aten.uniform_.default, True),
        ("call_function", aten.add_.Tensor, False),
        ("call_module", nn.Dropout(inplace=True), True),
        ("call_module", nn.Dropout(inplace=True).eval(), False),
        ("call_module", nn.ReLU(inplace=True), False),
    ],
)
def test_what_writes_may_also_draw_random_numbers(op: str, target: Any, draws: bool) -> None:
    modules = {"part": target} if op == "call_module" else {}
    site = one_node(op, "part" if modules else target, modules=modules)
    effect = site.effects.effect(node_of(site.graph, "node"))
    assert (effect.kind, effect.draws) == ("mutates", draws)


def test_a_torch_function_is_what_its_name_says_only_if_torch_offers_it() -> None:
    def exp(x: Tensor) -> Tensor:
        return x.exp_()

    exp.__module__ = "torch.somewhere"
    for function, kind in ((torch.exp, "pure"), (exp, "opaque")):
        site = one_node("call_function", function)
        assert site.effects.effect(node_of(site.graph, "node")).kind == kind
