"""What ``fxrules infer`` does: two functions of the user's as the text of a rule."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from ...dsl.source import FxrulesError, Problem
from ..inferring import infer
from .models import load_attribute


def infer_text(pattern: str, replacement: str, name: str | None, output: Path | None) -> str:
    """The rule of two functions named as ``module:function``, formatted; written to ``output`` where one is given.

    Raises FxrulesError where a function is missing, cannot be a rule, or the file cannot be written.
    """
    text = infer(_function(pattern), _function(replacement), name=name).text
    if output is not None:
        try:
            output.write_text(text, encoding="utf-8", newline="\n")
        except OSError as error:
            raise FxrulesError(Problem(None, "cannot-write", f"{output}: {error.strerror}")) from error
    return text


def _function(spec: str) -> Callable[..., Any]:
    place, _, name = spec.rpartition(":")
    if not place or not name:
        message = f"`{spec}` is not module:function"
        raise FxrulesError(Problem(None, "bad-function", message, "for example patterns:gelu, or patterns.py:gelu"))
    found = load_attribute(place, name)
    if not callable(found):
        message = f"{spec} is {found!r} and no function"
        raise FxrulesError(Problem(None, "bad-function", message))
    function: Callable[..., Any] = found
    return function
