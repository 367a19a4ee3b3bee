"""What a rewrite does not concern is there afterwards: modules, tensors, hooks, flags, names, shared weights."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import ExportedProgram, export
from torch.fx import GraphModule, symbolic_trace

import fxrules

SWAP = fxrules.load(
    text="rule swap(x: float[...]) { match relu(x) rewrite clamp(x, min=0.0) numerics bitwise except nan }"
)
STD = fxrules.load("std")
X = torch.randn(2, 4, generator=torch.Generator().manual_seed(0))


class Inner(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.register_buffer("scale", torch.full((4,), 2.0))
        self.register_buffer("scratch", torch.ones(4), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = torch.relu(self.linear(x)) * self.get_buffer("scale") + self.get_buffer("scratch") + 0
        return y


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.unused = Inner(), Inner(), Inner()
        self.second.linear.weight = self.first.linear.weight  # tied
        self.alone = nn.Parameter(torch.randn(3), requires_grad=False)
        self.frozen = nn.Linear(4, 4).requires_grad_(False)
        self.first.linear.register_parameter("extra", nn.Parameter(torch.zeros(2)))
        self.drop = nn.Dropout(0.5).eval()

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        y = self.frozen(self.second(self.first(x)))
        return {"main": self.drop(y), "other": torch.relu(y)}


def picture(module: nn.Module) -> dict[str, Any]:
    """All that belongs to a module, by identity where that matters."""
    return {
        "parameters": [(name, id(one)) for name, one in module.named_parameters(remove_duplicate=False)],
        "buffers": [(name, id(one)) for name, one in module.named_buffers(remove_duplicate=False)],
        "modules": [(name, id(one)) for name, one in module.named_modules(remove_duplicate=False) if name],
        "gradients": [(name, one.requires_grad) for name, one in module.named_parameters()],
        "modes": [(name, one.training) for name, one in module.named_modules()],
        "state": [(name, value.data_ptr()) for name, value in module.state_dict().items()],
        "volatile": [(name, sorted(one._non_persistent_buffers_set)) for name, one in module.named_modules()],
        "hooks": [
            (name, *map(list, (one._forward_hooks, one._forward_pre_hooks, one._backward_hooks, one._state_dict_hooks)))
            for name, one in module.named_modules()
        ],
    }  # fmt: skip


def traced() -> GraphModule:
    torch.manual_seed(0)
    model = Net()
    module = symbolic_trace(model)
    module.unused = model.unused
    module.alone = model.alone
    first: Any = module.first
    first.linear.extra = model.first.linear.extra
    return module


def test_a_module_keeps_all_that_it_has() -> None:
    module = traced()
    calls: list[str] = []
    module.register_forward_hook(lambda *_: calls.append("after"))
    module.register_forward_pre_hook(lambda *_: calls.append("before"))
    module.get_submodule("unused").register_forward_hook(lambda *_: calls.append("never"))
    vars(module)["note"] = {"author": "a team"}
    before, wanted = picture(module), module(X)
    code = module.code
    for inplace in (False, True):
        result = fxrules.rewrite(module, SWAP + STD, (X,), inplace=inplace)
        assert result.report.fired["text.swap"] == 3 and (result.model is module) == inplace
        assert picture(result.model) == before
        assert inplace or (picture(module) == before and module.code == code)
        assert vars(result.model)["note"] == {"author": "a team"}
        calls.clear()
        found = result.model(X)
        assert list(found) == list(wanted) and all(torch.equal(found[name], wanted[name]) for name in wanted)
        assert calls == ["before", "after"]


def test_a_program_keeps_its_state_its_signature_and_its_names() -> None:
    torch.manual_seed(0)
    program = export(Net().eval(), (X,))
    before = program.state_dict, program.constants
    result = fxrules.rewrite(program, SWAP + STD)
    assert isinstance(result.model, ExportedProgram) and result.report.fired["text.swap"] == 3
    after = result.model
    assert list(after.state_dict) == list(before[0]) and all(
        after.state_dict[name] is before[0][name] for name in before[0]
    )
    assert list(after.constants) == list(before[1])
    assert after.graph_signature.input_specs == program.graph_signature.input_specs
    assert [one.kind for one in after.graph_signature.output_specs] == [
        one.kind for one in program.graph_signature.output_specs
    ]
    assert [one.arg.name for one in after.graph_signature.output_specs] == [
        one.name for one in after.graph.output_node().args[0]
    ]
    assert after.call_spec == program.call_spec and after.range_constraints == program.range_constraints
    wanted, found = program.module()(X), after.module()(X)
    assert list(found) == list(wanted) and all(torch.equal(found[name], wanted[name]) for name in wanted)


def test_weights_that_are_shared_go_on_being_shared() -> None:
    for form in ("trace", "export"):
        torch.manual_seed(0)
        model = Net().eval()
        result = fxrules.rewrite(model, SWAP, (X,), capture=form)
        first, second = (result.model.get_parameter(f"{name}.linear.weight") for name in ("first", "second"))
        assert first is second and first is model.first.linear.weight
        with torch.no_grad():
            model.first.linear.weight.mul_(2)
        wanted, found = model(X), result.model(X)
        assert all(torch.equal(found[name], wanted[name]) for name in wanted)


def test_what_was_loaded_before_can_be_loaded_after() -> None:
    module = traced()
    result = fxrules.rewrite(module, SWAP, (X,))
    state = {name: torch.randn_like(value) for name, value in module.state_dict().items()}
    assert result.model.load_state_dict(state).missing_keys == []
    wanted = copy.deepcopy(module)
    wanted.load_state_dict(state)
    assert all(torch.equal(result.model(X)[name], value) for name, value in wanted(X).items())


def test_an_input_that_is_called_like_a_builtin_keeps_its_name() -> None:
    program = export(nn.Sequential(nn.Linear(4, 4), nn.ReLU()), (X,))
    assert "input" in [node.name for node in program.graph.nodes]
    result = fxrules.rewrite(program, SWAP)
    assert [node.name for node in result.model.graph.nodes if node.op == "placeholder"] == [
        node.name for node in program.graph.nodes if node.op == "placeholder"
    ]
    assert torch.equal(result.model.module()(X), program.module()(X))
