"""What one node does besides computing its value: writes, randomness, shared memory.

Facts come from the op's schema or its family. What neither knows is opaque: it may
write to anything it can reach.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from torch import nn
from torch._ops import OpOverload, OpOverloadPacket
from torch.fx import Node
from torch.fx.node import _side_effectful_functions

from .effect_names import FAKED_AS_COPY, MAY_COPY, MAY_RETURN_ARGUMENT, STATISTICS
from .nodeview import View, Views
from .observers import is_observer
from .schemas import PURE, Effect, Place, called_by, memory_of, opaque, overloads_of, random, writing
from .spelled import spelled_effect, unlisted_effect
from .submodules import is_named
from .targets import is_plain
from .walks import nodes_in

__all__ = ["Effect", "Place", "barriers_of", "effect_of", "is_faked_as_copy"]


# Modules that draw random numbers, in training or not.
_SAMPLERS = (nn.FractionalMaxPool2d, nn.FractionalMaxPool3d)


def barriers_of(nodes: Iterable[Node], views: Views) -> list[Node]:
    """The nodes that write, or may do anything at all, in the order given: reads may not move past them."""
    found = []
    quiet: set[int] = set()  # the ops that write nothing, whatever their arguments: most nodes call one of a few
    for node in nodes:
        target = node.target
        if id(target) in quiet or node.op in ("placeholder", "get_attr", "output"):
            continue
        if isinstance(target, OpOverload):
            memory = memory_of(target)
            if not (memory.writes or memory.statistics or memory.is_call or target in _side_effectful_functions):
                quiet.add(id(target))
                continue
        if effect_of(node, views).kind in ("mutates", "opaque"):
            found.append(node)
    return found


def is_faked_as_copy(node: Node) -> bool:
    """Whether a fake tensor may be a copy where the real op gives back its argument."""
    return isinstance(node.target, OpOverload) and memory_of(node.target).name in FAKED_AS_COPY


def effect_of(node: Node, views: Views) -> Effect:
    """The effect of one node."""
    match node.op:
        case "placeholder" | "get_attr":
            return PURE
        case "output":
            return Effect("pure", aliases=tuple(node.all_input_nodes))
        case "call_function" if isinstance(node.target, OpOverload):
            return _overload_effect(node, node.target, views)
        case "call_module":
            return _module_effect(node, views)
    if is_observer(node):
        return PURE
    spelled = spelled_effect(node)
    if spelled is not None:
        return spelled
    if node.target in _side_effectful_functions:
        return opaque(node, "is called for its side effect")
    view = views.own(node)
    return _family_effect(node, view) if view is not None and not _contradicts(node) else unlisted_effect(node)


# -------------------------------------------------------------------- schemas
def _overload_effect(node: Node, op: OpOverload, views: Views) -> Effect:
    memory = memory_of(op)
    if memory.is_call or op in _side_effectful_functions:
        return PURE if is_observer(node) else opaque(node, "is called for its side effect")
    if memory.is_plain:
        return PURE
    writes, aliases = _given(node, memory.writes), _given(node, memory.aliases)
    if memory.writes:
        return writing(node, writes, aliases, draws=memory.random)
    statistics = _updated(node, op) if memory.statistics else ()
    if statistics:
        return Effect("mutates", statistics, (), f"`{node.name}` updates its running statistics")
    view = views.own(node) if memory.random else None
    if memory.random and (view is None or view.effect != "pure"):
        return random(node, () if view is not None and _surely_drops(view) else aliases)
    return Effect("pure", (), aliases, copies=memory.name in MAY_COPY)


def _given(node: Node, params: tuple[tuple[int, str], ...]) -> tuple[Node, ...]:
    """The nodes that are given for some parameters of the op that a node calls."""
    args, kwargs = node.args, node.kwargs
    return tuple(nodes_in([args[at] if at < len(args) else kwargs.get(name) for at, name in params]))


def _updated(node: Node, op: OpOverload) -> tuple[Node, ...]:
    """The running statistics that a normalization updates: it does, unless it is told that it is not training."""
    given = {**dict(zip((arg.name for arg in op._schema.arguments), node.args, strict=False)), **node.kwargs}
    if given.get("training", given.get("use_input_stats")) is False:
        return ()
    return tuple(nodes_in([given.get("running_mean"), given.get("running_var")]))


# ------------------------------------------------------------------- families
def _family_effect(node: Node, view: View) -> Effect:
    inputs = tuple(node.all_input_nodes)
    aliases = inputs if _may_alias(view.family.name) else ()
    told = view.family.effect != "pure" or view.family.name not in STATISTICS or _is_evaluating(view)
    match view.effect:
        case "pure" if told:
            return Effect("pure", (), aliases, copies=view.family.name in MAY_COPY)
        case "random":
            return random(node, () if _surely_drops(view) else aliases)
    if view.family.name in STATISTICS:
        statistics = tuple(nodes_in([view.args[view.family.index[name]] for name in ("running_mean", "running_var")]))
        return Effect("mutates", statistics, aliases, f"`{node.name}` updates its running statistics")
    return writing(node, inputs, inputs, draws=True)


def _surely_drops(view: View) -> bool:
    """Whether a dropout in training has a rate above zero: at zero it gives back its input."""
    at = view.family.index.get("p")
    rate = None if at is None else view.args[at]
    return isinstance(rate, int | float) and rate > 0


def _is_evaluating(view: View) -> bool:
    """Whether a normalization is told that it is not training."""
    at = view.family.index.get("training")
    return at is not None and view.args[at] is False


@cache
def _may_alias(name: str) -> bool:
    """Whether an op of this name may return an argument or a view of one."""
    return name in MAY_RETURN_ARGUMENT or any(memory_of(op).aliases for op in called_by(name))


def _contradicts(node: Node) -> bool:
    """Whether the schema of the op that a node calls by its packet says that it writes, whatever a family declares."""
    return any(memory_of(op).writes or memory_of(op).is_call for op in _own_overloads(node.target))


def _own_overloads(target: object) -> list[OpOverload]:
    if isinstance(target, OpOverloadPacket) and target._qualified_op_name.partition("::")[0] != "aten":
        return overloads_of(target)
    return []


# --------------------------------------------------------------------- modules
def _module_effect(node: Node, views: Views) -> Effect:
    path, inputs = str(node.target), tuple(node.all_input_nodes)
    if is_observer(node):
        return PURE
    view = views.own(node)
    if view is not None:
        effect = _family_effect(node, view)
        if effect.kind == "mutates":
            return Effect("mutates", (f"{path}.",), (), f"`{node.name}` updates the state of module `{path}`")
        return effect
    module = views.module(path)
    named = is_named(module, views.classes)
    parts = [] if module is None else list(module.modules())
    if module is None or not all(is_plain(part) if named else _is_plain(part) for part in parts):
        return opaque(node, f"calls module `{path}` of class {type(module).__name__}", f"{path}.")
    draws = any(isinstance(part, _SAMPLERS) or (part.training and _drops(part)) for part in parts)
    updates = any(part.training and getattr(part, "track_running_stats", False) for part in parts)
    updates = updates or (named and module.training and _has_state(module))
    if updates or any(getattr(part, "max_norm", None) is not None for part in parts):
        reason = f"`{node.name}` updates the state of module `{path}`"
        written = inputs if any(map(_is_in_place, parts)) else ()
        return Effect("mutates", (*written, f"{path}."), inputs, reason, draws=draws)
    if any(map(_is_in_place, parts)):
        return writing(node, inputs, inputs, draws=draws)
    return random(node, inputs) if draws else Effect("pure", aliases=inputs)


def _is_plain(module: nn.Module) -> bool:
    """A module of torch itself whose call runs its ``forward`` and nothing else."""
    odd = (module._forward_hooks, module._forward_pre_hooks, getattr(module, "parametrizations", None))
    own = "forward" in vars(module)
    return type(module).__module__.startswith("torch.nn.modules.") and not any(odd) and not own


def _has_state(module: nn.Module) -> bool:
    """Whether a module that is not torch's own has buffers, which it may update while it trains."""
    return not type(module).__module__.startswith("torch.nn.modules.") and any(True for _ in module.buffers())


def _is_in_place(module: nn.Module) -> bool:
    return bool(getattr(module, "inplace", False))


def _drops(module: nn.Module) -> bool:
    """Whether a module draws random numbers in training."""
    rate = getattr(module, "p", getattr(module, "dropout", 0))
    return (isinstance(rate, int | float) and rate > 0) or isinstance(module, nn.RReLU)
