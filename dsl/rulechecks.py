"""The checks of one rule: its clauses together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from attrs import evolve

from . import ast
from .bindings import assigned
from .contracts import check_changes, check_freeze, check_keep, check_numerics, check_repeated
from .graphcode import check_block
from .headers import check_params, header_of, type_text
from .nearest import did_you_mean
from .outcomes import check_outcome, check_result_count, shown_count
from .places import Place, Role
from .rulenames import RuleNames, block_exprs, used_names, with_match
from .scopes import FileScope, find_opset
from .source import Problem
from .walking import locate, names_in, walk

_REPEATABLE = (ast.Where, ast.Let, ast.Example)


def check_rule(rule: ast.Rule, scope: FileScope) -> Iterator[Problem]:
    """Everything wrong with one rule."""
    yield from check_params(rule.params, scope, "rule")
    ops, problems = _template(rule, scope)
    yield from problems
    yield from _check_repeated_clauses(rule)
    match = next((clause for clause in rule.clauses if isinstance(clause, ast.Match)), None)
    info = RuleNames(rule, scope, header_of(rule.params, scope), ops)
    if match is None:
        what = f"the rule `{rule.name}` has no `match`"
        yield Problem(locate(rule.span, rule.name), "missing-match", what)
    else:
        info = with_match(info, match.body)
        yield from check_block(match.body, Place(Role.MATCH, scope, info.header, ops=ops))
        yield from _check_leaves(info)
        yield from _check_unused(info, match.body)
        yield from check_outcome(info)
        yield from check_result_count(info, match)
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
        for expr in block_exprs(clause.body)
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
def _check_leaves(info: RuleNames) -> Iterator[Problem]:
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
            what = f"`{name}` is None where the match leaves it out: its type must say `?`"
            yield Problem(
                place, "possibly-none", what, f"write `{name}: {type_text(param)}{'[...]' if _shaped(param) else ''}?`"
            )
        elif name in info.bound.always and info.header.may_be_none(name):
            what = f"`{name}` is always bound by the match: `?` means nothing in its type"
            hint = f"write `{name}?` where the match may leave it out"
            yield Problem(place, "misplaced-optional", what, hint)


def _shaped(param: ast.Param) -> bool:
    return param.type is not None and param.type.dims is not None


def _check_unused(info: RuleNames, body: ast.Block) -> Iterator[Problem]:
    """Lines that are not part of the match, and names that nothing uses."""
    rule = info.ast
    is_query = not any(isinstance(clause, ast.Rewrite | ast.RewriteVia) for clause in rule.clauses)
    used = used_names(rule)
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
    for expr in block_exprs(body):
        for part in walk(expr):
            match part:
                case ast.As(_, name) if name not in used:
                    yield Problem(part.span, "unused", f"`{name}` is never used", "remove `as` and the name")
                case ast.StarStar(name) if name not in used:
                    yield Problem(part.span, "unused", f"`**{name}` is never used", "`...` ignores arguments")
                case ast.Star(ast.Name(id)) if id in info.captured and id not in used:
                    yield Problem(part.span, "unused", f"`*{id}` is never used", "`*_` matches any items")


# --------------------------------------------------- contracts and examples
def _check_contracts(info: RuleNames, has_match: bool) -> Iterator[Problem]:
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


def _check_example(example: ast.Example, info: RuleNames) -> Iterator[Problem]:
    """An example stands for itself: it sees only the inputs that it declares."""
    yield from check_params(example.params, info.scope, "example")
    header = header_of(example.params, info.scope)
    place = Place(Role.EXAMPLE, info.scope, header, ops=info.ops)
    yield from check_block(example.body, place)
    used = {name.id for expr in block_exprs(example.body) for name in names_in(expr)}
    for param in example.params:
        if param.name not in used:
            yield Problem(locate(param.span, param.name), "unused", f"the example never uses its input `{param.name}`")
    if example.expected is None:
        return
    yield from check_block(example.expected, evolve(place, role=Role.EXPECTED))
    before, after = len(example.body.results), len(example.expected.results)
    if before != after:
        what = f"the example starts with {shown_count(before)} and ends with {shown_count(after)}"
        yield Problem(example.span, "result-count", what)
