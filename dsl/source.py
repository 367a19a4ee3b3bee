"""Where text came from: sources, spans and located problems.

Everything a user is told about a `.rules` file goes through `Problem`: it says
what was found, what was expected, and points at the place with carets.
"""

from __future__ import annotations

from bisect import bisect_right
from functools import cached_property

from attrs import field, frozen

MOST_PROBLEMS = 200
"""More problems than this are not looked for in one file."""


@frozen(slots=False)
class Source:
    """A text and the name under which a user knows it (a path, or ``<text>``)."""

    name: str
    text: str = field(repr=False)

    @cached_property
    def _line_starts(self) -> list[int]:
        starts = [0]
        starts.extend(i + 1 for i, char in enumerate(self.text) if char == "\n")
        return starts

    def line_column(self, offset: int) -> tuple[int, int]:
        """The 1-based line and column of a character offset.

        >>> Source("demo.rules", "ab\\ncd").line_column(4)
        (2, 2)
        """
        line = bisect_right(self._line_starts, offset)
        return line, offset - self._line_starts[line - 1] + 1

    def line_text(self, line: int) -> str:
        """The text of a 1-based line, without its newline."""
        start = self._line_starts[line - 1]
        end = self.text.find("\n", start)
        return self.text[start : len(self.text) if end < 0 else end].rstrip("\r")


@frozen
class Span:
    """A half-open range of characters ``[start, end)`` of a source."""

    source: Source = field(repr=False)
    start: int
    end: int

    def __str__(self) -> str:
        line, column = self.source.line_column(self.start)
        return f"{self.source.name}:{line}:{column}"


@frozen
class Problem:
    """One thing wrong with an input: its place, a stable code, what, and a hint."""

    span: Span | None
    code: str
    message: str
    hint: str = ""

    def __str__(self) -> str:
        return render(self)


class FxrulesError(Exception):
    """The one exception fxrules raises for bad input; ``problems`` holds the data."""

    def __init__(self, *problems: Problem) -> None:
        self.problems = problems
        super().__init__("\n".join(render(problem) for problem in problems))


def render(problem: Problem) -> str:
    """The problem as text: ``file:line:col: message``, the line, carets, the hint."""
    hint = f"\n  hint: {problem.hint}" if problem.hint else ""
    if problem.span is None:
        return f"{problem.message} [{problem.code}]{hint}"
    source, start, end = problem.span.source, problem.span.start, problem.span.end
    line, column = source.line_column(start)
    text = source.line_text(line)
    shown, offset = _window(text, column - 1)
    width = max(1, min(end - start, len(text) - column + 1, len(shown) - offset))
    prefix = "".join("\t" if char == "\t" else " " for char in shown[:offset])
    return f"{problem.span}: {problem.message} [{problem.code}]\n    {shown}\n    {prefix}{'^' * width}{hint}"


def _window(text: str, offset: int, width: int = 120) -> tuple[str, int]:
    """The part of a long line around ``offset``, so that carets stay on screen."""
    if len(text) <= width:
        return text, offset
    start = max(0, offset - width // 2)
    return text[start : start + width], offset - start
