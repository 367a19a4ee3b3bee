"""What must hold of a graph after every round: plain functions that say what is wrong.

They look at the graph alone and name nodes, so that a broken rewrite is found at once
and not far away.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from torch import nn
from torch.fx import Graph, Node

from .journal import Journal, ModuleOwner


def violations(graph: Graph, journal: Journal) -> list[str]:
    """Everything that is wrong with a graph; empty if all invariants hold.

    >>> graph = Graph()
    >>> out = graph.output(graph.placeholder("x"))
    >>> violations(graph, Journal(graph))
    []
    """
    owner = journal.owner.module if isinstance(journal.owner, ModuleOwner) else None
    return [problem for check in _CHECKS for problem in check(graph, owner)]


def inputs_come_first(graph: Graph, owner: nn.Module | None) -> list[str]:
    """Placeholders stand before everything that computes."""
    computed: Node | None = None
    for node in graph.nodes:
        if node.op != "placeholder":
            computed = computed if node.op == "get_attr" else (computed or node)
        elif computed is not None:
            return [f"the input `{node.name}` stands behind `{computed.name}`"]
    return []


def the_output_is_last(graph: Graph, owner: nn.Module | None) -> list[str]:
    """There is one output node, at the end."""
    outputs = graph.find_nodes(op="output")
    if len(outputs) != 1:
        return [f"the graph has {len(outputs)} output nodes"]
    return [] if outputs[0].next is graph._root else [f"`{outputs[0].next.name}` stands behind the output"]


def reads_are_legal(graph: Graph, owner: nn.Module | None) -> list[str]:
    """A node reads nodes of this graph that come before it and are not erased, and is among their users."""
    found: list[str] = []
    seen: set[Node] = set()
    for node in graph.nodes:
        for source in node._input_nodes:
            if source not in seen:
                found.append(f"`{node.name}` reads `{source.name}`, which is {_state(source, graph)}")
            elif node not in source.users:
                found.append(f"`{node.name}` is missing among the users of `{source.name}`")
        seen.add(node)
    return found


def users_are_alive(graph: Graph, owner: nn.Module | None) -> list[str]:
    """Every user of a node is in the graph and reads it."""
    return [
        f"`{user.name}` is a user of `{node.name}` and {_state(user, graph) if user._erased else 'does not read it'}"
        for node in graph.nodes
        for user in node.users
        if user._erased or node not in user._input_nodes
    ]


def names_are_unique(graph: Graph, owner: nn.Module | None) -> list[str]:
    """No two nodes have one name, and the names are Python identifiers."""
    names = Counter(node.name for node in graph.nodes)
    twice = [f"{count} nodes are called `{name}`" for name, count in names.items() if count > 1]
    return twice + [f"`{name}` is no valid name" for name in names if not name.isidentifier()]


def attributes_exist(graph: Graph, owner: nn.Module | None) -> list[str]:
    """Every attribute and submodule that the graph names is there."""
    if owner is None or owner is graph.owning_module:
        return []  # FX itself looks there
    found = []
    for op in ("get_attr", "call_module"):
        for node in graph.find_nodes(op=op):
            value: object = owner
            for name in str(node.target).split("."):
                value = getattr(value, name, None)
            if value is None or (op == "call_module" and not isinstance(value, nn.Module)):
                found.append(f"`{node.name}` refers to `{node.target}`, which does not exist")
    return found


def metadata_is_kept(graph: Graph, owner: nn.Module | None) -> list[str]:
    """What a rule made has metadata if its inputs have."""
    return [
        f"`{node.name}` was made without metadata, though its inputs have some"
        for node in graph.nodes
        if "fxrules" in node.meta
        and not _has_facts(node)
        and node._input_nodes
        and all(_has_facts(source) for source in node._input_nodes)
    ]


def the_graph_is_well_formed(graph: Graph, owner: nn.Module | None) -> list[str]:
    """What FX itself checks."""
    try:
        graph.lint()
    except (RuntimeError, ValueError) as error:
        return [str(error).partition("\n")[0]]
    return []


_CHECKS: tuple[Callable[[Graph, nn.Module | None], list[str]], ...] = (
    inputs_come_first,
    the_output_is_last,
    reads_are_legal,
    users_are_alive,
    names_are_unique,
    attributes_exist,
    metadata_is_kept,
    the_graph_is_well_formed,
)


def _state(node: Node, graph: Graph) -> str:
    if node._erased:
        return "erased"
    return "not yet computed there" if node.graph is graph else "a node of another graph"


def _has_facts(node: Node) -> bool:
    return "val" in node.meta or "example_value" in node.meta
