"""By which names and with which arguments an op is called: operators, functions, methods, ATen overloads."""

from __future__ import annotations

import operator
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from attrs import evolve

from . import family_hints as hints
from . import family_spellings as odd
from .family_merging import Spelled, family_name, is_spread, union
from .family_sources import NAMESPACES, NO_DEFAULT, OPERATORS, Arg, Overload, indices_function, python_signature


def public_names(packet: str) -> list[str]:
    """The functions of torch's namespaces that a packet is called by."""
    found = []
    for home, namespace in NAMESPACES.items():
        prefix = {"torch.special": "special_", "torch.linalg": "linalg_", "torch.fft": "fft_"}.get(home, "")
        name = packet.removeprefix(prefix)
        if (
            packet.startswith(prefix)
            and callable(getattr(namespace, name, None))
            and not isinstance(getattr(namespace, name), type)
        ):
            found.append(f"{home}.{name}")
    return found


def with_numbers(one: Overload) -> tuple[Arg, ...]:
    """The arguments of an overload, with numbers where torch takes them for tensors."""
    if one.packet.rstrip("_") not in hints.TAKES_NUMBERS:
        return one.args
    return tuple(
        evolve(arg, kind="Tensor|Scalar") if arg.kind == "Tensor" and arg.name not in one.writes else arg
        for arg in one.args
    )


def spellings(name: str, members: Sequence[Overload]) -> list[Spelled]:
    """Every spelling by name: ``operator``, Python functions, builtins, methods, then ATen overloads."""
    found = [
        Spelled(f"operator.{op}", tuple(Arg(operand, "Tensor|Scalar") for operand in _operands(family)), name)
        for op, family in OPERATORS.items()
        if family == name and hasattr(operator, op)
    ]
    taken = (f"torch.nn.functional.{name}", *odd.TORCH_ONLY)
    for packet in dict.fromkeys(one.packet for one in members):
        own = [one for one in members if one.packet == packet]
        for target in sorted(public_names(packet), key=lambda text: not text.startswith("torch.nn.functional")):
            if target in odd.NOT_SPELLINGS or (name.endswith("_with_indices") and target in taken):
                continue
            home, _, short = target.rpartition(".")
            python = python_signature(getattr(NAMESPACES[home], short))
            if python is not None:
                found.append(Spelled(target, python, packet))
            else:
                found += _joined([_spelled(target, one, method=False) for one in own])
        if type(getattr(torch.Tensor, packet, None)).__name__ == "method_descriptor":
            named = [one for one in own if any(arg.name == "self" and arg.kind == "Tensor" for arg in one.args)]
            found += _joined([_spelled(f"Tensor.{packet}", one, method=True) for one in named])
    found += _from_functional(name, members)
    found += [Spelled(one.target, with_numbers(one), one.packet) for one in members]
    return found


def _from_functional(name: str, members: Sequence[Overload]) -> list[Spelled]:
    """The function of torch.nn.functional by the family's name, where no packet has that name."""
    target = f"torch.nn.functional.{name}"
    plain = name.removesuffix("_with_indices")
    if plain != name and indices_function(plain) is not None:
        python = python_signature(getattr(F, name)) or ()
        always = Spelled(target, python, name, fixed=(("return_indices", True),), ignored=("return_indices",))
        asked = Spelled(f"torch.nn.functional.{plain}", python, name, fixed=(("return_indices", True),))
        return [always, asked]
    function = getattr(F, name, None)
    if function is None or any(name == one.packet for one in members):
        return []
    signature = python_signature(function)
    if signature is not None:
        return [Spelled(target, signature, name)]
    return _joined([_spelled(target, one, method=False) for one in members])


def _joined(spellings: Sequence[Spelled]) -> list[Spelled]:
    """Overloads that differ in one argument's kind, as one spelling: ``torch.add`` takes a tensor or a number."""
    found: list[Spelled] = []
    for one in spellings:
        for at, known in enumerate(found):
            if _differ_in_one_kind(known, one):
                args = tuple(evolve(a, kind=union(a.kind, b.kind)) for a, b in zip(known.args, one.args, strict=True))
                found[at] = evolve(known, args=args)
                break
        else:
            found.append(one)
    return found


def _differ_in_one_kind(one: Spelled, other: Spelled) -> bool:
    def shape(spelled: Spelled) -> tuple[object, ...]:
        return tuple((family_name(spelled.packet, arg.name, spelled.target), str(arg.default)) for arg in spelled.args)

    if shape(one) != shape(other) or one.varargs != other.varargs:
        return False
    return sum(a.kind != b.kind for a, b in zip(one.args, other.args, strict=True)) == 1


def _operands(family: str) -> tuple[str, ...]:
    unary = ("neg", "bitwise_not", "abs", "positive")
    return ("input",) if family in unary else ("input", "exponent" if family == "pow" else "other")


def _spelled(target: str, one: Overload, method: bool) -> Spelled:
    args = with_numbers(one)
    if method:
        args = (Arg("self", "Tensor"), *(arg for arg in args if arg.name != "self"))
    elif any(arg.name == "device" for arg in args):
        args = (*args, Arg("requires_grad", "bool", False, keyword_only=True))
    if not method:
        args = tuple(_as_builtin(arg) for arg in args)
    if one.packet == "nonzero":
        args = (*args, Arg("as_tuple", "bool", False, keyword_only=True))
    return Spelled(target, args, one.packet, varargs=is_spread(args, method))


def _as_builtin(arg: Arg) -> Arg:
    """An argument as a builtin of torch has it. The builtins forget that a reduction is "mean" by default."""
    if arg.name == "reduction":
        return evolve(arg, default=NO_DEFAULT)
    return evolve(arg, name="input") if arg.name == "self" else arg
