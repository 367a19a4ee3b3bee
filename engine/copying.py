"""Copy a GraphModule's graph and shell; parameters, buffers and submodules stay shared."""

from __future__ import annotations

import copy
from types import MethodType

from torch.fx import Graph, GraphModule, Node


def copy_module(module: GraphModule) -> GraphModule:
    """A GraphModule with a graph of its own and everything else shared with ``module``.

    Unlike ``copy.copy`` it keeps what the graph does not refer to (unused submodules,
    hooks, flags), and it does not generate code: call ``recompile()`` when the graph is done.

    >>> from torch import nn
    >>> from torch.fx import symbolic_trace
    >>> traced = symbolic_trace(nn.Linear(2, 2))
    >>> copied = copy_module(traced)
    >>> copied.graph is traced.graph, copied.weight is traced.weight
    (False, True)
    """
    copied: GraphModule = type(module).__new__(type(module))
    for name, value in vars(module).items():
        if isinstance(value, dict | set | list):
            value = copy.copy(value)  # tables of this module: what is added to the copy must not reach the original
        elif isinstance(value, MethodType) and value.__self__ is module:
            value = MethodType(value.__func__, copied)
        vars(copied)[name] = value
    graph = copy_graph(module.graph)
    graph.owning_module = copied
    vars(copied)["_graph"] = graph
    return copied


def copy_graph(graph: Graph) -> Graph:
    """A graph with the same nodes, names, meta and code generator.

    ``copy.deepcopy`` would copy the code generator's pytree specs too, which is slow and
    warns; the copy has a code generator object of its own that shares them.
    """
    copied = Graph(tracer_cls=graph._tracer_cls, tracer_extras=graph._tracer_extras)
    twins: dict[Node, Node] = {}
    for node in graph.nodes:
        twins[node] = twin = copied.node_copy(node, twins.__getitem__)
        if twin.name != node.name:  # export calls inputs by names that a graph gives to none: `input`, `object`
            copied._graph_namespace._obj_to_name.pop(twin, None)
            twin.name = node.name
            copied._graph_namespace.associate_name_with_obj(node.name, twin)
    copied._codegen = copy.copy(graph._codegen)
    copied._co_fields = dict(graph._co_fields)
    return copied
