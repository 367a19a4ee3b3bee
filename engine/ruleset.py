"""Rules and rule sets: what a `.rules` file means once its names are resolved.

A `Rule` is a tree plus the `Scope` its names live in; a `RuleSet` is a sequence of
rules. Both are immutable and hold no state of any graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from functools import cached_property
from typing import Any, TypeVar, overload

from attrs import evolve, field, frozen

from ..dsl import ast as tree
from ..dsl.formatter import format_file
from ..dsl.source import Span
from .families import FamilyTable
from .naming import apart, check_distinct, find_named, merged, selects

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
    def span(self) -> Span | None:
        """Where the rule stands."""
        return self.ast.span

    @property
    def place(self) -> str:
        """``file:line:col`` of the rule."""
        return str(self.ast.span) if self.ast.span else self.name

    @property
    def text(self) -> str:
        """The rule as it stands in a `.rules` file, formatted; what it takes from the rest of its file is left out."""
        return format_file(tree.File((self.ast,)))

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


@frozen(eq=False, repr=False)
class Selection:
    """A ``ruleset`` statement and the rules that it selects; ``imported`` if no more than an import led to its file."""

    name: str
    span: Span | None
    rules: tuple[Rule, ...]
    imported: bool = False

    def without(self, gone: Set[Rule]) -> Selection:
        """The same with some rules left out."""
        return evolve(self, rules=tuple(rule for rule in self.rules if rule not in gone))


@frozen(eq=False, repr=False)
class Step:
    """A step of a pipeline and the rules that it runs; ``text`` is how it is written."""

    ast: tree.Step
    rules: tuple[Rule, ...]
    text: str


@frozen(eq=False, repr=False)
class Pipeline:
    """A ``pipeline`` statement, and the scope that the conditions of its steps see."""

    name: str
    span: Span | None
    steps: tuple[Step, ...]
    scope: Scope
    imported: bool = False

    def __repr__(self) -> str:
        return f"<pipeline {self.name}: {'; '.join(step.text for step in self.steps)}>"

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The rules of all steps, each once."""
        return tuple(dict.fromkeys(rule for step in self.steps for rule in step.rules))

    def without(self, gone: Set[Rule]) -> Pipeline:
        """The same with some rules left out."""
        steps = [evolve(step, rules=tuple(rule for rule in step.rules if rule not in gone)) for step in self.steps]
        return evolve(self, steps=tuple(steps))


def known_classes(rules: Iterable[Rule], *, replaced: bool = False) -> frozenset[str]:
    """The classes of modules that rules name: ``m: module acme.Norm``.

    ``replaced``: only those of rules that replace something, which say what a call of such a module does.
    """
    types = (param.type for rule in rules if not (replaced and rule.is_query) for param in rule.ast.params)
    return frozenset(name for type in types if type and type.qualifier == "module" for name in type.names)


@frozen(eq=False, repr=False)
class RuleSet:
    """A sequence of rules; order is the order written.

    ``rules["name"]`` is one `Rule`; ``rules["attention.*"]``, and ``rules["cleanup"]`` for
    the ``ruleset cleanup`` of a file, is a `RuleSet`. Sets add with ``+`` and subtract with ``-``; what
    is taken away leaves the rule sets and pipelines too. A set selected from another has no pipelines.
    """

    rules: tuple[Rule, ...] = ()
    selections: tuple[Selection, ...] = ()
    pipelines: tuple[Pipeline, ...] = ()

    def __attrs_post_init__(self) -> None:
        check_distinct(self.rules, "rule")

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
            chosen = tuple(rule for rule in self.rules if selects(key, rule.name))
            if chosen:
                return RuleSet(chosen)
        own, imported = apart(self.selections)
        named: list[Rule | Selection] = [*self.rules, *own]
        found = find_named(key, named, imported, "rule")
        return RuleSet(found.rules) if isinstance(found, Selection) else found

    def pipeline(self, name: str) -> Pipeline:
        """The pipeline of this name; raises FxrulesError where there is none, with the nearest."""
        known = ", ".join(f"`{one.name}`" for one in self.pipelines)
        none = "no rule file that was loaded has one; sets selected from others, as rules[...], have none either"
        return find_named(name, *apart(self.pipelines), "pipeline", f"there are {known}" if known else none)

    def __add__(self, other: RuleSet | Rule) -> RuleSet:
        mine = set(self.rules)
        others = RuleSet((other,)) if isinstance(other, Rule) else other
        added = self.rules + tuple(rule for rule in others if rule not in mine)
        return RuleSet(added, merged(self.selections, others.selections), merged(self.pipelines, others.pipelines))

    def __sub__(self, other: RuleSet | Rule) -> RuleSet:
        gone = {other} if isinstance(other, Rule) else set(other.rules)
        return RuleSet(
            tuple(rule for rule in self.rules if rule not in gone),
            tuple(one.without(gone) for one in self.selections),
            tuple(one.without(gone) for one in self.pipelines),
        )

    def __repr__(self) -> str:
        names = ", ".join(rule.name for rule in self.rules[:6])
        more = f", … {len(self.rules) - 6} more" if len(self.rules) > 6 else ""
        return f"<{len(self.rules)} rules: {names}{more}>"
