"""Places in a text, and how problems look when printed."""

from __future__ import annotations

from fxrules.dsl.nearest import did_you_mean, did_you_mean_target, nearest
from fxrules.dsl.source import FxrulesError, Problem, Source, Span, render

SOURCE = Source("demo.rules", "first line\n\tsecond\r\nthird")


def test_lines_and_columns() -> None:
    places = [SOURCE.line_column(offset) for offset in (0, 9, 10, 11, 12, 20, len(SOURCE.text))]
    assert places == [(1, 1), (1, 10), (1, 11), (2, 1), (2, 2), (3, 1), (3, 6)]
    assert [SOURCE.line_text(line) for line in (1, 2, 3)] == ["first line", "\tsecond", "third"]


def test_a_problem_shows_its_line_carets_and_hint() -> None:
    problem = Problem(Span(SOURCE, 6, 10), "some-code", "`line` is wrong", "try `word`")
    assert str(problem) == (
        "demo.rules:1:7: `line` is wrong [some-code]\n    first line\n          ^^^^\n  hint: try `word`"
    )


def test_carets_stand_under_tabs_and_stay_on_their_line() -> None:
    assert render(Problem(Span(SOURCE, 12, 25), "c", "m")) == "demo.rules:2:2: m [c]\n    \tsecond\n    \t^^^^^^"
    assert render(Problem(Span(SOURCE, 25, 25), "c", "m")).splitlines()[-1] == "         ^"


def test_a_long_line_is_shown_around_the_place() -> None:
    source = Source("long", "a" * 5000 + "HERE" + "b" * 5000)
    first, line, carets = render(Problem(Span(source, 5000, 5004), "c", "m")).splitlines()
    assert first == "long:1:5001: m [c]"
    assert len(line) <= 130
    start = carets.index("^")
    assert line[start : start + carets.count("^")] == "HERE"


def test_a_problem_without_a_place() -> None:
    assert str(Problem(None, "no-file", "a.rules: no such file", "look again")) == (
        "a.rules: no such file [no-file]\n  hint: look again"
    )


def test_the_error_holds_its_problems() -> None:
    problems = (Problem(None, "a", "one"), Problem(None, "b", "two"))
    error = FxrulesError(*problems)
    assert error.problems == problems
    assert str(error) == "one [a]\ntwo [b]"


def test_nearest_names() -> None:
    assert nearest("sofmax", ["max", "softmax", "tanh"]) == ("softmax",)
    assert nearest("reul", ["relu", "real", "add"]) == ("real", "relu")
    assert nearest("Tesnor", ["tensor", "Tensor"]) == ("Tensor", "tensor")
    assert nearest("mean", ["expand", "tanh"]) == ()
    assert did_you_mean("xyz", ["softmax"]) == ""
    assert did_you_mean_target("torch.relo", ["torch.relu", "aten.relo"]) == "did you mean `torch.relu`?"
