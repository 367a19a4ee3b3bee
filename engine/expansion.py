"""The meaning of a ``rewrite`` body: graph code becomes nodes, rewrite-time code becomes numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial, reduce
from typing import Any

from attrs import define, evolve, field
from torch import Tensor
from torch.fx import Node

from ..dsl import ast
from ..dsl.vocabulary import ASSOCIATIVE, COMPARISONS
from ..dsl.walking import names_in
from . import operators
from .candidates import Config
from .emission import Emitter
from .evaluation import evaluate
from .frames import BINARY_FAMILIES, UNARY_FAMILIES, header_dims
from .indexing import steps_of
from .kinds import ModuleAttr, Submodule
from .listing import own_names, rule_depths
from .spellings import exact_target
from .submodules import attribute_of
from .truth import SYMBOLIC, Declined, Unknown
from .words import WORDS


def expand(block: ast.Block, emitter: Emitter) -> tuple[Any, ...]:
    """The results of a block: nodes, numbers and tuples of them. Raises Refusal."""
    code = _Code(emitter, dict(emitter.match.bindings))
    for assign in block.assigns:
        code.assign(assign.targets, code.value(assign.value))
    return tuple(_read(value, emitter) for value in code.items(block.results))


def _read(value: Any, emitter: Emitter) -> Any:
    return emitter.argument(value) if isinstance(value, ModuleAttr | tuple) else value


@define(eq=False)
class _Code:
    """A body at work: what creates its nodes, and the values of its names so far."""

    emitter: Emitter
    names: dict[str, object] = field()

    # ------------------------------------------------------------ expressions
    def value(self, expr: ast.Expr) -> Any:
        match expr:
            case ast.Number(value) | ast.String(value):
                return value
            case ast.Name(id) if id in self.names:
                bound = self.names[id]
                return self.emitter.constant(id, bound) if isinstance(bound, Tensor) else bound
            case ast.Unary(op, operand) if op in UNARY_FAMILIES:
                return self.operation(UNARY_FAMILIES[op], op, self.value(operand))
            case ast.Binary("??", left, right):
                first = self.value(left)
                return self.value(right) if first is None else first
            case ast.Binary(op, left, right) if op in BINARY_FAMILIES:
                return self.operation(BINARY_FAMILIES[op], op, self.value(left), self.value(right))
            case ast.Compare((op,), operands) if op in COMPARISONS:
                return self.comparison(expr, op, operands)
            case ast.Call():
                return self.call(expr)
            case ast.Attribute(base) if self.submodule(base):
                return self.now(expr)
            case ast.Attribute(base, name) if self.is_value(base) and name in self.families:
                value = self.value(base)
                return self.emitter.op(name, value) if self.emitter.is_tensor(value) else self.now(expr)
            case ast.Index(base, items):
                return self.index(self.value(base), items)
            case ast.Tuple(items) | ast.List(items):
                return tuple(self.items(items))
            case ast.IfElse(then, test, other):
                return self.value(then if self.now(test) else other)
        return self.now(expr)

    @property
    def families(self) -> Mapping[str, Any]:
        return self.emitter.match.rule.scope.table.families

    def now(self, expr: ast.Expr) -> Any:
        """The value of a rewrite-time expression."""
        match = self.emitter.match
        try:
            return evaluate(expr, self.names, self.emitter.views, match.rule.scope, out=match.root)
        except Declined as declined:
            raise self.emitter.refusal("where", f"the replacement cannot be computed: {declined}") from declined
        except Unknown as unknown:
            raise self.emitter.refusal("missing fact", f"the replacement needs a fact: {unknown}") from unknown

    def items(self, items: Iterable[ast.Expr | ast.Star]) -> list[Any]:
        """Values one by one, ``*list`` spread out."""
        found: list[Any] = []
        for item in items:
            if not isinstance(item, ast.Star):
                found.append(self.value(item))
                continue
            found.extend(self.spread(item.value))
        return found

    def spread(self, expr: ast.Expr) -> tuple[Any, ...]:
        """The values that ``*expr`` stands for: ``*xs`` those of a list, ``*relu(xs)`` a ``relu`` of each."""
        names = self.varying(expr)
        if not names:
            value = self.value(expr)
            if not isinstance(value, tuple):
                raise self.emitter.refusal("structure", "`*` needs a list of known length")
            return value
        lists: list[Any] = [self.names[name] for name in names]
        if len(set(map(len, lists))) > 1:
            lengths = ", ".join(f"`{name}` {len(one)}" for name, one in zip(names, lists, strict=True))
            raise self.emitter.refusal("structure", f"lists that are walked together differ in length: {lengths}")
        rows = zip(*lists, strict=True)
        inner = (evolve(self, names={**self.names, **dict(zip(names, row, strict=True))}) for row in rows)
        return tuple([code.value(expr) for code in inner])

    def varying(self, expr: ast.Expr) -> tuple[str, ...]:
        """The lists of which ``*expr`` takes one item after the other; none where it is a list itself.

        That is graph code: it begins with tensors. What is computed at rewrite time sees whole lists.
        """
        scope = self.emitter.match.rule.scope
        computed = (
            isinstance(expr, ast.Call)
            and isinstance(expr.func, ast.Name)
            and (expr.func.id in scope.helpers or scope.ops.get(expr.func.id, expr.func.id) not in self.families)
        )
        if computed or isinstance(expr, ast.Name | ast.List | ast.Tuple | ast.Comprehension | ast.IfElse):
            return ()
        if not any(self.holds_tensor(self.names.get(name.id)) for name in names_in(expr)):
            return ()
        rule = self.emitter.match.rule.ast
        depths = {**dict.fromkeys(self.names, 1), **rule_depths(rule), **dict.fromkeys(header_dims(rule.params), 0)}
        return tuple(sorted(name for name in own_names(expr, depths) if isinstance(self.names.get(name), tuple)))

    def holds_tensor(self, value: object) -> bool:
        """Whether a value is a tensor of the graph, or a list with some."""
        if isinstance(value, tuple):
            return any(map(self.holds_tensor, value))
        return isinstance(value, Tensor) or self.emitter.is_tensor(value)

    def operation(self, family: str, op: str, *operands: Any) -> Any:
        if any(isinstance(one, Node | ModuleAttr | SYMBOLIC) for one in operands):
            return self.emitter.op(family, *operands)
        try:
            return operators.unary(op, *operands) if len(operands) == 1 else operators.binary(op, *operands)
        except Declined as declined:
            raise self.emitter.refusal("where", f"the replacement cannot be computed: {declined}") from declined

    def comparison(self, expr: ast.Compare, op: str, operands: tuple[ast.Expr, ...]) -> Any:
        values = [self.value(one) for one in operands]
        graph_code = any(isinstance(one, Node | ModuleAttr) for one in values)
        return self.emitter.op(COMPARISONS[op], *values) if graph_code else self.now(expr)

    def is_value(self, expr: ast.Expr) -> bool:
        """Whether a dotted expression begins with a value, and not with a module such as ``aten``."""
        while isinstance(expr, ast.Attribute):
            expr = expr.value
        return not isinstance(expr, ast.Name) or expr.id in self.names

    def submodule(self, expr: ast.Expr) -> Submodule | None:
        """The submodule that ``m`` or ``m.part`` is; None for anything else."""
        found: object = None
        match expr:
            case ast.Name(id):
                found = self.names.get(id)
            case ast.Attribute(base, name) if owner := self.submodule(base):
                found = attribute_of(owner, name)
        return found if isinstance(found, Submodule) else None

    # ------------------------------------------------------------------- calls
    def call(self, call: ast.Call) -> Any:
        scope = self.emitter.match.rule.scope
        submodule = self.submodule(call.func)
        if submodule is not None:
            return self.created("call_module", submodule.path, call.args)
        match call.func:
            case ast.Name(id):
                name = scope.ops.get(id, id)
                if id in scope.helpers or name not in self.families:
                    return self.now(call)
                if name in WORDS and not self.mentions_tensor(call.args):
                    return self.now(call)  # ``ones(K)`` is a list and ``sqrt(2)`` a number
                args, kwargs = self.arguments(call.args)
                if name in ASSOCIATIVE and not kwargs and any(isinstance(one, ast.Star) for one in call.args):
                    return self.fold(name, args)
                return self.emitter.call(self.families[name], args, kwargs)
            case ast.Attribute(base, name) if self.is_value(base):
                value = self.value(base)
                if not self.emitter.is_tensor(value) or name not in self.families:
                    return self.now(call)
                args, kwargs = self.arguments(call.args)
                return self.emitter.call(self.families[name], (value, *args), kwargs)
        return self.exact(_dotted(call.func), call.args)

    def fold(self, family: str, values: Sequence[Any]) -> Any:
        """``add(*xs)``: ``((a + b) + c)``, one value by itself."""
        if not values:
            raise self.emitter.refusal("structure", f"`{family}` of an empty list has no value")
        symbol = next((symbol for symbol, name in BINARY_FAMILIES.items() if name == family), None)
        if symbol is None:
            return reduce(partial(self.emitter.op, family), values)
        return reduce(partial(self.operation, family, symbol), values)

    def exact(self, text: str, given: Sequence[Any]) -> Node:
        """A call of exactly this target."""
        target = exact_target(text)
        if target is None:
            raise self.emitter.refusal("form", f"`{text}` is not installed here")
        return self.created("call_function", target, given)

    def created(self, op: str, target: Any, given: Sequence[Any]) -> Node:
        """A call with the arguments as they are written."""
        args, kwargs = self.arguments(given)
        keywords = {name: self.emitter.argument(value) for name, value in kwargs.items()}
        return self.emitter.create(op, target, self.emitter.argument(args), keywords)

    def arguments(self, given: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        for one in given:
            match one:
                case ast.Keyword(name, value):
                    kwargs[name] = self.value(value)
                case ast.StarStar(name):
                    config = self.names[name]
                    assert isinstance(config, Config)
                    kwargs.update(config.items)
                case _:
                    args.extend(self.items([one]))
        return tuple(args), kwargs

    def mentions_tensor(self, given: Iterable[object]) -> bool:
        """Whether any argument begins with a tensor of the graph."""
        for one in given:
            inner = one.value if isinstance(one, ast.Keyword | ast.Star) else one
            if isinstance(one, ast.Star) and any(self.holds_tensor(self.names.get(name.id)) for name in names_in(one)):
                return True
            if isinstance(inner, ast.List | ast.Tuple):
                if self.mentions_tensor(inner.items):
                    return True
            elif isinstance(inner, ast.Call):
                if self.mentions_tensor(inner.args):
                    return True
            elif isinstance(inner, ast.Name):
                bound = self.names.get(inner.id)
                if isinstance(bound, Tensor) or self.emitter.is_tensor(bound):
                    return True
            elif isinstance(inner, ast.Attribute) and self.submodule(inner.value):
                if self.emitter.is_tensor(self.value(inner)):
                    return True
            elif isinstance(inner, ast.Unary | ast.Binary | ast.Index | ast.Attribute):
                parts = (getattr(inner, name, None) for name in ("operand", "left", "right", "value"))
                if self.mentions_tensor([part for part in parts if part is not None]):
                    return True
        return False

    # ----------------------------------------------------- indexing, destructuring
    def index(self, value: Any, items: tuple[Any, ...]) -> Any:
        if isinstance(value, tuple):
            return operators.index(value, self.key(items))
        fact = self.emitter.views.fact(value) if isinstance(value, Node) else None
        if self.emitter.level == "torch" or isinstance(fact, tuple | list):
            return self.emitter.item(value, self.key(items))
        steps = steps_of(items)
        if steps is None:
            raise self.emitter.refusal("form", "an index by tensors has no form at level aten")
        for step in steps:
            family = self.families[step.family]
            names = [param.name for param in family.params[1:]]
            given = {name: self.value(arg) for name, arg in zip(names, step.args, strict=False) if arg is not None}
            value = self.emitter.call(family, (value,), given)
        return value

    def key(self, items: tuple[Any, ...]) -> Any:
        keys: list[Any] = []
        for item in items:
            match item:
                case ast.Dots():
                    keys.append(...)
                case ast.Slice(start, stop, step):
                    keys.append(slice(*(None if part is None else self.value(part) for part in (start, stop, step))))
                case _:
                    keys.append(self.value(item))
        return keys[0] if len(keys) == 1 else tuple(keys)

    def assign(self, targets: tuple[str, ...], value: Any) -> None:
        """``a = value`` or ``a, *b = value``."""
        if len(targets) == 1 and not targets[0].startswith("*"):
            self.names[targets[0]] = value
            return
        rest = next((at for at, target in enumerate(targets) if target.startswith("*")), None)
        if isinstance(value, Node):
            fact = self.emitter.views.fact(value)
            known = len(fact) if isinstance(fact, tuple | list) else None
            if rest is not None and known is None:
                raise self.emitter.refusal("structure", "`*` needs a list of known length")
            count = len(targets) if rest is None or known is None else known
            value = tuple(self.emitter.item(value, at) for at in range(count))
        if not isinstance(value, tuple) or (
            len(value) != len(targets) if rest is None else len(value) < len(targets) - 1
        ):
            raise self.emitter.refusal("structure", f"{len(targets)} names do not fit the number of values")
        if rest is not None:
            end = len(value) - (len(targets) - rest - 1)
            value = (*value[:rest], value[rest:end], *value[end:])
        self.names.update((target.removeprefix("*"), one) for target, one in zip(targets, value, strict=True))


def _dotted(expr: ast.Expr) -> str:
    parts: list[str] = []
    while isinstance(expr, ast.Attribute):
        parts.append(expr.name)
        expr = expr.value
    parts.append(expr.id if isinstance(expr, ast.Name) else "?")
    return ".".join(reversed(parts))
