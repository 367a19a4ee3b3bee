"""What a header admits: dtypes, dense tensors, Python numbers and other values."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from small_rules import bindings, load, mismatch, relu_of, verdict
from torch.fx import Graph

from fxrules.engine.candidates import Candidate, Match, Mismatch
from fxrules.engine.guards import accept
from fxrules.engine.nodeview import Views

TENSORS = {
    "Tensor": [torch.float32, torch.int64, torch.bool, torch.complex64, torch.float8_e4m3fn],
    "float[...]": [torch.float32, torch.float16, torch.bfloat16, torch.float64],
    "int[...]": [torch.int64, torch.uint8],
    "bool[...]": [torch.bool],
    "complex[...]": [torch.complex64],
    "f32|f64[...]": [torch.float32, torch.float64],
    "bf16": [torch.bfloat16],
    "float|int[...]": [torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int64, torch.uint8],
}


@pytest.mark.parametrize("declared", TENSORS)
def test_dtypes_that_a_type_admits(declared: str) -> None:
    every = {dtype for dtypes in TENSORS.values() for dtype in dtypes}
    for dtype in every:
        found = verdict(f"rule r(x: {declared}) {{ match relu(x) }}", relu_of(torch.empty(2, dtype=dtype)))
        assert isinstance(found, Match) is (declared == "Tensor" or dtype in TENSORS[declared]), dtype


@pytest.mark.filterwarnings("ignore:.*(nested tensors|quantize_per_tensor).*:UserWarning")
def test_what_is_no_dense_tensor_is_refused_with_a_reason() -> None:
    class Special(torch.Tensor):
        pass

    wrong = {
        torch.ones(2, 2).to_sparse(): "`x` is a tensor of layout torch.sparse_coo",
        torch.nested.nested_tensor([torch.ones(2)]): "`x` is a nested tensor",
        torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.quint8): "`x` is a quantised tensor",
        torch.ones(2).as_subclass(Special): "`x` is a Special",
    }
    for fact, reason in wrong.items():
        found = mismatch("rule r(x: Tensor) { match relu(x) }", relu_of(fact))
        assert found == ("type", f"{reason}; rules take dense strided tensors only")
    assert bindings("rule r(x: Tensor) { match relu(x) }", relu_of(torch.nn.Parameter(torch.ones(2))))


VALUES: dict[str, list[tuple[Any, bool]]] = {
    "number": [(2, True), (2.5, True), (True, False), ("a", False), (None, False)],
    "number?": [(2, True), (None, True)],
    "int": [(2, True), (2.5, False), (True, False)],
    "const int": [(2, True)],
    "float": [(2, True), (2.5, True), (True, False)],
    "bool": [(True, True), (1, False), (0.0, False)],
    "complex": [(2j, True), (2, False)],
    "str": [("a", True), (2, False)],
    "dtype": [(torch.float16, True), ("f16", False)],
    "device": [(torch.device("cpu"), True), ("cpu", False)],
    "memory_format": [(torch.channels_last, True), (1, False)],
    "int|str": [(2, True), ("a", True), (2.5, False)],
    "Tensor": [(2, False), (None, False)],
    "Tensor?": [(2, False), (None, True)],
    "Tensor|number": [(2, True), ("a", False)],
}


@pytest.mark.parametrize("declared", VALUES)
def test_values_that_a_type_admits(declared: str) -> None:
    graph = Graph()
    a = graph.placeholder("a")
    for value, expected in VALUES[declared]:
        node = graph.call_function(torch.add, (a, 1))
        rule = load(f"rule r(n: {declared}) {{ match relu(_) }}")[0]
        candidate = Candidate(node, {"n": value}, (node,))
        found = accept(rule, candidate, Views(graph), freeze=False)
        assert isinstance(found, Match) is expected, value
        if isinstance(found, Mismatch):
            assert found.kind == "type" and found.reason.startswith("`n` ")


def test_reasons_for_a_wrong_kind() -> None:
    views = relu_of(torch.ones(2, dtype=torch.int64))
    assert mismatch("rule r(x: float[...]) { match relu(x) }", views) == (
        "type", "`x` must be a `float[...]`, it has dtype int64",
    )  # fmt: skip
    assert mismatch("rule r(x: number) { match relu(x) }", views) == (
        "type", "`x` must be a `number`, it is a tensor of dtype int64",
    )  # fmt: skip
    assert mismatch("rule r(x: Tensor) { match relu(x) }", relu_of(None)) == (
        "missing fact", "dtype and shape of `x` are unknown; pass example_inputs=",
    )  # fmt: skip
    assert bindings("rule r(x) { match relu(x) }", relu_of(None))["x"].name == "a"
