"""Traced graphs as rule text: each node becomes the call, operator or index that a rule's author would write."""

from __future__ import annotations

import math
import operator
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

import torch
from attrs import define, field
from torch.fx import Graph, GraphModule, Node, symbolic_trace

from ..dsl import ast
from ..dsl.source import FxrulesError, Problem
from ..dsl.vocabulary import CONSTANTS, DTYPE_SETS, DTYPES, FACTS, FORMATS, VOCABULARY
from .frames import BINARY_FAMILIES, UNARY_FAMILIES
from .kinds import ModuleAttr
from .leaves import Leaves
from .nodeview import View, Views
from .obstacles import user_place
from .plans import word
from .signatures import REQUIRED
from .walks import computed_from, nodes_in

_BINARY = {family: op for op, family in BINARY_FAMILIES.items()}
_UNARY = {family: op for op, family in UNARY_FAMILIES.items()}
_GIVE_IT = "make it a parameter of both functions"
_DEEPEST = 8
"""A value that holds more calls in one another than this gets a line of its own."""

RESERVED = (
    CONSTANTS | DTYPES.keys() | DTYPE_SETS.keys() | FORMATS | {"_", "aten", "torch", "F", "nn", "operator", "math"}
)
"""Names that no leaf may have."""

_DTYPE_NAMES: Mapping[Any, str] = {getattr(torch, long): short for short, long in DTYPES.items()} | {torch.bool: "bool"}
_FORMAT_NAMES: Mapping[Any, str] = {getattr(torch, name): name for name in FORMATS}


@define(eq=False)
class Transcriber:
    """One traced function on its way to a body of a rule.

    ``what`` is ``"pattern"`` or ``"replacement"``; ``leaves`` learns what each parameter
    is used as. Raises FxrulesError for what rules cannot say.
    """

    what: str
    module: GraphModule
    leaves: Leaves
    views: Views = field(init=False)
    _known: dict[Node, ast.Expr] = field(factory=dict, init=False)
    _depths: dict[Node, int] = field(factory=dict, init=False)
    _names: set[str] = field(factory=set, init=False)

    def __attrs_post_init__(self) -> None:
        self.views = Views(self.module.graph, self.module)

    # -------------------------------------------------------------------- bodies
    def body(self) -> ast.Block:
        """The function's result, with a line for each value that is used more than once."""
        result = self.module.graph.output_node().args[0]
        results = result if isinstance(result, tuple | list) else (result,)
        needed = computed_from(nodes_in(results))
        uses = Counter(one for node in needed for one in nodes_in((node.args, node.kwargs))) + Counter(
            nodes_in(results)
        )
        assigns: list[ast.Assign] = []
        for node in self.module.graph.nodes:
            if node not in needed or node.op == "placeholder":
                continue
            expr = self._expr(node)
            depth = 1 + max((self._depths.get(one, 0) for one in node.all_input_nodes), default=0)
            is_shared = uses[node] > 1 and not _is_size(expr)
            if isinstance(expr, ast.Name) or not (is_shared or (depth > _DEEPEST and node not in results)):
                self._known[node], self._depths[node] = expr, depth
                continue
            name = self._fresh(node.name)
            assigns.append(ast.Assign((name,), expr))
            self._known[node] = ast.Name(name)
        return ast.Block(tuple(assigns), tuple(self.value(one) for one in results))

    def _fresh(self, hint: str) -> str:
        """A name for a line that means nothing else in a rule."""
        taken = {*self._names, *self.leaves.names.values(), *self.leaves.dims, *RESERVED, *VOCABULARY}
        name, number = hint, 0
        while name in taken or name in self.views.table.families:
            name, number = f"{hint}_{number}", number + 1
        self._names.add(name)
        return name

    # --------------------------------------------------------------------- nodes
    def _expr(self, node: Node) -> ast.Expr:
        if node.op == "get_attr":
            self.fail(f"reads a tensor of its own, `{node.target}`: {_GIVE_IT}")
        size = self._size(node)
        if size is not None:
            return size
        if node.target is operator.getitem:
            return self._index(node)
        view = self.views.own(node)
        if view is not None:
            # `x.to(d)` with a parameter d: a dtype, which is the usual case, and not a tensor to be like
            return self._call((self.views.view_as(node, "to") or view) if view.family.name == "to_other" else view)
        if isinstance(node.target, torch._ops.OpOverload | torch._ops.OpOverloadPacket):
            args = [self.value(arg) for arg in node.args]
            keywords = [ast.Keyword(name, self.value(value)) for name, value in node.kwargs.items()]
            return ast.Call(_dotted(str(node.target).removesuffix(".default")), (*args, *keywords))
        if vars(math).get(name := getattr(node.target, "__name__", "")) is node.target and name in VOCABULARY:
            return ast.Call(ast.Name(name), tuple(map(self.value, node.args)))
        called = node.target if isinstance(node.target, str) else getattr(node.target, "__qualname__", node.target)
        kind = {"call_method": "the method", "call_module": "the module"}.get(node.op, "the function")
        if self.views.family_names(node):
            self.fail(f"calls {kind} `{called}` with arguments that its op family cannot hold, a parameter for a text?")
        return self.fail(f"calls {kind} `{called}`, which no op family has: rules name ops by their families")

    def _call(self, view: View) -> ast.Expr:
        family, form = view.family, view.form
        given = [at for at, param in enumerate(family.params) if not self._left_out(view, at)]
        values = {at: self._argument(_alone(view, at), word(family.params[at].type)) for at in given}
        if family.name in _BINARY and given == [0, 1]:
            return ast.Binary(_BINARY[family.name], values[0], values[1])
        if family.name in _UNARY and given == [0]:
            return ast.Unary(_UNARY[family.name], values[0])
        if form is not None and form.kind == "attribute":
            return ast.Attribute(values[0], family.name)
        args: list[ast.Expr | ast.Keyword] = []
        for at, value in values.items():
            param = family.params[at]
            by_place = len(args) == at and not param.keyword_only and (at == 0 or not view_has_default(view, at))
            args.append(value if by_place else ast.Keyword(param.name, value))
        self.leaves.called.add(family.name)
        return ast.Call(ast.Name(family.name), tuple(args))

    def _left_out(self, view: View, at: int) -> bool:
        return view_has_default(view, at) and self.views.is_default(view, at)

    # ----------------------------------------------------------------- arguments
    def _argument(self, value: Any, kind: str) -> ast.Expr:
        """An argument of an op whose parameter is of this kind; what a leaf is used as is noted."""
        if not isinstance(value, Node):
            inner = kind.partition("[")[0] if "[" in kind and isinstance(value, tuple) else "any"
            if isinstance(value, tuple):
                return ast.List(tuple(self._argument(item, inner) for item in value))
            return self.value(value)
        if value.op == "placeholder" and self.leaves.use(str(value.target), kind, self.what):
            return ast.List((ast.Star(self.value(value)),))
        return self.value(value)

    def value(self, value: Any) -> ast.Expr:
        """A node by its name or expression, a plain value as a literal."""
        match value:
            case Node(op="placeholder"):
                self.leaves.used[self.what].add(str(value.target))
                return ast.Name(self.leaves.names[str(value.target)])
            case Node():
                return self._known[value]
            case bool() | None:
                return ast.Name(str(value))
            case int() | float():
                return _number(value)
            case str():
                return ast.String(value)
            case torch.device():
                return ast.String(str(value))
            case tuple() | list():
                return ast.List(tuple(map(self.value, value)))
            case ModuleAttr(path):
                self.fail(f"reads a tensor of a module, `{path}`: {_GIVE_IT}")
        names = _DTYPE_NAMES if isinstance(value, torch.dtype) else _FORMAT_NAMES
        if isinstance(value, torch.dtype | torch.memory_format | torch.layout) and value in names:
            return ast.Name(names[value])
        return self.fail(f"holds the {type(value).__name__} {value!r}: rules have no literal for it")

    # ------------------------------------------------------------ sizes, indices
    def _size(self, node: Node) -> ast.Expr | None:
        """``x.shape[-1]`` and ``x.size(0)`` as names of dims; other facts as they are; None for any other node."""
        base = node.args[0] if node.args else None
        if node.target is operator.getitem and isinstance(base, Node) and isinstance(node.args[1], int):
            owner = _shape_owner(base)
            if owner is not None and owner.op == "placeholder":
                return ast.Name(self.leaves.dim(str(owner.target), node.args[1]))
        dim = node.args[1] if len(node.args) > 1 else node.kwargs.get("dim")
        if not isinstance(base, Node):
            return None
        if node.op == "call_method" and node.target == "size" and isinstance(dim, int):
            if base.op == "placeholder":
                return ast.Name(self.leaves.dim(str(base.target), dim))
            return ast.Index(self._fact(base, "shape"), (_number(dim),))
        if _shape_owner(node) is base:
            if base.op == "placeholder" and all(map(_takes_one, node.users)):
                return ast.Name("_")  # each reader becomes the name of a dim
            return self._fact(base, "shape")
        if node.target is getattr and str(node.args[1]) in FACTS:
            return self._fact(base, str(node.args[1]))
        return None

    def _fact(self, base: Node, fact: str) -> ast.Expr:
        owner = self.value(base)
        if self.what == "pattern" or not isinstance(owner, ast.Name):
            self.fail(f"asks for the {fact} of `{base.name}`: only sizes of parameters can be asked, one by one")
        return ast.Attribute(owner, fact)

    def _index(self, node: Node) -> ast.Expr:
        base, key = node.args
        items = key if isinstance(key, tuple) else (key,)
        return ast.Index(self.value(base), tuple(self._index_item(item) for item in items))

    def _index_item(self, item: Any) -> ast.Expr | ast.Slice | ast.Dots:
        match item:
            case slice(start=start, stop=stop, step=step):
                first, last, each = (None if one is None else self._argument(one, "int") for one in (start, stop, step))
                return ast.Slice(first, last, each)
            case bool() | list() | tuple():
                self.fail("indexes by a list or a mask: rules have no form for it")
        return ast.Dots() if item is ... else self._argument(item, "int") if item is not None else ast.Name("None")

    def fail(self, reason: str) -> NoReturn:
        """Raise the error that says what in the function cannot be said in a rule."""
        raise FxrulesError(Problem(None, "not-a-rule", f"the {self.what} {reason}"))


def view_has_default(view: View, at: int) -> bool:
    """Whether a parameter may be left out."""
    return view.family.params[at].default is not REQUIRED


def _is_size(expr: ast.Expr) -> bool:
    """Whether an expression is one of sizes such as ``D // 2``, which is short enough to be written twice."""
    return isinstance(expr, ast.Binary) and isinstance(expr.left, ast.Name) and isinstance(expr.right, ast.Number)


def _takes_one(node: Node) -> bool:
    return node.target is operator.getitem and isinstance(node.args[1], int)


def _alone(view: View, at: int) -> Any:
    """An argument; a list that is one parameter, or one shape, as in ``x.view(size)``, is that value."""
    value = view.args[at]
    if isinstance(value, tuple) and len(value) == 1 and isinstance(value[0], Node) and value[0] in view.node.args:
        return value[0] if value[0].op == "placeholder" or _shape_owner(value[0]) is not None else value
    return value


def _shape_owner(node: Node) -> Node | None:
    """The value whose whole shape a node reads."""
    owner = node.args[0] if node.args else None
    if (node.target is getattr and node.args[1] == "shape") or (node.op, node.target, len(node.args)) == _SIZE:
        return owner if isinstance(owner, Node) and not node.kwargs else None
    return None


_SIZE = ("call_method", "size", 1)


def _number(value: int | float) -> ast.Expr:
    if value != value:
        return ast.Name("nan")
    size: ast.Expr = ast.Name("inf") if math.isinf(value) else ast.Number(abs(value))
    return ast.Unary("-", size) if math.copysign(1, value) < 0 else size


def _dotted(text: str) -> ast.Expr:
    head, *rest = text.split(".")
    expr: ast.Expr = ast.Name(head)
    for name in rest:
        expr = ast.Attribute(expr, name)
    return expr


def traced(function: Callable[..., Any] | Graph, what: str) -> GraphModule:
    """A function as a graph, as torch.fx traces it; raises FxrulesError where it cannot be."""
    if isinstance(function, GraphModule):
        return function
    if isinstance(function, Graph):
        owner = function.owning_module
        return GraphModule(torch.nn.Module() if owner is None else owner, function)
    if not callable(function):
        hint = "a function of tensors, a module or a graph"
        raise FxrulesError(Problem(None, "not-a-rule", f"the {what} is {function!r}", hint))
    try:
        return symbolic_trace(function)
    except Exception as error:
        message = f"the {what} cannot be traced: {type(error).__name__}: {error}"
        raise FxrulesError(Problem(user_place(error), "untraceable", message)) from error
