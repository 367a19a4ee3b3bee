"""Things with qualified names (rules, rule sets, pipelines): find one, merge two lists of them, keep names apart."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Protocol, TypeVar

from ..dsl.nearest import did_you_mean
from ..dsl.source import FxrulesError, Problem, Span


class Named(Protocol):
    """What has a name such as ``std.shape.noop`` and a place in a file."""

    @property
    def name(self) -> str: ...
    @property
    def span(self) -> Span | None: ...


class Chosen(Named, Protocol):
    """What has rules, and tells whether no more than an import led to its file."""

    @property
    def rules(self) -> Sequence[object]: ...
    @property
    def imported(self) -> bool: ...


_One = TypeVar("_One", bound=Named)
_Some = TypeVar("_Some", bound=Chosen)


def find_named(key: str, own: Sequence[_One], imported: Sequence[_One], what: str, hint: str = "") -> _One:
    """The thing of this name, or the only one that is called so within its file; those of imported files come last.

    Raises FxrulesError with the nearest names, else with ``hint``.
    """
    for things in (own, imported):
        found = [one for one in things if one.name == key] or [one for one in things if _short(one.name) == key]
        if len(found) == 1:
            return found[0]
        if found:
            message = f"`{key}` is ambiguous: {', '.join(_placed(one) for one in found)}"
            raise FxrulesError(Problem(None, f"ambiguous-{what}", message, "use the whole name"))
    names = [one.name for one in (*own, *imported)]
    near = did_you_mean(key, names) or did_you_mean(key, map(_short, names)) or hint
    raise FxrulesError(Problem(None, f"unknown-{what}", f"`{key}`: no such {what}", near))


def check_distinct(things: Iterable[Named], what: str) -> None:
    """Raises FxrulesError where two different things have one name."""
    seen: dict[str, Named] = {}
    for one in things:
        first = seen.setdefault(one.name, one)
        if first is not one:
            message = f"two {what}s are called `{one.name}`; the other stands at {first.span or first.name}"
            hint = "rename one, or load only one of the two files"
            raise FxrulesError(Problem(one.span, f"duplicate-{what}", message, hint))


def apart(things: Iterable[_Some]) -> tuple[list[_Some], list[_Some]]:
    """Those of files that were loaded, and those of files that were only imported."""
    things = tuple(things)
    return [one for one in things if not one.imported], [one for one in things if one.imported]


def merged(first: Iterable[_Some], second: Iterable[_Some]) -> tuple[_Some, ...]:
    """All of both; of one that is in both, with rules taken away or without, the larger."""
    found: dict[Span | None, _Some] = {}
    for one in (*first, *second):
        found[one.span] = max(found.get(one.span, one), one, key=lambda each: len(each.rules))
    return tuple(found.values())


def selects(pattern: str, name: str) -> bool:
    """Whether a wildcard names a rule, with or without its library in front.

    >>> selects("shape.*", "std.shape.noop"), selects("sh*", "std.shape.noop"), selects("noop", "std.shape.noop")
    (True, True, False)
    """
    return fnmatchcase(name, pattern) or fnmatchcase(name.partition(".")[2], pattern)


def _placed(one: Named) -> str:
    return f"{one.name} (at {one.span})" if one.span else one.name


def _short(name: str) -> str:
    return name.rpartition(".")[2]
