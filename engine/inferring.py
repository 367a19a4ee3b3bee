"""Rules from two Python functions, as `torch.fx.replace_pattern` takes them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable
from typing import Any, Literal, TypeAlias

from torch.fx import Graph, GraphModule

from ..dsl import ast
from ..dsl.formatter import format_file
from ..dsl.nearest import did_you_mean
from ..dsl.parser import parse_text
from ..dsl.source import FxrulesError, Problem
from .leaves import Leaves
from .libraries import load
from .rewriting import Model, Result, rewrite
from .ruleset import Rule
from .transcribing import RESERVED, Transcriber, traced

Function: TypeAlias = Callable[..., Any] | Graph


def infer(
    pattern: Function,
    replacement: Function,
    *,
    name: str | None = None,
    numerics: str = "rounding",
    changes: Iterable[str] = (),
) -> Rule:
    """The rule that two functions of the same parameters stand for: what to look for, what to put there.

    The functions are traced as `torch.fx.symbolic_trace` does. Parameters become leaves,
    typed where an op takes a number, a list or the like; ``x.shape[-1]`` becomes a dim.
    ``numerics`` is the rule's contract, as it stands behind ``numerics`` in a rule file
    (``"bitwise"``, ``"approx atol=1e-3"``); ``changes`` is what the rule may change.
    ``rule.text`` is the rule for a ``.rules`` file.

    Raises FxrulesError where a function cannot be traced, says what rules cannot say, or
    takes what the other one lacks.

    >>> import torch
    >>> def pattern(x, p):
    ...     return torch.pow(torch.relu(x), p)
    >>> def replacement(x, p):
    ...     return torch.clamp(x, min=0) ** p
    >>> print(infer(pattern, replacement, name="relu_pow").text, end="")
    rule relu_pow(x, p) {
      match    relu(x) ** p
      rewrite  clamp(x, min=0) ** p
      numerics rounding
    }
    """
    name = _rule_name(pattern if name is None else name)
    file = ast.File((_tree(pattern, replacement, name, _numerics(numerics), tuple(changes)),))
    text = format_file(file)
    (rule,) = load(text=text)
    return rule


def replace_pattern(
    model: Model,
    pattern: Function,
    replacement: Function,
    example_inputs: Any = None,
    *,
    name: str | None = None,
    numerics: str = "rounding",
    changes: Iterable[str] = (),
    inplace: bool = False,
    capture: Literal["export", "trace"] = "export",
    stop_after: int | None = None,
) -> Result:
    """Replace what one function computes by what another does: `torch.fx.replace_pattern`, checked.

    ``pattern`` and ``replacement`` become a rule (see `infer`), and `rewrite` applies it:
    every spelling of an op matches, operands of commutative ops in both orders, and a
    site is refused, with the reason in the report, where the interface would change. It
    goes on until nothing fires, so the replacement may not contain the pattern. The
    model is left as it was, unless ``inplace=True``.

    Raises FxrulesError as `infer` and `rewrite` do.

    >>> import torch, fxrules
    >>> module = torch.fx.symbolic_trace(lambda x, y: torch.cat([x, y]).sum())
    >>> result = fxrules.replace_pattern(
    ...     module, lambda a, b: torch.cat([a, b]).sum(), lambda a, b: a.sum() + b.sum(), (torch.ones(2), torch.ones(3))
    ... )
    >>> dict(result.report.fired), int(result.model(torch.ones(2), torch.ones(3)))
    ({'text.pattern': 1}, 5)
    """
    rule = infer(pattern, replacement, name=name, numerics=numerics, changes=changes)
    return rewrite(
        model,
        rule,
        example_inputs,
        numerics=rule.numerics.level,
        inplace=inplace,
        capture=capture,
        stop_after=stop_after,
    )


def _tree(
    pattern: Function, replacement: Function, name: str, numerics: ast.Numerics, changes: tuple[str, ...]
) -> ast.Rule:
    graphs = {"pattern": traced(pattern, "pattern"), "replacement": traced(replacement, "replacement")}
    params = _params(graphs["pattern"], "pattern")
    _check_params(params, _params(graphs["replacement"], "replacement"))
    leaves = Leaves(params)
    for what, graph in graphs.items():  # once to learn which ops are called, whose names no leaf may have
        Transcriber(what, graph, leaves).body()
    leaves.rename({*RESERVED, *leaves.called})
    leaves.dims.clear()
    bodies = {what: Transcriber(what, graph, leaves).body() for what, graph in graphs.items()}
    unused = [param for param in params if param not in leaves.used["pattern"]]
    if unused:
        message = f"the pattern does not use its parameter `{unused[0]}`"
        raise FxrulesError(Problem(None, "unused", message, "leave it out of both functions"))
    if not any(node.op.startswith("call") for node in graphs["pattern"].graph.nodes):
        raise FxrulesError(Problem(None, "not-a-rule", "the pattern calls no op: there is nothing to look for"))
    clauses: list[ast.Clause] = [ast.Match(bodies["pattern"]), ast.Rewrite(bodies["replacement"]), numerics]
    if changes:
        clauses.append(ast.Changes(changes))
    return ast.Rule(name, leaves.header(), tuple(clauses), _doc(pattern))


def _params(module: GraphModule, what: str) -> tuple[str, ...]:
    names = tuple(str(node.target) for node in module.graph.nodes if node.op == "placeholder")
    for name in names:
        if name.startswith("*"):
            message = f"the {what} takes `{name}`: a rule has a fixed number of leaves"
            raise FxrulesError(Problem(None, "not-a-rule", message, "write its parameters one by one"))
    return names


def _check_params(ours: tuple[str, ...], theirs: tuple[str, ...]) -> None:
    """The replacement takes parameters of the pattern, in its order: by place or by name, they are the same."""
    for name in theirs:
        if name not in ours:
            message = f"the replacement takes `{name}`, which the pattern does not"
            raise FxrulesError(Problem(None, "unbound", message, did_you_mean(name, ours)))
    if sorted(theirs, key=ours.index) != list(theirs):
        message = f"the pattern takes ({', '.join(ours)}), the replacement ({', '.join(theirs)})"
        hint = "torch.fx goes by place, rules go by name: give both the same order"
        raise FxrulesError(Problem(None, "argument-order", message, hint))


def _rule_name(source: Function | str) -> str:
    """A rule's name as the caller gives it, or after the pattern function."""
    if isinstance(source, str):
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", source):
            message = f"`{source}` is no name of a rule"
            raise FxrulesError(Problem(None, "option", message, "letters, digits and `_`"))
        return source
    found = getattr(source, "__name__", "pattern")
    return found if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", found) else "pattern"


def _numerics(text: str) -> ast.Numerics:
    """The clause of this text; raises FxrulesError, with what stands there, for one that is none."""
    rule = parse_text(f"rule numerics(x) {{ match relu(x) rewrite x numerics {text} }}").statements[0]
    found = (
        [clause for clause in rule.clauses if isinstance(clause, ast.Numerics)] if isinstance(rule, ast.Rule) else []
    )
    if len(found) != 1:
        raise FxrulesError(Problem(None, "option", f"numerics={text!r}: no such contract", 'for example "bitwise"'))
    return found[0]


def _doc(pattern: Function) -> str | None:
    return inspect.getdoc(pattern) if inspect.isroutine(pattern) else None
