"""Patterns with several results: what ties each of them to those before it."""

from __future__ import annotations

from ..dsl import ast
from .frames import report
from .patterns import (
    Absent,
    Alternatives,
    Anything,
    As,
    Bind,
    Called,
    Deferred,
    Exact,
    Flat,
    Item,
    Literal,
    Op,
    Sequence,
    Several,
    Shared,
    Term,
    Through,
)
from .ruleset import Rule

# Leaves of these types are no values of the graph: what two nodes with one number have in common may be nothing else.
_NUMBERS = frozenset({"int", "float", "number", "bool", "str", "dtype", "device", "layout", "memory_format"})


def tied(results: tuple[Term, ...], rule: Rule) -> Several:
    """The term of several results.

    Raises FxrulesError for a result that is no op, that stands twice, or that has no
    value in common with those before it: where to look for it would be anybody's guess.
    """
    written = rule.match.results
    for at, (term, expr) in enumerate(zip(results, written, strict=True)):
        if isinstance(term, Bind | Anything | Literal | Deferred | Sequence):
            report(expr.span, "not-a-result", f"result {at + 1} is no op of the pattern: there is nothing to replace")
        if term in results[:at]:
            report(expr.span, "not-a-result", f"result {at + 1} stands there already")
    numbers = {param.name for param in rule.ast.params if _is_number(param.type)}
    known, ties = _surely(results[0]), []
    for at, (term, expr) in enumerate(zip(results[1:], written[1:], strict=True), 2):
        names = _surely(term)
        common = (names & known) - numbers
        if not common:
            message = f"result {at} has no tensor in common with the results before it"
            report(expr.span, "unconnected", message, "results of one rule read a value together; else write two rules")
        ties.append(tuple(sorted(common)))
        known |= names
    return Several(results[0], results[1:], tuple(ties))


def _is_number(type: ast.Type | None) -> bool:
    return type is not None and type.dims is None and set(type.names) <= _NUMBERS


def _surely(term: Term) -> frozenset[str]:
    """The names that a term binds in whichever way it matches."""
    match term:
        case Bind(name):
            return frozenset({name})
        case Shared(name, inner) | As(inner, name):
            return _surely(inner) | {name}
        case Op(_, args):
            return frozenset().union(*(_surely(inner) for _, inner in args))
        case Exact(_, positional, keywords) | Called(_, _, positional, keywords):
            return frozenset().union(*map(_surely, (*positional, *(inner for _, inner in keywords))))
        case Flat(_, named):
            return frozenset().union(*map(_surely, named))
        case Item(inner, _) | Absent(_, inner) | Through(inner, _):
            return _surely(inner)
        case Alternatives(options):
            each = list(map(_surely, options))
            return each[0].intersection(*each) if each else frozenset()
    return frozenset()
