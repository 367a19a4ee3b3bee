"""Write ``engine/families.json`` from torch's schemas, namespaces and modules.

Run ``python -m fxrules.engine.tools.generate_families`` after a change of torch or
of the hints; ``--check`` only says whether the committed file is what would be written.
"""

from __future__ import annotations

import json
import operator
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from attrs import evolve

from . import family_hints as hints
from . import family_spellings as odd
from .family_merging import Spelled, family_name, form_texts, is_spread, merged, param_text, shape_of, union
from .family_modules import module_spellings
from .family_sources import (
    NAMESPACES,
    NO_DEFAULT,
    OPERATORS,
    Arg,
    Overload,
    annotated_signature,
    documented_aliases,
    indices_function,
    overloads,
    python_signature,
)

TABLE = Path(__file__).parent.parent / "families.json"


def build() -> dict[str, Any]:
    """The whole table, as the file has it."""
    ops = overloads()
    aliases = {name: base for name, base in documented_aliases(set(ops)).items() if name not in hints.NOT_ALIASES}
    aliases |= hints.ALIASES
    aliases |= {f"{name}_": f"{base}_" for name, base in aliases.items() if f"{name}_" in ops and f"{base}_" in ops}
    groups: dict[str, list[Overload]] = {}
    for packet, found in ops.items():
        if _is_wanted(packet):
            for one in found:
                name = hints.ELSEWHERE.get(f"{packet}.{one.name}") or _resolved(packet, aliases)
                if not one.mutates or packet.endswith("_"):
                    groups.setdefault(name, []).append(one)
    families = {name: entry for name in sorted(groups) if (entry := _family(name, groups[name])) is not None}
    for name in sorted(odd.SPELLINGS.keys() - families.keys()):
        families[name] = {"params": list(hints.PARAMS[name]), "forms": [list(form) for form in odd.SPELLINGS[name]]}
    for target, effect in odd.TORCH_ONLY.items():
        name = target.rpartition(".")[2]
        families[name] = _torch_only(name, target, effect)
    families = {name: families[name] for name in sorted(families)}
    known = {name: base for name, base in sorted(aliases.items()) if base in families and name not in families}
    return {"torch": torch.__version__.partition("+")[0], "aliases": known, "families": families}


def _resolved(name: str, aliases: Mapping[str, str]) -> str:
    while name in aliases and aliases[name] != name:
        name = aliases[name]
    return name


def _is_wanted(packet: str) -> bool:
    if packet in hints.INTERNAL or packet in hints.ALIASES or packet.startswith("_to_copy"):
        return True
    if packet.startswith("_") or "backward" in packet:
        return False
    return bool(_public_names(packet)) or hasattr(torch.Tensor, packet)


def _public_names(packet: str) -> list[str]:
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


def _family(name: str, members: Sequence[Overload]) -> dict[str, Any] | None:
    members = sorted(members, key=lambda one: one.packet != name)
    python = python_signature(getattr(NAMESPACES["torch.nn.functional"], name, None))
    if name in hints.PARAMS:
        texts = list(hints.PARAMS[name])
    else:
        params = merged(name, [(one.packet, _with_numbers(one)) for one in members], python)
        texts = _param_texts(name, params)
    by_name = {text.partition(": ")[0]: text for text in texts if text != "*"}
    forms: list[list[str]] = []
    by_hand = {form[0] for form in odd.SPELLINGS.get(name, ())}
    for spelled in _spellings(name, members):
        form = form_texts(name, spelled, by_name)
        if form is not None and form not in forms and form[0] not in by_hand:
            forms.append(form)
    forms += [list(form) for form in odd.SPELLINGS.get(name, ())]
    forms += module_spellings(name)
    if not forms:
        return None
    entry: dict[str, Any] = {"params": texts, "forms": _without_repeats(forms)}
    if name in hints.COMMUTATIVE:
        entry["commutative"] = True
    effect, pure_when = hints.EFFECTS.get(name, (_effect(members), []))
    if effect != "pure":
        entry["effect"] = effect
    if pure_when:
        entry["pure_when"] = pure_when
    if (shape := shape_of(members)) != "tensor":
        entry["result"] = shape
    return entry


def _torch_only(name: str, target: str, effect: str) -> dict[str, Any]:
    """A family of one Python function."""
    home, _, short = target.rpartition(".")
    own = annotated_signature(getattr(NAMESPACES[home], short))
    texts = list(hints.PARAMS.get(name, ())) or _param_texts(name, [arg for arg in own if not _is_fixed(name, arg.name)])
    by_name = {text.partition(": ")[0]: text for text in texts if text != "*"}
    ignored = ("return_indices",) if name.endswith("_with_indices") else ()
    form = form_texts(name, Spelled(target, tuple(evolve(arg, kind="") for arg in own), name, ignored=ignored), by_name)
    assert form is not None, target
    entry: dict[str, Any] = {"params": texts, "forms": [form, *module_spellings(name)]}
    if effect != "pure":
        entry["effect"] = effect
    if name in hints.EFFECTS:
        entry["pure_when"] = hints.EFFECTS[name][1]
    return entry


def _is_fixed(family: str, name: str) -> bool:
    ignored = name in hints.IGNORED and family not in hints.HEEDED
    return ignored or name in hints.FIXED or name in hints.FIXED_IN.get(family, {})


def _effect(members: Sequence[Overload]) -> str:
    if any(one.mutates for one in members):
        return "mutates"
    return "random" if any(one.random for one in members) else "pure"


def _with_numbers(one: Overload) -> tuple[Arg, ...]:
    """The arguments of an overload, with numbers where torch takes them for tensors."""
    if one.packet.rstrip("_") not in hints.TAKES_NUMBERS:
        return one.args
    return tuple(evolve(arg, kind="Tensor|Scalar") if arg.kind == "Tensor" else arg for arg in one.args)


def _param_texts(name: str, params: Sequence[Arg]) -> list[str]:
    texts, starred = [], False
    for arg in params:
        if arg.keyword_only and not starred:
            texts.append("*")
            starred = True
        like = hints.LIKE.get(name, {}).get(arg.name)
        if like:
            arg = evolve(arg, kind=f"{arg.kind.rstrip('?')}? like {like}", default=None)
        if name in hints.EXTRA_DIM and arg.kind.startswith("dim"):
            arg = evolve(arg, kind=arg.kind.replace("dim", "dim+1"))
        texts.append(param_text(arg))
    return texts


def _spellings(name: str, members: Sequence[Overload]) -> list[Spelled]:
    """Every spelling by name: ``operator``, Python functions, builtins, methods, then ATen overloads."""
    found = [
        Spelled(f"operator.{op}", tuple(Arg(operand, "Tensor|Scalar") for operand in _operands(family)), name)
        for op, family in OPERATORS.items()
        if family == name and hasattr(operator, op)
    ]
    taken = (f"torch.nn.functional.{name}", *odd.TORCH_ONLY)
    for packet in dict.fromkeys(one.packet for one in members):
        own = [one for one in members if one.packet == packet]
        for target in sorted(_public_names(packet), key=lambda text: not text.startswith("torch.nn.functional")):
            if target in odd.NOT_SPELLINGS or (name.endswith("_with_indices") and target in taken):
                continue
            home, _, short = target.rpartition(".")
            python = python_signature(getattr(NAMESPACES[home], short))
            if python is not None:
                found.append(Spelled(target, python, packet))
            else:
                found += _joined([_spelled(target, one, method=False) for one in own])
        if type(getattr(torch.Tensor, packet, None)).__name__ == "method_descriptor":
            named = [one for one in own if any(arg.name == "self" for arg in one.args)]
            found += _joined([_spelled(f"Tensor.{packet}", one, method=True) for one in named])
    found += _from_functional(name, members)
    found += [Spelled(one.target, _with_numbers(one), one.packet) for one in members]
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
    """Overloads that differ in kinds alone, as one spelling: ``torch.add`` takes a tensor or a number."""
    found: dict[tuple[object, ...], Spelled] = {}
    for one in spellings:
        key = tuple((family_name(one.packet, arg.name, one.target), str(arg.default)) for arg in one.args)
        known = found.get(key)
        if known is None or known.varargs != one.varargs:
            found[key if known is None else (*key, one.varargs)] = one
        else:
            args = tuple(evolve(a, kind=union(a.kind, b.kind)) for a, b in zip(known.args, one.args, strict=True))
            found[key] = evolve(known, args=args)
    return list(found.values())


def _operands(family: str) -> tuple[str, ...]:
    unary = ("neg", "bitwise_not", "abs", "positive")
    return ("input",) if family in unary else ("input", "exponent" if family == "pow" else "other")


def _spelled(target: str, one: Overload, method: bool) -> Spelled:
    args = _with_numbers(one)
    if method:
        args = (*(arg for arg in args if arg.name == "self"), *(arg for arg in args if arg.name != "self"))
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


def _without_repeats(forms: Sequence[list[str]]) -> list[list[str]]:
    found: list[list[str]] = []
    for form in forms:
        if form not in found:
            found.append(form)
    return found


def text_of(table: Mapping[str, Any]) -> str:
    """The table as text: one line for each spelling."""
    lines = ["{", f'"torch": {json.dumps(table["torch"])},', '"aliases": {']
    lines.append(",\n".join(f"  {json.dumps(name)}: {json.dumps(base)}" for name, base in table["aliases"].items()))
    lines += ["},", '"families": {']
    families = []
    for name, entry in table["families"].items():
        rest = "".join(
            f", {json.dumps(key)}: {json.dumps(entry[key])}" for key in entry if key not in ("params", "forms")
        )
        forms = ",\n".join(f"    {json.dumps(form)}" for form in entry["forms"])
        families.append(
            f'  {json.dumps(name)}: {{"params": {json.dumps(entry["params"])}{rest}, "forms": [\n{forms}]}}'
        )
    return "\n".join([*lines, ",\n".join(families), "}", "}"]) + "\n"


def main() -> int:
    """Write the table, or compare it; the exit code is 1 where they differ."""
    text = text_of(build())
    if "--check" in sys.argv[1:]:
        return int(text != TABLE.read_text(encoding="utf-8"))
    TABLE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
