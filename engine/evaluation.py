"""The rewrite-time language: expressions of ``where`` and ``let`` over captured values.

Evaluation only reads. It runs no code of the rule file: names are captures, dims,
constants, words of the language, ops of the family table (on known tensors) and the
helpers that the caller trusts. Work and sizes are bounded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

import torch
from attrs import define, evolve, frozen
from torch.fx import Node

from ..dsl import ast
from ..dsl.source import FxrulesError, Problem
from ..dsl.vocabulary import DTYPE_SETS, DTYPES, FACTS, MEASURES, VOCABULARY
from . import computing, measures, operators
from .constants import named_constant
from .facts import Capture, attribute, capture, release
from .nodeview import Views
from .ruleset import Scope
from .truth import Declined, Truth, Unknown, conjunction, disjunction, truth_of
from .words import ON_TENSORS, WORDS, items_of, truthful

__all__ = ["Declined", "Unknown", "evaluate", "holds"]

_MOST_STEPS = 100_000


@define
class _Budget:
    steps: int = _MOST_STEPS

    def spend(self) -> None:
        self.steps -= 1
        if self.steps < 0:
            raise Declined(f"this takes more than {_MOST_STEPS} steps")


@frozen
class _Place:
    """What an expression can see."""

    bindings: Mapping[str, object]
    views: Views
    scope: Scope
    out: Node | None
    freeze: bool
    budget: _Budget


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

    ``out`` is the matched root (``$out``); the values of constant tensors are read only
    with ``freeze``. Raises Unknown for a fact that the graph does not have, `computing.Frozen`
    where a value would have to be read without ``freeze``, Declined for anything else.
    """
    return release(_evaluate(expr, _Place(bindings, views, scope, out, freeze, _Budget())))


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
    return _test(expr, _Place(bindings, views, scope, out, freeze, _Budget()))


def _test(expr: ast.Expr, place: _Place) -> bool:
    return truthful(_evaluate(expr, place))


def _truths(exprs: tuple[ast.Expr, ...], place: _Place) -> Iterator[Truth]:
    return (truth_of(partial(_test, expr, place)) for expr in exprs)


def _evaluate(expr: ast.Expr, place: _Place) -> object:
    place.budget.spend()
    match expr:
        case ast.Number(value) | ast.String(value):
            return value
        case ast.Name(id):
            return _name(id, place)
        case ast.Special("out"):
            return capture("$out", place.out, place.views, place.freeze)
        case ast.Attribute():
            return _attribute(expr, place)
        case ast.Call():
            return _call(expr, place)
        case ast.Unary("not", operand):
            return not _test(operand, place)
        case ast.Unary(op, operand):
            return operators.unary(op, _evaluate(operand, place))
        case ast.Binary("??", left, right):
            first = _evaluate(left, place)
            return _evaluate(right, place) if first is None else first
        case ast.Binary(op, left, right):
            return operators.binary(op, _evaluate(left, place), _evaluate(right, place))
        case ast.And(operands):
            return conjunction(_truths(operands, place))
        case ast.Or(operands):
            return disjunction(_truths(operands, place))
        case ast.Compare(ops, operands):
            return operators.compare(ops, [_evaluate(operand, place) for operand in operands])
        case ast.IfElse(then, test, other):
            return _evaluate(then if _test(test, place) else other, place)
        case ast.Tuple(items) | ast.List(items):
            return _items(items, place)
        case ast.Comprehension():
            return tuple(_evaluate(expr.element, inner) for inner in _each(expr, place))
        case ast.Index(value, items):
            keys = tuple(_key(item, place) for item in items)
            return operators.index(_evaluate(value, place), keys[0] if len(keys) == 1 else keys)
        case ast.Dict(entries):
            return {_evaluate(key, place): _evaluate(value, place) for key, value in entries}
    raise Declined("this is part of a pattern and has no value at rewrite time")


def _name(id: str, place: _Place) -> object:
    if id in place.bindings:
        return capture(id, place.bindings[id], place.views, place.freeze)
    if id in place.scope.constants:
        return place.scope.constants[id]
    found, constant = named_constant(id)
    if found:
        return constant
    if id in DTYPE_SETS:
        dtypes = tuple(getattr(torch, DTYPES.get(name, name)) for name in DTYPE_SETS[id])
        return dtypes[0] if id in DTYPES else dtypes
    raise Declined(f"`{id}` has no value here")


def _attribute(expr: ast.Attribute, place: _Place) -> object:
    value = _evaluate(expr.value, place)
    if expr.name in FACTS or not isinstance(value, Capture | torch.Tensor):
        return attribute(value, expr.name)
    return computing.apply(expr.name, (value,), {}, place.scope)


def _items(items: tuple[ast.Expr | ast.Star, ...], place: _Place) -> tuple[object, ...]:
    found: list[object] = []
    for item in items:
        if isinstance(item, ast.Star):
            found += items_of(_evaluate(item.value, place))
        else:
            found.append(_evaluate(item, place))
    return items_of(tuple(found))


def _each(expr: ast.Comprehension, place: _Place) -> Iterator[_Place]:
    """The places in which the element of a comprehension is evaluated, one for each item that passes."""
    for item in items_of(_evaluate(expr.iterable, place)):
        inner = evolve(place, bindings={**place.bindings, expr.name: item})
        if expr.condition is None or _test(expr.condition, inner):
            yield inner


def _key(item: ast.Expr | ast.Slice | ast.Dots, place: _Place) -> object:
    match item:
        case ast.Dots():
            return ...
        case ast.Slice():
            parts = (item.start, item.stop, item.step)
            return slice(*(None if part is None else _evaluate(part, place) for part in parts))
    return _evaluate(item, place)


def _call(call: ast.Call, place: _Place) -> object:
    match call.func:
        case ast.Name(id) if id in MEASURES:
            return measures.measure(id, call.args, place.views, place.scope)
        case ast.Name("all" | "any" as id) if call.args and isinstance(call.args[0], ast.Comprehension | ast.List):
            return _quantified(id, call.args[0], place)
        case ast.Name(id):
            args, kwargs = _arguments(call, place)
            return _apply(id, args, kwargs, call, place)
        case ast.Attribute(base, name):
            args, kwargs = _arguments(call, place)
            value = _evaluate(base, place)
            if name in FACTS:
                fact = attribute(value, name)
                return operators.index(fact, args[0]) if args else fact
            return _apply(name, (value, *args), kwargs, call, place)
    raise Declined("only a function or a method can be called")


def _arguments(call: ast.Call, place: _Place) -> tuple[tuple[object, ...], dict[str, object]]:
    args: list[object] = []
    kwargs: dict[str, object] = {}
    for arg in call.args:
        match arg:
            case ast.Keyword(name, value):
                kwargs[name] = _evaluate(value, place)
            case ast.Star(value):
                args += items_of(_evaluate(value, place))
            case ast.StarStar() | ast.Dots():
                raise Declined("`**` and `...` stand in patterns only")
            case _:
                args.append(_evaluate(arg, place))
    return tuple(args), kwargs


def _quantified(word: str, items: ast.Comprehension | ast.List, place: _Place) -> bool:
    """``all`` and ``any`` look at their items one by one, so that a known item decides in spite of unknown ones."""
    if isinstance(items, ast.Comprehension):
        truths: Iterator[Truth] = (truth_of(partial(_test, items.element, inner)) for inner in _each(items, place))
    else:
        truths = (truth for item in items.items for truth in _truths_of(item, place))
    return conjunction(truths) if word == "all" else disjunction(truths)


def _truths_of(item: ast.Expr | ast.Star, place: _Place) -> Iterator[Truth]:
    if isinstance(item, ast.Star):
        values = items_of(_evaluate(item.value, place))
        return (truth_of(partial(truthful, value)) for value in values)
    return _truths((item,), place)


def _apply(name: str, args: tuple[object, ...], kwargs: dict[str, object], call: ast.Call, place: _Place) -> object:
    if name in place.scope.helpers:
        return _help(name, args, kwargs, call, place)
    on_tensor = bool(args) and isinstance(args[0], Capture | torch.Tensor)
    if name not in WORDS or (on_tensor and name in ON_TENSORS):
        return computing.apply(name, args, kwargs, place.scope)
    word = VOCABULARY[name]
    if kwargs or len(args) < word.least or (word.most is not None and len(args) > word.most):
        raise Declined(f"`{name}` does not take these arguments: {word.doc}")
    return WORDS[name](*args)


def _help(name: str, args: tuple[object, ...], kwargs: dict[str, object], call: ast.Call, place: _Place) -> object:
    """Call a trusted helper. It sees constants by value where that is allowed, other tensors as fake ones."""
    seen = [_for_helper(arg) for arg in args]
    try:
        result = place.scope.helpers[name](*seen, **{key: _for_helper(value) for key, value in kwargs.items()})
    except (Declined, Unknown):
        raise
    except Exception as error:
        raise FxrulesError(
            Problem(call.span, "helper-failed", f"the helper `{name}` raised {type(error).__name__}: {error}")
        ) from error
    return tuple(result) if isinstance(result, list) else result


def _for_helper(value: object) -> object:
    match value:
        case Capture(_, inner, views, freeze):
            constant = views.constant(inner) if freeze else None
            return value.fact("value") if constant is None else constant.detach()
        case tuple():
            return tuple(_for_helper(item) for item in value)
    return value
