"""The ``example`` blocks of rules, run: graphs built from them, rewritten, and held against what they expect.

An example's body becomes a graph at a level, in the same way as a replacement does. The
expected body is not built but read as a pattern, in which ``$any`` matches anything: it
must cover the whole rewritten graph.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from attrs import evolve, fields, frozen, has
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx import Graph, GraphModule, Node
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext

from ..dsl import ast
from ..dsl.source import FxrulesError, Problem, Span
from ..dsl.vocabulary import DTYPE_SETS, DTYPES
from .candidates import Match
from .emission import Emitter, Refusal
from .expansion import expand
from .journal import Journal, ModuleOwner
from .matching import candidates
from .metadata import Propagation
from .nodeview import Views
from .rewriting import rewrite
from .ruleset import Rule, RuleSet

LEVELS = ("torch", "aten")
_FIRST_SIZE = 5
"""The size that the first symbolic dim of an example stands for; the others get the next ones."""


@frozen(eq=False)
class Outcome:
    """What an example did at one level; ``problem`` is "" where it did as it says.

    ``before`` is the graph that was built, ``after`` the rewritten one (the same one where
    nothing fired). ``inputs`` makes arguments for both.
    """

    rule: Rule
    example: ast.Example
    level: str
    problem: str
    before: GraphModule
    after: GraphModule

    @property
    def place(self) -> str:
        """``file:line:col`` of the example, its label and the level."""
        where = str(self.example.span) if self.example.span else self.rule.name
        label = f' "{self.example.label}"' if self.example.label else ""
        return f"{where}: example{label} at level {self.level}"


def examples_of(rule: Rule) -> tuple[ast.Example, ...]:
    """The ``example`` clauses of a rule, in order."""
    return tuple(clause for clause in rule.ast.clauses if isinstance(clause, ast.Example))


def run_examples(rules: RuleSet, levels: Sequence[str] = LEVELS) -> tuple[Outcome, ...]:
    """Every example of every rule at every level.

    The rules that one template makes run together, so that its examples may name any
    member. Raises FxrulesError for an example that cannot be built.

    >>> from .libraries import load
    >>> text = 'rule r(x: float[...]) { match neg(neg(x)) rewrite x changes aliasing, strides example (x: f32[2]) %s }'
    >>> [outcome.problem for outcome in run_examples(load(text=text % "relu(-(-x)) => relu(x)"))]
    ['', '']
    >>> print(run_examples(load(text=text % "relu(-x) => relu(x)"))[0].problem)
    nothing fired
    """
    return tuple(
        run_example(rule, example, level, siblings) for rule, example, siblings in cases_of(rules) for level in levels
    )


def cases_of(rules: RuleSet) -> Iterator[tuple[Rule, ast.Example, tuple[Rule, ...]]]:
    """Every example with its rule and the rules that the rule's template made.

    An example that does not name the template's variable says the same for every member:
    it comes once.
    """
    for rule in rules:
        siblings = tuple(one for one in rules if one.ast is rule.ast)
        for example in examples_of(rule):
            if rule is siblings[0] or (rule.ast.template and _names(example, rule.ast.template[0])):
                yield rule, example, siblings


def _names(value: Any, name: str) -> bool:
    """Whether a piece of the tree has a name in it."""
    if isinstance(value, tuple):
        return any(_names(item, name) for item in value)
    if isinstance(value, ast.Name):
        return value.id == name
    if has(type(value)) and not isinstance(value, Span):
        return any(_names(getattr(value, field.name), name) for field in fields(type(value)) if field.name != "span")
    return False


def run_example(rule: Rule, example: ast.Example, level: str, rules: Iterable[Rule] = ()) -> Outcome:
    """Build one example at a level and rewrite it with ``rules`` (``rule`` alone where there are none)."""
    active = RuleSet(tuple(rules) or (rule,))
    before = build_graph(rule, example, level)
    result = rewrite(before, active, numerics="differs", freeze=True)
    return Outcome(rule, example, level, _problem(rule, example, active, result), before, result.model)


def _problem(rule: Rule, example: ast.Example, rules: RuleSet, result: Any) -> str:
    fired = sum(result.report.fired.values())
    if example.expected is None:
        return f"it is not unchanged: it became\n{result.model.code.strip()}" if fired else ""
    if not fired:
        refusals = [str(one) for report in result.report.rules for one in report.refused]
        return "; ".join(["nothing fired", *refusals])
    found = _difference(rule, example, result.model)
    if found:
        return f"{found}; it became\n{result.model.code.strip()}"
    again = rewrite(result.model, rules, numerics="differs", freeze=True).report
    return "a second run fires again" if again.fired else ""


# ------------------------------------------------------------------- the graph before
def build_graph(rule: Rule, example: ast.Example, level: str) -> GraphModule:
    """The graph of an example's body, with metadata: ``const`` tensors are parameters, the others inputs.

    Raises FxrulesError where the body has no form at the level.
    """
    owner = nn.Module()
    # A random op is emitted as a module that follows the mode; folding needs eval mode.
    owner.train(not rule.freeze)
    mode = FakeTensorMode(shape_env=ShapeEnv(), allow_non_fake_inputs=True)
    graph = Graph(owner)
    bound = _leaves(example, owner, graph, mode)
    output = graph.output(None)
    views = Views(graph, owner, rule.scope.table)
    match = Match(rule, output, (), bound)
    emitter = Emitter(match, views, Journal(graph, ModuleOwner(owner)), Propagation(graph, mode), level, output)
    try:
        results = expand(example.body, emitter)
    except Refusal as refusal:
        message = f"the example cannot be built at level {level}: {refusal.mismatch.reason}"
        raise FxrulesError(Problem(example.span, "example", message)) from refusal
    output.args = (results[0] if len(results) == 1 else results,)
    return GraphModule(owner, graph)


def _leaves(example: ast.Example, owner: nn.Module, graph: Graph, mode: FakeTensorMode) -> dict[str, object]:
    sizes = _symbolic_sizes(example.params)
    bound: dict[str, object] = {}
    draw = torch.Generator().manual_seed(0)
    for param in example.params:
        if not _is_tensor(param):
            bound[param.name] = _number(param)
            continue
        value = draw_tensor(param, sizes, draw)
        if param.type and param.type.qualifier == "const":
            floating = value.is_floating_point()
            owner.register_parameter(param.name, nn.Parameter(value)) if floating else owner.register_buffer(
                param.name, value
            )
            node = graph.get_attr(param.name)
            node.meta["val"] = mode.from_tensor(value, static_shapes=True)
        else:
            node = graph.placeholder(param.name)
            node.meta["val"] = _fake(value, param, mode)
        bound[param.name] = node
    return bound


def draw_inputs(example: ast.Example, seed: int) -> tuple[Tensor, ...]:
    """Random arguments for the graph of an example, in order."""
    draw = torch.Generator().manual_seed(seed)
    sizes = _symbolic_sizes(example.params)
    wanted = [param for param in example.params if _is_tensor(param) and param.type and param.type.qualifier != "const"]
    return tuple(draw_tensor(param, sizes, draw) for param in wanted)


def draw_tensor(param: ast.Param, sizes: Mapping[str, int], draw: torch.Generator) -> Tensor:
    """A random tensor as a parameter declares it; constants are positive, so that one may be a variance."""
    assert param.type is not None
    shape = [_size(dim, sizes, param) for dim in param.type.dims or ()]
    dtype = _dtype(param.type.names[0])
    if dtype == torch.bool:
        return torch.randint(0, 2, shape, generator=draw).bool()
    if not (dtype.is_floating_point or dtype.is_complex):
        return torch.randint(0 if dtype == torch.uint8 else -9, 10, shape, generator=draw).to(dtype)
    if param.type.qualifier == "const":
        return (torch.rand(shape, generator=draw) + 0.5).to(dtype)
    return torch.randn(shape, generator=draw, dtype=torch.promote_types(dtype, torch.float32)).to(dtype)


def _is_tensor(param: ast.Param) -> bool:
    if param.type is None or param.type.dims is None:
        return param.type is not None and param.type.names == ("Tensor",)
    return True


def _number(param: ast.Param) -> object:
    kind = param.type.names[0] if param.type else "number"
    if kind not in ("number", "int", "float", "bool"):
        _unfit(param.span, f"an example cannot make a value for `{param.name}`: it has no tensor type")
    return {"number": 0.5, "float": 0.5, "int": 2, "bool": True}[kind]


def _dtype(name: str) -> torch.dtype:
    name = DTYPE_SETS.get(name, ("f32",))[0]
    found = getattr(torch, DTYPES.get(name, name))
    assert isinstance(found, torch.dtype)
    return found


def _symbolic_sizes(params: Iterable[ast.Param]) -> dict[str, int]:
    """Sizes for the dims that have names, all different, so that no two become one symbol."""
    dims = [dim for param in params if param.type for dim in param.type.dims or ()]
    names = dict.fromkeys(dim.id for dim in dims if isinstance(dim, ast.Name))
    return {name: size for size, name in enumerate(names, _FIRST_SIZE)}


def _size(dim: object, sizes: Mapping[str, int], param: ast.Param) -> int:
    match dim:
        case ast.Number(int(value)):
            return value
        case ast.Name(id):
            return sizes[id]
    return _unfit(param.span, f"the sizes of `{param.name}` in an example are numbers or names")


def _unfit(span: Span | None, message: str) -> Any:
    raise FxrulesError(Problem(span, "example", message))


def _fake(value: Tensor, param: ast.Param, mode: FakeTensorMode) -> FakeTensor:
    """The fake tensor of an input: a dim with a name is a symbol, the same one wherever the name stands."""
    dims = (param.type.dims if param.type else None) or ()
    if not any(isinstance(dim, ast.Name) for dim in dims):
        return mode.from_tensor(value, static_shapes=True)
    kinds = [DimDynamic.DUCK if isinstance(dim, ast.Name) else DimDynamic.STATIC for dim in dims]
    return mode.from_tensor(value, symbolic_context=StatelessSymbolicContext(dynamic_sizes=kinds))


# ------------------------------------------------------------------ the graph expected
def _difference(rule: Rule, example: ast.Example, model: GraphModule) -> str:
    """In what the rewritten graph is not the expected body; "" if it is."""
    assert example.expected is not None
    views = Views(model.graph, model, rule.scope.table)
    given = model.graph.output_node().args[0]
    results = list(given) if isinstance(given, list | tuple) else [given]
    if len(results) != len(example.expected.results):
        return f"it gives {len(results)} values, expected {len(example.expected.results)}"
    covered: set[Node] = set()
    for expected, actual in zip(example.expected.results, results, strict=True):
        if isinstance(expected, ast.Name) and expected.id in {param.name for param in example.params}:
            if not (isinstance(actual, Node) and actual.target == expected.id):
                return f"the result is not `{expected.id}`"
            continue
        if not isinstance(actual, Node):
            return f"the result is {actual!r}, no node"
        body = ast.Block(example.expected.assigns, (expected,))
        query = Rule(rule.name, _query(rule.ast, example, body), rule.scope)
        fitting = (one for one in candidates(query, actual, views) if _is_own(one.bindings, example))
        found = next(fitting, None)
        if found is None:
            return "it is not as expected"
        covered.update(found.nodes)
    extra = [node.name for node in model.graph.nodes if node.op.startswith("call") and node not in covered]
    return f"the node `{extra[0]}` is not expected" if extra else ""


def _query(rule: ast.Rule, example: ast.Example, body: ast.Block) -> ast.Rule:
    """A rule without ``rewrite`` whose pattern is an expected body."""
    return evolve(rule, params=example.params, clauses=(ast.Match(_anything(body)),), doc=None)


def _anything(value: Any) -> Any:
    """A piece of the tree with ``_`` in place of ``$any``."""
    if isinstance(value, ast.Special):
        return ast.Name("_", span=value.span)
    if isinstance(value, tuple):
        return tuple(_anything(item) for item in value)
    if has(type(value)) and not isinstance(value, Span):
        inner = {field.name: getattr(value, field.name) for field in fields(type(value)) if field.name != "span"}
        return evolve(value, **{name: _anything(item) for name, item in inner.items()})
    return value


def _is_own(bindings: Mapping[str, object], example: ast.Example) -> bool:
    """Whether each name of the header stands for the input or parameter of that name."""
    for param in example.params:
        value = bindings.get(param.name)
        if value is None:
            continue
        if isinstance(value, Node) and (value.op not in ("placeholder", "get_attr") or value.target != param.name):
            return False
    return True
