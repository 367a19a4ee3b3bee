"""The rewrite-time language: expressions of ``where`` and ``let`` over captured values.

Evaluation only reads. It runs no code of the rule file: names are captures, dims,
constants, words of the language, ops of the family table (on known tensors) and the
helpers that the caller trusts. Work and sizes are bounded.

An expression is compiled to closures, once for all candidates of its rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial

from attrs import evolve
from torch.fx import Node

from ..dsl import ast
from ..dsl.vocabulary import FACTS, MEASURES
from ..dsl.walking import walk
from . import calling, computing, measures, operators
from .calling import Arguments
from .constants import constant_of
from .facts import TENSORS, attribute, capture
from .nodeview import Views
from .places import Code, Place, is_true, value_of
from .ruleset import Scope
from .truth import Declined, Truth, Unknown, conjunction, disjunction, truth_of
from .words import items_of, truthful

__all__ = ["Declined", "Unknown", "compiled", "evaluate", "holds"]


def evaluate(
    expr: ast.Expr,
    bindings: Mapping[str, object],
    views: Views,
    scope: Scope,
    *,
    out: Node | None = None,
    freeze: bool = False,
) -> object:
    """The value of a rewrite-time expression: a number or size, text, dtype, tuple, tensor or captured node.

    ``out`` and ``freeze`` as in `Place`. Raises Unknown for a fact that the graph does not
    have, `computing.Frozen` where a value would have to be read without ``freeze``,
    Declined for anything else.
    """
    return value_of(compiled(expr), Place(bindings, views, scope, out, freeze))


def holds(
    expr: ast.Expr,
    bindings: Mapping[str, object],
    views: Views,
    scope: Scope,
    *,
    out: Node | None = None,
    freeze: bool = False,
) -> bool:
    """Whether a condition is true; raises as `evaluate` does. ``and``, ``or``, ``not`` are three-valued."""
    return is_true(compiled(expr), Place(bindings, views, scope, out, freeze))


def compiled(expr: ast.Expr) -> Code:
    """The expression as a function of the place where it stands. What has no value fails when it is reached."""
    match expr:
        case ast.Number(constant) | ast.String(constant):
            return lambda place: constant
        case ast.Name(id):
            return _name(id)
        case ast.Special("out"):
            return lambda place: capture("$out", place.out, place.views, place.freeze)
        case ast.Attribute(base, name):
            return _attribute(compiled(base), name)
        case ast.Call():
            return _call(expr)
        case ast.Unary("not", operand):
            test = compiled(operand)
            return lambda place: not truthful(test(place))
        case ast.Unary(op, operand):
            value = compiled(operand)
            return lambda place: operators.unary(op, value(place))
        case ast.Binary(op, first, second):
            return _binary(op, compiled(first), compiled(second))
        case ast.And(operands):
            return _every(tuple(map(compiled, operands)), wanted=True)
        case ast.Or(operands):
            return _every(tuple(map(compiled, operands)), wanted=False)
        case ast.Compare(ops, operands):
            return _compare(ops, tuple(map(compiled, operands)))
        case ast.IfElse(then, condition, other):
            yes, test, no = compiled(then), compiled(condition), compiled(other)
            return lambda place: yes(place) if truthful(test(place)) else no(place)
        case ast.Tuple(items) | ast.List(items):
            return _items(items)
        case ast.Comprehension():
            element, places = compiled(expr.element), _places(expr)
            return lambda place: tuple([element(inner) for inner in places(place)])
        case ast.Index(base, items):
            return _index(compiled(base), items)
        case ast.Dict(entries):
            pairs = tuple((compiled(key), compiled(item)) for key, item in entries)
            return lambda place: {key(place): item(place) for key, item in pairs}
    return _declines("this is part of a pattern and has no value at rewrite time")


def _declines(reason: str) -> Code:
    def decline(place: Place) -> object:
        raise Declined(reason)

    return decline


def _name(id: str) -> Code:
    is_known, known = constant_of(id)

    def read(place: Place) -> object:
        if id in place.bindings:
            return capture(id, place.bindings[id], place.views, place.freeze)
        if id in place.scope.constants:
            return place.scope.constants[id]
        if is_known:
            return known
        raise Declined(f"`{id}` has no value here")

    return read


def _attribute(base: Code, name: str) -> Code:
    if name in FACTS:
        return lambda place: attribute(base(place), name)

    def read(place: Place) -> object:
        value = base(place)
        if isinstance(value, TENSORS):
            return computing.apply(name, (value,), {}, place.scope)
        return attribute(value, name)

    return read


def _binary(op: str, left: Code, right: Code) -> Code:
    if op != "??":
        return lambda place: operators.binary(op, left(place), right(place))

    def first_known(place: Place) -> object:
        value = left(place)
        return right(place) if value is None else value

    return first_known


def _compare(ops: tuple[str, ...], values: tuple[Code, ...]) -> Code:
    if len(ops) > 1:
        return lambda place: operators.compare(ops, [value(place) for value in values])
    op, (left, right) = ops[0], values
    return lambda place: operators.compare_two(op, left(place), right(place))


def _every(tests: tuple[Code, ...], *, wanted: bool) -> Code:
    """``and``: whether all tests come out as ``wanted`` (True); ``or`` is the same for False, turned round.

    The first test that comes out otherwise decides, in spite of unknown ones before it.
    """

    def test_all(place: Place) -> bool:
        doubt: Unknown | None = None
        for test in tests:
            try:
                if truthful(test(place)) is not wanted:
                    return not wanted
            except Unknown as unknown:
                doubt = doubt or unknown
        if doubt is not None:
            raise doubt
        return wanted

    return test_all


# ------------------------------------------------------------- lists, indices
def _items(items: tuple[ast.Expr | ast.Star, ...]) -> Code:
    codes = tuple(map(_item, items))

    def build(place: Place) -> object:
        found: list[object] = []
        for is_spread, code in codes:
            if is_spread:
                found += items_of(code(place))
            else:
                found.append(code(place))
        return items_of(tuple(found))

    return build


def _item(item: ast.Expr | ast.Star) -> tuple[bool, Code]:
    """Whether an item of a list stands for several, and what it is."""
    return (True, compiled(item.value)) if isinstance(item, ast.Star) else (False, compiled(item))


def _places(expr: ast.Comprehension) -> Callable[[Place], Iterator[Place]]:
    """The places in which the element of a comprehension is evaluated, one for each item that passes."""
    iterable, name = compiled(expr.iterable), expr.name
    condition = None if expr.condition is None else compiled(expr.condition)
    cost = sum(1 for _ in walk(expr))

    def each(place: Place) -> Iterator[Place]:
        for item in items_of(iterable(place)):
            place.budget.spend(cost)
            inner = evolve(place, bindings={**place.bindings, name: item})
            if condition is None or truthful(condition(inner)):
                yield inner

    return each


def _index(base: Code, items: tuple[ast.Expr | ast.Slice | ast.Dots, ...]) -> Code:
    keys = tuple(map(_key, items))

    def read(place: Place) -> object:
        found = tuple([key(place) for key in keys])
        return operators.index(base(place), found[0] if len(found) == 1 else found)

    return read


def _key(item: ast.Expr | ast.Slice | ast.Dots) -> Code:
    match item:
        case ast.Dots():
            return lambda place: ...
        case ast.Slice():
            parts = tuple(None if part is None else compiled(part) for part in (item.start, item.stop, item.step))
            return lambda place: slice(*[None if part is None else part(place) for part in parts])
    return compiled(item)


# ---------------------------------------------------------------------- calls
def _call(call: ast.Call) -> Code:
    match call.func:
        case ast.Name(id) if id in MEASURES:
            return lambda place: measures.measure(id, call.args, place.views, place.scope)
        case ast.Name("all" | "any" as id) if call.args and isinstance(call.args[0], ast.Comprehension | ast.List):
            return _quantified(id, call.args[0])
        case ast.Name(id):
            return calling.function(id, _arguments(call), call.span)
        case ast.Attribute(base, name):
            return calling.method(name, compiled(base), _arguments(call), call.span)
    return _declines("only a function or a method can be called")


def _arguments(call: ast.Call) -> Arguments:
    steps = tuple(map(_argument, call.args))

    def collect(place: Place) -> tuple[tuple[object, ...], dict[str, object]]:
        args: list[object] = []
        kwargs: dict[str, object] = {}
        for kind, code in steps:
            if kind is None:
                args.append(code(place))
            elif kind == "*":
                args += items_of(code(place))
            else:
                kwargs[kind] = code(place)
        return tuple(args), kwargs

    return collect


def _argument(arg: ast.Expr | ast.Keyword | ast.Star | ast.StarStar | ast.Dots) -> tuple[str | None, Code]:
    """The keyword of an argument, ``*`` where it stands for several, None for a plain one; and its value."""
    match arg:
        case ast.Keyword(name, value):
            return name, compiled(value)
        case ast.Star(value):
            return "*", compiled(value)
        case ast.StarStar() | ast.Dots():
            return None, _declines("`**` and `...` stand in patterns only")
    return None, compiled(arg)


def _quantified(word: str, items: ast.Comprehension | ast.List) -> Code:
    """``all`` and ``any`` look at their items one by one, so that a known item decides in spite of unknown ones."""
    decide = conjunction if word == "all" else disjunction
    if isinstance(items, ast.Comprehension):
        element, places = compiled(items.element), _places(items)
        return lambda place: decide(truth_of(partial(is_true, element, inner)) for inner in places(place))
    codes = tuple(map(_item, items.items))
    return lambda place: decide(truth for is_spread, code in codes for truth in _truths(is_spread, code, place))


def _truths(is_spread: bool, code: Code, place: Place) -> Iterator[Truth]:
    if is_spread:
        return (truth_of(partial(truthful, value)) for value in items_of(code(place)))
    return iter((truth_of(partial(is_true, code, place)),))
