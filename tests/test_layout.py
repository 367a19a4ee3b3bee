"""The shape of the repository: what may import what, how long a file may be, what a wheel holds."""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
import zipfile
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("dsl", "engine", "rules")
LAYERS = ("dsl", "engine", "engine.tools")  # each may import itself and those before it
LONGEST_FILE = 320
LONGER_FILES = {"dsl/ast.py": 600}  # one flat list of data classes, which reads best in one piece
LONGEST_FUNCTION = 60


@cache
def tracked() -> tuple[str, ...]:
    """The files of the working tree that git would commit, as paths from the root."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listing = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return tuple(name for name in listing.splitlines() if (ROOT / name).is_file())


def python_files(*folders: str) -> list[Path]:
    return [Path(name) for name in tracked() if name.endswith(".py") and name.startswith(folders)]


def module_name(path: Path) -> str:
    return ".".join(path.with_suffix("").parts).removesuffix(".__init__")


def imported_modules(path: Path) -> set[str]:
    """What a file imports, wherever in the file; relative names are made absolute (``dsl.ast``)."""
    package = path.parent.parts
    names: set[str] = set()
    for node in ast.walk(ast.parse((ROOT / path).read_text())):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join([*base, node.module or ""]).strip(".")
            submodules = {f"{module}.{alias.name}".strip(".") for alias in node.names}
            known = {name for name in submodules if name in module_names()}
            names.update(known if known == submodules else known | {module})
    return names


@cache
def module_names() -> frozenset[str]:
    return frozenset(module_name(path) for path in python_files("dsl/", "engine/", "rules/"))


@cache
def imports() -> dict[str, set[str]]:
    return {module_name(path): imported_modules(path) for path in python_files("dsl/", "engine/")}


def layer(module: str) -> int:
    return max(i for i, name in enumerate(LAYERS) if f"{module}.".startswith(f"{name}."))


def test_imports_point_only_downwards() -> None:
    upward = [
        f"{module} imports {target}"
        for module, targets in imports().items()
        for target in targets
        if target.startswith(("dsl", "engine")) and layer(target) > layer(module)
    ]
    assert upward == []


def test_no_modules_import_each_other_in_a_ring() -> None:
    done: set[str] = set()

    def visit(module: str, path: tuple[str, ...]) -> None:
        assert module not in path, " -> ".join([*path[path.index(module) :], module])
        if module not in done:
            for target in imports().get(module, ()):
                visit(target, (*path, module))
            done.add(module)

    for module in imports():
        visit(module, ())


def test_packages_import_each_other_only_relatively() -> None:
    """``import engine`` would load every class a second time, under another name."""
    absolute = [
        f"{path}: {name}"
        for path in python_files("dsl/", "engine/", "rules/", "src/")
        for node in ast.walk(ast.parse((ROOT / path).read_text()))
        for name in absolute_names(node)
        if name.split(".")[0] in ("fxrules", *PACKAGES)
    ]
    assert absolute == []


def absolute_names(node: ast.AST) -> list[str]:
    match node:
        case ast.Import():
            return [alias.name for alias in node.names]
        case ast.ImportFrom(level=0, module=str(module)):
            return [module]
    return []


def test_the_language_needs_no_torch() -> None:
    torch_users = {module for module, targets in imports().items() if any(t.split(".")[0] == "torch" for t in targets)}
    assert not {module for module in torch_users if module.startswith("dsl")}
    code = "import fxrules, sys, fxrules.dsl.source, fxrules.__main__; print('torch' in sys.modules)"
    assert run_python(code, cwd=ROOT / "src") == "False"


@pytest.mark.parametrize("path", python_files("dsl/", "engine/", "rules/", "src/", "tests/", "examples/"), ids=str)
def test_files_and_functions_stay_short(path: Path) -> None:
    text = (ROOT / path).read_text()
    assert text.count("\n") <= LONGER_FILES.get(str(path), LONGEST_FILE)
    long = [
        f"{node.name}: {node.end_lineno - node.lineno + 1} lines"
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef) and node.end_lineno and node.end_lineno - node.lineno >= LONGEST_FUNCTION
    ]
    assert long == []


def run_python(code: str, cwd: Path) -> str:
    return subprocess.run(
        [sys.executable, "-c", code], cwd=cwd, check=True, capture_output=True, text=True
    ).stdout.strip()


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """A wheel built from a copy of the tracked files, so that no left-over of an earlier build gets into it."""
    copy, out = tmp_path_factory.mktemp("copy"), tmp_path_factory.mktemp("wheel")
    for name in tracked():
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, copy / name)
    for package in PACKAGES:
        (copy / "src" / "fxrules" / package).symlink_to(Path("..", "..", package))
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "-q",
        "--no-deps",
        "--no-build-isolation",
        "-w",
        str(out),
        str(copy),
    ]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    (path,) = out.glob("*.whl")
    return zipfile.ZipFile(path)


def test_the_wheel_holds_what_git_tracks(wheel: zipfile.ZipFile) -> None:
    """A pattern such as ``"*.rules"`` without ``**/`` drops files in sub-folders without a word."""
    shipped = {name for name in wheel.namelist() if ".dist-info/" not in name}
    wanted = {
        f"fxrules/{name}" for name in tracked() if name.split("/")[0] in PACKAGES and not name.endswith("README.md")
    }
    wanted |= {name.removeprefix("src/") for name in tracked() if name.startswith("src/")}
    assert shipped == wanted


def test_the_wheel_installs_one_top_level_name_and_the_licence(wheel: zipfile.ZipFile) -> None:
    """PyPI has a popular package called ``rules``: one of that name from here would be overwritten, or overwrite it."""
    assert {name.split("/")[0] for name in wheel.namelist() if ".dist-info/" not in name} == {"fxrules"}
    assert any(name.endswith("licenses/LICENSE") for name in wheel.namelist())


def test_an_unpacked_wheel_runs_without_the_repository(wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    wheel.extractall(tmp_path)
    where = run_python("import fxrules.dsl.source as s, fxrules.__main__; print(s.__file__)", cwd=tmp_path)
    assert Path(where) == tmp_path / "fxrules" / "dsl" / "source.py"


def test_links_lead_to_the_packages() -> None:
    for package in PACKAGES:
        assert (ROOT / "src" / "fxrules" / package).resolve() == ROOT / package


def test_the_map_of_the_engine_names_every_module() -> None:
    text = (ROOT / "engine" / "README.md").read_text()
    modules = [
        path.stem for path in python_files("engine/") if path.parent == Path("engine") and path.stem != "__init__"
    ]
    assert len(modules) > 50
    assert [name for name in modules if f"`{name}`" not in text] == []
