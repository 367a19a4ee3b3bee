"""The replacement of a match: its ``rewrite`` body expanded, or its helper traced (``rewrite via``)."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.fx import Node

from ..dsl import ast
from ..dsl.phrases import format_expr
from .emission import Emitter, Refusal
from .evaluation import evaluate
from .expansion import expand
from .helping import SizeGuard, call_helper
from .kinds import ModuleAttr
from .proxies import Factories, Recorder
from .ruleset import Rule
from .truth import Declined, Unknown
from .walks import nodes_in


def build(rule: Rule, emitter: Emitter) -> tuple[Any, ...]:
    """The results of a rule's replacement, whose nodes are in the graph then. Raises Refusal.

    Raises FxrulesError where a helper fails.
    """
    if rule.rewrite is not None:
        return expand(rule.rewrite, emitter)
    assert isinstance(rule.via, ast.Call), "the checker lets a call of a helper through and nothing else"
    return _traced(rule, rule.via, emitter)


def _traced(rule: Rule, call: ast.Call, emitter: Emitter) -> tuple[Any, ...]:
    """What the helper makes of proxies for the captured values; what it made and did not use is gone again."""
    assert isinstance(call.func, ast.Name)
    name, root = call.func.id, emitter.match.root
    facts = [emitter.views.fact(node) for node in (*emitter.match.nodes, *root.all_input_nodes)]
    recorder = Recorder(name, emitter, SizeGuard.of(facts))
    site = f"by rule `{rule.name}` at node `{root.name}`"
    try:
        args, kwargs = _arguments(call, recorder)
        with Factories(recorder):
            function = rule.scope.helpers[name]
            found = call_helper(name, function, args, kwargs, call.span, site, guard=recorder.guard, passing=(Refusal,))
            if recorder.refusal is not None:
                raise recorder.refusal
            results = _results(recorder.value(found), rule, recorder)
    except Declined as declined:
        raise emitter.refusal("where", f"`{format_expr(call)}`: {declined.reason}") from declined
    except Unknown as unknown:
        raise emitter.refusal("missing fact", str(unknown)) from unknown
    _drop_unread(results, emitter)
    return results


def _arguments(call: ast.Call, recorder: Recorder) -> tuple[tuple[Any, ...], dict[str, Any]]:
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for one in call.args:
        match one:
            case ast.Keyword(name, value):
                kwargs[name] = _argument(value, recorder)
            case ast.Star(value):
                args += _argument(value, recorder)
            case ast.StarStar() | ast.Dots():
                raise AssertionError("the checker keeps `**` and `...` out of calls of helpers")
            case _:
                args.append(_argument(one, recorder))
    return tuple(args), kwargs


def _argument(expr: ast.Expr, recorder: Recorder) -> Any:
    """A rewrite-time value with proxies for the tensors in it."""
    match, emitter = recorder.emitter.match, recorder.emitter
    known = match.bindings.get(expr.id) if isinstance(expr, ast.Name) else None
    if isinstance(expr, ast.Name) and isinstance(known, Tensor):
        return recorder.proxy_of(emitter.constant(expr.id, known), expr.id)
    freeze = bool(match.rule.freeze)  # the guards have asked whether the caller allows it
    value = evaluate(expr, match.bindings, emitter.views, match.rule.scope, out=match.root, freeze=freeze)
    return _with_proxies(value, format_expr(expr), recorder)


def _with_proxies(value: Any, name: str, recorder: Recorder) -> Any:
    match value:
        case Node() | ModuleAttr():
            return recorder.proxy_of(value, name if name.isidentifier() else "value")
        case tuple():
            return tuple(_with_proxies(item, name, recorder) for item in value)
        case Tensor():
            raise Declined(f"`{name}` is a computed tensor: give it a name with `let`")
    return value


def _results(value: Any, rule: Rule, recorder: Recorder) -> tuple[Any, ...]:
    """The values that take the places of the results of the match."""
    wanted = len(rule.match.results)
    given = len(value) if isinstance(value, tuple) else 1
    fact = recorder.emitter.views.fact(recorder.emitter.match.root)
    if wanted == 1 and not (isinstance(value, tuple) and isinstance(fact, Tensor)):
        return (value,)
    if given != wanted or not isinstance(value, tuple):
        recorder.refuse("interface", f"returned {_count(given)}, the rule replaces {_count(wanted)}")
    return value


def _count(number: int) -> str:
    return "one value" if number == 1 else f"{number} values"


def _drop_unread(results: tuple[Any, ...], emitter: Emitter) -> None:
    """Take out what the helper computed and did not use; what has effects stays, and is refused for them."""
    kept = set(nodes_in(results))
    for node in reversed(list(emitter.made)):
        if node.users or node in kept or emitter.views.effect(node) not in ("pure", "random"):
            continue
        emitter.journal.erase((node,))
        emitter.made.remove(node)
