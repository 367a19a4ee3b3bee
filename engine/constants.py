"""Constants of the rule language as torch knows them: dtypes, layouts, memory formats, numbers."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from ..dsl.arithmetic import NAMED, fold
from ..dsl.vocabulary import DTYPE_SETS, DTYPES, FORMATS

__all__ = ["constant_of", "fold", "named_constant"]

_NAMED: Mapping[str, object] = {
    "True": True,
    "False": False,
    "None": None,
    **NAMED,
    **{name: getattr(torch, name) for name in FORMATS},
    **{name: getattr(torch, full) for name, full in DTYPES.items()},
}


def named_constant(name: str) -> tuple[bool, object]:
    """Whether ``name`` is a constant of the language, and its value.

    >>> named_constant("f16")
    (True, torch.float16)
    >>> named_constant("q")
    (False, None)
    """
    return name in _NAMED, _NAMED.get(name)


def constant_of(name: str) -> tuple[bool, object]:
    """`named_constant`, and the names of several dtypes as their tuple.

    >>> constant_of("complex")
    (True, (torch.complex64, torch.complex128))
    """
    is_known, value = named_constant(name)
    if is_known or name not in DTYPE_SETS:
        return is_known, value
    dtypes = tuple(getattr(torch, DTYPES.get(one, one)) for one in DTYPE_SETS[name])
    return True, dtypes[0] if name in DTYPES else dtypes
