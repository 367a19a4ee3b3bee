"""Pattern terms: a rule's ``match`` body with every name resolved, ready to compile.

`lower` turns the tree into a small closed union of frozen terms: ops carry their
family and canonical argument positions, named patterns are inlined, constants are
folded. The reference matcher does not use this module: it reads the tree itself.
"""

from __future__ import annotations

from math import inf
from typing import TypeAlias

from attrs import frozen

from ..dsl import ast
from .families import Family


@frozen
class Anything:
    """``_``: matches any value and binds nothing."""


@frozen
class Bind:
    """A leaf or a list rest: the first occurrence binds, later ones compare."""

    name: str


@frozen
class Shared:
    """A name assigned in the block: its term is matched once, later uses compare."""

    name: str
    term: Term


@frozen
class Literal:
    """A constant; ``number`` is the written number where rounding matters."""

    value: object
    number: ast.Number | None = None


@frozen
class Deferred:
    """A rewrite-time expression whose value is known only after the dims are bound."""

    expr: ast.Expr


@frozen
class Op:
    """One op of a family; ``args`` are (position, term) in parameter order.

    Positions not in ``args`` must hold the family's default, unless ``config``
    names a capture for them or ``loose`` ignores them.
    """

    family: Family
    args: tuple[tuple[int, Term], ...]
    config: str | None = None
    loose: bool = False


@frozen
class Exact:
    """One op by its exact target; ``args`` are (position, term) in the target's own order."""

    target: str
    positional: tuple[Term, ...]
    keywords: tuple[tuple[str, Term], ...]
    loose: bool = False


@frozen
class Called:
    """A call of the module leaf ``leaf``, of the class ``kind`` (None: any); arguments as ``forward`` names them."""

    leaf: str
    kind: str | None
    positional: tuple[Term, ...]
    keywords: tuple[tuple[str, Term], ...]
    loose: bool = False


@frozen
class Item:
    """``operator.getitem(term, index)`` of a tuple or list result, or of a tensor."""

    term: Term
    index: Term


@frozen
class Alternatives:
    """Options in order; the first that leads to a match wins."""

    options: tuple[Term, ...]


@frozen
class Absent:
    """An optional operand that is not there: binds ``names`` to None, then matches ``term``."""

    names: tuple[str, ...]
    term: Term


@frozen
class Maybe:
    """An optional argument: None binds ``names`` to None, anything else must match ``term``."""

    names: tuple[str, ...]
    term: Term


@frozen
class As:
    """``term as name``."""

    term: Term
    name: str


@frozen
class Hole:
    """Where the inner value stands in the step of a `Through`."""


@frozen
class Through:
    """``term``, below any number of nodes that ``step`` matches around its `Hole`."""

    term: Term
    step: Term


@frozen
class Sequence:
    """A list or tuple; items are terms, or `Rest` and `Each` for any number of elements."""

    items: tuple[Term | Rest | Each, ...]


@frozen
class Bounds:
    """``start:stop:step`` inside the index of an `Item`."""

    start: Term
    stop: Term
    step: Term


@frozen
class Several:
    """Several results: the first at the node where the rule is tried, each other one elsewhere in the graph.

    ``ties`` has, for each of the others, names that it has in common with those before it.
    """

    first: Term
    others: tuple[Term, ...]
    ties: tuple[tuple[str, ...], ...]


@frozen
class Rest:
    """``*name`` in a list pattern; the name is None for ``*_``."""

    name: str | None


@frozen
class Each:
    """``*term`` in a list pattern: elements that all match, as many as do, at least ``fewest``.

    ``lists`` are names that an element binds, each with the name that the list of its
    values has outside; ``outside`` the other names of the term that others can see.
    """

    term: Term
    lists: tuple[tuple[str, str], ...]
    outside: tuple[str, ...]
    fewest: int


@frozen
class Flat:
    """A sum or product of any nesting as one list: ``named`` operands wherever they are, the others in order."""

    family: Family
    named: tuple[Term, ...]
    rest: Sequence


Term: TypeAlias = (
    Anything
    | Bind
    | Shared
    | Literal
    | Deferred
    | Op
    | Exact
    | Called
    | Item
    | Alternatives
    | Absent
    | Maybe
    | As
    | Hole
    | Through
    | Sequence
    | Bounds
    | Several
    | Flat
)


def is_local(name: str) -> bool:
    """Whether a slot belongs to the inside of a named pattern and is not reported."""
    return ":" in name


def roots(term: Term) -> tuple[frozenset[str], bool]:
    """Family names a node must have one of for ``term`` to match it, and whether any node may.

    Exact targets, module calls and getitem chains count as "any": the dispatch by family cannot see them.
    """
    match term:
        case Op(family) | Flat(family):
            return frozenset({family.name}), False
        case Several(first):
            return roots(first)
        case Alternatives(options):
            found = [roots(option) for option in options]
            return frozenset().union(*(names for names, _ in found)), any(wide for _, wide in found)
        case Shared(_, inner) | As(inner, _) | Absent(_, inner) | Maybe(_, inner):
            return roots(inner)
        case Through(inner, step):
            here, below = roots(inner), roots(step)
            return here[0] | below[0], here[1] or below[1]
        case _:
            return frozenset(), True


def operands(term: Term) -> tuple[frozenset[str], ...]:
    """Families of which the root's inputs must have some: one set for each operand that is an op itself.

    A quick look at the inputs then rules most nodes out. Only what no match can do without counts.
    """
    match term:
        case Op(_, args):
            found = [roots(inner) for _, inner in args if not isinstance(inner, Maybe)]
            return tuple(names for names, anywhere in found if not anywhere)
        case Alternatives(options):
            each = [operands(option) for option in options]
            return (frozenset().union(*(one[0] for one in each)),) if all(each) else ()
        case Shared(_, inner) | As(inner, _) | Absent(_, inner) | Several(inner):
            return operands(inner)
    return ()


def height(term: Term) -> float:
    """How far below the root a pattern looks, in edges; infinite behind a `Through`, and where it looks elsewhere."""
    match term:
        case Op(_, args):
            return 1 + max((height(inner) for _, inner in args), default=0)
        case Exact(positional=positional, keywords=keywords) | Called(positional=positional, keywords=keywords):
            return 1 + max(map(height, (*positional, *(inner for _, inner in keywords))), default=0)
        case Item(inner, index):
            return 1 + max(height(inner), height(index))
        case Alternatives(options):
            return max(map(height, options), default=0)
        case Shared(_, inner) | As(inner, _) | Absent(_, inner) | Maybe(_, inner):
            return height(inner)
        case Sequence(items):
            terms = (item.term if isinstance(item, Each) else item for item in items if not isinstance(item, Rest))
            return max(map(height, terms), default=0)
        case Through() | Several() | Flat():
            return inf
    return 0


def leaf_names(term: Term) -> tuple[str, ...]:
    """The captures of a term that become None where it is absent."""
    match term:
        case Bind(name) | As(_, name) | Shared(name, _):
            return (name,)
    return ()


def may_be_literal(term: Term | Rest | Each) -> bool:
    """Whether a term may stand for a constant, or for a list with one: how it is rounded depends on the op there."""
    match term:
        case Literal():
            return True
        case Alternatives(options):
            return any(map(may_be_literal, options))
        case Shared(_, inner) | As(inner, _) | Absent(_, inner) | Maybe(_, inner) | Each(inner):
            return may_be_literal(inner)
        case Sequence(items):
            return any(map(may_be_literal, items))
    return False
