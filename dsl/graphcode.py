"""Graph code: the expressions of ``match`` and ``rewrite`` bodies, patterns and examples."""

from __future__ import annotations

from collections.abc import Iterator

from attrs import evolve

from . import ast
from .callees import check_argument, resolve
from .calls import Argument, Call, pair
from .headers import Kind
from .nearest import did_you_mean
from .places import Place, Role, misplaced, unbound
from .scopes import FileScope, find_opset, find_pattern
from .signatures import OpParam, OpSignature
from .source import Problem, Span
from .vocabulary import ASSOCIATIVE, COMPARISONS, FACTS, VOCABULARY
from .walking import Part, dotted, parts


def check_block(block: ast.Block, place: Place) -> Iterator[Problem]:
    """A body: each line sees the names of the lines before it."""
    targets = frozenset(name.lstrip("*") for assign in block.assigns for name in assign.targets)
    for assign in block.assigns:
        yield from check_graph(assign.value, evolve(place, later=targets - place.names))
        for name in (target.lstrip("*") for target in assign.targets):
            if name in place.header.leaves:
                what = f"`{name}` is declared in the header and assigned here"
                yield Problem(assign.span, "duplicate-name", what, "give this value a name of its own")
            elif name in place.names and name != "_":
                yield Problem(assign.span, "duplicate-name", f"`{name}` is assigned twice", "use another name")
            place = evolve(place, names=place.names | {name})
    for result in block.results:
        yield from check_graph(result, place)


def check_graph(expr: Argument | ast.Slice, place: Place, *, operand: bool = False) -> Iterator[Problem]:
    """An expression of graph code; ``operand`` where ``v?`` may stand."""
    match expr:
        case ast.Name():
            yield from _check_name(expr, place)
        case ast.Number(_, tolerance):
            if tolerance is not None and not place.is_pattern:
                yield misplaced(expr, "a tolerance `~`", place)
        case ast.Special():
            yield from _check_special(expr, place)
        case ast.Call():
            yield from _check_call(expr, place)
        case ast.Attribute():
            yield from _check_attribute(expr, place)
        case ast.Optional(value):
            yield from _check_optional(expr, place, operand)
            yield from check_graph(value, place)
        case ast.Flat(call):
            yield from _check_flat(call, place)
        case ast.As() | ast.Through() | ast.Or():
            yield from _check_pattern_operator(expr, place)
        case ast.Binary(op, left, right) if op != "??":
            yield from check_graph(left, place, operand=True)
            yield from check_graph(right, place, operand=True)
        case ast.Compare((op,), operands) if op in COMPARISONS:
            for one in operands:
                yield from check_graph(one, place)
        case ast.Unary(op, value) if op != "not":
            yield from check_graph(value, place)
        case ast.IfElse(then, test, other) if place.now is not None:
            yield from place.now(test)
            yield from check_graph(then, place)
            yield from check_graph(other, place)
        case ast.Star(value):
            captured = frozenset(captures(value, place)) if place.is_pattern else frozenset()
            yield from check_graph(value, evolve(place, names=place.names | captured))
        case ast.StarStar(name):
            if not place.is_pattern and name not in place.names:
                what = f"`**{name}`: the match captures no arguments under this name"
                yield Problem(expr.span, "unbound", what, did_you_mean(name, place.names))
        case ast.Keyword(_, value):
            yield from check_graph(value, place, operand=True)
        case ast.Index(value, items):
            yield from check_graph(value, place)
            for item in items:
                yield from check_graph(item, place)
        case ast.Slice(start, stop, step):
            for bound in (start, stop, step):
                yield from check_graph(bound, place) if bound is not None else ()
        case ast.Tuple(elements) | ast.List(elements):
            for element in elements:
                yield from check_graph(element, place)
        case ast.Dots() | ast.String():
            pass
        case _:
            yield from _check_at_rewrite_time(expr, place)


# ------------------------------------------------------------------- names
def _check_name(name: ast.Name, place: Place) -> Iterator[Problem]:
    id = name.id
    if id == "_":
        if not place.is_pattern:
            what = f"`_` matches anything and has no value in {place.role.value}"
            yield Problem(name.span, "misplaced", what)
    elif id in place.header.leaves and place.header.kind(id) is Kind.MODULE:
        yield Problem(name.span, "bad-kind", f"`{id}` is a module and not a value", f"call it: `{id}(x)`")
    elif not place.knows(id) and (id in place.later or not place.is_constant(id)):
        yield unbound(name, place)


def _check_special(special: ast.Special, place: Place) -> Iterator[Problem]:
    match special.id:
        case "any" if place.role is Role.EXPECTED:
            pass
        case "any":
            hint = "`_` matches anything" if place.is_pattern else "it is any value in the result of an `example`"
            yield misplaced(special, "`$any`", place, hint)
        case "out":
            yield misplaced(special, "`$out`", place, "it is the matched root, in `where` and `let`")
        case _:
            yield unknown_special(special)


def unknown_special(special: ast.Special) -> Problem:
    """The problem of a ``$name`` that does not exist."""
    hint = did_you_mean(special.id, ("out", "any")).replace("`", "`$", 1) or "there are `$out` and `$any`"
    return Problem(special.span, "unknown-special", f"`${special.id}`: no such name", hint)


def captures(value: Part, place: Place) -> Iterator[str]:
    """The names under ``*`` that nothing declares: ``*xs`` captures a list, ``*relu(xs)`` what each item holds."""
    match value:
        case ast.Name(id):
            if id != "_" and not place.knows(id) and id not in place.later and not place.is_constant(id):
                yield id
        case ast.Call(func, args):
            head = (dotted(func) or "").partition(".")[0]
            if isinstance(func, ast.Attribute) and (not head or place.knows(head)):
                yield from captures(func.value, place)
            for arg in args:
                yield from captures(arg, place)
        case ast.As(inner, name):
            yield from captures(inner, place)
            yield name
        case ast.Attribute() if (dotted(value) or "").partition(".")[0] in (
            *place.scope.imports,
            *place.scope.ops.packages,
        ):
            pass
        case _:
            for part in parts(value):
                yield from captures(part, place)


def _check_at_rewrite_time(expr: ast.Expr, place: Place) -> Iterator[Problem]:
    """An expression that has no form in a graph: computed at rewrite time in a rewrite, wrong elsewhere."""
    if place.now is not None:
        yield from place.now(expr)
        return
    words = {ast.Compare: "this comparison", ast.And: "`and`", ast.Comprehension: "a comprehension", ast.Dict: "a dict"}
    words |= {ast.Binary: "`??`", ast.Unary: "`not`", ast.IfElse: "`if`"}
    hint = "conditions stand in `where`, computed values in `let`"
    if isinstance(expr, ast.Compare):
        hint = "in graph code `x > 0` is an op on two values; conditions stand in `where`"
    yield misplaced(expr, words[type(expr)], place, hint)


# ------------------------------------------------------- operators of patterns
def _check_pattern_operator(expr: ast.As | ast.Through | ast.Or, place: Place) -> Iterator[Problem]:
    if not place.is_pattern:
        word = {ast.As: "`as`", ast.Through: "`through`", ast.Or: "`or`"}[type(expr)]
        yield misplaced(expr, word, place)
    elif isinstance(expr, ast.Through):
        yield from _check_through(expr, place.scope)
    for operand in expr.operands if isinstance(expr, ast.Or) else (expr.value,):
        yield from check_graph(operand, place)


def _check_flat(call: ast.Call, place: Place) -> Iterator[Problem]:
    """``flat add(p, *rest)``: an associative op, operands by place, one starred at most."""
    name = dotted(call.func) or ""
    if not place.is_pattern:
        yield misplaced(call, "`flat`", place, f"`{name}(*xs)` folds a list from the left")
    for op in place.ops.get(name, (name,)):
        if op not in ASSOCIATIVE:
            hint = f"there are {', '.join(f'`{one}`' for one in ASSOCIATIVE)}"
            yield Problem(call.func.span, "not-an-op", f"`{op}` has no list of operands that `flat` could see", hint)
    stars = [arg for arg in call.args if isinstance(arg, ast.Star)]
    wrong = next((arg for arg in call.args if isinstance(arg, ast.Keyword | ast.StarStar | ast.Dots)), None)
    if wrong is not None:
        yield Problem(wrong.span, "arity", "`flat` takes operands by place; all other arguments are at their default")
    elif len(stars) > 1:
        yield Problem(stars[1].span, "arity", "`flat` takes one starred operand: the others keep their order in it")
    elif not stars and len(call.args) < 2:
        yield Problem(call.span, "arity", "`flat` needs two operands or a starred one")
    for arg in call.args:
        yield from check_graph(arg, place)


def _check_optional(expr: ast.Optional, place: Place, operand: bool) -> Iterator[Problem]:
    if not place.is_pattern:
        what = f"`?` cannot stand in {place.role.value}"
        yield Problem(expr.span, "misplaced-optional", what, "pass the name alone: it is None where absent")
    elif not operand and not isinstance(expr.value, ast.Call):
        hint = "it may follow an argument, an operand of an operator, or a call"
        yield Problem(expr.span, "misplaced-optional", "`?` means nothing here", hint)


def _check_through(expr: ast.Through, scope: FileScope) -> Iterator[Problem]:
    name = expr.name
    place = expr.span and Span(expr.span.source, expr.span.end - len(name), expr.span.end)
    pattern = find_pattern(scope, name)
    if pattern is not None and len(pattern.params) != 1:
        what = f"`through` needs a pattern with one parameter; `{name}` has {len(pattern.params)}"
        yield Problem(place, "bad-through", what)
    alias = name.partition(".")[0]
    is_unknown_import = "." in name and alias in scope.imports and scope.imports[alias] is None
    if pattern is None and find_opset(scope, name) is None and not is_unknown_import:
        hint = did_you_mean(name, [*scope.own.patterns, *scope.own.opsets])
        if name in scope.ops.families:
            hint = f"`{name}` is an op; name a set of ops: `opset ... = {name}`"
        yield Problem(place, "unknown-pattern", f"`{name}`: no such pattern or opset", hint)


# --------------------------------------------------------- calls, attributes
def _check_call(call: ast.Call, place: Place) -> Iterator[Problem]:
    if place.now is not None and _runs_at_rewrite_time(call, place.scope):
        yield from place.now(call)
        return
    callee = resolve(call, place)
    yield from callee.problems
    if callee.signature is None:
        pairs: tuple[tuple[Argument, OpParam | None], ...] = tuple((arg, None) for arg in callee.args)
    else:
        pairs = pair(Call("", callee.args, None), callee.signature)
    for arg, param in pairs:
        value = arg.value if isinstance(arg, ast.Keyword) else arg
        if isinstance(value, ast.Dots) and not place.is_pattern:
            yield misplaced(value, "`...`", place, "it ignores the arguments that a pattern does not mention")
        if param is not None and place.is_pattern:
            problem = check_argument(value, param, place)
            yield from (problem,) if problem else ()
        yield from check_graph(arg, place, operand=True)


def _runs_at_rewrite_time(call: ast.Call, scope: FileScope) -> bool:
    """Whether a call in a rewrite is a helper, or a word that is no op: ``len(xs)``."""
    if not isinstance(call.func, ast.Name):
        return False
    name = call.func.id
    return name in scope.helpers or (name in VOCABULARY and name not in scope.ops.families)


def _check_attribute(expr: ast.Attribute, place: Place) -> Iterator[Problem]:
    """``k.mT`` is an op, ``m.weight`` part of a module, ``x.dtype`` (in a rewrite) a fact."""
    text = dotted(expr) or ""
    head = text.partition(".")[0]
    if head and not place.knows(head) and not place.is_constant(head):
        yield from _check_qualified(expr, text, head, place)
        return
    if head in place.header.leaves and place.header.kind(head) is Kind.MODULE:
        if place.is_pattern:
            hint = "match a leaf there, and compare it in `where`"
            yield misplaced(expr, f"the attribute `{text}` of a module", place, hint)
        return
    yield from check_graph(expr.value, place)
    if head in place.header.leaves and place.header.kind(head) in (Kind.VALUE, Kind.ANY):
        return
    families = place.scope.ops.families
    if expr.name in families and _is_unary(families[expr.name]):
        return
    if expr.name in FACTS and not place.is_pattern:
        return
    end = expr.span and Span(expr.span.source, expr.span.end - len(expr.name), expr.span.end)
    if expr.name in families:
        what = f"`{expr.name}` needs more than its input"
        yield Problem(end, "arity", what, f"call it: `.{expr.name}(...)`")
        return
    names = [name for name, one in families.items() if _is_unary(one)]
    hint = did_you_mean(expr.name, names if place.is_pattern else [*names, *FACTS])
    if expr.name in FACTS:
        hint = f"`.{expr.name}` is a fact and not an op: compare it in `where`"
    yield Problem(end, "unknown-op", f"`{expr.name}`: no such op", hint)


def _is_unary(signature: OpSignature) -> bool:
    return bool(signature.params) and not any(param.required for param in signature.params[1:])


def _check_qualified(expr: ast.Attribute, text: str, head: str, place: Place) -> Iterator[Problem]:
    """A qualified name that is not called: a constant of another file, or a mistake."""
    rest = text.partition(".")[2]
    if head in place.scope.imports:
        names = place.scope.imports[head]
        if names is not None and rest not in names.consts:
            yield Problem(expr.span, "unbound", f"`{head}` has no constant `{rest}`", did_you_mean(rest, names.consts))
        return
    if head in place.scope.ops.packages:
        hint = "dtypes have short names: `f32`, `bf16`, `i64`; an op is called: `torch.relu(x)`"
        yield Problem(expr.span, "unbound", f"`{text}` is not a value here", hint)
        return
    first: ast.Expr = expr
    while isinstance(first, ast.Attribute):
        first = first.value
    if isinstance(first, ast.Name):
        yield unbound(first, place)
