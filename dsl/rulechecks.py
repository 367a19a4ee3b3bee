"""The checks of one rule: its clauses together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

from attrs import evolve, field, frozen

from . import ast
from .bindings import Bound, assigned, bound_by_block
from .callees import find_op
from .calls import Argument, Call, pair
from .contracts import check_changes, check_freeze, check_keep, check_numerics, check_repeated
from .graphcode import captures, check_block
from .headers import Header, Kind, check_params, header_of
from .nearest import did_you_mean
from .nullness import Names, check_condition, check_none, known_by, may_be_none
from .places import Place, Role
from .rewritetime import Moment, check_now
from .scopes import FileScope, find_opset
from .source import Problem
from .vocabulary import VOCABULARY
from .walking import locate, names_in, walk

_REPEATABLE = (ast.Where, ast.Let, ast.Example)


@frozen
class _Rule:
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


def check_rule(rule: ast.Rule, scope: FileScope) -> Iterator[Problem]:
    """Everything wrong with one rule."""
    yield from check_params(rule.params, scope, "rule")
    ops, problems = _template(rule, scope)
    yield from problems
    yield from _check_repeated_clauses(rule)
    match = next((clause for clause in rule.clauses if isinstance(clause, ast.Match)), None)
    info = _Rule(rule, scope, header_of(rule.params, scope), ops)
    if match is None:
        what = f"the rule `{rule.name}` has no `match`"
        yield Problem(locate(rule.span, rule.name), "missing-match", what)
    else:
        info = _with_match(info, match.body)
        yield from check_block(match.body, Place(Role.MATCH, scope, info.header, ops=ops))
        yield from _check_leaves(info)
        yield from _check_unused(info, match.body)
        yield from _check_rewrite_time(info)
        yield from _check_result_count(info, match)
    yield from _check_contracts(info, match is not None)
    for clause in rule.clauses:
        if isinstance(clause, ast.Example):
            yield from _check_example(clause, info)


def _template(rule: ast.Rule, scope: FileScope) -> tuple[Mapping[str, tuple[str, ...]], list[Problem]]:
    """The ops that the template's variable stands for."""
    if rule.template is None:
        return {}, []
    variable, opset = rule.template
    members = find_opset(scope, opset)
    problems = []
    alias = opset.partition(".")[0]
    if members is None and not (alias in scope.imports and scope.imports[alias] is None):
        hint = did_you_mean(opset, scope.own.opsets)
        problems.append(Problem(locate(rule.span, opset), "unknown-opset", f"`{opset}`: no such opset", hint))
    used = any(
        isinstance(part, ast.Name) and part.id == variable
        for clause in rule.clauses
        if isinstance(clause, ast.Match | ast.Rewrite)
        for expr in _block_exprs(clause.body)
        for part in walk(expr)
    )
    if not used:
        what = f"the template's variable `{variable}` is not used"
        problems.append(Problem(locate(rule.span, variable), "unused", what))
    return {variable: members or ()}, problems


def _check_repeated_clauses(rule: ast.Rule) -> Iterator[Problem]:
    seen: set[str] = set()
    for clause in rule.clauses:
        name = "rewrite" if isinstance(clause, ast.RewriteVia) else type(clause).__name__.lower()
        if name in seen and not isinstance(clause, _REPEATABLE):
            place = locate(clause.span, name)
            yield Problem(place, "duplicate-clause", f"a rule has one `{name}`; this is the second one")
        seen.add(name)


# -------------------------------------------------------------- the match
def _block_exprs(block: ast.Block) -> tuple[Argument, ...]:
    return (*(assign.value for assign in block.assigns), *block.results)


def _with_match(info: _Rule, body: ast.Block) -> _Rule:
    inner = {name for assign in body.assigns for name in assigned(assign)}
    captured: set[str] = set()
    place = Place(Role.MATCH, info.scope, info.header, frozenset(inner))
    for expr in _block_exprs(body):
        for part in walk(expr):
            match part:
                case ast.As(_, name):
                    inner.add(name)
                case ast.StarStar(name):
                    captured.add(name)
                case ast.Star(value):
                    captured |= set(captures(value, place))
    bound = bound_by_block(body, info.scope)
    return evolve(info, bound=bound, inner=frozenset(inner), captured=frozenset(captured - inner))


def _check_leaves(info: _Rule) -> Iterator[Problem]:
    """Each leaf is bound by the match, and says ``?`` exactly where it may be None."""
    for name, param in info.header.leaves.items():
        place = locate(param.span, name)
        if name == "_":
            continue
        if name not in info.bound.all:
            yield Problem(
                place, "unused", f"`{name}` is declared, and the match never binds it", "remove it, or match it"
            )
        elif name in info.bound.maybe and not info.header.may_be_none(name):
            type = "Tensor" if param.type is None else "|".join(param.type.names)
            what = f"`{name}` is None where the match leaves it out: its type must say `?`"
            yield Problem(place, "possibly-none", what, f"write `{name}: {type}{'[...]' if _shaped(param) else ''}?`")
        elif name in info.bound.always and info.header.may_be_none(name):
            what = f"`{name}` is always bound by the match: `?` means nothing in its type"
            hint = f"write `{name}?` where the match may leave it out"
            yield Problem(place, "misplaced-optional", what, hint)


def _shaped(param: ast.Param) -> bool:
    return param.type is not None and param.type.dims is not None


def _check_unused(info: _Rule, body: ast.Block) -> Iterator[Problem]:
    """Lines that are not part of the match, and names that nothing uses."""
    rule = info.ast
    is_query = not any(isinstance(clause, ast.Rewrite | ast.RewriteVia) for clause in rule.clauses)
    used = _used_names(rule)
    for assign in body.assigns:
        names = assigned(assign)
        if names and not any(name in info.bound.all for name in names):
            what = f"`{', '.join(names)}` is assigned, and what the match returns does not use it"
            yield Problem(assign.span, "unused", what)
            continue
        for name in names if len(names) > 1 and not is_query else ():
            if name not in used:
                yield Problem(locate(assign.span, name), "unused", f"`{name}` is never used", "write `_` in its place")
    if is_query:
        return
    for expr in _block_exprs(body):
        for part in walk(expr):
            match part:
                case ast.As(_, name) if name not in used:
                    yield Problem(part.span, "unused", f"`{name}` is never used", "remove `as` and the name")
                case ast.StarStar(name) if name not in used:
                    yield Problem(part.span, "unused", f"`**{name}` is never used", "`...` ignores arguments")
                case ast.Star(ast.Name(id)) if id in info.captured and id not in used:
                    yield Problem(part.span, "unused", f"`*{id}` is never used", "`*_` matches any items")


def _used_names(rule: ast.Rule) -> frozenset[str]:
    """The names that a rule uses after binding them."""
    used: set[str] = set()
    for clause in rule.clauses:
        match clause:
            case ast.Match(body):
                exprs = _block_exprs(body)
                captures_of_match = {
                    part.value.id
                    for expr in exprs
                    for part in walk(expr)
                    if isinstance(part, ast.Star) and isinstance(part.value, ast.Name)
                }
                names = [name.id for expr in exprs for name in names_in(expr)]
                used |= {name for name in names if name not in captures_of_match or names.count(name) > 1}
                cfg = [part.name for expr in exprs for part in walk(expr) if isinstance(part, ast.StarStar)]
                used |= {name for name in cfg if cfg.count(name) > 1}
            case ast.Keep(names):
                used |= set(names)
            case _:
                for expr in _clause_exprs(clause):
                    used |= {name.id for name in names_in(expr)}
                    used |= {part.name for part in walk(expr) if isinstance(part, ast.StarStar)}
    return frozenset(used)


def _clause_exprs(clause: ast.Clause) -> tuple[Argument, ...]:
    match clause:
        case ast.Where(condition):
            return (condition,)
        case ast.Let(assign):
            return (assign.value,)
        case ast.Rewrite(body):
            return _block_exprs(body)
        case ast.RewriteVia(call):
            return (call,)
        case ast.Numerics() if clause.domain is not None:
            return (clause.domain,)
    return ()


# ------------------------------------------- where, let, and what comes out
def _moment(info: _Rule) -> Moment:
    kinds = {name: info.header.kind(name) for name in info.header.leaves}
    kinds |= dict.fromkeys(info.header.dims | info.captured, Kind.ANY) | dict.fromkeys(info.inner, Kind.NODE)
    frozen_names = {name for clause in info.ast.clauses if isinstance(clause, ast.Freeze) for name in clause.names}
    return Moment(info.scope, kinds, frozen_names, ops=info.ops)


def _check_rewrite_time(info: _Rule) -> Iterator[Problem]:
    """``where`` and ``let`` in their order, then the rewrite, which sees all of them."""
    maybe: Names = info.bound.maybe & info.names
    moment = _moment(info)
    clauses = info.ast.clauses
    lets = [clause.assign for clause in clauses if isinstance(clause, ast.Let)]
    later = {name for assign in lets for name in assigned(assign)}
    used: dict[str, ast.Let] = {}
    takes = partial(_takes_none, info=info)
    for clause in clauses:
        match clause:
            case ast.Where(condition):
                yield from check_now(condition, evolve(moment, later=later))
                yield from check_condition(condition, maybe, takes)
                maybe -= known_by(condition, True)
            case ast.Let(assign):
                yield from check_now(assign.value, evolve(moment, later=later))
                yield from check_none(assign.value, maybe, takes, may_be=True)
                names = assigned(assign)
                for name in names:
                    if name in moment.names:
                        yield Problem(clause.span, "duplicate-name", f"`{name}` is bound already", "use another name")
                    used[name] = clause
                later -= set(names)
                moment = evolve(moment, names={**moment.names, **dict.fromkeys(names, Kind.ANY)})
                maybe |= frozenset(names) if may_be_none(assign.value, maybe) else frozenset()
    all_used = _used_names(info.ast)
    for name, clause in used.items():
        if name not in all_used:
            yield Problem(locate(clause.span, name), "unused", f"`{name}` is never used", "remove the `let`")
    for clause in clauses:
        if isinstance(clause, ast.Rewrite):
            yield from _check_rewrite(clause.body, info, moment, maybe)
        elif isinstance(clause, ast.RewriteVia):
            yield from _check_via(clause, info, moment)
        elif isinstance(clause, ast.Numerics) and clause.domain is not None:
            yield from check_now(clause.domain, evolve(moment, elementwise=True, has_root=False))
        elif isinstance(clause, ast.Shrinks):
            yield from check_now(clause.measure, Moment(info.scope, {}, ops=info.ops, has_root=False, measures=True))


def _check_rewrite(body: ast.Block, info: _Rule, moment: Moment, maybe: Names) -> Iterator[Problem]:
    own = {name for assign in body.assigns for name in assigned(assign)}
    inside = evolve(moment, names={**moment.names, **dict.fromkeys(own, Kind.NODE)})
    names = info.inner | info.captured | (moment.names.keys() - info.header.leaves.keys())
    place = Place(Role.REWRITE, info.scope, info.header, names, ops=info.ops, now=partial(check_now, moment=inside))
    yield from check_block(body, place)
    yield from _check_kept(body, info)
    takes = partial(_takes_none, info=info)
    for assign in body.assigns:
        yield from check_none(assign.value, maybe, takes, may_be=True)
        maybe |= frozenset(assigned(assign)) if may_be_none(assign.value, maybe) else frozenset()
    for result in body.results:
        yield from check_none(result, maybe, takes)


def _check_kept(body: ast.Block, info: _Rule) -> Iterator[Problem]:
    """An inner value of the match is gone after the rewrite, unless it is kept."""
    kept = {name for clause in info.ast.clauses if isinstance(clause, ast.Keep) for name in clause.names}
    for expr in _block_exprs(body):
        facts = {id(part.value) for part in walk(expr) if isinstance(part, ast.Attribute)}
        for name in names_in(expr):
            if name.id in info.inner - kept and id(name) not in facts:
                what = f"`{name.id}` is part of the match and is erased with it"
                yield Problem(name.span, "needs-keep", what, f"add the clause `keep {name.id}`, or compute it anew")


def _check_via(clause: ast.RewriteVia, info: _Rule, moment: Moment) -> Iterator[Problem]:
    match clause.call:
        case ast.Call(ast.Name(id), args) if id in info.scope.helpers:
            for arg in args:
                yield from check_now(arg.value if isinstance(arg, ast.Keyword) else arg, moment)
        case ast.Call(ast.Name(id) as func):
            hint = did_you_mean(id, info.scope.helpers) or f"import it: `from my_rules.helpers import {id}`"
            yield Problem(func.span, "unknown-helper", f"`{id}`: no such helper", hint)
        case _:
            what = "`rewrite via` calls a function imported from a Python module"
            yield Problem(clause.call.span, "unknown-helper", what, "from my_rules.helpers import build")


def _takes_none(call: ast.Call, info: _Rule) -> tuple[tuple[Argument, bool], ...]:
    """The arguments of a call, each with whether it may be None."""
    args: tuple[Argument, ...] = call.args
    name = call.func.id if isinstance(call.func, ast.Name) else ""
    if isinstance(call.func, ast.Attribute):
        is_method = next(names_in(call.func), ast.Name("")).id in info.names
        name = call.func.name if is_method else ""
        args = (call.func.value, *args) if is_method else args
    if name in info.scope.helpers:
        return tuple((arg, True) for arg in args)
    name = info.ops.get(name, (name,))[0] if info.ops.get(name) else name
    signature = find_op(info.scope, name)
    if signature is None:
        return tuple((arg, name not in VOCABULARY) for arg in args)
    return tuple((arg, param is not None and param.takes_none) for arg, param in pair(Call("", args, None), signature))


def _check_result_count(info: _Rule, match: ast.Match) -> Iterator[Problem]:
    rewrite = next((clause for clause in info.ast.clauses if isinstance(clause, ast.Rewrite)), None)
    if rewrite is None or any(isinstance(one, ast.Star) for one in (*match.body.results, *rewrite.body.results)):
        return
    kept = {name for clause in info.ast.clauses if isinstance(clause, ast.Keep) for name in clause.names}
    roots = match.body.results
    kept_roots = sum(_is_kept(root, kept) for root in roots)
    count = len(rewrite.body.results)
    if not len(roots) - kept_roots <= count <= len(roots):
        what = f"the match returns {_values(len(roots))}, the rewrite {_values(count)}"
        yield Problem(rewrite.span, "result-count", what, "each result replaces the one at the same place")


def _is_kept(root: Argument, kept: set[str]) -> bool:
    match root:
        case ast.Name(id):
            return id in kept
        case ast.As(_, name):
            return name in kept
    return False


def _values(count: int) -> str:
    return "one value" if count == 1 else f"{count} values"


# --------------------------------------------------- contracts and examples
def _check_contracts(info: _Rule, has_match: bool) -> Iterator[Problem]:
    for clause in info.ast.clauses:
        match clause:
            case ast.Numerics():
                yield from check_numerics(clause)
            case ast.Changes():
                yield from check_changes(clause)
            case ast.Tags(names):
                yield from check_repeated(names, clause.span)
            case ast.Keep() if has_match:
                yield from check_keep(clause, info.inner, info.header)
            case ast.Freeze():
                yield from check_freeze(clause, info.header)


def _check_example(example: ast.Example, info: _Rule) -> Iterator[Problem]:
    """An example stands for itself: it sees only the inputs that it declares."""
    yield from check_params(example.params, info.scope, "example")
    header = header_of(example.params, info.scope)
    place = Place(Role.EXAMPLE, info.scope, header, ops=info.ops)
    yield from check_block(example.body, place)
    used = {name.id for expr in _block_exprs(example.body) for name in names_in(expr)}
    for param in example.params:
        if param.name not in used:
            yield Problem(locate(param.span, param.name), "unused", f"the example never uses its input `{param.name}`")
    if example.expected is None:
        return
    yield from check_block(example.expected, evolve(place, role=Role.EXPECTED))
    before, after = len(example.body.results), len(example.expected.results)
    if before != after:
        what = f"the example starts with {_values(before)} and ends with {_values(after)}"
        yield Problem(example.span, "result-count", what)
