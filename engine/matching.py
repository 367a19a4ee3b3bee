"""The matcher that runs: a rule's pattern compiled once, then run at many nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from math import inf
from typing import Any

from attrs import frozen
from torch.fx import Node

from . import steps
from .candidates import Candidate
from .compiler import Compiler
from .lowering import lower
from .nodeview import Views
from .patterns import height, operands, roots
from .ruleset import Rule
from .steps import DEFERRED, NODES, OTHERS, TAKE, UNBOUND, VIEWS, Env, Matcher
from .verdicts import asks_facts_only, looks_beside, looks_everywhere
from .witness import Witness


@frozen(eq=False)
class CompiledRule:
    """A rule ready to run: the families its root can have, its matcher, and what it looks at.

    ``operands`` are families of which the root's inputs must have some, a set for each such input.
    ``height`` is how far below the root it looks, in edges: infinite for a rule that counts uses. A
    ``wide`` rule also looks at the users of leaves, or at items beside those it matches. A rule
    ``by_facts`` looks at nothing but what sketches tell; an ``alike`` one at the sketch of its root alone.
    """

    rule: Rule
    families: frozenset[str]
    any_root: bool
    operands: tuple[frozenset[str], ...]
    height: float
    wide: bool
    by_facts: bool
    alike: bool
    _match: Matcher
    _blank: tuple[Any, ...]

    def run(self, node: Node, views: Views | Witness, take: Callable[[Candidate], bool]) -> bool:
        """Hand candidates at ``node`` to ``take``, in order, until it returns True."""
        env: Env = list(self._blank)
        env[VIEWS], env[NODES], env[DEFERRED], env[TAKE], env[OTHERS] = views, [], [], take, []
        return self._match(node, env)


@lru_cache(maxsize=4096)
def compile_rule(rule: Rule) -> CompiledRule:
    """Compile a rule's pattern; raises FxrulesError for what cannot be matched yet."""
    term = lower(rule)
    compiler = Compiler()
    matcher = compiler.compile(term, compiler.finish())
    names, anywhere = roots(term)
    blank = (*[None] * steps.FIRST_FREE, *[UNBOUND] * (compiler.size - steps.FIRST_FREE))
    wide, far = looks_beside(rule), inf if looks_everywhere(rule) else height(term)
    by_facts = not wide and asks_facts_only(rule)
    alike = far <= 1 and by_facts
    return CompiledRule(rule, names, anywhere, operands(term), far, wide, by_facts, alike, matcher, blank)


def candidates(rule: Rule, node: Node, views: Views) -> Iterator[Candidate]:
    """All candidates of ``rule`` at ``node``, in the order in which they would be tried."""
    found: list[Candidate] = []

    def take(candidate: Candidate) -> bool:
        found.append(candidate)
        return False

    compile_rule(rule).run(node, views, take)
    return iter(found)
