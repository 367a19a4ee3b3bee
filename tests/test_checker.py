"""What the checker says of bad inputs, and that it says nothing of good ones."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from stub_ops import IMPORTS, OPS

from fxrules.dsl.checker import check, imports_of, names_of
from fxrules.dsl.parser import parse, parse_text, read
from fxrules.dsl.scopes import ImportedNames
from fxrules.dsl.source import MOST_PROBLEMS, Problem, Source

CASES = Path(__file__).parent / "cases"
BAD_INPUTS = tomllib.loads((CASES / "bad_inputs.toml").read_text(encoding="utf-8"))["case"]


def problems_of(text: str) -> list[Problem]:
    file, problems = parse(Source("case", text))
    found = [*problems, *check(file, OPS, imports=IMPORTS, broken=problems)]
    return sorted(found, key=lambda problem: problem.span.start if problem.span else -1)


def shown(problem: Problem) -> str:
    assert problem.span is not None
    line, column = problem.span.source.line_column(problem.span.start)
    return f"{line}:{column} {problem.code}: {problem.message}" + (f"; {problem.hint}" if problem.hint else "")


@pytest.mark.parametrize("case", BAD_INPUTS, ids=[case["name"] for case in BAD_INPUTS])
def test_bad_input(case: dict[str, Any]) -> None:
    assert [shown(problem) for problem in problems_of(case["text"])] == case["problems"]


def test_there_are_enough_bad_inputs() -> None:
    assert len(BAD_INPUTS) >= 45
    assert all(case["problems"] for case in BAD_INPUTS)


def test_north_star_is_clean() -> None:
    file, problems = parse(read(CASES / "north_star.rules"))
    assert problems == ()
    assert len(file.statements) == 38
    assert check(file, OPS, imports=IMPORTS) == ()


GOOD = {
    "asked about": "where mask is None or mask.ndim == 2",
    "asked about the other way": "where not (mask is not None and mask.ndim != 2)",
    "required from here on": "where mask is not None where mask.ndim == 2 let n = mask.ndim + 1 where n > 2",
    "chosen": "let n = mask.ndim if mask else 0 where n > 1",
    "first bound": "let n = (mask ?? $out).ndim where n > 1",
}


@pytest.mark.parametrize("clauses", GOOD.values(), ids=GOOD.keys())
def test_a_possibly_none_name_that_is_guarded(clauses: str) -> None:
    text = "rule r(x: Tensor, mask: Tensor?) { match x + mask? %s rewrite x }"
    assert problems_of(text % clauses) == []


def test_none_goes_to_a_parameter_that_takes_it_and_to_no_other() -> None:
    text = "rule r(x: Tensor, b: Tensor?) { match x + b? rewrite linear(x, x, b) }"
    assert problems_of(text) == []
    (problem,) = problems_of(text.replace("linear(x, x, b)", "linear(x, b)"))
    assert problem.code == "possibly-none"


def test_a_name_bound_in_every_alternative_is_not_optional() -> None:
    assert problems_of("rule r(x: Tensor, n: int) { match x * n or x + n rewrite x * n }") == []


def test_a_pattern_that_leaves_its_parameter_out_makes_it_optional() -> None:
    text = "pattern p(x, n) = x * n or relu(x)\nrule r(x: Tensor, n: int) { match p(x, n) rewrite x }"
    (problem,) = problems_of(text)
    assert (problem.code, problem.hint) == ("possibly-none", "write `n: int?`")
    assert problems_of(text.replace("relu(x)", "x + n")) == []


def test_a_line_used_in_one_alternative_is_bound_in_that_one() -> None:
    text = "rule r(x: Tensor, n: int?) { match { y = x * n return relu(y) or neg(x) } where %s rewrite x }"
    assert problems_of(text % "n is None") == []
    (problem,) = problems_of(text % "n > 1")
    assert problem.code == "possibly-none"


def test_a_kept_root_needs_no_replacement_of_its_own() -> None:
    text = "rule r(x: Tensor) { match { a = relu(x) b = neg(x) return a, b } %s rewrite exp(x) }"
    assert [problem.code for problem in problems_of(text % "")] == ["result-count"]
    assert problems_of(text % "keep a") == []


def test_facts_of_inner_values_need_no_keep() -> None:
    text = "rule r(x: Tensor) { match neg(relu(x) as y) where users(y) == 1 rewrite to(x, y.dtype) }"
    assert problems_of(text) == []


def test_names_of_a_file_and_its_imports() -> None:
    text = 'import "a.rules" as a\nimport std.b as b\nconst N = 1\npattern p(x) = relu(x)\nopset o = relu\n'
    text += "rule r(x: Tensor) { match p(x) }\nruleset s = r\nfamily f(x, k=1) commutative = torch.relu(x)\n"
    file = parse_text(text)
    assert [(one.target, one.alias, one.is_path) for one in imports_of(file)] == [
        ("a.rules", "a", True),
        ("std.b", "b", False),
    ]
    names = names_of(file)
    assert [*names.rules, *names.rulesets, *names.consts] == ["r", "s", "N"]
    assert (set(names.patterns), dict(names.opsets)) == ({"p"}, {"o": ("relu",)})
    family = names.families["f"]
    assert [(param.name, param.required) for param in family.params] == [("x", True), ("k", False)]
    assert family.commutative


def test_imported_names_are_checked_where_they_are_known() -> None:
    text = "import lib as lib\nruleset s = lib.thing\n"
    file = parse_text(text)
    assert check(file, OPS) == ()
    assert check(file, OPS, imports={"lib": ImportedNames(rules=frozenset({"thing"}))}) == ()
    (problem,) = check(file, OPS, imports={"lib": ImportedNames(rules=frozenset({"things"}))})
    assert (problem.code, problem.hint) == ("unknown-rule", "did you mean `things`?")


def test_an_imported_family_is_known_by_its_own_name() -> None:
    lib = names_of(parse_text("family twist(x, k) = torch.relu(x)"))
    text = "import lib as lib\nrule r(x: Tensor, k: int) { match twist(x, k) rewrite x }"
    assert check(parse_text(text), OPS, imports={"lib": lib}) == ()


def test_a_statement_that_does_not_parse_gives_no_second_problem() -> None:
    text = "const A = (1\npattern p(x = relu(x)\nrule r(x: Tensor, n: number) { match p(x) * A * n where n < A }\n"
    assert [problem.code for problem in problems_of(text)] == ["unbalanced", "unbalanced"]


def test_patterns_that_grow_beyond_reason() -> None:
    lines = ["pattern p0(x) = relu(x) + relu(x)"]
    lines += [f"pattern p{i}(x) = p{i - 1}(x) + p{i - 1}(x)" for i in range(1, 60)]
    codes = {problem.code for problem in problems_of("\n".join(lines))}
    assert codes == {"too-large"}


def test_problems_are_not_looked_for_without_end() -> None:
    text = "".join(f"rule r{i}(x: Tensor) {{ match rellu(x) rewrite y }}\n" for i in range(2000))
    file, problems = parse(Source("case", text))
    assert problems == ()
    assert len(check(file, OPS)) == MOST_PROBLEMS


@pytest.mark.parametrize(
    ("opener", "closer"),
    [
        ("f(", ")"),
        ("-", ""),
        ("x + ", ""),
        ("relu(", ")?"),
        ("(x or ", ")"),
        ("[", "]"),
        ("(", " as y)"),
        ("x if x else ", ""),
    ],
)
def test_the_deepest_nesting_is_checked_in_all_places(opener: str, closer: str) -> None:
    depth = 95 if closer == ")?" else 190  # a call and its `?` are two levels
    deep = opener * depth + "x" + closer * depth
    text = f"rule r(x: Tensor) {{ match {deep} where {deep} let n = {deep} rewrite {deep} numerics bitwise on {deep} }}"
    codes = [problem.code for problem in problems_of(f"const A = {deep}\npattern p(x) = {deep}\n{text}")]
    assert not {"syntax", "too-deep", "unbalanced"} & set(codes)


LONG = {
    "arguments": ", ".join(f"x{i}" for i in range(10_000)).join(["rule r(x: Tensor) { match cat([", "]) }"]),
    "alternatives": " or ".join(f"relu(x{i})" for i in range(5_000)).join(["rule r(x: Tensor) { match ", " }"]),
    "tags": ", ".join(f"t{i}" for i in range(20_000)).join(["rule r(x: Tensor) { match relu(x) tags ", " }"]),
    "lines": " ".join(f"a{i} = x" for i in range(5_000)).join(["rule r(x: Tensor) { match { ", " return x } }"]),
    "leaves": ", ".join(f"x{i}: Tensor" for i in range(5_000)).join(["rule r(", ") { match relu(x0) }"]),
    "lets": " ".join(f"let a{i} = 1" for i in range(5_000)).join(["rule r(x: Tensor) { match relu(x) ", " }"]),
    "rules": "\n".join(f"rule r{i}(x: Tensor) {{ match relu(x) }}" for i in range(1_000)),
}


@pytest.mark.parametrize("name", LONG)
def test_long_files_are_checked_to_the_end(name: str) -> None:
    codes = {problem.code for problem in problems_of(LONG[name])}
    expected = {"arguments": {"unbound"}, "alternatives": {"unbound"}, "tags": set(), "rules": set()}
    assert codes == expected.get(name, {"too-large"})
