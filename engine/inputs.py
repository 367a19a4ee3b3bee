"""How a user writes the inputs of a model: a tensor, a tuple, a dict, (args, kwargs), or a list of those."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import field, frozen
from torch.utils import _pytree as pytree

from ..dsl.source import FxrulesError, Problem


@frozen
class Call:
    """The arguments of one call of a model."""

    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(factory=dict)

    def leaves(self) -> tuple[tuple[str, Any], ...]:
        """Every value in the arguments, nested ones too, with its path: ``args[0]``, ``kwargs['mask']``.

        >>> Call((1, [2, 3]), {"mask": None}).leaves()
        (('args[0]', 1), ('args[1][0]', 2), ('args[1][1]', 3), ("kwargs['mask']", None))
        """
        trees = (("args", self.args), ("kwargs", dict(self.kwargs)))
        return tuple(
            (name + pytree.keystr(path), leaf)
            for name, tree in trees
            for path, leaf in pytree.tree_flatten_with_path(tree)[0]
        )


def read_call(inputs: Any) -> Call:
    """The one call that ``inputs`` means.

    A tuple holds positional arguments, a mapping keyword arguments; ``(args, kwargs)``, a tuple
    and a dict, holds both; anything else is the one positional argument. Raises `FxrulesError`
    for a list: it stands for several calls.

    >>> read_call((1, 2))
    Call(args=(1, 2), kwargs={})
    >>> read_call({"x": 1})
    Call(args=(), kwargs={'x': 1})
    >>> read_call(((1,), {"y": 2}))
    Call(args=(1,), kwargs={'y': 2})
    """
    match inputs:
        case Call():
            return inputs
        case (tuple(args), dict(kwargs)) if isinstance(inputs, tuple) and all(isinstance(key, str) for key in kwargs):
            return Call(args, kwargs)
        case tuple():
            return Call(inputs)
        case Mapping():
            return Call((), {str(name): value for name, value in inputs.items()})
        case list():
            hint = "write the positional arguments of one call as a tuple: (x, y)"
            raise FxrulesError(Problem(None, "input-list", "a list stands for several calls; one call is needed", hint))
    return Call((inputs,))


def read_calls(inputs: Any) -> tuple[Call, ...]:
    """The calls that ``inputs`` means: one for each item of a list, else the one of `read_call`.

    >>> len(read_calls([(1, 2), (3, 4)])), len(read_calls((1, 2)))
    (2, 1)
    """
    if not isinstance(inputs, list):
        return (read_call(inputs),)
    if not inputs:
        raise FxrulesError(Problem(None, "no-inputs", "an empty list of inputs: there is nothing to run"))
    return tuple(read_call(item) for item in inputs)
