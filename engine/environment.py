"""What the reference matcher threads through a match: frames of names, the state so far, argument slots."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from attrs import evolve, field, frozen
from torch.fx import Node

from ..dsl import ast
from .candidates import Config
from .nodeview import Value, View, Views, same_value
from .ruleset import Scope
from .surface import Pattern


@frozen(eq=False)
class Frame:
    """Where names are looked up: the rule itself, or one use of a named pattern.

    ``arguments`` are the patterns given for a named pattern's parameters, each with
    the frame it was written in; ``modules`` are the module leaves; ``depths`` says under how
    many stars each name is, ``inside`` in which named patterns it stands. Frames are told
    apart by identity.
    """

    views: Views
    scope: Scope
    variables: frozenset[str] = frozenset()
    dims: frozenset[str] = frozenset()
    assigns: Mapping[str, tuple[ast.Assign, int]] = field(factory=dict)
    arguments: Mapping[str, tuple[Pattern, Frame]] = field(factory=dict)
    modules: Mapping[str, ast.Type] = field(factory=dict)
    depths: Mapping[str, int] = field(factory=dict)
    inside: tuple[ast.Pattern, ...] = ()

    def around(self) -> frozenset[Frame]:
        """This frame and those that its arguments were written in, and so on."""
        return frozenset({self}).union(*(home.around() for _, home in self.arguments.values()))


@frozen
class State:
    """What is known so far: names of each frame, nodes covered, equalities put off."""

    names: Mapping[tuple[Frame, str], Value | Config] = field(factory=dict)
    nodes: tuple[Node, ...] = ()
    deferred: tuple[tuple[ast.Expr, Value], ...] = ()

    def bind(self, frame: Frame, name: str, value: Value | Config) -> Iterator[State]:
        """This state with ``name`` bound to ``value``; nothing if it is bound to something else."""
        if (frame, name) not in self.names:
            yield evolve(self, names={**self.names, (frame, name): value})
        elif same_binding(self.names[frame, name], value):
            yield self

    def cover(self, node: Node) -> State:
        """This state with ``node`` among those that some op of the pattern covers."""
        return self if node in self.nodes else evolve(self, nodes=(*self.nodes, node))


@frozen
class Slot:
    """The argument of an op that a value stands at; ``whole`` unless it is an item of a list there.

    ``view`` is None for an op that is matched by its exact target.
    """

    node: Node
    operands: tuple[Value, ...]
    view: View | None = None
    index: int = 0
    whole: bool = True


def same_binding(first: Value | Config, second: Value | Config) -> bool:
    """Whether two bound values are one."""
    if isinstance(first, Config) and isinstance(second, Config):
        return same_value(first.items, second.items)
    return not isinstance(first, Config) and not isinstance(second, Config) and same_value(first, second)
