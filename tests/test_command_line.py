"""The command line: what it prints, what it writes, what it returns."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from fxrules import __version__
from fxrules.engine.tools import commands
from fxrules.engine.tools.commands import main

SOURCE = Path(__file__).resolve().parent.parent / "src"
GELU = """rule gelu(x: float[...]) {
  match    0.5 * x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x ** 3)))
  rewrite  gelu(x, approximate="tanh")
}
"""
WRONG_GELU = GELU.replace('gelu(x, approximate="tanh")', "relu(x)")
UNTIDY = "rule r(x: Tensor) { match   (x+0)  rewrite x }"
TIDY = "rule r(x: Tensor) {\n  match    x + 0\n  rewrite  x\n}\n"
MODELS = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x):
        x = self.linear(x)
        return 0.5 * x * (1 + torch.tanh(0.7978845608028654 * (x + 0.044715 * x**3)))


class Branch(nn.Module):
    def forward(self, x):
        return x if x.sum() > 0 else -x


def make_net():
    print("building")
    return Net().eval(), (torch.randn(4, 8, generator=torch.Generator().manual_seed(0)),)


def make_bare():
    return Net().eval()


def make_branch():
    return Branch(), (torch.ones(3),)


def make_failure():
    raise ValueError("the weights are missing")


number = 3
ready = Net().eval()
"""

PAIR = """
from dataclasses import dataclass

import torch


@dataclass
class Pair:
    a: torch.Tensor
    b: torch.Tensor


torch.export.register_dataclass(Pair, serialized_type_name="pair_here.Pair")


class Net(torch.nn.Module):
    def forward(self, x):
        return Pair(x + 1, x * 2)


def make():
    return Net(), (torch.ones(2),)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current folder with a module of models that no other test has loaded."""
    (tmp_path / "models_here.py").write_text(MODELS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.delitem(sys.modules, "models_here", raising=False)
    (tmp_path / "gelu.rules").write_text(GELU)
    return tmp_path


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


# ------------------------------------------------------------------ general
def test_version_and_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"fxrules {__version__}\n"
    for command in ([], ["run"], ["check"], ["fmt"], ["list"]):
        assert main([*command, "--help"]) == 0
        assert "Usage: fxrules" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments", [["chekc"], ["check"], ["run"], ["run", "m:f", "--numerics", "sloppy"], ["fmt", "-x"]]
)
def test_wrong_usage_returns_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert "Usage: fxrules" in capsys.readouterr().err


def test_a_fault_of_ours_returns_3_and_says_so(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(path: Path) -> None:
        raise RuntimeError("a fault inside")

    monkeypatch.setattr(commands, "format_rules", fail)
    assert main(["fmt", "gelu.rules"]) == 3
    error = capsys.readouterr().err
    assert "RuntimeError: a fault inside" in error and "internal error" in error


def run_python(code: str, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *(["-c", code] if code else ["-m", "fxrules"]), *arguments]
    environment = {"PYTHONPATH": str(SOURCE), "PATH": "/usr/bin:/bin"}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_python_m_fxrules(folder: Path) -> None:
    done = run_python("", folder, "fmt", "--check", "gelu.rules")
    assert (done.returncode, done.stdout) == (0, "")


def test_checking_and_formatting_need_no_torch(folder: Path) -> None:
    code = (
        "import sys\nfrom fxrules.engine.tools.commands import main\n"
        "print(main(['check', 'gelu.rules']), main(['fmt', 'gelu.rules']), 'torch' in sys.modules)"
    )
    done = run_python(code, folder)
    assert done.stdout.splitlines()[-1] == "0 0 False", done.stderr


def test_output_cut_short_is_no_error(folder: Path) -> None:
    for number in range(3000):
        write(folder / "many" / f"{number}.rules", UNTIDY)
    command = f"{sys.executable} -m fxrules fmt --check many | head -1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        ["bash", "-c", command], cwd=folder, env={"PYTHONPATH": str(SOURCE), "PATH": "/usr/bin:/bin"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout.splitlines() == ["many/0.rules: would change", "1"]
    assert "Traceback" not in done.stderr


# ------------------------------------------------------------ check and fmt
def test_check_finds_every_problem_with_its_place(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(folder / "bad" / "one.rules", "rule a(x: Tensor) {\n  match    sofmax(x, dim=1)\n  rewrite  x\n}\n")
    write(folder / "bad" / "two.rules", "rule b(x: Tensor) {\n  match    x +\n  rewrite  x\n}\n")
    assert main(["check", "gelu.rules", "bad"]) == 1
    out, error = capsys.readouterr()
    assert "bad/one.rules:2:12: " in out and "did you mean `softmax`" in out and "^^^^^^" in out
    assert "bad/two.rules:2:14: " in out
    assert error == "3 files: 2 problems\n"
    assert main(["check", "gelu.rules"]) == 0
    assert capsys.readouterr() == ("", "1 file: no problems\n")


def test_check_follows_imports(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(folder / "shapes.rules", "pattern twice(x) = neg(neg(x))\n")
    rule = 'import "{}.rules" as s\nrule r(x: float[...]) {{ match s.{}(x) rewrite x changes aliasing, strides }}\n'
    write(folder / "good.rules", rule.format("shapes", "twice"))
    assert main(["check", "good.rules"]) == 0
    write(folder / "name.rules", rule.format("shapes", "twise"))
    write(folder / "file.rules", rule.format("shaeps", "twice"))
    capsys.readouterr()
    assert main(["check", "name.rules", "file.rules"]) == 1
    out = capsys.readouterr().out
    assert "name.rules:2:" in out and "twise" in out
    assert "file.rules:1:" in out and "did you mean `shapes.rules`?" in out


@pytest.mark.parametrize("command", ["check", "fmt"])
def test_files_that_cannot_be_read(command: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "gleu.rules"]) == 2
    assert "gleu.rules: no such file" in (error := capsys.readouterr().err) and "did you mean `gelu.rules`?" in error
    (folder / "empty").mkdir()
    assert main([command, "empty", "gelu.rules"]) == 2
    assert "empty: the folder has no .rules files" in capsys.readouterr().err
    (folder / "bytes.rules").write_bytes(b"rule \xff\xfe")
    assert main([command, "bytes.rules"]) == (1 if command == "check" else 2)
    assert "bytes.rules" in "".join(capsys.readouterr())


def test_fmt_writes_the_one_layout(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(folder / "a.rules", UNTIDY)
    assert main(["fmt", "--check", "a.rules", "gelu.rules"]) == 1
    assert capsys.readouterr() == ("a.rules: would change\n", "2 files, 1 would change\n")
    assert path.read_text() == UNTIDY
    assert main(["fmt", "a.rules", "gelu.rules"]) == 0
    assert capsys.readouterr() == ("a.rules: formatted\n", "2 files, 1 formatted\n")
    assert path.read_text() == TIDY
    assert main(["fmt", "--check", "."]) == 0


def test_fmt_leaves_a_file_with_errors_alone(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(folder / "a.rules", UNTIDY.replace("x+0", "x+"))
    good = write(folder / "b.rules", UNTIDY)
    before = path.read_text()
    assert main(["fmt", "a.rules", "b.rules"]) == 2
    assert "a.rules:1:" in capsys.readouterr().err
    assert (path.read_text(), good.read_text()) == (before, TIDY)


# --------------------------------------------------------------------- list
def test_list(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list"]) == 0
    assert any(line.split()[0] == "std" and int(line.split()[1]) >= 10 for line in capsys.readouterr().out.splitlines())
    assert main(["list", "std"]) == 0
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}
    assert "std.activation.gelu_tanh" in lines and "rounding" in lines["std.activation.gelu_tanh"]
    assert main(["list", "gelu.rules"]) == 0
    assert capsys.readouterr().out.split() == ["gelu.gelu", "rounding"]
    assert main(["list", "sdt"]) == 2
    assert "did you mean `std`?" in capsys.readouterr().err


# ---------------------------------------------------------------------- run
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
    assert alone.returncode == 2 and "--import the module" in alone.stderr
    capsys.readouterr()
    assert main(["run", "pair.pt2", "--rules", "gelu.rules", "--import", "pair_here"]) == 0
    assert "outputs: agree" in capsys.readouterr().out
