"""The words of a `.rules` text: tokens and comments, with problems for what is neither."""

from __future__ import annotations

import re
from enum import Enum

from attrs import frozen

from .source import Problem, Source, Span


class Kind(Enum):
    """What a token is; everything but ``SYMBOL`` is also a terminal of the grammar."""

    NAME = "NAME"
    NUMBER = "NUMBER"
    STRING = "STRING"
    DOC = "DOC"
    SPECIAL = "SPECIAL"
    SYMBOL = "SYMBOL"


@frozen
class Token:
    """A piece of text at ``[start, end)``; ``first`` if it is the first one on its line."""

    kind: Kind
    text: str
    start: int
    end: int
    first: bool


@frozen
class Comment:
    """``# text`` at ``[start, end)``; ``first`` if no token stands before it on its line."""

    text: str
    start: int
    end: int
    first: bool


_TOKEN = re.compile(
    r'''(?P<space>[ \t\r\n\f]+)
      | (?P<comment>\#[^\n]*)
      | (?P<DOC>"""(?:[^"\\]|\\[\s\S]|"(?!""))*""")
      | (?P<open_doc>"""|\'\'\')
      | (?P<STRING>"(?:[^"\\\n]|\\[^\n])*"|'(?:[^'\\\n]|\\[^\n])*')
      | (?P<open_string>["'][^\n]*)
      | (?P<NUMBER>(?:[0-9]+\.(?!\.)[0-9]*|\.[0-9]+|[0-9]+)(?:[eE][+-]?[0-9]+)?)
      | (?P<NAME>[A-Za-z_][A-Za-z0-9_]*)
      | (?P<SPECIAL>\$[A-Za-z_][A-Za-z0-9_]*)
      | (?P<SYMBOL>\.\.\.|\*\*|//|<<|>>|<=|>=|==|!=|=>|\?\?|\.\*|[()\[\]{},.:=+\-*/%@~&^|<>?])
      | (?P<bad>[\s\S])''',
    re.VERBOSE,
)

_BAD_CHARACTER_HINTS = {
    "!": "negation is `not`, difference is `!=`",
    ";": "no separators: each clause starts with its word",
    "$": "`$out` is the matched root, `$any` any value",
    "\\": "newlines never matter: a line needs no continuation",
    "“": 'strings stand in plain quotes: "..."',
    "”": 'strings stand in plain quotes: "..."',
    "\u2018": "strings stand in plain quotes: '...'",
    "\u2019": "strings stand in plain quotes: '...'",
    "\u00d7": "multiplication is `*`",
    "\u2212": "minus is `-`",
    "≠": "difference is `!=`",
    "≤": "at most is `<=`",
    "≥": "at least is `>=`",
}


def scan(source: Source) -> tuple[list[Token], list[Comment], list[Problem]]:
    """Tokens, comments and problems of a text, each in order.

    A bad character or an open string gives one problem and is left out.

    >>> tokens, comments, problems = scan(Source("demo", "x + 0  # no-op"))
    >>> [token.text for token in tokens], comments[0].text, problems
    (['x', '+', '0'], '# no-op', [])
    """
    tokens: list[Token] = []
    comments: list[Comment] = []
    problems: list[Problem] = []
    first, previous_end = True, -1
    text, position = source.text, 0
    while position < len(text):
        found = _TOKEN.match(text, position)
        assert found is not None, "the last alternative takes any character"
        kind, start, end = found.lastgroup or "bad", found.start(), found.end()
        position = end
        if kind == "space":
            first = first or "\n" in found.group()
        elif kind == "comment":
            comments.append(Comment(found.group().rstrip(), start, end, first))
        elif kind.isupper():
            if kind == "NUMBER" or (kind == "NAME" and previous_end == start):
                problems.extend(_check_number(source, tokens, kind, start, end))
            is_too_large = kind == "NUMBER" and bool(problems) and problems[-1].span == Span(source, start, end)
            tokens.append(Token(Kind[kind], "0" if is_too_large else found.group(), start, end, first))
            first, previous_end = False, end
        else:
            position = end = len(text) if kind == "open_doc" else end
            _add_bad(problems, source, kind, start, end)
            if kind == "open_string":
                tokens.append(Token(Kind.STRING, found.group(), start, end, first))
            first = False
    return tokens, comments, problems


def _check_number(source: Source, tokens: list[Token], kind: str, start: int, end: int) -> list[Problem]:
    """A number glued to a name (``1x``, ``0x10``, ``1j``) or too large to mean anything."""
    if kind == "NAME":
        before = tokens[-1]
        if before.kind is not Kind.NUMBER:
            return []
        what = f"`{before.text}{source.text[start:end]}` is neither a number nor a name"
        is_other_base = before.text == "0" and source.text[start] in "xXoObB"
        hint = "numbers are decimal" if is_other_base else "a product is written `2 * x`"
        return [Problem(Span(source, before.start, end), "bad-number", what, hint)]
    text = source.text[start:end]
    if float(text) == float("inf") or len(text) > 400:
        shown = text if len(text) < 40 else f"{text[:37]}..."
        return [Problem(Span(source, start, end), "bad-number", f"`{shown}` is too large", "infinity is `inf`")]
    return []


def _add_bad(problems: list[Problem], source: Source, kind: str, start: int, end: int) -> None:
    """Add the problem for a text that is no token; a run of bad characters is one problem."""
    span = Span(source, start, end)
    char = source.text[start]
    if kind == "open_doc":
        quotes = source.text[start : start + 3]
        hint = "a doc string ends with the quotes it starts with" if quotes == '"""' else 'use `"""`'
        problems.append(Problem(Span(source, start, start + 3), "open-string", f"`{quotes}` is never closed", hint))
    elif kind == "open_string":
        what = "the string is not closed on its line"
        problems.append(Problem(span, "open-string", what, f"end it with `{char}`; long texts stand in a doc string"))
    else:
        last = problems[-1] if problems else None
        if last and last.span and last.code == "bad-character" and last.span.end == start:
            problems[-1] = Problem(Span(source, last.span.start, end), last.code, last.message, last.hint)
            return
        name = "a NUL character" if char == "\0" else f"`{char}`" if char.isprintable() else f"character {char!r}"
        what = f"{name} means nothing here"
        problems.append(Problem(span, "bad-character", what, _BAD_CHARACTER_HINTS.get(char, "")))
