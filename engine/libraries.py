"""Find and load rule libraries: files, texts and installed libraries become a `RuleSet`.

Reading a file runs no code. Python helpers are imported only from modules that the
caller trusts by name, or that ship in the package of an installed library.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from attrs import define, evolve, field, frozen

from ..dsl import ast
from ..dsl.checker import check, names_of
from ..dsl.nearest import did_you_mean
from ..dsl.parser import parse, read
from ..dsl.source import FxrulesError, Problem, Source, Span
from . import families
from .constants import fold
from .families import FamilyTable, load_table
from .installed import Library, installed_libraries
from .matching import compile_rule
from .optable import op_table
from .registered import with_registered
from .ruleset import Pipeline, Rule, RuleSet, Scope, Selection
from .selectors import FileNames, file_names, pipelines_of, selections_of


def load(*sources: str | Path, text: str | None = None, trust: Iterable[str] = ()) -> RuleSet:
    """Load rules from installed libraries (``"std"``), parts of them (``"std.shape"``), files or folders.

    ``text`` is the text of a rule file itself. ``trust`` names the Python modules from
    which helpers may be imported. Raises FxrulesError with every problem found.

    >>> rules = load(text="rule twice(x: float[...]) { match neg(neg(x)) rewrite x changes aliasing, strides }")
    >>> [rule.name for rule in rules]
    ['text.twice']
    """
    loader = _Loader(frozenset(trust))
    items = [item for source in sources for item in loader.find(source)]
    if text is not None:
        items.append(_Item(Source("<text>", text), "text", None))
    loader.known |= {item.path: item for item in reversed(items) if item.path}
    files = [loader.load(item, None) for item in items]
    rules = tuple(dict.fromkeys(rule for file in files for rule in file.names.all_rules))
    homes = [(file, file not in files) for file in dict.fromkeys([*files, *loader.loaded.values()])]
    selections = [one for file, imported in homes for one in file.selections(imported)]
    pipelines = [one for file, imported in homes for one in file.pipelines(imported)]
    named: list[Selection | Pipeline] = [*selections, *pipelines]
    selected = (rule for one in named if not one.imported for rule in one.rules)
    for rule in (*rules, *selected):
        compile_rule(rule)  # what cannot run is said now
    return RuleSet(rules, tuple(selections), tuple(pipelines))


@frozen
class _Item:
    """One file to load: its source, the name its rules get in front, and the library it belongs to."""

    source: Source
    name: str
    library: Library | None
    path: Path | None = None


@frozen(eq=False)
class _Loaded:
    tree: ast.File
    scope: Scope
    item: _Item
    names: FileNames

    def selections(self, imported: bool) -> tuple[Selection, ...]:
        return selections_of(self.tree, self.names, self.item.name, imported=imported)

    def pipelines(self, imported: bool) -> tuple[Pipeline, ...]:
        return pipelines_of(self.tree, self.names, self.item.name, self.scope, imported=imported)


@define
class _Loader:
    """Files loaded so far in one `load`, and those being loaded, to find cycles.

    ``known`` has the files that the caller named: imported, they keep the names that they have there.
    """

    trust: frozenset[str]
    known: dict[Path, _Item] = field(factory=dict)
    loaded: dict[Path, _Loaded] = field(factory=dict)
    pending: list[Path] = field(factory=list)
    libraries: Mapping[str, Library] = field(factory=installed_libraries)

    def find(self, source: str | Path) -> list[_Item]:
        """The files a source names."""
        path = Path(source)
        if isinstance(source, str) and path.suffix != ".rules" and "/" not in source and not path.is_dir():
            return self._installed(source, None)
        if path.is_dir():
            found = sorted(path.rglob("*.rules"))
            if not found:
                raise FxrulesError(Problem(None, "no-rules", f"{path}: the folder has no .rules files"))
            return [self._file(one, _stem(one, path)) for one in found]
        return [self._file(path, path.stem)]

    def _installed(self, name: str, span: Span | None) -> list[_Item]:
        head, _, part = name.partition(".")
        library = self.libraries.get(head)
        if library is None:
            hint = (
                did_you_mean(head, self.libraries) or f"installed: {', '.join(self.libraries)}; a path ends in .rules"
            )
            raise FxrulesError(Problem(span, "unknown-library", f"`{head}`: no such rule library", hint))
        items = [self._file(path, library.part(path), library) for path in library.files]
        chosen = [item for item in items if not part or item.name == name or item.name.startswith(name + ".")]
        if not chosen:
            hint = did_you_mean(name, [item.name for item in items])
            raise FxrulesError(Problem(span, "unknown-library", f"`{name}`: library `{head}` has no such part", hint))
        return chosen

    def _file(self, path: Path, name: str, library: Library | None = None) -> _Item:
        resolved = path.resolve()
        return self.known.get(resolved) or _Item(read(path), name, library, resolved)

    def load(self, item: _Item, span: Span | None) -> _Loaded:
        """Read, check and resolve one file and all it imports."""
        if item.path and item.path in self.loaded:
            return self.loaded[item.path]
        if item.path in self.pending:
            chain = " -> ".join(path.name for path in [*self.pending[self.pending.index(item.path) :], item.path])
            raise FxrulesError(Problem(span, "import-cycle", f"these files import each other: {chain}"))
        tree, problems = parse(item.source)
        if problems:
            raise FxrulesError(*problems)
        self.pending += [item.path] if item.path else []
        imports = {
            statement.alias: self._import(statement, item)
            for statement in tree.statements
            if isinstance(statement, ast.Import)
        }
        self.pending = self.pending[:-1] if item.path else self.pending
        scope = self._scope(tree, item, imports)
        rules: dict[str, tuple[Rule, ...]] = {}
        for one in tree.statements:
            if isinstance(one, ast.Rule):  # that two are called `_` is for the rule set to say
                rules[one.name] = rules.get(one.name, ()) + _expand(one, item.name, scope)
        names = file_names(tree, rules, {alias: file.names for alias, file in imports.items()})
        loaded = _Loaded(tree, scope, item, names)
        if item.path:
            self.loaded[item.path] = loaded
        return loaded

    def _import(self, statement: ast.Import, item: _Item) -> _Loaded:
        if not statement.is_path:
            found = self._installed(statement.target, statement.span)
            if len(found) != 1:
                names = ", ".join(one.name for one in found)
                hint = f"import one of {names}"
                message = f"`{statement.target}` is a whole library"
                raise FxrulesError(Problem(statement.span, "unknown-library", message, hint))
            return self.load(found[0], statement.span)
        base = item.path.parent if item.path else Path()
        path = base / statement.target
        if not path.is_file():
            hint = did_you_mean(path.name, [one.name for one in path.parent.glob("*.rules")])
            raise FxrulesError(Problem(statement.span, "no-file", f"{path}: no such file", hint))
        return self.load(self._file(path, path.stem, item.library), statement.span)

    def _scope(self, tree: ast.File, item: _Item, imported: Mapping[str, _Loaded]) -> Scope:
        imports = {alias: loaded.scope for alias, loaded in imported.items()}
        table = _extended(tree, imports)
        names = {alias: names_of(loaded.tree) for alias, loaded in imported.items()}
        problems = check(tree, with_registered(op_table(table), tree), imports=names)
        if problems:
            raise FxrulesError(*problems)
        constants: dict[str, int | float] = {}
        patterns: dict[str, ast.Pattern] = {}
        opsets: dict[str, tuple[str, ...]] = {}
        helpers: dict[str, Callable[..., Any]] = {}
        for statement in tree.statements:
            match statement:
                case ast.Const(name, value):
                    number = fold(value, constants)
                    assert number is not None, "the checker accepts only constants that fold"
                    constants[name] = number
                case ast.Pattern(name):
                    patterns[name] = statement
                case ast.Opset(name, members):
                    opsets[name] = members
                case ast.FromImport():
                    helpers |= self._helpers(statement, item)
        return Scope(table, constants, patterns, opsets, {}, helpers, imports)

    def _helpers(self, statement: ast.FromImport, item: _Item) -> dict[str, Callable[..., Any]]:
        """Import helpers, if the module is trusted; nothing else ever imports Python code."""
        module = statement.module
        shipped = item.library is not None and (module + ".").startswith(item.library.package + ".")
        if module not in self.trust and not shipped:
            hint = f'if you trust it: load(..., trust=["{module}"]) or --trust {module}'
            message = f"helpers come from the Python module `{module}`, which is not trusted"
            raise FxrulesError(Problem(statement.span, "untrusted", message, hint))
        try:
            loaded = importlib.import_module(module)
        except ImportError as error:
            raise FxrulesError(Problem(statement.span, "no-module", f"cannot import `{module}`: {error}")) from error
        found = {}
        for name in statement.names:
            if not callable(getattr(loaded, name, None)):
                known = [known for known in vars(loaded) if not known.startswith("_")]
                message = f"module `{module}` has no function `{name}`"
                raise FxrulesError(Problem(statement.span, "no-helper", message, did_you_mean(name, known)))
            found[name] = getattr(loaded, name)
        return found


def _stem(path: Path, root: Path) -> str:
    return ".".join(path.relative_to(root).with_suffix("").parts)


def _extended(tree: ast.File, imports: Mapping[str, Scope]) -> FamilyTable:
    """The families of a file: the built-in ones, those of its imports, its own."""
    table = load_table()
    for scope in imports.values():
        table = evolve(table, own={**table.own, **scope.table.own})
    own = [statement for statement in tree.statements if isinstance(statement, ast.Family)]
    return families.extend(table, own) if own else table


def _expand(rule: ast.Rule, prefix: str, scope: Scope) -> tuple[Rule, ...]:
    """A rule, or one rule for each member of its template's op set."""
    name = f"{prefix}.{rule.name}"
    if rule.template is None:
        return (Rule(name, rule, scope),)
    variable, opset = rule.template
    return tuple(
        Rule(f"{name}[{one}]", rule, evolve(scope, ops={**scope.ops, variable: one})) for one in scope.opsets[opset]
    )
