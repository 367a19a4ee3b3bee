"""Write ``engine/families.json`` from torch's schemas, namespaces and modules.

Run ``python -m fxrules.engine.tools.generate_families`` after a change of torch or
of the hints; ``--check`` only says whether the committed file is what would be written.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from attrs import evolve

from . import family_hints as hints
from . import family_spellings as odd
from .family_merging import Spelled, form_texts, merged, param_text, shape_of
from .family_modules import module_spellings
from .family_names import public_names, spellings, with_numbers
from .family_sources import (
    NAMESPACES,
    Arg,
    Overload,
    annotated_signature,
    documented_aliases,
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
    return bool(public_names(packet)) or hasattr(torch.Tensor, packet)


def _family(name: str, members: Sequence[Overload]) -> dict[str, Any] | None:
    members = sorted(members, key=lambda one: one.packet != name)
    python = python_signature(getattr(F, name)) if hasattr(F, name) else None
    if name in hints.PARAMS:
        texts = list(hints.PARAMS[name])
    else:
        params = merged(name, [(one.packet, with_numbers(one)) for one in members], python)
        texts = _param_texts(name, params)
    by_name = {text.partition(": ")[0]: text for text in texts if text != "*"}
    forms: list[list[str]] = []
    by_hand = {form[0] for form in odd.SPELLINGS.get(name, ())}
    for spelled in spellings(name, members):
        form = form_texts(name, spelled, by_name)
        if form is not None and form not in forms and form[0] not in by_hand | odd.NOT_SPELLINGS:
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
    texts = list(hints.PARAMS.get(name, ())) or _param_texts(
        name, [arg for arg in own if not _is_fixed(name, arg.name)]
    )
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


def _param_texts(name: str, params: Sequence[Arg]) -> list[str]:
    texts, starred = [], False
    for arg in params:
        if arg.keyword_only and not starred:
            texts.append("*")
            starred = True
        like = hints.LIKE.get(name, {}).get(arg.name)
        if like:
            arg = evolve(arg, kind=f"{arg.kind.rstrip('?')}? like {like}", default=None)
        if name in hints.NOT_DIMS and arg.kind.startswith("dim"):
            arg = evolve(arg, kind=arg.kind.replace("dim", "int"))
        if name in hints.EXTRA_DIM and arg.kind.startswith("dim"):
            arg = evolve(arg, kind=arg.kind.replace("dim", "dim+1"))
        texts.append(param_text(arg))
    return texts


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
