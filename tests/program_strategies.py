"""Random programs that run: pure ops, views, writes, random numbers, lists and tuples; and rules that are right.

A rule is read off a program: its replacement computes what its pattern computes, by the
same ops. So a rewritten program must give the same bits, whatever was rewritten where.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from random import Random
from typing import Any, TypeAlias

import torch
import torch.nn.functional as F
from attrs import define, field, frozen
from torch import Tensor, nn
from torch.fx import Graph, GraphModule, Node

from fxrules.engine.nodeview import Views

Draw: TypeAlias = Callable[["Program"], tuple[Any, ...]]


@define
class Program:
    """A graph under construction, with the value of every node: a step is taken only if it runs."""

    random: Random
    graph: Graph = field(factory=Graph)
    values: dict[Node, Any] = field(factory=dict)

    def any(self) -> Node:
        """A tensor of the program, a late one more likely."""
        tensors = [node for node, value in self.values.items() if isinstance(value, Tensor)]
        return self.random.choice(tensors[-4:] if self.random.random() < 0.6 else tensors)

    def read(self) -> Node:
        """A tensor that something has just read: a write to it comes between that and what will read its result."""
        sources = [one for node in list(self.values)[-3:] for one in node.all_input_nodes]
        tensors = [one for one in sources if isinstance(self.values[one], Tensor)]
        return self.random.choice(tensors) if tensors and self.random.random() < 0.7 else self.any()

    def like(self, node: Node) -> Node:
        """Another tensor of the same shape, if there is one."""
        shape = self.values[node].shape
        same = [one for one, value in self.values.items() if isinstance(value, Tensor) and value.shape == shape]
        return self.random.choice(same)

    def call(self, target: Any, args: tuple[Any, ...], keywords: Mapping[str, Any]) -> Node | None:
        """One more node, if it runs."""

        def value(arg: Any) -> Any:
            return torch.fx.node.map_arg(arg, self.values.__getitem__)

        function = getattr(torch.Tensor, target) if isinstance(target, str) else target
        try:
            result = function(*value(args), **value(dict(keywords)))
        except (RuntimeError, IndexError, TypeError, ValueError):
            return None
        kind = "call_method" if isinstance(target, str) else "call_function"
        node = self.graph.create_node(kind, target, args, dict(keywords))
        self.values[node] = result
        return node


@frozen
class Step:
    """One kind of step: what may be called, and with which arguments."""

    targets: tuple[Any, ...]
    draw: Callable[[Program], tuple[tuple[Any, ...], dict[str, Any]]]


def _one(p: Program) -> Any:
    return (p.any(),), {}


def _two(p: Program) -> Any:
    first = p.any()
    return (first, p.like(first) if p.random.random() < 0.8 else p.random.choice((2, 0.5, 1))), {}


def _dims(p: Program) -> Any:
    return (p.any(), 0, p.random.choice((-1, 1))), {}


def _list(p: Program) -> Any:
    first = p.any()
    return ([first, *(p.like(first) for _ in range(p.random.randint(1, 2)))], p.random.choice((0, -1))), {}


def _pieces(p: Program) -> Any:
    return (p.any(), p.random.choice((1, 2)), p.random.choice((0, -1))), {}


def _index(p: Program) -> Any:
    return (p.any(), p.random.choice((0, slice(1, None), (slice(None), 0), (..., slice(0, 2))))), {}


def _stored(p: Program) -> Any:
    _, index = _index(p)[0]
    return (p.read(), index, 0.25), {}


def _out(p: Program) -> Any:
    out = p.read()
    return (p.like(out), 1), {"out": out}


def _written(p: Program) -> Any:
    out = p.read()
    return (out, p.like(out) if p.random.random() < 0.6 else 2), {}


def _dropped(p: Program) -> Any:
    return (p.any(), 0.5, True), {}


PURE = (
    Step((torch.add, torch.sub, torch.mul, operator.add, operator.mul, "add", "mul", torch.maximum), _two),
    Step((torch.relu, torch.neg, torch.tanh, torch.sin, torch.abs, "sigmoid", F.gelu, torch.clone, "contiguous"), _one),
    Step((torch.cat, torch.stack), _list),
    Step((F.softmax,), lambda p: ((p.any(), -1), {})),
)
VIEWING = (
    Step((torch.transpose, "transpose"), _dims),
    Step((operator.getitem,), _index),
    Step((torch.split, torch.chunk), _pieces),
    Step((torch.unsqueeze,), lambda p: ((p.any(), 0), {})),
    Step(("view", "reshape"), lambda p: ((p.any(), -1), {})),
)
WRITING = (
    Step(("add_", "mul_", "copy_", torch.Tensor.sub_, operator.iadd, operator.imul), _written),
    Step(("relu_", "neg_", "zero_", torch.relu_), lambda p: ((p.read(),), {})),
    Step((operator.setitem,), _stored),
    Step((F.relu,), lambda p: ((p.read(), True), {})),
    Step((torch.add,), _out),
)
RANDOM = (Step((F.dropout,), _dropped), Step((torch.rand_like, torch.randn_like), _one), Step(("bernoulli",), _one))


def draw_program(random: Random, steps: int = 14) -> tuple[GraphModule, tuple[Tensor, ...]]:
    """A program and inputs for it; its outputs are several of its values, shared memory and all."""
    program = Program(random)
    torch.manual_seed(random.randrange(2**31))
    inputs = tuple(torch.rand(3, 4) for _ in range(2))
    for name, value in zip("ab", inputs, strict=True):
        program.values[program.graph.placeholder(name)] = value.clone()
    kinds = [PURE] * 8 + [VIEWING] * 3 + [WRITING] * random.choice((0, 2, 4)) + [RANDOM] * random.choice((0, 1))
    for _ in range(steps):
        step = random.choice(random.choice(kinds))
        made = program.call(random.choice(step.targets), *step.draw(program))
        if made is not None and isinstance(program.values[made], tuple | list):
            for place in range(len(program.values[made])):
                if random.random() < 0.8:
                    program.call(operator.getitem, (made, place), {})
    tensors = [node for node, value in program.values.items() if isinstance(value, Tensor)]
    outputs = [node for node in tensors if not node.users and random.random() < 0.8]  # else faults would not show
    program.graph.output((*outputs, *random.sample(tensors, random.choice((0, 1, 2)))))
    return GraphModule(nn.Module(), program.graph), inputs


# ------------------------------------------------------------------------ rules
@define
class _Text:
    """Writes nodes down as graph code, with a leaf for what is not written out."""

    random: Random
    views: Views
    leaves: dict[Node, str] = field(factory=dict)

    def value(self, value: Any, depth: int) -> str:
        if isinstance(value, Node):
            if depth > 0 and value not in self.leaves and self.random.random() < 0.8:
                written = self.call(value, depth)
                if written is not None:
                    return written
            return self.leaves.setdefault(value, f"x{len(self.leaves)}")
        if isinstance(value, tuple):
            return f"[{', '.join(self.value(item, depth) for item in value)}]"
        return f'"{value}"' if isinstance(value, str) else str(value)

    def call(self, node: Node, depth: int) -> str | None:
        """A node as a call of its family; None where this cannot be written or is not pure."""
        view = self.views.own(node)
        if view is None or view.effect != "pure" or view.family.name == "getitem":
            return None
        args = [self.value(view.args[0], depth - 1)]
        for at, (param, value) in enumerate(zip(view.family.params, view.args, strict=True)):
            if at and not self.views.is_default(view, at):
                args.append(f"{param.name}={self.value(value, depth - 1)}")
        return f"{view.family.name}({', '.join(args)})"


# Right, and safe only where nothing writes to the memory that is shared now, and where it does not leave the program.
SHARING = """
rule no_clone(x: Tensor) { match clone(x, memory_format=_) rewrite x numerics bitwise changes aliasing, strides }
rule no_contiguous(x: Tensor) { match contiguous(x) rewrite x numerics bitwise changes aliasing, strides }
rule no_double_neg(x: Tensor) { match neg(neg(x)) rewrite x numerics bitwise changes aliasing, strides }
rule one_relu(x: Tensor) {
  match { a = relu(x) b = relu(x) return a, b } keep a rewrite a numerics bitwise changes aliasing
}
rule own_memory(x: Tensor) { match transpose(x, 0, 1) rewrite contiguous(transpose(x, 0, 1)) changes aliasing, strides }
"""


def _reads_across_a_write(node: Node, views: Views) -> bool:
    """Whether something writes between what a node is made of and the node."""
    sources = [node, *(one for source in node.all_input_nodes for one in (source, *source.all_input_nodes))]
    between = [one for one in node.graph.nodes if min(sources) < one < node]
    return any(views.effect(one) == "mutates" for one in between)


def draw_rule(random: Random, module: GraphModule, name: str) -> str | None:
    """The text of a rule that is right by construction, with up to three results; None where none can be drawn."""
    text = _Text(random, Views(module.graph, module))
    nodes = [node for node in module.graph.nodes if text.call(node, 0) is not None]
    if not nodes:
        return None
    text.leaves.clear()
    across = [node for node in nodes if _reads_across_a_write(node, text.views)]
    root = random.choice(across if across and random.random() < 0.6 else nodes)
    results = [root]
    if root.all_input_nodes and random.random() < 0.5:
        source = random.choice(root.all_input_nodes)
        text.leaves[source] = "x0"  # what the results have in common
        near = [one for one in source.users if one in nodes and one is not root]
        results += random.sample(near, min(len(near), random.choice((1, 2))))
    written = [text.call(node, random.choice((1, 2, 3))) for node in results]
    header = ", ".join(f"{leaf}: Tensor" for leaf in text.leaves.values())
    body = f"{{ return {', '.join(str(one) for one in written)} }}"
    return f"rule {name}({header}) {{ match {body} rewrite {body} numerics bitwise }}"
