"""What a call in a pattern names, for the reference matcher: a family, a named pattern or an exact target."""

from __future__ import annotations

from ..dsl import ast
from .environment import Frame
from .families import Family
from .ruleset import Scope, find_pattern
from .surface import Argument, Pattern, dotted, op_of


def resolve_call(
    call: ast.Call, frame: Frame
) -> tuple[tuple[ast.Pattern, Scope] | Family | str | None, tuple[Argument, ...]]:
    """What a call names: a pattern, a family or an exact target; and its arguments, ``x`` in ``x.f()`` included."""
    name, args = call.func, call.args
    if isinstance(name, ast.Attribute):
        target = dotted(name)
        if find_pattern(name, frame.scope) is not None:
            return find_pattern(name, frame.scope), args
        if target is not None and target.partition(".")[0] not in frame.variables:
            return target, args
        return find_family(name.name, frame.scope), (name.value, *args)
    if isinstance(name, ast.Name):
        pattern = None if name.id in frame.scope.ops else find_pattern(name, frame.scope)
        return pattern or find_family(name.id, frame.scope), args
    return None, args


def find_family(name: str, scope: Scope) -> Family | None:
    """The family of a name; a template variable stands for one."""
    return scope.table.families.get(scope.ops.get(name, name))


def take_operand(pattern: ast.Expr, frame: Frame) -> Pattern:
    """What is left of ``wrap(x)?`` without the wrapper."""
    op = op_of(pattern)
    args = resolve_call(pattern, frame)[1] if isinstance(pattern, ast.Call) else op.args if op else ()
    match args:
        case (ast.Keyword(_, value), *_):
            return value
        case (first, *_) if not isinstance(first, ast.Keyword | ast.StarStar):
            return first
    return ast.Dots()
