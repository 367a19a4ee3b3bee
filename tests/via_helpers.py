"""Helpers for `rewrite via`, as a user's module would have them; the rules of `test_via` trust it."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import handle_torch_function, has_torch_function

from fxrules import Declined

TABLE = torch.ones(4)
LINEAR = nn.Linear(4, 4)


def rotary(q: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotation by halves, with half of the tables; one line computes what nothing reads."""
    half = q.shape[-1] // 2
    if q.dtype == torch.float16:
        raise Declined("half precision is not wanted")
    torch.exp(q)
    first, second = q[..., :half], q[..., half:]
    c, s = cos[..., :half], sin[..., :half]
    return torch.cat([first * c - second * s, second * c + first * s], dim=-1)


def spelled_many_ways(x: Tensor) -> Tensor:
    """Functions, methods, operators, properties and packets."""
    y = torch.add(x, 1.0).mul(2).transpose(-1, -2)
    z = F.softmax(y.mT, dim=-1) @ y
    first, *rest = z.chunk(2, dim=-1)
    z = torch.cat((first, *rest), -1) - torch.ops.aten.sigmoid(z) / 3
    z = torch.where(z > 0, z, -z)
    return z[..., None].squeeze(-1) + z[0:1].sum(dim=(0,), keepdim=True)


def plus(x: Tensor, values: tuple[int, ...], *more: Any, scale: float = 1.0) -> Tensor:
    assert all(type(value) is int for value in values)
    return x + scale * float(sum(values) + sum(more))


def all_but_one(xs: tuple[Tensor, ...]) -> Tensor:
    return torch.cat(list(xs[:-1]), dim=0) if len(xs) > 2 else xs[0]


def with_positions(x: Tensor) -> Tensor:
    """Makes a tensor in the graph."""
    return x + torch.arange(x.shape[-1], dtype=x.dtype)


def with_rows(x: Tensor) -> Tensor:
    return x + torch.arange(x.shape[0], dtype=x.dtype)[:, None]


def with_dropout(x: Tensor) -> Tensor:
    return F.dropout(x, 0.5, training=True)


def halves(x: Tensor) -> list[Tensor]:
    n = x.shape[0] // 2
    return [x[:n] + 1, x[n:] + 1]


def given_back(x: Tensor) -> Tensor:
    return x


def scaled(x: Tensor, w: Tensor) -> Tensor:
    return x * w


def flattened(x: Tensor) -> Tensor:
    return x.reshape(x.shape[0] * x.shape[1], -1).relu().view(x.size(0), x.size(1), x.shape[2])


# ------------------------------------------------------------------ that refuse or fail
def decides(x: Tensor) -> Tensor:
    return x if x.sum() > 0 else -x


def swallows(x: Tensor) -> Tensor:
    try:
        return x if bool(x.sum() > 0) else -x
    except Exception:
        return torch.relu(x)


def reads(x: Tensor) -> Tensor:
    return x * x.sum().item()


def counts(x: Tensor) -> Tensor:
    return sum((x for _ in range(x.sum())), x)


def writes(x: Tensor) -> Tensor:
    x[0] = 1
    return x


def adds_in_place(x: Tensor) -> Tensor:
    x.add_(1)
    return torch.relu(x)


def raises(x: Tensor) -> Tensor:
    raise ValueError("no such table")


def reads_a_global(x: Tensor) -> Tensor:
    return x * TABLE


def returns_nothing(x: Tensor) -> None:
    torch.relu(x)


def takes_data(x: Tensor) -> Tensor:
    return torch.clamp(x.data, min=0)


def keeps_a_value(x: Tensor, kept: list[Tensor] = []) -> Tensor:  # noqa: B006 - as a helper should not
    kept.append(torch.clamp(x, min=0))
    return kept[0]


def returns_two(x: Tensor) -> tuple[Tensor, Tensor]:
    return torch.relu(x), x


def returns_a_number(x: Tensor) -> float:
    return 1.0


def wrong_shape(x: Tensor) -> Tensor:
    return torch.relu(x).sum(dim=-1)


def does_not_fit(x: Tensor) -> Tensor:
    return torch.relu(x) @ x.reshape(-1)


def asks_the_batch(x: Tensor) -> Tensor:
    return torch.relu(x) if x.shape[0] == 4 else x


def calls_a_module(x: Tensor) -> Tensor:
    return LINEAR(x)  # type: ignore[no-any-return]


def unknown(x: Any) -> Any:
    return handle_torch_function(unknown, (x,), x) if has_torch_function((x,)) else torch.relu(x)


def calls_what_no_family_has(x: Tensor) -> Tensor:
    return torch.neg(unknown(x))


def passes_an_object(x: Tensor) -> Tensor:
    return torch.relu(x) + object()  # type: ignore[operator]
