"""One piece of a `.rules` file against the grammar: a tree, or a problem that says what was expected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from attrs import frozen
from lark import Lark, Tree, UnexpectedToken
from lark import Token as LarkToken
from lark.lexer import PatternStr

from .pieces import OPERATOR_WORDS
from .tokens import Kind, Token

_STARTS = ("statement", "head", "clause", "step", "expr")


@frozen
class Grammar:
    """The parser made from ``grammar.lark``, and the terminal of each symbol and word."""

    lark: Lark
    terminals: Mapping[str, str]


@frozen
class Unexpected:
    """Where a piece stops making sense: a token position (the piece's end: its stop), and what would fit there.

    ``accepted`` holds symbols and words as written, and the kinds ``NAME NUMBER STRING SPECIAL END``.
    """

    position: int
    accepted: frozenset[str]


@cache
def load_grammar() -> Grammar:
    """Read the grammar, once per process (0.2 s)."""
    text = Path(__file__).with_name("grammar.lark").read_text(encoding="utf-8")
    lark = Lark(text, parser="lalr", start=list(_STARTS), propagate_positions=True, maybe_placeholders=False)
    named = {
        terminal.pattern.value: terminal.name for terminal in lark.terminals if isinstance(terminal.pattern, PatternStr)
    }
    return Grammar(lark, MappingProxyType(named))


def parse_piece(tokens: Sequence[Token], start: int, stop: int, rule: str) -> Tree[LarkToken] | Unexpected:
    """Parse the tokens ``[start, stop)`` by one start rule of the grammar."""
    grammar = load_grammar()
    parser: Any = grammar.lark.parse_interactive(start=rule)
    for position in range(start, stop):
        token = tokens[position]
        terminal = _terminal(grammar, tokens[:stop], position, parser.choices())
        try:
            parser.feed_token(LarkToken(terminal, token.text, token.start, end_pos=token.end))
        except UnexpectedToken:
            return Unexpected(position, _accepted(grammar, parser))
    try:
        tree: Tree[LarkToken] = parser.feed_token(LarkToken("$END", ""))
    except UnexpectedToken:
        return Unexpected(stop, _accepted(grammar, parser))
    return tree


def _terminal(grammar: Grammar, tokens: Sequence[Token], position: int, choices: Mapping[str, Any]) -> str:
    """The terminal that a token stands for here: a word is a name where the grammar has no such keyword."""
    token = tokens[position]
    if token.kind is Kind.SYMBOL:
        return grammar.terminals[token.text]
    keyword = grammar.terminals.get(token.text, "") if token.kind is Kind.NAME else ""
    if not keyword:
        return token.kind.name
    before = tokens[position - 1].text if position else ""
    after = tokens[position + 1].text if position + 1 < len(tokens) else ""
    if token.text == "flat":
        calls = [one.kind for one in tokens[position + 1 : position + 2]] == [Kind.NAME]
        is_name = keyword not in choices or not calls or after in OPERATOR_WORDS
    elif token.text in OPERATOR_WORDS:
        is_name = before == "." or (after == "=" and before in ("(", ","))
    else:
        is_name = keyword not in choices or after == "="
    return "NAME" if is_name and "NAME" in choices else keyword


def _accepted(grammar: Grammar, parser: Any) -> frozenset[str]:
    texts = {name: text for text, name in grammar.terminals.items()}
    return frozenset(texts.get(name, name.strip("$")) for name in parser.accepts())
