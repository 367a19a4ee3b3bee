"""Which rewrites are safe in the presence of writes, random numbers and shared memory.

Three laws. A match may not straddle a write to memory that it reads. What is replaced
writes and draws as before: to the same memory, in the same order. And a new value may
not share memory anew: never at the boundary of the graph, nor where something writes to
it, and inside only if the rule says ``changes aliasing``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from torch.fx import Node

from .candidates import Match, Mismatch
from .effectindex import EffectIndex
from .memory import Effect, Place

__all__ = [
    "EffectIndex",
    "effect_problem",
    "joint_problem",
    "legal",
    "lost_sharing_problem",
    "new_sharing",
    "sharing_problem",
]


def legal(match: Match, index: EffectIndex) -> Mismatch | None:
    """Why a match may not be rewritten for its effects, or None.

    Nothing may write to what it reads between the first of these reads and the last result,
    where the replacement reads instead. Its nodes are pure, but for those that the pattern
    names by their exact target: they must be free to act there instead. A query replaces none.
    """
    if not index.barriers and all(map(index.is_calm, match.nodes)):
        return None
    inside = set(match.nodes).difference(match.kept)  # kept nodes stay where they are
    acting = []
    for node in () if match.rule.is_query else match.nodes:
        if (not index.barriers and index.is_calm(node)) or node not in inside:
            continue
        effect = index.effect(node)
        unnamed = node.op == "call_module" or index.views.effect(node) == "pure"  # matched by no exact target
        if effect.kind == "opaque" or (effect.kind != "pure" and unnamed):
            return Mismatch("effect", f"{effect.reason or f'`{node.name}` has effects'}; it cannot be replaced", node)
        if effect.kind != "pure":
            acting.append(node)
    if acting:
        problem = _acting_problem(match, acting, inside, index)
        if problem is not None:
            return problem
    if not index.barriers:
        return None
    barriers = [node for node in index.between(min(match.nodes), max(match.results)) if node not in inside]
    if not barriers:
        return None
    read = _places_read(match, index)
    for node in barriers:
        effect = index.effect(node)
        if effect.kind == "opaque":
            return Mismatch("effect", f"{effect.reason}, in the midst of the match", node)
        if index.overlap(_written([effect], index), read):
            return Mismatch("effect", f"{effect.reason}, which the match reads before", node)
    return None


def _acting_problem(
    match: Match, acting: Sequence[Node], inside: Collection[Node], index: EffectIndex
) -> Mismatch | None:
    """Why nodes that write or draw random numbers may not do so at the last result instead of where they are."""
    written = _written(map(index.effect, acting), index)
    draws = any(index.effect(node).draws for node in acting)
    node, last = min(acting), max(match.results)
    while node is not last:
        node = node.next
        effect = index.effect(node)
        if node in inside or (effect.kind == "pure" and not written):
            continue
        if effect.kind == "opaque" or (draws and effect.draws):
            reason = effect.reason if effect.kind != "mutates" else f"`{node.name}` draws random numbers"
            return Mismatch("effect", f"{reason}, in the midst of the match; random ops keep their order", node)
        if index.overlap(written, index.bases(node.all_input_nodes)):
            return Mismatch("effect", f"`{node.name}` reads what the match writes to, in its midst", node)
    for node in acting:
        places = _written([index.effect(node)], index)
        for other in inside if places else ():
            apart = other is not node and not _depends(other, node, inside) and not _depends(node, other, inside)
            if apart and index.overlap(places, index.bases(other.all_input_nodes)):
                why = f"`{other.name}` reads what `{node.name}` writes to, and the pattern does not say which is first"
                return Mismatch("effect", why, other)
    return None


def _depends(node: Node, other: Node, inside: Collection[Node]) -> bool:
    """Whether a value is computed from another, through nodes of the match."""
    pending, seen = [node], {node}
    while pending:
        sources = pending.pop().all_input_nodes
        if other in sources:
            return True
        pending.extend(source for source in sources if source in inside and source not in seen)
        seen.update(sources)
    return False


def effect_problem(match: Match, made: Sequence[Node], index: EffectIndex) -> Mismatch | None:
    """Why a replacement may not have the effects that it has, or None: they must be those of what it replaces."""
    quiet, new = not index.barriers, list(map(index.effect, made))
    old = [index.effect(node) for node in match.nodes if not (quiet and index.is_calm(node)) and node not in match.kept]
    if not old and all(effect.kind == "pure" for effect in new):
        return None
    for effect in new:
        if effect.kind == "opaque":
            return Mismatch("effect", f"the replacement may not have effects: {effect.reason}", match.root)
    before, after = (_written(effects, index) for effects in (old, new))
    if before or after:
        surplus = index.memory(after.difference(made)) - index.memory(before)
        missing = index.memory(before) - index.memory(after)
        for effect, places in [*((one, surplus) for one in new), *((one, missing) for one in old)]:
            if effect.kind == "mutates" and not index.memory(_written([effect], index)).isdisjoint(places):
                why = "the replacement may not have effects" if places is surplus else "the replacement must do so too"
                return Mismatch("effect", f"{why}: {effect.reason}", match.root)
    draws = [any(effect.draws for effect in effects) for effects in (old, new)]
    if draws[0] != draws[1] and match.rule.numerics.level != "differs":
        what = "draws no random numbers" if draws[0] else "draws random numbers"
        why = f"the replacement {what}, and later ops would draw others; only a rule that `differs` may do that"
        return Mismatch("effect", why, match.root)
    return None


def _places_read(match: Match, index: EffectIndex) -> frozenset[Place]:
    inside = set(match.nodes)
    sources = [source for node in match.nodes for source in node.all_input_nodes if source not in inside]
    modules = [f"{node.target}." for node in match.nodes if node.op == "call_module"]
    return index.bases([*sources, *match.kept]) | frozenset(modules)


def _written(effects: Iterable[Effect], index: EffectIndex) -> frozenset[Place]:
    places = [place for effect in effects for place in effect.writes]
    nodes = [place for place in places if isinstance(place, Node)]
    return index.bases(nodes) | frozenset(place for place in places if isinstance(place, str))


def new_sharing(old: Node, outside: frozenset[Place], index: EffectIndex) -> frozenset[Place]:
    """Which of the places outside the replacement that a new value may share memory with are new: ``old`` did not."""
    return outside - index.bases([old], surely=True) if outside else outside


def sharing_problem(old: Node, shared: frozenset[Place], index: EffectIndex, *, declared: bool) -> Mismatch | None:
    """Why a value that takes the place of ``old`` may not share memory with ``shared``, or None.

    ``declared``: the rule says ``changes aliasing``. Call it before the uses of ``old``
    are replaced.
    """
    if not shared:
        return None
    source = next(iter(sorted(_name(place) for place in shared)))
    if not declared:
        return Mismatch(
            "interface",
            f"the new value may share memory with `{source}`; the rule does not say `changes aliasing`",
            old,
        )
    reached = index.sharing([old])
    output = index.graph.output_node()
    if output in reached:
        leaving = next(node for node in output.all_input_nodes if node in reached)
        others = index.sharing(shared)
        for place in shared:
            if isinstance(place, str) or place.op == "placeholder":
                return _boundary(leaving, f"input `{_name(place)}`")
        for node in output.all_input_nodes:
            if node in others and node not in reached:
                return _boundary(leaving, f"output `{node.name}`")
    return _write_problem(old, reached | index.sharing(shared), index) if index.after(old) else None


def lost_sharing_problem(old: Node, new: Node, index: EffectIndex, *, declared: bool) -> Mismatch | None:
    """Why ``new`` may not stop sharing memory as ``old`` does, or None.

    Something writes to it later; or, unless the rule says ``changes aliasing``, it leaves
    the graph: what the caller writes to an input would no longer be seen in an output.
    """
    problem = None if declared else _lost_at_the_boundary(old, new, index)
    if problem is not None or not index.after(old):
        return problem
    lost = index.bases([old]) - index.bases([new], surely=True) - {old}
    return _write_problem(old, index.sharing([old]) | index.sharing(lost), index) if lost else None


def _lost_at_the_boundary(old: Node, new: Node, index: EffectIndex) -> Mismatch | None:
    lost = index.bases([old], surely=True) - index.bases([new]) - {old}
    output = index.graph.output_node()
    reached = index.sharing([old]) if lost else set()
    if output not in reached:
        return None
    leaving = next(node for node in output.all_input_nodes if node in reached)
    others = index.sharing(lost) - reached
    held = [f"input `{_name(place)}`" for place in lost if isinstance(place, str) or place.op == "placeholder"]
    held += [f"output `{node.name}`" for node in output.all_input_nodes if node in others]
    if not held:
        return None
    what = f"output `{leaving.name}` would no longer share memory with {min(held)}"
    return Mismatch("interface", f"{what}; the rule does not say `changes aliasing`", old)


def joint_problem(pairs: Sequence[tuple[Node, Node]], index: EffectIndex, *, declared: bool) -> Mismatch | None:
    """Why two new values may not share memory with each other where the old ones did not, or None.

    Call it before the uses of the old ones are replaced.
    """
    for at, (old, new) in enumerate(pairs):
        for other, beside in pairs[:at]:
            if new is not beside and index.bases([new]).isdisjoint(index.bases([beside])):
                continue
            if not index.bases([old], surely=True).isdisjoint(index.bases([other], surely=True)):
                continue
            what = f"the new values of `{other.name}` and `{old.name}` may share memory"
            if not declared:
                return Mismatch("interface", f"{what}; the rule does not say `changes aliasing`", old)
            output = index.graph.output_node()
            if output in index.sharing([old, new]) and output in index.sharing([other, beside]):
                return Mismatch("interface", f"{what}, and both leave the graph", old)
            if index.after(min(new, beside)):
                return Mismatch("effect", f"{what}, and something writes later", old)
    return None


def _boundary(output: Node, other: str) -> Mismatch:
    return Mismatch("interface", f"output `{output.name}` would share memory with {other}", output)


def _write_problem(old: Node, memory: set[Node], index: EffectIndex) -> Mismatch | None:
    """A later write to the memory, which would now be seen through other values than before."""
    held = [node for node in memory if node.op in ("get_attr", "placeholder")]
    paths = [str(node.target) for node in held if node.op == "get_attr"]
    for node in index.after(old):
        effect = index.effect(node)
        if not memory.isdisjoint(effect.writes) or (held and index.overlap(effect.writes, [*held, *paths])):
            return Mismatch(
                "effect", f"{effect.reason}, and the new value would not share memory as the old one does", node
            )
    return None


def _name(place: Place) -> str:
    return place if isinstance(place, str) else place.name
