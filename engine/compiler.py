"""Compile pattern terms to closures in continuation style.

A compiled term is ``match(value, env) -> bool``; what comes after it is fixed when it
is compiled, so backtracking is an ordinary return of False. ``env`` is a list of slots:
a slot that a failed attempt filled is emptied on the way back. ``True`` travels up as
soon as the last continuation takes a candidate. The order of attempts is the order
that the reference matcher defines.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import define, field
from torch.fx import Node

from . import flatsteps, steps
from .candidates import Candidate
from .liststeps import Slots, each, note_way
from .nodeview import same_value
from .patterns import (
    Absent,
    Alternatives,
    Anything,
    As,
    Bind,
    Bounds,
    Called,
    Deferred,
    Each,
    Exact,
    Flat,
    Hole,
    Item,
    Literal,
    Maybe,
    Op,
    Rest,
    Sequence,
    Several,
    Shared,
    Term,
    Through,
    height,
    is_local,
    may_be_literal,
)
from .resultsteps import elsewhere
from .steps import DEFERRED, NODES, OTHERS, TAKE, UNBOUND, VIEWS, Continuation, Env, ListStep, Matcher, Place, come_back


@define
class Compiler:
    """Slots handed out so far, and the terms that are compiled once and called from many places."""

    size: int = steps.FIRST_FREE
    names: dict[str, int] = field(factory=dict)
    offered: dict[str, int] = field(factory=dict)
    shared: dict[tuple[str, Place | None], tuple[Matcher, int, int]] = field(factory=dict)
    hole: Callable[[Continuation], Matcher] | None = None

    def slot(self) -> int:
        self.size += 1
        return self.size - 1

    def named(self, name: str) -> int:
        if name not in self.names:
            self.names[name] = self.slot()
            if not is_local(name):
                self.offered[name] = self.names[name]
        return self.names[name]

    def finish(self) -> Continuation:
        """The last continuation: reads all names and offers the candidate."""

        def offer(env: Env) -> bool:
            if not env[NODES]:
                return False  # a leaf alone: there is nothing to replace
            bindings = {name: None if env[slot] is UNBOUND else env[slot] for name, slot in self.offered.items()}
            nodes, others = tuple(dict.fromkeys(env[NODES])), tuple(env[OTHERS])
            if not all(node in nodes for node in others):
                return False  # a result that is a leaf after all
            return bool(env[TAKE](Candidate(nodes[0], bindings, nodes, tuple(env[DEFERRED]), others)))

        return offer

    def compile(self, term: Term, after: Continuation, at: Place | None = None) -> Matcher:
        """The matcher of ``term``; ``at`` is the view slot and position of the argument it stands at."""
        match term:
            case Anything():
                return lambda value, env: after(env)
            case Bind(name):
                return steps.bind(self.named(name), after)
            case Literal():
                return steps.literal(term, after, at)
            case Deferred(expr):
                return steps.defer(expr, after)
            case Shared():
                return self._shared(term, after, at)
            case Op():
                return self._op(term, after)
            case Exact() | Called():
                return self._exact(term, after)
            case Item():
                return self._item(term, after)
            case Alternatives(options):
                return steps.first_of(tuple(self.compile(option, after, at) for option in options))
            case Absent(names, inner):
                return self._absent(names, self.compile(inner, after, at))
            case Maybe(names, inner):
                return steps.maybe(self._absent(names, lambda _, env: after(env)), self.compile(inner, after, at))
            case As(inner, name):
                return self._as(inner, self.named(name), after, at)
            case Through():
                return self._through(term, after)
            case Hole():
                assert self.hole is not None, "a hole stands only in the step of a `through`"
                return self.hole(after)
            case Sequence():
                return self._sequence(term, after, at)
            case Bounds():
                return self._bounds(term, after)
            case Several():
                return self._several(term, after)
            case Flat():
                return self._flat(term, after)

    def _several(self, term: Several, after: Continuation) -> Matcher:
        for inner, ties in reversed(list(zip(term.others, term.ties, strict=True))):
            own = self.named(inner.name) if isinstance(inner, Shared) else None
            after = elsewhere(self.compile(inner, after), own, tuple(map(self.named, ties)), height(inner))
        return self.compile(term.first, after)

    def _absent(self, names: tuple[str, ...], then: Matcher) -> Matcher:
        for name in reversed(names):
            then = steps.with_none(self.named(name), then)
        return then

    def _as(self, inner: Term, slot: int, after: Continuation, at: Place | None) -> Matcher:
        whole = self.slot()
        bind = steps.bind(slot, after)
        match = self.compile(inner, lambda env: bind(env[whole], env), at)

        def match_as(value: Any, env: Env) -> bool:
            outer, env[whole] = env[whole], value
            taken = match(value, env)
            env[whole] = outer
            return taken

        return match_as

    def _shared(self, term: Shared, after: Continuation, at: Place | None) -> Matcher:
        """Match the term at the first use of its name, compare at later ones.

        The body is compiled once, whatever the number of uses (once for each place where it may be a
        literal, which is rounded by the op there); where it returns to is a stack in the slot ``back``.
        """
        slot = self.named(term.name)
        key = term.name, at if may_be_literal(term) else None
        if key not in self.shared:
            back = self.slot()
            value_slot = self.slot()

            def bound(env: Env) -> bool:
                env[slot] = env[value_slot]
                taken = come_back(back, env)
                env[slot] = UNBOUND
                return taken

            self.shared[key] = (self.compile(term.term, bound, key[1]), back, value_slot)
        body, back, value_slot = self.shared[key]

        def match(value: Any, env: Env) -> bool:
            if env[slot] is not UNBOUND:
                return same_value(env[slot], value) and after(env)
            env[value_slot] = value
            return steps.call(back, body, value, env, after)

        return match

    def _op(self, term: Op, after: Continuation) -> Matcher:
        view_slot, args_slot = self.slot(), self.slot()
        family = term.family
        given = {position for position, _ in term.args}
        rest = tuple(i for i in range(len(family.params)) if i not in given)
        step = steps.config(self.named(term.config), family, rest, view_slot, after) if term.config else after
        for position, inner in reversed(term.args):
            step = self._argument(position, inner, view_slot, args_slot, step)
        strict = () if term.config or term.loose else rest
        swaps = family.commutative and {0, 1} <= given
        return steps.op(family.name, view_slot, args_slot, strict, swaps, step)

    def _argument(self, position: int, term: Term, view_slot: int, args_slot: int, after: Continuation) -> Continuation:
        match = self.compile(term, after, (view_slot, position))
        return lambda env: match(env[args_slot][position], env)

    def _exact(self, term: Exact | Called, after: Continuation) -> Matcher:
        call_slot, args_slot = self.slot(), self.slot()
        step = after
        # keywords are matched behind the positional arguments, in written order
        for offset, inner in reversed(list(enumerate((*term.positional, *(one for _, one in term.keywords))))):
            step = self._given(offset, inner, call_slot, args_slot, step)
        if isinstance(term, Called):
            return steps.module(term, self.named(term.leaf), call_slot, args_slot, step)
        return steps.exact(term, call_slot, args_slot, step)

    def _given(self, offset: int, term: Term, call_slot: int, args_slot: int, after: Continuation) -> Continuation:
        match = self.compile(term, after, (call_slot, None))
        return lambda env: match(env[args_slot][offset], env)

    def _item(self, term: Item, after: Continuation) -> Matcher:
        node_slot = self.slot()
        index = self.compile(term.index, after)
        whole = self.compile(term.term, lambda env: index(env[node_slot][1], env))

        def match(value: Any, env: Env) -> bool:
            item = env[VIEWS].item(value) if isinstance(value, Node) else None
            if item is None:
                return False
            outer, env[node_slot] = env[node_slot], item
            taken = steps.covering(value, env, lambda env: whole(env[node_slot][0], env))
            env[node_slot] = outer
            return taken

        return match

    def _through(self, term: Through, after: Continuation) -> Matcher:
        """``term`` here, or one step down and again; each level has names of its own."""
        back, level = self.slot(), self.slot()
        inner = self.compile(term.term, lambda env: come_back(back, env))
        first_local = self.size

        def again_below(rest: Continuation) -> Matcher:
            return lambda value, env: self_again(value, env, rest)

        # the same step may be compiled at another place: its names and bodies belong to this one
        outer = self.hole, self.names, self.shared
        self.hole, self.names, self.shared = again_below, dict(self.names), dict(self.shared)
        step = self.compile(term.step, lambda env: come_back(back, env))
        assert all(is_local(name) for name in self.names.keys() - outer[1]), "a step binds only names of its own"
        self.hole, self.names, self.shared = outer
        local = slice(first_local, self.size)
        blank = [UNBOUND] * (self.size - first_local)

        def again(value: Any, env: Env) -> bool:
            if inner(value, env):
                return True
            outer, env[level] = env[level], value
            taken = step(value, env)
            env[level] = outer
            return taken

        def self_again(value: Any, env: Env, rest: Continuation) -> bool:
            if same_value(value, env[level]):
                return False  # a step that stays where it is would go on for ever
            mine = env[local]
            env[local] = blank

            def resume(env: Env) -> bool:
                deeper = env[local]
                env[local] = mine
                taken = rest(env)
                env[local] = deeper
                return taken

            taken = steps.call(back, again, value, env, resume)
            env[local] = mine
            return taken

        return lambda value, env: steps.call(back, again, value, env, after)

    def _sequence(self, term: Sequence, after: Continuation, at: Place | None) -> Matcher:
        items_slot = self.slot()
        step = steps.end_of_list(items_slot, after)
        for number, item in reversed(list(enumerate(term.items))):
            later = sum(map(_fewest, term.items[number + 1 :]))
            if isinstance(item, Rest):
                step = steps.rest(self.named(item.name) if item.name else None, items_slot, later, step)
            elif isinstance(item, Each):
                step = self._each(item, items_slot, step, at)
            else:
                position = self.slot()
                step = steps.one(self.compile(item, steps.next_item(position, step), at), items_slot, position)
        fewest = sum(map(_fewest, term.items))
        exact = not any(isinstance(one, Rest | Each) for one in term.items)

        def match(value: Any, env: Env) -> bool:
            if not isinstance(value, tuple) or len(value) < fewest or (exact and len(value) != fewest):
                return False
            outer, env[items_slot] = env[items_slot], value
            taken = step(env, 0)
            env[items_slot] = outer
            return taken

        return match

    def _each(self, term: Each, items_slot: int, after: ListStep, at: Place | None) -> ListStep:
        groups = (tuple([own for own, _ in term.lists]), tuple([name for _, name in term.lists]), term.outside)
        slots = Slots(items_slot, self.slot(), self.slot(), *[tuple(map(self.named, names)) for names in groups])
        return each(slots, self.compile(term.term, note_way(slots), at), term.fewest, after)

    def _flat(self, term: Flat, after: Continuation) -> Matcher:
        family, operands, left = term.family.name, self.slot(), self.slot()
        rest = self._sequence(term.rest, after, None)
        step = flatsteps.others(operands, left, rest)
        for inner in reversed(term.named):
            step = flatsteps.choose(operands, left, self.compile(inner, step))
        return flatsteps.flat(family, operands, left, step)

    def _bounds(self, term: Bounds, after: Continuation) -> Matcher:
        slot = self.slot()
        step = self.compile(term.step, after)
        stop = self.compile(term.stop, lambda env: step(env[slot].step, env))
        return steps.bounds(slot, self.compile(term.start, lambda env: stop(env[slot].stop, env)))


def _fewest(item: Term | Rest | Each) -> int:
    """How many elements an item of a list takes at least."""
    return 0 if isinstance(item, Rest) else item.fewest if isinstance(item, Each) else 1
