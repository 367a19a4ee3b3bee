"""From tree to text: one canonical layout, comments kept.

``parse(format_file(file))`` gives the same tree, and formatting twice changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from . import ast
from .comments import is_single
from .layout import WIDTH, Align, Group, Layout, Line, Nest, fill, join, render
from .phrases import expr_layout, format_expr, format_number, format_selector, format_string, params_layout

__all__ = ["format_expr", "format_file"]

_INDENT = 2
_WORD_WIDTH = 9
_WIDEST_PADDING = 16
_ONE_LINERS = (ast.Requires, ast.Import | ast.FromImport, ast.Const, ast.Opset, ast.Ruleset)


def format_file(file: ast.File) -> str:
    """The text of a file, in the one canonical layout; it ends with a newline unless it is empty.

    >>> from .parser import parse_text
    >>> print(format_file(parse_text("rule r(x:Tensor){match (x+0) rewrite x}")), end="")
    rule r(x: Tensor) {
      match    x + 0
      rewrite  x
    }
    """
    chunks = [_comment_lines(file.comments, 0)] if file.comments else []
    if file.doc is not None:
        chunks = ["\n".join([*chunks, format_doc(file.doc, 0)])]
    previous: ast.Statement | None = None
    for statement, width in zip(file.statements, _name_widths(file.statements), strict=True):
        text = _statement_text(statement, width)
        if previous is not None and _are_alike(previous, statement) and not text.startswith("#"):
            chunks[-1] += "\n" + text
        else:
            chunks.append(text)
        previous = statement
    closing = _without_last_blanks(file.closing_comments)
    chunks += [_comment_lines(closing, 0)] if closing else []
    return "\n\n".join(chunks) + "\n" if chunks else ""


def _are_alike(first: ast.Statement, second: ast.Statement) -> bool:
    """Whether two statements stand without a blank line between them, if no comment parts them."""
    return any(isinstance(first, kind) and isinstance(second, kind) for kind in _ONE_LINERS)


def _name_widths(statements: Sequence[ast.Statement]) -> list[int]:
    """How wide the names of each run of constants or rule sets are, so that their ``=`` align."""
    widths: list[int] = []
    for _, run in groupby(statements, type):
        names = [one.name if isinstance(one, ast.Const | ast.Ruleset) else "" for one in run]
        widths += [_common_width(names)] * len(names)
    return widths


def _common_width(names: Sequence[str]) -> int:
    longest, shortest = max(map(len, names)), min(map(len, names))
    return longest if longest - shortest <= _WIDEST_PADDING else 0


def _comment_lines(comments: Sequence[str], indent: int) -> str:
    return "\n".join(" " * indent + comment if comment else "" for comment in comments)


def _without_last_blanks(comments: Sequence[str]) -> Sequence[str]:
    count = len(comments)
    while count and not comments[count - 1]:
        count -= 1
    return comments[:count]


def _with_comments(comments: Sequence[str], text: str, trailing: str, indent: int) -> str:
    """A text with the comments above it and at its end.

    One that does not fit at the end goes above, unless it would overtake others inside braces.
    """
    if trailing and not text.endswith("}") and len(text.rpartition("\n")[2]) + 2 + len(trailing) > WIDTH:
        comments, trailing = (*comments, trailing), ""
    text = f"{text}  {trailing}" if trailing else text
    return f"{_comment_lines(comments, indent)}\n{text}" if comments else text


def format_doc(doc: str, indent: int) -> str:
    r"""A doc string in its quotes, escaped only where it must be.

    >>> format_doc('a "b"', 0).replace('"', "'")
    "'''a 'b\\''''"
    """
    shown = []
    for i, char in enumerate(doc):
        following = doc[i + 1 : i + 2]
        escaped = (char == "\\" and following in ("\\", '"', "")) or (char == '"' and following in ('"', ""))
        shown.append("\\" + char if escaped else char)
    margin = "\n" + " " * indent
    lines = margin.join("".join(shown).split("\n")).split("\n")
    # A first line beside the quotes says nothing about the margin: where the others leave it open, it goes below.
    rest = [line for line in doc.split("\n")[1:] if line]
    below = margin if doc.startswith(" ") or (rest and all(line.startswith(" ") for line in rest)) else ""
    return " " * indent + '"""' + below + "\n".join(line.rstrip() for line in lines) + '"""'


# -------------------------------------------------------------- statements
def _statement_text(statement: ast.Statement, width: int) -> str:
    match statement:
        case ast.Rule():
            text = _rule_text(statement)
        case ast.Pipeline():
            text = _pipeline_text(statement)
        case _:
            text = render(_statement_layout(statement, width))
    return _with_comments(statement.comments, text, statement.trailing, 0)


def _statement_layout(statement: ast.Statement, width: int) -> Layout:
    match statement:
        case ast.Requires(requirements):
            shown = [f"{name} {op} {format_string(version)}" for name, op, version in requirements]
            return "requires ", Align(fill(shown))
        case ast.Import(target, alias, is_path):
            return f"import {format_string(target) if is_path else target} as {alias}"
        case ast.FromImport(module, names):
            return f"from {module} import ", Align(fill(names))
        case ast.Const(name, value):
            return f"const {name.ljust(width)} = ", expr_layout(value)
        case ast.Opset(name, members):
            return f"opset {name} = ", Align(fill(members))
        case ast.Family():
            return _family_layout(statement)
        case ast.Pattern(name, params, body, limit):
            bound = "" if limit is None else f" limit {limit}"
            return f"pattern {name}", params_layout(params), f"{bound} = ", _alternatives(body)
        case ast.Ruleset(name, selectors):
            return f"ruleset {name.ljust(width)} = ", Align(fill([format_selector(one) for one in selectors]))
    raise TypeError(f"not a statement of one line: {statement!r}")


def _family_layout(family: ast.Family) -> Layout:
    effects = "".join(f" {effect}" for effect in family.effects)
    spellings = Nest(4, (Line(), join(map(expr_layout, family.spellings), (",", Line()))))
    return f"family {family.name}", params_layout(family.params), f"{effects} =", Group(spellings)


def _alternatives(body: ast.Expr) -> Layout:
    """A body; its alternatives stand under each other, the ``or`` in front of them."""
    if not isinstance(body, ast.Or):
        return expr_layout(body)
    operands = [expr_layout(one, 2) for one in body.operands]
    return Group(Align((operands[0], *((Line(), "or ", one) for one in operands[1:])), -3))


def _pipeline_text(pipeline: ast.Pipeline) -> str:
    lines = [f"pipeline {pipeline.name} {{"]
    strategy = max((len(step.strategy) for step in pipeline.steps), default=0)
    for step in pipeline.steps:
        layout: Layout = (
            f"{step.strategy.ljust(strategy)} ",
            Align(fill([format_selector(one) for one in step.selectors])),
        )
        limit = "" if step.limit is None else f" limit {step.limit}"
        when: Layout = () if step.condition is None else (" when ", expr_layout(step.condition))
        text = " " * _INDENT + render((layout, limit, when), _INDENT, _INDENT)
        lines.append(_with_comments(step.comments, text, step.trailing, _INDENT))
    return _closed(lines, pipeline.closing_comments)


def _closed(lines: list[str], closing: Sequence[str], indent: int = 0) -> str:
    kept = _without_last_blanks(closing)
    return "\n".join([*lines, *([_comment_lines(kept, indent + _INDENT)] if kept else []), " " * indent + "}"])


# ------------------------------------------------------------------- rules
def _rule_text(rule: ast.Rule) -> str:
    template = f"[{rule.template[0]} in {rule.template[1]}]" if rule.template else ""
    lines = [render((f"rule {rule.name}{template}", params_layout(rule.params), " {"))]
    if rule.doc is not None:
        lines.append(format_doc(rule.doc, _INDENT))
    for clause, width in zip(rule.clauses, _let_widths(rule.clauses), strict=True):
        text = " " * _INDENT + _clause_text(clause, width)
        comments = _outer_comments(clause)
        lines.append(_with_comments(comments, text, clause.trailing, _INDENT))
    return _closed(lines, rule.closing_comments)


def _outer_comments(clause: ast.Clause) -> tuple[str, ...]:
    """The comments above a clause: its own, and those of bodies that have no braces to hold them."""
    match clause:
        case ast.Match(body) | ast.Rewrite(body):
            bodies: tuple[ast.Block, ...] = (body,)
        case ast.Example(_, _, body, expected):
            bodies = (body,) if expected is None else (body, expected)
        case ast.Let(assign):
            return (*clause.comments, *assign.comments, *([assign.trailing] if assign.trailing else []))
        case _:
            return clause.comments
    inner = [
        comment
        for block in bodies
        if is_single(block)
        for comment in (*block.comments, block.trailing, *block.closing_comments)
        if comment
    ]
    return (*clause.comments, *inner)


def _let_widths(clauses: Sequence[ast.Clause]) -> list[int]:
    """How wide the targets of each run of ``let`` clauses are, so that their ``=`` align."""
    widths: list[int] = []
    for is_let, run in groupby(clauses, lambda clause: isinstance(clause, ast.Let)):
        targets = [", ".join(one.assign.targets) if isinstance(one, ast.Let) else "" for one in run]
        widths += [_common_width(targets) if is_let else 0] * len(targets)
    return widths


def _clause_text(clause: ast.Clause, width: int) -> str:
    match clause:
        case ast.Match(body):
            return _body_clause("match", body)
        case ast.Rewrite(body):
            return _body_clause("rewrite", body)
        case ast.Example():
            return _example_text(clause)
    word, layout = _word_and_layout(clause, width)
    word = word.ljust(_WORD_WIDTH)
    return word + render(layout, _INDENT + len(word), _INDENT)


def _word_and_layout(clause: ast.Clause, width: int) -> tuple[str, Layout]:
    match clause:
        case ast.Where(condition, reason):
            why: Layout = () if reason is None else (",", Line(), format_string(reason))
            return "where", Group(Align((expr_layout(condition), why)))
        case ast.Let(assign):
            return "let", (f"{', '.join(assign.targets).ljust(width)} = ", expr_layout(assign.value))
        case ast.Keep(names):
            return "keep", Align(fill(names))
        case ast.Freeze(names):
            return "freeze", Align(fill(names))
        case ast.Changes(names):
            return "changes", Align(fill(names))
        case ast.Tags(names):
            return "tags", Align(fill(names))
        case ast.RewriteVia(call):
            return "rewrite via ", expr_layout(call)
        case ast.Priority(value):
            return "priority", str(value)
        case ast.Shrinks(measure):
            return "shrinks", expr_layout(measure)
        case ast.Numerics():
            return "numerics", _numerics_layout(clause)
    raise TypeError(f"not a clause of one line: {clause!r}")


def _numerics_layout(numerics: ast.Numerics) -> Layout:
    reason = "" if numerics.reason is None else f" {format_string(numerics.reason)}"
    settings = (("slack", numerics.slack), ("rtol", numerics.rtol), ("atol", numerics.atol))
    shown = "".join(f" {name}={format_number(_plain(value))}" for name, value in settings if value is not None)
    waivers: Layout = (Line(), "except ", Align(fill(numerics.waivers))) if numerics.waivers else ()
    domain: Layout = () if numerics.domain is None else (Line(), "on ", expr_layout(numerics.domain))
    return Group(Align((numerics.level, reason, shown, waivers, domain)))


def _plain(value: float) -> int | float:
    """A whole number without its point: ``slack=4``."""
    return int(value) if value == int(value) and abs(value) < 1e6 else value


def _example_text(example: ast.Example) -> str:
    label = "" if example.label is None else f"{format_string(example.label)} "
    head = (f"example {label}", params_layout(example.params))
    flat = (is_single(example.body), example.expected is None or is_single(example.expected))
    if all(flat):
        expected = "unchanged" if example.expected is None else expr_layout(_only(example.expected))
        line = render((head, "  ", expr_layout(_only(example.body)), "  =>  ", expected), _INDENT, _INDENT)
        if "\n" not in line and len(line) + _INDENT <= WIDTH:
            return line
    first = " " * 6 + _braced_or_plain(example.body, 6)
    second = "unchanged" if example.expected is None else _braced_or_plain(example.expected, 6)
    return f"{render(head, _INDENT, _INDENT)}\n{first}\n   => {second}"


def _only(block: ast.Block) -> ast.Expr:
    result = block.results[0]
    assert not isinstance(result, ast.Star), "a body without braces is one expression"
    return result


def _body_clause(word: str, block: ast.Block) -> str:
    if not is_single(block):
        return f"{word} {_block_text(block, _INDENT)}"
    column = _INDENT + _WORD_WIDTH
    return word.ljust(_WORD_WIDTH) + render(_alternatives(_only(block)), column, _INDENT)


def _braced_or_plain(block: ast.Block, indent: int) -> str:
    return render(expr_layout(_only(block)), indent, indent) if is_single(block) else _block_text(block, indent)


def _block_text(block: ast.Block, indent: int) -> str:
    """A block in braces, the ``=`` of its lines aligned."""
    inner = indent + _INDENT
    width = _common_width([", ".join(assign.targets) for assign in block.assigns]) if block.assigns else 0
    lines = ["{"]
    for assign in block.assigns:
        layout: Layout = (f"{', '.join(assign.targets).ljust(width)} = ", expr_layout(assign.value))
        text = " " * inner + render(layout, inner, inner)
        lines.append(_with_comments(assign.comments, text, assign.trailing, inner))
    results = ("return ", Align(fill([expr_layout(result) for result in block.results])))
    text = " " * inner + render(results, inner, inner)
    lines.append(_with_comments(block.comments, text, block.trailing, inner))
    return _closed(lines, block.closing_comments, indent)
