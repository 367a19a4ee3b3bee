"""Programs in Markdown: a ``python`` or ``console`` block, and the ``text`` block below it that shows its output.

What changes from run to run is matched by kind: times (``12.3 ms``), floats with an exponent
(``1.2e-07``), and how near two outputs lie (``equal bits`` on one processor are rounding errors on
another). A ``...`` in the shown output stands for anything. The blocks of one document run in
order and share their names; ``<!-- not run -->`` above a block leaves it out.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import re
import shlex
from pathlib import Path
from typing import Any

from attrs import frozen

from fxrules.engine.tools.commands import main

_BLOCK = re.compile(
    r"(?P<skip><!-- not run -->\n)?^```(?P<kind>python|console)\n(?P<code>.*?)^```\n"
    r"(?:(?:[^\n`]*\n){0,3}?^```text\n(?P<output>.*?)^```$)?",
    re.MULTILINE | re.DOTALL,
)
_VOLATILE = (
    (re.compile(r"^(  ok .*\])  (equal bits|RMS error .*)$", re.MULTILINE), r"\1  NEAR"),
    (re.compile(r"\b\d+(\.\d+)? (ms|s)\b"), "TIME"),
    (re.compile(r"\b\d+(\.\d+)?e[-+]\d+\b"), "FLOAT"),
)


@frozen
class Program:
    """A block of a document that runs: its place, its kind, its text, and the output shown (None: any)."""

    place: str
    kind: str
    code: str
    output: str | None


def read_programs(path: Path) -> tuple[Program, ...]:
    """The programs of a Markdown file, in order."""
    text = path.read_text(encoding="utf-8")
    return tuple(
        Program(f"{path.name}:{text.count(chr(10), 0, found.start('code'))}", found["kind"], *_parts(found))
        for found in _BLOCK.finditer(text)
        if not found["skip"]
    )


def _parts(found: re.Match[str]) -> tuple[str, str | None]:
    """Code and output; a console block holds both."""
    if found["kind"] == "python":
        return found["code"], found["output"]
    command, _, output = found["code"].partition("\n")
    return command, output or None


def run_programs(programs: tuple[Program, ...]) -> list[str]:
    """Run the programs of one document and return what differs from the outputs shown."""
    names: dict[str, Any] = {"__name__": "__main__"}
    problems = []
    for program in programs:
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            if program.kind == "python":
                exec(compile(program.code, program.place, "exec"), names)
            else:
                _run_command(program)
        if program.output is not None and not is_same_output(program.output, printed.getvalue()):
            problems.append(f"{program.place} shows:\n{program.output}\nbut prints:\n{printed.getvalue()}")
    return problems


def _run_command(program: Program) -> None:
    words = shlex.split(program.code.removeprefix("$ "))
    assert words[0] == "fxrules", f"{program.place}: only fxrules commands can be shown, not {words[0]}"
    main(words[1:])


def is_same_output(shown: str, printed: str) -> bool:
    """Whether an output is the one shown, apart from what changes from run to run.

    >>> is_same_output("match 3.1 ms, ... rules", "match 12 ms, 4 of 5 rules")
    True
    >>> is_same_output("12 rewrites", "11 rewrites")
    False
    """
    options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    # A line of dots may stand for nothing at all, so the line breaks around it are not asked for.
    expected = re.sub(r"\n\.\.\.\n", "...", _settled(shown))
    return doctest.OutputChecker().check_output(expected, _settled(printed), options)


def _settled(text: str) -> str:
    for pattern, word in _VOLATILE:
        text = pattern.sub(word, text)
    return text.strip() + "\n"
