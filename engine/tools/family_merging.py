"""One signature from several overloads, and each overload as a spelling of it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from attrs import evolve, frozen

from ..kinds import UNFIT, reader
from . import family_hints as hints
from .family_sources import NO_DEFAULT, Arg, Overload


@frozen
class Spelled:
    """A spelling before it is written down: its target, its own arguments, and which family it belongs to by name."""

    target: str
    args: tuple[Arg, ...]
    packet: str
    varargs: bool = False
    fixed: tuple[tuple[str, object], ...] = ()
    ignored: tuple[str, ...] = ()


def family_name(packet: str, name: str, spelled: str) -> str:
    """The family's name of an own argument."""
    for key in (spelled, f"{packet}.{name}", packet):
        renames = hints.RENAMES.get(key, {})
        if name in renames:
            return renames[name]
    return "input" if name == "self" else name.removeprefix("*").removeprefix("@")


def merged(family: str, spellings: Sequence[tuple[str, tuple[Arg, ...]]], python: tuple[Arg, ...] | None) -> list[Arg]:
    """The parameters of a family: those of its longest overload, or of the Python function that users know.

    ``spellings`` are pairs of packet and arguments. A parameter that some overload lacks gets a default: what
    the lack means by the hints, else the default of another overload, else None.
    """
    found: dict[str, Arg] = {}
    for packet, args in sorted(_first_of_each(spellings), key=lambda one: -sum(not arg.keyword_only for arg in one[1])):
        for arg in args:
            if arg.name in hints.IGNORED and packet not in hints.HEEDED:
                continue
            name = family_name(packet, arg.name, packet)
            known = found.get(name)
            if known is None:
                found[name] = evolve(
                    arg, name=name, keyword_only=arg.keyword_only or (bool(found) and packet != spellings[0][0])
                )
            elif known.default is NO_DEFAULT:
                found[name] = evolve(known, default=arg.default)
    for packet, args in spellings:
        for arg in args:
            name = family_name(packet, arg.name, packet)
            if name in found:
                found[name] = evolve(found[name], kind=union(found[name].kind, arg.kind))
    absent = hints.ABSENT.get(family, {})
    for name, arg in found.items():
        everywhere = all(name in {family_name(packet, own.name, packet) for own in args} for packet, args in spellings)
        required = any(
            own.default is NO_DEFAULT
            for packet, args in spellings
            for own in args
            if family_name(packet, own.name, packet) == name
        )
        if name in absent:
            found[name] = evolve(arg, default=absent[name])
        elif everywhere and required and python is None:
            found[name] = evolve(arg, default=NO_DEFAULT)
        elif not everywhere and arg.default is NO_DEFAULT:
            found[name] = evolve(arg, default=None)
        if found[name].default is None and not found[name].kind.endswith("?") and " or " not in arg.kind:
            found[name] = evolve(found[name], kind=found[name].kind + "?")
    return _in_order(found, python)


def _first_of_each(spellings: Sequence[tuple[str, tuple[Arg, ...]]]) -> list[tuple[str, tuple[Arg, ...]]]:
    """One overload for each set of names: ``add.Tensor`` stands for ``add.Scalar`` too."""
    found: dict[frozenset[str], tuple[str, tuple[Arg, ...]]] = {}
    for packet, args in spellings:
        found.setdefault(frozenset(family_name(packet, arg.name, packet) for arg in args), (packet, args))
    return list(found.values())


def _in_order(found: Mapping[str, Arg], python: tuple[Arg, ...] | None) -> list[Arg]:
    """Positional parameters first; in the order and with the defaults of the Python function if there is one."""
    if python is None:
        return sorted(found.values(), key=lambda arg: arg.keyword_only)
    ordered: list[Arg] = []
    for own in python:
        if own.name in found:
            known = found[own.name]
            kind = "str" if isinstance(own.default, str) and known.kind == "int" else known.kind
            if own.default is None and not kind.endswith("?") and " or " not in kind:
                kind += "?"
            ordered.append(evolve(known, kind=kind, default=own.default, keyword_only=own.keyword_only))
        elif own.name == "inplace":
            ordered.append(Arg("inplace", "bool", False))
    return ordered


def union(a: str, b: str) -> str:
    """The kind that admits both.

    >>> union("Tensor", "Scalar"), union("dim?", "dim[]"), union("int[2]", "str")
    ('Tensor|Scalar', 'dim[1]?', 'int[2]|str')
    """
    if a == b or " or " in a:
        return a
    optional = "?" if a.endswith("?") or b.endswith("?") else ""
    words = list(dict.fromkeys([*a.rstrip("?").split("|"), *b.rstrip("?").split("|")]))
    if "dim" in words and any(word.startswith("dim[") for word in words):
        words = [word for word in words if not word.startswith("dim")] + ["dim[1]"]
    if "float" in words and "Scalar" in words:
        words.remove("float")
    if "any" in words:
        return "any"
    return "|".join(words) + optional


def param_text(arg: Arg) -> str:
    """A parameter of a family as the file has it, its default as views show it."""
    if arg.default is NO_DEFAULT:
        return f"{arg.name}: {arg.kind}"
    return f"{arg.name}: {arg.kind} = {default_text(arg.kind, arg.default)}"


def default_text(kind: str, default: Any) -> str:
    """A default in JSON, read by its kind: 1 for a stride of two is [1, 1]."""
    if isinstance(default, str) and default.startswith("torch."):
        return json.dumps(default)
    value = reader(kind.partition(" like ")[0])(default)
    value = default if value is UNFIT else value
    return json.dumps(str(value) if type(value).__module__ == "torch" else value)


def form_texts(family: str, spelled: Spelled, params: Mapping[str, str]) -> list[str] | None:
    """The spelling as the file has it; None if an argument has no place in the family.

    ``params`` has the text of each parameter of the family by its name.
    """
    texts = [spelled.target]
    starred, said = False, set()
    for arg in spelled.args:
        if arg.keyword_only and not starred:
            texts.append("*")
            starred = True
        name = family_name(spelled.packet, arg.name, spelled.target)
        fixed = {**hints.FIXED, **hints.FIXED_IN.get(family, {}), **dict(spelled.fixed)}
        if name in params and arg.name not in ("inplace", "return_indices"):
            if name in said:
                return None
            said.add(name)
            spread = spelled.varargs and name == _first(spelled)
            own = evolve(arg, name=f"*{arg.name}" if spread else arg.name)
            texts.append(_bound(own, spelled.packet, name, params[name]))
        elif arg.name in hints.IGNORED:
            texts.append(f"{arg.name}: any{_default_part(arg)} ~ {json.dumps(hints.IGNORED[arg.name])}")
        elif arg.name in fixed:
            mark = "~" if arg.name in spelled.ignored else "=="
            texts.append(f"{arg.name}: {arg.kind or 'any'}{_default_part(arg)} {mark} {json.dumps(fixed[arg.name])}")
        else:
            return None
    constants = hints.CONSTANTS.get(spelled.target, {})
    texts += [f":= {name} {json.dumps(value)}" for name, value in constants.items() if name in params]
    lacking = [
        name for name, text in params.items() if name not in said and name not in constants and " = " not in text
    ]
    return None if lacking else texts


def _default_part(arg: Arg) -> str:
    return "" if arg.default is NO_DEFAULT else f" = {json.dumps(arg.default)}"


def _first(spelled: Spelled) -> str:
    """The argument that may be spread over several: ``x.view(2, 3)``."""
    return next(family_name(spelled.packet, arg.name, spelled.target) for arg in spelled.args if arg.name != "self")


def _bound(arg: Arg, packet: str, name: str, text: str) -> str:
    family_kind = text.partition(": ")[2].partition(" = ")[0]
    kind = arg.kind or family_kind
    if kind == "int" and (packet, arg.name) in hints.ENUMS and family_kind == "str":
        kind = hints.ENUMS[packet, arg.name]
    if arg.name == "unbiased" and name == "correction":
        kind = "unbiased"
    if kind == "int?" and (packet, arg.name) in hints.ENUMS:
        kind = hints.ENUMS[packet, arg.name]
    if kind == "int" and arg.name == "reduction" and family_kind == "str":
        kind = "enum none=0 mean=1 sum=2"
    if family_kind.startswith("dim+1") and kind.startswith("dim"):
        kind = family_kind
    own = Arg(arg.name, kind, arg.default)
    if kind == "unbiased" and arg.default is not NO_DEFAULT:
        return f"{arg.name}: unbiased = {json.dumps(arg.default)} -> correction"
    if "enum" in kind and arg.default is not NO_DEFAULT:
        written = f"{arg.name}: {kind} = {json.dumps(reader(kind)(arg.default or 0))}"
    else:
        written = param_text(own)
    plain = written.removeprefix("*")
    if plain == text or (arg.name == "self" and name == "input" and text == f"input: {kind}"):
        return arg.name
    return written if arg.name.removeprefix("*") == name else f"{written} -> {name}"


def is_spread(spelled_args: Sequence[Arg], method: bool) -> bool:
    """Whether torch lets a list be spread over the arguments: it is the only positional one."""
    positional = [arg for arg in spelled_args if not arg.keyword_only][1 if method else 0 :]
    return len(positional) == 1 and positional[0].kind in ("int[]", "dim[]", "dim[1]")


def shape_of(overloads: Sequence[Overload]) -> str:
    """What the family gives: a tensor, a tuple, a list, something else, or one or the other."""
    kinds = {_shape(one) for one in overloads if not one.mutates} or {"tensor"}
    return kinds.pop() if len(kinds) == 1 else "varies"


def _shape(one: Overload) -> str:
    if len(one.returns) > 1:
        return "tuple"
    if not one.returns:
        return "none"
    return "list" if one.returns[0] == "Tensor[]" else "tensor" if one.returns[0] == "Tensor" else "other"
