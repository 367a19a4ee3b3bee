"""A full picture of a graph and its module, for tests that want both back bit for bit."""

from __future__ import annotations

from collections.abc import Callable
from types import FrameType
from typing import Any

from torch import nn
from torch.fx import Graph, GraphModule


def snapshot(graph: Graph, module: nn.Module | None = None) -> dict[str, Any]:
    """Everything a caller could notice, order included; values by identity where it matters."""
    names = graph._graph_namespace
    picture: dict[str, Any] = {
        "nodes": [
            (
                id(node), node.name, node.op, node.target, id(node.args), id(node.kwargs), repr(node.args),
                tuple(node.users), tuple(node._input_nodes), node._sort_key, node._erased, id(node.meta),
                [(key, id(value)) for key, value in node.meta.items()],
            )
            for node in graph.nodes
        ],
        "backwards": [node.name for node in reversed(graph.nodes)],
        "length": len(graph.nodes),
        "insert": graph._insert,
        "codegen": id(graph._codegen),
        # Asking a graph for nodes leaves an empty bucket behind; nobody can notice it.
        "buckets": [(key, list(bucket)) for key, bucket in graph._find_nodes_lookup_table.table.items() if bucket],
        "used names": sorted(names._used_names),
        "name counts": list(names._base_count.items()),
        "named objects": [(id(key), name) for key, name in names._obj_to_name.items()],
    }  # fmt: skip
    if module is not None:
        picture["attributes"] = {
            path: [
                [(name, id(value)) for name, value in getattr(part, table).items()]
                for table in ("_parameters", "_buffers", "_modules")
            ]
            + [sorted(part._non_persistent_buffers_set), sorted(part.__dict__)]
            for path, part in module.named_modules()
        }
    if isinstance(module, GraphModule):
        picture["code"] = module.code
    return picture


def interrupt_at(step: int, files: tuple[str, ...]) -> Callable[[FrameType, str, Any], Any]:
    """A trace function that raises KeyboardInterrupt at the ``step``-th line run in ``files``."""
    left = step

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal left
        if not frame.f_code.co_filename.endswith(files):
            return None
        if event == "line":
            left -= 1
            if left == 0:
                raise KeyboardInterrupt
        return trace

    return trace
