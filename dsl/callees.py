"""What a call in graph code calls: an op, a named pattern, a module, a method, an exact target."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

from . import ast
from .calls import Argument, Call, check_call, check_plain
from .headers import Kind, unknown_package
from .nearest import did_you_mean, did_you_mean_target
from .places import Place, misplaced, unbound
from .scopes import FileScope, find_opset, find_pattern, op_names
from .signatures import OpParam, OpSignature
from .source import Problem
from .vocabulary import DTYPE_SETS, VOCABULARY
from .walking import dotted

_TORCH_MODULES = {"F": "torch.nn.functional", "nn": "torch.nn"}


@frozen
class Callee:
    """A resolved call: its arguments, a method's own value first, each with its parameter where one is known."""

    args: tuple[Argument, ...]
    signature: OpSignature | None = None
    problems: tuple[Problem, ...] = ()


def resolve(call: ast.Call, place: Place) -> Callee:
    """What a call calls, and what is wrong with how it does."""
    match call.func:
        case ast.Name():
            return _resolve_name(call, call.func, place)
        case ast.Attribute(value, name):
            text = dotted(call.func)
            head = text.partition(".")[0] if text else ""
            if head in place.header.leaves and place.header.kind(head) is Kind.MODULE:
                return _resolve_part(call, value, name, place)
            if not text or place.knows(head) or place.is_constant(head):
                return _resolve_op(call, name, (value, *call.args), place)
            return _resolve_qualified(call, text, head, place)
    problem = Problem(call.func.span, "not-an-op", "only an op, a pattern, a module or a method can be called")
    return Callee((call.func, *call.args), None, (problem,))


def _resolve_name(call: ast.Call, func: ast.Name, place: Place) -> Callee:
    id = func.id
    if id in place.ops:
        return _resolve_template(call, id, place)
    if id in place.header.leaves and place.header.kind(id) is Kind.MODULE:
        return Callee(call.args)
    if place.knows(id):
        return _wrong(call, f"`{id}` is a value and not an op")
    if find_pattern(place.scope, id):
        return _resolve_pattern(call, id, place)
    return _resolve_op(call, id, call.args, place)


def _resolve_part(call: ast.Call, value: ast.Expr, name: str, place: Place) -> Callee:
    """``m.proj(x)`` calls a part of a module, ``m.weight.reshape(...)`` an op on one of its tensors."""
    if place.is_pattern:
        problem = misplaced(call, "a call of a part of a module", place, "declare a module leaf for the part")
        return Callee(call.args, None, (problem,))
    if isinstance(value, ast.Attribute) and name in place.scope.ops.families:
        return _resolve_op(call, name, (value, *call.args), place)
    return Callee(call.args)


def _resolve_template(call: ast.Call, variable: str, place: Place) -> Callee:
    """A template's variable: every op that it stands for has to take the arguments."""
    result = Callee(call.args)
    for op in place.ops[variable]:
        signature = find_op(place.scope, op)
        if signature is not None:
            found = _checked(call, f"{variable} = {op}", op, call.args, signature, place)
            if found.problems:
                return found
            result = found
    return result


def _resolve_pattern(call: ast.Call, name: str, place: Place) -> Callee:
    pattern = find_pattern(place.scope, name)
    assert pattern is not None, "the caller has looked it up"
    if not place.is_pattern:
        problem = misplaced(call, f"the pattern `{name}`", place, "write the op that is meant")
        return Callee(call.args, None, (problem,))
    names = [param.name for param in pattern.params]
    return Callee(call.args, None, tuple(check_plain(Call(name, call.args, call.span), names)))


def _resolve_op(call: ast.Call, name: str, args: Sequence[Argument], place: Place) -> Callee:
    signature = place.scope.ops.families.get(name)
    if signature is not None:
        return _checked(call, name, name, args, signature, place)
    if find_opset(place.scope, name):
        hint = f"write a template: `rule r[f in {name}](...)`"
        return _wrong(call, f"`{name}` is a set of ops and not one op", hint)
    if name in place.scope.helpers:
        return _wrong(call, f"the helper `{name}` runs at rewrite time", "call it in `let` or `rewrite via`")
    if name in VOCABULARY:
        return _wrong(call, f"`{name}` is a function of `where` and `let`, not an op")
    place_of_name = call.func.span
    if isinstance(call.func, ast.Attribute) and place_of_name is not None:
        place_of_name = type(place_of_name)(place_of_name.source, place_of_name.end - len(name), place_of_name.end)
    hint = did_you_mean(name, op_names(place.scope))
    return Callee(tuple(args), None, (Problem(place_of_name, "unknown-op", f"`{name}`: no such op", hint),))


def _resolve_qualified(call: ast.Call, text: str, head: str, place: Place) -> Callee:
    scope = place.scope
    if head in scope.imports:
        return _resolve_imported(call, text, head, place)
    signature = find_op(scope, text)
    if signature is not None:
        return _checked(call, text, text, call.args, signature, place)
    if head in scope.ops.packages:
        classes = [name.removeprefix("torch.") for name in scope.ops.modules]
        what, hint = f"`{text}`: no such target", did_you_mean_target(text, (*scope.ops.targets, *classes))
        if is_module_class(scope, text):
            what = f"`{text}` is a module class"
            hint = f"name its op, or declare a leaf `m: module {text.removeprefix('torch.')}` and call that"
        problem = Problem(call.func.span, "unknown-op", what, hint)
        return Callee(call.args, None, (problem,))
    first: ast.Expr = call.func
    while isinstance(first, ast.Attribute):
        first = first.value
    if head in place.later and isinstance(first, ast.Name):
        return Callee(call.args, None, (unbound(first, place),))
    return Callee(call.args, None, (unknown_package(first.span, head, scope),))


def _resolve_imported(call: ast.Call, text: str, alias: str, place: Place) -> Callee:
    names = place.scope.imports[alias]
    if names is None:
        return Callee(call.args)
    if find_pattern(place.scope, text):
        return _resolve_pattern(call, text, place)
    rest = text.partition(".")[2]
    if rest in names.families:
        return _wrong(call, f"the family `{rest}` is known by its own name", f"call it: `{rest}(...)`")
    hint = did_you_mean(rest, names.patterns)
    problem = Problem(call.func.span, "unknown-pattern", f"`{alias}` has no pattern `{rest}`", hint)
    return Callee(call.args, None, (problem,))


def find_op(scope: FileScope, name: str) -> OpSignature | None:
    """The signature of a family, or of an exact target under any of its usual names."""
    if name in scope.ops.families:
        return scope.ops.families[name]
    head, _, rest = name.partition(".")
    full = f"{_TORCH_MODULES[head]}.{rest}" if head in _TORCH_MODULES else name.removeprefix("torch.ops.")
    return scope.ops.targets.get(name) or scope.ops.targets.get(full)


def is_module_class(scope: FileScope, name: str) -> bool:
    """Whether a qualified name is a module class, ``nn.ReLU`` or ``torch.nn.ReLU``."""
    return name in scope.ops.modules or (name.startswith("nn.") and f"torch.{name}" in scope.ops.modules)


def _checked(
    call: ast.Call, shown: str, name: str, args: Sequence[Argument], signature: OpSignature, place: Place
) -> Callee:
    """A call of an op whose signature is known."""
    problems = check_call(Call(name, tuple(args), call.span), signature, open_ended=place.is_pattern)
    found = tuple(problems)
    if shown != name:
        found = tuple(Problem(one.span, one.code, f"{one.message} (here {shown})", one.hint) for one in found)
    return Callee(tuple(args), signature, found)


def _wrong(call: ast.Call, what: str, hint: str = "") -> Callee:
    return Callee(call.args, None, (Problem(call.func.span, "not-an-op", what, hint),))


def check_argument(value: Argument, param: OpParam, place: Place) -> Problem | None:
    """An argument of a pattern that its parameter can never be: None, or a number for a tensor."""
    match value:
        case ast.Optional(inner) if not isinstance(inner, ast.Call) and param.required and not param.takes_none:
            what = f"`?` means nothing here: the parameter `{param.name}` is never None"
            return Problem(value.span, "misplaced-optional", what)
        case ast.Name(id) if id in place.header.leaves and param.type in ("Tensor", "Tensor?"):
            type = place.header.leaves[id].type
            if type is None or place.header.kind(id) is not Kind.VALUE or not DTYPE_SETS.keys() >= set(type.names):
                return None
            what = f"`{id}` is a Python number, and the parameter `{param.name}` takes a tensor"
            return Problem(value.span, "bad-kind", what, f"write `{id}: {'|'.join(type.names)}[...]`")
    return None
