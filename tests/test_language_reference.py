"""The language reference is true: its rules parse and check, and it names every word and every code."""

from __future__ import annotations

import ast
import re
from itertools import chain
from pathlib import Path

import pytest
from stub_ops import IMPORTS, OPS

import fxrules.dsl
from fxrules.dsl import vocabulary
from fxrules.dsl.checker import check
from fxrules.dsl.formatter import format_file
from fxrules.dsl.parser import parse, parse_text
from fxrules.dsl.pieces import CLAUSE_WORDS, STATEMENT_WORDS, STEP_WORDS
from fxrules.dsl.source import Source

FOLDER = Path(fxrules.dsl.__file__).parent
REFERENCE = (FOLDER / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```rules\n(.*?)```", REFERENCE, re.DOTALL)


@pytest.mark.parametrize("text", BLOCKS, ids=[block.split("(")[0].split("\n")[-1].strip() for block in BLOCKS])
def test_a_rule_of_the_reference_is_right(text: str) -> None:
    file, problems = parse(Source("README.md", text))
    assert problems == ()
    assert check(file, OPS, imports=IMPORTS) == ()
    assert parse_text(format_file(file)) == file


def test_there_are_rules_in_the_reference() -> None:
    assert len(BLOCKS) >= 9


WORDS = {
    "functions": vocabulary.VOCABULARY,
    "value types": vocabulary.VALUE_TYPES,
    "dtypes": vocabulary.DTYPES,
    "dtype sets": ("float", "int", "complex", "bool"),
    "formats": vocabulary.FORMATS,
    "levels": vocabulary.NUMERIC_LEVELS,
    "waivers": vocabulary.WAIVERS,
    "changes": vocabulary.CHANGES,
    "effects": vocabulary.EFFECTS,
    "requirements": vocabulary.REQUIREMENTS,
    "clauses": CLAUSE_WORDS,
    "statements": STATEMENT_WORDS,
    "steps": STEP_WORDS,
    "conditions of steps": (*vocabulary.SITUATION, *chain(*vocabulary.SITUATION.values())),
}


@pytest.mark.parametrize("kind", WORDS)
def test_every_word_is_in_the_reference(kind: str) -> None:
    missing = [word for word in WORDS[kind] if not re.search(rf"`[^`\n]*\b{word}\b[^`\n]*`", REFERENCE)]
    assert missing == []


def test_every_fact_is_in_the_reference() -> None:
    assert [fact for fact in vocabulary.FACTS if f"`.{fact}`" not in REFERENCE] == []


def test_the_reference_lists_exactly_the_codes_that_exist() -> None:
    section = REFERENCE[REFERENCE.index("## Problems") : REFERENCE.index("## From Python")]
    listed = set(re.findall(r"`([a-z0-9]+(?:-[a-z0-9]+)*)`(?= |\n)", "\n".join(_rows(section))))
    assert listed == _codes()


def _rows(section: str) -> list[str]:
    return [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]


def _codes() -> set[str]:
    """The codes that the modules of the language give to problems."""
    found = {"unknown-statement", "unknown-clause", "unknown-step"}  # made from the kind of word
    for path in FOLDER.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and _is_code(node.value):
                found.add(node.value)
    return found


def _is_code(text: str) -> bool:
    words = "bad unknown duplicate misplaced recursive not too needs open possibly compares use result missing argument"
    one_word = {"syntax", "unbalanced", "unbound", "unused", "arity", "repeated", "misplaced", "unreadable"}
    return text in one_word | {"outside-rule", "empty-file"} or bool(
        re.fullmatch(rf"(?:{'|'.join(words.split())})-[a-z0-9-]+", text)
    )
