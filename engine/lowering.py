"""From a rule's tree to pattern terms: names resolved, patterns inlined, constants folded."""

from __future__ import annotations

import sys
from collections.abc import Mapping

from attrs import evolve

from ..dsl import ast
from ..dsl.nearest import did_you_mean
from ..dsl.source import Span
from ..dsl.vocabulary import COMPARISONS
from .families import Family
from .frames import (
    BINARY_FAMILIES,
    UNARY_FAMILIES,
    Argument,
    Frame,
    called,
    dotted,
    family_named,
    first_argument,
    header_dims,
    is_method,
    name_term,
    plain,
    refuse,
    report,
    static_term,
)
from .indexing import IndexStep, steps_of
from .joining import tied
from .listing import check_targets, element, flat, flattened, pattern_depths, rule_depths
from .patterns import (
    Absent,
    Alternatives,
    Anything,
    As,
    Bind,
    Bounds,
    Exact,
    Hole,
    Item,
    Literal,
    Maybe,
    Op,
    Sequence,
    Shared,
    Term,
    Through,
    leaf_names,
)
from .ruleset import Rule, Scope, find_pattern
from .spellings import read_param

_FROM_THE_START = Alternatives((Literal(None), Literal(0, ast.Number(0))))
_TO_THE_END = Alternatives((Literal(None), Literal(sys.maxsize, ast.Number(sys.maxsize))))


def lower(rule: Rule) -> Term:
    """The pattern term of a rule's ``match``.

    Raises FxrulesError, with the place, for what this version cannot match.
    """
    block = rule.match
    check_targets(block)
    frame = Frame(rule.scope, rule.params, header_dims(rule.ast.params), depths=rule_depths(rule.ast))
    for assign in block.assigns:
        frame = _assign(assign, frame)
    results = tuple(_lower(plain(result), frame) for result in block.results)
    return results[0] if len(results) == 1 else tied(results, rule)


def _assign(assign: ast.Assign, frame: Frame) -> Frame:
    term = _lower(assign.value, frame)
    if len(assign.targets) == 1:
        name = assign.targets[0]
        return evolve(frame, names={**frame.names, name: Shared(frame.prefix + name, term)})
    whole = Shared(f"{frame.prefix}:{','.join(assign.targets)}", term)
    pieces: dict[str, Term] = {}
    for index, name in enumerate(assign.targets):
        if name.startswith("*"):
            break  # the guards bind it
        if name != "_":
            pieces[name] = Shared(frame.prefix + name, Item(whole, Literal(index)))
    return evolve(frame, names={**frame.names, **pieces})


def _lower(expr: ast.Expr, frame: Frame) -> Term:
    static = static_term(expr, frame)
    if static is not None:
        return static
    match expr:
        case ast.Name(id, span=span):
            return name_term(id, span, frame)
        case ast.String(value):
            return Literal(value)
        case ast.Call():
            return _call(expr, frame)
        case ast.Binary("??", span=span):
            refuse(span, "`??` in a pattern", "`??` takes the first bound value in `where`, `let` and `rewrite`")
        case ast.Binary(op, left, right):
            return _operator(BINARY_FAMILIES[op], (left, right), frame)
        case ast.Compare((op,), operands) if op in COMPARISONS:
            return _operator(COMPARISONS[op], operands, frame)
        case ast.Unary(op, operand, span=span) if op in UNARY_FAMILIES:
            return _operator(UNARY_FAMILIES[op], (operand,), frame)
        case ast.Attribute(value, name):
            return Op(family_named(name, expr.span, frame), ((0, _lower(value, frame)),))
        case ast.Index():
            return _index(expr, frame)
        case ast.Optional(ast.Call() as call):
            return Alternatives((_lower(call, frame), _lower(first_argument(call, frame), frame)))
        case ast.As(value, name):
            return As(_lower(value, frame), frame.slot(name))
        case ast.Through(value, name):
            return Through(_lower(value, frame), _step(name, expr.span, frame))
        case ast.Or(operands):
            return Alternatives(tuple(_lower(one, frame) for one in operands))
        case ast.Flat(call):
            return flat(call, frame, _lower)
        case ast.Tuple(items) | ast.List(items):
            return Sequence(tuple(element(item, frame, _lower) for item in flattened(items)))
    return report(
        expr.span, "not-a-pattern", "this cannot stand in a pattern: it is computed at rewrite time, use `where`"
    )


def _operator(name: str, operands: tuple[ast.Expr, ...], frame: Frame) -> Term:
    family = family_named(name, operands[0].span, frame)
    optional = [isinstance(one, ast.Optional) and not isinstance(one.value, ast.Call) for one in operands]
    if not any(optional):
        return Op(family, tuple((i, _lower(one, frame)) for i, one in enumerate(operands)))
    if all(optional):
        report(operands[0].span, "optional", "one operand of an operator must be there: both are optional")
    absent = optional.index(True)
    plain = [getattr(one, "value", one) if is_leaf else one for one, is_leaf in zip(operands, optional, strict=True)]
    present = [_lower(one, frame) for one in plain]
    names = leaf_names(present[absent])
    return Alternatives((Op(family, tuple(enumerate(present))), Absent(names, present[1 - absent])))


def _call(call: ast.Call, frame: Frame) -> Term:
    match call.func:
        case ast.Name(id, span=span):
            if find_pattern(id, frame.scope) and id not in frame.names and id not in frame.leaves:
                return _inline(call, frame)
            if id in frame.leaves:
                return called(frame.leaves[id], _exact(id, call, frame), span)
            return _op(family_named(id, span, frame), call.args, frame)
        case ast.Attribute(base, name, span=span):
            if find_pattern(call.func, frame.scope):
                return _inline(call, frame)
            if is_method(call.func, frame):
                return _op(family_named(name, span, frame), (base, *call.args), frame)
            return _exact(dotted(call.func) or name, call, frame)
    return report(call.span, "not-a-pattern", "only an op, a named pattern or a method can be called in a pattern")


def _op(family: Family, args: tuple[Argument, ...], frame: Frame) -> Term:
    names = [param.name for param in family.params]
    bound: dict[int, Term] = {}
    config, loose, position = None, False, 0
    for arg in args:
        match arg:
            case ast.StarStar(name):
                config = frame.slot(name)
            case ast.Dots():
                loose = True
            case ast.Keyword(name, value, span=span):
                if name not in names:
                    report(span, "unknown-keyword", f"`{family.name}` takes no `{name}`", did_you_mean(name, names))
                bound[names.index(name)] = _argument(value, family, names.index(name), frame)
            case _:
                value = plain(arg)
                if position >= len(names):
                    report(value.span, "arity", f"`{family.name}` takes at most {len(names)} arguments")
                bound[position] = _argument(value, family, position, frame)
                position += 1
    return Op(family, tuple(sorted(bound.items(), key=lambda item: item[0])), config, loose)


def _argument(value: ast.Expr, family: Family, position: int, frame: Frame) -> Term:
    if isinstance(value, ast.Optional) and not isinstance(value.value, ast.Call):
        inner = _lower(value.value, frame)
        return Maybe(leaf_names(inner), inner)
    term = _lower(value, frame)
    if not isinstance(term, Literal):
        return term
    read = read_param(family.params[position], term.value)
    if term.number is None:
        return Literal(read)
    if isinstance(read, tuple):  # torch takes `dim=-1` for `dim=[-1]`, `stride=2` for `stride=[2, 2]`
        several = Sequence((term,) * len(read))
        # a stride that equals the kernel is kept as None: `steps.literal` knows
        return Alternatives((several, term)) if position in dict(family.same_as) else several
    return term


def _exact(target: str, call: ast.Call, frame: Frame) -> Exact:
    positional: list[Term] = []
    keywords: list[tuple[str, Term]] = []
    loose = False
    for arg in call.args:
        match arg:
            case ast.Keyword(name, value):
                keywords.append((name, _lower(value, frame)))
            case ast.Dots():
                loose = True
            case ast.StarStar(span=span):
                refuse(span, "`**` in a call of an exact target or a module")
            case _:
                positional.append(_lower(plain(arg), frame))
    return Exact(target, tuple(positional), tuple(keywords), loose)


def _inline(call: ast.Call, frame: Frame) -> Term:
    found = find_pattern(call.func, frame.scope)
    assert found is not None
    pattern, scope = found
    given: dict[str, ast.Expr] = {}
    names = [param.name for param in pattern.params]
    for position, arg in enumerate(call.args):
        name, value = (arg.name, arg.value) if isinstance(arg, ast.Keyword) else (None, plain(arg))
        if name is None and position < len(names):
            name = names[position]
        if name not in names:
            report(call.span, "arity", f"pattern `{pattern.name}` takes ({', '.join(names)})")
        given[name] = value
    missing = [param.name for param in pattern.params if param.name not in given and param.default is None]
    if missing:
        report(call.span, "arity", f"pattern `{pattern.name}` also needs `{missing[0]}`")
    terms = {name: _lower(value, frame) for name, value in given.items()}
    return _body(pattern, scope, terms, frame, call.span)


def _body(pattern: ast.Pattern, scope: Scope, terms: Mapping[str, Term], frame: Frame, span: Span | None) -> Term:
    """The pattern's body with ``terms`` for its parameters; each is matched once."""
    above = [place for place, one in enumerate(frame.inside) if one is pattern]
    if pattern.limit is not None and len(above) >= pattern.limit:
        return Alternatives(())  # too deep: matches nothing
    if above and all(one.limit is None for one in frame.inside[above[-1] :]):
        report(span, "recursive-pattern", f"the pattern `{pattern.name}` holds itself", "give it a `limit`")
    prefix = f"{frame.prefix}{pattern.name}@{next(frame.fresh)}:"
    names = {name: _once(prefix + name, term) for name, term in terms.items()}
    inside, depths = (*frame.inside, pattern), pattern_depths(pattern)
    inner = Frame(scope, {}, frozenset(), names, prefix, inside, frame.fresh, depths)
    for param in pattern.params:
        if param.name not in names and param.default is not None:
            inner = evolve(inner, names={**inner.names, param.name: _lower(param.default, inner)})
    return _lower(pattern.body, inner)


def _once(name: str, term: Term) -> Term:
    """A term that stands for a pattern's parameter: wherever the parameter stands, the value is the same."""
    match term:
        case Bind() | Shared():
            return term
        case Literal() | Anything():
            return As(term, name)
    return Shared(name, term)


def _step(name: str, span: Span | None, frame: Frame) -> Term:
    """One node that a ``through`` may pass, with a `Hole` for the value inside."""
    found = find_pattern(name, frame.scope)
    if found:
        pattern, scope = found
        first = pattern.params[0].name if pattern.params else ""
        return _body(pattern, scope, {first: Hole()}, frame, span)
    if name in frame.scope.opsets:
        members = frame.scope.opsets[name]
        return Alternatives(tuple(Op(family_named(one, span, frame), ((0, Hole()),)) for one in members))
    known = [*frame.scope.patterns, *frame.scope.opsets]
    return report(span, "unknown-pattern", f"`{name}`: no such pattern or opset", did_you_mean(name, known))


def _index(expr: ast.Index, frame: Frame) -> Term:
    """An index is one ``getitem`` at torch level and a chain of slices and selects at aten level."""
    value = _lower(expr.value, frame)
    items = tuple(_index_item(item, frame) for item in expr.items)
    whole = Item(value, items[0] if len(items) == 1 else Sequence(items))
    steps = steps_of(expr.items, whole_slices=True)
    if steps is None:
        return whole
    chain: Term = (
        value if isinstance(value, Bind | Shared) else Shared(f"{frame.prefix}:index@{next(frame.fresh)}", value)
    )
    for step in steps:
        op = Op(family_named(step.family, expr.span, frame), ((0, chain), *_index_args(step, frame)))
        chain = Alternatives((op, chain)) if step.optional else op
    return Alternatives((whole, chain)) if steps else whole


def _index_args(step: IndexStep, frame: Frame) -> list[tuple[int, Term]]:
    """The arguments behind the tensor; bounds that mean "from the start", "to the end" may be written down or not."""
    terms: list[tuple[int, Term]] = []
    for place, arg in enumerate(step.args, 1):
        if step.family == "slice" and place == 2 and arg in (None, ast.Number(0)):
            terms.append((place, _FROM_THE_START))
        elif step.family == "slice" and place == 3 and arg is None:
            terms.append((place, _TO_THE_END))
        elif arg is not None:
            terms.append((place, _lower(arg, frame)))
    return terms


def _index_item(item: ast.Expr | ast.Slice | ast.Dots, frame: Frame) -> Term:
    match item:
        case ast.Dots():
            return Literal(...)
        case ast.Slice(start, stop, step):
            return Bounds(*(Literal(None) if one is None else _lower(one, frame) for one in (start, stop, step)))
    return _lower(item, frame)
