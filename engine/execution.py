"""Running a model without leaving a trace: what one call returns and writes, the model put back afterwards."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from attrs import frozen
from torch.utils import _pytree as pytree

from .inputs import Call


@frozen
class Observation:
    """What one call did.

    ``returned`` and ``written`` map a name (``output['logits']``, ``args[0] after the call``) to a
    value; ``written`` holds the inputs and buffers that the call changed. ``strides`` are those of
    the returned tensors; ``shared`` are the pairs of names whose tensors share memory.
    """

    returned: Mapping[str, Any]
    strides: Mapping[str, tuple[int, ...]]
    structure: pytree.TreeSpec
    written: Mapping[str, torch.Tensor]
    shared: frozenset[tuple[str, str]]
    drew_random_numbers: bool

    def values(self) -> dict[str, Any]:
        """What was returned and what was written, by name."""
        return {**self.returned, **self.written}


def observe(module: torch.nn.Module, call: Call, seed: int = 0) -> Observation:
    """Run ``module`` once, without gradients, and say what the call did.

    The arguments are copied first, and the module's state (buffers, attributes, training flags,
    random generators) is put back afterwards, so nothing of the caller's changes. Whatever the
    module raises passes through.
    """
    with ExitStack() as stack:
        stack.enter_context(kept_state(module))
        devices = _devices(module, call)
        stack.enter_context(kept_random_state(devices, seed))
        stack.enter_context(torch.no_grad())
        buffers = {name: buffer.clone() for name, buffer in module.named_buffers()}
        own = _copied(call)
        random_before = _random_state(devices)
        result = module(*own.args, **own.kwargs)
        drew = _random_state(devices) != random_before
        paths, structure = pytree.tree_flatten_with_path(result)
        outputs = {"output" + pytree.keystr(path): value for path, value in paths}
        inputs, originals = dict(own.leaves()), dict(call.leaves())
        written = {name: inputs[name] for name in inputs if _changed(originals[name], inputs[name])}
        written |= {f"buffer {name}": now for name, now in module.named_buffers() if _changed(buffers.get(name), now)}
        # A value may lie in a buffer, whose contents are about to be put back.
        after = {f"{name} after the call": value for name, value in _snapshot(written).items()}
        shared = _shared_memory(inputs, outputs)
        return Observation(_snapshot(outputs), _strides(outputs), structure, after, shared, drew)


@contextmanager
def kept_state(module: torch.nn.Module) -> Iterator[None]:
    """Put the module's attributes, lists and dicts, and the contents of its buffers back at the end.

    The values of parameters are left out: a forward pass does not write to them, and a copy of
    them all would double the memory.
    """
    saved = [(vars(part), dict(vars(part))) for part in module.modules()]
    values = [value for _, attributes in saved for value in attributes.values()]
    containers = [(value, value.copy()) for value in values if isinstance(value, (list, dict, set))]
    tensors = [value for value in [*values, *module.buffers()] if isinstance(value, torch.Tensor)]
    contents = [(tensor, tensor.detach().clone()) for tensor in tensors]
    try:
        yield
    finally:
        for container, before in [*saved, *containers]:
            container.clear()
            if isinstance(container, list):
                container.extend(before)
            else:
                container.update(before)
        with torch.no_grad():
            for tensor, content in contents:
                if not same_bits(tensor, content):
                    tensor.copy_(content)


@contextmanager
def kept_random_state(devices: list[int], seed: int) -> Iterator[None]:
    """Seed every generator for the block, and put their states back at the end."""
    with torch.random.fork_rng(devices):
        torch.manual_seed(seed)
        yield


def attempt(module: torch.nn.Module, call: Call) -> Exception | None:
    """What the module raises for this call, or None where it runs."""
    try:
        observe(module, call)
    except Exception as error:
        return error
    return None


def _devices(module: torch.nn.Module, call: Call) -> list[int]:
    """The CUDA devices whose random state a run may change."""
    tensors = [*module.parameters(), *module.buffers(), *(value for _, value in call.leaves())]
    found = {t.device.index for t in tensors if isinstance(t, torch.Tensor) and t.device.type == "cuda"}
    return sorted(index for index in found if index is not None)


def _random_state(devices: list[int]) -> tuple[bytes, ...]:
    states = [torch.get_rng_state(), *(torch.cuda.get_rng_state(index) for index in devices)]
    return tuple(state.numpy().tobytes() for state in states)


def _copied(call: Call) -> Call:
    """The call with tensors of its own: same strides, and one copy for a tensor that stands in two places."""
    copies: dict[int, torch.Tensor] = {}

    def copy(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        if id(value) not in copies:
            copies[id(value)] = value.detach().clone(memory_format=torch.preserve_format)
        return copies[id(value)]

    args, kwargs = pytree.tree_map(copy, (call.args, dict(call.kwargs)))
    return Call(args, kwargs)


def _snapshot(values: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: value.detach().clone() if isinstance(value, torch.Tensor) else value for name, value in values.items()
    }


def _strides(values: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    return {
        name: value.stride()
        for name, value in values.items()
        if isinstance(value, torch.Tensor) and value.layout is torch.strided
    }


def _changed(before: Any, after: Any) -> bool:
    return isinstance(before, torch.Tensor) and not same_bits(before, after)


def same_bits(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Whether two tensors have equal shapes, dtypes and bits; the payload of a NaN does not count."""
    if left.shape != right.shape or left.dtype != right.dtype:
        return False
    if not (left.is_floating_point() or left.is_complex()):
        return torch.equal(left, right)
    left, right = parts(left), parts(right)
    same = (left == right) & (torch.signbit(left) == torch.signbit(right))
    return bool((same | (left.isnan() & right.isnan())).all())


def parts(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor itself, or real and imaginary parts of a complex one in a last dimension of size 2."""
    return torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor


def _shared_memory(inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> frozenset[tuple[str, str]]:
    """Pairs of an output and an input, or of two outputs, that lie in one storage."""
    owners: dict[int, list[str]] = {}
    pairs: set[tuple[str, str]] = set()
    for name, value in [*inputs.items(), *outputs.items()]:
        if isinstance(value, torch.Tensor) and value.layout is torch.strided and value.numel():
            names = owners.setdefault(value.untyped_storage().data_ptr(), [])
            pairs.update((other, name) for other in names if name in outputs)
            names.append(name)
    return frozenset(pairs)
