"""Rule libraries that are installed: where their files are; needs no torch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path

from attrs import frozen

ENTRY_POINTS = "fxrules.libraries"


@frozen
class Library:
    """An installed library: its name, its files, and the package whose helpers it may use."""

    name: str
    root: Path
    files: tuple[Path, ...]
    package: str

    def part(self, path: Path) -> str:
        """The name under which a file's rules go: ``std.shape``."""
        return ".".join((self.name, *path.relative_to(self.root).with_suffix("").parts))


def installed_libraries() -> Mapping[str, Library]:
    """Libraries by name: those in ``fxrules/rules``, and packages with an entry point.

    A package offers a library with an entry point in the group ``fxrules.libraries``
    whose value is the package (``acme = "acme.rules"``) that holds the `.rules` files.

    >>> "std" in installed_libraries()
    True
    """
    home = Path(__file__).parent.parent / "rules"
    found = {path.name: _library(path.name, path, str(__package__).partition(".")[0]) for path in _folders(home)}
    for point in entry_points(group=ENTRY_POINTS):
        spec = find_spec(point.value)
        if spec and spec.submodule_search_locations:
            root = Path(next(iter(spec.submodule_search_locations)))
            found.setdefault(point.name, _library(point.name, root, point.value))
    return found


def _folders(home: Path) -> Iterable[Path]:
    return (path for path in sorted(home.iterdir()) if path.is_dir() and any(path.rglob("*.rules")))


def _library(name: str, root: Path, package: str) -> Library:
    return Library(name, root, tuple(sorted(root.rglob("*.rules"))), package)
