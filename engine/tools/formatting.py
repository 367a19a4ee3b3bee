"""Formatting of rule files on disk."""

from __future__ import annotations

from pathlib import Path

from attrs import frozen

from ...dsl.formatter import format_file
from ...dsl.parser import parse, read
from ...dsl.source import FxrulesError, Problem


@frozen
class Formatted:
    """One file's canonical text, or what keeps it from being parsed."""

    path: Path
    text: str
    changes: bool
    problems: tuple[Problem, ...] = ()


def format_rules(path: Path) -> Formatted:
    """The canonical text of a rule file; the file itself is left as it is."""
    try:
        tree, problems = parse(read(path))
    except FxrulesError as error:
        return Formatted(path, "", False, error.problems)
    if problems:
        return Formatted(path, "", False, problems)
    text = format_file(tree)
    return Formatted(path, text, text.encode() != path.read_bytes())
