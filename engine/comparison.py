"""Whether two models compute the same: interface, values under a numeric contract, what they write.

The `rounding` contract does not ask how far two results lie apart. It measures both against the
original in float64: the new one may err about as much as the old one did.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from attrs import frozen
from torch.export import ExportedProgram

from ..dsl.ast import Numerics
from ..dsl.source import FxrulesError, Problem
from .contracts import describe, read_contract
from .errors import Errors, Verdict, judge, measure, pool
from .execution import Observation, observe, same_bits
from .inputs import Call, read_calls
from .interface import interface_problems, opaque_outputs, read_changes
from .precision import observe_in_float64


@frozen
class OutputComparison:
    """One output, pooled over all calls: its verdict, and the errors it rests on (None: nothing to measure)."""

    name: str
    what: str
    verdict: Verdict
    errors: Errors | None = None

    def __str__(self) -> str:
        mark = "ok  " if self.verdict.ok else "FAIL"
        return f"{mark} {self.name}  {self.what}  {self.verdict.text}"


@frozen
class Comparison:
    """The result of `compare`; true where the contract holds.

    ``problems`` are differences of the interface (dtype, shape, strides, device, structure,
    memory newly shared), ``notes`` what the verdict rests on, ``suspects`` what was logged.
    """

    contract: Numerics
    calls: int
    outputs: tuple[OutputComparison, ...]
    problems: tuple[str, ...]
    notes: tuple[str, ...] = ()
    suspects: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether the interface agrees and every output holds the contract."""
        return not self.problems and all(output.verdict.ok for output in self.outputs)

    @property
    def worst(self) -> float:
        """The largest difference between an element before and after."""
        return max((output.errors.difference.largest for output in self.outputs if output.errors), default=0.0)

    @property
    def text(self) -> str:
        """The verdict, one line for each output and problem."""
        calls = "1 call" if self.calls == 1 else f"{self.calls} calls"
        head = f"{'agree' if self.ok else 'DIFFER'} ({describe(self.contract)}; {calls})"
        lines = [head, *(f"  FAIL {problem}" for problem in self.problems), *(f"  {one}" for one in self.outputs)]
        lines += [f"  note: {note}" for note in self.notes]
        if self.suspects and not self.ok:
            lines.append(f"  rewritten by: {', '.join(self.suspects)}")
        return "\n".join(lines)

    def __bool__(self) -> bool:
        return self.ok

    def __str__(self) -> str:
        return self.text

    def to_dict(self) -> dict[str, Any]:
        """The same as plain data, for JSON."""
        return {
            "ok": self.ok,
            "contract": self.contract.level,
            "calls": self.calls,
            "worst": self.worst,
            "problems": list(self.problems),
            "notes": list(self.notes),
            "outputs": [
                {
                    "name": output.name,
                    "ok": output.verdict.ok,
                    "verdict": output.verdict.text,
                    **(output.errors.to_dict() if output.errors else {}),
                }
                for output in self.outputs
            ],
        }


def compare(
    before: torch.nn.Module | ExportedProgram,
    after: torch.nn.Module | ExportedProgram,
    inputs: Any,
    *,
    contract: str | Numerics = "rounding",
    log: Iterable[object] | None = None,
    changes: Iterable[str] = (),
) -> Comparison:
    """Run both models on the same inputs and hold ``after`` to ``contract``.

    ``inputs`` is a tensor, a tuple of arguments, a dict of keyword arguments, ``(args, kwargs)``, or
    a list of those. Under every contract the structure of the outputs, their dtypes, shapes,
    devices and strides (sizes of 1 do not count), what is written to inputs and buffers, and
    which outputs share memory must agree; ``changes`` names the exceptions among ``strides``,
    ``dtype``, ``device``, ``shape`` and ``aliasing``. Both models draw the same random numbers and
    are left as they were. ``log`` holds what was done to the model; a failure names it.

    ``bitwise`` asks for equal bits. ``rounding`` measures both against the original in float64:
    RMS_new <= slack (2) * RMS_old + 1/2 ulp * RMS(oracle), pooled over all calls per output, and
    the largest error within eight times that; where there is no such run (random numbers,
    float64 outputs, an op without a float64 form) the two are compared directly and the verdict
    says so. ``approx`` takes ``rtol`` and ``atol``, ``differs`` compares only the interface.

    Raises `FxrulesError` for an unknown contract and where ``before`` does not run.

    >>> old, x = torch.nn.Softplus(), torch.linspace(-3, 3, 64)
    >>> bool(compare(old, torch.nn.Softplus(), x)), bool(compare(old, torch.nn.ReLU(), x))
    (True, False)
    """
    contract, allowed = read_contract(contract), read_changes(changes)
    old, new = _module(before), _module(after)
    calls = read_calls(inputs)
    pairs, problems = _observe_both(old, new, calls)
    for pair in pairs:
        problems += interface_problems(pair.before, pair.after, allowed)
    notes = [note for pair in pairs for note in opaque_outputs(pair.before)]
    suspects = _once(str(entry) for entry in log or ())
    if contract.level == "differs":
        notes.append("only the interface was compared")
        return Comparison(contract, len(calls), (), _once(problems), _once(notes), suspects)
    found = [_find_oracle(old, pair, contract) for pair in pairs]
    notes += [why for _, why in found if why]
    outputs = _compare_outputs(pairs, [oracle for oracle, _ in found], contract, _coarsest(old, calls))
    return Comparison(contract, len(calls), outputs, _once(problems), _once(notes), suspects)


@frozen
class _Pair:
    """One call of both models; ``number`` is the seed of its random numbers."""

    number: int
    call: Call
    before: Observation
    after: Observation

    def tensors(self) -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
        """The tensors that both runs gave under one name, where their elements can be compared."""
        old, new = self.before.values(), self.after.values()
        return {name: (old[name], new[name]) for name in old if name in new and _comparable(old[name], new[name])}


def _comparable(old: Any, new: Any) -> bool:
    if not (isinstance(old, torch.Tensor) and isinstance(new, torch.Tensor)) or old.shape != new.shape:
        return False
    return old.is_floating_point() == new.is_floating_point() and old.is_complex() == new.is_complex()


def _observe_both(old: torch.nn.Module, new: torch.nn.Module, calls: tuple[Call, ...]) -> tuple[list[_Pair], list[str]]:
    """Both runs of every call, and a problem for each call that only ``new`` does not survive."""
    pairs, problems = [], []
    for number, call in enumerate(calls):
        try:
            before = observe(old, call, seed=number)
        except Exception as error:
            message = f"the original model does not run on these inputs: {type(error).__name__}: {error}"
            raise FxrulesError(Problem(None, "wrong-inputs", message)) from error
        try:
            pairs.append(_Pair(number, call, before, observe(new, call, seed=number)))
        except Exception as error:
            problems.append(f"the new model raises {type(error).__name__}: {_first_line(error)}")
    return pairs, problems


def _find_oracle(old: torch.nn.Module, pair: _Pair, contract: Numerics) -> tuple[Observation | None, str]:
    """A float64 run of the original where the contract needs one, or why there is none."""
    unequal = [old for old, new in pair.tensors().values() if not same_bits(old, new)]
    if contract.level != "rounding" or all(old.dtype in (torch.float64, torch.complex128) for old in unequal):
        return None, ""
    if pair.before.drew_random_numbers:
        return None, "the model draws random numbers, so there is no float64 oracle; the seeds were the same"
    try:
        return observe_in_float64(old, pair.call, seed=pair.number), ""
    except Exception as error:
        return None, f"the original does not run in float64 ({type(error).__name__}: {_first_line(error)})"


def _compare_outputs(
    pairs: list[_Pair], oracles: list[Observation | None], contract: Numerics, coarsest: torch.dtype | None
) -> tuple[OutputComparison, ...]:
    errors: dict[str, list[Errors]] = {}
    looks: dict[str, str] = {}
    for pair, oracle in zip(pairs, oracles, strict=True):
        exact = oracle.values() if oracle else {}
        for name, (old, new) in pair.tensors().items():
            errors.setdefault(name, []).append(measure(old, new, exact.get(name), contract))
            looks.setdefault(name, f"{str(old.dtype).removeprefix('torch.')}{list(old.shape)}")
    pooled = {name: pool(each) for name, each in errors.items()}
    return tuple(
        OutputComparison(name, looks[name], judge(one, contract, coarsest), one) for name, one in pooled.items()
    )


def _coarsest(model: torch.nn.Module, calls: tuple[Call, ...]) -> torch.dtype | None:
    """The least precise float dtype of the model's parameters, buffers and inputs; None if there is no float."""
    inputs = (leaf for call in calls for _, leaf in call.leaves())
    values = (*model.parameters(), *model.buffers(), *inputs)
    dtypes = {value.dtype for value in values if isinstance(value, torch.Tensor) and value.is_floating_point()}
    return max(dtypes, key=lambda dtype: torch.finfo(dtype).eps, default=None)


def _module(model: torch.nn.Module | ExportedProgram) -> torch.nn.Module:
    if isinstance(model, ExportedProgram):
        return model.module()
    if isinstance(model, torch.nn.Module):
        return model
    message = f"compare takes an nn.Module, a GraphModule or an ExportedProgram, not {type(model).__name__}"
    raise FxrulesError(Problem(None, "not-a-model", message))


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), "")


def _once(items: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(items))
