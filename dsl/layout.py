"""Break text into lines: a small pretty printer (Wadler's, with alignment).

A layout is a string without newlines, a tuple of layouts one after the other, or
one of the classes below. Rendering keeps its own stack, so depth costs no recursion.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias, Union

from attrs import frozen

WIDTH = 100


@frozen
class Line:
    """``flat`` where its group fits on a line, else a newline."""

    flat: str = " "


@frozen
class Nest:
    """Newlines inside are indented ``by`` more."""

    by: int
    inner: Layout


@frozen
class Align:
    """Newlines inside are indented to the column where this starts, plus ``offset``."""

    inner: Layout
    offset: int = 0


@frozen
class Group:
    """Either all lines directly inside are flat, or all are newlines."""

    inner: Layout


Layout: TypeAlias = Union[str, Line, Nest, Align, Group, "tuple[Layout, ...]"]

_Item: TypeAlias = tuple[int, bool, Layout]


def join(items: Iterable[Layout], separator: Layout) -> tuple[Layout, ...]:
    """The items with a separator between each two."""
    joined = [part for item in items for part in (separator, item)]
    return tuple(joined[1:])


def fill(items: Sequence[Layout]) -> Layout:
    """The items with commas between; each stays on the line if it fits there."""
    first, *others = items
    return (Group(first), *((",", Group((Line(), Group(item)))) for item in others))


def render(layout: Layout, column: int = 0, indent: int = 0) -> str:
    """The text, broken so that lines stay within `WIDTH` columns where possible.

    ``column`` is where the text starts, ``indent`` what its newlines are indented by.

    >>> render(Group(("f(", Nest(4, (Line(""), "x")), Line(""), ")")))
    'f(x)'
    """
    pieces: list[str] = []
    stack: list[_Item] = [(indent, False, layout)]
    while stack:
        indent, flat, item = stack.pop()
        match item:
            case str():
                pieces.append(item)
                column += len(item)
            case Line(text):
                pieces.append(text if flat else "\n" + " " * indent)
                column = column + len(text) if flat else indent
            case Nest(by, inner):
                stack.append((indent + by, flat, inner))
            case Align(inner, offset):
                stack.append((max(0, column + offset), flat, inner))
            case Group(inner):
                stack.append((indent, flat or _fits(inner, column, stack), inner))
            case _:
                stack.extend((indent, flat, part) for part in reversed(item))
    return "".join(pieces)


def _fits(layout: Layout, column: int, following: Sequence[_Item]) -> bool:
    """Whether a layout fits flat on the line, with all that follows up to the next newline."""
    stack: list[tuple[bool, Layout]] = [(True, layout)]
    rest = len(following)
    while column <= WIDTH:
        if not stack:
            if rest == 0:
                return True
            rest -= 1
            stack.append(following[rest][1:])
        flat, item = stack.pop()
        match item:
            case str():
                column += len(item)
            case Line(text):
                if not flat:
                    return True
                column += len(text)
            case Nest(_, inner) | Align(inner, _) | Group(inner):
                stack.append((flat, inner))
            case _:
                stack.extend((flat, part) for part in reversed(item))
    return False
