"""From the selectors of ``ruleset`` and ``pipeline`` statements to rules."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from graphlib import TopologicalSorter

from attrs import field, frozen

from ..dsl import ast
from ..dsl.phrases import format_step
from .ruleset import Pipeline, Rule, Scope, Selection, Step


@frozen(eq=False)
class FileNames:
    """What a file calls its rules (a template names all its rules), its rule sets, and the files that it imports."""

    rules: Mapping[str, tuple[Rule, ...]]
    sets: Mapping[str, tuple[Rule, ...]] = field(factory=dict)
    imports: Mapping[str, FileNames] = field(factory=dict)

    @property
    def all_rules(self) -> tuple[Rule, ...]:
        """Every rule of the file, in written order."""
        return tuple(rule for rules in self.rules.values() for rule in rules)


def file_names(file: ast.File, rules: Mapping[str, tuple[Rule, ...]], imports: Mapping[str, FileNames]) -> FileNames:
    """The names of a checked file, its rule sets resolved."""
    written = {one.name: one for one in file.statements if isinstance(one, ast.Ruleset)}
    needed = {name: [one.name for one in each.selectors if one.name in written] for name, each in written.items()}
    sets: dict[str, tuple[Rule, ...]] = {}
    names = FileNames(rules, sets, imports)
    for name in TopologicalSorter(needed).static_order():  # a set stands behind those that it holds
        sets[name] = select(written[name].selectors, names)
    return names


def select(selectors: Iterable[ast.Selector], names: FileNames) -> tuple[Rule, ...]:
    """The rules that selectors name, in the order written, each once; what any ``-`` names is left out."""
    found: dict[Rule, None] = {}
    gone: set[Rule] = set()
    for selector in selectors:
        rules = _named(selector, names)
        if selector.minus:
            gone.update(rules)
        else:
            found.update(dict.fromkeys(rules))
    return tuple(rule for rule in found if rule not in gone)


def _named(selector: ast.Selector, names: FileNames) -> tuple[Rule, ...]:
    if selector.wildcard:
        return names.imports[selector.name].all_rules
    alias, dot, rest = selector.name.partition(".")
    home, name = (names.imports[alias], rest) if dot else (names, selector.name)
    return home.rules[name] if name in home.rules else home.sets[name]


def selections_of(file: ast.File, names: FileNames, library: str, *, imported: bool) -> tuple[Selection, ...]:
    """The rule sets of a file, under their qualified names."""
    written = (one for one in file.statements if isinstance(one, ast.Ruleset))
    return tuple(Selection(f"{library}.{one.name}", one.span, names.sets[one.name], imported) for one in written)


def pipelines_of(
    file: ast.File, names: FileNames, library: str, scope: Scope, *, imported: bool
) -> tuple[Pipeline, ...]:
    """The pipelines of a file, under their qualified names."""
    return tuple(
        Pipeline(f"{library}.{one.name}", one.span, _steps(one, names), scope, imported)
        for one in file.statements
        if isinstance(one, ast.Pipeline)
    )


def _steps(pipeline: ast.Pipeline, names: FileNames) -> tuple[Step, ...]:
    return tuple(Step(one, select(one.selectors, names), format_step(one)) for one in pipeline.steps)
