"""Clauses that state a contract: ``numerics``, ``changes``, ``tags``, ``keep``, ``freeze``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence

from . import ast
from .headers import Header, Kind
from .nearest import did_you_mean
from .source import Problem, Span
from .vocabulary import CHANGES, NUMERIC_LEVELS, WAIVERS
from .walking import locate


def check_numerics(numerics: ast.Numerics) -> Iterator[Problem]:
    """Level, settings and waivers; the domain is rewrite-time code and checked as such."""
    level, span = numerics.level, numerics.span
    if level not in NUMERIC_LEVELS:
        hint = did_you_mean(level, NUMERIC_LEVELS) or f"the levels are {_listed(NUMERIC_LEVELS)}"
        yield Problem(locate(span, level), "unknown-level", f"`{level}`: no such level of `numerics`", hint)
        return
    if level == "differs" and numerics.reason is None:
        yield Problem(span, "bad-numerics", "`differs` needs a reason", 'numerics differs "another activation"')
    if level != "differs" and numerics.reason is not None:
        yield Problem(span, "bad-numerics", "only `differs` takes a reason", "write a comment")
    if level == "approx" and numerics.rtol is None and numerics.atol is None:
        yield Problem(span, "bad-numerics", "`approx` needs `rtol` or `atol`", "numerics approx atol=1e-3")
    allowed = {"bitwise": (), "rounding": ("slack", "rtol", "atol"), "approx": ("rtol", "atol"), "differs": ()}[level]
    for name, value in (("slack", numerics.slack), ("rtol", numerics.rtol), ("atol", numerics.atol)):
        if value is not None and name not in allowed:
            yield Problem(locate(span, name), "bad-numerics", f"`{name}` means nothing for `{level}`")
        elif value is not None and value < 0:
            yield Problem(locate(span, name), "bad-numerics", f"`{name}` is negative")
    yield from check_words(numerics.waivers, WAIVERS, "class of waivers", "unknown-waiver", span)


def check_changes(changes: ast.Changes) -> Iterator[Problem]:
    """What the rule changes on purpose."""
    yield from check_words(changes.names, CHANGES, "part of the interface", "unknown-change", changes.span)


def check_words(
    names: Sequence[str], known: Collection[str], what: str, code: str, span: Span | None
) -> Iterator[Problem]:
    """Each name is known, and stands once."""
    yield from check_repeated(names, span)
    for name in dict.fromkeys(names):
        if name not in known:
            hint = did_you_mean(name, known) or f"there are {_listed(known)}"
            yield Problem(locate(span, name), code, f"`{name}`: no such {what}", hint)


def check_repeated(names: Sequence[str], span: Span | None) -> Iterator[Problem]:
    """No name stands twice in a list."""
    for name, count in Counter(names).items():
        if count > 1:
            yield Problem(locate(span, name, 1), "repeated", f"`{name}` is listed twice")


def check_keep(keep: ast.Keep, inner: Collection[str], header: Header) -> Iterator[Problem]:
    """Kept names are inner values of the match."""
    yield from check_repeated(keep.names, keep.span)
    for name in dict.fromkeys(keep.names):
        place = locate(keep.span, name)
        if name in header.leaves:
            what = f"`{name}` is a leaf: it is outside of the match and stays anyway"
            yield Problem(place, "bad-keep", what, "keep names an inner value: `relu(x) as y` or a line of a block")
        elif name not in inner:
            hint = did_you_mean(name, inner) or "name it in the match: `relu(x) as y`"
            yield Problem(place, "bad-keep", f"`{name}`: the match has no inner value of this name", hint)


def check_freeze(freeze: ast.Freeze, header: Header) -> Iterator[Problem]:
    """Frozen names are leaves whose values are known at rewrite time."""
    yield from check_repeated(freeze.names, freeze.span)
    for name in dict.fromkeys(freeze.names):
        place = locate(freeze.span, name)
        if name not in header.leaves:
            hint = did_you_mean(name, header.leaves)
            yield Problem(place, "bad-freeze", f"`{name}`: the header declares no such leaf", hint)
        elif header.kind(name) not in (Kind.CONST, Kind.MODULE):
            type = header.leaves[name].type
            shape = "[...]" if type and type.dims is not None else ""
            hint = f"declare it `{name}: const {'|'.join(type.names) if type else 'Tensor'}{shape}`"
            yield Problem(place, "bad-freeze", f"`{name}` is not `const`, so its values are not known", hint)


def _listed(names: Collection[str]) -> str:
    shown = [f"`{name}`" for name in names]
    return f"{', '.join(shown[:-1])} and {shown[-1]}"
