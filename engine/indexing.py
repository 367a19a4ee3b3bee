"""What a Python index means at aten level: a chain of ``select``, ``slice`` and ``unsqueeze``."""

from __future__ import annotations

from attrs import frozen

from ..dsl import ast


@frozen
class IndexStep:
    """One op of the chain; ``args`` follow the tensor, None leaves an argument at its default.

    ``optional``: a whole slice ``:``, which export writes down only where the size is symbolic.
    """

    family: str
    args: tuple[ast.Expr | None, ...]
    optional: bool = False


def steps_of(
    items: tuple[ast.Expr | ast.Slice | ast.Dots, ...], *, whole_slices: bool = False
) -> tuple[IndexStep, ...] | None:
    """The chain, innermost op first; None where it is unknown. Whole slices are left out unless asked for.

    Items before ``...`` count dims from the front, items behind it from the back. The
    dims of a ``select`` shift those behind it, as in torch.

    >>> steps_of((ast.Dots(), ast.Slice(None, ast.Number(4))))[0].args[0]
    Number(value=-1, tolerance=None)
    """
    dots = [place for place, item in enumerate(items) if isinstance(item, ast.Dots)]
    if len(dots) > 1:
        return None
    steps: list[IndexStep] = []
    front = 0
    for place, item in enumerate(items):
        if isinstance(item, ast.Dots):
            continue
        from_back = bool(dots) and place > dots[0]
        to_come = sum(_reads_a_dim(later) for later in items[place:])
        match item:
            case ast.Name("None"):
                dim = -1 - to_come if from_back else front
                steps.append(IndexStep("unsqueeze", (ast.Number(dim),)))
            case ast.Slice(start, stop, step):
                dim = -to_come if from_back else front
                steps.append(IndexStep("slice", (ast.Number(dim), start, stop, step), item == ast.Slice()))
            case _:
                dim = -to_come if from_back else front
                steps.append(IndexStep("select", (ast.Number(dim), item)))
                continue
        front += 1
    return tuple(step for step in steps if whole_slices or not step.optional)


def _reads_a_dim(item: ast.Expr | ast.Slice | ast.Dots) -> bool:
    return item != ast.Name("None")
