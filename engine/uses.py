"""How often a module or a parameter is used: in the whole graph with its subgraphs, by identity and not by name."""

from __future__ import annotations

from attrs import frozen
from torch import Tensor, nn
from torch.fx import Graph, GraphModule, Node

from .kinds import ModuleAttr, Submodule
from .nodeview import Views
from .observers import is_observer
from .walks import attribute_at


def uses(value: Node | ModuleAttr | Submodule, views: Views) -> int | None:
    """The number of places that call a module, or read a parameter or buffer; None for any other value.

    A call of a module counts for all modules, parameters and buffers below it; a reader of
    a parameter counts for the modules that hold it. A module or tensor with two names is one.
    """
    if isinstance(value, Submodule):
        wanted: nn.Module | Tensor | None = value.module
    else:
        wanted = _tensor(value, views)
    if wanted is None:
        return None
    tensors = [wanted] if isinstance(wanted, Tensor) else [*wanted.parameters(), *wanted.buffers()]
    look = _Look(wanted, frozenset(map(id, tensors)), views)
    return look.count(views.graph, views.owner)


def _tensor(value: Node | ModuleAttr, views: Views) -> Tensor | None:
    match value:
        case ModuleAttr(path) | Node(op="get_attr", target=str(path)):
            found = attribute_at(views.owner, path)
        case Node(op="placeholder", name=name):
            found = views.lifted.get(name)
        case _:
            found = None
    return found if isinstance(found, Tensor) else None


@frozen
class _Look:
    """What is looked for: a module or tensor, and the identities of its tensors."""

    wanted: nn.Module | Tensor
    tensors: frozenset[int]
    views: Views

    def count(self, graph: Graph, owner: nn.Module | None) -> int:
        """The places in a graph, and in the graphs of modules that it calls or hands to others."""
        return sum(self._at(node, graph, owner) for node in graph.nodes)

    def _at(self, node: Node, graph: Graph, owner: nn.Module | None) -> int:
        readers = sum(1 for user in node.users if not is_observer(user))
        if node.op == "placeholder" and graph is self.views.graph:
            return readers if id(self.views.lifted.get(node.name)) in self.tensors else 0
        if node.op not in ("call_module", "get_attr"):
            return 0
        held, times = attribute_at(owner, str(node.target)), 1 if node.op == "call_module" else readers
        if held is self.wanted or id(held) in self.tensors:
            return times
        if isinstance(held, GraphModule):
            return times * self.count(held.graph, held)
        return times if isinstance(held, nn.Module) and self._is_below(held) else 0

    def _is_below(self, module: nn.Module) -> bool:
        tensors = (*module.parameters(), *module.buffers())
        return any(id(one) in self.tensors for one in tensors) or any(one is self.wanted for one in module.modules())
