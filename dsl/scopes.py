"""The names that a file declares, and what they mean to the checker."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from attrs import field, frozen

from . import ast
from .signatures import OpParam, OpSignature, OpTable
from .vocabulary import CONSTANTS, DTYPE_SETS, FORMATS


@frozen
class ImportedNames:
    """What another file offers under its alias."""

    rules: frozenset[str] = frozenset()
    rulesets: frozenset[str] = frozenset()
    consts: frozenset[str] = frozenset()
    patterns: Mapping[str, ast.Pattern] = field(factory=dict)
    opsets: Mapping[str, tuple[str, ...]] = field(factory=dict)
    families: Mapping[str, OpSignature] = field(factory=dict)

    @property
    def all(self) -> frozenset[str]:
        """Every name."""
        return self.rules | self.rulesets | self.consts | {*self.patterns, *self.opsets, *self.families}


@frozen
class FileScope:
    """All that an expression of a file may name outside its rule.

    ``ops`` holds the file's own families too; ``imports`` maps an alias to its names,
    or to None where they are not known.
    """

    ops: OpTable
    own: ImportedNames
    helpers: frozenset[str] = frozenset()
    imports: Mapping[str, ImportedNames | None] = field(factory=dict)


def names_of(file: ast.File) -> ImportedNames:
    """What a file offers to those that import it."""
    statements = file.statements
    return ImportedNames(
        frozenset(one.name for one in statements if isinstance(one, ast.Rule)),
        frozenset(one.name for one in statements if isinstance(one, ast.Ruleset)),
        frozenset(one.name for one in statements if isinstance(one, ast.Const)),
        {one.name: one for one in statements if isinstance(one, ast.Pattern)},
        {one.name: one.members for one in statements if isinstance(one, ast.Opset)},
        {one.name: family_signature(one) for one in statements if isinstance(one, ast.Family)},
    )


def imports_of(file: ast.File) -> tuple[ast.Import, ...]:
    """The `.rules` files and libraries that a file imports; their cycles are the loader's to find."""
    return tuple(one for one in file.statements if isinstance(one, ast.Import))


def scope_of(file: ast.File, ops: OpTable, imports: Mapping[str, ImportedNames]) -> FileScope:
    """The scope of a file: the ops of the table and of its imports, its own names, its helpers."""
    own = names_of(file)
    helpers = (one.names for one in file.statements if isinstance(one, ast.FromImport))
    families = dict(ops.families)
    for names in imports.values():
        families |= names.families
    table = OpTable({**families, **own.families}, ops.targets, ops.packages, ops.modules)
    aliases = {one.alias: imports.get(one.alias) for one in imports_of(file)}
    return FileScope(table, own, frozenset(name for names in helpers for name in names), aliases)


def family_signature(family: ast.Family) -> OpSignature:
    """The signature that a ``family`` statement declares."""
    params = (
        OpParam(one.name, one.default is None and not one.optional, _takes_none(one), varargs=one.star)
        for one in family.params
    )
    return OpSignature(tuple(params), "commutative" in family.effects)


def _takes_none(param: ast.Param) -> bool:
    return param.optional or param.default == ast.Name("None") or bool(param.type and param.type.optional)


def find_pattern(scope: FileScope, name: str) -> ast.Pattern | None:
    """The named pattern behind ``gelu_like`` or ``shape.noop``."""
    alias, dot, rest = name.partition(".")
    home = scope.imports.get(alias) if dot else scope.own
    return home.patterns.get(rest if dot else name) if home else None


def find_opset(scope: FileScope, name: str) -> tuple[str, ...] | None:
    """The members of the opset behind ``pointwise`` or ``shape.resize``."""
    alias, dot, rest = name.partition(".")
    home = scope.imports.get(alias) if dot else scope.own
    return home.opsets.get(rest if dot else name) if home else None


def is_constant(scope: FileScope, name: str) -> bool:
    """Whether a plain name is a constant of the language or the file."""
    return name in CONSTANTS or name in DTYPE_SETS or name in FORMATS or name in scope.own.consts


def op_names(scope: FileScope) -> Iterable[str]:
    """Every bare name that can be called in graph code."""
    return [*scope.ops.families, *scope.own.patterns]
