"""Cut a token list at the words that start statements, clauses and steps.

Such a word starts a piece where no operand can stand: after a complete one (so
`where` in ``match where(c, x, y)`` is the op), or at the start of a line where
what follows is no expression. Cutting first means that each piece is parsed by
itself and a mistake in one hides no other.
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

from .tokens import Kind, Token

STATEMENT_WORDS = frozenset(
    {"requires", "import", "from", "const", "opset", "family", "pattern", "rule", "ruleset", "pipeline"}
)
CLAUSE_WORDS = frozenset(
    {
        "match",
        "where",
        "let",
        "keep",
        "freeze",
        "rewrite",
        "numerics",
        "changes",
        "priority",
        "shrinks",
        "tags",
        "example",
    }
)
STEP_WORDS = frozenset({"fixpoint", "once", "sweep"})
OPERATOR_WORDS = frozenset({"and", "or", "not", "if", "else", "for", "in", "is", "as", "through", "return"})
_ENDS_OPERAND = frozenset({")", "]", "}", "?", "...", ".*"})
_NEVER_AFTER_A_START = frozenset({"=", ",", ".", ")", "]", ":"})
_GROUPS = {"rule": CLAUSE_WORDS, "pipeline": STEP_WORDS}


@frozen
class Piece:
    """The tokens ``[start, stop)`` of a statement, head, clause or step; ``word`` starts it, if one does."""

    word: str | None
    start: int
    stop: int


@frozen
class Group:
    """A rule or pipeline: its head (with the brace), its doc string, the pieces inside, its closing brace.

    ``doc`` and ``close`` are token positions, None where there is none.
    """

    head: Piece
    parts: tuple[Piece, ...]
    doc: int | None = None
    close: int | None = None


@frozen
class Cut:
    """A whole file: the doc string's token position, then statements, groups and stray pieces in order."""

    doc: int | None
    items: tuple[Piece | Group, ...]


def cut(tokens: Sequence[Token]) -> Cut:
    """Cut a file into statements, and rules and pipelines into clauses and steps.

    >>> from .source import Source
    >>> from .tokens import scan
    >>> rule = scan(Source("demo", "rule r(x: Tensor) { match x + 0 rewrite x }"))[0]
    >>> [piece.word for piece in cut(rule).items[0].parts]
    ['match', 'rewrite']
    """
    doc = 0 if tokens and tokens[0].kind is Kind.DOC else None
    position = 0 if doc is None else 1
    items: list[Piece | Group] = []
    while position < len(tokens):
        word = _word(tokens, position, STATEMENT_WORDS | CLAUSE_WORDS)
        if word in _GROUPS:
            group, position = _cut_group(tokens, position, word)
            items.append(group)
        else:
            stop = _piece_end(tokens, position, STATEMENT_WORDS | CLAUSE_WORDS)
            items.append(Piece(word, position, stop))
            position = stop
    return Cut(doc, tuple(items))


def _cut_group(tokens: Sequence[Token], start: int, kind: str) -> tuple[Group, int]:
    """The group whose word is at ``start``, and the position after it."""
    words = _GROUPS[kind]
    position = _head_end(tokens, start, words)
    head, doc = Piece(kind, start, position), None
    if position < len(tokens) and tokens[position].kind is Kind.DOC:
        doc, position = position, position + 1
    parts: list[Piece] = []
    while position < len(tokens):
        if _is_symbol(tokens[position], "}"):
            return Group(head, tuple(parts), doc, position), position + 1
        if _starts_statement(tokens, position, operand_fits=False):
            break
        stop = _part_end(tokens, position, words)
        parts.append(Piece(_word(tokens, position, words), position, stop))
        position = stop
    return Group(head, tuple(parts), doc), position


def _head_end(tokens: Sequence[Token], start: int, words: frozenset[str]) -> int:
    """The position after a head: behind its brace, or where something else starts."""
    for position in range(start + 1, len(tokens)):
        if _is_symbol(tokens[position], "{") and _ends_operand(tokens[position - 1]):
            return position + 1  # elsewhere it starts a dict
        fits = position == start + 1
        if _starts(tokens, position, words, fits) or _starts_statement(tokens, position, fits):
            return position
    return len(tokens)


def _piece_end(tokens: Sequence[Token], start: int, words: frozenset[str]) -> int:
    """Where the statement at ``start`` ends: before the next one."""
    awaits_import = tokens[start].text == "from"
    for position in range(start + 1, len(tokens)):
        if awaits_import and tokens[position].text == "import":
            awaits_import = False
        elif _starts(tokens, position, words, position == start + 1):
            return position
    return len(tokens)


def _part_end(tokens: Sequence[Token], start: int, words: frozenset[str]) -> int:
    """Where the clause or step at ``start`` ends: before the next one, a statement, or the closing brace."""
    before_arrow = tokens[start].text == "example"
    braces = 0
    for position in range(start, len(tokens)):
        token = tokens[position]
        if position > start:
            fits = before_arrow or position == start + 1
            if _starts(tokens, position, words, fits) or _starts_statement(tokens, position, fits):
                return position
        braces += _is_symbol(token, "{") - _is_symbol(token, "}")
        if braces < 0:
            return position
        before_arrow = before_arrow and not _is_symbol(token, "=>")
    return len(tokens)


def _starts_statement(tokens: Sequence[Token], position: int, operand_fits: bool) -> bool:
    """Whether a statement starts inside a rule: only a first word on a line can."""
    return tokens[position].first and _starts(tokens, position, STATEMENT_WORDS, operand_fits)


def _starts(tokens: Sequence[Token], position: int, words: frozenset[str], operand_fits: bool) -> bool:
    """Whether one of ``words`` starts a piece here.

    ``operand_fits`` says that a name may stand here whatever comes before. At the
    start of a line a word counts all the same where what follows is no expression.
    """
    word = _word(tokens, position, words)
    following = tokens[position + 1] if position + 1 < len(tokens) else None
    if word is None or (following and _is_one_of(following, _NEVER_AFTER_A_START)):
        return False
    if not operand_fits and _ends_operand(tokens[position - 1]):
        return True
    if not tokens[position].first or following is None or _is_symbol(tokens[position - 1], ":"):
        return False
    if following.kind is Kind.SYMBOL:
        return word != "where" and following.text in ("(", "{")
    return following.text not in OPERATOR_WORDS - {"not"}


def _ends_operand(token: Token) -> bool:
    if token.kind is Kind.NAME:
        return token.text not in OPERATOR_WORDS
    return token.kind is not Kind.SYMBOL or token.text in _ENDS_OPERAND


def _is_one_of(token: Token, symbols: frozenset[str]) -> bool:
    return token.kind is Kind.SYMBOL and token.text in symbols


def _word(tokens: Sequence[Token], position: int, words: frozenset[str]) -> str | None:
    token = tokens[position]
    return token.text if token.kind is Kind.NAME and token.text in words else None


def _is_symbol(token: Token, text: str) -> bool:
    return token.kind is Kind.SYMBOL and token.text == text
