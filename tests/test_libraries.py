"""Loading: files, folders, texts, installed libraries, imports and trust."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import fxrules
from fxrules.engine.installed import installed_libraries

RULE = 'rule {name}(x: float[...]) {{ match relu(x) rewrite silu(x) numerics differs "another" }}\n'


def _write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_a_file_gives_its_stem_as_the_library_name(tmp_path: Path) -> None:
    path = _write(tmp_path, "acts.rules", RULE.format(name="swap"))
    assert [rule.name for rule in fxrules.load(path)] == ["acts.swap"]
    assert [rule.name for rule in fxrules.load(str(path))] == ["acts.swap"]


def test_a_folder_gives_all_its_files_in_order(tmp_path: Path) -> None:
    _write(tmp_path, "b.rules", RULE.format(name="two"))
    _write(tmp_path, "deep/a.rules", RULE.format(name="three"))
    _write(tmp_path, "a.rules", RULE.format(name="one"))
    assert [rule.name for rule in fxrules.load(tmp_path)] == ["a.one", "b.two", "deep.a.three"]


def test_std_loads_by_name_and_in_parts() -> None:
    rules = fxrules.load("std")
    assert "std" in installed_libraries()
    assert {"std.activation.gelu_tanh", "std.attention.sdpa"} <= {rule.name for rule in rules}
    part = fxrules.load("std.attention")
    assert part and all(rule.name.startswith("std.attention.") for rule in part)
    assert [rule.name for rule in rules["attention.*"]] == [rule.name for rule in part]


def test_several_sources_add_up(tmp_path: Path) -> None:
    path = _write(tmp_path, "acts.rules", RULE.format(name="swap"))
    rules = fxrules.load("std", path, text=RULE.format(name="inline"))
    assert [rule.name for rule in rules][-2:] == ["acts.swap", "text.inline"]
    assert len(rules) == len(fxrules.load("std")) + 2


def test_missing_things_are_named(tmp_path: Path) -> None:
    with pytest.raises(fxrules.FxrulesError, match=r"`sdt`: no such rule library"):
        fxrules.load("sdt")
    with pytest.raises(fxrules.FxrulesError, match=r"`std.atention`.*\n.*did you mean `std.attention`"):
        fxrules.load("std.atention")
    with pytest.raises(fxrules.FxrulesError, match=r"nowhere\.rules"):
        fxrules.load(tmp_path / "nowhere.rules")
    with pytest.raises(fxrules.FxrulesError, match=r"has no \.rules files"):
        fxrules.load(tmp_path)


def test_imported_patterns_keep_the_constants_of_their_file(tmp_path: Path) -> None:
    _write(tmp_path, "lib/shapes.rules", "const HALF = 1 / 2\npattern halved(x) = x * HALF\n")
    text = """
import "lib/shapes.rules" as shapes
const HALF = 3
rule half(x: float[...]) { match shapes.halved(x) rewrite x / 2 }
"""
    path = _write(tmp_path, "main.rules", text)
    import torch

    class Net(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * 0.5 + x * 3

    result = fxrules.rewrite(Net(), fxrules.load(path), (torch.ones(4),))
    assert dict(result.report.fired) == {"main.half": 1}


def test_import_cycles_are_named(tmp_path: Path) -> None:
    _write(tmp_path, "a.rules", 'import "b.rules" as b\n')
    _write(tmp_path, "b.rules", 'import "c.rules" as c\n')
    _write(tmp_path, "c.rules", 'import "a.rules" as a\n')
    with pytest.raises(fxrules.FxrulesError, match=r"a.rules -> b.rules -> c.rules -> a.rules") as caught:
        fxrules.load(tmp_path / "a.rules")
    assert caught.value.problems[0].code == "import-cycle"


HELPED = """
from trusted_helpers import twice
rule doubled(x: float[...], a: number) { match x * a let b = twice(a) rewrite x * b numerics differs "doubles" }
"""


def test_helpers_load_only_from_trusted_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _write(tmp_path, "trusted_helpers.py", "def twice(a):\n    return 2 * a\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(fxrules.FxrulesError, match=r"`trusted_helpers`, which is not trusted") as caught:
        fxrules.load(text=HELPED)
    assert "trusted_helpers" not in sys.modules, "an untrusted module must not even be imported"
    assert str(caught.value).startswith("<text>:2:")
    rules = fxrules.load(text=HELPED, trust=["trusted_helpers"])
    assert rules[0].scope.helpers["twice"](3) == 6
    sys.modules.pop("trusted_helpers")


def test_unknown_helpers_are_named_with_the_nearest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _write(tmp_path, "other_helpers.py", "def twice(a):\n    return 2 * a\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    text = HELPED.replace("trusted_helpers", "other_helpers").replace("twice", "twise")
    with pytest.raises(fxrules.FxrulesError, match=r"no function `twise`.*\n?(.*\n)*.*`twice`"):
        fxrules.load(text=text, trust=["other_helpers"])


def test_a_rule_that_this_version_cannot_run_is_refused_when_loaded() -> None:
    text = "rule r(x: float[...]) { match torch.relu(x, **cfg) rewrite torch.relu(x, **cfg) }"
    with pytest.raises(fxrules.FxrulesError, match="an exact target or a module is not supported") as caught:
        fxrules.load(text=text)
    assert caught.value.problems[0].span is not None


def test_templates_become_one_rule_for_each_member() -> None:
    text = """
opset pointwise = relu, tanh
rule twice[f in pointwise](x: float[...]) { match f(f(x)) rewrite f(x) numerics differs "only relu is idempotent" }
"""
    assert [rule.name for rule in fxrules.load(text=text)] == ["text.twice[relu]", "text.twice[tanh]"]
