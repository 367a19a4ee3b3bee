"""From an nn.Module to a graph: export or symbolic tracing, and reasons a user can act on where that fails."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Collection
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import GraphModule, Tracer
from torch.utils import _pytree as pytree

from ..dsl.nearest import did_you_mean
from ..dsl.source import FxrulesError, Problem
from .execution import attempt
from .inputs import Call, read_call
from .obstacles import classify, quiet_torch, user_place
from .submodules import is_named

WAYS = ("export", "trace")


def capture(
    model: torch.nn.Module | ExportedProgram,
    example_inputs: Any = None,
    *,
    how: str = "export",
    leaves: Collection[str] = (),
) -> GraphModule | ExportedProgram:
    """The graph of a model; one that is a graph already (GraphModule, ExportedProgram) comes back itself.

    ``how`` is ``"export"`` (`torch.export`: an aten graph, needs ``example_inputs``) or ``"trace"``
    (`torch.fx.symbolic_trace`: a torch-level graph that keeps modules and runs without inputs). Tracing
    looks into modules that are not torch's own, but for those of the classes ``leaves``.
    ``example_inputs`` is a tensor, a tuple, a dict of keyword arguments or ``(args, kwargs)``. The
    graph shares parameters and buffers with the model.

    Raises `FxrulesError` with the reason, the line of the model and what to try.

    >>> [node.name for node in capture(torch.nn.ReLU(), torch.ones(2)).graph.nodes if node.op == "call_function"]
    ['relu']
    """
    if isinstance(model, (GraphModule, ExportedProgram)):
        return model
    if how not in WAYS:
        hint = did_you_mean(str(how), WAYS) or 'capture="export" or capture="trace"'
        raise FxrulesError(Problem(None, "unknown-capture", f"no way of capturing is called `{how}`", hint))
    if how == "trace":
        return _trace(model, leaves)
    module = export_program(model, example_inputs).module()
    assert isinstance(module, GraphModule), "the module of an exported program is a graph module"
    return module


def export_program(model: torch.nn.Module, example_inputs: Any) -> ExportedProgram:
    """`torch.export.export` with reasons a user can act on; see `capture`."""
    _check_model(model)
    name = type(model).__name__
    if example_inputs is None:
        message = f"exporting {name} needs example inputs: its forward takes {_signature(model)}"
        hint = 'pass example_inputs=(x, ...), or capture="trace", which needs none'
        raise FxrulesError(Problem(None, "needs-example-inputs", message, hint))
    call = _apart(read_call(example_inputs))
    _check_arguments(model, call)
    try:
        with quiet_torch():
            program = torch.export.export(model, call.args, dict(call.kwargs))
    except Exception as error:
        raise FxrulesError(_obstacle(model, call, error, "export")) from error
    if model.training and (active := _training_nodes(program.graph_module)):
        warnings.warn(
            f"{name} is in training mode, and an exported graph stays in the mode it was exported in: "
            f'{active[0]} is active for good. Call model.eval() first, or use capture="trace".',
            stacklevel=4,
        )
    return program


class _Tracer(Tracer):
    """Keeps calls of modules of some classes."""

    leaves: Collection[str] = ()

    def is_leaf_module(self, m: torch.nn.Module, module_qualified_name: str) -> bool:
        return is_named(m, self.leaves) or super().is_leaf_module(m, module_qualified_name)


def _trace(model: torch.nn.Module, leaves: Collection[str]) -> GraphModule:
    _check_model(model)
    tracer = _Tracer()
    tracer.leaves = leaves
    try:
        with quiet_torch():
            graph = tracer.trace(model)
            graph._tracer_cls = Tracer  # a pickled graph names its tracer: it shall need no fxrules
            return GraphModule(tracer.root, graph, type(model).__name__)
    except Exception as error:
        raise FxrulesError(_obstacle(model, None, error, "trace")) from error


def _obstacle(model: torch.nn.Module, call: Call | None, error: Exception, how: str) -> Problem:
    """Why capturing failed: the inputs, where the model does not even run on them, else what torch says."""
    name = type(model).__name__
    obstacle = classify(error, how)
    if obstacle.code == "untraceable" and call is not None and (own := attempt(model, call)) is not None:
        message = f"{name} does not run on these inputs: {type(own).__name__}: {own}"
        hint = f"check example_inputs: forward takes {_signature(model)}"
        return Problem(user_place(own), "wrong-inputs", message, hint)
    verb = "exported" if how == "export" else "traced"
    return Problem(user_place(error), obstacle.code, f"{name} cannot be {verb}: {obstacle.message}", obstacle.hint)


def _check_model(model: Any) -> None:
    if not isinstance(model, torch.nn.Module):
        message = f"a model is an nn.Module, a GraphModule or an ExportedProgram, not {type(model).__name__}"
        raise FxrulesError(Problem(None, "not-a-model", message))
    name = type(model).__name__
    for path, part in model.named_modules():
        if isinstance(part, torch.jit.ScriptModule):
            message = f"{f'{path} of {name}' if path else name} is TorchScript, which has no FX graph"
            hint = "use the Python module that was scripted"
            raise FxrulesError(Problem(None, "unsupported-module", message, hint))
    if hasattr(model, "_orig_mod"):
        hint = "pass the module that was compiled (model._orig_mod), and compile the result"
        raise FxrulesError(Problem(None, "unsupported-module", f"{name} comes from torch.compile", hint))
    for path, value in [*model.named_parameters(), *model.named_buffers()]:
        if torch.nn.parameter.is_lazy(value):
            hint = "run the model once on real inputs: that gives lazy modules their shapes"
            message = f"the parameter {path} of {name} has no shape yet"
            raise FxrulesError(Problem(None, "uninitialised", message, hint))


def _check_arguments(model: torch.nn.Module, call: Call) -> None:
    """Arguments that fit the signature, and only values that a graph can take."""
    try:
        inspect.signature(model.forward).bind(*call.args, **call.kwargs)
    except TypeError as error:
        message = f"the example inputs do not fit {type(model).__name__}: {error}"
        hint = f"forward takes {_signature(model)}; write (args, kwargs) to give both kinds"
        raise FxrulesError(Problem(None, "wrong-inputs", message, hint)) from error
    for path, leaf in call.leaves():
        if (problem := _leaf_problem(path, leaf)) is not None:
            raise FxrulesError(problem)


def _leaf_problem(path: str, leaf: Any) -> Problem | None:
    kind = f"{type(leaf).__module__}.{type(leaf).__qualname__}".removeprefix("builtins.")
    match leaf:
        case torch.Tensor():
            if leaf.is_nested or leaf.layout is not torch.strided or leaf.is_quantized:
                look = "nested" if leaf.is_nested else str(leaf.layout).removeprefix("torch.")
                message = f"{path} is a {look} tensor: fxrules works on dense, strided ones"
                return Problem(None, "unsupported-input", message, "convert it first, as with x.to_dense()")
            return None
        case None | bool() | int() | float() | complex() | str() | torch.dtype() | torch.device():
            return None
    if kind == "numpy.ndarray":
        return Problem(None, "unsupported-input", f"{path} is a numpy array", "pass torch.from_numpy(x)")
    hint = "register its class with torch.export.register_dataclass, or pass its tensors"
    return Problem(None, "unsupported-input", f"{path} is an object of class {kind}, which a graph cannot take", hint)


def _apart(call: Call) -> Call:
    """The call with a copy for every repeated tensor: torch.export would read one argument for both."""
    seen: set[int] = set()

    def part(value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or id(value) not in seen:
            seen.add(id(value))
            return value
        return value.detach().clone().requires_grad_(value.requires_grad)

    args, kwargs = pytree.tree_map(part, (call.args, dict(call.kwargs)))
    return Call(args, kwargs)


def _signature(model: torch.nn.Module) -> str:
    """The parameters of ``forward`` by name, with ``=...`` where they have a default: ``(x, mask=...)``."""
    parameters = inspect.signature(model.forward).parameters.values()
    stars: dict[object, str] = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    names = [
        stars.get(one.kind, "") + one.name + ("" if one.default is inspect.Parameter.empty else "=...")
        for one in parameters
    ]
    shown = [*names[:8], "..."] if len(names) > 8 else names
    return f"({', '.join(shown)})"


def _training_nodes(module: GraphModule) -> list[str]:
    """The nodes of an aten graph that do what they do only while training."""
    return [
        node.name
        for node in module.graph.nodes
        if isinstance(node.target, torch._ops.OpOverload)
        and any(
            argument.name in ("train", "training") and value is True
            for argument, value in zip(node.target._schema.arguments, node.args, strict=False)
        )
    ]
