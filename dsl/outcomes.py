"""What comes out of a rule: ``where`` and ``let`` in their order, then the rewrite, which sees all of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial

from attrs import evolve

from . import ast
from .bindings import assigned
from .callees import find_op
from .calls import Argument, Call, pair
from .graphcode import check_block
from .headers import Kind
from .nearest import did_you_mean
from .nullness import Names, check_condition, check_none, known_by, may_be_none
from .places import Place, Role
from .rewritetime import Moment, check_now
from .rulenames import RuleNames, block_exprs, used_names
from .source import Problem
from .vocabulary import FACTS, VOCABULARY
from .walking import dotted, locate, names_in, walk


def _moment(info: RuleNames) -> Moment:
    kinds = {name: info.header.kind(name) for name in info.header.leaves}
    kinds |= dict.fromkeys(info.header.dims | info.captured, Kind.ANY) | dict.fromkeys(info.inner, Kind.NODE)
    frozen_names = {name for clause in info.ast.clauses if isinstance(clause, ast.Freeze) for name in clause.names}
    return Moment(info.scope, kinds, frozen_names, ops=info.ops)


def check_outcome(info: RuleNames) -> Iterator[Problem]:
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
    all_used = used_names(info.ast)
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


def _check_rewrite(body: ast.Block, info: RuleNames, moment: Moment, maybe: Names) -> Iterator[Problem]:
    own = {name for assign in body.assigns for name in assigned(assign)}
    inside = evolve(moment, names={**moment.names, **dict.fromkeys(own, Kind.NODE)})
    names = info.inner | info.captured | (moment.names.keys() - info.header.leaves.keys())
    place = Place(Role.REWRITE, info.scope, info.header, names, ops=info.ops, now=partial(check_now, moment=inside))
    yield from check_block(body, place)
    yield from _check_kept(block_exprs(body), info)
    takes = partial(_takes_none, info=info)
    for assign in body.assigns:
        yield from check_none(assign.value, maybe, takes, may_be=True)
        maybe |= frozenset(assigned(assign)) if may_be_none(assign.value, maybe) else frozenset()
    for result in body.results:
        yield from check_none(result, maybe, takes)


def _check_kept(exprs: Iterable[Argument], info: RuleNames) -> Iterator[Problem]:
    """An inner value of the match is gone after the rewrite, unless it is kept."""
    kept = {name for clause in info.ast.clauses if isinstance(clause, ast.Keep) for name in clause.names}
    for expr in exprs:
        facts = {id(part.value) for part in walk(expr) if isinstance(part, ast.Attribute) and part.name in FACTS}
        for name in names_in(expr):
            if name.id in info.inner - kept and id(name) not in facts:
                what = f"`{name.id}` is part of the match and is erased with it"
                yield Problem(name.span, "needs-keep", what, f"add the clause `keep {name.id}`, or compute it anew")


def _check_via(clause: ast.RewriteVia, info: RuleNames, moment: Moment) -> Iterator[Problem]:
    match clause.call:
        case ast.Call(ast.Name(id), args) if id in info.scope.helpers:
            for arg in args:
                yield from check_now(arg.value if isinstance(arg, ast.Keyword) else arg, moment)
            yield from _check_kept(args, info)
        case ast.Call(ast.Name(id) as func):
            hint = did_you_mean(id, info.scope.helpers) or f"import it: `from my_rules.helpers import {id}`"
            yield Problem(func.span, "unknown-helper", f"`{id}`: no such helper", hint)
        case _:
            what = "`rewrite via` calls a function imported from a Python module"
            yield Problem(clause.call.span, "unknown-helper", what, "from my_rules.helpers import build")


def _takes_none(call: ast.Call, info: RuleNames) -> tuple[tuple[Argument, bool], ...]:
    """The arguments of a call, each with whether it may be None."""
    args: tuple[Argument, ...] = call.args
    name = dotted(call.func) or ""
    if name in info.header.leaves and info.header.kind(name) is Kind.MODULE:
        return ((call.func, False), *((arg, True) for arg in args))
    if isinstance(call.func, ast.Attribute) and (not name or name.partition(".")[0] in info.names):
        name = call.func.name
        args = (call.func.value, *args)
    if name in info.scope.helpers:
        return tuple((arg, True) for arg in args)
    name = info.ops.get(name, (name,))[0] if info.ops.get(name) else name
    signature = find_op(info.scope, name)
    if signature is None:
        return tuple((arg, name not in VOCABULARY) for arg in args)
    return tuple((arg, param is not None and param.takes_none) for arg, param in pair(Call("", args, None), signature))


def check_result_count(info: RuleNames, match: ast.Match) -> Iterator[Problem]:
    """Each result of the match is replaced by the one at its place; a kept root may go without."""
    rewrite = next((clause for clause in info.ast.clauses if isinstance(clause, ast.Rewrite)), None)
    if rewrite is None or any(isinstance(one, ast.Star) for one in (*match.body.results, *rewrite.body.results)):
        return
    kept = {name for clause in info.ast.clauses if isinstance(clause, ast.Keep) for name in clause.names}
    roots = match.body.results
    kept_roots = sum(_is_kept(root, kept) for root in roots)
    count = len(rewrite.body.results)
    if not len(roots) - kept_roots <= count <= len(roots):
        what = f"the match returns {shown_count(len(roots))}, the rewrite {shown_count(count)}"
        yield Problem(rewrite.span, "result-count", what, "each result replaces the one at the same place")


def _is_kept(root: Argument, kept: set[str]) -> bool:
    match root:
        case ast.Name(id):
            return id in kept
        case ast.As(_, name):
            return name in kept
    return False


def shown_count(count: int) -> str:
    """A number of values, for messages."""
    return "one value" if count == 1 else f"{count} values"
