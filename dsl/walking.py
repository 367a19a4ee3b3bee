"""Walk an expression without recursion."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TypeAlias

from . import ast
from .source import Span

Part: TypeAlias = ast.Expr | ast.Keyword | ast.Star | ast.StarStar | ast.Slice | ast.StarDim


def parts(node: Part) -> tuple[Part, ...]:
    """The direct parts of an expression, in the order of the text."""
    match node:
        case ast.Attribute(value) | ast.Optional(value) | ast.As(value) | ast.Through(value):
            return (value,)
        case ast.Keyword(_, value) | ast.Star(value) | ast.Unary(_, value):
            return (value,)
        case ast.Call(func, args):
            return (func, *args)
        case ast.Flat(call):
            return (call,)
        case ast.Slice(start, stop, step):
            return tuple(part for part in (start, stop, step) if part is not None)
        case ast.Index(value, items):
            return (value, *items)
        case ast.Binary(_, left, right):
            return (left, right)
        case ast.Compare(_, operands) | ast.And(operands) | ast.Or(operands):
            return operands
        case ast.IfElse(then, test, other):
            return (then, test, other)
        case ast.Tuple(items) | ast.List(items):
            return items
        case ast.Dict(entries):
            return tuple(part for entry in entries for part in entry)
        case ast.Comprehension(element, _, iterable, condition):
            return (element, iterable) if condition is None else (element, iterable, condition)
    return ()


def walk(node: Part) -> Iterator[Part]:
    """The expression and all its parts, each before its own parts, in the order of the text.

    >>> [part.id for part in walk(ast.Binary("+", ast.Name("x"), ast.Name("y"))) if isinstance(part, ast.Name)]
    ['x', 'y']
    """
    pending = [node]
    while pending:
        node = pending.pop()
        yield node
        pending.extend(reversed(parts(node)))


def names_in(node: Part) -> Iterator[ast.Name]:
    """Every name in an expression, but for the variables of its own comprehensions."""
    pending: list[tuple[Part, frozenset[str]]] = [(node, frozenset())]
    while pending:
        node, own = pending.pop()
        if isinstance(node, ast.Name) and node.id not in own:
            yield node
        if isinstance(node, ast.Comprehension):
            pending.append((node.iterable, own))
            own = own | {node.name}
            inner = (node.element,) if node.condition is None else (node.element, node.condition)
            pending.extend((part, own) for part in reversed(inner))
        else:
            pending.extend((part, own) for part in reversed(parts(node)))


def dotted(expr: Part) -> str | None:
    """``aten.add.Tensor`` as text, or None for anything but names with dots between."""
    words: list[str] = []
    while isinstance(expr, ast.Attribute):
        words.append(expr.name)
        expr = expr.value
    return ".".join([expr.id, *reversed(words)]) if isinstance(expr, ast.Name) else None


def locate(span: Span | None, word: str, occurrence: int = 0) -> Span | None:
    """The place of a word inside a longer piece of text, where the tree keeps no place of its own for it."""
    if span is None:
        return None
    text = span.source.text[span.start : span.end]
    found = list(re.finditer(rf"(?<![\w.]){re.escape(word)}(?!\w)", text))
    if not found:
        return span
    chosen = found[min(occurrence, len(found) - 1)]
    return type(span)(span.source, span.start + chosen.start(), span.start + chosen.end())
