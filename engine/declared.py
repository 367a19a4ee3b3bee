"""Families that a file declares: ``family rms_norm(x, weight?, eps=1e-6) pure = F.rms_norm(x, _, weight, eps), ...``.

A spelling by a callable that the built-in table knows stands for the whole built-in family: ``F.rms_norm(x, ...)``
also covers ``torch.rms_norm`` and ``aten.rms_norm.default``. Any other callable is one form; it can be matched and
emitted once it is there (a registered op, or a function of a module that is already imported).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from attrs import evolve

from ..dsl import ast
from ..dsl.source import FxrulesError, Problem
from .signatures import REQUIRED, Bound, Family, Fixed, Form, Free, Param, Role

Lookup: TypeAlias = Callable[[str], tuple[tuple[Family, Form], ...]]

_SHORT = {"F": "torch.nn.functional", "nn": "torch.nn"}


def declared_family(statement: ast.Family, known: Lookup) -> Family:
    """The family that a statement declares; ``known`` gives the built-in forms of a target."""
    params = tuple(_param(one) for one in statement.params)
    index = {param.name: i for i, param in enumerate(params)}
    forms: list[Form] = []
    for call in statement.spellings:
        forms += _forms(call, index, known)
    effects = [effect for effect in statement.effects if effect in ("random", "mutates")]
    return Family(
        statement.name,
        _with_kinds(params, forms),
        tuple(forms),
        commutative="commutative" in statement.effects,
        effect=effects[0] if effects else "pure",
    )


def _param(param: ast.Param) -> Param:
    if param.default is not None:
        return Param(param.name, "any", _constant(param.default))
    return Param(param.name, "any", None if param.optional else REQUIRED)


def _constant(expr: ast.Expr) -> Any:
    """The value of a default or of an argument that is fixed: a number, a string, True, False or None."""
    match expr:
        case ast.Number(value) | ast.String(value):
            return value
        case ast.Unary("-", ast.Number(value)):
            return -value
        case ast.Name("True" | "False" | "None" as id):
            return {"True": True, "False": False, "None": None}[id]
        case ast.List(items) | ast.Tuple(items):
            return tuple(_constant(item) for item in items if not isinstance(item, ast.Star))
    raise FxrulesError(
        Problem(expr.span, "not-a-constant", "only a number, a string, True, False, None or a list can stand here")
    )


def _target(call: ast.Call) -> str:
    expr, names = call.func, []
    while isinstance(expr, ast.Attribute):
        names.append(expr.name)
        expr = expr.value
    if not isinstance(expr, ast.Name):
        raise FxrulesError(Problem(call.span, "not-a-spelling", "a spelling calls something by its name: `F.relu(x)`"))
    text = ".".join([_SHORT.get(expr.id, expr.id) if names else expr.id, *reversed(names)])
    return text.removeprefix("torch.ops.")


def _role(expr: ast.Expr, index: Mapping[str, int]) -> Role:
    if isinstance(expr, ast.Name):
        if expr.id == "_":
            return Free()
        if expr.id in index:
            return Bound(index[expr.id])
    return Fixed(_constant(expr))


def _forms(call: ast.Call, index: Mapping[str, int], known: Lookup) -> list[Form]:
    target = _target(call)
    positional: list[Role] = []
    keywords: dict[str, Role] = {}
    for arg in call.args:
        match arg:
            case ast.Keyword(name, value):
                keywords[name] = _role(value, index)
            case ast.Star() | ast.StarStar() | ast.Dots():
                raise FxrulesError(
                    Problem(arg.span, "not-a-spelling", "a spelling names each argument; `_` for any value")
                )
            case _:
                positional.append(_role(arg, index))
    built_in = known(target)
    if built_in:
        family, form = built_in[0]
        return _composed(family, form, _by_family(family, form, positional, keywords, index, call))
    return [_new_form(target, positional, keywords, index)]


def _by_family(
    family: Family,
    form: Form,
    positional: list[Role],
    keywords: Mapping[str, Role],
    index: Mapping[str, int],
    call: ast.Call,
) -> dict[int, Role]:
    """The role of each parameter of a built-in family, by the arguments of a spelling in that form's own order."""
    if len(positional) > sum(not param.name.startswith("@") for param in form.params):
        raise FxrulesError(Problem(call.span, "arity", f"`{form.target}` takes fewer arguments than this spelling has"))
    own = [(param, role) for param, role in zip(form.params, form.roles, strict=True) if not param.name.startswith("@")]
    found: dict[int, Role] = {}
    given = list(zip((param.name for param, _ in own), positional, strict=False)) + list(keywords.items())
    names = {param.name: role for param, role in own}
    for name, role in given:
        bound = names.get(name)
        if not isinstance(bound, Bound):
            raise FxrulesError(
                Problem(call.span, "unknown-keyword", f"`{form.target}` has no argument `{name}` to bind")
            )
        found[bound.index] = role
    if form.kind == "module":
        for at, param in enumerate(family.params):
            if at not in found and param.name in index:
                found[at] = Bound(index[param.name])
            elif at not in found and param.default is REQUIRED:
                found[at] = Free()
    return found


def _composed(family: Family, form: Form, by_family: Mapping[int, Role]) -> list[Form]:
    """The forms of a built-in family, with the roles of a declared one."""
    forms = [one for one in family.forms if (one.kind == "module") == (form.kind == "module")]
    found = []
    for one in forms if form.kind != "module" else [form]:
        roles = tuple(
            by_family.get(role.index, _at_default(family, role.index)) if isinstance(role, Bound) else role
            for role in one.roles
        )
        constants = []
        fits = True
        for at, value in one.constants:
            role = by_family.get(at, _at_default(family, at))
            if isinstance(role, Bound):
                constants.append((role.index, value))
            fits = fits and (not isinstance(role, Fixed) or role.value == value)
        if fits:
            found.append(evolve(one, roles=roles, constants=tuple(constants)))
    return found


def _at_default(family: Family, at: int) -> Role:
    default = family.params[at].default
    return Free() if default is REQUIRED else Fixed(default)


def _new_form(target: str, positional: list[Role], keywords: Mapping[str, Role], index: Mapping[str, int]) -> Form:
    """The one form of a callable that no built-in family knows; a capitalised name is the class of a module."""
    names = {at: name for name, at in index.items()}
    params, roles = [], []
    for place, role in enumerate(positional):
        name = names[role.index] if isinstance(role, Bound) else f"argument{place}"
        params.append(Param(name, "any"))
        roles.append(role)
    for name, role in keywords.items():
        params.append(Param(name, "any", keyword_only=True))
        roles.append(role)
    is_module = target.rpartition(".")[2][:1].isupper()
    if is_module:
        bound = {role.index for role in roles if isinstance(role, Bound)}
        for name, at in index.items():
            if at not in bound:
                params.append(Param(f"@{name}", "any"))
                roles.append(Bound(at))
    return Form(
        "torch" if is_module else "any",
        "module" if is_module else "function",
        target,
        tuple(params),
        tuple(roles),
        declared=True,
    )


def _with_kinds(params: tuple[Param, ...], forms: list[Form]) -> tuple[Param, ...]:
    """Parameters with the kinds that the built-in forms give them; tensors can then be told from numbers."""
    kinds: dict[int, set[str]] = {}
    for form in forms:
        for param, role in zip(form.params, form.roles, strict=True):
            if isinstance(role, Bound) and not form.declared and not param.name.startswith("@"):
                kinds.setdefault(role.index, set()).add(param.type)
    found = []
    for at, param in enumerate(params):
        known = kinds.get(at, set())
        kind = known.pop() if len(known) == 1 else "any"
        if param.default is None and kind != "any" and not kind.endswith("?"):
            kind += "?"
        found.append(evolve(param, type=kind, is_dim=kind.startswith("dim"), extra_dims=1 if "+1" in kind else 0))
    return tuple(found)
