"""From text to tree: `parse` returns what could be read and every problem it met."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from attrs import evolve, frozen

from . import ast
from .comments import Comments, attach_clause
from .complaints import check_brackets, complain, complain_stray, unclosed
from .literals import doc_value
from .pieces import CLAUSE_WORDS, STATEMENT_WORDS, STEP_WORDS, Group, Piece, cut
from .source import MOST_PROBLEMS, FxrulesError, Problem, Source, Span
from .syntax import Unexpected, parse_piece
from .tokens import Token, scan
from .trees import BadTree, build

MAX_BYTES = 1 << 20

_NAMELESS = "_"
"""The name of a rule or pipeline whose head could not be read."""


@frozen
class _Reader:
    """What the functions below share while they read one file."""

    source: Source
    tokens: Sequence[Token]
    comments: Comments
    problems: list[Problem]


def read(path: str | Path) -> Source:
    """The text of a file, without a byte order mark and with ``\\n`` newlines.

    Raises `FxrulesError` if it cannot be read, is larger than 1 MiB, or is not UTF-8.
    """
    name = str(path)
    try:
        with Path(path).open("rb") as file:
            data = file.read(MAX_BYTES + 4)
    except OSError as error:
        raise FxrulesError(Problem(None, "unreadable", f"{name}: {error.strerror or error}")) from error
    data = data.removeprefix(b"\xef\xbb\xbf")
    if len(data) > MAX_BYTES:
        raise FxrulesError(_too_large(Source(name, "")))
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        good = _plain(data[: error.start].decode("utf-8"))
        source = Source(name, good + _plain(data[error.start :].decode("utf-8", "replace")))
        what = f"byte 0x{data[error.start]:02x} is not UTF-8"
        span = Span(source, len(good), len(good) + 1)
        raise FxrulesError(Problem(span, "not-utf8", what, "save the file as UTF-8")) from error
    return Source(name, _plain(text))


def _plain(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _too_large(source: Source) -> Problem:
    what = f"the file is larger than {MAX_BYTES >> 20} MiB"
    return Problem(Span(source, 0, 0), "too-large", what, "split it into files that import each other")


def parse(source: Source) -> tuple[ast.File, tuple[Problem, ...]]:
    """Read a `.rules` text: what could be read, and the problems in order of place.

    A clause, step or statement that cannot be read is left out; its neighbours stay.

    >>> file, problems = parse(Source("demo", "rule r(x: Tensor) { match x + 0 rewrite x }"))
    >>> file.statements[0].name, problems
    ('r', ())
    """
    if len(source.text) > MAX_BYTES or len(source.text.encode("utf-8", "replace")) > MAX_BYTES:
        return ast.File((), span=Span(source, 0, 0)), (_too_large(source),)
    bom = source.text.startswith("\ufeff")
    if bom:
        source = Source(source.name, source.text[1:])
    tokens, comments, problems = scan(source)
    reader = _Reader(source, tokens, Comments(source, comments), problems)
    file = _read_file(reader)
    ordered = sorted(problems, key=lambda problem: problem.span.start if problem.span else -1)
    return file, tuple(ordered[:MOST_PROBLEMS])


def parse_text(text: str, name: str = "<text>") -> ast.File:
    """Read a text that must be free of problems; raises `FxrulesError` with all of them."""
    file, problems = parse(Source(name, text))
    if problems:
        raise FxrulesError(*problems)
    return file


def parse_expr(text: str, name: str = "<text>") -> ast.Expr:
    """Read one expression; raises `FxrulesError`.

    >>> parse_expr("x + 0")
    Binary(op='+', left=Name(id='x'), right=Number(value=0, tolerance=None))
    """
    source = Source(name, text)
    tokens, comments, problems = scan(source)
    reader = _Reader(source, tokens, Comments(source, comments), problems)
    expr: ast.Expr | None = _read_piece(reader, Piece(None, 0, len(tokens)), "expr", "file") if tokens else None
    if problems or expr is None:
        raise FxrulesError(*(problems or [Problem(Span(source, 0, 0), "syntax", "expected an expression")]))
    return expr


def _read_file(reader: _Reader) -> ast.File:
    layout = cut(reader.tokens)
    above: tuple[str, ...] = ()
    doc = None
    if layout.doc is not None:
        token = reader.tokens[layout.doc]
        above, doc = reader.comments.before(token.end), doc_value(token.text)
    statements: list[ast.Statement] = []
    stray = False
    for item in layout.items:
        if isinstance(item, Group):
            statements.append(_read_group(reader, item))
            stray = False
        elif item.word in STATEMENT_WORDS:
            statement = _read_statement(reader, item)
            statements.extend([statement] if statement else [])
            stray = False
        else:
            if not stray:
                reader.problems.append(complain_stray(reader.source, reader.tokens, item, "file"))
            stray = True
    closing = reader.comments.before(len(reader.source.text) + 1)
    return ast.File(tuple(statements), doc, comments=above, closing_comments=closing, span=_whole(reader.source))


def _whole(source: Source) -> Span:
    return Span(source, 0, len(source.text))


def _read_statement(reader: _Reader, piece: Piece) -> Any:
    statement = _read_piece(reader, piece, "statement", "file")
    start, end = reader.tokens[piece.start].start, reader.tokens[piece.stop - 1].end
    comments = reader.comments.before(start) + reader.comments.before(end)
    trailing = reader.comments.behind(end)
    return evolve(statement, comments=comments, trailing=trailing) if statement else None


def _read_group(reader: _Reader, group: Group) -> ast.Rule | ast.Pipeline:
    """A rule or pipeline; a part that cannot be read is left out."""
    tokens, comments = reader.tokens, reader.comments
    head = _read_head(reader, group)
    above = comments.before(tokens[group.head.start].start) + comments.before(tokens[group.head.stop - 1].end)
    doc = None
    if group.doc is not None:
        above, doc = above + comments.before(tokens[group.doc].end), doc_value(tokens[group.doc].text)
    kind = "pipeline" if isinstance(head, ast.Pipeline) else "rule"
    parts = tuple(part for piece in group.parts if (part := _read_part(reader, piece, kind)) is not None)
    last = group.parts[-1].stop - 1 if group.parts else group.doc or group.head.stop - 1
    end = tokens[last if group.close is None else group.close].end
    whole_end = end if group.close is not None or last + 1 < len(tokens) else len(reader.source.text)
    open_text = any(one.code == "open-string" for one in reader.problems)
    if group.close is None and tokens[group.head.stop - 1].text == "{" and not open_text:
        reader.problems.append(unclosed(reader.source, tokens[group.head.stop - 1]))
    closing, trailing = comments.before(end), comments.behind(end)
    span = Span(reader.source, tokens[group.head.start].start, whole_end)
    head = evolve(head, comments=above, trailing=trailing, closing_comments=closing, span=span)
    if isinstance(head, ast.Rule):
        return evolve(head, clauses=parts, doc=doc)
    if group.doc is not None:
        place = Span(reader.source, tokens[group.doc].start, tokens[group.doc].end)
        reader.problems.append(Problem(place, "syntax", "a pipeline has no doc string", "use a comment"))
    return evolve(head, steps=parts)


def _read_head(reader: _Reader, group: Group) -> ast.Rule | ast.Pipeline:
    """The head of a rule or pipeline, with what is known of it where it cannot be read."""
    head: ast.Rule | ast.Pipeline | None = _read_piece(reader, group.head, "head", "file")
    if head is not None:
        return head
    after = reader.tokens[group.head.start + 1 : group.head.stop]
    name = after[0].text if after and after[0].text.isidentifier() else _NAMELESS
    return ast.Pipeline(name, ()) if group.head.word == "pipeline" else ast.Rule(name, (), ())


def _read_part(reader: _Reader, piece: Piece, kind: str) -> Any:
    """A clause or step, or None."""
    rule = "clause" if kind == "rule" else "step"
    part = None
    if piece.word in (CLAUSE_WORDS if kind == "rule" else STEP_WORDS):
        part = _read_piece(reader, piece, rule, kind)
    else:
        reader.problems.append(complain_stray(reader.source, reader.tokens, piece, kind))
    end = reader.tokens[piece.stop - 1].end
    if part is None:
        reader.comments.before(end)
        return None
    if isinstance(part, ast.Step):
        start = reader.tokens[piece.start].start
        above = reader.comments.before(start) + reader.comments.before(end)
        return evolve(part, comments=above, trailing=reader.comments.behind(end))
    return attach_clause(part, reader.comments)


def _read_piece(reader: _Reader, piece: Piece, rule: str, home: str) -> Any:
    """The node of a piece, with the piece's whole span; None, and a problem, where it cannot be read."""
    if len(reader.problems) >= MOST_PROBLEMS:
        return None
    whole = Span(reader.source, reader.tokens[piece.start].start, reader.tokens[piece.stop - 1].end)
    node = _parse(reader, piece, rule, home)
    if not isinstance(node, Problem):
        return node if rule == "expr" else evolve(node, span=whole)
    # What the scanner could not read is left out of the tokens: no second problem for it.
    if not any(one.span and whole.start <= one.span.start <= whole.end for one in reader.problems):
        reader.problems.append(node)
    return None


def _parse(reader: _Reader, piece: Piece, rule: str, home: str) -> Any:
    """The node of a piece, or the problem with it."""
    source, tokens = reader.source, reader.tokens
    opens = rule == "head" and tokens[piece.stop - 1].text == "{"
    problem = check_brackets(source, tokens, piece.start, piece.stop - 1 if opens else piece.stop)
    if problem is not None:
        return problem
    result = parse_piece(tokens, piece.start, piece.stop, rule)
    if isinstance(result, Unexpected):
        return complain(source, tokens, piece, result, home)
    try:
        return build(result, source)
    except BadTree as error:
        return error.problem
