"""Checking of rule files on disk, with all that they import; no torch."""

from __future__ import annotations

from pathlib import Path

from ...dsl import ast
from ...dsl.checker import check
from ...dsl.nearest import did_you_mean
from ...dsl.parser import parse, read
from ...dsl.scopes import ImportedNames, names_of
from ...dsl.source import FxrulesError, Problem
from ..installed import installed_libraries
from ..optable import op_table
from .rulefiles import missing_file


def check_file(path: Path) -> tuple[Problem, ...]:
    """All problems of one rule file: of its text, its names, and the files it imports."""
    try:
        tree, problems = parse(read(path))
    except FxrulesError as error:
        return error.problems
    imports: dict[str, ImportedNames] = {}
    found = list(problems)
    for statement in tree.statements:
        if isinstance(statement, ast.Import):
            try:
                imports[statement.alias] = _names(statement, path, (path.resolve(),))
            except FxrulesError as error:
                found += error.problems
    found += check(tree, op_table(), imports=imports, broken=problems)
    return tuple(sorted(found, key=lambda problem: problem.span.start if problem.span else 0))


def _names(statement: ast.Import, home: Path, chain: tuple[Path, ...]) -> ImportedNames:
    """What an import brings; ``chain`` are the files being read, each imported by the one before."""
    path = home.parent / statement.target if statement.is_path else _library_file(statement)
    if not path.is_file():
        problem = missing_file(path, "*.rules")
        raise FxrulesError(Problem(statement.span, problem.code, problem.message, problem.hint))
    if path.resolve() in chain:
        ring = " -> ".join(one.name for one in (*chain[chain.index(path.resolve()) :], path))
        raise FxrulesError(Problem(statement.span, "import-cycle", f"these files import each other: {ring}"))
    tree, problems = parse(read(path))
    if problems:
        raise FxrulesError(*problems)
    for inner in tree.statements:
        if isinstance(inner, ast.Import):
            _names(inner, path, (*chain, path.resolve()))
    return names_of(tree)


def _library_file(statement: ast.Import) -> Path:
    """The file behind ``import std.shape``."""
    libraries = installed_libraries()
    head, _, part = statement.target.partition(".")
    if head not in libraries:
        message = f"`{head}`: no such rule library"
        raise FxrulesError(Problem(statement.span, "unknown-library", message, did_you_mean(head, libraries)))
    root = libraries[head].root
    files = {".".join(one.relative_to(root).with_suffix("").parts): one for one in libraries[head].files}
    if part not in files:
        message = f"`{statement.target}`: library `{head}` has no such file"
        raise FxrulesError(Problem(statement.span, "unknown-library", message, did_you_mean(part, files)))
    return files[part]
