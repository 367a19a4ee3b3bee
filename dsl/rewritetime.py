"""Rewrite-time code: the expressions of ``where``, ``let``, ``shrinks`` and conditions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set

from attrs import evolve, field, frozen

from . import ast
from .callees import find_op
from .calls import Argument, Call, check_call, check_plain
from .graphcode import unknown_special
from .headers import Kind, unknown_package
from .nearest import did_you_mean, did_you_mean_target
from .scopes import FileScope, find_pattern, is_constant
from .source import Problem, Span
from .vocabulary import DTYPES, FACTS, MEASURES, VOCABULARY
from .walking import Part, dotted, parts

_ASK_ONLY = frozenset(
    {
        "broadcastable", "depends_on", "enumerate", "is_const", "is_contiguous", "is_input", "is_number", "is_output",
        "is_symbolic", "is_tensor", "len", "list", "op", "path", "reversed", "same", "same_device", "same_dtype",
        "same_shape", "tuple", "user_ops", "users", "uses", "zip",
    }
)  # fmt: skip
"""Functions that look at facts and never at the elements of a tensor."""


@frozen
class Moment:
    """What rewrite-time code can see: names with their kinds, and those whose values may be read."""

    scope: FileScope
    names: Mapping[str, Kind]
    readable: Set[str] = frozenset()
    later: Set[str] = frozenset()
    ops: Mapping[str, tuple[str, ...]] = field(factory=dict)
    has_root: bool = True
    measures: bool = False
    elementwise: bool = False


def check_now(expr: Part, moment: Moment, *, reads: bool = False) -> Iterator[Problem]:
    """An expression that runs at rewrite time; ``reads`` where a tensor's elements would be looked at."""
    match expr:
        case ast.Name():
            yield from _check_name(expr, moment, reads)
        case ast.Special(id):
            if id == "any" or (id == "out" and not moment.has_root):
                where = "in the result of an `example`" if id == "any" else "in `where` and `let`"
                yield Problem(expr.span, "misplaced", f"`${id}` cannot stand here", f"it stands {where}")
            elif id != "out":
                yield unknown_special(expr)
        case ast.Number(_, tolerance):
            if tolerance is not None:
                hint = "write a comparison"
                yield Problem(expr.span, "misplaced", "a tolerance `~` belongs to a literal of a pattern", hint)
        case ast.As() | ast.Through() | ast.Flat() | ast.Optional() | ast.Dots() | ast.StarStar():
            yield Problem(expr.span, "misplaced", f"{_described(expr)} is for patterns and cannot stand here")
        case ast.Attribute():
            yield from _check_attribute(expr, moment, reads)
        case ast.Call():
            yield from _check_call(expr, moment)
        case ast.Compare(ops, operands):
            yield from _check_none_tests(expr)
            asks = set(ops) <= {"is", "is not"} or ast.Name("None") in operands
            for operand in operands:
                yield from check_now(operand, moment, reads=not asks)
        case ast.Binary("??", left, right):
            yield from check_now(left, moment, reads=reads)
            yield from check_now(right, moment, reads=reads)
        case ast.Binary() | ast.Index() | ast.Unary("-" | "~"):
            for part in parts(expr):
                yield from check_now(part, moment, reads=True)
        case ast.Comprehension(element, name, iterable, condition):
            yield from check_now(iterable, moment)
            inner = evolve(moment, names={**moment.names, name: Kind.ANY})
            for part in (element,) if condition is None else (element, condition):
                yield from check_now(part, inner)
        case ast.IfElse(then, test, other):
            yield from check_now(test, moment)
            yield from check_now(then, moment, reads=reads)
            yield from check_now(other, moment, reads=reads)
        case _:
            for part in parts(expr):
                yield from check_now(part, moment)


def _described(expr: Part) -> str:
    match expr:
        case ast.As():
            return "`as`"
        case ast.Flat():
            return "`flat`"
        case ast.Through():
            return "`through`"
        case ast.Optional():
            return "`?`"
        case ast.StarStar():
            return "`**`"
    return "`...`"


# ------------------------------------------------------------------- names
def _check_name(name: ast.Name, moment: Moment, reads: bool) -> Iterator[Problem]:
    id = name.id
    if id in moment.names:
        if reads and not moment.elementwise:
            yield from _check_read(name, moment)
    elif id in moment.later:
        yield Problem(name.span, "use-before-assignment", f"`{id}` is used before it is assigned")
    elif not is_constant(moment.scope, id):
        yield Problem(name.span, "unbound", f"`{id}` is bound by nothing", _hint(id, moment))


def _hint(id: str, moment: Moment) -> str:
    if id == "_":
        return "`_` matches anything and has no value: give it a name in the match"
    long = {long: short for short, long in DTYPES.items()}
    if id in long:
        return f"did you mean `{long[id]}`?"
    near = did_you_mean(id, [*moment.names, *moment.scope.own.consts, *DTYPES])
    if near or not (id in VOCABULARY or find_op(moment.scope, id)):
        return near
    return f"`{id}` is called: `{id}(...)`"


def _check_read(name: ast.Name, moment: Moment) -> Iterator[Problem]:
    """Elements of a tensor are known only of ``const`` leaves that the rule may freeze."""
    kind = moment.names[name.id]
    if kind in (Kind.TENSOR, Kind.NODE):
        hint = f"declare `{name.id}` as `const`" if kind is Kind.TENSOR else "compute it in the rewrite"
        what = f"the elements of `{name.id}` are not known at rewrite time"
        yield Problem(name.span, "not-known", what, hint)
    elif kind is Kind.CONST and name.id not in moment.readable:
        what = f"reading the elements of `{name.id}` bakes them into the result"
        yield Problem(name.span, "needs-freeze", what, f"add the clause `freeze {name.id}`")


def _check_none_tests(expr: ast.Compare) -> Iterator[Problem]:
    for op, right in zip(expr.ops, expr.operands[1:], strict=True):
        if op in ("==", "!=") and right == ast.Name("None"):
            hint = f"write `{'is' if op == '==' else 'is not'} None`"
            yield Problem(expr.span, "compares-none", f"`{op} None` compares with a value", hint)


def _check_attribute(expr: ast.Attribute, moment: Moment, reads: bool) -> Iterator[Problem]:
    text = dotted(expr) or ""
    head, _, rest = text.partition(".")
    if head and head not in moment.names and not is_constant(moment.scope, head):
        yield from _check_qualified(expr, head, rest, moment)
        return
    kind = moment.names.get(head) if head == text.removesuffix(f".{expr.name}") else None
    if isinstance(expr.value, ast.Special):
        kind = Kind.NODE
    is_fact = expr.name in FACTS
    if kind in (Kind.TENSOR, Kind.CONST, Kind.NODE) and not is_fact and find_op(moment.scope, expr.name) is None:
        place = expr.span and Span(expr.span.source, expr.span.end - len(expr.name), expr.span.end)
        hint = did_you_mean(expr.name, FACTS) or f"the facts of a tensor: {', '.join(sorted(FACTS))}"
        yield Problem(place, "unknown-fact", f"`{expr.name}`: a tensor has no such fact", hint)
        reads = False
    yield from check_now(expr.value, moment, reads=reads and not is_fact)


def _check_qualified(expr: ast.Attribute, head: str, rest: str, moment: Moment) -> Iterator[Problem]:
    first: ast.Expr = expr
    while isinstance(first, ast.Attribute):
        first = first.value
    names = moment.scope.imports.get(head)
    if head in moment.scope.imports:
        if names is not None and rest not in names.consts:
            yield Problem(expr.span, "unbound", f"`{head}` has no constant `{rest}`", did_you_mean(rest, names.consts))
    elif head in moment.scope.ops.packages:
        short = {long: short for short, long in DTYPES.items()}.get(rest)
        hint = f"did you mean `{short}`?" if short else "dtypes have short names; an op is called"
        yield Problem(expr.span, "unbound", f"`{head}.{rest}` is not a value here", hint)
    elif isinstance(first, ast.Name):
        yield from _check_name(first, moment, False)


# ------------------------------------------------------------------- calls
def _check_call(call: ast.Call, moment: Moment) -> Iterator[Problem]:
    reads = True
    args: tuple[Argument, ...] = call.args
    match call.func:
        case ast.Name(id) if id in MEASURES:
            yield from _check_measure(call, id, moment)
            return
        case ast.Name(id):
            reads = id not in _ASK_ONLY and id not in moment.scope.helpers
            yield from _check_function(call, call.func, moment)
        case ast.Attribute(value, name):
            head = (dotted(call.func) or "").partition(".")[0]
            if not head or head in moment.names or is_constant(moment.scope, head):
                args = (value, *args)
                reads = name not in FACTS and name not in _ASK_ONLY
                yield from _check_method(call, name, args, moment)
            else:
                yield from _check_target(call, head, moment)
        case _:
            yield Problem(call.func.span, "unknown-function", "only a function or a method can be called")
    for arg in args:
        yield from check_now(arg.value if isinstance(arg, ast.Keyword) else arg, moment, reads=reads)


def _check_function(call: ast.Call, func: ast.Name, moment: Moment) -> Iterator[Problem]:
    name = func.id
    shape = Call(name, call.args, call.span)
    if name in moment.scope.helpers:
        return
    if name in moment.names:
        yield Problem(func.span, "unknown-function", f"`{name}` is a value and not a function")
        return
    if name in VOCABULARY and _fits(call, name):
        return
    signature = moment.scope.ops.families.get(name)
    if signature is not None:
        yield from check_call(shape, signature, open_ended=False)
    elif name in VOCABULARY:
        word = VOCABULARY[name]
        count = f"{word.least}" if word.most == word.least else f"{word.least} to {word.most or 'any number of'}"
        what = f"`{name}` takes {count} argument{'' if count == '1' else 's'} by place"
        yield Problem(call.span, "arity", what, f"{word.doc}")
    elif find_pattern(moment.scope, name):
        yield Problem(func.span, "misplaced", f"the pattern `{name}` matches graph code and cannot stand here")
    else:
        known = [*VOCABULARY, *moment.scope.helpers, *moment.scope.ops.families]
        hint = did_you_mean(name, [*VOCABULARY, *moment.scope.helpers]) or did_you_mean(name, known)
        yield Problem(func.span, "unknown-function", f"`{name}`: no such function", hint)


def _fits(call: ast.Call, name: str) -> bool:
    word = VOCABULARY[name]
    if any(isinstance(arg, ast.Keyword) for arg in call.args):
        return False
    if any(isinstance(arg, ast.Star) for arg in call.args):
        return True
    return word.least <= len(call.args) and (word.most is None or len(call.args) <= word.most)


def _check_method(call: ast.Call, name: str, args: tuple[Argument, ...], moment: Moment) -> Iterator[Problem]:
    if name in FACTS or name in moment.scope.helpers:
        return
    if name in VOCABULARY and _fits(ast.Call(call.func, args), name):
        return
    signature = moment.scope.ops.families.get(name)
    if signature is not None:
        yield from check_call(Call(name, args, call.span), signature, open_ended=False)
        return
    place = call.func.span and Span(call.func.span.source, call.func.span.end - len(name), call.func.span.end)
    known = [*VOCABULARY, *FACTS, *moment.scope.ops.families]
    yield Problem(place, "unknown-function", f"`{name}`: no such method", did_you_mean(name, known))


def _check_target(call: ast.Call, head: str, moment: Moment) -> Iterator[Problem]:
    text = dotted(call.func) or ""
    first: ast.Expr = call.func
    while isinstance(first, ast.Attribute):
        first = first.value
    signature = find_op(moment.scope, text)
    if signature is not None:
        yield from check_call(Call(text, call.args, call.span), signature, open_ended=False)
    elif head in moment.scope.ops.packages:
        hint = did_you_mean_target(text, moment.scope.ops.targets)
        yield Problem(call.func.span, "unknown-op", f"`{text}`: no such target", hint)
    elif head in moment.later and isinstance(first, ast.Name):
        yield from _check_name(first, moment, False)
    elif head not in moment.scope.imports:
        yield unknown_package(first.span, head, moment.scope)


def _check_measure(call: ast.Call, name: str, moment: Moment) -> Iterator[Problem]:
    """``count(relu)`` and ``depth(permute)``: the argument is an op and not a value."""
    if not moment.measures:
        what = f"`{name}` measures a whole graph and stands in `shrinks` only"
        yield Problem(call.span, "misplaced", what)
        return
    yield from check_plain(Call(name, call.args, call.span), ["op"])
    for arg in call.args[:1]:
        text = dotted(arg)
        if text is None or not (text in moment.ops or find_op(moment.scope, text)):
            shown = f"`{text}`: no such op" if text else f"`{name}` takes the name of an op"
            hint = did_you_mean(text, moment.scope.ops.families) if text else ""
            yield Problem(arg.span, "unknown-op", shown, hint)
