"""Formatting: the same tree comes back, twice formatted is once formatted, no comment is lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tree_strategies import EXPRS, FILES, commented

from fxrules.dsl import ast
from fxrules.dsl.formatter import format_expr, format_file
from fxrules.dsl.parser import parse, parse_expr, parse_text, read
from fxrules.dsl.source import Source
from fxrules.dsl.tokens import scan

CASES = Path(__file__).parent / "cases"


def comments_of(text: str) -> list[str]:
    return [comment.text for comment in scan(Source("test", text))[1]]


@given(EXPRS)
@settings(deadline=None)
def test_an_expression_comes_back(expr: ast.Expr) -> None:
    text = format_expr(expr)
    again = parse_expr(text)
    assert again == expr
    assert repr(again) == repr(expr)  # 1 and 1.0 are equal and not the same
    assert format_expr(again) == text


@given(FILES)
@settings(max_examples=150, deadline=None)
def test_a_file_comes_back(file: ast.File) -> None:
    text = format_file(file)
    again = parse_text(text)
    assert again == file
    assert format_file(again) == text


@given(commented())
@settings(max_examples=150, deadline=None)
def test_comments_of_a_tree_come_back(file: ast.File) -> None:
    text = format_file(file)
    again = parse_text(text)
    assert again == file
    assert format_file(again) == text
    assert sorted(comments_of(text)) == sorted(_comments_in(file))


def _comments_in(node: object) -> list[str]:
    """All comments that a tree holds."""
    if isinstance(node, tuple):
        return [comment for item in node for comment in _comments_in(item)]
    found: list[str] = []
    for name in getattr(node, "__slots__", ()):
        value: Any = getattr(node, name, None)
        if name in ("comments", "closing_comments"):
            found += [comment for comment in value if comment]
        elif name == "trailing":
            found += [value] if value else []
        elif name in ("statements", "clauses", "steps", "body", "expected", "assign", "assigns"):
            found += _comments_in(value)
    return found


@given(FILES, st.data())
@settings(max_examples=150, deadline=None)
def test_comments_anywhere_in_a_text_are_kept_in_order(file: ast.File, data: st.DataObject) -> None:
    text = format_file(file)
    tokens = scan(Source("test", text))[0]
    places = sorted(data.draw(st.sets(st.integers(0, len(tokens)), max_size=6)))
    ends = [0, *(token.end for token in tokens)]
    pieces, start = [], 0
    for number, place in enumerate(places):
        pieces += [text[start : ends[place]], f" # comment {number}\n"]
        start = ends[place]
    file_with = parse_text("".join([*pieces, text[start:]]))
    assert file_with == file
    formatted = format_file(file_with)
    assert comments_of(formatted) == [f"# comment {number}" for number in range(len(places))]
    assert parse_text(formatted) == file
    assert format_file(parse_text(formatted)) == formatted


def test_north_star_is_laid_out_as_its_golden_text() -> None:
    file, problems = parse(read(CASES / "north_star.rules"))
    assert problems == ()
    assert format_file(file) == (CASES / "north_star_formatted.rules").read_text()


EXPRESSIONS = [
    # (given, canonical)
    ("((a)+(b))*c", "(a + b) * c"),
    ("(a+b)+c", "a + b + c"),
    ("a+(b+c)", "a + (b + c)"),
    ("a-(b-c)", "a - (b - c)"),
    ("-(x**2)", "-x ** 2"),
    ("(-x)**2", "(-x) ** 2"),
    ("2**-1", "2 ** -1"),
    ("not (a and b) or c", "not (a and b) or c"),
    ("(a or b) as n", "(a or b) as n"),
    ("a or (b as n)", "a or b as n"),
    ("a if (b if c else d) else e", "a if (b if c else d) else e"),
    ("x[0:n, ..., :, 1::2, D//2:]", "x[0:n, ..., :, 1::2, D // 2 :]"),
    ("f(x,y=1,*z,**c)", "f(x, y=1, *z, **c)"),
    ("(x,)", "(x,)"),
    ("(1).real", "(1).real"),
    ("(x?)?", "(x?)?"),
    ("x? ?? y", "x? ?? y"),
    ("0.0005", "5e-4"),
    ("0.8~0.001", "0.8~1e-3"),
    ("1000000.0", "1e6"),
    ("100.", "100.0"),
    (r"'it\'s \"\x41\"'", r'"it' + r"'s \"A\"" + '"'),
    ("a not in b is not None", "a not in b is not None"),
    ("[f(x) for x in xs if x]", "[f(x) for x in xs if x]"),
    ("[f(x) for x in (a if b else c)]", "[f(x) for x in (a if b else c)]"),
    ("{1:x,'a':y}", '{1: x, "a": y}'),
]


@pytest.mark.parametrize(("given_text", "canonical"), EXPRESSIONS)
def test_parentheses_only_where_precedence_needs_them(given_text: str, canonical: str) -> None:
    assert format_expr(parse_expr(given_text)) == canonical


def test_lines_stay_within_100_columns() -> None:
    call = ", ".join(f"argument_{i}=value_{i}" for i in range(12))
    total = " + ".join(f"some_long_name_{i} * other_{i}" for i in range(12))
    text = format_file(parse_text(f"rule r(x: Tensor) {{ match f({call}) rewrite {total} }}"))
    assert max(map(len, text.splitlines())) <= 100
    assert text == (
        "rule r(x: Tensor) {\n"
        "  match    f(\n"
        "      argument_0=value_0, argument_1=value_1, argument_2=value_2, argument_3=value_3,\n"
        "      argument_4=value_4, argument_5=value_5, argument_6=value_6, argument_7=value_7,\n"
        "      argument_8=value_8, argument_9=value_9, argument_10=value_10, argument_11=value_11\n"
        "  )\n"
        "  rewrite  some_long_name_0 * other_0 + some_long_name_1 * other_1 + some_long_name_2 * other_2\n"
        "           + some_long_name_3 * other_3 + some_long_name_4 * other_4 + some_long_name_5 * other_5\n"
        "           + some_long_name_6 * other_6 + some_long_name_7 * other_7 + some_long_name_8 * other_8\n"
        "           + some_long_name_9 * other_9 + some_long_name_10 * other_10\n"
        "           + some_long_name_11 * other_11\n"
        "}\n"
    )


COMMENTED = '''\
# licence

# about the file
"""Doc."""  # behind the doc
const A = 1  # one
# above r
rule r( # in the head
    x: Tensor) { # behind the brace
  # above match
  match { # in the block
    y = f(x, # in the call
          1) # behind y
    # above return
    return y # behind return
    # before the brace
  } # behind match
  where x # in where
    == 1
  # last in r
} # behind r
# last in file
'''


def test_every_place_of_a_comment() -> None:
    text = format_file(parse_text(COMMENTED))
    assert comments_of(text) == comments_of(COMMENTED)
    assert (
        text
        == '''\
# licence

# about the file
"""Doc."""

# behind the doc
const A = 1  # one

# above r
# in the head
rule r(x: Tensor) {
  # behind the brace
  # above match
  match {
    # in the block
    # in the call
    y = f(x, 1)  # behind y
    # above return
    return y  # behind return
    # before the brace
  }  # behind match
  # in where
  where    x == 1
  # last in r
}  # behind r

# last in file
'''
    )
