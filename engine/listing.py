"""Lowering of ``[*relu(xs)]``: what each element binds for itself, and what is one value for all of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from attrs import evolve, fields, has

from ..dsl import ast
from ..dsl.vocabulary import ASSOCIATIVE
from ..dsl.walking import Part, dotted, parts, walk
from .constants import named_constant
from .families import Family
from .frames import Frame, family_named, plain, refuse
from .patterns import Deferred, Each, Flat, Hole, Literal, Rest, Sequence, Term, Through


def rule_depths(rule: ast.Rule) -> Mapping[str, int]:
    """Under how many stars each name of a rule's match is, at the use that has fewest around it."""
    depths: dict[str, int] = {}
    for clause in rule.clauses:
        if isinstance(clause, ast.Match):
            for assign in clause.body.assigns:
                _note(depths, ((name.lstrip("*"), int(name[0] == "*")) for name in assign.targets))
                _note(depths, _names(assign.value, 0, ()))
            for result in clause.body.results:
                _note(depths, _names(result, 0, ()))
    declared = {param.name: (max(1, depths.get(param.name, 1)) if param.star else 0) for param in rule.params}
    return {**depths, **declared}


def pattern_depths(pattern: ast.Pattern) -> Mapping[str, int]:
    """The same for a named pattern."""
    depths: dict[str, int] = {}
    _note(depths, _names(pattern.body, 0, ()))
    return {**depths, **{param.name: 0 for param in pattern.params}}


def _note(depths: dict[str, int], found: Iterable[tuple[str, int]]) -> None:
    for name, stars in found:
        depths[name] = min(stars, depths.get(name, stars))


def _names(part: Part, stars: int, methods: Collection[str]) -> Iterator[tuple[str, int]]:
    """The names that a pattern mentions, with the stars around them; ``methods``: values that have methods."""
    match part:
        case ast.Name(id):
            if id != "_":
                yield id, stars
            return
        case ast.StarStar(name):
            yield name, 0
            return
        case ast.As(_, name):
            yield name, stars
        case ast.Star(value):
            stars += not isinstance(value, ast.List)
    called = part.func if isinstance(part, ast.Call) else None
    for inner in parts(part):
        if inner is not called:
            yield from _names(inner, stars, methods)
        elif isinstance(inner, ast.Attribute):
            head = (dotted(inner) or "").partition(".")[0]
            if not head or head in methods:
                yield from _names(inner.value, stars, methods)
        elif isinstance(inner, ast.Name) and inner.id in methods:
            yield inner.id, stars


def check_targets(block: ast.Block) -> None:
    """In ``q, *rest = split(x, n)`` the list comes last and stands for items that the match does not look at.

    Raises FxrulesError otherwise.
    """
    for assign in block.assigns:
        starred = [name[1:] for name in assign.targets if name[0] == "*"]
        if starred and (len(starred) > 1 or assign.targets[-1][0] != "*"):
            refuse(assign.span, f"a target behind `*{starred[0]}`", "the starred target comes last")
        for expr in (*(one.value for one in block.assigns), *block.results):
            for part in walk(expr):
                if isinstance(part, ast.Name) and part.id in starred:
                    hint = "name the items one by one; `where`, `let` and `rewrite` can use the list"
                    refuse(part.span, f"the starred target `*{part.id}` inside the match", hint)


def flattened(items: Iterable[ast.Expr | ast.Star]) -> Iterator[ast.Expr | ast.Star]:
    """The items of a list, those of ``*[a, b]`` one by one."""
    for item in items:
        if isinstance(item, ast.Star) and isinstance(item.value, ast.List):
            yield from flattened(item.value.items)
        else:
            yield item


def element(item: ast.Expr | ast.Star, frame: Frame, lower: Callable[[ast.Expr, Frame], Term]) -> Term | Rest | Each:
    """An item of a list pattern: a term for one element, a rest, or a term for each of several."""
    match item:
        case ast.Star(ast.Name("_")):
            return Rest(None)
        case ast.Star(ast.Name(id)):
            return Rest(frame.slot(id))
        case ast.Star(value):
            prefix = f"{frame.prefix}each@{next(frame.fresh)}:"
            inner = evolve(frame, prefix=prefix, outer=frame, own=own_names(value, frame.depths))
            return _each(value, lower(value, inner), inner)
    return lower(item, frame)


def flat(call: ast.Call, frame: Frame, lower: Callable[[ast.Expr, Frame], Term]) -> Flat:
    """``flat add(p, *rest)``: the operands that are named, then what takes the others."""
    assert isinstance(call.func, ast.Name), "the grammar has a name there"
    family = family_named(call.func.id, call.func.span, frame)
    if family.name not in ASSOCIATIVE:
        refuse(call.span, f"`flat {family.name}`")
    items = tuple(one if isinstance(one, ast.Star) else plain(one) for one in call.args)
    if any(isinstance(item, ast.Star) and isinstance(item.value, ast.List) for item in items):
        refuse(call.span, "a list among the operands of `flat`")
    named = tuple(lower(item, frame) for item in items if not isinstance(item, ast.Star))
    rest = Sequence(tuple(element(item, frame, lower) for item in items if isinstance(item, ast.Star)))
    return Flat(family, named, rest)


def own_names(element: ast.Expr, depths: Mapping[str, int]) -> frozenset[str]:
    """The names that each element has for itself."""
    return frozenset(name for name, stars in _names(element, 0, depths) if stars < depths.get(name, 0))


def _each(element: ast.Expr, term: Term, inner: Frame) -> Each:
    """The item of a list pattern that ``term``, lowered in ``inner``, is for every element."""
    outer = inner.outer
    assert outer is not None, "the frame of an element has one around it"
    seen: dict[str, None] = {}
    if _collect(term, seen):
        refuse(element.span, "the parameter of a `through` step in a pattern for every element of a list")
    lists = tuple((name, outer.slot(name[len(inner.prefix) :])) for name in seen if _home(name) == inner.prefix)
    visible = {outer.prefix[:end] for end in range(len(outer.prefix) + 1) if end == 0 or outer.prefix[end - 1] == ":"}
    outside = tuple(name for name in seen if _home(name) in visible and not name.startswith(inner.prefix))
    mentioned = {name for name, _ in _names(element, 0, inner.depths)} - inner.own
    return Each(term, tuple(sorted(lists)), outside, int(any(_is_value(name, inner) for name in mentioned)))


def _home(name: str) -> str:
    """The prefix of the frame that a name of a term belongs to; a leading ``:`` marks names that nobody wrote."""
    home = name.rpartition(":")[0].rstrip(":")
    return home + ":" if home else ""


def _is_value(name: str, frame: Frame) -> bool:
    """Whether a name that does not vary stands for a value to be bound, and not for a number of the file."""
    if name in frame.names or name in frame.leaves:
        return True
    return name not in frame.dims and name not in frame.scope.constants and not named_constant(name)[0]


def _collect(term: object, seen: dict[str, None]) -> bool:
    """Put the names of a term's slots into ``seen``, in order; whether it has a `Hole`."""
    if isinstance(term, Hole):
        return True
    if isinstance(term, tuple):
        return sum(_collect(one, seen) for one in term) > 0
    if isinstance(term, Deferred | Literal | Family):
        return False
    if isinstance(term, Through):
        return _collect(term.term, seen)  # the names of its step are its own
    found = False
    for name in _fields(type(term)):
        value = getattr(term, name)
        if name in ("names", "outside"):
            seen.update(dict.fromkeys(value))
        elif name == "lists":
            seen.update(dict.fromkeys(outer for _, outer in value))
        elif name == "keywords":
            found |= _collect(tuple(inner for _, inner in value), seen)
        elif name in ("name", "config") and value is not None:
            seen[value] = None
        else:
            found |= _collect(value, seen)
    return found


def _fields(kind: type) -> tuple[str, ...]:
    return tuple(part.name for part in fields(kind)) if has(kind) else ()
