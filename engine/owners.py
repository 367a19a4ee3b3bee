"""New constants and modules: where a graph's owner keeps them, and how it gains one."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from keyword import iskeyword

import torch
from torch import Tensor, nn
from torch.export import ExportedProgram, ModuleCallEntry
from torch.export.graph_signature import ExportGraphSignature, InputKind, InputSpec, TensorArgument
from torch.fx import GraphModule, Node

from .journal import Journal, ModuleOwner, NewConstant, ProgramOwner


def add_constant(journal: Journal, value: Tensor, hint: str, before: Node) -> Node | None:
    """A node that reads a new constant; None where the graph has no owner to keep it.

    Floating values become parameters that do not learn, others buffers. The value is
    copied, so that later changes of its sources do not reach it.
    """
    constant = _constant(value)
    match journal.owner:
        case ModuleOwner(module):
            name = fresh_name(hint, _attributes(module))
            journal.touch_module(module)
            if isinstance(constant, nn.Parameter):
                module.register_parameter(name, constant)
            else:
                module.register_buffer(name, constant)
            return read_constant(journal, name, before)
        case ProgramOwner(program):
            return _add_placeholder(journal, program, constant, hint)
    return None


def read_constant(journal: Journal, constant: str | Node, before: Node) -> Node:
    """A node that reads an attribute by its dotted path; a program's placeholder is read as it is."""
    if isinstance(constant, Node):
        return constant
    return journal.create("get_attr", constant, before=before, name=constant.replace(".", "_"))


def add_module(journal: Journal, module: nn.Module, hint: str) -> str | None:
    """Hang a new submodule on the owner and return its name; None where the owner cannot hold one."""
    match journal.owner:
        case ModuleOwner(owner):
            name = fresh_name(hint, _attributes(owner))
            journal.touch_module(owner)
            module.train(owner.training)
            owner.add_module(name, module)
            return name
    return None


def fresh_name(hint: str, taken: Iterable[str]) -> str:
    """A valid identifier after ``hint`` that is no first part of any taken name.

    >>> fresh_name("conv.w2", ["conv_w2", "conv_w2_1.weight"])
    'conv_w2_2'
    """
    base = "".join(char if char.isascii() and (char.isalnum() or char == "_") else "_" for char in hint)
    base = base if base.isidentifier() else f"_{base}"
    heads = {name.partition(".")[0] for name in taken}
    name, number = base, 0
    while name in heads or iskeyword(name):
        number += 1
        name = f"{base}_{number}"
    return name


def _attributes(module: nn.Module) -> set[str]:
    return {*dir(module)}


def _constant(value: Tensor) -> Tensor:
    with torch.no_grad(), torch.inference_mode(False):
        copied = value.detach().clone()
    return nn.Parameter(copied, requires_grad=False) if copied.is_floating_point() else copied


def _add_placeholder(journal: Journal, program: ExportedProgram, value: Tensor, hint: str) -> Node:
    known = [*program.state_dict, *program.constants, *(new.target for new in journal.constants)]
    target = fresh_name(hint, known)
    kind = InputKind.PARAMETER if isinstance(value, nn.Parameter) else InputKind.BUFFER
    placeholders = [node for node in journal.graph.nodes if node.op == "placeholder"]
    after = placeholders[: _position(_kinds(journal, program, placeholders), kind)]
    before = after[-1].next if after else next(iter(journal.graph.nodes))
    prefix = "p_" if kind is InputKind.PARAMETER else "b_"
    node = journal.create("placeholder", prefix + target, before=before)
    journal.list_constant(NewConstant(node, target, value))
    return node


def _kinds(journal: Journal, program: ExportedProgram, placeholders: Sequence[Node]) -> list[InputKind]:
    """The kind of every placeholder, in order."""
    new = {constant.placeholder: _kind(constant) for constant in journal.constants}
    specs = iter(program.graph_signature.input_specs)
    return [new[node] if node in new else next(specs).kind for node in placeholders]


def _kind(constant: NewConstant) -> InputKind:
    return InputKind.PARAMETER if isinstance(constant.value, nn.Parameter) else InputKind.BUFFER


def _position(kinds: Sequence[InputKind], kind: InputKind) -> int:
    """Where a new input of ``kind`` goes: programs take tokens, parameters, buffers, then the rest."""
    order = [InputKind.TOKEN, InputKind.PARAMETER, InputKind.BUFFER]
    earlier = order[: order.index(kind) + 1]
    return max((index + 1 for index, other in enumerate(kinds) if other in earlier), default=0)


def updated_program(
    program: ExportedProgram, graph_module: GraphModule, constants: Sequence[NewConstant]
) -> ExportedProgram:
    """A program that runs a rewritten copy of ``program``'s graph, with its new constants.

    Parameters and buffers are shared with ``program``, which stays as it is. Raises
    torch's ``SpecViolationError`` where the graph is no valid program.
    """
    state = dict(program.state_dict)
    state.update({constant.target: constant.value for constant in constants})
    return ExportedProgram(
        root=graph_module,
        graph=graph_module.graph,
        graph_signature=_updated_signature(program.graph_signature, graph_module, constants),
        state_dict=state,
        range_constraints=copy.copy(program.range_constraints),
        module_call_graph=_updated_calls(program, graph_module),
        example_inputs=program.example_inputs,
        constants=dict(program.constants),
        verifiers=program.verifiers,
    )


def _updated_calls(program: ExportedProgram, graph_module: GraphModule) -> list[ModuleCallEntry]:
    """The calls of submodules; one whose inputs or outputs are gone is no longer told apart."""
    names = {node.name for node in graph_module.graph.nodes}
    # entry by entry: a deep copy would copy pytree specs, which warns
    calls = [copy.copy(entry) for entry in program.module_call_graph]
    for call in calls:
        if call.fqn and call.signature is not None:
            known = (getattr(value, "name", None) for value in (*call.signature.inputs, *call.signature.outputs))
            if any(name and name not in names for name in known):
                call.signature = None
    return calls


def _updated_signature(
    signature: ExportGraphSignature, graph_module: GraphModule, constants: Sequence[NewConstant]
) -> ExportGraphSignature:
    by_name = {constant.placeholder.name: constant for constant in constants}
    old = iter(signature.input_specs)
    inputs = []
    for node in graph_module.graph.nodes:
        if node.op != "placeholder":
            break
        inputs.append(_input_spec(by_name[node.name]) if node.name in by_name else copy.deepcopy(next(old)))
    outputs = copy.deepcopy(signature.output_specs)
    results = graph_module.graph.output_node().args[0]
    for spec, value in zip(outputs, results if isinstance(results, tuple | list) else (), strict=True):
        if isinstance(value, Node) and hasattr(spec.arg, "name"):
            spec.arg.name = value.name
    return ExportGraphSignature(inputs, outputs)


def _input_spec(constant: NewConstant) -> InputSpec:
    kind = _kind(constant)
    persistent = True if kind is InputKind.BUFFER else None
    return InputSpec(kind, TensorArgument(constant.placeholder.name), constant.target, persistent)


def lifted_values(program: ExportedProgram) -> dict[str, Tensor]:
    """The tensors behind a program's placeholders, by placeholder name; those it mutates are left out."""
    signature = program.graph_signature
    mutated = set(signature.buffers_to_mutate.values()) | set(signature.parameters_to_mutate.values())
    named = {
        **signature.inputs_to_parameters,
        **signature.inputs_to_buffers,
        **signature.inputs_to_lifted_tensor_constants,
    }
    values = {**program.constants, **program.state_dict}
    return {
        placeholder: values[target]
        for placeholder, target in named.items()
        if target not in mutated and isinstance(values.get(target), Tensor)
    }
