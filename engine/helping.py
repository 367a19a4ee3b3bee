"""Calling the trusted Python helpers of a rule file, for ``let``, ``where`` and ``rewrite via`` alike."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx.experimental.symbolic_shapes import ShapeEnv, _ShapeEnvGuardError
from torch.utils import _pytree as pytree

from ..dsl.source import FxrulesError, Problem, Span
from .obstacles import user_place
from .truth import SYMBOLIC, Declined, Unknown


def call_helper(
    name: str,
    function: Callable[..., Any],
    args: tuple[object, ...],
    kwargs: Mapping[str, object],
    span: Span | None,
    site: str = "",
    *,
    sizes: Iterable[object] = (),
    passing: tuple[type[Exception], ...] = (),
) -> Any:
    """What a helper returns. ``site`` says who calls it where; ``passing`` are exceptions of ours.

    A helper that does not apply raises Declined with its reason, which goes on to the
    report. One that asks what depends on a symbolic size is told Unknown: an answer would
    fix the size. Symbolic sizes are looked for in the arguments and in ``sizes``. Raises
    FxrulesError for any other exception.

    >>> call_helper("half", lambda n: n // 2, (6,), {}, None)
    3
    """
    ours: tuple[type[Exception], ...] = (Declined, Unknown, *passing)
    try:
        with _without_guards((args, dict(kwargs), *sizes)):
            return function(*args, **kwargs)
    except ours:
        raise
    except _ShapeEnvGuardError as error:
        fact = f"what the helper `{name}` asks depends on a symbolic size"
        raise Unknown(fact, "give the sizes, or their ranges, when exporting") from error
    except Exception as error:
        place = user_place(error)
        parts = (f"called {site}" if site else "", f"raised at {place}" if place else "")
        message = f"the helper `{name}` raised {type(error).__name__}: {error}"
        raise FxrulesError(Problem(span, "helper-failed", message, "; ".join(filter(None, parts)))) from error


def _without_guards(values: object) -> AbstractContextManager[None]:
    """While this lasts, a question that would fix a symbolic size among the values is an error."""
    for value in pytree.tree_leaves(values):
        env = _shape_env(value)
        if env is not None:
            return env.error_on_new_guards()
    return nullcontext()


def _shape_env(value: object) -> ShapeEnv | None:
    if isinstance(value, SYMBOLIC):
        env: ShapeEnv = value.node.shape_env
        return env
    if isinstance(value, FakeTensor) and any(isinstance(size, torch.SymInt) for size in value.shape):
        return value.fake_mode.shape_env
    return None
