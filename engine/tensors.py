"""What is known of the values of a graph: their facts, and the tensors among them whose value is known."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from attrs import define, field
from torch.fx import Graph, Node

from .kinds import ModuleAttr
from .walks import attribute_at


@define(eq=False)
class Tensors:
    """Facts of the nodes of one graph, whose attributes and submodules ``owner`` holds.

    ``lifted`` has the values of placeholders that stand for parameters, buffers and constants.
    """

    graph: Graph
    owner: torch.nn.Module | None
    lifted: Mapping[str, torch.Tensor]
    _modules: dict[str, torch.nn.Module | None] = field(factory=dict, init=False, repr=False)
    _written: frozenset[object] | None = field(default=None, init=False, repr=False)
    _sketches: dict[int, tuple[Any, torch.Tensor | None]] = field(factory=dict, init=False, repr=False)

    def fact(self, value: Any) -> Any:
        """The tensor (fake or real), number or tuple that carries the facts of a value; None if unknown."""
        if isinstance(value, ModuleAttr):
            return self.attribute(value.path)
        if not isinstance(value, Node):
            return value if isinstance(value, torch.Tensor) else None
        meta = value.meta
        found = meta.get("val")
        if found is None:
            found = meta.get("example_value")
        if found is None and value.op == "get_attr":
            found = self.attribute(str(value.target))
        if found is None and value.op == "placeholder":
            found = self.lifted.get(value.name)
        if found is None and "tensor_meta" in meta:
            found = self._sketched(meta["tensor_meta"])
        return found

    def _sketched(self, record: Any) -> torch.Tensor | None:
        """The tensor of a ShapeProp record, the same one each time."""
        known = self._sketches.get(id(record))
        if known is None:
            known = self._sketches[id(record)] = (record, _from_tensor_meta(record))
        return known[1]

    def rank(self, value: Any) -> int | None:
        """The number of dimensions of a tensor, or of every tensor in a list; None if unknown."""
        if isinstance(value, tuple):
            ranks = {self.rank(one) for one in value}
            return ranks.pop() if len(ranks) == 1 else None
        fact = self.fact(value)
        return fact.dim() if isinstance(fact, torch.Tensor) else None

    def attribute(self, path: str) -> Any:
        """What the owner has at a dotted path; None if nothing."""
        return attribute_at(self.owner, path)

    def module(self, path: str) -> torch.nn.Module | None:
        """The submodule at a path; None if there is none or no owner."""
        if path not in self._modules:
            found = self.attribute(path)
            self._modules[path] = found if isinstance(found, torch.nn.Module) else None
        return self._modules[path]

    def constant(self, value: Any, effect: Callable[[Node], str]) -> torch.Tensor | None:
        """The tensor that a value is known to be at rewrite time; None if the program may change it.

        ``effect`` says what a node does besides computing its value.
        """
        if isinstance(value, torch.Tensor):
            return value
        if isinstance(value, ModuleAttr):
            path, found = value.path, self.attribute(value.path)
        elif isinstance(value, Node) and value.op == "get_attr":
            path, found = str(value.target), self.attribute(str(value.target))
        elif isinstance(value, Node) and value.op == "placeholder":
            path, found = value.name, self.lifted.get(value.name)
        else:
            return None
        if not isinstance(found, torch.Tensor):
            return None
        if self._written is None:
            paths = set(self._paths_written(effect))
            memory = [storage_of(self.attribute(one) if one not in self.lifted else self.lifted[one]) for one in paths]
            self._written = frozenset([*paths, *memory]) - {None}
        return None if path in self._written or storage_of(found) in self._written else found

    def _paths_written(self, effect: Callable[[Node], str]) -> Iterator[str]:
        for node in self.graph.nodes:
            if effect(node) in ("mutates", "opaque"):
                yield from self._reached(node)

    def _reached(self, node: Node) -> Iterator[str]:
        """Attributes and placeholders that a write may reach: up the first arguments, which views alias."""
        if node.op == "call_module":
            module = self.module(str(node.target))
            for name, _ in module.named_buffers() if module is not None else ():
                yield f"{node.target}.{name}"
        pending, seen = list(node.all_input_nodes), set(node.all_input_nodes)
        while pending:
            one = pending.pop()
            if one.op == "get_attr":
                yield str(one.target)
            elif one.op == "placeholder":
                yield one.name
            elif one.args and isinstance(one.args[0], Node) and one.args[0] not in seen:
                seen.add(one.args[0])
                pending.append(one.args[0])

    def forget(self) -> None:
        """Drop what is known of modules and of writes."""
        self._modules.clear()
        self._written = None


def storage_of(value: object) -> int | None:
    """What stands for the memory of a tensor, the same for all that share it; None if it has no plain memory."""
    if not isinstance(value, torch.Tensor) or value.layout is not torch.strided:
        return None
    storage: int = value.untyped_storage()._cdata
    return storage


def _from_tensor_meta(meta: Any) -> torch.Tensor | None:
    """A tensor without data that has the shape and strides of a ShapeProp record; its device is unknown."""
    if not hasattr(meta, "shape"):
        return None
    return torch.empty_strided(tuple(meta.shape), tuple(meta.stride), dtype=meta.dtype, device="meta")
