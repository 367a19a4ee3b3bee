"""From a rule's tree to pattern terms: names resolved, patterns inlined, constants folded."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from itertools import count
from typing import NoReturn

from attrs import evolve, field, frozen

from ..dsl import ast
from ..dsl.nearest import did_you_mean
from ..dsl.source import FxrulesError, Problem, Span
from .constants import fold, named_constant
from .families import Family
from .indexing import IndexStep, steps_of
from .patterns import (
    Absent,
    Alternatives,
    Anything,
    As,
    Bind,
    Bounds,
    Deferred,
    Exact,
    Hole,
    Item,
    Literal,
    Maybe,
    Op,
    Rest,
    Sequence,
    Shared,
    Term,
    Through,
)
from .ruleset import Rule, Scope, find_pattern
from .spellings import read_param

BINARY_FAMILIES: Mapping[str, str] = {
    "+": "add", "-": "sub", "*": "mul", "/": "div", "//": "floor_divide", "%": "remainder", "@": "matmul",
    "**": "pow", "<<": "bitwise_left_shift", ">>": "bitwise_right_shift", "&": "bitwise_and", "|": "bitwise_or",
    "^": "bitwise_xor",
}  # fmt: skip
_FROM_THE_START = Alternatives((Literal(None), Literal(0, ast.Number(0))))
_TO_THE_END = Alternatives((Literal(None), Literal(sys.maxsize, ast.Number(sys.maxsize))))
UNARY_FAMILIES: Mapping[str, str] = {"-": "neg", "~": "bitwise_not"}


@frozen
class _Frame:
    """Where an expression stands: its scope, the names it sees, and the way in.

    ``prefix`` marks the slots of an inlined pattern; ``inside`` are the patterns
    being inlined, to refuse recursion.
    """

    scope: Scope
    leaves: Mapping[str, ast.Param]
    dims: frozenset[str]
    names: Mapping[str, Term] = field(factory=dict)
    prefix: str = ""
    inside: tuple[str, ...] = ()
    fresh: Iterator[int] = field(factory=count)


def lower(rule: Rule) -> Term:
    """The pattern term of a rule's ``match``.

    Raises FxrulesError, with the place, for what this version cannot match.
    """
    block = rule.match
    if len(block.results) != 1:
        _refuse(block.span, "a pattern with several results")
    frame = _Frame(rule.scope, rule.params, header_dims(rule.ast.params))
    for assign in block.assigns:
        frame = _assign(assign, frame)
    return _lower(_plain(block.results[0]), frame)


def header_dims(params: tuple[ast.Param, ...]) -> frozenset[str]:
    """All dim names in the declared shapes, ``*B`` and those in ``3 * E`` included."""
    found: set[str] = set()
    pending: list[object] = [dim for param in params if param.type and param.type.dims for dim in param.type.dims]
    while pending:
        match pending.pop():
            case ast.StarDim(name) | ast.Name(name):
                found.add(name)
            case ast.Binary(_, left, right):
                pending += [left, right]
            case ast.Unary(_, operand):
                pending.append(operand)
    return frozenset(found)


def _refuse(span: Span | None, what: str, hint: str = "") -> NoReturn:
    raise FxrulesError(Problem(span, "unsupported", f"{what} is not supported by this version of fxrules", hint))


def _wrong(span: Span | None, code: str, message: str, hint: str = "") -> NoReturn:
    raise FxrulesError(Problem(span, code, message, hint))


def _plain(expr: object) -> ast.Expr:
    match expr:
        case ast.Star(_, span=span):
            _refuse(span, "`*` at this place of a pattern")
        case ast.Keyword() | ast.StarStar() | ast.Slice() | ast.StarDim():
            raise AssertionError(f"{expr} is no expression")
    return expr  # type: ignore[return-value]


def _assign(assign: ast.Assign, frame: _Frame) -> _Frame:
    term = _lower(assign.value, frame)
    if len(assign.targets) == 1:
        name = assign.targets[0]
        return evolve(frame, names={**frame.names, name: Shared(frame.prefix + name, term)})
    whole = Shared(f"{frame.prefix}:{','.join(assign.targets)}", term)
    pieces: dict[str, Term] = {}
    for index, name in enumerate(assign.targets):
        if name.startswith("*"):
            _refuse(assign.span, f"the starred target `{name}`")
        if name != "_":
            pieces[name] = Shared(frame.prefix + name, Item(whole, Literal(index)))
    return evolve(frame, names={**frame.names, **pieces})


def _lower(expr: ast.Expr, frame: _Frame) -> Term:
    static = _static(expr, frame)
    if static is not None:
        return static
    match expr:
        case ast.Name(id, span=span):
            return _name(id, span, frame)
        case ast.String(value):
            return Literal(value)
        case ast.Call():
            return _call(expr, frame)
        case ast.Binary("??", span=span):
            _refuse(span, "`??` in a pattern", "`??` takes the first bound value in `where`, `let` and `rewrite`")
        case ast.Binary(op, left, right):
            return _operator(BINARY_FAMILIES[op], (left, right), frame)
        case ast.Unary(op, operand, span=span) if op in UNARY_FAMILIES:
            return _operator(UNARY_FAMILIES[op], (operand,), frame)
        case ast.Attribute(value, name):
            return Op(_family(name, expr.span, frame), ((0, _lower(value, frame)),))
        case ast.Index():
            return _index(expr, frame)
        case ast.Optional(ast.Call() as call):
            return Alternatives((_lower(call, frame), _lower(_first_argument(call, frame), frame)))
        case ast.As(value, name):
            return As(_lower(value, frame), frame.prefix + name)
        case ast.Through(value, name):
            return Through(_lower(value, frame), _step(name, expr.span, frame))
        case ast.Or(operands):
            return Alternatives(tuple(_lower(one, frame) for one in operands))
        case ast.Tuple(items) | ast.List(items):
            return Sequence(tuple(_element(item, frame) for item in items))
    _wrong(expr.span, "not-a-pattern", "this cannot stand in a pattern: it is computed at rewrite time, use `where`")


def _static(expr: ast.Expr, frame: _Frame) -> Term | None:
    """The term of a rewrite-time expression: a literal, or deferred where it needs dims."""
    match expr:
        case ast.Number(value):
            return Literal(value, expr)
        case ast.Unary("-", ast.Number(value, tolerance)):
            return Literal(-value, ast.Number(-value, tolerance))
        case ast.Name(id) if id not in frame.dims:
            return None  # a lone name is resolved by `_name`, which knows what shadows what
    known = {
        name: value
        for name, value in frame.scope.constants.items()
        if name not in frame.leaves and name not in frame.names
    }
    folded = fold(expr, known)
    if folded is not None:
        return Literal(folded, ast.Number(folded))
    hidden = frame.leaves.keys() | frame.names.keys()
    stand_ins = dict.fromkeys(frame.dims - hidden, 1) if not frame.prefix else {}
    return Deferred(expr) if stand_ins and fold(expr, {**known, **stand_ins}) is not None else None


def _name(id: str, span: Span | None, frame: _Frame) -> Term:
    if id == "_":
        return Anything()
    if id in frame.names:
        return frame.names[id]
    if id in frame.leaves and not frame.prefix:
        return Bind(id)
    if id in frame.scope.constants:
        value = frame.scope.constants[id]
        return Literal(value, ast.Number(value))
    found, constant = named_constant(id)
    if found:
        return Literal(constant, ast.Number(constant) if isinstance(constant, float) else None)
    if frame.prefix:
        return Bind(frame.prefix + id)
    return _wrong(span, "unbound", f"`{id}` is not declared in the rule's header", did_you_mean(id, frame.leaves))


def _family(name: str, span: Span | None, frame: _Frame) -> Family:
    family = frame.scope.table.families.get(frame.scope.ops.get(name, name))
    if family is None:
        _wrong(span, "unknown-op", f"`{name}`: no such op", did_you_mean(name, frame.scope.table.families))
    return family


def _operator(name: str, operands: tuple[ast.Expr, ...], frame: _Frame) -> Term:
    family = _family(name, operands[0].span, frame)
    optional = [isinstance(one, ast.Optional) and not isinstance(one.value, ast.Call) for one in operands]
    if not any(optional):
        return Op(family, tuple((i, _lower(one, frame)) for i, one in enumerate(operands)))
    if all(optional):
        _wrong(operands[0].span, "optional", "one operand of an operator must be there: both are optional")
    absent = optional.index(True)
    plain = [getattr(one, "value", one) if is_leaf else one for one, is_leaf in zip(operands, optional, strict=True)]
    present = [_lower(one, frame) for one in plain]
    names = _leaf_names(present[absent])
    return Alternatives((Op(family, tuple(enumerate(present))), Absent(names, present[1 - absent])))


def _leaf_names(term: Term) -> tuple[str, ...]:
    """The captures of a term that become None where it is absent."""
    match term:
        case Bind(name) | As(_, name) | Shared(name, _):
            return (name,)
    return ()


def _call(call: ast.Call, frame: _Frame) -> Term:
    match call.func:
        case ast.Name(id, span=span):
            if find_pattern(id, frame.scope) and id not in frame.names:
                return _inline(call, frame)
            if id in frame.leaves:
                _refuse(span, "calling a module leaf")
            return _op(_family(id, span, frame), call.args, frame)
        case ast.Attribute(base, name, span=span):
            if find_pattern(call.func, frame.scope):
                return _inline(call, frame)
            if _is_method(call.func, frame):
                return _op(_family(name, span, frame), (base, *call.args), frame)
            return _exact(_dotted(call.func) or name, call, frame)
    return _wrong(call.span, "not-a-pattern", "only an op, a named pattern or a method can be called in a pattern")


def _dotted(expr: ast.Expr) -> str | None:
    match expr:
        case ast.Name(id):
            return id
        case ast.Attribute(value, name):
            head = _dotted(value)
            return f"{head}.{name}" if head else None
    return None


def _first_argument(call: ast.Call, frame: _Frame) -> ast.Expr:
    """What is left of ``wrap(x)?`` without the wrapper."""
    match call.func:
        case ast.Attribute(base) if _is_method(call.func, frame):
            return base
    if not call.args:
        _wrong(call.span, "arity", "an optional wrapper needs an argument")
    first = call.args[0]
    return first.value if isinstance(first, ast.Keyword) else _plain(first)


def _is_method(func: ast.Attribute, frame: _Frame) -> bool:
    """Whether ``x.f(...)`` calls an op on ``x``, and not the exact target ``x.f``."""
    if find_pattern(func, frame.scope):
        return False
    dotted = _dotted(func)
    return dotted is None or dotted.partition(".")[0] in (frame.leaves.keys() | frame.names.keys())


def _op(family: Family, args: tuple[object, ...], frame: _Frame) -> Term:
    names = [param.name for param in family.params]
    bound: dict[int, Term] = {}
    config, loose, position = None, False, 0
    for arg in args:
        match arg:
            case ast.StarStar(name):
                config = frame.prefix + name
            case ast.Dots():
                loose = True
            case ast.Keyword(name, value, span=span):
                if name not in names:
                    _wrong(span, "unknown-keyword", f"`{family.name}` takes no `{name}`", did_you_mean(name, names))
                bound[names.index(name)] = _argument(value, family, names.index(name), frame)
            case _:
                value = _plain(arg)
                if position >= len(names):
                    _wrong(value.span, "arity", f"`{family.name}` takes at most {len(names)} arguments")
                bound[position] = _argument(value, family, position, frame)
                position += 1
    return Op(family, tuple(sorted(bound.items(), key=lambda item: item[0])), config, loose)


def _argument(value: ast.Expr, family: Family, position: int, frame: _Frame) -> Term:
    if isinstance(value, ast.Optional) and not isinstance(value.value, ast.Call):
        inner = _lower(value.value, frame)
        return Maybe(_leaf_names(inner), inner)
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


def _exact(target: str, call: ast.Call, frame: _Frame) -> Term:
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
                _refuse(span, "`**` in a call of an exact target")
            case _:
                positional.append(_lower(_plain(arg), frame))
    return Exact(target, tuple(positional), tuple(keywords), loose)


def _inline(call: ast.Call, frame: _Frame) -> Term:
    found = find_pattern(call.func, frame.scope)
    assert found is not None
    pattern, scope = found
    given: dict[str, ast.Expr] = {}
    names = [param.name for param in pattern.params]
    for position, arg in enumerate(call.args):
        name, value = (arg.name, arg.value) if isinstance(arg, ast.Keyword) else (None, _plain(arg))
        if name is None and position < len(names):
            name = names[position]
        if name not in names:
            _wrong(call.span, "arity", f"pattern `{pattern.name}` takes ({', '.join(names)})")
        given[name] = value
    missing = [param.name for param in pattern.params if param.name not in given and param.default is None]
    if missing:
        _wrong(call.span, "arity", f"pattern `{pattern.name}` also needs `{missing[0]}`")
    terms = {name: _lower(value, frame) for name, value in given.items()}
    return _body(pattern, scope, terms, frame, call.span)


def _body(pattern: ast.Pattern, scope: Scope, terms: Mapping[str, Term], frame: _Frame, span: Span | None) -> Term:
    """The pattern's body with ``terms`` for its parameters; each is matched once."""
    if pattern.name in frame.inside:
        _refuse(span, f"the recursive pattern `{pattern.name}`")
    prefix = f"{frame.prefix}{pattern.name}@{next(frame.fresh)}:"
    names = {name: _once(prefix + name, term) for name, term in terms.items()}
    inner = _Frame(scope, {}, frozenset(), names, prefix, (*frame.inside, pattern.name), frame.fresh)
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


def _step(name: str, span: Span | None, frame: _Frame) -> Term:
    """One node that a ``through`` may pass, with a `Hole` for the value inside."""
    found = find_pattern(name, frame.scope)
    if found:
        pattern, scope = found
        first = pattern.params[0].name if pattern.params else ""
        return _body(pattern, scope, {first: Hole()}, frame, span)
    if name in frame.scope.opsets:
        members = frame.scope.opsets[name]
        return Alternatives(tuple(Op(_family(one, span, frame), ((0, Hole()),)) for one in members))
    known = [*frame.scope.patterns, *frame.scope.opsets]
    return _wrong(span, "unknown-pattern", f"`{name}`: no such pattern or opset", did_you_mean(name, known))


def _element(item: ast.Expr | ast.Star, frame: _Frame) -> Term | Rest:
    match item:
        case ast.Star(ast.Name("_")):
            return Rest(None)
        case ast.Star(ast.Name(id)):
            return Rest(frame.prefix + id)
        case ast.Star(ast.List((ast.Star() as inner,))):
            return _element(inner, frame)
        case ast.Star(_, span=span):
            _refuse(span, "a pattern for every element of a list")
    return _lower(item, frame)


def _index(expr: ast.Index, frame: _Frame) -> Term:
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
        op = Op(_family(step.family, expr.span, frame), ((0, chain), *_index_args(step, frame)))
        chain = Alternatives((op, chain)) if step.optional else op
    return Alternatives((whole, chain)) if steps else whole


def _index_args(step: IndexStep, frame: _Frame) -> list[tuple[int, Term]]:
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


def _index_item(item: ast.Expr | ast.Slice | ast.Dots, frame: _Frame) -> Term:
    match item:
        case ast.Dots():
            return Literal(...)
        case ast.Slice(start, stop, step):
            return Bounds(*(Literal(None) if one is None else _lower(one, frame) for one in (start, stop, step)))
    return _lower(item, frame)
