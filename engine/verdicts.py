"""Guards that ask for facts alone are answered once for all sites with equal facts.

A model repeats its layers: twelve attentions have the same shapes, dtypes and numbers.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Set

from attrs import field, frozen
from torch.fx import Node

from ..dsl import ast
from ..dsl.vocabulary import MEASURES
from ..dsl.walking import Part, walk
from .candidates import Candidate, Config, Mismatch
from .factkeys import TORCH_VALUES, UNKNOWN, argument_key
from .nodeview import Views
from .ruleset import Rule, expression_of
from .sketches import in_turn

# What may differ between two sites with equal facts.
_BY_PLACE = frozenset(
    {"users", "user_ops", "uses", "is_input", "is_output", "is_const", "op", "depends_on", "path", *MEASURES}
)


@frozen
class Verdict:
    """What guards say of all sites with one key: the dims and ``let`` values that they bind, or why they refuse."""

    bound: Mapping[str, object] = field(factory=dict)
    refusal: str | None = None

    def mismatch(self, root: Node) -> Mismatch | None:
        """The refusal at one of the sites; None if the guards hold."""
        return None if self.refusal is None else Mismatch("where", self.refusal, root, by_facts=True)


def asks_facts_only(rule: Rule) -> bool:
    """Whether guards and replacement of a rule depend on nothing but literals and the facts of captured values.

    Whether a value is constant depends on writes elsewhere, users and paths on the place, and so does what else
    a rule with several results finds in the graph.
    """
    if (
        rule.freeze
        or len(rule.match.results) > 1
        or any(param.type is not None and param.type.qualifier == "const" for param in rule.ast.params)
    ):
        return False
    words = _BY_PLACE | rule.scope.helpers.keys()
    exprs: list[Part] = list(map(expression_of, rule.conditions))
    if rule.rewrite is not None:
        exprs += [*(assign.value for assign in rule.rewrite.assigns), *rule.rewrite.results]
    if rule.via is not None:
        exprs.append(rule.via)
    return words.isdisjoint(_word(part) for expr in exprs for part in walk(expr))


def looks_everywhere(rule: Rule) -> bool:
    """Whether a rule asks for what may be any number of nodes away."""
    return _asks(rule, {"depends_on", "uses"})


def looks_beside(rule: Rule) -> bool:
    """Whether a rule sees more than its pattern: users of nodes, items of a tuple it takes apart, a helper's view."""
    asks = _asks(rule, {"users", "user_ops", "is_output", *rule.scope.helpers})
    exprs = (*(assign.value for assign in rule.match.assigns), *rule.match.results)
    flat = any(isinstance(part, ast.Flat) for expr in exprs for part in walk(expr))
    return asks or flat or any(len(assign.targets) > 1 for assign in rule.match.assigns)


def _asks(rule: Rule, words: Set[str]) -> bool:
    """Whether a condition calls one of these functions, as ``users(x)`` or as ``x.users()``."""
    parts = (part for condition in rule.conditions for part in walk(expression_of(condition)))
    return any(_word(part) in words for part in parts)


def _word(part: Part) -> str | None:
    return part.id if isinstance(part, ast.Name) else part.name if isinstance(part, ast.Attribute) else None


def is_plain(value: object) -> bool:
    """Whether a value means the same at every site: numbers, text, dtypes and tuples of them do."""
    if isinstance(value, tuple):
        return all(map(is_plain, value))
    return value is None or isinstance(value, (int, float, complex, str, *TORCH_VALUES))


def site_key(candidate: Candidate, bindings: Mapping[str, object], views: Views) -> Hashable | None:
    """What guards can tell of a candidate, but for the identity of its nodes; None if that cannot be written down.

    Sites with equal keys have equal literals at equal names, tensors of equal facts, and
    the same names stand for one node.
    """
    of_node = in_turn(views.fact_key, {})
    parts = [argument_key(value, of_node) for value in values_known(candidate.root, bindings)]
    for expr, value in candidate.deferred:
        parts += (id(expr), argument_key(value, of_node))
    return None if UNKNOWN in parts else tuple(parts)


def values_known(root: Node, bindings: Mapping[str, object]) -> Iterator[object]:
    """The values that a rule knows at a site, in the order that its key has them."""
    yield root
    for bound in bindings.values():
        yield bound.items if isinstance(bound, Config) else bound
