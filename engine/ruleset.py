"""Rules and rule sets: what a `.rules` file means once its names are resolved.

A `Rule` is a tree plus the `Scope` its names live in; a `RuleSet` is a sequence of
rules. Both are immutable and hold no state of any graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any, TypeVar, overload

from attrs import field, frozen

from ..dsl import ast as tree
from ..dsl.nearest import did_you_mean
from ..dsl.source import FxrulesError, Problem
from ..dsl.walking import names_in, walk
from .families import FamilyTable

_Clause = TypeVar("_Clause")


@frozen(eq=False, repr=False)
class Scope:
    """The names that stand outside a rule: constants, patterns, op sets, imports, helpers.

    ``ops`` maps a template variable to the family it stands for; ``imports`` maps the
    alias of an imported file to that file's scope.
    """

    table: FamilyTable
    constants: Mapping[str, int | float] = field(factory=dict)
    patterns: Mapping[str, tree.Pattern] = field(factory=dict)
    opsets: Mapping[str, tuple[str, ...]] = field(factory=dict)
    ops: Mapping[str, str] = field(factory=dict)
    helpers: Mapping[str, Callable[..., Any]] = field(factory=dict)
    imports: Mapping[str, Scope] = field(factory=dict)


def find_pattern(expr: tree.Expr | str, scope: Scope) -> tuple[tree.Pattern, Scope] | None:
    """The named pattern an expression refers to (``gelu_like``, ``shape.noop``), and its home scope."""
    match expr:
        case str(text):
            head, _, rest = text.partition(".")
            if rest:
                return find_pattern(rest, scope.imports[head]) if head in scope.imports else None
            found = scope.patterns.get(text)
            return (found, scope) if found else None
        case tree.Name(id):
            return find_pattern(id, scope)
        case tree.Attribute(tree.Name(id), name) if id in scope.imports:
            return find_pattern(name, scope.imports[id])
    return None


@frozen(eq=False, repr=False)
class Rule:
    """One rule: its qualified name (``std.gelu_tanh``), its tree and its scope."""

    name: str
    ast: tree.Rule
    scope: Scope

    def __repr__(self) -> str:
        return f"<rule {self.name}>"

    def _all(self, kind: type[_Clause]) -> tuple[_Clause, ...]:
        return tuple(clause for clause in self.ast.clauses if isinstance(clause, kind))

    @property
    def place(self) -> str:
        """``file:line:col`` of the rule."""
        return str(self.ast.span) if self.ast.span else self.name

    @cached_property
    def params(self) -> Mapping[str, tree.Param]:
        """The declared leaves, by name, in order."""
        return {param.name: param for param in self.ast.params}

    @cached_property
    def match(self) -> tree.Block:
        """The pattern."""
        return self._all(tree.Match)[0].body

    @cached_property
    def rewrite(self) -> tree.Block | None:
        """The replacement; None for a query and for ``rewrite via``."""
        found = self._all(tree.Rewrite)
        return found[0].body if found else None

    @cached_property
    def via(self) -> tree.Expr | None:
        """The call behind ``rewrite via``, if that is how the rule replaces."""
        found = self._all(tree.RewriteVia)
        return found[0].call if found else None

    @property
    def is_query(self) -> bool:
        """A rule without ``rewrite``: `find` reports it, `rewrite` skips it."""
        return self.rewrite is None and self.via is None

    @cached_property
    def conditions(self) -> tuple[tree.Where | tree.Let, ...]:
        """``where`` and ``let`` clauses in written order."""
        return tuple(clause for clause in self.ast.clauses if isinstance(clause, tree.Where | tree.Let))

    @cached_property
    def keep(self) -> frozenset[str]:
        """Inner values that may have users outside the match."""
        return frozenset(name for clause in self._all(tree.Keep) for name in clause.names)

    @cached_property
    def freeze(self) -> frozenset[str]:
        """Captures whose values may be baked into new constants."""
        return frozenset(name for clause in self._all(tree.Freeze) for name in clause.names)

    @cached_property
    def changes(self) -> frozenset[str]:
        """Parts of the interface the rule changes on purpose (``strides``, ``aliasing`` ...)."""
        return frozenset(name for clause in self._all(tree.Changes) for name in clause.names)

    @cached_property
    def tags(self) -> frozenset[str]:
        """Words for selection and docs."""
        return frozenset(name for clause in self._all(tree.Tags) for name in clause.names)

    @cached_property
    def numerics(self) -> tree.Numerics:
        """The numeric contract; ``rounding`` where the rule states none."""
        found = self._all(tree.Numerics)
        return found[0] if found else tree.Numerics("rounding")

    @cached_property
    def priority(self) -> int:
        """Rules of a higher priority go first in each round; 0 where the rule states none."""
        found = self._all(tree.Priority)
        return found[0].value if found else 0

    @cached_property
    def shrinks(self) -> tree.Expr | None:
        """The measure that every firing must lower."""
        found = self._all(tree.Shrinks)
        return found[0].measure if found else None

    @cached_property
    def examples(self) -> tuple[tree.Example, ...]:
        """The rule's own examples, positive and negative."""
        return self._all(tree.Example)


def expression_of(clause: tree.Where | tree.Let) -> tree.Expr:
    """What a condition evaluates."""
    return clause.assign.value if isinstance(clause, tree.Let) else clause.condition


def looks_beside(rule: Rule) -> bool:
    """Whether a rule sees more than its pattern: users of nodes, items of a tuple it takes apart, a helper's view."""
    words = {"users", *rule.scope.helpers}
    asks = any(name.id in words for one in rule.conditions for name in names_in(expression_of(one)))
    exprs = (*(assign.value for assign in rule.match.assigns), *rule.match.results)
    flat = any(isinstance(part, tree.Flat) for expr in exprs for part in walk(expr))
    return asks or flat or any(len(assign.targets) > 1 for assign in rule.match.assigns)


@frozen(eq=False, repr=False)
class RuleSet:
    """A sequence of rules; order is the order written.

    ``rules["name"]`` is one `Rule`, ``rules["attention.*"]`` a `RuleSet`; sets add with
    ``+`` and subtract with ``-``.
    """

    rules: tuple[Rule, ...] = ()

    def __attrs_post_init__(self) -> None:
        seen: dict[str, Rule] = {}
        for rule in self.rules:
            first = seen.setdefault(rule.name, rule)
            if first is not rule:
                raise FxrulesError(
                    Problem(
                        rule.ast.span,
                        "duplicate-rule",
                        f"two rules are called `{rule.name}`; the other stands at {first.place}",
                        "rename one, or load only one of the two files",
                    )
                )

    def __len__(self) -> int:
        return len(self.rules)

    def __iter__(self) -> Iterator[Rule]:
        return iter(self.rules)

    def __contains__(self, item: object) -> bool:
        return item in self.rules or any(rule.name == item for rule in self.rules)

    @overload
    def __getitem__(self, key: int) -> Rule: ...
    @overload
    def __getitem__(self, key: slice) -> RuleSet: ...
    @overload
    def __getitem__(self, key: str) -> Any: ...
    def __getitem__(self, key: int | slice | str) -> Any:
        if isinstance(key, int):
            return self.rules[key]
        if isinstance(key, slice):
            return RuleSet(self.rules[key])
        return self._by_name(key)

    def _by_name(self, key: str) -> Rule | RuleSet:
        if any(char in key for char in "*?"):
            found = tuple(rule for rule in self.rules if _selects(key, rule.name))
            if found:
                return RuleSet(found)
        exact = [rule for rule in self.rules if rule.name == key]
        short = exact or [rule for rule in self.rules if rule.name.rpartition(".")[2] == key]
        if len(short) == 1:
            return short[0]
        names = [rule.name for rule in self.rules]
        if short:
            what = f"`{key}` is ambiguous: {', '.join(rule.name for rule in short)}"
            raise FxrulesError(Problem(None, "ambiguous-rule", what, "use the whole name"))
        raise FxrulesError(Problem(None, "unknown-rule", f"`{key}`: no such rule", did_you_mean(key, names)))

    def __add__(self, other: RuleSet | Rule) -> RuleSet:
        mine = set(self.rules)
        added = (other,) if isinstance(other, Rule) else other.rules
        return RuleSet(self.rules + tuple(rule for rule in added if rule not in mine))

    def __sub__(self, other: RuleSet | Rule) -> RuleSet:
        gone = {other} if isinstance(other, Rule) else set(other.rules)
        return RuleSet(tuple(rule for rule in self.rules if rule not in gone))

    def __repr__(self) -> str:
        names = ", ".join(rule.name for rule in self.rules[:6])
        more = f", … {len(self.rules) - 6} more" if len(self.rules) > 6 else ""
        return f"<{len(self.rules)} rules: {names}{more}>"


def _selects(pattern: str, name: str) -> bool:
    """Whether a wildcard names a rule, with or without its library in front."""
    return fnmatchcase(name, pattern) or fnmatchcase(name.partition(".")[2], pattern)
