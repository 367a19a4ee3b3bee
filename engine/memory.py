"""What one node does besides computing its value: writes, randomness, shared memory.

Facts come from the op's schema or its family. What neither knows is opaque: it may
write to anything it can reach.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, Literal, TypeAlias

import torch
from attrs import frozen
from torch import nn
from torch._ops import HigherOrderOperator, OpOverload, OpOverloadPacket
from torch.fx import Node

from .effect_names import FAKED_AS_COPY, IN_PLACE_OPERATORS, MAY_COPY, MAY_RETURN_ARGUMENT, QUERIES, STATE, STATISTICS
from .nodeview import View, Views
from .observers import is_observer
from .submodules import is_named
from .targets import is_plain

Kind: TypeAlias = Literal["pure", "random", "mutates", "opaque"]
# A written or read place: a node's memory, or the attributes below a dotted path.
Place: TypeAlias = Node | str


@frozen
class Effect:
    """The effect of a node.

    ``aliases``: the arguments that its result may share memory with; ``copies``: it may
    as well be a copy, as of ``reshape``, ``contiguous`` and ``to``.
    """

    kind: Kind
    writes: tuple[Place, ...] = ()
    aliases: tuple[Node, ...] = ()
    reason: str = ""
    copies: bool = False


_PURE = Effect("pure")


def barriers_of(nodes: Iterable[Node], views: Views) -> list[Node]:
    """The nodes that write, or may do anything at all, in the order given: reads may not move past them."""
    found = []
    quiet: set[int] = set()  # the ops that write nothing, whatever their arguments: most nodes call one of a few
    for node in nodes:
        target = node.target
        if id(target) in quiet or node.op in ("placeholder", "get_attr", "output"):
            continue
        if isinstance(target, OpOverload):
            memory = _memory_of(target)
            if not memory.writes and not memory.statistics:
                quiet.add(id(target))
                continue
        if effect_of(node, views).kind in ("mutates", "opaque"):
            found.append(node)
    return found


def is_faked_as_copy(node: Node) -> bool:
    """Whether a fake tensor may be a copy where the real op gives back its argument."""
    return isinstance(node.target, OpOverload) and _memory_of(node.target).name in FAKED_AS_COPY


def effect_of(node: Node, views: Views) -> Effect:
    """The effect of one node."""
    match node.op:
        case "placeholder" | "get_attr":
            return _PURE
        case "output":
            return Effect("pure", aliases=tuple(node.all_input_nodes))
        case "call_function" if isinstance(node.target, OpOverload):
            return _overload_effect(node, node.target, views)
        case "call_module":
            return _module_effect(node, views)
    spelled = _spelled_effect(node)
    if spelled is not None:
        return spelled
    view = views.own(node)
    return _family_effect(node, view) if view is not None else _unlisted_effect(node)


# -------------------------------------------------------------------- schemas
@frozen
class _Memory:
    """What a schema says: the arguments written to, and those the result may share memory with, with their places."""

    name: str
    writes: tuple[tuple[int, str], ...]
    aliases: tuple[tuple[int, str], ...]
    random: bool
    statistics: bool

    @property
    def is_plain(self) -> bool:
        """Whether the op gives a value of its own, and does nothing else."""
        return not (self.writes or self.aliases or self.random or self.statistics)


@cache
def _memory_of(op: OpOverload) -> _Memory:
    arguments = list(enumerate(op._schema.arguments))
    writes = tuple((at, arg.name) for at, arg in arguments if arg.alias_info is not None and arg.alias_info.is_write)
    name = op._schema.name.partition("::")[2]
    any_argument = name in MAY_RETURN_ARGUMENT
    aliases = tuple((at, arg.name) for at, arg in arguments if any_argument or arg.alias_info is not None)
    return _Memory(name, writes, aliases, torch.Tag.nondeterministic_seeded in op.tags, name in STATISTICS)


def _overload_effect(node: Node, op: OpOverload, views: Views) -> Effect:
    memory = _memory_of(op)
    if memory.is_plain:
        return _PURE
    writes, aliases = _given(node, memory.writes), _given(node, memory.aliases)
    if memory.writes:
        return Effect("mutates", writes, aliases, f"`{node.name}` writes to {_names(writes)}")
    statistics = _updated(node, op) if memory.statistics else ()
    if statistics:
        return Effect("mutates", statistics, (), f"`{node.name}` updates its running statistics")
    view = views.own(node) if memory.random else None
    if memory.random and (view is None or view.effect != "pure"):
        return Effect("random", (), aliases, f"`{node.name}` draws random numbers")
    return Effect("pure", (), aliases, copies=memory.name in MAY_COPY)


def _given(node: Node, params: tuple[tuple[int, str], ...]) -> tuple[Node, ...]:
    """The nodes that are given for some parameters of the op that a node calls."""
    args, kwargs = node.args, node.kwargs
    return _nodes([args[at] if at < len(args) else kwargs.get(name) for at, name in params])


def _updated(node: Node, op: OpOverload) -> tuple[Node, ...]:
    """The running statistics that a normalization updates: it does, unless it is told that it is not training."""
    given = {**dict(zip((arg.name for arg in op._schema.arguments), node.args, strict=False)), **node.kwargs}
    if given.get("training", given.get("use_input_stats")) is False:
        return ()
    return _nodes([given.get("running_mean"), given.get("running_var")])


# ------------------------------------------------------------------- families
def _family_effect(node: Node, view: View) -> Effect:
    inputs = tuple(node.all_input_nodes)
    aliases = inputs if _may_alias(view.family.name) else ()
    match view.effect:
        case "pure":
            return Effect("pure", (), aliases, copies=view.family.name in MAY_COPY)
        case "random":
            return Effect("random", (), aliases, f"`{node.name}` draws random numbers")
    if view.family.name in STATISTICS:
        statistics = _nodes(view.args[view.family.index[name]] for name in ("running_mean", "running_var"))
        return Effect("mutates", statistics, aliases, f"`{node.name}` updates its running statistics")
    return Effect("mutates", inputs, inputs, f"`{node.name}` may write to {_names(inputs)}")


@cache
def _may_alias(name: str) -> bool:
    """Whether an op of this name may return an argument or a view of one."""
    return name in MAY_RETURN_ARGUMENT or any(_memory_of(op).aliases for op in _overloads(name))


def _overloads(name: str) -> list[OpOverload]:
    # Overloads that write (``out=``) are called by other names or keywords, which are looked at first.
    return [op for op in overloads_of(getattr(torch.ops.aten, name, None)) if not _memory_of(op).writes]


def overloads_of(packet: Any) -> list[OpOverload]:
    """The overloads of an op packet; none of anything else."""
    names: Any = packet.overloads if isinstance(packet, OpOverloadPacket) else list
    return [getattr(packet, name) for name in names()]


# ---------------------------------------------------- functions and methods
def _spelled_effect(node: Node) -> Effect | None:
    """What a spelling alone gives away: ``x.add_(y)``, ``x += y``, ``x[0] = y``, ``out=``, ``inplace=True``."""
    target = node.target
    name = target if isinstance(target, str) else getattr(target, "__name__", "")
    first = tuple(node.args[:1])
    if isinstance(target, HigherOrderOperator):
        inputs = tuple(node.all_input_nodes)
        return Effect("opaque", inputs, inputs, f"`{node.name}` is the higher-order op {target}")
    if name in STATE:
        return Effect("opaque", reason=f"`{node.name}` changes the state of torch")
    module = getattr(target, "__module__", None)
    in_place = (name.endswith("_") and not name.endswith("__")) or (
        name in IN_PLACE_OPERATORS and (isinstance(target, str) or module == "_operator")
    )
    if in_place or _asks_in_place(node):
        written = _nodes(first)
        return Effect("mutates", written, written, f"`{node.name}` writes to {_names(written)}")
    if node.kwargs.get("out") is not None:
        written = _nodes([node.kwargs["out"]])
        return Effect("mutates", written, written, f"`{node.name}` writes to {_names(written)}")
    return None


def _asks_in_place(node: Node) -> bool:
    if "inplace" in node.kwargs:
        return node.kwargs["inplace"] is not False
    at = _inplace_position(node.target) if callable(node.target) else None
    return at is not None and len(node.args) > at and node.args[at] is not False


@cache
def _inplace_position(function: Callable[..., Any]) -> int | None:
    if not inspect.isfunction(function):
        return None
    names = list(inspect.signature(function).parameters)
    return names.index("inplace") if "inplace" in names else None


def _unlisted_effect(node: Node) -> Effect:
    """A function or method that belongs to no family."""
    target, inputs = node.target, tuple(node.all_input_nodes)
    module = getattr(target, "__module__", None) or ""
    name = target if isinstance(target, str) else getattr(target, "__name__", "")
    if module in ("_operator", "math", "builtins"):
        return Effect("pure", aliases=inputs if module == "builtins" or name in MAY_RETURN_ARGUMENT else ())
    if isinstance(target, str) and (name in QUERIES or name.startswith("is_")):
        return _PURE
    if isinstance(target, OpOverloadPacket):
        found = overloads_of(target)
    elif isinstance(target, str) or module.partition(".")[0] == "torch":
        found = _overloads(name.removeprefix("__").removesuffix("__"))
    else:
        found = []
    if not found or any(_memory_of(op).writes for op in found):
        return Effect("opaque", inputs, inputs, f"`{node.name}` calls {_called(target)}, which is not known to be pure")
    aliases = inputs if any(_memory_of(op).aliases for op in found) else ()
    if any(_memory_of(op).random for op in found):
        return Effect("random", (), aliases, f"`{node.name}` draws random numbers")
    return Effect("pure", (), aliases, copies=name in MAY_COPY)


# --------------------------------------------------------------------- modules
def _module_effect(node: Node, views: Views) -> Effect:
    path, inputs = str(node.target), tuple(node.all_input_nodes)
    if is_observer(node):
        return _PURE
    view = views.own(node)
    if view is not None:
        effect = _family_effect(node, view)
        if effect.kind == "mutates":
            return Effect("mutates", (f"{path}.",), (), f"`{node.name}` updates the state of module `{path}`")
        return effect
    module = views.module(path)
    unknown = Effect("opaque", inputs, inputs, f"`{node.name}` calls module `{path}` of class {type(module).__name__}")
    named = is_named(module, views.classes)
    if module is None or any(not (is_plain(part) if named else _is_plain(part)) for part in module.modules()):
        return unknown
    if any(getattr(part, "inplace", False) for part in module.modules()):
        return Effect("mutates", inputs, inputs, f"`{node.name}` writes to {_names(inputs)}")
    if not module.training:
        return Effect("pure", aliases=inputs)
    if any(getattr(part, "track_running_stats", False) for part in module.modules()) or (named and _has_state(module)):
        return Effect("mutates", (f"{path}.",), inputs, f"`{node.name}` updates the state of module `{path}`")
    if any(_drops(part) for part in module.modules()):
        return Effect("random", (), inputs, f"`{node.name}` draws random numbers")
    return Effect("pure", aliases=inputs)


def _is_plain(module: nn.Module) -> bool:
    """A module of torch itself whose call runs its ``forward`` and nothing else."""
    odd = (module._forward_hooks, module._forward_pre_hooks, getattr(module, "parametrizations", None))
    own = "forward" in vars(module)
    return type(module).__module__.startswith("torch.nn.modules.") and not any(odd) and not own


def _has_state(module: nn.Module) -> bool:
    """Whether a module that is not torch's own has buffers, which it may update while it trains."""
    return not type(module).__module__.startswith("torch.nn.modules.") and any(True for _ in module.buffers())


def _drops(module: nn.Module) -> bool:
    rate = getattr(module, "p", getattr(module, "dropout", 0))
    return (isinstance(rate, int | float) and rate > 0) or isinstance(module, nn.RReLU)


# ---------------------------------------------------------------------- helpers
def _nodes(values: Any) -> tuple[Node, ...]:
    found: list[Node] = []
    for value in values:
        if isinstance(value, Node):
            found.append(value)
        elif isinstance(value, list | tuple):
            found.extend(_nodes(value))
    return tuple(found)


def _names(places: tuple[Node, ...]) -> str:
    return ", ".join(f"`{node.name}`" for node in places) or "an argument"


def _called(target: Any) -> str:
    if isinstance(target, str):
        return f"the method `{target}`"
    return f"`{getattr(target, '__module__', None) or 'torch'}.{getattr(target, '__name__', target)}`"
