"""Values for the parameters of an example: random tensors, symbolic fake ones, stand-ins for numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx.experimental.symbolic_shapes import DimDynamic, StatelessSymbolicContext

from ..dsl import ast
from ..dsl.source import FxrulesError, Problem, Span
from ..dsl.vocabulary import DTYPE_SETS, DTYPES

_FIRST_SIZE = 5
"""The size that the first symbolic dim of an example stands for; the others get the next ones."""


def draw_inputs(example: ast.Example, seed: int) -> tuple[Tensor, ...]:
    """Random arguments for the graph of an example, in order; the same ones for the same ``seed``.

    >>> param = ast.Param("x", ast.Type(("bf16",), dims=(ast.Number(2), ast.Name("N"))))
    >>> (value,) = draw_inputs(ast.Example(None, (param,), ast.Block((), ()), None), seed=0)
    >>> value.dtype, tuple(value.shape)
    (torch.bfloat16, (2, 5))
    """
    draw = torch.Generator().manual_seed(seed)
    sizes = symbolic_sizes(example.params)
    wanted = [param for param in example.params if is_tensor(param) and param.type and param.type.qualifier != "const"]
    return tuple(draw_tensor(param, sizes, draw) for param in wanted)


def draw_tensor(param: ast.Param, sizes: Mapping[str, int], draw: torch.Generator) -> Tensor:
    """A random tensor as a parameter declares it; constants are positive, so that one may be a variance."""
    assert param.type is not None
    shape = [_size(dim, sizes, param) for dim in param.type.dims or ()]
    dtype = _dtype(param.type.names[0])
    if dtype == torch.bool:
        return torch.randint(0, 2, shape, generator=draw).bool()
    if not (dtype.is_floating_point or dtype.is_complex):
        return torch.randint(0 if dtype == torch.uint8 else -9, 10, shape, generator=draw).to(dtype)
    if param.type.qualifier == "const":
        return (torch.rand(shape, generator=draw) + 0.5).to(dtype)
    return torch.randn(shape, generator=draw, dtype=torch.promote_types(dtype, torch.float32)).to(dtype)


def is_tensor(param: ast.Param) -> bool:
    """Whether an example's parameter is a tensor, and not a number."""
    if param.type is None or param.type.dims is None:
        return param.type is not None and param.type.names == ("Tensor",)
    return True


def stand_in(param: ast.Param) -> object:
    """The number that a parameter which is no tensor stands for."""
    kind = param.type.names[0] if param.type else "number"
    if kind not in ("number", "int", "float", "bool"):
        raise _unfit(param.span, f"an example cannot make a value for `{param.name}`: it has no tensor type")
    return {"number": 0.5, "float": 0.5, "int": 2, "bool": True}[kind]


def _dtype(name: str) -> torch.dtype:
    name = DTYPE_SETS.get(name, ("f32",))[0]
    found = getattr(torch, DTYPES.get(name, name))
    assert isinstance(found, torch.dtype)
    return found


def symbolic_sizes(params: Iterable[ast.Param]) -> dict[str, int]:
    """Sizes for the dims that have names, all different, so that no two become one symbol."""
    dims = [dim for param in params if param.type for dim in param.type.dims or ()]
    names = dict.fromkeys(dim.id for dim in dims if isinstance(dim, ast.Name))
    return {name: size for size, name in enumerate(names, _FIRST_SIZE)}


def _size(dim: object, sizes: Mapping[str, int], param: ast.Param) -> int:
    match dim:
        case ast.Number(int(value)):
            return value
        case ast.Name(id):
            return sizes[id]
    raise _unfit(param.span, f"the sizes of `{param.name}` in an example are numbers or names")


def _unfit(span: Span | None, message: str) -> FxrulesError:
    return FxrulesError(Problem(span, "example", message))


def fake_of(value: Tensor, param: ast.Param, mode: FakeTensorMode) -> FakeTensor:
    """The fake tensor of an input: a dim with a name is a symbol, the same one wherever the name stands."""
    dims = (param.type.dims if param.type else None) or ()
    if not any(isinstance(dim, ast.Name) for dim in dims):
        return mode.from_tensor(value, static_shapes=True)
    kinds = [DimDynamic.DUCK if isinstance(dim, ast.Name) else DimDynamic.STATIC for dim in dims]
    return mode.from_tensor(value, symbolic_context=StatelessSymbolicContext(dynamic_sizes=kinds))
