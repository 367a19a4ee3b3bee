"""The rule files that paths on the command line stand for."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ...dsl.nearest import nearest
from ...dsl.source import FxrulesError, Problem


def rule_files(paths: Iterable[Path]) -> tuple[Path, ...]:
    """Files as they are, folders as the ``.rules`` files below them, each once, in the order given.

    Raises FxrulesError for a path that does not exist and a folder without rule files.
    """
    found: dict[Path, None] = {}
    problems: list[Problem] = []
    for path in paths:
        if path.is_dir():
            inside = sorted(path.rglob("*.rules"))
            found.update(dict.fromkeys(inside))
            if not inside:
                problems.append(Problem(None, "no-rules", f"{path}: the folder has no .rules files"))
        elif path.exists():
            found[path] = None
        else:
            problems.append(missing_file(path, "*.rules"))
    if problems:
        raise FxrulesError(*problems)
    return tuple(found)


def missing_file(path: Path, pattern: str) -> Problem:
    """The problem of a file that does not exist, with the nearest name beside it."""
    folder = path.parent
    if not folder.is_dir():
        return Problem(None, "no-file", f"{path}: no such file, and no folder {folder}")
    # Common endings make all files look alike, so only the nearest is worth showing.
    near = nearest(path.name, [one.name for one in folder.glob(pattern)], 1)
    return Problem(None, "no-file", f"{path}: no such file", f"did you mean `{near[0]}`?" if near else "")
