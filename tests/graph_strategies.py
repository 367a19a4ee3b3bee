"""Random small graphs over a dozen op families, at torch and at aten level, in many spellings.

Values are cubes of side 4 where possible, so that transposes, permutations, products and
norms of any of them fit together. ``meta["val"]`` is there for most nodes, on the meta device.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from random import Random
from typing import Any, TypeAlias

import torch
import torch.nn.functional as F
from attrs import frozen
from torch.fx import Graph, Node

from fxrules.engine.nodeview import Views

aten = torch.ops.aten
Arguments: TypeAlias = tuple[tuple[Any, ...], dict[str, Any]]

NUMBERS = (0.5, 1, 2, 3, 0, -1, 1.0, True, True, 0.1, 0.044715, 0.7978845608028654, 0.79788456, 0.7978)
DTYPES = (torch.float32, torch.float32, torch.float16, torch.float64, torch.int64)


@frozen
class Spelled:
    """One op: its spellings at torch level and at aten level, and how to draw its arguments."""

    torch: tuple[Any, ...]
    aten: tuple[Any, ...]
    draw: Callable[[Random, list[Node]], Arguments]


def _operand(random: Random, values: list[Node]) -> Any:
    return random.choice(NUMBERS) if random.random() < 0.4 else random.choice(values)


def _two(random: Random, values: list[Node]) -> Arguments:
    pair = [random.choice(values), _operand(random, values)]
    return tuple(pair), {}


def _two_alpha(random: Random, values: list[Node]) -> Arguments:
    return _two(random, values)[0], {"alpha": 2} if random.random() < 0.15 else {}


def _either_way(random: Random, values: list[Node]) -> Arguments:
    pair = [random.choice(values), _operand(random, values)]
    random.shuffle(pair)
    return tuple(pair), {}


def _tensors(random: Random, values: list[Node]) -> Arguments:
    return (random.choice(values), random.choice(values)), {}


def _one(random: Random, values: list[Node]) -> Arguments:
    return (random.choice(values),), {}


def _one_dim(random: Random, values: list[Node]) -> Arguments:
    return (random.choice(values), random.choice((-1, 2, 0, 1))), {}


def _two_dims(random: Random, values: list[Node]) -> Arguments:
    return (random.choice(values), *random.sample((0, 1, -1), 2)), {}


def _order(random: Random, values: list[Node]) -> Arguments:
    return (random.choice(values), random.choice(([0, 2, 1], [2, 1, 0], [0, -1, 1]))), {}


def _list(random: Random, values: list[Node]) -> Arguments:
    items = [random.choice(values) for _ in range(random.randint(1, 4))]
    return (items, *random.choice(((), (0,), (-1,), (2,)))), {}


def _pieces(random: Random, values: list[Node]) -> Arguments:
    return (random.choice(values), random.choice((2, 2, 1)), *random.choice(((), (-1,), (1,)))), {}


def _norm(random: Random, values: list[Node]) -> Arguments:
    weights = random.choice(((), (random.choice(values),), (random.choice(values), random.choice(values))))
    return (random.choice(values), [4], *weights), {"eps": 1e-6} if random.random() < 0.3 else {}


def _aten_norm(random: Random, values: list[Node]) -> Arguments:
    (value, shape, *weights), keywords = _norm(random, values)
    return (value, shape, *weights, *[None] * (2 - len(weights)), *keywords.values()), {}


def _dropped(random: Random, values: list[Node]) -> Arguments:
    return (random.choice(values), random.choice((0.5, 0.1)), random.random() < 0.2), {}


def _sum(random: Random, values: list[Node]) -> Arguments:
    return (random.choice(values), [random.choice((-1, 0, 2))]), {"keepdim": True} if random.random() < 0.5 else {}


def _aten_sum(random: Random, values: list[Node]) -> Arguments:
    args, keywords = _sum(random, values)
    return (*args, *keywords.values()), {}


def _slope(random: Random, values: list[Node]) -> Arguments:
    return (random.choice(values), *random.choice(((), (0.01,), (0.2,)))), {}


def _approximation(random: Random, values: list[Node]) -> Arguments:
    return (random.choice(values),), random.choice(({}, {"approximate": "tanh"}, {"approximate": "none"}))


def _pool(random: Random, values: list[Node]) -> Arguments:
    strides = random.choice(((), (2,), ([2, 2],), (1,), ([2, 1],)))
    return (random.choice(values), random.choice((2, [2, 2])), *strides), {}


def _aten_pool(random: Random, values: list[Node]) -> Arguments:
    (value, kernel, *strides), keywords = _pool(random, values)
    return (value, *([size, size] if isinstance(size, int) else size for size in (kernel, *strides))), keywords


def _dtype(random: Random, values: list[Node]) -> Arguments:
    return (random.choice(values), random.choice((torch.float32, torch.float16))), {}


def _index(random: Random, values: list[Node]) -> Arguments:
    index = random.choice(
        ((..., slice(0, 2)), (slice(None), 1), 0, (None, slice(2, None)), (..., slice(None, 2), None))
    )
    return (random.choice(values), index), {}


def _slice(random: Random, values: list[Node]) -> Arguments:
    bounds = random.choice(((0, 2), (2, 9223372036854775807), (0, 9223372036854775807)))
    return (random.choice(values), random.choice((0, 1, 2, -1)), *bounds), {}


def _select(random: Random, values: list[Node]) -> Arguments:
    return (random.choice(values), random.choice((0, 1, 2)), random.choice((0, 1, -1))), {}


OPS: Mapping[str, Spelled] = {
    "add": Spelled((torch.add, "add"), (aten.add.Tensor,), _two_alpha),
    "plus": Spelled((operator.add,), (), _either_way),
    "sub": Spelled((torch.sub, operator.sub, "sub"), (aten.sub.Tensor,), _two),
    "mul": Spelled((torch.mul, operator.mul, "mul"), (aten.mul.Tensor,), _two),
    "times": Spelled((operator.mul,), (), _either_way),
    "div": Spelled((torch.div, operator.truediv, "div"), (aten.div.Tensor,), _two),
    "pow": Spelled((torch.pow, operator.pow, "pow"), (aten.pow.Tensor_Scalar,), _two),
    "matmul": Spelled((torch.matmul, operator.matmul, "matmul"), (aten.matmul.default,), _tensors),
    "maximum": Spelled((torch.maximum, "maximum"), (aten.maximum.default,), _tensors),
    "neg": Spelled((torch.neg, operator.neg, "neg"), (aten.neg.default,), _one),
    "relu": Spelled((torch.relu, F.relu, "relu"), (aten.relu.default,), _one),
    "tanh": Spelled((torch.tanh, "tanh"), (aten.tanh.default,), _one),
    "gelu": Spelled((F.gelu,), (aten.gelu.default,), _approximation),
    "leaky_relu": Spelled((F.leaky_relu,), (aten.leaky_relu.default,), _slope),
    "dropout": Spelled((F.dropout,), (aten.dropout.default,), _dropped),
    "clone": Spelled((torch.clone, "clone"), (aten.clone.default,), _one),
    "softmax": Spelled((torch.softmax, F.softmax, "softmax"), (aten.softmax.int,), _one_dim),
    "transpose": Spelled((torch.transpose, "transpose"), (aten.transpose.int,), _two_dims),
    "permute": Spelled((torch.permute, "permute"), (aten.permute.default,), _order),
    "cat": Spelled((torch.cat,), (aten.cat.default,), _list),
    "split": Spelled((torch.split,), (aten.split.Tensor,), _pieces),
    "layer_norm": Spelled((F.layer_norm,), (), _norm),
    "aten_layer_norm": Spelled((), (aten.layer_norm.default,), _aten_norm),
    "sum": Spelled((torch.sum, "sum"), (), _sum),
    "aten_sum": Spelled((), (aten.sum.dim_IntList,), _aten_sum),
    "max_pool2d": Spelled((F.max_pool2d,), (), _pool),
    "aten_max_pool2d": Spelled((), (aten.max_pool2d.default,), _aten_pool),
    "to": Spelled(("to",), (), _dtype),
    "index": Spelled((operator.getitem,), (), _index),
    "slice": Spelled((), (aten.slice.Tensor,), _slice),
    "select": Spelled((torch.select,), (aten.select.int,), _select),
}


class Mix(torch.nn.Module):
    """A leaf module with every kind of argument."""

    def forward(self, x: Any, y: Any = None, *rest: Any, k: int = 2) -> Any:
        return x * k if y is None else x * k + y


class Other(torch.nn.Module):
    def forward(self, x: Any, y: Any = 0.5) -> Any:
        return x + y


def _draw_modules(random: Random, owner: torch.nn.Module) -> list[str]:
    """The names of the leaf modules that a graph may call; two names of one of them."""
    if random.random() < 0.6:
        return []
    one = Mix()
    for name, module in (("one", one), ("twin", one), ("mix", Mix()), ("other", Other())):
        owner.add_module(name, module)
    return ["one", "one", "twin", "mix", "other"]


def _draw_call(random: Random, graph: Graph, name: str, values: list[Node]) -> list[Node]:
    args: list[Any] = [random.choice(values)]
    keywords: dict[str, Any] = {}
    if random.random() < 0.4:
        args.append(random.choice((None, 0.5, random.choice(values))))
    if name != "other" and random.random() < 0.3:
        keywords["k"] = random.choice((2, 3))
    if name != "other" and len(args) == 2 and random.random() < 0.2:
        args.append(random.choice(values))
    node = graph.call_module(name, tuple(args), keywords)
    _give_fact(random, node, args[0].meta.get("val"))
    return [node]


def draw_graph(random: Random) -> Views:
    """A graph of 3 inputs, a parameter and up to ten ops, with the views to match it through."""
    level = random.choice(("torch", "aten"))
    graph, owner = Graph(), torch.nn.Module()
    owner.register_parameter("w", torch.nn.Parameter(torch.ones(4, 4, 4, device="meta")))
    values = [graph.placeholder(name) for name in "abc"]
    for value in values:
        _give_fact(random, value, torch.empty(4, 4, 4, dtype=random.choice(DTYPES), device="meta"))
    values += [graph.get_attr("w"), graph.get_attr("w")] if random.random() < 0.5 else []
    known = [spelled for spelled in OPS.values() if getattr(spelled, level)]
    modules = _draw_modules(random, owner) if level == "torch" else []
    favourites = random.sample(known, 5)
    for _ in range(random.randint(3, 10)):
        spelled = random.choice(favourites if random.random() < 0.7 else known)
        recent = values[-3:] if random.random() < 0.7 else values
        if modules and random.random() < 0.4:
            values += _draw_call(random, graph, random.choice(modules), recent)
            continue
        values += _draw_node(random, graph, random.choice(getattr(spelled, level)), spelled.draw(random, recent))
    graph.output(values[-1])
    return Views(graph, owner)


def _draw_node(random: Random, graph: Graph, target: Any, drawn: Arguments) -> list[Node]:
    args, keywords = drawn
    if isinstance(target, str):
        if not isinstance(args[0], Node):
            return []
        node = graph.call_method(target, args, keywords)
        function: Any = getattr(torch.Tensor, target)
    else:
        node, function = graph.call_function(target, args, keywords), target
    try:
        fact = function(*_facts(args), **keywords)
    except (RuntimeError, TypeError, IndexError, ValueError, AttributeError):
        fact = None
    if not isinstance(fact, tuple | list):
        _give_fact(random, node, fact)
        return [node]
    node.meta["val"] = fact
    items: list[Node] = []
    for place, piece in enumerate(fact):
        if random.random() < 0.8:
            items.append(graph.call_function(operator.getitem, (node, place)))
            _give_fact(random, items[-1], piece)
    return items


def _give_fact(random: Random, node: Node, fact: Any) -> None:
    if fact is not None and random.random() < 0.85:
        node.meta["val"] = fact


def _facts(args: Any) -> Any:
    """The arguments with facts for nodes; a node without one makes the op fail, and so have none."""
    if isinstance(args, Node):
        return args.meta.get("val", torch.empty(4, 4, 4, device="meta") if args.op == "get_attr" else None)
    return type(args)(_facts(arg) for arg in args) if isinstance(args, tuple | list) else args
