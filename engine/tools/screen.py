"""What the command line prints: results on stdout, everything else on stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, redirect_stdout
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from ...dsl.source import Problem, render

if TYPE_CHECKING:
    from .catalogue import Table
    from .running import Outcome


def console(to_stderr: bool = False) -> Console:
    """A console that leaves lines as long as they are and colours nothing by itself."""
    return Console(file=sys.stderr if to_stderr else sys.stdout, soft_wrap=True, highlight=False, markup=False)


def show_line(text: str) -> None:
    """One line of the result."""
    console().print(text)


def show_summary(text: str) -> None:
    """A closing line for a person, on stderr."""
    console(to_stderr=True).print(text, style="dim")


def show_problems(problems: Iterable[Problem], to_stderr: bool = False) -> None:
    """Problems as ``file:line:col: message``, the line, carets and the hint."""
    out = console(to_stderr)
    for problem in problems:
        out.print(_coloured(problem))


def _coloured(problem: Problem) -> Text:
    text = Text()
    for number, line in enumerate(render(problem).splitlines()):
        if number == 0:
            style = "bold"
        elif line.strip() and not line.strip(" \t^"):
            style = "red"
        else:
            style = "cyan" if line.startswith("  hint:") else ""
        text.append(f"{line}\n", style)
    text.rstrip()
    return text


def show_internal_error(trace: str) -> None:
    """The traceback, and that it is our fault."""
    out = console(to_stderr=True)
    out.print(trace.rstrip())
    out.print("internal error: this is a bug in fxrules, please report it with the lines above", style="bold red")


def show_table(table: Table) -> None:
    """A table that fits the terminal; plain columns where the output is no terminal."""
    out = console()
    if not out.is_terminal:
        widths = [max(map(len, column)) for column in zip(table.headings, *table.rows, strict=True)]
        for row in table.rows:
            out.print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
        return
    shown = RichTable(box=None, pad_edge=False, header_style="bold")
    for heading in table.headings:
        shown.add_column(heading, overflow="fold")
    for row in table.rows:
        shown.add_row(*row)
    out.print(shown, soft_wrap=False)


@contextmanager
def stdout_for_json(wanted: bool) -> Iterator[None]:
    """Keep what a model prints out of the JSON: it goes to stderr."""
    if not wanted:
        yield
        return
    with redirect_stdout(sys.stderr):
        yield


def show_outcome(outcome: Outcome, *, as_json: bool, with_diff: bool) -> None:
    """The result of ``fxrules run``."""
    out = console()
    if as_json:
        out.print(json.dumps(outcome.to_dict(), indent=2))
        return
    out.print(str(outcome.report))
    if with_diff:
        for line in outcome.difference.splitlines() or ["the code stays as it is"]:
            out.print(line, style=_DIFF_STYLES.get(line[:1], ""))
    if outcome.comparison is None:
        out.print("outputs: not compared, the model came without example inputs")
    else:
        out.print(f"outputs: {outcome.comparison}", style="" if outcome.ok else "bold red")
    if outcome.saved:
        out.print(f"saved: {outcome.saved}")


_DIFF_STYLES = {"+": "green", "-": "red", "@": "cyan"}
