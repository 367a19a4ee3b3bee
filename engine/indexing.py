"""What a Python index means at aten level: a chain of ``select``, ``slice`` and ``unsqueeze``."""

from __future__ import annotations

from attrs import frozen

from ..dsl import ast


@frozen
class IndexStep:
    """One op of the chain; ``args`` follow the tensor, None leaves an argument at its default."""

    family: str
    args: tuple[ast.Expr | None, ...]


def steps_of(items: tuple[ast.Expr | ast.Slice | ast.Dots, ...]) -> tuple[IndexStep, ...] | None:
    """The chain, innermost op first; None where an index by tensors or names makes it unknown.

    Items before ``...`` count dims from the front, items behind it from the back. The
    dims of a ``select`` shift those behind it, as in torch.

    >>> steps_of((ast.Dots(), ast.Slice(None, ast.Number(4))))[0].args[0]
    Number(value=-1, tolerance=None)
    """
    dots = [i for i, item in enumerate(items) if isinstance(item, ast.Dots)]
    if len(dots) > 1:
        return None
    if dots and any(item == ast.Name("None") for item in items[dots[0] :]):
        return None  # where a new dim lands depends on the rank
    front = items[: dots[0]] if dots else items
    back = items[dots[0] + 1 :] if dots else ()
    steps: list[IndexStep] = []
    dim = 0
    for item in front:
        step, advance = _step(item, dim)
        dim += advance
        steps += step
    dim = -len(back)
    for item in back:
        step, advance = _step(item, dim)
        # a select from the back removes a dim: those still to come keep their distance from the end
        dim += 1 if advance == 1 or _is_select(item) else 0
        steps += step
    return tuple(steps)


def _is_select(item: ast.Expr | ast.Slice | ast.Dots) -> bool:
    return not isinstance(item, ast.Slice | ast.Dots)


def _step(item: ast.Expr | ast.Slice | ast.Dots, dim: int) -> tuple[list[IndexStep], int]:
    match item:
        case ast.Slice(None, None, None):
            return [], 1
        case ast.Slice(start, stop, step):
            return [IndexStep("slice", (ast.Number(dim), start, stop, step))], 1
        case ast.Name("None"):
            return [IndexStep("unsqueeze", (ast.Number(dim),))], 1
        case _:
            return [IndexStep("select", (ast.Number(dim), item))], 0
