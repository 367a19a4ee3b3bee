"""``fxrules run``: models, reports, comparisons, saved programs, and all that can be wrong with a model."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import torch
from commandline import GELU, PAIR, WRONG_GELU, fill, run_python, write

from fxrules.engine.tools.commands import main


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a module of models that no other test has loaded."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.delitem(sys.modules, "models_here", raising=False)
    return fill(tmp_path)


@pytest.mark.parametrize("model", ["models_here:make_net", "models_here.py:make_net"])
@pytest.mark.parametrize("capture", ["export", "trace"])
def test_run_reports_and_compares(model: str, capture: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", model, "--rules", "gelu.rules", "--capture", capture]) == 0
    out = capsys.readouterr().out
    assert "1 rewrite by 1 of 1 rules" in out and "gelu.gelu" in out
    assert "outputs: agree (rounding; 1 call)" in out


@pytest.mark.parametrize("model", ["models_here:make_bare", "models_here:ready", "models_here:Net"])
def test_run_without_example_inputs(model: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", model, "--rules", "gelu.rules", "--capture", "trace"]) == 0
    assert "outputs: not compared" in capsys.readouterr().out
    assert main(["run", model, "--rules", "gelu.rules"]) == 2
    assert "exporting Net needs example inputs: its forward takes (x)" in capsys.readouterr().err


def test_run_prints_json_and_nothing_else(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "models_here:make_net", "--rules", "gelu.rules", "--json"]) == 0
    out, error = capsys.readouterr()
    data = json.loads(out)
    assert (data["ok"], data["comparison"]["ok"], data["saved"]) == (True, True, None)
    assert [(rule["name"], rule["fired"]) for rule in data["report"]["rules"]] == [("gelu.gelu", 1)]
    assert "building" in error


def test_run_dry_shows_the_difference_and_saves_nothing(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["run", "models_here:make_net", "--rules", "gelu.rules", "--dry-run"]
    assert main(arguments) == 0
    lines = capsys.readouterr().out.splitlines()
    added = [line for line in lines if line.startswith("+ ")]
    removed = [line for line in lines if line.startswith("- ")]
    assert any("torch.ops.aten.gelu.default(linear, approximate = 'tanh')" in line for line in added)
    assert any("torch.ops.aten.tanh.default" in line for line in removed)
    assert not any("linear.default" in line for line in removed)
    assert main([*arguments, "-o", "out.pt2"]) == 2
    assert "--dry-run saves nothing" in capsys.readouterr().err
    assert not (folder / "out.pt2").exists()


def test_run_saves_a_program_and_reads_one(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "models_here:make_net", "--rules", "gelu.rules", "-o", "out.pt2"]) == 0
    assert "saved: out.pt2" in capsys.readouterr().out
    program = torch.export.load(folder / "out.pt2")
    targets = [str(node.target) for node in program.graph.nodes if node.op == "call_function"]
    assert targets == ["aten.linear.default", "aten.gelu.default"]
    assert main(["run", "out.pt2", "--rules", "gelu.rules"]) == 0
    out = capsys.readouterr().out
    assert "unchanged" in out and "outputs: agree" in out
    assert main(["run", "models_here:make_net", "--rules", "gelu.rules", "--capture", "trace", "-o", "two.pt2"]) == 0
    x = torch.ones(4, 8)
    assert torch.export.load(folder / "two.pt2").module()(x).shape == (4, 8)


def test_a_rule_that_changes_outputs_returns_1_and_is_not_saved(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(folder / "wrong.rules", WRONG_GELU)
    assert main(["run", "models_here:make_net", "--rules", "wrong.rules", "-o", "out.pt2"]) == 1
    out = capsys.readouterr().out
    assert "outputs: DIFFER (rounding; 1 call)" in out and "FAIL output" in out
    assert not (folder / "out.pt2").exists()


def test_the_numerics_policy_is_the_callers(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(folder / "lossy.rules", WRONG_GELU.replace("relu(x)\n", 'relu(x)\n  numerics differs "for the test"\n'))
    assert main(["run", "models_here:make_net", "--rules", "lossy.rules"]) == 0
    assert "refused" in capsys.readouterr().out
    assert main(["run", "models_here:make_net", "--rules", "lossy.rules", "--numerics", "differs"]) == 0
    assert "agree (differs; 1 call)" in capsys.readouterr().out


def test_helpers_are_imported_only_when_trusted(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(folder / "helper_here.py", "def one(x):\n    return 1\n")
    write(
        folder / "help.rules",
        "from helper_here import one\n" + GELU.replace("  rewrite", "  where    one(x) == 1\n  rewrite"),
    )
    arguments = ["run", "models_here:make_net", "--rules", "help.rules"]
    assert main(arguments) == 2
    assert "--trust helper_here" in capsys.readouterr().err and "helper_here" not in sys.modules
    assert main(["check", "help.rules"]) == 0
    assert "helper_here" not in sys.modules
    assert main([*arguments, "--trust", "helper_here"]) == 0
    assert "1 rewrite by 1 of 1 rules" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("model", "told"),
    [
        ("models_here:make_nte", "did you mean `make_net`"),
        ("model_here:make_net", "did you mean `models_here`"),
        ("models_heer.py:make_net", "did you mean `models_here.py`"),
        ("models_here", "neither module:factory nor a .pt2 file"),
        ("models_here:number", "is a int: a factory is a function"),
        ("models_here:make_failure", "ValueError: the weights are missing"),
        ("broken_here:make", "importing broken_here failed: ZeroDivisionError"),
        ("needs_here:make", "importing needs_here failed: ModuleNotFoundError: No module named 'not_installed_here'"),
        ("gelu.pt2", "gelu.pt2: no such file"),
        ("noise.pt2", "noise.pt2 cannot be loaded"),
        ("models_here:make_branch", "depends on values of tensors"),
    ],
)
def test_models_that_cannot_be_had(model: str, told: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(folder / "broken_here.py", "def make():\n    pass\n\n\n1 / 0\n")
    write(folder / "needs_here.py", "import not_installed_here\n")
    write(folder / "noise.pt2", "noise")
    assert main(["run", model, "--rules", "gelu.rules"]) == 2
    error = capsys.readouterr().err
    assert told in error
    assert "Traceback" not in error
    if "failure" in model or "broken" in model or "branch" in model:
        assert str(folder) in error and "^" in error


def test_a_library_that_does_not_exist(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "models_here:make_net", "--rules", "sdt"]) == 2
    assert "did you mean `std`?" in capsys.readouterr().err


def test_classes_of_a_saved_model_are_imported_by_name(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(folder / "pair_here.py", PAIR)
    assert main(["run", "pair_here:make", "--rules", "gelu.rules", "-o", "pair.pt2"]) == 0
    alone = run_python("", folder, "run", "pair.pt2", "--rules", "gelu.rules")
    assert alone.returncode == 2
    assert "pair.pt2 cannot be loaded: its inputs or outputs hold pair_here.Pair" in alone.stderr
    assert alone.stderr.endswith("import the module that registers it: --import pair_here\n")
    capsys.readouterr()
    assert main(["run", "pair.pt2", "--rules", "gelu.rules", "--import", "pair_here"]) == 0
    assert "outputs: agree" in capsys.readouterr().out
