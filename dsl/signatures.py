"""What the checker has to know of ops. The engine fills the table; no torch here."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from attrs import field, frozen


@frozen
class OpParam:
    """One parameter of an op. ``varargs`` takes all further positional arguments (``view(x, 2, 3)``)."""

    name: str
    required: bool = True
    takes_none: bool = False
    keyword_only: bool = False
    varargs: bool = False
    type: str = "any"


@frozen
class OpSignature:
    """The parameters of an op in order."""

    params: tuple[OpParam, ...]
    commutative: bool = False


@frozen
class OpTable:
    """All ops that a rule file may name.

    ``families`` are found by bare name (``softmax``), ``targets`` by qualified name
    (``aten.add.Tensor``, ``torch.cat``, ``acme.geglu``) and mean exactly that target.
    ``packages`` are the first words of qualified names whose members are known: a
    name under another first word is an `unknown-package`. ``modules`` are classes
    for ``m: module nn.LayerNorm``.
    """

    families: Mapping[str, OpSignature] = field(factory=dict)
    targets: Mapping[str, OpSignature] = field(factory=dict)
    packages: Collection[str] = frozenset()
    modules: Collection[str] = frozenset()


def signature(text: str, *, commutative: bool = False) -> OpSignature:
    """A signature from text, for tests and small tables: ``"input: Tensor, dim, dtype=None, *, out=None"``.

    >>> [param.name for param in signature("input, dim, dtype=None").params if param.takes_none]
    ['dtype']
    """
    params: list[OpParam] = []
    keyword_only = False
    for part in filter(None, map(str.strip, text.split(","))):
        name, equals, default = map(str.strip, part.partition("="))
        if name == "*":
            keyword_only = True
            continue
        name, _, type = map(str.strip, name.partition(":"))
        varargs = name.startswith("*")
        required = not (equals or varargs)
        params.append(OpParam(name.lstrip("*"), required, default == "None", keyword_only, varargs, type or "any"))
    return OpSignature(tuple(params), commutative)
