"""What the condition of a step can know before any rule has run: device, mode and level of the model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch
from attrs import frozen
from torch import Tensor, nn
from torch.fx import GraphModule, Node

from ..dsl import ast
from ..dsl.phrases import format_expr
from ..dsl.vocabulary import SITUATION
from ..dsl.walking import names_in
from .evaluation import Declined, Unknown, holds
from .nodeview import Views, level_of
from .observers import is_observer
from .ruleset import Scope

_MODE_FLAGS = frozenset({"train", "training"})
_CALLS = frozenset({"call_function", "call_method", "call_module"})


@frozen(eq=False)
class Situation(Mapping[str, object]):
    """``device``, ``mode`` and ``level`` of a graph, looked up when a condition reads them.

    ``training`` is the flag of the module that the graph was captured from, None where
    that is not known. Reading a name raises Unknown where the graph does not tell.
    """

    views: Views
    training: bool | None = None

    def __getitem__(self, name: str) -> object:
        match name:
            case "device":
                return _device(self.views)
            case "mode":
                return _mode(self.views, self.training)
            case "level":
                return _level(self.views)
        raise KeyError(name)

    def __contains__(self, name: object) -> bool:
        return name in SITUATION

    def __iter__(self) -> Iterator[str]:
        return iter(SITUATION)

    def __len__(self) -> int:
        return len(SITUATION)


def training_flag(model: object) -> bool | None:
    """The flag that all modules of a model have; None where they differ, and of a graph: its flag may mean nothing."""
    if not isinstance(model, nn.Module) or isinstance(model, GraphModule):
        return None
    flags = {part.training for part in model.modules()}
    return flags.pop() if len(flags) == 1 else None


def reason_to_skip(condition: ast.Expr | None, situation: Situation, scope: Scope) -> str:
    """Why a step with this condition is skipped: it is false, or not known to be true; "" if it runs."""
    if condition is None:
        return ""
    text = " ".join(format_expr(condition).split())
    try:
        if holds(condition, situation, situation.views, scope):
            return ""
    except Unknown as unknown:
        return f"`{text}` is unknown: {unknown}"
    except Declined as declined:
        return f"`{text}` has no value: {declined.reason}"
    named = dict.fromkeys(one.id for one in names_in(condition) if one.id in SITUATION)
    known = ", ".join(f"{name} is {_shown(situation, name)}" for name in named)
    return f"`{text}` is false{': ' if known else ''}{known}"


def _shown(situation: Situation, name: str) -> str:
    try:
        return str(situation[name])
    except Unknown:
        return "unknown"


def _device(views: Views) -> torch.device:
    """The one device of all tensors, those of no dim on the CPU left out; without an index where these differ."""
    devices = {one.device for one in _tensors(views) if one.ndim or one.device.type != "cpu"}
    types = {device.type for device in devices}
    if not types:
        raise Unknown("the device of the model is unknown", "pass example_inputs=")
    if len(types) > 1:
        raise Unknown(f"the model is on {' and '.join(sorted(types))}")
    return devices.pop() if len(devices) == 1 else torch.device(types.pop())


def _tensors(views: Views) -> Iterator[Tensor]:
    owner = views.owner
    if owner is not None:
        yield from owner.parameters()
        yield from owner.buffers()
    yield from views.lifted.values()
    for node in views.graph.nodes:
        fact = views.fact(node)
        for one in fact if isinstance(fact, tuple | list) else (fact,):
            if isinstance(one, Tensor):
                yield one


def _mode(views: Views, training: bool | None) -> str:
    """Of a captured module its flag, of an exported graph what is baked into its ops, else the flags of its modules."""
    calls = [node for node in views.graph.nodes if node.op in _CALLS]
    owner = views.owner
    if training is not None:
        flags = {training}
    elif any(level_of(node) == "aten" for node in calls):
        flags = {flag for node in calls for flag in _baked_flags(node)}
    else:
        flags = {owner.training, *(part.training for part in _called(calls, owner))} if owner is not None else set()
    if len(flags) != 1:
        what = "parts of the model train and others do not" if flags else "no op of this graph tells the mode"
        raise Unknown(what, "" if flags else "rewrite the nn.Module, before it is exported")
    return "train" if flags.pop() else "eval"


def _baked_flags(node: Node) -> Iterator[bool]:
    """The training flag of a call of an overload, if it has one."""
    if isinstance(node.target, torch._ops.OpOverload):
        for argument, value in zip(node.target._schema.arguments, node.args, strict=False):
            if argument.name in _MODE_FLAGS and isinstance(value, bool):
                yield value


def _called(calls: list[Node], owner: nn.Module) -> Iterator[nn.Module]:
    """The modules that a graph calls, and all inside them."""
    for node in calls:
        if node.op == "call_module":
            yield from owner.get_submodule(str(node.target)).modules()


def _level(views: Views) -> str:
    """The level of all calls. Items of tuples and arithmetic on sizes stand at both."""
    calls = [node for node in views.graph.nodes if node.op in _CALLS and not is_observer(node)]
    aten = any(level_of(node) == "aten" for node in calls)
    if not calls or (aten and any(_is_torch_call(node, views) for node in calls)):
        raise Unknown("the graph mixes torch calls and ATen overloads" if calls else "the graph calls no op")
    return "aten" if aten else "torch"


def _is_torch_call(node: Node, views: Views) -> bool:
    if level_of(node) == "aten" or getattr(node.target, "__module__", "") == "_operator":
        return False
    return node.op != "call_function" or bool(views.family_names(node))
