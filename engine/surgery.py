"""Putting a replacement into the graph: build, check the interface, let users read it, erase what it replaces."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from attrs import frozen
from torch.fx import Node

from .agreement import is_dense, same_strides
from .candidates import Match, Mismatch
from .effects import EffectIndex, effect_problem, joint_problem, lost_sharing_problem, new_sharing, sharing_problem
from .emission import Emitter, Refusal
from .gradients import gradient_problem, lets_through
from .journal import Journal, ProgramOwner
from .memory import Place
from .metadata import MISSING, Propagation
from .nodeview import Views, level_of
from .observers import is_observer
from .replays import Recording, mark_agreeing, recall, record, replay
from .room import make_room
from .ruleset import Rule
from .settling import settle
from .via import build

_STRIDES = frozenset({"strides"})
UNCHECKED = "the graph has no shapes: the interface of replaced values was not checked; pass example_inputs="


@frozen(eq=False)
class Applied:
    """A replacement that is in the graph.

    ``erased`` are the nodes that are gone; ``notes`` what the caller should be told;
    ``touched`` the nodes that changed, as `Journal.touched_since` has them, new ones too.
    """

    new_nodes: tuple[Node, ...]
    erased: tuple[Node, ...]
    notes: tuple[str, ...]
    touched: Mapping[Node, bool]


def apply(
    match: Match, views: Views, journal: Journal, propagation: Propagation, effects: EffectIndex
) -> Applied | Mismatch:
    """Rewrite one match. A Mismatch, or any exception, leaves the graph as it was."""
    mark = journal.mark()
    try:
        place = make_room(match, effects, journal)
        if isinstance(place, Mismatch):
            return place
        emitter = Emitter(match, views, journal, propagation, _level(match), place)
        outcome = _splice(emitter, effects, mark)
    except Refusal as refusal:
        outcome = refusal.mismatch
    except BaseException:
        journal.undo_to(mark)
        raise
    if isinstance(outcome, Mismatch):
        _undo(mark, emitter, effects)
        return outcome
    effects.renew(outcome.erased, outcome.new_nodes)
    changed = [node for node, other in outcome.touched.items() if other]
    views.forget(changed)
    effects.forget(changed)
    return outcome


def _level(match: Match) -> str:
    return "aten" if any(level_of(node) == "aten" for node in match.nodes) else "torch"


def _splice(emitter: Emitter, effects: EffectIndex, mark: int) -> Applied | Mismatch:
    match = emitter.match
    notes: list[str] = []
    recording = recall(emitter)
    final = _again(recording, emitter) or _placed(match.rule, recording, emitter, effects, notes)
    if isinstance(final, Mismatch):
        return final
    erased = _erase([*match.nodes, *(old for old, _ in final)], set(match.kept), emitter.journal)
    _keep_names(final, set(erased), emitter)
    touched = emitter.journal.touched_since(mark)
    touched.update(dict.fromkeys(emitter.made, True))
    return Applied(tuple(emitter.made), tuple(erased), tuple(dict.fromkeys(notes)), touched)


def _again(recording: Recording | None, emitter: Emitter) -> list[tuple[Node, Node]] | None:
    """The replacement as it was found to agree at a site like this one; None if that is not known."""
    root, entry = emitter.match.root, emitter.propagation.entry
    if recording is None or not recording.agrees or entry not in root.meta:
        return None
    facts = {name: root.meta[name] for name in (entry, "tensor_meta") if name in root.meta}
    (new,) = replay(recording, emitter, facts)
    _redirect(root, new, emitter)
    return [(root, new)]


def _placed(
    rule: Rule, recording: Recording | None, emitter: Emitter, effects: EffectIndex, notes: list[str]
) -> list[tuple[Node, Node]] | Mismatch:
    """Build the replacement and put each of its values in its place; the pairs of old and new values."""
    results = build(rule, emitter) if recording is None else replay(recording, emitter)
    if recording is None:
        record(emitter, results)
    pairs = _pairs(emitter.match, results)
    if isinstance(pairs, Mismatch):
        return pairs
    declared = "aliasing" in emitter.match.rule.changes
    problem = joint_problem(pairs, effects, declared=declared) if emitter.match.others else None
    if problem is not None:
        return problem
    final = []
    for old, new in pairs:
        placed = _place(old, new, emitter, effects, notes)
        if isinstance(placed, Mismatch):
            return placed
        final.append((old, placed))
    return final


# ------------------------------------------------------------------------ pairs
def _pairs(match: Match, results: Sequence[Any]) -> list[tuple[Node, Node]] | Mismatch:
    """Which value takes the place of which: each result's, or each item's where a result is a tuple.

    A result that is kept may go without a new value.
    """
    same = Mismatch("structure", "the replacement is what is there already", match.root)
    if not match.others:
        value = results[0] if len(results) == 1 else tuple(results)
        return same if value is match.root else _replaced(match.root, value)
    old = match.results
    if len(results) < len(old):
        old = tuple(node for node in old if node not in match.kept)
    if len(results) != len(old):
        return Mismatch("structure", f"{len(results)} new values for {len(old)} results", match.root)
    pairs = []
    for node, value in zip(old, results, strict=True):
        more = _replaced(node, value)
        if isinstance(more, Mismatch):
            return more
        pairs += more
    return pairs or same


def _replaced(old: Node, value: Any) -> list[tuple[Node, Node]] | Mismatch:
    """One value of the graph, or its items, with what takes their place; nothing where it stays."""
    if isinstance(value, tuple):
        return _item_pairs(old, value)
    if not isinstance(value, Node):
        return Mismatch("interface", f"a value of the graph would become the {type(value).__name__} {value}", old)
    return [] if value is old else [(old, value)]


def _item_pairs(root: Node, values: tuple[Any, ...]) -> list[tuple[Node, Node]] | Mismatch:
    pairs = []
    for user in root.users:
        at = user.args[1] if _is_item(user, root) else None
        if not isinstance(at, int) or not -len(values) <= at < len(values) or not isinstance(values[at], Node):
            return Mismatch("interface", f"`{user.name}` reads the list `{root.name}` as a whole", user)
        pairs.append((user, values[at]))
    return pairs


def _is_item(user: Node, root: Node) -> bool:
    return getattr(user.target, "__name__", "") == "getitem" and len(user.args) == 2 and user.args[0] is root


# ----------------------------------------------------------------------- placing
def _place(old: Node, new: Node, emitter: Emitter, effects: EffectIndex, notes: list[str]) -> Node | Mismatch:
    """Let the users of ``old`` read ``new``; the node they read in the end, which may be a contiguous copy of it."""
    journal, propagation = emitter.journal, emitter.propagation
    changes = emitter.match.rule.changes
    problem = _effect_problem(old, new, emitter, effects) or gradient_problem(old, new, emitter)
    if problem is not None:
        return problem
    before, after = propagation.fact(old), propagation.fact(new)
    if before is MISSING or after is MISSING:
        notes.append(UNCHECKED)
        _redirect(old, new, emitter)
        return new
    if propagation.difference(before, after) is None:
        if old not in emitter.match.kept and new in emitter.made and not _outside(new, emitter, effects):
            # The old fake tensor: views of it downstream share its storage.
            journal.set_meta(new, {propagation.entry: before})
            alone = old is emitter.match.root and emitter.made == [new]
            if alone and not effects.barriers and lets_through(old, new, emitter):
                mark_agreeing(emitter)
        _redirect(old, new, emitter)
        return new
    difference = propagation.difference(before, after, changes)
    if difference is not None:
        return Mismatch("interface", difference, old)
    return _place_changed(old, new, emitter, effects, notes)


def _place_changed(old: Node, new: Node, emitter: Emitter, effects: EffectIndex, notes: list[str]) -> Node | Mismatch:
    """As `_place`, where facts change as the rule allows: what follows must still run and agree at the end."""
    journal, propagation = emitter.journal, emitter.propagation
    before, after = propagation.fact(old), propagation.fact(new)
    mark = journal.mark()
    _redirect(old, new, emitter)
    failure = settle(new, before, journal, propagation, effects, emitter.match.rule.changes)
    if failure is None:
        return new
    only_strides = propagation.difference(before, after, _STRIDES) is None
    if not only_strides or not is_dense(before):
        return Mismatch("interface", f"the change of facts goes too far: {failure}", old)
    _undo(mark, emitter, effects)
    dense = emitter.op("contiguous", new)
    if not same_strides(before, propagation.fact(dense)):
        return Mismatch("interface", f"the strides cannot be restored: {failure}", old)
    _redirect(old, dense, emitter)
    notes.append(f"inserted a contiguous copy, since {failure}")
    return dense


def _undo(mark: int, emitter: Emitter, effects: EffectIndex) -> None:
    """Back to an earlier state, with nothing known of the later one."""
    touched = list(emitter.journal.touched_since(mark))
    emitter.journal.undo_to(mark)
    for memory in (emitter.views, effects):
        memory.forget(touched)


def _redirect(old: Node, new: Node, emitter: Emitter) -> None:
    # New nodes that read a kept value go on reading it.
    emitter.journal.replace_uses(old, new, except_for=set(emitter.made))


def _effect_problem(old: Node, new: Node, emitter: Emitter, effects: EffectIndex) -> Mismatch | None:
    """Why the replacement's effects, or the memory it shares, forbid it."""
    problem = effect_problem(emitter.match, emitter.made, effects)
    if problem is not None:
        return problem
    declared = "aliasing" in emitter.match.rule.changes
    if declared and not effects.barriers and effects.graph.output_node() not in effects.sharing([old]):
        return None  # nothing is written, and nothing of it leaves the graph
    shared = new_sharing(old, _outside(new, emitter, effects), effects)
    return sharing_problem(old, shared, effects, declared=declared) or lost_sharing_problem(
        old, new, effects, declared=declared
    )


def _outside(new: Node, emitter: Emitter, effects: EffectIndex) -> frozenset[Place]:
    """The places outside the replacement whose memory its value may share."""
    return effects.bases([new]) - frozenset(emitter.made)


# ----------------------------------------------------------------------- erasing
def _erase(nodes: Iterable[Node], kept: set[Node], journal: Journal) -> list[Node]:
    """Erase the nodes that nothing reads any more, users first, with the observers of their values."""
    gone: dict[Node, None] = {}
    for node in sorted(set(nodes) - kept, reverse=True):
        watching = _watching(node, gone)
        if watching is not None:
            gone.update(dict.fromkeys([*sorted(watching, reverse=True), node]))
    journal.erase(tuple(gone))
    return list(gone)


def _watching(node: Node, gone: Collection[Node]) -> set[Node] | None:
    """All nodes that hang on a value, if they are observers and nothing else; None if the value is needed."""
    found: set[Node] = set()
    pending = [user for user in node.users if user not in gone]
    while pending:
        user = pending.pop()
        if not is_observer(user):
            return None
        if user not in found:
            found.add(user)
            pending.extend(user.users)
    return found


def _keep_names(pairs: Iterable[tuple[Node, Node]], erased: set[Node], emitter: Emitter) -> None:
    """A value that a program returns keeps its name: the signature knows it by that."""
    if not isinstance(emitter.journal.owner, ProgramOwner):
        return
    returned = set(emitter.journal.graph.output_node().all_input_nodes)
    made = set(emitter.made)
    for old, new in pairs:
        if new in returned and old in erased and new in made:
            emitter.journal.take_name(new, old)
            made.discard(new)
