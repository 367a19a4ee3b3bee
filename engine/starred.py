"""Which names vary from element to element in ``[*relu(xs)]``, for the reference matcher and for guards.

A name is under as many stars as its outermost use: ``xs`` in ``[*relu(xs)]`` under one, so it is a
list with one item for each element. A name that also stands outside, or that the header or a line
of the block declares, is under none: it is one value, the same in every element.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

import attrs

from ..dsl import ast

Statement = ast.Rule | ast.Pattern


def is_rest(tree: object) -> bool:
    """Whether ``tree`` is ``*name`` or ``*[...]``, which stand for elements and not for a pattern of each."""
    return isinstance(tree, ast.Star) and isinstance(tree.value, ast.Name | ast.List)


def star_depths(statement: Statement) -> Mapping[str, int]:
    """For each name of a pattern the fewest stars around one of its uses.

    >>> star_depths(ast.Pattern("p", (), ast.List((ast.Star(ast.Call(ast.Name("relu"), (ast.Name("xs"),))),))))
    {'xs': 1}
    """
    params = {param.name: param for param in statement.params}
    found: dict[str, int] = {}
    for name, stars in _uses_in(statement, params.keys()):
        found[name] = min(stars, found.get(name, stars))
    return {**found, **{name: int(param.star) * max(1, found.get(name, 1)) for name, param in params.items()}}


def _uses_in(statement: Statement, known: Collection[str]) -> Iterator[tuple[str, int]]:
    if isinstance(statement, ast.Pattern):
        yield from uses(statement.body, known)
        return
    for clause in statement.clauses:
        if isinstance(clause, ast.Match):
            for assign in clause.body.assigns:
                yield from ((name.lstrip("*"), int(name.startswith("*"))) for name in assign.targets)
            yield from uses(clause.body, known)


def uses(tree: object, known: Collection[str], stars: int = 0) -> Iterator[tuple[str, int]]:
    """The names in graph code, each with the number of stars around it; names of ops and packages left out."""
    match tree:
        case ast.Name("_"):
            return
        case ast.Name(id):
            yield id, stars
        case ast.As(value, name):
            yield from uses(value, known, stars)
            yield name, stars
        case ast.StarStar(name):
            yield name, 0  # the same in all elements
        case ast.Star(ast.List() as inner):
            yield from uses(inner, known, stars)
        case ast.Star(value):
            yield from uses(value, known, stars + 1)
        case ast.Call(func, args):
            yield from uses(_receiver(func, known), known, stars)
            yield from uses(args, known, stars)
        case tuple():
            for item in tree:
                yield from uses(item, known, stars)
        case _:
            for part in _parts(type(tree)):
                yield from uses(getattr(tree, part), known, stars)


def _parts(kind: type) -> tuple[str, ...]:
    return tuple(part.name for part in attrs.fields(kind) if part.eq) if attrs.has(kind) else ()


def _receiver(func: ast.Expr, known: Collection[str]) -> ast.Expr | None:
    """The value that a method is called on; None for an op, a pattern or an exact target."""
    if isinstance(func, ast.Name):
        return func if func.id in known else None
    head: ast.Expr = func
    while isinstance(head, ast.Attribute):
        head = head.value
    if isinstance(func, ast.Attribute) and (not isinstance(head, ast.Name) or head.id in known):
        return func.value
    return None


def varying(element: ast.Expr, depths: Mapping[str, int]) -> frozenset[str]:
    """The names of a starred element pattern that have a value of their own for each element."""
    return frozenset(name for name, stars in uses(element, depths.keys()) if stars < depths.get(name, 0))
