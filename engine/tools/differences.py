"""The code of a graph as text, and what a rewrite changed in it."""

from __future__ import annotations

import difflib
import re
from typing import Any

from torch.export import ExportedProgram
from torch.fx import GraphModule

_LONGEST_HEAD = 120
_FREED = re.compile(r";  (\w+ = )+None(?=$|\s*#)")


def code_of(model: GraphModule | ExportedProgram | Any) -> str:
    """The generated code of a graph, made to be read.

    The ``x = None`` behind each last use of a value is left out, and so are most names of a long
    list of parameters.

    >>> import torch
    >>> print(code_of(torch.fx.symbolic_trace(torch.nn.Sequential(torch.nn.ReLU()))))
    def forward(self, input):
        input_1 = input
        _0 = getattr(self, "0")(input_1)
        return _0
    """
    module = model.graph_module if isinstance(model, ExportedProgram) else model
    lines = [_FREED.sub("", line).rstrip() for line in module.code.splitlines()]
    return "\n".join(_shortened(line) for line in lines if line)


def _shortened(line: str) -> str:
    """A ``def`` line with its first and last parameters only, where it is very long."""
    head, bracket, rest = line.partition("(")
    if len(line) <= _LONGEST_HEAD or not head.startswith("def "):
        return line
    names = rest.split(", ")
    return f"{head}{bracket}{names[0]}, {names[1]}, <{len(names) - 3} more>, {names[-1]}"


def hunks(difference: str) -> list[str]:
    """The parts of a unified diff, each with its ``@@`` line; the lines that name the files are left out.

    >>> hunks("--- a\\n+++ b\\n@@ -1 +1 @@\\n-x\\n+y\\n@@ -9 +9 @@\\n-z")
    ['@@ -1 +1 @@\\n-x\\n+y', '@@ -9 +9 @@\\n-z']
    """
    return [f"@@{part}".rstrip("\n") for part in re.split(r"^@@", difference, flags=re.MULTILINE)[1:]]


def code_difference(before: Any, after: Any, context: int = 1) -> str:
    """A unified diff of the code of two graphs; "" where it is the same."""
    old, new = code_of(before).splitlines(), code_of(after).splitlines()
    return "\n".join(difflib.unified_diff(old, new, "before", "after", n=context, lineterm=""))
