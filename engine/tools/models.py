"""The model that MODEL on the command line stands for."""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from attrs import frozen
from torch.export import ExportedProgram

from ...dsl.nearest import did_you_mean
from ...dsl.source import FxrulesError, Problem
from ..obstacles import quiet_torch, user_place
from .rulefiles import missing_file

_UNREGISTERED = re.compile(r"Deserializing (?P<class>[\w.]+) in pytree is not registered")


@frozen
class Subject:
    """A model and the inputs it came with (None: none)."""

    model: torch.nn.Module | ExportedProgram
    inputs: Any


def load_model(spec: str, imports: Iterable[str] = ()) -> Subject:
    """The model behind ``module:factory``, ``path/to/file.py:factory`` or a ``.pt2`` file.

    A factory takes no arguments and returns a model, or a model and example inputs; a module
    attribute that is a model already is taken as it is. The current folder is searched for
    modules first. ``imports`` are imported before. Raises FxrulesError where something is missing
    or the user's code fails.
    """
    for name in imports:
        _import(name)
    if spec.endswith(".pt2"):
        return _load_program(Path(spec))
    place, colon, name = spec.rpartition(":")
    if not colon or not place or not name:
        message = f"`{spec}` is neither module:factory nor a .pt2 file"
        raise FxrulesError(Problem(None, "bad-model", message, "for example models:make_gpt2, or models.py:make_gpt2"))
    found = load_attribute(place, name)
    if isinstance(found, (torch.nn.Module, ExportedProgram)):
        return Subject(found, None)
    if not callable(found):
        message = f"{spec} is a {type(found).__name__}: a factory is a function that returns a model"
        raise FxrulesError(Problem(None, "bad-model", message))
    try:
        made = found()
    except Exception as error:
        message = f"{spec} failed: {type(error).__name__}: {error}"
        raise FxrulesError(Problem(user_place(error), "factory-failed", message)) from error
    return _subject(spec, made)


def load_attribute(place: str, name: str) -> Any:
    """What a module, or a file that ends in ``.py``, calls by a name; imports it. Raises FxrulesError."""
    module = _import_file(Path(place)) if place.endswith(".py") else _import(place)
    return _attribute(module, name)


def _subject(spec: str, made: Any) -> Subject:
    match made:
        case torch.nn.Module() | ExportedProgram():
            return Subject(made, None)
        case ((torch.nn.Module() | ExportedProgram()) as model, inputs):
            return Subject(model, inputs)
    message = f"{spec} returned a {type(made).__name__}: expected a model, or a model and its example inputs"
    raise FxrulesError(Problem(None, "bad-model", message))


def _load_program(path: Path) -> Subject:
    if not path.is_file():
        raise FxrulesError(missing_file(path, "*.pt2"))
    logged: list[str] = []
    try:
        with quiet_torch() as logged:
            program = torch.export.load(path)
    except Exception as error:
        raise FxrulesError(_failed_load(path, error, "\n".join(logged))) from error
    return Subject(program, program.example_inputs)


def _failed_load(path: Path, error: Exception, logged: str) -> Problem:
    """Why a ``.pt2`` file cannot be loaded; torch says in its log which class it misses."""
    if missing := _UNREGISTERED.search(logged):
        message = f"{path} cannot be loaded: its inputs or outputs hold {missing['class']}, a class not known here"
        home = missing["class"].rpartition(".")[0]
        return Problem(None, "bad-model", message, f"import the module that registers it: --import {home}")
    reason = next(iter(str(error).splitlines()), "")
    return Problem(None, "bad-model", f"{path} cannot be loaded: {type(error).__name__}: {reason}")


def _import(name: str) -> ModuleType:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and (name == error.name or name.startswith(error.name + ".")):
            hint = did_you_mean(name, [path.stem for path in Path.cwd().glob("*.py")])
            raise FxrulesError(Problem(None, "no-module", f"there is no module `{error.name}`", hint)) from error
        raise FxrulesError(_failed_import(name, error)) from error
    except Exception as error:
        raise FxrulesError(_failed_import(name, error)) from error


def _import_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise FxrulesError(missing_file(path, "*.py"))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None, "a file that ends in .py has a loader"
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # as an import would: dataclasses and pickles look a class up there
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[path.stem]
        raise FxrulesError(_failed_import(str(path), error)) from error
    return module


def _failed_import(name: str, error: Exception) -> Problem:
    return Problem(user_place(error), "import-failed", f"importing {name} failed: {type(error).__name__}: {error}")


def _attribute(module: ModuleType, name: str) -> Any:
    found: Any = module
    for part in name.split("."):
        if not hasattr(found, part):
            public = [known for known in dir(found) if not known.startswith("_")]
            message = f"`{module.__name__}` has no `{name}`"
            raise FxrulesError(Problem(None, "no-factory", message, did_you_mean(part, public)))
        found = getattr(found, part)
    return found
