"""The names of one rule: what its header and its match bind, and what it uses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from attrs import evolve, field, frozen

from . import ast
from .bindings import Bound, assigned, bound_by_block
from .calls import Argument
from .graphcode import captures
from .headers import Header
from .places import Place, Role
from .scopes import FileScope
from .walking import names_in, walk


@frozen
class RuleNames:
    """A rule with what its header and its match bind.

    ``inner`` are the names that the match gives to nodes, ``captured`` those of lists
    and of ``**cfg``, ``ops`` the ops that the template's variable stands for.
    """

    ast: ast.Rule
    scope: FileScope
    header: Header
    ops: Mapping[str, tuple[str, ...]] = field(factory=dict)
    bound: Bound = field(factory=Bound)
    inner: frozenset[str] = frozenset()
    captured: frozenset[str] = frozenset()

    @property
    def names(self) -> frozenset[str]:
        """All names that the match binds."""
        return self.inner | self.captured | self.header.leaves.keys()


def block_exprs(block: ast.Block) -> tuple[Argument, ...]:
    """The expressions of a body: its lines, then its results."""
    return (*(assign.value for assign in block.assigns), *block.results)


def with_match(info: RuleNames, body: ast.Block) -> RuleNames:
    """The same with what the match binds."""
    inner = {name for assign in body.assigns for name in assigned(assign)}
    captured: set[str] = set()
    place = Place(Role.MATCH, info.scope, info.header, frozenset(inner))
    for expr in block_exprs(body):
        for part in walk(expr):
            match part:
                case ast.As(_, name):
                    inner.add(name)
                case ast.StarStar(name):
                    captured.add(name)
                case ast.Star(value):
                    captured |= set(captures(value, place))
    bound = bound_by_block(body, info.scope)
    captured -= place.names
    captured |= {name[1:] for assign in body.assigns for name in assign.targets if name[0] == "*"} - {"_"}
    return evolve(info, bound=bound, inner=frozenset(inner - captured), captured=frozenset(captured))


def used_names(rule: ast.Rule) -> frozenset[str]:
    """The names that a rule uses after binding them."""
    used: set[str] = set()
    for clause in rule.clauses:
        match clause:
            case ast.Match(body):
                exprs = block_exprs(body)
                captures_of_match = {
                    part.value.id
                    for expr in exprs
                    for part in walk(expr)
                    if isinstance(part, ast.Star) and isinstance(part.value, ast.Name)
                }
                names = Counter(name.id for expr in exprs for name in names_in(expr))
                used |= {name for name, count in names.items() if name not in captures_of_match or count > 1}
                rests = Counter(part.name for expr in exprs for part in walk(expr) if isinstance(part, ast.StarStar))
                used |= {name for name, count in rests.items() if count > 1}
            case ast.Keep(names):
                used |= set(names)
            case _:
                for expr in clause_exprs(clause):
                    used |= {name.id for name in names_in(expr)}
                    used |= {part.name for part in walk(expr) if isinstance(part, ast.StarStar)}
    return frozenset(used)


def clause_exprs(clause: ast.Clause) -> tuple[Argument, ...]:
    """The expressions of a clause that uses what a match bound."""
    match clause:
        case ast.Where(condition):
            return (condition,)
        case ast.Let(assign):
            return (assign.value,)
        case ast.Rewrite(body):
            return block_exprs(body)
        case ast.RewriteVia(call):
            return (call,)
        case ast.Numerics() if clause.domain is not None:
            return (clause.domain,)
    return ()
