"""The values of literals: strings and doc strings without quotes and escapes, numbers."""

from __future__ import annotations

import re
from inspect import cleandoc

_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0"}
_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([^\n]))")


def string_value(text: str) -> str:
    r"""The value of a string literal, its escapes resolved; an unknown escape stands for itself.

    >>> string_value(r'"a\tb\q"')
    'a\tb\\q'
    """
    return _ESCAPE.sub(_unescape, text[1:-1])


def _unescape(found: re.Match[str]) -> str:
    code = found.group(1) or found.group(2) or found.group(3)
    if code:
        return chr(int(code, 16)) if int(code, 16) < 0x110000 else found.group()
    char = found.group(4)
    return _ESCAPES.get(char, char if char in "\\\"'" else found.group())


def doc_value(text: str) -> str:
    r"""The value of a doc string with its quotes: dedented, only ``\\`` and ``\"`` resolved.

    >>> quotes = '"' * 3
    >>> doc_value(quotes + "One.\n      Two.  \n  " + quotes)
    'One.\nTwo.'
    """
    lines = (line.rstrip() for line in text[3:-3].split("\n"))
    return re.sub(r'\\([\\"])', r"\1", cleandoc("\n".join(lines)))


def number_value(text: str) -> int | float:
    """An int where the text has neither point nor exponent."""
    return int(text) if text.isdigit() else float(text)
