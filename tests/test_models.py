"""The main job: real models, exact counts, the same results on fresh inputs."""

from __future__ import annotations

import copy
from functools import cache
from typing import Any

import models
import pytest
import torch
from models import BATCH_NORMS, LAYERS, TRANSFORMERS
from torch import nn
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node, symbolic_trace

import fxrules

aten = torch.ops.aten
RULES = fxrules.load("std")
FUSIONS = {
    "gpt2": {"std.activation.gelu_tanh": LAYERS, "std.attention.sdpa": LAYERS},
    "bert": {"std.attention.sdpa": LAYERS},
    "vit": {"std.attention.sdpa": LAYERS},
    "llama": {"std.attention.sdpa": LAYERS, "std.normalization.rms_norm": 2 * LAYERS + 1},
}
DTYPES = (torch.float32, torch.bfloat16)


@cache
def program(name: str, dtype: torch.dtype) -> ExportedProgram:
    return torch.export.export(models.build(name, dtype), (), models.draw_inputs(name, dtype))


def fresh(name: str, dtype: torch.dtype) -> Any:
    """Inputs that the export has not seen."""
    return (), models.draw_inputs(name, dtype, seed=1)


def count(model: ExportedProgram | GraphModule, target: torch._ops.OpOverload) -> int:
    return len(model.graph.find_nodes(op="call_function", target=target))


def fusions(report: fxrules.Report) -> dict[str, int]:
    return {name: fired for name, fired in report.fired.items() if "fusion" in RULES[name].tags}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", TRANSFORMERS)
def test_every_layer_is_fused(name: str, dtype: torch.dtype) -> None:
    """In one test for both forms: the export of a model takes longer than all the rest."""
    exported = program(name, dtype)
    check_fused(name, dtype, exported, ExportedProgram)
    check_fused(name, dtype, exported.module(), GraphModule)


def check_fused(name: str, dtype: torch.dtype, before: Any, form: type[ExportedProgram | GraphModule]) -> None:
    result = fxrules.rewrite(before, RULES)
    assert fusions(result.report) == FUSIONS[name]
    assert isinstance(result.model, form)
    assert count(result.model, aten.softmax.int) == 0
    assert count(result.model, aten.matmul.default) == 0
    assert count(result.model, aten.scaled_dot_product_attention.default) == LAYERS
    assert count(result.model, aten.tanh.default) == (1 if name in ("bert", "vit") else 0)  # their poolers have one
    assert count(result.model, aten.rsqrt.default) == 0
    assert count(result.model, aten.dropout.default) == 0
    compared = result.compare(fresh(name, dtype))
    assert compared, str(compared)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        # a bias and a mask on unscaled scores; the mean alone in f32; NewGELU
        ("t5", {"std.attention.sdpa": 2, "std.normalization.rms_norm": 5, "std.activation.gelu_tanh": 2}),
        # the weight of its RMSNorm is 1 + w: the norm is fused without it
        ("gemma", {"std.attention.sdpa": 2, "std.normalization.rms_norm": 5}),
        ("gpt_neox", {"std.attention.sdpa": 2}),
    ],
    ids=models.SMALL,
)
def test_other_ways_of_writing_are_fused_too(name: str, expected: dict[str, int], dtype: torch.dtype) -> None:
    result = fxrules.rewrite(program(name, dtype), RULES)
    assert fusions(result.report) == expected
    compared = result.compare(fresh(name, dtype))
    assert compared, str(compared)


def test_sizes_may_be_symbolic() -> None:
    sizes = {"input_ids": {0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC}}
    inputs = models.draw_inputs("llama")
    exported = torch.export.export(models.build("llama"), (), inputs, dynamic_shapes=sizes)
    result = fxrules.rewrite(exported, RULES)
    assert fusions(result.report) == FUSIONS["llama"]
    longer = {"input_ids": torch.randint(0, 97, (3, 17))}
    compared = result.compare([((), inputs), ((), longer)])
    assert compared, str(compared)


def test_a_second_run_finds_nothing() -> None:
    once = fxrules.rewrite(program("llama", torch.float32), RULES).model
    again = fxrules.rewrite(once, RULES)
    assert dict(again.report.fired) == {}
    assert again.model is once


# ------------------------------------------------------------------------ permuted keys
@cache
def square_gpt2() -> GraphModule:
    """A GPT-2 with as many sentences as heads: two axes of a key can then be swapped by mistake."""
    inputs = {"input_ids": torch.randint(0, 97, (4, 11), generator=torch.Generator().manual_seed(0))}
    return torch.export.export(models.build("gpt2"), (), inputs).module()


def transposed_keys(model: GraphModule) -> list[Node]:
    """The node of each layer that transposes the keys."""
    softmaxes = model.graph.find_nodes(op="call_function", target=aten.softmax.int)
    found = []
    for softmax in softmaxes:
        node = softmax
        while node.target is not aten.matmul.default:
            node = node.args[0]
        found.append(node.args[1])
    return found


@pytest.mark.parametrize(("layers", "left"), [([5], LAYERS - 1), (range(LAYERS), 0)], ids=["one", "all"])
def test_a_key_permuted_on_other_axes_is_not_fused(layers: list[int], left: int) -> None:
    model = copy.deepcopy(square_gpt2())
    keys = transposed_keys(model)
    for layer in layers:
        keys[layer].target = aten.permute.default
        keys[layer].args = (keys[layer].args[0], [1, 0, 3, 2])
    model.recompile()
    result = fxrules.rewrite(model, RULES)
    assert result.report.fired.get("std.attention.sdpa", 0) == left
    assert count(result.model, aten.softmax.int) == LAYERS - left
    inputs = {"input_ids": torch.randint(0, 97, (4, 11))}
    compared = result.compare(((), inputs))
    assert compared, str(compared)


def test_the_permutation_changes_the_model() -> None:
    """Otherwise the test above could not tell a wrong fusion from a right one."""
    model = copy.deepcopy(square_gpt2())
    key = transposed_keys(model)[5]
    key.target, key.args = aten.permute.default, (key.args[0], [1, 0, 3, 2])
    model.recompile()
    inputs = {"input_ids": torch.randint(0, 97, (4, 11))}
    assert not fxrules.compare(square_gpt2(), model, ((), inputs))


# ------------------------------------------------------------------------------ ResNet
def batch_norms(model: GraphModule) -> int:
    return sum(
        node.op == "call_module" and isinstance(model.get_submodule(str(node.target)), nn.BatchNorm2d)
        for node in model.graph.nodes
    )


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_resnet_loses_all_its_batch_norms(dtype: torch.dtype) -> None:
    traced = symbolic_trace(models.resnet(dtype))
    inputs = [(torch.randn(2, 3, 32, 32).to(dtype),) for _ in range(3)]
    result = fxrules.rewrite(traced, RULES, inputs[0], freeze=True)
    assert dict(result.report.fired) == {"std.convolution.fold_batch_norm[conv2d]": BATCH_NORMS}
    assert (batch_norms(traced), batch_norms(result.model)) == (BATCH_NORMS, 0)
    compared = result.compare(inputs[1:])
    assert compared, str(compared)


def test_an_exported_resnet_loses_all_its_batch_norms() -> None:
    inputs = (torch.randn(2, 3, 32, 32),)
    exported = torch.export.export(models.resnet(), inputs)
    result = fxrules.rewrite(exported, RULES, freeze=True)
    assert dict(result.report.fired) == {"std.convolution.fold_batch_norm[conv2d]": BATCH_NORMS}
    assert count(result.model, aten.batch_norm.default) == 0
    assert result.compare((torch.randn(2, 3, 32, 32),))


def test_without_freeze_no_parameter_is_folded_and_the_report_says_so() -> None:
    result = fxrules.rewrite(symbolic_trace(models.resnet()), RULES, (torch.randn(2, 3, 32, 32),))
    (refusal,) = result.report["std.convolution.fold_batch_norm[conv2d]"].refused
    assert dict(result.report.fired) == {}
    assert (refusal.kind, refusal.count) == ("freeze", BATCH_NORMS)


def test_without_shapes_nothing_is_folded_and_the_report_says_so() -> None:
    result = fxrules.rewrite(symbolic_trace(models.resnet()), RULES, freeze=True)
    (refusal,) = result.report["std.convolution.fold_batch_norm[conv2d]"].refused
    assert dict(result.report.fired) == {}
    assert refusal.kind == "missing fact"
    assert "example_inputs" in refusal.reason


def test_folding_leaves_the_original_as_it_was() -> None:
    traced = symbolic_trace(models.resnet())
    before = {name: value.clone() for name, value in traced.state_dict().items()}
    fxrules.rewrite(traced, RULES, (torch.randn(2, 3, 32, 32),), freeze=True)
    assert before.keys() == traced.state_dict().keys()
    assert all(torch.equal(value, traced.state_dict()[name]) for name, value in before.items())
