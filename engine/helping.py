"""Calling the trusted Python helpers of a rule file, for ``let``, ``where`` and ``rewrite via`` alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
from attrs import define, field
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx.experimental.symbolic_shapes import ShapeEnv, _ShapeEnvGuardError
from torch.utils import _pytree as pytree

from ..dsl.source import FxrulesError, Problem, Span
from .obstacles import user_place
from .truth import SYMBOLIC, Declined, Unknown


@define
class SizeGuard:
    """While this context lasts, a question that would fix a symbolic size is an error; `lifted` makes room in it."""

    env: ShapeEnv | None
    _active: AbstractContextManager[None] | None = field(default=None, init=False)

    @classmethod
    def of(cls, values: object) -> SizeGuard:
        """The guard of the sizes in nested values."""
        return cls(next(filter(None, map(_shape_env, pytree.tree_leaves(values))), None))

    def __enter__(self) -> None:
        if self.env is not None:
            self._active = self.env.error_on_new_guards()
            self._active.__enter__()

    def __exit__(self, *_: object) -> None:
        active, self._active = self._active, None
        if active is not None:
            active.__exit__(None, None, None)

    @contextmanager
    def lifted(self) -> Iterator[None]:
        """Let the engine's own propagation ask, which answers for no size."""
        was_active = self._active is not None
        self.__exit__()
        try:
            yield
        finally:
            if was_active:
                self.__enter__()


def call_helper(
    name: str,
    function: Callable[..., Any],
    args: tuple[object, ...],
    kwargs: Mapping[str, object],
    span: Span | None,
    site: str = "",
    *,
    guard: SizeGuard | None = None,
    passing: tuple[type[Exception], ...] = (),
) -> Any:
    """What a helper returns. ``site`` says who calls it where; ``passing`` are exceptions of ours.

    A helper that does not apply raises Declined with its reason, which goes on to the
    report. One that asks what depends on a symbolic size is told Unknown: an answer would
    fix the size. ``guard`` knows the sizes; by default those in the arguments. Raises
    FxrulesError for any other exception.

    >>> call_helper("half", lambda n: n // 2, (6,), {}, None)
    3
    """
    ours: tuple[type[Exception], ...] = (Declined, Unknown, *passing)
    try:
        with guard or SizeGuard.of((args, dict(kwargs))):
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


def _shape_env(value: object) -> ShapeEnv | None:
    if isinstance(value, SYMBOLIC):
        env: ShapeEnv = value.node.shape_env
        return env
    if isinstance(value, FakeTensor) and any(isinstance(size, torch.SymInt) for size in value.shape):
        return value.fake_mode.shape_env
    return None
