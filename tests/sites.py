"""One rule at one site, without the rest of the engine: for tests of surgery and effects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import define
from snapshots import snapshot
from torch import Tensor, nn
from torch.export import ExportedProgram, export
from torch.fx import Graph, GraphModule, Node, symbolic_trace

from fxrules.dsl import ast
from fxrules.dsl.parser import parse_text
from fxrules.engine.candidates import Candidate, Match, Mismatch
from fxrules.engine.constants import fold
from fxrules.engine.effects import EffectIndex, legal
from fxrules.engine.families import FamilyTable, load_table
from fxrules.engine.guards import accept
from fxrules.engine.invariants import violations
from fxrules.engine.journal import Journal, ModuleOwner, Owner, ProgramOwner
from fxrules.engine.matching import compile_rule
from fxrules.engine.metadata import Propagation, annotate
from fxrules.engine.nodeview import Views
from fxrules.engine.ruleset import Rule, Scope
from fxrules.engine.surgery import Applied, apply


def rule_of(text: str, table: FamilyTable | None = None) -> Rule:
    """The last rule of a text; constants of the text are known to it."""
    statements = parse_text(text).statements
    constants: dict[str, int | float] = {}
    for statement in statements:
        if isinstance(statement, ast.Const):
            value = fold(statement.value, constants)
            assert value is not None
            constants[statement.name] = value
    tree = [statement for statement in statements if isinstance(statement, ast.Rule)][-1]
    return Rule(f"test.{tree.name}", tree, Scope(table or load_table(), constants))


@define(eq=False)
class Site:
    """A graph, and everything that surgery needs to work on it."""

    graph: Graph
    views: Views
    journal: Journal
    propagation: Propagation
    effects: EffectIndex

    def match(self, rule: Rule, *, freeze: bool = False) -> Match | Mismatch | None:
        """The first match in the graph, users first; what speaks against the last candidate; None without any."""
        compiled = compile_rule(rule)
        found: list[Match | Mismatch] = []

        def take(candidate: Candidate) -> bool:
            found.append(accept(rule, candidate, self.views, freeze=freeze))
            return isinstance(found[-1], Match)

        for node in reversed(list(self.graph.nodes)):
            if compiled.run(node, self.views, take):
                return found[-1]
        return found[-1] if found else None

    def rewrite(self, rule: Rule, *, freeze: bool = False) -> Applied | Mismatch | None:
        """Rewrite the first match; what speaks against it otherwise."""
        found = self.match(rule, freeze=freeze)
        if not isinstance(found, Match):
            return found
        outcome = legal(found, self.effects)
        if outcome is None:
            done = apply(found, self.views, self.journal, self.propagation, self.effects)
            assert violations(self.graph, self.journal) == []
            return done
        return outcome


def site_of(model: GraphModule | ExportedProgram, example_inputs: Any = None) -> Site:
    """A site on the model's own graph."""
    module = model.graph_module if isinstance(model, ExportedProgram) else model
    if example_inputs is not None:
        annotate(module, example_inputs)
    owner: Owner = ProgramOwner(model) if isinstance(model, ExportedProgram) else ModuleOwner(module)
    lifted: Mapping[str, Tensor] = _lifted(model) if isinstance(model, ExportedProgram) else {}
    views = Views(module.graph, module, load_table(), lifted)
    return Site(
        module.graph,
        views,
        Journal(module.graph, owner),
        Propagation.of(module.graph),
        EffectIndex(module.graph, views),
    )


def _lifted(program: ExportedProgram) -> dict[str, Tensor]:
    values = {**program.constants, **program.state_dict}
    named = {
        **program.graph_signature.inputs_to_parameters,
        **program.graph_signature.inputs_to_buffers,
        **program.graph_signature.inputs_to_lifted_tensor_constants,
    }
    return {name: values[target] for name, target in named.items()}


def node_of(graph: Graph, name: str) -> Node:
    """The node of this name."""
    found: Node = next(node for node in graph.nodes if node.name == name)
    return found


def calls(graph: Graph) -> list[str]:
    """What the graph calls, in order."""
    return [str(getattr(n.target, "__name__", n.target)) for n in graph.nodes if n.op.startswith("call")]


class Function(nn.Module):
    """A function as a module."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any) -> Any:
        return self.function(*args)


def done(outcome: Applied | Mismatch | None) -> Applied:
    """The outcome, which must be a rewrite."""
    assert isinstance(outcome, Applied), outcome
    return outcome


def refused(site: Site, text: str) -> Mismatch:
    """The refusal of a rule, which must leave everything as it was."""
    before = snapshot(site.graph, site.graph.owning_module)
    outcome = site.rewrite(rule_of(text))
    assert isinstance(outcome, Mismatch), outcome
    assert snapshot(site.graph, site.graph.owning_module) == before, "a refusal must leave everything as it was"
    return outcome


def traced(function: Any, *inputs: Tensor) -> Site:
    """A site at level torch."""
    return site_of(symbolic_trace(function), inputs)


def exported(function: Any, *inputs: Tensor, dynamic: Any = None) -> Site:
    """A site at level aten."""
    module = function if isinstance(function, nn.Module) else Function(function)
    return site_of(export(module, inputs, dynamic_shapes=dynamic).module())


def run(site: Site, *inputs: Tensor) -> Any:
    """What the graph computes now."""
    module = site.graph.owning_module
    assert module is not None
    module.recompile()
    return module(*inputs)
