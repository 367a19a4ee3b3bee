"""The ``example`` blocks of rules, run: graphs built from them, rewritten, and held against what they expect.

An example's body becomes a graph at a level, in the same way as a replacement does. The
expected body is not built but read as a pattern, in which ``$any`` matches anything: it
must cover the whole rewritten graph.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any

import torch
from attrs import evolve, fields, frozen, has
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import Graph, GraphModule, Node
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from ..dsl import ast
from ..dsl.source import FxrulesError, Problem, Span
from .candidates import Match
from .emission import Emitter, Refusal
from .expansion import expand
from .journal import Journal, ModuleOwner
from .matching import candidates
from .metadata import Propagation
from .nodeview import Views
from .rewriting import rewrite
from .ruleset import Rule, RuleSet
from .samples import draw_tensor, fake_of, is_tensor, stand_in, symbolic_sizes
from .walks import computed_from, nodes_in

LEVELS = ("torch", "aten")


@frozen(eq=False)
class Outcome:
    """What an example did at one level; ``problem`` is "" where it did as it says.

    ``before`` is the graph that was built, ``after`` the rewritten one (the same one where
    nothing fired); `samples.draw_inputs` makes arguments for both.
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
    owner = GraphModule(nn.Module(), Graph())
    # A random op is emitted as a module that follows the mode; folding needs eval mode.
    owner.train(not rule.freeze)
    mode = FakeTensorMode(shape_env=ShapeEnv(), allow_non_fake_inputs=True)
    graph = owner.graph
    bound = _leaves(example, owner, mode)
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
    owner.recompile()
    return owner


def _leaves(example: ast.Example, owner: GraphModule, mode: FakeTensorMode) -> dict[str, object]:
    """The header's names: inputs and parameters as nodes of ``owner``'s graph, numbers as they are."""
    sizes = symbolic_sizes(example.params)
    bound: dict[str, object] = {}
    draw = torch.Generator().manual_seed(0)
    for param in example.params:
        if not is_tensor(param):
            bound[param.name] = stand_in(param)
            continue
        value = draw_tensor(param, sizes, draw)
        if param.type and param.type.qualifier == "const":
            if value.is_floating_point():
                owner.register_parameter(param.name, nn.Parameter(value))
            else:
                owner.register_buffer(param.name, value)
            node = owner.graph.get_attr(param.name)
            node.meta["val"] = mode.from_tensor(value, static_shapes=True)
        else:
            node = owner.graph.placeholder(param.name)
            node.meta["val"] = fake_of(value, param, mode)
        bound[param.name] = node
    return bound


# ------------------------------------------------------------------ the graph expected
def _difference(rule: Rule, example: ast.Example, model: GraphModule) -> str:
    """In what the rewritten graph is not the expected body; "" if it is."""
    assert example.expected is not None
    views = Views(model.graph, model, rule.scope.table)
    given = model.graph.output_node().args[0]
    results = list(given) if isinstance(given, list | tuple) else [given]
    covered: set[Node] = set()
    for expected, actual in zip(example.expected.results, results, strict=True):
        if isinstance(expected, ast.Special):
            covered |= computed_from(nodes_in(actual))
            continue
        if isinstance(expected, ast.Name) and expected.id in {param.name for param in example.params}:
            if not (isinstance(actual, Node) and actual.target == expected.id):
                return f"the result is not `{expected.id}`"
            continue
        if not isinstance(actual, Node):
            return f"the result is {actual!r}, no node"
        query = _query(rule, example, ast.Block(example.expected.assigns, (expected,)))
        fitting = (one for one in candidates(query, actual, views) if _is_own(one.bindings, example))
        found = next(fitting, None)
        if found is None:
            return "it is not as expected"
        covered.update(found.nodes)
        for name in query.params.keys() - {param.name for param in example.params}:
            covered |= computed_from(nodes_in(found.bindings.get(name)))
    extra = [node.name for node in model.graph.nodes if node.op.startswith("call") and node not in covered]
    return f"the node `{extra[0]}` is not expected" if extra else ""


def _query(rule: Rule, example: ast.Example, body: ast.Block) -> Rule:
    """A rule without ``rewrite`` whose pattern is an expected body; each ``$any`` becomes a leaf of its own."""
    names = (f"$any {number}" for number in count())
    made: list[ast.Param] = []

    def with_leaves(value: Any) -> Any:
        if isinstance(value, ast.Special):
            made.append(ast.Param(next(names)))
            return ast.Name(made[-1].name, span=value.span)
        if isinstance(value, tuple):
            return tuple(map(with_leaves, value))
        if has(type(value)) and not isinstance(value, Span):
            inner = [field.name for field in fields(type(value)) if field.name != "span"]
            return evolve(value, **{name: with_leaves(getattr(value, name)) for name in inner})
        return value

    match = ast.Match(with_leaves(body))
    return Rule(rule.name, evolve(rule.ast, params=(*example.params, *made), clauses=(match,), doc=None), rule.scope)


def _is_own(bindings: Mapping[str, object], example: ast.Example) -> bool:
    """Whether each name of the header stands for the input or parameter of that name."""
    for param in example.params:
        value = bindings.get(param.name)
        if isinstance(value, Node) and (value.op not in ("placeholder", "get_attr") or value.target != param.name):
            return False
    return True
