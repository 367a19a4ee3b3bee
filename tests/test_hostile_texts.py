"""Texts made to hurt, and bytes that are no text: limits, not crashes."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fxrules.dsl.formatter import format_file
from fxrules.dsl.parser import MAX_BYTES, parse, parse_text, read
from fxrules.dsl.source import MOST_PROBLEMS, FxrulesError, Problem, Source
from fxrules.dsl.trees import MAX_NESTING


def problems_of(text: str) -> list[tuple[str, str]]:
    """Place and code of each problem."""
    return [(f"{place(problem)}", problem.code) for problem in parse(Source("case", text))[1]]


def place(problem: Problem) -> str:
    assert problem.span is not None
    return "{}:{}".format(*problem.span.source.line_column(problem.span.start))


# ------------------------------------------------------------------ limits
DEEP = 10_000
HURTING = {
    "parentheses": ("(" * DEEP + "x" + ")" * DEEP, "too-deep"),
    "open parentheses": ("(" * DEEP, "too-deep"),
    "brackets": ("[" * DEEP + "x" + "]" * DEEP, "too-deep"),
    "calls": ("f(" * DEEP + "x" + ")" * DEEP, "too-deep"),
    "signs": ("-" * DEEP + "x", "too-deep"),
    "negations": ("not " * DEEP + "x", "too-deep"),
    "powers": ("x ** " * DEEP + "x", "too-deep"),
    "sums": ("x + " * DEEP + "x", "too-deep"),
    "conditions": ("x if x else " * DEEP + "x", "too-deep"),
    "attributes": ("x" + ".a" * DEEP, "too-deep"),
    "indices": ("x" + "[0]" * DEEP, "too-deep"),
    "question marks": ("x" + " ?" * DEEP, "too-deep"),
    "names": ("x" + " as y" * DEEP, "too-deep"),
    "closers": (")" * DEEP, "unbalanced"),
    "a long number": ("9" * DEEP, "bad-number"),
}


@pytest.mark.parametrize(("expr", "code"), HURTING.values(), ids=HURTING.keys())
def test_a_text_made_to_overflow_is_one_located_problem(expr: str, code: str) -> None:
    problems = problems_of(f"rule r(x: Tensor) {{\n  match {expr}\n}}")
    assert [found for _, found in problems] == [code]
    assert problems[0][0].startswith("2:")


def test_long_lists_are_no_nesting() -> None:
    for text in ("x or " * DEEP + "x", "x and " * DEEP + "x", "f(" + "x, " * DEEP + "x)", "x < " * DEEP + "x"):
        assert problems_of(f"rule r(x: Tensor) {{ where {text} }}") == []


def test_nesting_up_to_the_limit_can_be_read_written_and_compared() -> None:
    depth = MAX_NESTING - 10
    for opener, closer in (("f(", ")"), ("-", ""), ("x + ", ""), ("(1 + ", ")"), ("[", "]"), ("x if x else ", "")):
        text = f"rule r(x: Tensor) {{ match {opener * depth}x{closer * depth} }}"
        file, problems = parse(Source("deep", text))
        assert problems == ()
        again = parse_text(format_file(file))
        assert again == file
        assert hash(again.statements) == hash(file.statements)


def test_a_file_of_5_megabytes_is_refused_at_once() -> None:
    file, (problem,) = parse(Source("huge.rules", "rule r(x: Tensor) { match x + 0 rewrite x }\n" * 120_000))
    assert file.statements == ()
    assert (problem.code, str(problem.span)) == ("too-large", "huge.rules:1:1")


def test_problems_are_not_looked_for_without_end() -> None:
    assert len(problems_of("rule r(x: Tensor) { match x + }\n" * 5000)) == MOST_PROBLEMS


# ------------------------------------------------------------ bytes and files
def test_reading_a_file(tmp_path: Path) -> None:
    path = tmp_path / "one.rules"
    path.write_bytes(b"\xef\xbb\xbf# caf\xc3\xa9\r\nconst A = 1\r\n")
    source = read(path)
    assert (source.name, source.text) == (str(path), "# café\nconst A = 1\n")
    assert parse(source)[1] == ()


def test_bytes_that_are_not_utf8_are_located(tmp_path: Path) -> None:
    path = tmp_path / "latin.rules"
    path.write_bytes(b"# one\r\nconst \xe9 = 1\n")
    with pytest.raises(FxrulesError) as caught:
        read(path)
    (problem,) = caught.value.problems
    assert (place(problem), problem.code) == ("2:7", "not-utf8")
    assert "byte 0xe9" in problem.message


def test_a_file_that_is_too_large_is_not_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "huge.rules"
    path.write_bytes(b"# " + b"x" * 5_000_000)
    with pytest.raises(FxrulesError) as caught:
        read(path)
    assert [(str(problem.span), problem.code) for problem in caught.value.problems] == [(f"{path}:1:1", "too-large")]
    path.write_bytes(b"#" * MAX_BYTES)
    assert len(read(path).text) == MAX_BYTES


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    for path in (tmp_path / "none.rules", tmp_path):
        with pytest.raises(FxrulesError) as caught:
            read(path)
        (problem,) = caught.value.problems
        assert problem.code == "unreadable" and str(path) in problem.message


def test_texts_with_a_mark_carriage_returns_and_nul() -> None:
    text = '"""One.\r\n   Two."""\r\nrule r(x: Tensor) {\r\n  match x + 0  # zero\r\n}\r\n'
    file, problems = parse(Source("dos", "\ufeff" + text))
    assert problems == ()
    assert file == parse_text(text.replace("\r\n", "\n"))
    assert file.doc == "One.\nTwo."
    assert format_file(file).count("\r") == 0
    assert problems_of("rule r(x: Tensor) {\n  match x \0+ 0\n}") == [("2:11", "bad-character")]


def test_an_empty_file_is_an_empty_tree() -> None:
    for text in ("", " \n", "# only a comment\n"):
        file, problems = parse(Source("empty", text))
        assert (file.statements, problems) == ((), ())
    assert file.closing_comments == ("# only a comment",)


# -------------------------------------------------------------- any text at all
_WORDS = """rule match where rewrite let example numerics { } ( ) [ ] , . : = == => + - * ** / ? ?? | ~ $out x y relu
1 0.5 "s" \'\'\' " # and or not if else for in is as through return const import from pattern family opset pipeline once
fixpoint ... .* ! @"""


@given(st.lists(st.sampled_from(_WORDS.split()), max_size=40).map(" ".join) | st.text(max_size=60))
@settings(max_examples=300, deadline=None)
def test_any_text_gives_a_tree_or_located_problems(text: str) -> None:
    file, problems = parse(Source("any", text))
    assert all(problem.span is not None and str(problem).startswith("any:") for problem in problems)
    if not problems:
        assert parse_text(format_file(file)) == file
