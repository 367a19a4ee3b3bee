"""The steps that compiled matchers are made of: small closures over slots of the environment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import torch
from attrs import frozen
from torch.fx import Node

from ..dsl import ast
from .candidates import Config
from .families import Family
from .nodeview import View, Views, same_number, same_value
from .patterns import Called, Exact, Literal

Env: TypeAlias = list[Any]
Matcher: TypeAlias = Callable[[Any, Env], bool]
Continuation: TypeAlias = Callable[[Env], bool]
ListStep: TypeAlias = Callable[[Env, int], bool]

# Where an argument stands: the slot of the view (or `ExactCall`) it belongs to, and its position in a family.
Place: TypeAlias = tuple[int, int | None]

UNBOUND: Final = object()
VIEWS, NODES, DEFERRED, TAKE, OTHERS, FIRST_FREE = 0, 1, 2, 3, 4, 5


def bind(slot: int, after: Continuation) -> Matcher:
    """The first value fills the slot; a later one must be the same."""

    def match(value: Any, env: Env) -> bool:
        if env[slot] is UNBOUND:
            env[slot] = value
            taken = after(env)
            env[slot] = UNBOUND
            return taken
        return same_value(env[slot], value) and after(env)

    return match


def with_none(slot: int, then: Matcher) -> Matcher:
    """Bind the slot to None, then match."""

    def match(value: Any, env: Env) -> bool:
        if env[slot] is not UNBOUND:
            return env[slot] is None and then(value, env)
        env[slot] = None
        taken = then(value, env)
        env[slot] = UNBOUND
        return taken

    return match


def maybe(absent: Matcher, present: Matcher) -> Matcher:
    """An optional argument: None is absent, anything else must match."""
    return lambda value, env: absent(value, env) if value is None else present(value, env)


def first_of(options: tuple[Matcher, ...]) -> Matcher:
    """Options in order."""

    if len(options) == 2:  # most have two, and a generator costs more than an option that fails
        first, second = options
        return lambda value, env: first(value, env) or second(value, env)
    return lambda value, env: any(option(value, env) for option in options)


def literal(term: Literal, after: Continuation, at: Place | None) -> Matcher:
    """A constant: numbers by value after rounding to the op's compute dtype, the rest by equality."""
    number, expected = term.number, term.value
    if number is None:
        return lambda value, env: same_value(expected, value) and after(env)

    def match(value: Any, env: Env) -> bool:
        if isinstance(value, Node):
            return False
        written = number
        if at is None:
            return same_number(written, value, None) and after(env)
        slot, position = at
        view = env[slot]
        if position is not None and view.family.params[position].is_dim:
            normal = env[VIEWS].normalise_literal(view, position, expected)
            normal = normal[0] if isinstance(normal, tuple) and normal else normal  # `value` is one item of a list
            written = ast.Number(normal) if isinstance(normal, int) else number
        if value is None and position is not None:
            return env[VIEWS].normalise_literal(view, position, expected) is None and after(env)
        rounds = isinstance(value, float) or isinstance(written.value, float)
        dtype = compute_dtype(view.node, view.args, env[VIEWS]) if rounds else None
        return same_number(written, value, dtype) and after(env)

    return match


def compute_dtype(node: Node, args: tuple[Any, ...], views: Views) -> torch.dtype | None:
    """The floating dtype an op computes in: its own, else that of its first floating tensor argument."""
    for value in (node, *args):
        fact = views.fact(value) if isinstance(value, Node) else None
        if isinstance(fact, torch.Tensor) and fact.dtype.is_floating_point:
            return fact.dtype
    return None


def defer(expr: ast.Expr, after: Continuation) -> Matcher:
    """Put an equality off until the dims are known."""

    def match(value: Any, env: Env) -> bool:
        env[DEFERRED].append((expr, value))
        taken = after(env)
        env[DEFERRED].pop()
        return taken

    return match


def covering(node: Node, env: Env, then: Continuation) -> bool:
    """Run ``then`` with ``node`` among the covered ones."""
    env[NODES].append(node)
    taken = then(env)
    env[NODES].pop()
    return taken


def op(
    family: str,
    view_slot: int,
    args_slot: int,
    strict: tuple[int, ...],
    swaps: bool,
    after: Continuation,
) -> Matcher:
    """One op of a family: defaults where the pattern is silent, then the arguments in each order."""

    def match_view(view: View, env: Env) -> bool:
        views: Views = env[VIEWS]
        for position in strict:
            if not views.is_default(view, position):
                return False
        env[view_slot], env[args_slot] = view, view.args
        if after(env):
            return True
        # `add(x, y, alpha=2)` does not commute: every argument behind the two must be at its default
        if not swaps or not all(views.is_default(view, position) for position in range(2, len(view.args))):
            return False
        first, second, *others = view.args
        env[args_slot] = (second, first, *others)
        return after(env)

    def match_node(view: View, env: Env) -> bool:
        outer = env[view_slot], env[args_slot]
        env[NODES].append(view.node)
        taken = match_view(view, env)
        env[NODES].pop()
        env[view_slot], env[args_slot] = outer
        return taken

    def match(value: Any, env: Env) -> bool:
        if not isinstance(value, Node):
            return False
        found: tuple[View, ...] = env[VIEWS].views_as(value, family)
        if len(found) == 1:  # a generator costs more than most of the tries
            return found[0].effect == "pure" and match_node(found[0], env)
        return any(view.effect == "pure" and match_node(view, env) for view in found)

    return match


def config(slot: int, family: Family, rest: tuple[int, ...], view_slot: int, after: Continuation) -> Continuation:
    """Capture the arguments that the pattern does not mention."""
    names = tuple(family.params[position].name for position in rest)
    store = bind(slot, after)

    def step(env: Env) -> bool:
        args = env[view_slot].args
        return store(Config(tuple(zip(names, (args[position] for position in rest), strict=True))), env)

    return step


@frozen
class ExactCall:
    """A node matched by its exact target, with all its arguments."""

    node: Node
    args: tuple[Any, ...]


def exact(term: Exact, call_slot: int, args_slot: int, after: Continuation) -> Matcher:
    """One op by its exact target, its arguments in the target's own order."""
    take = _arguments(term, call_slot, args_slot, after)

    def match(value: Any, env: Env) -> bool:
        found = env[VIEWS].exact_arguments(value, term.target) if isinstance(value, Node) else None
        return found is not None and take(value, found, env)

    return match


def module(term: Called, slot: int, call_slot: int, args_slot: int, after: Continuation) -> Matcher:
    """A call of a module: the submodule goes into ``slot`` first, then come the arguments."""
    take = _arguments(term, call_slot, args_slot, after)

    def match(value: Any, env: Env) -> bool:
        found = env[VIEWS].module_call(value, term.kind) if isinstance(value, Node) else None
        if found is None:
            return False
        return bind(slot, lambda env: take(value, found.arguments, env))(found.submodule, env)

    return match


def _arguments(
    term: Exact | Called, call_slot: int, args_slot: int, after: Continuation
) -> Callable[[Node, tuple[tuple[str, Any, Any], ...], Env], bool]:
    """Take the arguments of a call, each with name, value and default, as the pattern gives them."""
    given = len(term.positional)
    keywords = tuple(name for name, _ in term.keywords)

    def take(value: Node, found: tuple[tuple[str, Any, Any], ...], env: Env) -> bool:
        if given > len(found):
            return False
        names = [name for name, _, _ in found]
        if not all(name in names[given:] for name in keywords):
            return False
        named = {name: actual for name, actual, _ in found}
        rest = (one for one in found[given:] if one[0] not in keywords)
        if not term.loose and not all(same_value(actual, default) for _, actual, default in rest):
            return False
        outer = env[call_slot], env[args_slot]
        env[call_slot] = ExactCall(value, tuple(named.values()))
        env[args_slot] = (*(actual for _, actual, _ in found[:given]), *(named[name] for name in keywords))
        taken = covering(value, env, after)
        env[call_slot], env[args_slot] = outer
        return taken

    return take


def rest(slot: int | None, items_slot: int, later: int, after: ListStep) -> ListStep:
    """Any number of elements, the fewest first; ``later`` elements must remain."""

    def step(env: Env, index: int) -> bool:
        items = env[items_slot]
        for end in range(index, len(items) - later + 1):
            then = go_on_at(end, after)
            if then(env) if slot is None else bind(slot, then)(items[index:end], env):
                return True
        return False

    return step


def go_on_at(end: int, after: ListStep) -> Continuation:
    """Go on with the element at ``end``."""
    return lambda env: after(env, end)


def one(match: Matcher, items_slot: int, position_slot: int) -> ListStep:
    """One element of a list."""

    def step(env: Env, index: int) -> bool:
        items = env[items_slot]
        if index >= len(items):
            return False
        outer, env[position_slot] = env[position_slot], index
        taken = match(items[index], env)
        env[position_slot] = outer
        return taken

    return step


def next_item(position_slot: int, after: ListStep) -> Continuation:
    """Go on with the element behind the one at the position slot."""
    return lambda env: after(env, env[position_slot] + 1)


def end_of_list(items_slot: int, after: Continuation) -> ListStep:
    """Nothing may be left."""
    return lambda env, index: index == len(env[items_slot]) and after(env)


def bounds(slot: int, start: Matcher) -> Matcher:
    """A slice: its start, and from there on its other bounds."""

    def match(value: Any, env: Env) -> bool:
        if not isinstance(value, slice):
            return False
        outer, env[slot] = env[slot], value
        taken = start(value.start, env)
        env[slot] = outer
        return taken

    return match


def call(back: int, body: Matcher, value: Any, env: Env, after: Continuation) -> bool:
    """Run a body that is compiled once; it comes back to ``after`` through the slot ``back``."""
    outer = env[back]
    env[back] = (after, outer)
    taken = body(value, env)
    env[back] = outer
    return taken


def come_back(back: int, env: Env) -> bool:
    """Leave a body: continue where it was called, with the caller's own way back in place."""
    frame = env[back]
    after, env[back] = frame
    taken: bool = after(env)
    env[back] = frame
    return taken
