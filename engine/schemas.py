"""Effects as data, and what an op's schema says of them: writes, shared memory, randomness."""

from __future__ import annotations

from functools import cache
from typing import Any, Literal, TypeAlias

import torch
from attrs import frozen
from torch._higher_order_ops.effects import _get_effect
from torch._ops import OpOverload, OpOverloadPacket
from torch.fx import Node

from .effect_names import MAY_RETURN_ARGUMENT, STATISTICS

Kind: TypeAlias = Literal["pure", "random", "mutates", "opaque"]
# A written or read place: a node's memory, or the attributes below a dotted path.
Place: TypeAlias = Node | str


@frozen
class Effect:
    """The effect of a node.

    ``aliases``: the arguments that its result may share memory with; ``copies``: it may
    as well be a copy, as of ``reshape``, ``contiguous`` and ``to``. ``draws``: it may move
    the state of a random generator on.
    """

    kind: Kind
    writes: tuple[Place, ...] = ()
    aliases: tuple[Node, ...] = ()
    reason: str = ""
    copies: bool = False
    draws: bool = False


PURE = Effect("pure")


def opaque(node: Node, what: str, *paths: str) -> Effect:
    """A node of which nothing is known: it may write to all that it reads, and draw random numbers."""
    inputs = tuple(node.all_input_nodes)
    return Effect("opaque", (*inputs, *paths), inputs, f"`{node.name}` {what}", draws=True)


def random(node: Node, aliases: tuple[Node, ...]) -> Effect:
    """A node that draws random numbers and does nothing else."""
    return Effect("random", (), aliases, f"`{node.name}` draws random numbers", draws=True)


def writing(node: Node, places: tuple[Node, ...], aliases: tuple[Node, ...], *, draws: bool = False) -> Effect:
    """A node that writes to some of its arguments."""
    return Effect("mutates", places, aliases, f"`{node.name}` writes to {names_of(places)}", draws=draws)


@frozen
class Memory:
    """What a schema says: the arguments written to, and those the result may share memory with, with their places.

    ``is_call``: the op is registered as one with an effect, or it gives no result and writes to nothing, so that it
    is called for something else.
    """

    name: str
    writes: tuple[tuple[int, str], ...]
    aliases: tuple[tuple[int, str], ...]
    random: bool
    statistics: bool
    is_call: bool
    is_out: bool

    @property
    def is_plain(self) -> bool:
        """Whether the op gives a value of its own, and does nothing else."""
        return not (self.writes or self.aliases or self.random or self.statistics or self.is_call)


@cache
def memory_of(op: OpOverload) -> Memory:
    """What the schema of an op says."""
    arguments = list(enumerate(op._schema.arguments))
    written = [(at, arg) for at, arg in arguments if arg.alias_info is not None and arg.alias_info.is_write]
    name = op._schema.name.partition("::")[2]
    any_argument = name in MAY_RETURN_ARGUMENT
    aliases = tuple((at, arg.name) for at, arg in arguments if any_argument or arg.alias_info is not None)
    return Memory(
        name,
        tuple((at, arg.name) for at, arg in written),
        aliases,
        torch.Tag.nondeterministic_seeded in op.tags,
        name in STATISTICS,
        (not written and not op._schema.returns) or _get_effect(op) is not None,
        bool(written) and all(arg.kwarg_only for _, arg in written),
    )


def overloads_of(packet: Any) -> list[OpOverload]:
    """The overloads of an op packet; none of anything else."""
    names: Any = packet.overloads if isinstance(packet, OpOverloadPacket) else list
    return [getattr(packet, name) for name in names()]


def called_by(name: str) -> list[OpOverload]:
    """The ATen overloads that a call by this name may mean: those for ``out=`` are called by another keyword."""
    return [op for op in overloads_of(getattr(torch.ops.aten, name, None)) if not memory_of(op).is_out]


def draws_by(name: str) -> bool:
    """Whether an ATen op of this name, or the one that it is the in-place form of, may draw random numbers."""
    return any(memory_of(op).random for op in [*called_by(name), *called_by(name.removesuffix("_"))])


def names_of(places: tuple[Node, ...]) -> str:
    """Nodes by name, for a reason."""
    return ", ".join(f"`{node.name}`" for node in places) or "an argument"
