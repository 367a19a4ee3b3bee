"""Headers: declared leaves, their types and shapes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum

from attrs import field, frozen

from . import ast
from .nearest import did_you_mean, did_you_mean_target
from .scopes import FileScope
from .source import Problem, Span
from .vocabulary import DTYPE_SETS, DTYPES, VALUE_TYPES
from .walking import dotted, locate, walk

_LONG_NAMES = {long: short for short, long in DTYPES.items()}
_OTHER_NAMES = {
    "half": "f16", "double": "f64", "long": "i64", "string": "str", "integer": "int", "boolean": "bool",
    "tensor": "Tensor", "scalar": "number", "Scalar": "number", "Number": "number", "num": "number",
}  # fmt: skip
_SHAPE_OPERATORS = frozenset({"+", "-", "*", "//", "%"})


class Kind(Enum):
    """What a name stands for, as far as the checker tells them apart."""

    TENSOR = "a tensor"
    CONST = "a tensor known at rewrite time"
    VALUE = "a value"
    MODULE = "a module"
    NODE = "a value of the graph"
    ANY = "anything"


@frozen
class Header:
    """The declared leaves and dims of a rule, pattern or example."""

    leaves: Mapping[str, ast.Param] = field(factory=dict)
    dims: frozenset[str] = frozenset()

    def kind(self, name: str) -> Kind:
        """The kind of a leaf."""
        return kind_of(self.leaves[name].type)

    def may_be_none(self, name: str) -> bool:
        """Whether a leaf's type says ``?``."""
        type = self.leaves[name].type
        return type is not None and type.optional


def kind_of(type: ast.Type | None) -> Kind:
    """The kind of leaf that a type declares."""
    if type is None:
        return Kind.ANY
    if type.qualifier == "module":
        return Kind.MODULE
    if type.dims is not None or "Tensor" in type.names or DTYPES.keys() & set(type.names):
        return Kind.CONST if type.qualifier == "const" else Kind.TENSOR
    return Kind.VALUE


def header_of(params: Sequence[ast.Param], scope: FileScope) -> Header:
    """The leaves and dims that parameters declare."""
    dims: set[str] = set()
    for param in params:
        for dim in (param.type.dims or ()) if param.type else ():
            names = (part for part in walk(dim) if isinstance(part, ast.Name | ast.StarDim))
            dims |= {part.name if isinstance(part, ast.StarDim) else part.id for part in names}
    leaves = {param.name: param for param in params}
    return Header(leaves, frozenset(dims - leaves.keys() - scope.own.consts))


def check_params(params: Sequence[ast.Param], scope: FileScope, role: str) -> Iterator[Problem]:
    """Names, types and shapes of parameters; ``role`` is ``rule``, ``pattern``, ``family`` or ``example``."""
    seen: set[str] = set()
    for param in params:
        if param.name in seen:
            yield Problem(param.span, "duplicate-leaf", f"`{param.name}` is declared twice")
        seen.add(param.name)
        place = locate(param.span, param.name)
        if param.name == "_" and role != "family":
            yield Problem(place, "bad-leaf", "`_` matches anything and cannot be declared")
        if param.default is not None and role != "family":
            what = f"`{param.name}` has a default, which means nothing here"
            yield Problem(param.default.span, "bad-leaf", what, "only the parameters of a `family` have defaults")
        if param.optional and role != "family":
            what = "`?` belongs to the type"
            yield Problem(param.span, "misplaced-optional", what, f"write `{param.name}: {type_text(param)}?`")
        if param.star and kind_of(param.type) is Kind.MODULE:
            yield Problem(param.span, "bad-leaf", "a module leaf is one module", f"write `{param.name}: module`")
        if param.star and role == "example":
            yield Problem(param.span, "bad-leaf", "an example declares each input by itself")
        if param.type is None and role == "example":
            what = f"`{param.name}` has no type, so no input can be made"
            yield Problem(param.span, "bad-leaf", what, f"write `{param.name}: f32[2, 3]`")
        if param.type is not None:
            yield from _check_type(param.type, scope, role)


def type_text(param: ast.Param) -> str:
    """The type of a parameter without its shape and ``?``."""
    type = param.type
    return "Tensor" if type is None else " ".join(filter(None, (type.qualifier, "|".join(type.names))))


def _check_type(type: ast.Type, scope: FileScope, role: str) -> Iterator[Problem]:
    if type.qualifier == "module":
        yield from _check_module(type, scope, role)
        return
    if type.qualifier not in (None, "const"):
        hint = did_you_mean(type.qualifier, ("const", "module")) or "a type may start with `const` or `module`"
        what = f"`{type.qualifier}`: no such word before a type"
        yield Problem(locate(type.span, type.qualifier), "unknown-type", what, hint)
    if role == "example" and type.optional:
        yield Problem(type.span, "misplaced-optional", "an input of an example is never None", "leave it out")
    for name in type.names:
        yield from _check_type_name(name, type)
    if type.dims is not None:
        yield from _check_shape(type.dims, type, scope)


def _check_type_name(name: str, type: ast.Type) -> Iterator[Problem]:
    place = locate(type.span, name)
    shaped = type.dims is not None
    if name not in DTYPE_SETS and name not in VALUE_TYPES:
        short = _LONG_NAMES.get(name.removeprefix("torch.")) or _OTHER_NAMES.get(name)
        hint = f"did you mean `{short}`?" if short else did_you_mean(name, [*DTYPE_SETS, *VALUE_TYPES])
        yield Problem(place, "unknown-type", f"`{name}`: no such type", hint)
    elif shaped and name != "Tensor" and name not in DTYPE_SETS:
        yield Problem(place, "bad-type", f"`{name}` is not a tensor and has no shape", f"write `{name}` alone")
    elif not shaped and name not in VALUE_TYPES:
        yield Problem(place, "bad-type", f"`{name}` is a tensor's dtype and needs a shape", f"write `{name}[...]`")
    elif name == "Tensor" and len(type.names) > 1:
        yield Problem(place, "bad-type", "`Tensor` is every dtype already", "leave the others out")


def _check_module(type: ast.Type, scope: FileScope, role: str) -> Iterator[Problem]:
    if role != "rule":
        yield Problem(type.span, "bad-type", "only a rule has module leaves", "match the call in the rule itself")
    if type.dims is not None or len(type.names) > 1:
        yield Problem(type.span, "bad-type", "a module leaf names one class", "such as `m: module nn.LayerNorm`")
        return
    for name in type.names:
        known, place = scope.ops.modules, locate(type.span, name)
        own = name.removeprefix("torch.")
        if "." not in name:
            hint = f"did you mean `nn.{name}`?" if f"torch.nn.{name}" in known else "such as `acme.nn.FrozenNorm`"
            yield Problem(place, "bad-type", f"`{name}`: a module class stands with the name of its package", hint)
        elif own.startswith("nn.") and own.count(".") == 1 and f"torch.{own}" not in known:
            usual = {one.removeprefix("torch.") for one in known}
            yield Problem(place, "unknown-module", f"`{name}`: no such module class", did_you_mean_target(own, usual))


def unknown_package(place: Span | None, package: str, scope: FileScope) -> Problem:
    """The problem of a qualified name whose first word is no package, import or leaf."""
    near = did_you_mean(package, [*scope.ops.packages, *scope.imports])
    hint = near or "the ops of a package are known once it is installed; another file is known once it is imported"
    return Problem(place, "unknown-package", f"`{package}`: no such package or import", hint)


def _check_shape(
    dims: Sequence[ast.Expr | ast.StarDim | ast.Dots], type: ast.Type, scope: FileScope
) -> Iterator[Problem]:
    many = [dim for dim in dims if isinstance(dim, ast.StarDim | ast.Dots)]
    if len(many) > 1:
        what = "a shape has at most one `*name` or `...`: with two, sizes cannot be told apart"
        yield Problem(many[1].span, "bad-shape", what)
    for dim in dims:
        for part in walk(dim):
            match part:
                case ast.Name() | ast.StarDim() | ast.Dots() | ast.Unary("-"):
                    pass
                case ast.Binary(op) if op in _SHAPE_OPERATORS:
                    pass
                case ast.Number(value, None) if isinstance(value, int):
                    if value < 0:
                        yield Problem(part.span, "bad-shape", "a size is never negative")
                case _:
                    shown = dotted(part)
                    what = (
                        f"`{shown}` is no size"
                        if shown
                        else "a size is a whole number, a name, or a sum, difference or product of them"
                    )
                    yield Problem(part.span, "bad-shape", what)
                    break
