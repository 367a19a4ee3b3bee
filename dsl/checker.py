"""Everything that can be said of a file without running it: names, arity, kinds, None.

Op names are given as an argument, so that no torch is needed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import islice
from types import MappingProxyType

from . import ast
from .arithmetic import FUNCTIONS, NAMED, fold
from .bindings import bound_by
from .callees import find_op, is_module_class
from .calls import Call, check_call
from .contracts import check_repeated, check_words
from .graphcode import check_graph
from .headers import check_params, header_of, unknown_package
from .nearest import did_you_mean, did_you_mean_target
from .pieces import OPERATOR_WORDS
from .places import Place, Role
from .rulechecks import check_rule
from .scopes import FileScope, ImportedNames, find_pattern, imports_of, names_of, scope_of
from .selections import check_pipelines, check_rulesets
from .signatures import OpTable
from .source import MOST_PROBLEMS, Problem, Span
from .vocabulary import CONSTANTS, EFFECTS, REQUIREMENTS
from .walking import dotted, locate, names_in, walk

__all__ = ["ImportedNames", "check", "imports_of", "names_of"]

_LARGEST_PATTERN = 10_000
_MOST_LINES = 1000


def check(
    file: ast.File,
    ops: OpTable,
    *,
    imports: Mapping[str, ImportedNames] = MappingProxyType({}),
    broken: Iterable[Problem] = (),
) -> tuple[Problem, ...]:
    """Every problem of a file, in order of place.

    ``imports`` maps an alias to what its file offers; members of an alias that is not in it
    are not checked. ``broken`` are the parser's problems: a statement that holds one of them
    keeps its name and is not checked itself.

    >>> from .parser import parse_text
    >>> from .signatures import signature
    >>> table = OpTable({"softmax": signature("input, dim")})
    >>> (problem,) = check(parse_text("rule r(x: Tensor) { match sofmax(x, -1) }"), table)
    >>> problem.message, problem.hint
    ('`sofmax`: no such op', 'did you mean `softmax`?')
    """
    skipped = [problem.span.start for problem in broken if problem.span]
    lost = _lost_names(file, skipped)
    problems = (one for one in _check_file(file, scope_of(file, ops, imports), skipped) if _text(one) not in lost)
    found = dict.fromkeys(islice(problems, MOST_PROBLEMS))
    return tuple(sorted(found, key=lambda one: one.span.start if one.span else -1))


def _check_file(file: ast.File, scope: FileScope, skipped: Collection[int]) -> Iterator[Problem]:
    if not file.statements and not skipped:
        yield Problem(file.span, "empty-file", "the file holds no statement", "a rule starts with `rule`")
    yield from _check_duplicates(file)
    yield from _check_expansion(file, scope)
    known: dict[str, int | float] = {}
    for statement in file.statements:
        span = statement.span
        if span is None or not any(span.start <= place < span.end for place in skipped):
            yield from _check_statement(statement, scope, known)
    yield from check_rulesets(file, scope)
    yield from check_pipelines(file, scope)


def _lost_names(file: ast.File, skipped: Collection[int]) -> frozenset[str]:
    """Names of statements that the parser could not read: that others name them is no second problem."""
    if not skipped or file.span is None:
        return frozenset()
    text = file.span.source.text
    named = re.findall(r"^\s*(?:const|opset|family|pattern|rule|ruleset|import.* as) +(\w+)", text, re.MULTILINE)
    imported = re.findall(r"^\s*from +[\w.]+ +import +([\w, ]+)", text, re.MULTILINE)
    listed = (name.strip() for names in imported for name in names.split(","))
    known = {name for statement in file.statements for _, name in _declared(statement)}
    return frozenset({*named, *listed} - known)


def _text(problem: Problem) -> str:
    span = problem.span
    return span.source.text[span.start : span.end] if span else ""


def _check_duplicates(file: ast.File) -> Iterator[Problem]:
    """No two things that are named the same way share a name."""
    seen: dict[tuple[str, str], Span | None] = {}
    for statement in file.statements:
        for kind, name in _declared(statement):
            if (kind, name) in seen:
                first = seen[kind, name]
                where = f"; the first stands on line {first.source.line_column(first.start)[0]}" if first else ""
                code = "duplicate-rule" if isinstance(statement, ast.Rule) else "duplicate-name"
                yield Problem(locate(statement.span, name), code, f"`{name}` is declared twice{where}", "rename one")
            elif name != "_":
                seen[kind, name] = locate(statement.span, name)


def _declared(statement: ast.Statement) -> tuple[tuple[str, str], ...]:
    """The names of a statement, each with the group in which it must be unique."""
    match statement:
        case ast.Rule(name) | ast.Ruleset(name):
            return (("selection", name),)
        case ast.Pipeline(name):
            return (("pipeline", name),)
        case ast.Const(name) | ast.Opset(name) | ast.Family(name) | ast.Pattern(name):
            return (("expression", name),)
        case ast.Import(_, alias):
            return (("expression", alias),)
        case ast.FromImport(_, names):
            return tuple(("expression", name) for name in names)
    return ()


def _check_statement(statement: ast.Statement, scope: FileScope, known: dict[str, int | float]) -> Iterator[Problem]:
    """One statement; ``known`` are the constants so far, and gets this one."""
    match statement:
        case ast.Rule():
            too_long = list(_check_lengths(statement))
            yield from too_long or check_rule(statement, scope)
        case ast.Pattern():
            yield from _check_pattern(statement, scope)
        case ast.Const():
            yield from _check_const(statement, known)
        case ast.Opset():
            yield from _check_opset(statement, scope)
        case ast.Family():
            yield from _check_family(statement, scope)
        case ast.Requires():
            yield from _check_requires(statement)


def _check_lengths(rule: ast.Rule) -> Iterator[Problem]:
    """No reader follows a rule of a thousand leaves, clauses or lines, nor would the engine."""
    bodies = [clause.body for clause in rule.clauses if isinstance(clause, ast.Match | ast.Rewrite | ast.Example)]
    lengths = (("leaves", len(rule.params)), ("clauses", len(rule.clauses)))
    for what, length in (*lengths, ("lines in a block", max((len(body.assigns) for body in bodies), default=0))):
        if length > _MOST_LINES:
            place = locate(rule.span, rule.name)
            yield Problem(place, "too-large", f"the rule `{rule.name}` has more than {_MOST_LINES} {what}")


# --------------------------------------------------------------- constants
def _check_const(const: ast.Const, known: dict[str, int | float]) -> Iterator[Problem]:
    """A constant is plain arithmetic over numbers and the constants before it."""
    if const.name in CONSTANTS or const.name in OPERATOR_WORDS:
        what = f"`{const.name}` has a meaning of its own"
        yield Problem(locate(const.span, const.name), "bad-const", what, "use another name")
    value = fold(const.value, known)
    known[const.name] = 0 if value is None else value
    if value is None:
        yield _why_no_number(const, known)


def _why_no_number(const: ast.Const, known: Mapping[str, int | float]) -> Problem:
    hint = f"numbers, `+ - * / // % **`, {', '.join(f'`{name}`' for name in FUNCTIONS)}, `pi`, earlier constants"
    for part in walk(const.value):
        match part:
            case ast.Call(ast.Name(id) as func) if id not in FUNCTIONS:
                near = did_you_mean(id, FUNCTIONS)
                return Problem(func.span, "bad-const", f"`{id}`: no such function for a constant", near or hint)
            case ast.Name(id) if id not in known and id not in NAMED and id not in FUNCTIONS:
                near = did_you_mean(id, [*known, *NAMED]) or "constants are read in the order of the file"
                return Problem(part.span, "unbound", f"`{id}`: no such constant so far", near)
    plain = (ast.Number, ast.Name, ast.Call, ast.Binary, ast.Unary)
    if all(isinstance(part, plain) for part in walk(const.value)):
        return Problem(const.value.span, "bad-const", f"`{const.name}` has no finite value", hint)
    return Problem(const.value.span, "bad-const", f"`{const.name}` is not a number", hint)


# ---------------------------------------------------------------- patterns
def _check_pattern(pattern: ast.Pattern, scope: FileScope) -> Iterator[Problem]:
    yield from check_params(pattern.params, scope, "pattern")
    header = header_of(pattern.params, scope)
    names = Counter(name.id for name in names_in(pattern.body))
    called = {
        part.func.id for part in walk(pattern.body) if isinstance(part, ast.Call) and isinstance(part.func, ast.Name)
    }
    # A name in two places matches the same value in both, and is local to the pattern.
    local = frozenset(name for name, count in names.items() if count > 1 and name not in called)
    yield from check_graph(pattern.body, Place(Role.PATTERN, scope, header, local))
    bound = bound_by(pattern.body, scope).all
    for param in pattern.params:
        if param.name not in bound:
            what = f"the pattern never uses its parameter `{param.name}`"
            yield Problem(locate(param.span, param.name), "unused", what)


def _check_expansion(file: ast.File, scope: FileScope) -> Iterator[Problem]:
    """Patterns are put in place of their names: none may hold itself without a bound, or grow beyond reason."""
    sizes: dict[str, int] = {}
    for statement in file.statements:
        if isinstance(statement, ast.Pattern):
            size = sizes[statement.name] = _expanded_size(statement, scope, sizes, (), [_LARGEST_PATTERN])
            place = locate(statement.span, statement.name)
            if size < 0:
                names = ", ".join(param.name for param in statement.params)
                hint = f"say how deep it may go: `pattern {statement.name}({names}) limit 8 = ...`"
                yield Problem(place, "recursive-pattern", f"the pattern `{statement.name}` holds itself", hint)
            elif size > _LARGEST_PATTERN:
                what = f"the pattern `{statement.name}` grows to more than {_LARGEST_PATTERN} parts"
                yield Problem(place, "too-large", what, "each use of a pattern is put in its place")


def _expanded_size(
    pattern: ast.Pattern, scope: FileScope, sizes: dict[str, int], above: tuple[ast.Pattern, ...], left: list[int]
) -> int:
    """The number of parts of a pattern with those it names put in; -1 if it holds itself without a bound.

    ``left`` is how many more parts may be looked at: it ends the search in patterns that grow.
    """
    inside = [place for place, one in enumerate(above) if one is pattern]
    if pattern.limit is not None and len(inside) >= pattern.limit:
        return 1
    if inside and all(one.limit is None for one in above[inside[-1] :]):
        return -1
    if not above and pattern.name in sizes:
        return sizes[pattern.name]
    total = 0
    for part in walk(pattern.body):
        left[0] -= 1
        if left[0] < 0:
            return _LARGEST_PATTERN + 1
        name = part.name if isinstance(part, ast.Through) else dotted(part) if isinstance(part, ast.Name) else None
        inner = find_pattern(scope, name) if name else None
        size = 1 if inner is None else _expanded_size(inner, scope, sizes, (*above, pattern), left)
        if size < 0:
            return size
        total = min(total + size, _LARGEST_PATTERN + 1)
    return total


# ------------------------------------------------------- ops and families
def _check_opset(opset: ast.Opset, scope: FileScope) -> Iterator[Problem]:
    yield from check_repeated(opset.members, opset.span)
    for name in dict.fromkeys(opset.members):
        if find_op(scope, name) is None:
            package = name.partition(".")[0]
            if "." in name and package not in scope.ops.packages:
                yield unknown_package(locate(opset.span, package), package, scope)
            else:
                hint = did_you_mean(name, scope.ops.families)
                yield Problem(locate(opset.span, name), "unknown-op", f"`{name}`: no such op", hint)


def _check_family(family: ast.Family, scope: FileScope) -> Iterator[Problem]:
    yield from check_params(family.params, scope, "family")
    yield from check_words(family.effects, EFFECTS, "effect", "unknown-effect", family.span)
    names = {param.name for param in family.params}
    for spelling in family.spellings:
        text = dotted(spelling.func)
        if text is None or "." not in text:
            what = "a spelling is a call of a qualified target, such as `F.relu(x)`"
            yield Problem(spelling.func.span, "bad-spelling", what)
            continue
        yield from _check_spelling(spelling, text, scope)
        for arg in spelling.args:
            for name in names_in(arg):
                if name.id not in names and name.id != "_" and name.id not in CONSTANTS:
                    hint = did_you_mean(name.id, names) or "`_` stands for an argument that does not matter"
                    what = f"`{name.id}` is not a parameter of the family"
                    yield Problem(name.span, "unbound", what, hint)


def _check_spelling(spelling: ast.Call, text: str, scope: FileScope) -> Iterator[Problem]:
    """The target of a spelling exists and takes the arguments; a module class is called with its inputs only."""
    package = text.partition(".")[0]
    signature = find_op(scope, text)
    if is_module_class(scope, text):
        return
    if signature is not None:
        yield from check_call(Call(text, spelling.args, spelling.span), signature, open_ended=True)
    elif package not in scope.ops.packages:
        yield unknown_package(locate(spelling.func.span, package), package, scope)
    else:
        hint = did_you_mean_target(text, [*scope.ops.targets, *scope.ops.modules])
        yield Problem(spelling.func.span, "unknown-op", f"`{text}`: no such target", hint)


def _check_requires(requires: ast.Requires) -> Iterator[Problem]:
    for name, op, version in requires.requirements:
        if name not in REQUIREMENTS:
            hint = did_you_mean(name, REQUIREMENTS) or f"there are {', '.join(REQUIREMENTS)}"
            yield Problem(locate(requires.span, name), "bad-requirement", f"`{name}`: no such requirement", hint)
        if op not in (">=", "<=", ">", "<", "==", "!="):
            yield Problem(requires.span, "bad-requirement", f"`{op}` does not compare versions", "use `>=`")
        if not all(part.isdigit() for part in version.split(".")):
            what = f'"{version}" is not a version'
            yield Problem(
                locate(requires.span, version), "bad-requirement", what, 'a version is numbers and points: "2.13"'
            )
