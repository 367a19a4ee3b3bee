"""The command line: what it prints, what it writes, what it returns."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from commandline import SOURCE, TIDY, UNTIDY, fill, run_python, write

from fxrules import __version__
from fxrules.engine.tools import commands
from fxrules.engine.tools.commands import main


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a module of models that no other test has loaded."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.delitem(sys.modules, "models_here", raising=False)
    monkeypatch.delitem(sys.modules, "patterns_here", raising=False)
    return fill(tmp_path)


# ------------------------------------------------------------------ general
def test_version_and_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"fxrules {__version__}\n"
    for command in ([], ["run"], ["check"], ["fmt"], ["infer"], ["list"]):
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


# -------------------------------------------------------------------- infer
FUNCTIONS = """
import math
import torch


def gelu(x):
    \"\"\"Tanh GELU.\"\"\"
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def fused(x):
    return torch.nn.functional.gelu(x, approximate="tanh")


def fused_twice(x, y):
    return fused(x) + y


number = 3
"""
INFERRED = """rule hand_gelu(x) {
  \"\"\"Tanh GELU.\"\"\"
  match    0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x ** 3)))
  rewrite  gelu(x, approximate="tanh")
  numerics rounding
}
"""


def test_infer_prints_or_writes_a_rule_that_checks_and_runs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(folder / "patterns_here.py", FUNCTIONS)
    functions = ["infer", "patterns_here:gelu", "patterns_here.py:fused"]
    assert main([*functions, "--name", "hand_gelu"]) == 0
    assert capsys.readouterr() == (INFERRED, "")
    assert main([*functions, "--name", "hand_gelu", "-o", "hand.rules"]) == 0
    assert capsys.readouterr().out == "hand.rules: written\n"
    assert (folder / "hand.rules").read_text() == INFERRED
    assert main(["check", "hand.rules"]) == main(["fmt", "--check", "hand.rules"]) == 0
    assert main(["run", "models_here:make_net", "--rules", "hand.rules"]) == 0
    assert "1 rewrite by 1 of 1 rules" in capsys.readouterr().out
    assert main(functions) == 0
    assert capsys.readouterr().out.startswith("rule gelu(x) {\n")


@pytest.mark.parametrize(
    ("functions", "message"),
    [
        (["patterns_here:gleu", "patterns_here:fused"], "did you mean `gelu`?"),
        (["patterns_here", "patterns_here:fused"], "`patterns_here` is not module:function"),
        (["patterns_here:number", "patterns_here:fused"], "patterns_here:number is 3 and no function"),
        (["no_module_here:f", "patterns_here:fused"], "there is no module `no_module_here`"),
        (["patterns_here:gelu", "patterns_here:fused_twice"], "takes `y`, which the pattern does not"),
        (["patterns_here:gelu", "patterns_here:fused", "-o", "no/folder.rules"], "no/folder.rules: No such file"),
    ],
)
def test_infer_says_what_is_wrong(
    functions: list[str], message: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(folder / "patterns_here.py", FUNCTIONS)
    assert main(["infer", *functions]) == 2
    assert message in capsys.readouterr().err
