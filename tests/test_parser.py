"""Parsing: trees, recovery, limits, words that are names."""

from __future__ import annotations

from pathlib import Path

import pytest

from fxrules.dsl import ast
from fxrules.dsl.parser import parse, parse_expr, parse_text, read
from fxrules.dsl.source import FxrulesError, Problem, Source

CASES = Path(__file__).parent / "cases"


def place(problem: Problem) -> str:
    assert problem.span is not None
    return "{}:{}".format(*problem.span.source.line_column(problem.span.start))


def only_rule(text: str) -> ast.Rule:
    (rule,) = parse_text(text).statements
    assert isinstance(rule, ast.Rule)
    return rule


# ------------------------------------------------------------------- trees
def test_north_star_parses() -> None:
    file, problems = parse(read(CASES / "north_star.rules"))
    assert problems == ()
    kinds = [type(statement).__name__ for statement in file.statements]
    assert {kind: kinds.count(kind) for kind in dict.fromkeys(kinds)} == {
        "Requires": 1,
        "Import": 2,
        "FromImport": 2,
        "Const": 2,
        "Opset": 1,
        "Pattern": 2,
        "Family": 1,
        "Rule": 23,
        "Ruleset": 2,
        "Pipeline": 2,
    }
    assert file.doc == "North star: what one .rules file must be able to say (a target, not a shipped library)."


def test_every_part_of_a_rule() -> None:
    rule = only_rule(
        '''rule r[f in ops](x: const f32|f64[*B, 2 * D, ...]?, *ys, m: module nn.ReLU, k) {
          """One.
             Two."""
          match { a, *b = split(x, 2, **cfg) return f(a?, ...) as y, [*b] }
          where not x is None and 1 < len(b) <= 2, "why"
          rewrite via build(x)
          numerics approx "why" rtol=1e-3 atol=-2 slack=4 except nan, inf on x > 0
          priority -5
          example "e" (x: f32[2]) x => unchanged
        }'''
    )
    assert rule.doc == "One.\nTwo."
    assert rule.template == ("f", "ops")
    assert rule.params == (
        ast.Param(
            "x",
            ast.Type(
                ("f32", "f64"),
                "const",
                (ast.StarDim("B"), ast.Binary("*", ast.Number(2), ast.Name("D")), ast.Dots()),
                True,
            ),
        ),
        ast.Param("ys", star=True),
        ast.Param("m", ast.Type(("nn.ReLU",), "module")),
        ast.Param("k"),
    )
    match, where, rewrite, numerics, priority, example = rule.clauses
    split = ast.Call(ast.Name("split"), (ast.Name("x"), ast.Number(2), ast.StarStar("cfg")))
    call = ast.Call(ast.Name("f"), (ast.Optional(ast.Name("a")), ast.Dots()))
    assert match == ast.Match(
        ast.Block((ast.Assign(("a", "*b"), split),), (ast.As(call, "y"), ast.List((ast.Star(ast.Name("b")),))))
    )
    length = ast.Call(ast.Name("len"), (ast.Name("b"),))
    assert where == ast.Where(
        ast.And(
            (
                ast.Unary("not", ast.Compare(("is",), (ast.Name("x"), ast.Name("None")))),
                ast.Compare(("<", "<="), (ast.Number(1), length, ast.Number(2))),
            )
        ),
        "why",
    )
    assert rewrite == ast.RewriteVia(ast.Call(ast.Name("build"), (ast.Name("x"),)))
    assert numerics == ast.Numerics(
        "approx", "why", 4.0, 1e-3, -2.0, ("nan", "inf"), ast.Compare((">",), (ast.Name("x"), ast.Number(0)))
    )
    assert priority == ast.Priority(-5)
    assert example == ast.Example(
        "e",
        (ast.Param("x", ast.Type(("f32",), None, (ast.Number(2),))),),
        ast.Block((), (ast.Name("x"),)),
        None,
    )


def test_precedence_is_that_of_python() -> None:
    expr = parse_expr("a or b and not c == d ?? e | f ^ g & h << i + j * -k ** l.m")
    binary, unary, name = ast.Binary, ast.Unary, ast.Name
    power = binary("**", name("k"), ast.Attribute(name("l"), "m"))
    product = binary("*", name("j"), unary("-", power))
    shift = binary("<<", name("h"), binary("+", name("i"), product))
    bits = binary("|", name("e"), binary("^", name("f"), binary("&", name("g"), shift)))
    compare = ast.Compare(("==",), (name("c"), binary("??", name("d"), bits)))
    assert expr == ast.Or((name("a"), ast.And((name("b"), unary("not", compare)))))


def test_operators_group_as_in_python() -> None:
    a, b, c = map(ast.Name, "abc")
    assert parse_expr("a - b - c") == ast.Binary("-", ast.Binary("-", a, b), c)
    assert parse_expr("a ** b ** c") == ast.Binary("**", a, ast.Binary("**", b, c))
    assert parse_expr("a if b else c if a else b") == ast.IfElse(a, b, ast.IfElse(c, a, b))
    assert parse_expr("a or b as n through p") == ast.Or((a, ast.Through(ast.As(b, "n"), "p")))
    assert parse_expr("a not in b is not c") == ast.Compare(("not in", "is not"), (a, b, c))


def test_numbers_and_strings() -> None:
    assert [repr(parse_expr(text)) for text in ("1", "1.", ".5", "1e3", "0.8~1e-3")] == [
        "Number(value=1, tolerance=None)",
        "Number(value=1.0, tolerance=None)",
        "Number(value=0.5, tolerance=None)",
        "Number(value=1000.0, tolerance=None)",
        "Number(value=0.8, tolerance=0.001)",
    ]
    assert parse_expr(r"'a\n\t\\\'\"\x41\u00e9\U0001F600\d'") == ast.String("a\n\t\\'\"Aé😀\\d")


def test_spans_point_at_the_text() -> None:
    text = "rule r(x: Tensor) {\n  match    relu( x ) + 1  # comment\n}"
    match = only_rule(text).clauses[0]
    assert isinstance(match, ast.Match) and match.span and match.body.results[0].span
    assert text[match.span.start : match.span.end] == "match    relu( x ) + 1"
    result = match.body.results[0]
    assert isinstance(result, ast.Binary) and result.left.span and str(result.left.span) == "<text>:2:12"
    assert text[result.left.span.start : result.left.span.end] == "relu( x )"


# ------------------------------------------------------------------- words
def test_words_of_the_language_are_names_where_no_keyword_can_stand() -> None:
    rule = only_rule(
        """rule match(limit: Tensor, on: Tensor, where: Tensor) {
          match where(limit.match, on, where=1, if=2)
          where (limit + where(on))
          let keep = limit
          rewrite { tags = keep return tags }
          example (c: bool[2]) where(c, c, c) => where(c)
        }"""
    )
    assert rule.name == "match"
    assert [param.name for param in rule.params] == ["limit", "on", "where"]
    assert [type(clause).__name__ for clause in rule.clauses] == ["Match", "Where", "Let", "Rewrite", "Example"]
    match = rule.clauses[0]
    assert isinstance(match, ast.Match)
    assert match.body.results[0] == ast.Call(
        ast.Name("where"),
        (
            ast.Attribute(ast.Name("limit"), "match"),
            ast.Name("on"),
            ast.Keyword("where", ast.Number(1)),
            ast.Keyword("if", ast.Number(2)),
        ),
    )


def test_newlines_never_matter() -> None:
    text = (CASES / "north_star.rules").read_text()
    without_comments = "\n".join(line.partition("# ")[0] for line in text.split("\n"))
    file, problems = parse(Source("one word on a line", without_comments))
    assert problems == ()
    in_one_line = without_comments.replace("\n", " ")
    again, problems = parse(Source("one line", in_one_line))
    assert problems == ()
    assert [statement.name for statement in again.statements if isinstance(statement, ast.Rule)] == [
        statement.name for statement in file.statements if isinstance(statement, ast.Rule)
    ]


# ---------------------------------------------------------------- recovery
def test_neighbours_of_a_bad_clause_stay() -> None:
    text = "rule r(x: Tensor) {\n  match x +\n  where x.ndim == 2\n  rewrite (x\n  tags a\n}\n"
    text += "rule s(x: Tensor) { match neg(x) }\n"
    file, problems = parse(Source("case", text))
    assert [(place(problem), problem.code) for problem in problems] == [("2:11", "syntax"), ("4:11", "unbalanced")]
    first, second = file.statements
    assert isinstance(first, ast.Rule) and isinstance(second, ast.Rule)
    assert [type(clause).__name__ for clause in first.clauses] == ["Where", "Tags"]
    assert [type(clause).__name__ for clause in second.clauses] == ["Match"]


def test_a_bad_head_keeps_its_clauses() -> None:
    file, problems = parse(Source("case", "rule r(x: Tensor {\n  match neg(x)\n  rewrite x +\n}"))
    assert [(place(problem), problem.code) for problem in problems] == [("1:7", "unbalanced"), ("3:13", "syntax")]
    (rule,) = file.statements
    assert isinstance(rule, ast.Rule) and (rule.name, len(rule.clauses)) == ("r", 1)


def test_parse_text_raises_all_problems() -> None:
    with pytest.raises(FxrulesError) as caught:
        parse_text("rule r(x: Tensor) { match x + rewrite (x }", "my.rules")
    assert len(caught.value.problems) == 1
    assert str(caught.value) == (
        "my.rules:1:39: `(` is never closed [unbalanced]\n"
        "    rule r(x: Tensor) { match x + rewrite (x }\n"
        "                                          ^"
    )


def test_parse_expr_refuses_what_is_no_expression() -> None:
    for text in ("", "x +", "x y", "(", "match x", "'"):
        with pytest.raises(FxrulesError):
            parse_expr(text)
