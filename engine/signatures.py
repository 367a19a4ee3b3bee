"""What a family and its spellings are made of: parameters, forms, families (data only, no torch)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from functools import cached_property
from typing import Any, Final, TypeAlias

from attrs import frozen


class Required(Enum):
    """The default of a parameter that has none."""

    REQUIRED = "required"


REQUIRED: Final = Required.REQUIRED

# A default: a JSON value, lists as tuples; in a `Family` also a torch constant, in a `Signature` its text.
Default: TypeAlias = Any


@frozen
class Param:
    """One parameter. ``is_dim``: an int, or a list of them, that names dimensions of the first tensor.

    ``extra_dims`` is 1 where the dimension is counted in a result that has one more (``unsqueeze``, ``stack``).
    """

    name: str
    type: str
    default: Default | Required = REQUIRED
    keyword_only: bool = False
    is_dim: bool = False
    extra_dims: int = 0
    varargs: bool = False


@frozen
class Bound:
    """An own parameter that is the family parameter at this index."""

    index: int


@frozen
class Fixed:
    """An own parameter that must have this value (``inplace=False``), else the call is not of the family."""

    value: Default


@frozen
class Ignored:
    """An own parameter that cannot change the result (``_stacklevel``); ``value`` is used when emitting."""

    value: Default


@frozen
class Free:
    """An own parameter written ``_`` in a ``family`` statement: any value will do, but none can be emitted."""


Role: TypeAlias = Bound | Fixed | Ignored | Free


@frozen(slots=False, eq=False)
class Form:
    """One spelling of a family.

    ``level`` is ``"torch"``, ``"aten"`` or ``"any"`` (``operator.*``, which also works on Python numbers and
    tuples in an ATen graph); ``"core_aten"`` has its place here too, and no forms yet. ``kind`` is
    ``"function"``, ``"method"``, ``"attribute"`` (``x.mT``) or ``"module"``. ``params`` is the spelling's own
    signature in its own order, ``roles`` says what each one is for the family, ``constants`` are the family
    parameters (by index) that this spelling cannot vary. For a module, own parameters whose name starts with
    ``@`` are attributes of the module, the others arguments of its call. ``declared`` forms come from a
    ``family`` statement: their own names and defaults are those of the callable, once it is there.
    """

    level: str
    kind: str
    target: str
    params: tuple[Param, ...]
    roles: tuple[Role, ...]
    constants: tuple[tuple[int, Default], ...] = ()
    declared: bool = False


@frozen(slots=False, eq=False)
class Family:
    """An op under one name, with the signature that a rule's author knows.

    ``effect`` is ``"pure"``, ``"random"`` or ``"mutates"``; ``pure_when`` lists alternatives, each some
    parameters with values under which the op is pure all the same (``dropout(training=False)``).
    ``result`` is ``"tensor"``, ``"tuple"``, ``"list"``, ``"other"`` (a number, a dtype), ``"none"``, or
    ``"varies"`` with the arguments. ``lowered`` is the place of the small patterns that the family becomes
    at level ``core_aten``; nothing fills it yet.
    """

    name: str
    params: tuple[Param, ...]
    forms: tuple[Form, ...]
    commutative: bool = False
    effect: str = "pure"
    pure_when: tuple[tuple[tuple[str, Default], ...], ...] = ()
    result: str = "tensor"
    lowered: tuple[str, ...] = ()

    @cached_property
    def index(self) -> Mapping[str, int]:
        """Where each parameter stands."""
        return {param.name: i for i, param in enumerate(self.params)}

    @cached_property
    def dims(self) -> tuple[tuple[int, int], ...]:
        """Parameters that name dimensions, each with its number of extra dimensions."""
        return tuple((i, param.extra_dims) for i, param in enumerate(self.params) if param.is_dim)

    @cached_property
    def same_as(self) -> tuple[tuple[int, int], ...]:
        """Parameters that are None when they equal another one (``stride`` and ``kernel_size`` of a pooling)."""
        likes = ((i, param.type.partition(" like ")[2]) for i, param in enumerate(self.params))
        return tuple((i, self.index[name]) for i, name in likes if name)
