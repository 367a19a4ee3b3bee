"""Comments: each goes to the piece it stands above, inside of, or behind.

Comments are dealt out in the order of the text, so none is lost or told twice.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from attrs import evolve

from . import ast
from .source import Source
from .tokens import Comment


class Comments:
    """The comments of a text that are not yet dealt out."""

    def __init__(self, source: Source, comments: Iterable[Comment]) -> None:
        self._source = source
        self._left = deque(comments)

    def before(self, offset: int) -> tuple[str, ...]:
        """Take the comments that start before ``offset``; ``""`` stands for a blank line behind one."""
        taken: list[str] = []
        while self._left and self._left[0].start < offset:
            comment = self._left.popleft()
            taken.append(comment.text)
            stop = self._left[0].start if self._left and self._left[0].start < offset else offset
            between = self._source.text[comment.end : stop]
            if between.isspace() and between.count("\n") > 1:
                taken.append("")
        return tuple(taken)

    def behind(self, offset: int) -> str:
        """Take the comment on the rest of the line behind ``offset``, if there is one."""
        if self._left:
            between = self._source.text[offset : self._left[0].start]
            if self._left[0].start >= offset and "\n" not in between and (not between or between.isspace()):
                return self._left.popleft().text
        return ""


def attach_clause(clause: ast.Clause, comments: Comments) -> ast.Clause:
    """The clause with the comments above it, inside it and behind it."""
    start, end = _ends(clause)
    above = comments.before(start)
    match clause:
        case ast.Match(body) | ast.Rewrite(body):
            body, inner = _attach_block(body, comments)
            clause = evolve(clause, body=body)
        case ast.Example():
            clause, inner = _attach_bodies(clause, comments)
        case _:
            inner = ()
    return evolve(clause, comments=above + inner + comments.before(end), trailing=comments.behind(end))


def _attach_bodies(example: ast.Example, comments: Comments) -> tuple[ast.Example, tuple[str, ...]]:
    """The example with the comments of its bodies, and those that stand above it.

    What stands behind a body in braces stays inside of them, so that the order is kept.
    """
    body, above = _attach_block(example.body, comments)
    expected, between = example.expected, tuple[str, ...]()
    if expected is not None:
        expected, between = _attach_block(expected, comments)
    if expected is None or is_single(expected):
        between += comments.before(_ends(example)[1])
    if is_single(body):
        return evolve(example, body=body, expected=expected), above + between
    body = evolve(body, closing_comments=body.closing_comments + between)
    return evolve(example, body=body, expected=expected), above


def _attach_block(block: ast.Block, comments: Comments) -> tuple[ast.Block, tuple[str, ...]]:
    """The block with its comments, and those that its clause has to take."""
    start, end = _ends(block)
    if is_single(block):
        return block, comments.before(end)
    above = comments.before(start)
    assigns = []
    for assign in block.assigns:
        stop = _ends(assign)[1]
        taken = comments.before(stop)
        assigns.append(evolve(assign, comments=taken, trailing=comments.behind(stop)))
    stop = _ends(block.results[-1])[1]
    inner = comments.before(stop)
    trailing = comments.behind(stop)
    closing = comments.before(end)
    block = evolve(block, assigns=tuple(assigns), comments=inner, trailing=trailing, closing_comments=closing)
    return block, above


def is_single(block: ast.Block) -> bool:
    """Whether a body is one expression, so that it stands without braces."""
    return not block.assigns and len(block.results) == 1 and not isinstance(block.results[0], ast.Star)


def _ends(node: ast.Clause | ast.Block | ast.Assign | ast.Expr | ast.Star) -> tuple[int, int]:
    assert node.span is not None, "a parsed node has its span"
    return node.span.start, node.span.end
