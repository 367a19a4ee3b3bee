"""Tables of rule libraries and their rules."""

from __future__ import annotations

from attrs import frozen

from ...dsl import ast
from ..installed import installed_libraries
from ..libraries import load
from ..ruleset import Rule


@frozen
class Table:
    """A heading for each column, and rows of as many cells."""

    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def library_table() -> Table:
    """The installed libraries: name, how many rules, where from."""
    rows = [(name, str(len(load(name))), str(library.root)) for name, library in installed_libraries().items()]
    return Table(("library", "rules", "folder"), tuple(rows))


def rule_table(source: str) -> Table:
    """The rules of a library or file: name, contract, tags, first line of the doc."""
    rows = [(rule.name, _numerics(rule), ", ".join(_tags(rule)), _headline(rule)) for rule in load(source)]
    return Table(("rule", "numerics", "tags", "what it does"), tuple(rows))


def _numerics(rule: Rule) -> str:
    return next((clause.level for clause in rule.ast.clauses if isinstance(clause, ast.Numerics)), "rounding")


def _tags(rule: Rule) -> tuple[str, ...]:
    return tuple(name for clause in rule.ast.clauses if isinstance(clause, ast.Tags) for name in clause.names)


def _headline(rule: Rule) -> str:
    """The first sentence of the doc."""
    text = " ".join((rule.ast.doc or "").split())
    return text.partition(". ")[0].removesuffix(".")
