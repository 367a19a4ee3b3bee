"""The entries of ``families.json``: the notation in which a family and its spellings are written down."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from attrs import evolve

from .signatures import REQUIRED, Bound, Default, Family, Fixed, Form, Ignored, Param, Role


def parse_family(name: str, entry: Mapping[str, Any]) -> Family:
    """The family that an entry of the file describes."""
    params = tuple(map(_with_constant, parse_params(entry["params"])))
    index = {param.name: i for i, param in enumerate(params)}
    return Family(
        name,
        params,
        tuple(_parse_form(form, params, index) for form in entry["forms"]),
        entry.get("commutative", False),
        entry.get("effect", "pure"),
        tuple(tuple((key, frozen_value(value)) for key, value in one.items()) for one in entry.get("pure_when", ())),
        entry.get("result", "tensor"),
        tuple(entry.get("lowered", ())),
    )


def parse_params(texts: list[str]) -> tuple[Param, ...]:
    """Parameters as the file writes them: ``name: type = default``, with ``*`` before the keyword-only ones.

    >>> parse_params(["input: Tensor", "*", "alpha: Scalar = 1"])[1].default
    1
    """
    found: list[Param] = []
    keyword_only = False
    for text in texts:
        if text == "*":
            keyword_only = True
        else:
            found.append(_parse_param(text, keyword_only))
    return tuple(found)


def _with_constant(param: Param) -> Param:
    """The parameter with a torch constant for its default's name."""
    if not isinstance(param.default, str) or not param.default.startswith("torch."):
        return param
    import torch  # only families need it; signatures, which rule files are checked against, do without

    return evolve(param, default=getattr(torch, param.default.removeprefix("torch.")))


def _parse_param(text: str, keyword_only: bool) -> Param:
    declared, has_default, default = text.partition(" = ")
    name, _, kind = declared.partition(": ")
    return Param(
        name.removeprefix("*"),
        kind.strip(),
        frozen_value(json.loads(default)) if has_default else REQUIRED,
        keyword_only,
        is_dim=kind.startswith("dim"),
        extra_dims=1 if "+1" in kind else 0,
        varargs=name.startswith("*"),
    )


def _parse_form(entry: list[str], params: tuple[Param, ...], index: Mapping[str, int]) -> Form:
    """A spelling as the file writes it: its target, then its own parameters.

    ``other`` is the family's parameter of that name, ``self`` its ``input``; ``train: bool -> training`` one bound to
    another name;
    ``inplace: bool = false == false`` one that must be false; ``_stacklevel: int = 3 ~ 3`` one that cannot matter;
    ``:= dim null`` says that this spelling is the family with ``dim=None``.
    """
    target, *texts = entry
    own: list[Param] = []
    roles: list[Role] = []
    constants: list[tuple[int, Default]] = []
    keyword_only = False
    for text in texts:
        if text == "*":
            keyword_only = True
        elif text.startswith(":= "):
            name, _, value = text[3:].partition(" ")
            constants.append((index[name], frozen_value(json.loads(value))))
        else:
            param, role = _parse_own(text, keyword_only, params, index)
            own.append(param)
            roles.append(role)
    kind, level = _kind_and_level(target)
    return Form(level, kind, target, tuple(own), tuple(roles), tuple(constants))


def _parse_own(
    text: str, keyword_only: bool, params: tuple[Param, ...], index: Mapping[str, int]
) -> tuple[Param, Role]:
    for mark, role in ((" == ", Fixed), (" ~ ", Ignored)):
        declared, found, value = text.rpartition(mark)
        if found:
            return _parse_param(declared, keyword_only), role(frozen_value(json.loads(value)))
    declared, _, name = text.partition(" -> ")
    own = _parse_param(declared, keyword_only)
    at = index[name or ("input" if own.name == "self" else own.name)]
    if not own.type:
        own = evolve(params[at], name=own.name, keyword_only=keyword_only, varargs=own.varargs)
    return own, Bound(at)


def _kind_and_level(target: str) -> tuple[str, str]:
    head = target.partition(".")[0]
    if head in ("Tensor", "getattr"):
        return ("method" if head == "Tensor" else "attribute"), "torch"
    if target.startswith("torch.nn.") and not target.startswith("torch.nn.functional."):
        return "module", "torch"
    return "function", {"aten": "aten", "operator": "any", "math": "any"}.get(head, "torch")


def frozen_value(value: Any) -> Default:
    """A JSON value with lists as tuples.

    >>> frozen_value([1, [2]])
    (1, (2,))
    """
    return tuple(frozen_value(item) for item in value) if isinstance(value, list) else value
