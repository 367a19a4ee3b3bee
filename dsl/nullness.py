"""Where a value that may be None is used: at rewrite time, and in a rewrite.

`None` may go where it is asked about (``is None``, a condition, the left of ``??``),
to a parameter that takes it, and through ``let``; anywhere else it is a mistake.
A condition that was true tells what is not None from there on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from . import ast
from .calls import Argument
from .source import Problem
from .walking import Part, parts

Names: TypeAlias = frozenset[str]
TakesNone: TypeAlias = Callable[[ast.Call], tuple[tuple[Argument, bool], ...]]
"""For a call: each argument (a method's own value first), and whether it may be None."""

_NONE = ast.Name("None")


def check_none(expr: Part, maybe: Names, takes: TakesNone, *, may_be: bool = False) -> Iterator[Problem]:
    """The names of ``maybe`` that stand where None cannot go; ``may_be`` if it can go here."""
    match expr:
        case ast.Name(id):
            if id in maybe and not may_be:
                hint = f"say what happens without it: `{id} is None or ...`, `{id} ?? ...`, `a if {id} else b`"
                yield Problem(expr.span, "possibly-none", f"`{id}` may be None here", hint)
        case ast.Compare(ops, operands):
            asks = set(ops) <= {"is", "is not", "==", "!="} and _NONE in operands
            for operand in operands:
                yield from check_none(operand, maybe, takes, may_be=asks)
        case ast.And() | ast.Or() | ast.Unary("not"):
            yield from check_condition(expr, maybe, takes)
        case ast.Binary("??", left, right):
            yield from check_none(left, maybe, takes, may_be=True)
            yield from check_none(right, maybe, takes, may_be=may_be)
        case ast.IfElse(then, test, other):
            yield from check_condition(test, maybe, takes)
            yield from check_none(then, maybe - known_by(test, True), takes, may_be=may_be)
            yield from check_none(other, maybe - known_by(test, False), takes, may_be=may_be)
        case ast.Call():
            for arg, takes_none in takes(expr):
                yield from check_none(arg, maybe, takes, may_be=takes_none)
        case ast.Keyword(_, value):
            yield from check_none(value, maybe, takes, may_be=may_be)
        case ast.Optional():
            pass  # it cannot stand here at all
        case ast.Comprehension(element, name, iterable, condition):
            yield from check_none(iterable, maybe, takes)
            maybe -= {name}
            if condition is not None:
                yield from check_condition(condition, maybe, takes)
                maybe -= known_by(condition, True)
            yield from check_none(element, maybe, takes)
        case _:
            for part in parts(expr):
                yield from check_none(part, maybe, takes)


def check_condition(expr: ast.Expr, maybe: Names, takes: TakesNone) -> Iterator[Problem]:
    """A condition: a plain name asks whether it has a value; each part knows what the parts before it told."""
    match expr:
        case ast.Name():
            pass
        case ast.And(operands) | ast.Or(operands):
            for operand in operands:
                yield from check_condition(operand, maybe, takes)
                maybe -= known_by(operand, isinstance(expr, ast.And))
        case ast.Unary("not", operand):
            yield from check_condition(operand, maybe, takes)
        case _:
            yield from check_none(expr, maybe, takes)


def known_by(condition: ast.Expr, truth: bool) -> Names:
    """The names that are not None if the condition turned out so.

    >>> sorted(known_by(ast.Compare(("is not",), (ast.Name("m"), ast.Name("None"))), True))
    ['m']
    """
    match condition:
        case ast.Name(id) if truth:
            return frozenset({id})
        case ast.Compare((op,), (ast.Name(id), ast.Name("None"))) if (op == "is not") is truth and op in (
            "is",
            "is not",
        ):
            return frozenset({id})
        case ast.And(operands) | ast.Or(operands):
            found = [known_by(operand, truth) for operand in operands]
            if isinstance(condition, ast.And) is truth:
                return frozenset[str]().union(*found)
            return frozenset.intersection(*found)
        case ast.Unary("not", operand):
            return known_by(operand, not truth)
    return frozenset()


def may_be_none(expr: ast.Expr, maybe: Names) -> bool:
    """Whether the value of an expression may be None."""
    match expr:
        case ast.Name(id):
            return id in maybe or id == "None"
        case ast.Binary("??", _, right):
            return may_be_none(right, maybe)
        case ast.IfElse(then, test, other):
            first = may_be_none(then, maybe - known_by(test, True))
            return first or may_be_none(other, maybe - known_by(test, False))
    return False
