"""What a match binds: the names that always have a value, and those that may be None."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from attrs import frozen

from . import ast
from .calls import Argument
from .scopes import FileScope, find_pattern
from .walking import dotted, names_in


@frozen
class Bound:
    """Names bound whenever a pattern matches, and names bound in some of its alternatives only."""

    always: frozenset[str] = frozenset()
    maybe: frozenset[str] = frozenset()

    @property
    def all(self) -> frozenset[str]:
        """Both."""
        return self.always | self.maybe


@frozen
class _Known:
    """What is known while a body is read: its lines so far, and the named patterns looked into."""

    scope: FileScope
    lines: Mapping[str, Bound]
    patterns: dict[str, Bound]


def bound_by_block(block: ast.Block, scope: FileScope) -> Bound:
    """What the results of a body bind, the lines that they use included."""
    lines: dict[str, Bound] = {}
    known = _Known(scope, lines, {})
    for assign in block.assigns:
        value = _bound(assign.value, known)
        for name in assigned(assign):
            lines[name] = Bound(value.always | {name}, value.maybe)
    found = _both(_bound(result, known) for result in block.results)
    for assign in block.assigns:
        # The items of one tuple are all at hand once one of them is matched.
        names = frozenset(assigned(assign))
        if names & found.always:
            found = Bound(found.always | names, found.maybe - names)
        elif names & found.maybe:
            found = Bound(found.always, found.maybe | names)
    return found


def assigned(assign: ast.Assign) -> tuple[str, ...]:
    """The names that a line assigns, `_` left out."""
    return tuple(name.lstrip("*") for name in assign.targets if name.lstrip("*") != "_")


def bound_by(expr: ast.Expr, scope: FileScope) -> Bound:
    """What one pattern binds."""
    return _bound(expr, _Known(scope, {}, {}))


def _bound(expr: Argument | ast.Slice, known: _Known) -> Bound:
    match expr:
        case ast.Name(id):
            return Bound() if id == "_" else known.lines.get(id, Bound(frozenset({id})))
        case ast.StarStar(name):
            return Bound(frozenset({name}))
        case ast.As(value, name):
            return _both((_bound(value, known), Bound(frozenset({name}))))
        case ast.Optional(ast.Call(func, (first, *others))):
            kept = _bound(first, known)
            leaf = (func,) if isinstance(func, ast.Name) else ()  # a module leaf, or the name of an op
            rest = _both(_bound(other, known) for other in (*leaf, *others))
            return Bound(kept.always, (kept.maybe | rest.all) - kept.always)
        case ast.Optional(value):
            return Bound(frozenset(), _bound(value, known).all)
        case ast.Or(operands):
            return _either([_bound(operand, known) for operand in operands])
        case ast.Call():
            return _bound_by_call(expr, known)
        case ast.Attribute(value) | ast.Through(value) | ast.Keyword(_, value) | ast.Star(value) | ast.Unary(_, value):
            return _bound(value, known)
        case ast.Flat(call):
            return _both(_bound(arg, known) for arg in call.args)
        case ast.Binary(_, left, right):
            return _both((_bound(left, known), _bound(right, known)))
        case ast.Index(value, items):
            return _both(_bound(part, known) for part in (value, *items))
        case ast.Slice(start, stop, step):
            return _both(_bound(part, known) for part in (start, stop, step) if part is not None)
        case ast.Tuple(items) | ast.List(items):
            return _both(_bound(item, known) for item in items)
    # What cannot stand in a pattern is another problem: its names count as bound.
    return Bound(frozenset(name.id for name in names_in(expr)))


def _bound_by_call(call: ast.Call, known: _Known) -> Bound:
    name = dotted(call.func)
    pattern = find_pattern(known.scope, name) if name else None
    if name and pattern is not None:
        inner = _bound_inside(name, pattern, known)
        values = [_bound(arg, known) for arg in call.args]
        named = zip(pattern.params, values, strict=False)
        # A pattern that may leave a parameter out binds nothing for sure in its argument.
        return _both(one if param.name in inner.always else Bound(frozenset(), one.all) for param, one in named)
    match call.func:
        case ast.Name(id):
            own = Bound(frozenset({id}))  # a module leaf; the name of an op is nobody's leaf
        case ast.Attribute(value):
            own = _bound(value, known)
        case _:
            own = Bound()
    return _both((own, *(_bound(arg, known) for arg in call.args)))


def _bound_inside(name: str, pattern: ast.Pattern, known: _Known) -> Bound:
    """What a named pattern binds of its own parameters, looked at once."""
    if name not in known.patterns:
        # a recursive pattern binds what it binds in the alternatives without itself
        found, others = Bound(frozenset(param.name for param in pattern.params)), dict(known.patterns)
        while known.patterns.get(name) != found:
            known.patterns.clear()
            known.patterns.update({**others, name: found})
            found = _bound(pattern.body, _Known(known.scope, {}, known.patterns))
    return known.patterns[name]


def _both(parts: Iterable[Bound]) -> Bound:
    always: set[str] = set()
    maybe: set[str] = set()
    for part in parts:
        always |= part.always
        maybe |= part.maybe
    return Bound(frozenset(always), frozenset(maybe - always))


def _either(alternatives: list[Bound]) -> Bound:
    always = frozenset.intersection(*(one.always for one in alternatives))
    return Bound(always, frozenset[str]().union(*(one.all for one in alternatives)) - always)
