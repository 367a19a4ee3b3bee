"""The code of a graph as text, and what a rewrite changed in it."""

from __future__ import annotations

import difflib
import re
from typing import Any

from torch.export import ExportedProgram
from torch.fx import GraphModule

_FREED = re.compile(r";  (\w+ = )+None(?=$|\s*#)")


def code_of(model: GraphModule | ExportedProgram | Any) -> str:
    """The generated code of a graph, without the ``x = None`` behind each last use of a value.

    >>> import torch
    >>> print(code_of(torch.fx.symbolic_trace(torch.nn.Sequential(torch.nn.ReLU()))))
    def forward(self, input):
        input_1 = input
        _0 = getattr(self, "0")(input_1)
        return _0
    """
    module = model.graph_module if isinstance(model, ExportedProgram) else model
    lines = [_FREED.sub("", line).rstrip() for line in module.code.splitlines()]
    return "\n".join(line for line in lines if line)


def code_difference(before: Any, after: Any, context: int = 1) -> str:
    """A unified diff of the code of two graphs; "" where it is the same."""
    old, new = code_of(before).splitlines(), code_of(after).splitlines()
    return "\n".join(difflib.unified_diff(old, new, "before", "after", n=context, lineterm=""))
