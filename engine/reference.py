"""The meaning of patterns: a small, slow matcher that reads the tree itself.

`candidates` tries every choice in the order written, depth first, and threads an
immutable `State` through it. The matcher that runs is compiled (`matching`); a
property test holds the two equal. They share only the node views.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from attrs import evolve
from torch.fx import Node

from ..dsl import ast
from .callees import find_family, resolve_call, take_operand
from .candidates import Candidate, Config
from .environment import Frame, Slot, State
from .families import Family
from .kinds import plain_value
from .literals import DIMS, equals, is_constant, literal_of
from .nodeview import Value, View, Views, same_value
from .reference_lists import choose, flat_operands, match_items
from .reference_results import match_elsewhere
from .ruleset import Rule, Scope, find_pattern
from .starred import star_depths
from .surface import (
    Argument,
    Below,
    Op,
    Pattern,
    by_place,
    declared_names,
    header_dims,
    index_chain,
    op_of,
)

States: TypeAlias = Iterator[State]


def candidates(rule: Rule, node: Node, views: Views) -> Iterator[Candidate]:
    """Every way in which the rule's pattern fits at ``node``, in the order of the choices written.

    A way that covers no node (``x + y?`` without ``y``, ``x`` being a leaf) is no candidate: there is
    nothing to replace.
    """
    names = declared_names(rule.ast, rule.scope.constants.keys())
    assigns = {name: (assign, at) for assign in rule.match.assigns for at, name in enumerate(assign.targets)}
    # `a, b = f(x)` also assigns the tuple as a whole, under a name that nobody can write
    wholes = [ast.Assign((_joint(assign),), assign.value) for assign in rule.match.assigns]
    assigns |= {assign.targets[0]: (assign, 0) for assign in wholes if assign.targets[0] not in assigns}
    dims = header_dims(rule.ast.params) - rule.scope.constants.keys()
    modules = {one.name: one.type for one in rule.ast.params if one.type and one.type.qualifier == "module"}
    frame = Frame(views, rule.scope, frozenset(names), dims, assigns, modules=modules, depths=star_depths(rule.ast))
    first, *others = rule.match.results
    for state in match(first, node, State(), frame, None):
        for results, after in match_elsewhere(match, others, (node,), state, frame) if state.nodes else ():
            if all(result in after.nodes for result in results):
                bindings = {name: after.names.get((frame, name)) for name in names}
                yield Candidate(node, bindings, after.nodes, after.deferred, results[1:])


def match(pattern: Pattern, value: Value, state: State, frame: Frame, slot: Slot | None) -> States:
    """The states in which ``pattern`` fits ``value``; ``slot`` is the argument that the value stands at."""
    if is_constant(pattern, frame):
        literal = literal_of(pattern, frame)
        if literal is DIMS and not isinstance(pattern, ast.Star | ast.Slice | Op | Below):
            yield evolve(state, deferred=(*state.deferred, (pattern, value)))
        elif equals(literal, value, frame.views, slot):
            yield state
        return
    match pattern:
        case ast.Name("_"):
            yield state
        case ast.Name(id):
            yield from _match_name(id, value, state, frame, slot)
        case ast.Optional(ast.Name() as leaf):
            yield from _absent(leaf, state, frame) if value is None else match(leaf, value, state, frame, slot)
        case ast.Optional(wrapper):
            yield from match(wrapper, value, state, frame, slot)
            yield from match(take_operand(wrapper, frame), value, state, frame, slot)
        case ast.Call():
            yield from _match_call(pattern, value, state, frame, slot)
        case Op(name, args, optional):
            yield from _match_family(name, args, value, state, frame)
            if optional:
                yield from match(args[0], value, state, frame, slot)
        case ast.Binary(_, left, right):
            yield from _match_operator(pattern, value, state, frame)
            for missing, other in ((right, left), (left, right)):
                if isinstance(missing, ast.Optional) and isinstance(missing.value, ast.Name):
                    for after in _absent(missing, state, frame):
                        yield from match(other, value, after, frame, slot)
        case ast.Unary() | ast.Attribute() | ast.Compare():
            yield from _match_operator(pattern, value, state, frame)
        case ast.Index(base, items):
            yield from _match_getitem(base, items, value, state, frame)
            chain = index_chain(base, items)
            if isinstance(chain, Op):
                yield from match(chain, value, state, frame, slot)
        case ast.As(inner, name):
            for after in match(inner, value, state, frame, slot):
                yield from after.bind(frame, name, value)
        case ast.Flat(call):
            yield from _match_flat(call, value, state, frame)
        case ast.Through(inner, name):
            yield from _match_through(inner, name, value, state, frame)
        case Below(inner, name, above):
            if not same_value(value, above):  # a step that stays where it is would go on for ever
                yield from _match_through(inner, name, value, state, frame)
        case ast.Or(options):
            for option in options:
                yield from match(option, value, state, frame, slot)
        case ast.Tuple(items) | ast.List(items) if isinstance(value, tuple):
            yield from match_items(match, items, value, state, frame, slot and evolve(slot, whole=False))
        case ast.Dots() if value is ...:
            yield state
        case ast.Slice(start, stop, step) if isinstance(value, slice):
            bounds = zip((start, stop, step), (value.start, value.stop, value.step), strict=True)
            yield from _match_all([(part or ast.Name("None"), bound, None) for part, bound in bounds], state, frame)


# -------------------------------------------------------------- names, constants
def _match_name(id: str, value: Value, state: State, frame: Frame, slot: Slot | None) -> States:
    """A name's first use matches what it stands for, if anything, and binds; later uses compare."""
    found = iter([state])
    if (frame, id) not in state.names:
        if id in frame.assigns:
            found = _match_assigned(*frame.assigns[id], value, state, frame, slot)
        elif id in frame.arguments:
            argument, home = frame.arguments[id]
            found = match(argument, value, state, home, slot)
    for after in found:
        yield from after.bind(frame, id, value)


def _match_assigned(assign: ast.Assign, at: int, value: Value, state: State, frame: Frame, slot: Slot | None) -> States:
    """The value of an assigned name; in ``a, b = f(x)`` it is an item of the one node of ``f``."""
    if len(assign.targets) == 1:
        yield from match(assign.value, value, state, frame, slot)
        return
    yield from _match_getitem(ast.Name(_joint(assign)), (ast.Number(at),), value, state, frame)


def _joint(assign: ast.Assign) -> str:
    return ",".join(assign.targets)


def _absent(leaf: Pattern, state: State, frame: Frame) -> States:
    """The leaf of ``v?`` is not there: it is None, and so is what it was passed for."""
    match leaf:
        case ast.Name(id) | ast.Optional(ast.Name(id)):
            for after in state.bind(frame, id, None):
                if id in frame.arguments:
                    argument, home = frame.arguments[id]
                    yield from _absent(argument, after, home)
                else:
                    yield after
        case _:
            yield state


# -------------------------------------------------------------------------- ops
def _match_call(call: ast.Call, value: Value, state: State, frame: Frame, slot: Slot | None) -> States:
    if isinstance(call.func, ast.Name) and call.func.id in frame.modules:
        yield from _match_module(call.func.id, call.args, value, state, frame)
        return
    callee, args = resolve_call(call, frame)
    match callee:
        case (ast.Pattern() as pattern, Scope() as home):
            yield from _match_pattern(pattern, home, args, value, state, frame, slot)
        case Family(name):
            yield from _match_family(name, args, value, state, frame)
        case str():
            yield from _match_exact(callee, args, value, state, frame)


def _match_operator(pattern: Pattern, value: Value, state: State, frame: Frame) -> States:
    op = op_of(pattern)
    if op is not None:
        yield from _match_family(op.family, op.args, value, state, frame)


def _match_pattern(
    pattern: ast.Pattern,
    home: Scope,
    args: Sequence[Argument],
    value: Value,
    state: State,
    frame: Frame,
    slot: Slot | None,
) -> States:
    """A named pattern: its parameters stand for the argument patterns, its other names are its own."""
    if pattern.limit is not None and sum(one is pattern for one in frame.inside) >= pattern.limit:
        return
    outside = Frame(frame.views, home)
    arguments: dict[str, tuple[Pattern, Frame]] = {}
    for param, arg in zip(pattern.params, args, strict=False):
        if not isinstance(arg, ast.Keyword | ast.StarStar | ast.Dots):
            arguments[param.name] = (arg, frame)
    arguments |= {arg.name: (arg.value, frame) for arg in args if isinstance(arg, ast.Keyword)}
    for param in pattern.params:
        arguments.setdefault(param.name, (param.default or ast.Name("None"), outside))
    names = frozenset(declared_names(pattern, home.constants.keys()))
    inner = Frame(
        frame.views, home, names, arguments=arguments, depths=star_depths(pattern), inside=(*frame.inside, pattern)
    )
    yield from match(pattern.body, value, state, inner, slot)


def _match_family(name: str, args: Sequence[Argument], value: Value, state: State, frame: Frame) -> States:
    """One pure op of a family, in every way in which the node can be seen as one."""
    family, views = find_family(name, frame.scope), frame.views
    given = by_place([param.name for param in family.params], args) if family else None
    if family is None or given is None or not isinstance(value, Node) or views.effect(value) != "pure":
        return
    chosen = dict(given.places)
    silent = [at for at in range(len(family.params)) if at not in chosen]
    for view in views.views_as(value, family.name):
        if not (given.loose or given.config or all(views.is_default(view, at) for at in silent)):
            continue
        config = Config(tuple((family.params[at].name, view.args[at]) for at in silent))
        for operands in _orders(view, chosen, views):
            pairs = [
                (pattern, operands[at], Slot(value, view.args, view, at)) for at, pattern in sorted(chosen.items())
            ]
            for after in _match_all(pairs, state.cover(value), frame):
                yield from after.bind(frame, given.config, config) if given.config else iter([after])


def _orders(view: View, given: Mapping[int, Pattern], views: Views) -> Iterator[tuple[Value, ...]]:
    """The operands as they are, then with the first two swapped where that means the same."""
    yield view.args
    rest = range(2, len(view.args))
    if view.family.commutative and {0, 1} <= given.keys() and all(views.is_default(view, at) for at in rest):
        yield (view.args[1], view.args[0], *view.args[2:])


def _match_exact(target: str, args: Sequence[Argument], value: Value, state: State, frame: Frame) -> States:
    """One op by its exact target, whatever its effect; arguments as written, those left out at their default."""
    found = frame.views.exact_arguments(value, target) if isinstance(value, Node) else None
    yield from _match_given(found, args, value, state, frame)


def _match_module(leaf: str, args: Sequence[Argument], value: Value, state: State, frame: Frame) -> States:
    """A call of a module of the leaf's class; a second use of the leaf is a call of the same object."""
    kind = next(iter(frame.modules[leaf].names), None)
    call = frame.views.module_call(value, kind) if isinstance(value, Node) else None
    for after in state.bind(frame, leaf, call.submodule) if call else ():
        yield from _match_given(call.arguments if call else None, args, value, after, frame)


def _match_given(
    found: tuple[tuple[str, Value, object], ...] | None,
    args: Sequence[Argument],
    value: Value,
    state: State,
    frame: Frame,
) -> States:
    """The arguments of a call that stand in its pattern; those left out must be at their default."""
    given = by_place([name for name, _, _ in found or ()], args)
    if found is None or given is None or given.config or not isinstance(value, Node):
        return
    chosen = dict(given.places)
    silent = [one for at, one in enumerate(found) if at not in chosen]
    if given.loose or all(same_value(actual, default) for _, actual, default in silent):
        operands = tuple(actual for _, actual, _ in found)
        pairs = [(pattern, operands[at], Slot(value, operands)) for at, pattern in given.places]
        yield from _match_all(pairs, state.cover(value), frame)


def _match_all(pairs: Sequence[tuple[Pattern, Value, Slot | None]], state: State, frame: Frame) -> States:
    """All patterns, each at its value, one after the other."""
    if not pairs:
        yield state
        return
    (pattern, value, slot), *rest = pairs
    for after in match(pattern, value, state, frame, slot):
        yield from _match_all(rest, after, frame)


def _match_getitem(whole: ast.Expr, items: Sequence[Pattern], value: Value, state: State, frame: Frame) -> States:
    """``operator.getitem(whole, items)``: an item of a tuple result, or an indexed tensor at torch level."""
    if not (isinstance(value, Node) and value.target is operator.getitem):
        return
    index: Value = plain_value(value.args[1])
    for after in match(whole, plain_value(value.args[0]), state.cover(value), frame, None):
        if len(items) == 1:
            yield from match(items[0], index, after, frame, None)
        elif isinstance(index, tuple):
            yield from match_items(match, items, index, after, frame, None)


# -------------------------------------------------------------- through, flat
def _match_flat(call: ast.Call, value: Value, state: State, frame: Frame) -> States:
    """``flat add(p, *rest)``: each named operand wherever it is, the others as a list in their order."""
    family = find_family(call.func.id, frame.scope) if isinstance(call.func, ast.Name) else None
    opened = flat_operands(value, family.name, frame.views) if family and isinstance(value, Node) else None
    if opened is None:
        return
    for node in opened.nodes:
        state = state.cover(node)
    named = [arg for arg in call.args if not isinstance(arg, ast.Star | ast.Keyword | ast.StarStar)]
    starred = [arg for arg in call.args if isinstance(arg, ast.Star)]
    for after, left in choose(match, named, opened.values, state, frame):
        yield from match_items(match, starred, left, after, frame, None)


def _match_through(inner: ast.Expr, name: str, value: Value, state: State, frame: Frame) -> States:
    """``inner through P`` is ``inner or P(inner through P)``: an op of an opset, or a pattern with one parameter."""
    yield from match(inner, value, state, frame, None)
    below = Below(inner, name, value)
    found = find_pattern(name, frame.scope)
    if found is not None:
        yield from _match_pattern(*found, (below,), value, state, frame, None)
    for member in frame.scope.opsets.get(name, ()) if found is None else ():
        yield from _match_family(member, (below,), value, state, frame)
