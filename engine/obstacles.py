"""What stands in the way of a graph: torch's exceptions sorted by cause, with the user's line and what to try."""

from __future__ import annotations

import io
import linecache
import logging
import re
import sys
import sysconfig
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from pathlib import Path

import torch
from attrs import frozen
from torch._dynamo.exc import Unsupported, UserError
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    UnsupportedOperatorException,
)
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from torch.fx.proxy import TraceError

from ..dsl.source import Source, Span

_DATA_DEPENDENT = (
    GuardOnDataDependentSymNode,
    DataDependentOutputException,
    DynamicOutputShapeException,
)
_BRANCH = (
    "write the branch as torch.where or torch.cond, or decide it before the model runs; "
    "torch._check tells export what is always true"
)
_LEAF = (
    'pass example_inputs with capture="export", which runs the Python code; or keep the function as one node '
    "with torch.fx.wrap"
)
_LEAVES_TORCH = (
    re.compile(r"\.numpy\(\) is not supported|can't convert .* to numpy|expected np\.ndarray"),
    re.compile(r"unsupported format string passed to (FakeTensor|Proxy)"),
    re.compile(r"not '?Proxy'?|'Proxy' object|Proxy object|'len' is not supported|proxies do not"),
)


@frozen
class Obstacle:
    """Why a model has no graph: a stable code, what happened, what to try."""

    code: str
    message: str
    hint: str


def classify(error: BaseException, how: str) -> Obstacle:
    """The cause behind an exception of `torch.export` (``how="export"``) or of symbolic tracing (``"trace"``).

    >>> classify(RuntimeError(".numpy() is not supported for tensor subclasses."), "export").code
    'graph-break'
    """
    text = _first_paragraph(str(error))
    told = f"{type(error).__name__}: {text.split('. ')[0]}"
    if isinstance(error, TraceError) and "inputs to control flow" in text:
        hint = 'capture="export" follows branches on shapes and on Python values; for values of tensors, ' + _BRANCH
        return Obstacle("data-dependent", "a branch depends on the value of a traced tensor", hint)
    if isinstance(error, _DATA_DEPENDENT) or (isinstance(error, UserError) and "data-dependent" in text.lower()):
        return Obstacle(
            "data-dependent", f"its control flow depends on values of tensors ({text.split(' (unhinted')[0]})", _BRANCH
        )
    if "no fake impl" in text or isinstance(error, UnsupportedOperatorException):
        hint = "register one: torch.library.register_fake says what shape and dtype the op returns"
        return Obstacle("operator-without-fake", f"a custom op has no fake implementation ({text})", hint)
    if "Unsupported input type" in text:
        hint = "register the class with torch.export.register_dataclass, or pass its tensors"
        return Obstacle("unsupported-input", text.split(". ")[0], hint)
    if "in output, which is not a known type" in text:
        hint = "return tensors, tuples, lists or dicts, or register the class with torch.export.register_dataclass"
        if "transformers.cache_utils" in text:
            hint = "set model.config.use_cache = False, so that the model returns no cache"
        return Obstacle("unsupported-output", text.split(". ")[0], hint)
    if isinstance(error, Unsupported) or any(pattern.search(text) for pattern in _LEAVES_TORCH):
        if how == "trace":
            return Obstacle("graph-break", f"Python needs the value of a traced tensor ({told})", _LEAF)
        hint = "say it with torch ops, or make it one op: torch.library.custom_op with register_fake"
        return Obstacle("graph-break", f"the code leaves torch here ({told})", hint)
    other = 'capture="trace"' if how == "export" else 'capture="export" with example_inputs'
    return Obstacle("untraceable", told, f"try {other}, or capture the parts that matter")


def user_place(error: BaseException) -> Span | None:
    """The innermost line outside torch, the standard library and fxrules that the exception passed through."""
    ours = (Path(torch.__file__).parent, Path(__file__).resolve().parent, Path(__file__).parent)
    standard = Path(sysconfig.get_path("stdlib"))
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        path = Path(frame.filename)
        in_standard = standard in path.parents and "site-packages" not in path.parts
        if not path.is_file() or in_standard or any(folder in path.parents for folder in ours):
            continue
        return _span(frame)
    return None


def _span(frame: traceback.FrameSummary) -> Span:
    lines = linecache.getlines(frame.filename)
    line = frame.lineno or 1
    start = sum(map(len, lines[: line - 1]))
    text = lines[line - 1].rstrip("\n") if line <= len(lines) else ""
    first = len(text) - len(text.lstrip())
    last = len(text)
    if frame.colno is not None and frame.end_colno is not None and frame.end_lineno == line:
        first, last = (len(text.encode()[:at].decode(errors="ignore")) for at in (frame.colno, frame.end_colno))
    return Span(Source(frame.filename, "".join(lines)), start + first, start + last)


def _first_paragraph(text: str) -> str:
    """The first lines of a message, without the advice that torch adds below a blank line."""
    return " ".join(re.split(r"\n\s*\n", text.strip())[0].split())


@contextmanager
def quiet_torch() -> Iterator[list[str]]:
    """Keep torch from printing what an error will say; the list is what it logged.

    What a block that succeeds prints on stderr is printed at its end.
    """
    names = [name for name in logging.root.manager.loggerDict if name.split(".")[0] == "torch"]
    handlers = {handler for name in names for handler in logging.getLogger(name).handlers}
    printed = io.StringIO()
    logged: list[str] = []

    def drop(record: logging.LogRecord) -> bool:
        logged.append(logging.Formatter().format(record))
        return False

    for handler in handlers:
        handler.addFilter(drop)
    try:
        with redirect_stderr(printed):
            yield logged
        sys.stderr.write(printed.getvalue())
    finally:
        for handler in handlers:
            handler.removeFilter(drop)
