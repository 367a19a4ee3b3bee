"""What the documentation shows is true: doctests, programs in Markdown with their output."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest
from documents import is_same_output, read_programs, run_programs

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("dsl", "engine", "rules")
MODULES = sorted(
    ".".join(("fxrules", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__")
    for package in PACKAGES
    for path in (ROOT / package).rglob("*.py")
)
DOCUMENTS = sorted(path for folder in ("", *PACKAGES, "examples") for path in (ROOT / folder).glob("*.md"))


@pytest.mark.parametrize("name", MODULES)
def test_doctests(name: str) -> None:
    results = doctest.testmod(importlib.import_module(name))
    assert results.failed == 0


def test_there_are_doctests() -> None:
    """A walk that found no examples would pass for ever."""
    finder = doctest.DocTestFinder()
    found = [test for name in MODULES for test in finder.find(importlib.import_module(name)) if test.examples]
    assert len(found) > 40


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_programs_in_documents_print_what_is_shown(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    problems = run_programs(read_programs(path))
    assert not problems, "\n".join(problems)


def test_a_wrong_output_is_found(tmp_path: Path) -> None:
    document = tmp_path / "page.md"
    document.write_text(
        "# Title\n\n```python\nx = 3\nprint(x)\n```\n\n```text\n3\n```\n\n"
        "```python\nprint(x + 1, '12.5 ms')\n```\nprints\n\n```text\n5 11.0 ms\n```\n\n"
        "<!-- not run -->\n```python\nraise SystemExit\n```\n\n```python\nprint('shown nowhere')\n```\n"
        "\n```console\n$ fxrules --version\nfxrules 9.9\n```\n"
    )
    programs = read_programs(document)
    assert [program.output for program in programs] == ["3\n", "5 11.0 ms\n", None, "fxrules 9.9\n"]
    assert [problem.split()[0] for problem in run_programs(programs)] == ["page.md:12", "page.md:30"]


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [
        ("fired 12", "fired 12", True),
        ("fired 12", "fired 11", False),
        ("took 3.1 ms", "took 14 ms", True),
        ("error 1.2e-07", "error 3.4e-08", True),
        ("error 0.2", "error 0.3", False),
        ("a ... z", "a b c z", True),
        ("a\n...\nz", "a\nz", True),
        ("a\n...\nz", "a\nb\ny", False),
        ("  ok   output  float32[4]  equal bits", "  ok   output  float32[4]  RMS error 1e-08 before", True),
        ("  ok   output  float32[4]  equal bits", "  FAIL output  float32[4]  RMS error 1e-08 before", False),
    ],
)
def test_only_times_and_rounding_errors_may_change(shown: str, printed: str, same: bool) -> None:
    assert is_same_output(shown, printed) is same
