"""The parameters of a pattern function as the header of a rule: names, types, dims."""

from __future__ import annotations

import re
from collections.abc import Iterable

from attrs import define, field

from ..dsl import ast
from ..dsl.source import FxrulesError, Problem

_TYPES = {
    "int": "int", "dim": "int", "dim+1": "int", "float": "number", "Scalar": "number", "bool": "bool", "str": "str",
    "dtype": "dtype", "device": "device", "layout": "layout", "memory_format": "memory_format",
}  # fmt: skip
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@define(eq=False)
class Leaves:
    """What is known of the parameters so far; ``names`` are their names in the rule.

    ``used`` has the parameters that each function uses, ``called`` the ops that it calls,
    ``dims`` the names of sizes by parameter and place.
    """

    params: tuple[str, ...]
    names: dict[str, str] = field(init=False)
    used: dict[str, set[str]] = field(factory=lambda: {"pattern": set(), "replacement": set()}, init=False)
    called: set[str] = field(factory=set, init=False)
    dims: dict[str, tuple[str, int]] = field(factory=dict, init=False)
    _lists: set[str] = field(factory=set, init=False)
    _uses: dict[str, dict[str, str]] = field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        self.names = {param: param for param in self.params}

    def rename(self, taken: Iterable[str]) -> None:
        """Give other names to parameters whose own mean something else in a rule."""
        known = {*taken}
        for at, param in enumerate(self.params):
            name = param if _IDENTIFIER.fullmatch(param) else f"arg{at}"
            while name in known:
                name += "_"
            self.names[param] = name
            known.add(name)

    def use(self, param: str, kind: str, what: str) -> bool:
        """Note that a parameter stands where an op takes this kind; whether that is a list.

        Raises FxrulesError where it stood for something else before.
        """
        plain = kind.partition(" or ")[0]
        words = [one.rstrip("?") for one in plain.split("|")]
        if plain.startswith("enum "):
            words = ["str"]
        singles = [one for one in words if not one.endswith("]")]
        is_list = not singles
        if is_list:
            found = _TYPES.get(words[0].partition("[")[0].rstrip("?"), "")
            self._lists.add(param)
            self._note(param, f"list of {found or 'tensors'}", found, what)
        elif len({_TYPES.get(one, one) for one in singles}) == 1 and singles[0] not in ("any", "index", "Generator"):
            self._note(param, _TYPES.get(singles[0], singles[0]), _TYPES.get(singles[0], ""), what)
        return is_list

    def _note(self, param: str, use: str, type: str, what: str) -> None:
        uses = self._uses.setdefault(param, {})
        uses.setdefault(use, type)
        if len(uses) > 1 and set(uses) != {"int", "number"}:
            first, second = list(uses)[:2]
            message = f"`{param}` stands for a {first} and for a {second} (in the {what})"
            raise FxrulesError(Problem(None, "not-a-rule", message, "make it two parameters"))

    def dim(self, param: str, at: int) -> str:
        """The name of a size of a tensor parameter."""
        self.used["pattern"].add(param)
        self._note(param, "Tensor", "", "pattern")
        place = str(at) if at >= 0 else "LAST" if at == -1 else f"LAST{-at}"
        name = f"{self.names[param].upper()}_{place}"
        self.dims[name] = (param, at)
        return name

    def header(self) -> tuple[ast.Param, ...]:
        """The declarations of all parameters."""
        return tuple(map(self._declared, self.params))

    def _declared(self, param: str) -> ast.Param:
        uses = self._uses.get(param, {})
        name = self.names[param]
        places = [at for owner, at in self.dims.values() if owner == param]
        if places:
            front, back = max(places, default=-1) + 1, -min(0, *places)
            dims: list[ast.Expr | ast.StarDim | ast.Dots] = [ast.Name(self.dim(param, at)) for at in range(front)]
            dims.append(ast.Dots())
            dims += [ast.Name(self.dim(param, at)) for at in range(-back, 0)]
            return ast.Param(name, ast.Type(("Tensor",), dims=tuple(dims)))
        types = [type for type in uses.values() if type]
        found = "int" if "int" in types else types[0] if types else ""
        return ast.Param(name, ast.Type((found,)) if found else None, star=param in self._lists)
