"""The interface of a model: structure, facts, strides, writes and sharing of what a call returns."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from ..dsl.nearest import did_you_mean
from ..dsl.source import FxrulesError, Problem
from .execution import Observation

CHANGES = ("strides", "dtype", "device", "shape", "aliasing")
_PLAIN = (int, float, complex, bool, str, bytes, type(None), torch.dtype, torch.device, torch.Size)


def read_changes(changes: Iterable[str]) -> frozenset[str]:
    """The names of facts that may change, checked.

    >>> sorted(read_changes(["strides", "dtype"]))
    ['dtype', 'strides']
    """
    names = frozenset([changes] if isinstance(changes, str) else changes)
    for name in sorted(names - set(CHANGES)):
        hint = did_you_mean(name, CHANGES) or f"one of {', '.join(CHANGES)}"
        raise FxrulesError(Problem(None, "unknown-change", f"`{name}` is no fact that may change", hint))
    return names


def interface_problems(before: Observation, after: Observation, allowed: frozenset[str] = frozenset()) -> list[str]:
    """How two runs differ apart from the numbers in their tensors; ``allowed`` as ``changes`` of `compare`."""
    if before.structure != after.structure:
        return [f"the outputs are nested differently: {before.structure} before, {after.structure} after"]
    problems = []
    for name, old in before.returned.items():
        new = after.returned[name]
        if isinstance(old, torch.Tensor) and isinstance(new, torch.Tensor):
            problems += _facts_problems(name, old, new, allowed)
            strides = before.strides.get(name), after.strides.get(name)
            if "strides" not in allowed and old.shape == new.shape and not _same_strides(old, *strides):
                problems.append(f"{name}: strides {strides[0]} before, {strides[1]} after")
        elif type(old) is not type(new) or (isinstance(old, _PLAIN) and not _same_plain(old, new)):
            problems.append(f"{name}: {old!r:.60} before, {new!r:.60} after")
    problems += [f"{name}: written before, not after" for name in before.written if name not in after.written]
    problems += [f"{name}: written after, not before" for name in after.written if name not in before.written]
    if "aliasing" not in allowed:
        new_pairs = sorted(after.shared - before.shared)
        problems += [f"{two} shares memory with {one} after, not before" for one, two in new_pairs]
    return problems


def _facts_problems(name: str, old: torch.Tensor, new: torch.Tensor, allowed: frozenset[str]) -> list[str]:
    facts = (
        ("dtype", old.dtype, new.dtype),
        ("device", old.device, new.device),
        ("shape", tuple(old.shape), tuple(new.shape)),
        ("layout", old.layout, new.layout),
    )
    return [f"{name}: {fact} {a} before, {b} after" for fact, a, b in facts if a != b and fact not in allowed]


def _same_strides(tensor: torch.Tensor, old: tuple[int, ...] | None, new: tuple[int, ...] | None) -> bool:
    if old is None or new is None or tensor.numel() == 0:
        return True
    return all(a == b or size == 1 for size, a, b in zip(tensor.shape, old, new, strict=True))


def _same_plain(old: Any, new: Any) -> bool:
    return bool(old == new) or (old != old and new != new)


def opaque_outputs(run: Observation) -> list[str]:
    """The outputs that are neither tensors nor plain values, so that nothing can be said about them."""
    return [
        f"{name} is a {type(value).__name__}: not compared"
        for name, value in run.returned.items()
        if not isinstance(value, (torch.Tensor, *_PLAIN))
    ]
