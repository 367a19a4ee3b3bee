"""Ops that are registered with torch and belong to no family: a rule may call them, ``acme.rope(q, k)``.

What such an op does to memory and random numbers is what its schema says: see `schemas`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import torch
from attrs import evolve, fields, has

from ..dsl import ast
from ..dsl.signatures import OpParam, OpSignature, OpTable
from ..dsl.walking import dotted
from .callables import own_parameters, resolve
from .signatures import REQUIRED


def with_registered(table: OpTable, tree: ast.File) -> OpTable:
    """The table with the ops of all namespaces that a file names and the table does not know whole.

    Ops are known from when they are registered: import the module that does it before you load the rules.
    """
    wanted = {name.removeprefix("torch.ops.") for name in set(_names(tree)) - table.targets.keys()}
    registered = [name for name in _registered(wanted) if not name.startswith("aten.") or name in wanted]
    if not registered:
        return table
    found: dict[str, OpSignature] = {}
    for name in registered:
        target: Any = resolve(name)
        signature = None if target is None else _signature(target)
        if signature is not None:
            found[name] = signature
            found.setdefault(name.rpartition(".")[0] if name.count(".") > 1 else name, signature)
    packages = {name.partition(".")[0] for name in found}
    return evolve(table, targets={**table.targets, **found}, packages=frozenset({*table.packages, *packages}))


def _registered(names_used: Collection[str]) -> list[str]:
    """The ops of the namespaces of these names, as ``acme.rope`` and ``acme.rope.out``; default overloads first."""
    namespaces = {name.partition(".")[0] for name in names_used} - {"torch"}
    if not namespaces:
        return []
    names = (name.partition("::") for name in torch._C._dispatch_get_all_op_names())
    return sorted(f"{namespace}.{rest}" for namespace, _, rest in names if namespace in namespaces)


def _signature(target: Any) -> OpSignature | None:
    parameters = own_parameters(target)
    if parameters is None:
        return None
    schema = getattr(target, "_schema", None)
    if schema is None and isinstance(target, torch._ops.OpOverloadPacket):
        schema = getattr(target, target._overload_names[0] or "default")._schema
    keyword_only = {one.name for one in schema.arguments if one.kwarg_only} if schema else set()
    return OpSignature(
        tuple(OpParam(name, value is REQUIRED, value is None, name in keyword_only) for name, value in parameters)
    )


def _names(tree: ast.File) -> Iterator[str]:
    """Every dotted name in a file."""
    pending: list[Any] = [tree]
    while pending:
        part = pending.pop()
        if isinstance(part, tuple | list):
            pending.extend(part)
            continue
        name = dotted(part) if isinstance(part, ast.Attribute) else None
        if name is not None:
            yield name
        elif has(type(part)):
            pending.extend(getattr(part, one.name) for one in fields(type(part)) if one.name != "span")
