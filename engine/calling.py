"""Calls of the rewrite-time language: its functions, ops on known tensors, trusted helpers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from ..dsl.source import Span
from ..dsl.vocabulary import FACTS, VOCABULARY
from . import computing, operators
from .facts import TENSORS, Capture, attribute
from .helping import call_helper
from .places import Code, Place
from .truth import Declined
from .words import ON_TENSORS, WORDS

Arguments: TypeAlias = Callable[[Place], tuple[tuple[object, ...], dict[str, object]]]


def function(name: str, arguments: Arguments, span: Span | None) -> Code:
    """The call of a function by its name."""

    def call(place: Place) -> object:
        args, kwargs = arguments(place)
        return _apply(name, args, kwargs, place, span)

    return call


def method(name: str, base: Code, arguments: Arguments, span: Span | None) -> Code:
    """``base.name(...)``: a fact, indexed by the argument, or a function of ``base``."""

    def call(place: Place) -> object:
        args, kwargs = arguments(place)
        value = base(place)
        if name not in FACTS:
            return _apply(name, (value, *args), kwargs, place, span)
        fact = attribute(value, name)
        return operators.index(fact, args[0]) if args else fact

    return call


def _apply(
    name: str, args: tuple[object, ...], kwargs: Mapping[str, object], place: Place, span: Span | None
) -> object:
    if name in place.scope.helpers:
        return _help(name, args, kwargs, place, span)
    on_tensor = bool(args) and isinstance(args[0], TENSORS)
    if name not in WORDS or (on_tensor and name in ON_TENSORS):
        return computing.apply(name, args, kwargs, place.scope)
    word = VOCABULARY[name]
    if kwargs or len(args) < word.least or (word.most is not None and len(args) > word.most):
        raise Declined(f"`{name}` does not take these arguments: {word.doc}")
    return WORDS[name](*args)


def _help(name: str, args: tuple[object, ...], kwargs: Mapping[str, object], place: Place, span: Span | None) -> object:
    """Call a trusted helper. It sees constants by value where that is allowed, other tensors as fake ones."""
    seen = tuple([_for_helper(arg) for arg in args])
    named = {key: _for_helper(value) for key, value in kwargs.items()}
    site = f"at node `{place.out.name}`" if place.out is not None else ""
    result = call_helper(name, place.scope.helpers[name], seen, named, span, site)
    return tuple(result) if isinstance(result, list) else result


def _for_helper(value: object) -> object:
    match value:
        case Capture(_, inner, views, freeze):
            constant = views.constant(inner) if freeze else None
            return value.fact("value") if constant is None else constant.detach()
        case tuple():
            return tuple(_for_helper(item) for item in value)
    return value
