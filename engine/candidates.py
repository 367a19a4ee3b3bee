"""What matching hands on: candidates, then matches or the reason why not (data only)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, TypeAlias

from attrs import field, frozen
from torch.fx import Node

from ..dsl import ast

if TYPE_CHECKING:
    from .nodeview import Value
    from .ruleset import Rule

MismatchKind: TypeAlias = Literal[
    "structure", "type", "shape", "where", "missing fact", "users", "freeze", "policy", "effect", "form", "interface",
    "pipeline",
]  # fmt: skip


@frozen
class Config:
    """What ``**cfg`` captured: the family's unmentioned parameters with their values, in order."""

    items: tuple[tuple[str, Value], ...]


@frozen
class Candidate:
    """A place where a pattern fits by structure; guards have not looked at it yet.

    ``bindings`` has the leaves, the names assigned in the block, ``as`` names,
    ``**cfg`` (a `Config`) and list rests (tuples); what is absent is None.
    ``nodes`` are the nodes that some op of the pattern covers, the root first,
    in the order met, without repeats. ``deferred`` are rewrite-time expressions
    (``D // 2``) that must equal the value once the dims are known. ``others`` are the
    nodes of the results behind the first, which is the root's.
    """

    root: Node
    bindings: Mapping[str, Value | Config]
    nodes: tuple[Node, ...]
    deferred: tuple[tuple[ast.Expr, Value], ...] = ()
    others: tuple[Node, ...] = ()


@frozen
class Match:
    """A candidate that passed every guard.

    ``bindings`` now also has the dims (int or SymInt), star dims (tuples of them)
    and what ``let`` computed (numbers, tuples, tensors). ``kept`` are the nodes
    that ``keep`` names. ``others`` are the results behind the first. Matches of a rule
    with equal ``key`` (None: not to be compared) differ in the identity of their nodes only.
    """

    rule: Rule
    root: Node
    nodes: tuple[Node, ...]
    bindings: Mapping[str, object]
    kept: tuple[Node, ...] = ()
    key: int | None = field(default=None, eq=False, repr=False)
    others: tuple[Node, ...] = ()

    @property
    def results(self) -> tuple[Node, ...]:
        """The nodes whose values the rule replaces, in the order in which the pattern returns them."""
        return (self.root, *self.others)


@frozen
class Mismatch:
    """Why a rule does not apply, in words for its author, and at which node.

    ``by_facts``: the reason holds wherever literals and facts are equal.
    """

    kind: MismatchKind
    reason: str
    node: Node | None = None
    by_facts: bool = field(default=False, eq=False, repr=False)
