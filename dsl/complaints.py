"""What to say about a piece that does not parse: what was found, what was expected, what to try."""

from __future__ import annotations

from collections.abc import Sequence

from .nearest import did_you_mean
from .pieces import CLAUSE_WORDS, OPERATOR_WORDS, STATEMENT_WORDS, STEP_WORDS, Piece
from .source import Problem, Source, Span
from .syntax import Unexpected
from .tokens import Kind, Token
from .trees import MAX_NESTING, too_deep

_CLOSERS = {"(": ")", "[": "]", "{": "}"}
_OPERATORS = frozenset({"+", "*", "/", "==", "or", "and"})
_ARROW = "an example says what comes out: `=> EXPR` or `=> unchanged`"
_FAMILIAR = {
    # what people write from habit: found, the token before -> what it is here
    ("&", "&"): "conjunction is `and`",
    ("|", "|"): "alternatives and disjunction are `or`",
    (">", "-"): "an example points with `=>`",
    ("*", "."): "a `.*` selects all rules of a library in `ruleset` and `pipeline`",
    ("/", "/"): "comments start with `#`",
}


def check_brackets(source: Source, tokens: Sequence[Token], start: int, stop: int) -> Problem | None:
    """The first bracket of ``[start, stop)`` that is not paired, or nesting that is too deep."""
    opened: list[Token] = []
    for token in tokens[start:stop]:
        if token.kind is not Kind.SYMBOL:
            continue
        if token.text in _CLOSERS:
            opened.append(token)
            if len(opened) > MAX_NESTING:
                return too_deep(_span(source, token))
        elif token.text in ")]}":
            if not opened:
                return Problem(_span(source, token), "unbalanced", f"`{token.text}` closes nothing")
            opener = opened.pop()
            if _CLOSERS[opener.text] != token.text:
                where = "{}:{}".format(*source.line_column(opener.start))
                what = f"`{token.text}` cannot close the `{opener.text}` of {where}"
                return Problem(_span(source, token), "unbalanced", what, f"expected `{_CLOSERS[opener.text]}`")
    if opened:
        return unclosed(source, opened[-1])
    return None


def unclosed(source: Source, token: Token) -> Problem:
    """The problem of an opening bracket without its partner."""
    return Problem(_span(source, token), "unbalanced", f"`{token.text}` is never closed")


def complain(source: Source, tokens: Sequence[Token], piece: Piece, error: Unexpected, home: str) -> Problem:
    """The problem of a piece that stops making sense; ``home`` is ``file``, ``rule`` or ``pipeline``."""
    at_end = error.position >= piece.stop
    before = tokens[error.position - 1]
    if at_end:
        what = f"expected {_expected(error, home)} after {_shown(before)}, found {_end_shown(tokens, piece)}"
        return Problem(_span(source, before), "syntax", what, _end_hint(error, piece))
    found = tokens[error.position]
    unknown = _unknown_word(found, error, home)
    if unknown:
        kind, hint = unknown
        return Problem(_span(source, found), f"unknown-{kind}", f"`{found.text}`: no such {kind}", hint)
    what = f"expected {_expected(error, home)}, found {_shown(found)}"
    return Problem(_span(source, found), "syntax", what, _hint(tokens, error))


def complain_stray(source: Source, tokens: Sequence[Token], piece: Piece, home: str) -> Problem:
    """The problem of a piece that starts with no word that may start one."""
    token = tokens[piece.start]
    span = _span(source, token)
    if piece.word in CLAUSE_WORDS and home == "file":
        hint = "is there a `}` too many before it?"
        return Problem(span, "outside-rule", f"the clause `{token.text}` stands outside of a rule", hint)
    if token.kind is Kind.SYMBOL and token.text in ")]}":
        return Problem(span, "unbalanced", f"`{token.text}` closes nothing")
    kind, words = _KINDS[home]
    if token.kind is Kind.NAME and token.text not in OPERATOR_WORDS:
        other = f"`{token.text}` is a clause of a rule" if token.text in CLAUSE_WORDS else ""
        hint = other or did_you_mean(token.text, words) or f"the {kind}s are {_listed(sorted(words))}"
        return Problem(span, f"unknown-{kind}", f"`{token.text}`: no such {kind}", hint)
    return Problem(span, "syntax", f"expected a {kind}, found {_shown(token)}", f"one of {_listed(sorted(words))}")


_KINDS = {
    "file": ("statement", STATEMENT_WORDS),
    "rule": ("clause", CLAUSE_WORDS),
    "pipeline": ("step", STEP_WORDS),
}


def _unknown_word(found: Token, error: Unexpected, home: str) -> tuple[str, str] | None:
    """The kind of word that a name at the end of a complete piece was meant to be, with the nearest one."""
    if found.kind is not Kind.NAME or "END" not in error.accepted:
        return None
    kind, words = _KINDS[home]
    near = did_you_mean(found.text, words)
    return (kind, near) if near and found.text not in words else None


def _expected(error: Unexpected, home: str) -> str:
    accepted = error.accepted
    if {"NAME", "NUMBER", "("} <= accepted:
        return "an expression"
    if accepted >= _OPERATORS or "+" in accepted:
        named = [f"`{text}`" for text in (",", ")", "]", "}", "=>", "else", "return") if text in accepted]
        if "END" in accepted:
            named.append({"file": "the next statement", "rule": "the next clause", "pipeline": "the next step"}[home])
        return " or ".join(["an operator", *named] if len(named) < 2 else named)
    words = {"NAME": "a name", "NUMBER": "a number", "STRING": "a string", "END": "the end"}
    named = [words[text] for text in words if text in accepted]
    named += [f"`{text}`" for text in sorted(accepted - words.keys())]
    return _listed(named[:6], quoted=True)


def _hint(tokens: Sequence[Token], error: Unexpected) -> str:
    found, before = tokens[error.position], tokens[error.position - 1]
    if (found.text, before.text) in _FAMILIAR:
        return _FAMILIAR[found.text, before.text]
    if found.text == "=" and "==" in error.accepted:
        return "equality is `==`"
    if found.text == "for":
        return "a comprehension stands in brackets: `[f(x) for x in xs]`"
    if found.text == "}" and "return" in error.accepted:
        return "a block ends with `return`"
    if "=>" in error.accepted and "END" not in error.accepted:
        return _ARROW
    if found.text == "{" and "(" in error.accepted:
        return "leaves are declared in parentheses: `rule r(x: Tensor) {`, `()` for none"
    if found.text == ":" and before.text in CLAUSE_WORDS:
        return f"no colon after `{before.text}`"
    if found.text in CLAUSE_WORDS | STATEMENT_WORDS | OPERATOR_WORDS:
        return f"`{found.text}` is a word of the language"
    if found.kind is Kind.DOC:
        return "a doc string stands first in its file or rule"
    return ""


def _end_hint(error: Unexpected, piece: Piece) -> str:
    if "as" in error.accepted and piece.word == "import":
        return "what is imported is known by an alias: `import std.shape as shape`"
    return _ARROW if "=>" in error.accepted and "END" not in error.accepted else ""


def _shown(token: Token) -> str:
    if token.kind is Kind.DOC:
        return "a doc string"
    return f"`{token.text}`" if len(token.text) <= 40 else f"`{token.text[:37]}...`"


def _end_shown(tokens: Sequence[Token], piece: Piece) -> str:
    if piece.stop >= len(tokens):
        return "the end of the file"
    following = tokens[piece.stop].text
    if following in CLAUSE_WORDS:
        return f"the clause `{following}`"
    return f"`{following}`"


def _listed(items: Sequence[str], *, quoted: bool = False) -> str:
    shown = list(items) if quoted else [f"`{item}`" for item in items]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} or {shown[-1]}" if shown else "nothing more"


def _span(source: Source, token: Token) -> Span:
    return Span(source, token.start, token.end)
