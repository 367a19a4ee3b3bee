"""The table of op families: generated, complete, and every spelling of a family means the same."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
import torch
from op_samples import aten_calls, public_callables
from torch import nn

from fxrules.engine.families import REQUIRED, load_table, signature_table
from fxrules.engine.signatures import Bound
from fxrules.engine.tools.generate_families import TABLE, build, text_of

UNCOVERED = Path(__file__).parent / "cases" / "uncovered_callables.json"
HOMES = ("torch.", "torch.nn.functional.", "Tensor.", "operator.")
TABLE_TARGETS = load_table().names_by_target


def callables_of_the_issue() -> set[str]:
    """Functions of torch, torch.nn.functional, Tensor and operator, and the module classes of torch.nn."""
    functions = {
        name
        for name in public_callables()
        if name.startswith(HOMES[1:]) or (name.startswith("torch.") and name.count(".") == 1)
    }
    return functions | {
        f"torch.nn.{name}"
        for name, value in vars(nn).items()
        if isinstance(value, type) and issubclass(value, nn.Module)
    }


def listed() -> Mapping[str, str]:
    reasons = json.loads(UNCOVERED.read_text(encoding="utf-8"))
    return {name: reason for reason, names in reasons.items() for name in names}


def test_the_committed_table_is_what_torch_says_today() -> None:
    assert text_of(build()) == TABLE.read_text(encoding="utf-8")


def test_every_public_callable_is_covered_or_listed_with_a_reason() -> None:
    callables, reasons = callables_of_the_issue(), listed()
    assert len(callables) > 1500
    assert {name for name in callables if name not in TABLE_TARGETS and name not in reasons} == set()
    assert {name for name in reasons if name in TABLE_TARGETS} == set(), "listed though covered"
    assert set(reasons) - callables == set(), "listed though torch has no such callable"
    assert all(len(reason) > 10 for reason in reasons.values())


def test_nine_in_ten_of_what_traces_to_one_aten_call_is_covered() -> None:
    callables = callables_of_the_issue()
    calls = aten_calls()
    single = {name for name in callables if len(calls.get(name, ())) == 1}
    # what no sample reaches, but is a builtin by the name of an ATen op, is one call of it
    single |= {name for name in callables - calls.keys() if hasattr(torch.ops.aten, name.rpartition(".")[2])}
    covered = {name for name in single if name in TABLE_TARGETS}
    assert len(single) > 1000
    assert len(covered) >= 0.97 * len(single), sorted(single - covered)


def test_forms_leave_no_tensor_out() -> None:
    """A tensor that some spelling has no place for would make it another op; here it is None by the schemas."""
    lacking = set()
    for name in load_table().entries:
        family = load_table().families[name]
        for form in family.forms:
            said = {role.index for role in form.roles if isinstance(role, Bound)} | {at for at, _ in form.constants}
            lacking |= {
                (name, param.name)
                for at, param in enumerate(family.params)
                if at not in said and param.type.startswith("Tensor")
            }
    assert lacking == {
        ("bernoulli", "p"),
        ("cumulative_trapezoid", "x"),
        ("set_", "source"),
        ("sparse_coo_tensor", "indices"),
        ("sparse_coo_tensor", "values"),
        ("trapezoid", "x"),
    }


@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("batch_norm", "input running_mean running_var weight bias training momentum eps"),
        ("dropout", "input p training inplace"),
        ("softmax", "input dim dtype"),
        ("layer_norm", "input normalized_shape weight bias eps"),
        ("sub", "input other alpha"),
        ("to", "input dtype device layout non_blocking copy memory_format"),
        ("embedding", "input weight padding_idx scale_grad_by_freq sparse"),
        ("conv2d", "input weight bias stride padding dilation groups"),
        ("scaled_dot_product_attention", "query key value attn_mask dropout_p is_causal scale enable_gqa"),
        ("cat", "tensors dim"),
        ("getitem", "input index"),
        ("std", "input dim correction keepdim"),
        ("max_pool2d", "input kernel_size stride padding dilation ceil_mode"),
    ],
)
def test_signatures_are_those_that_users_know(name: str, params: str) -> None:
    assert [param.name for param in signature_table()[name].params] == params.split()
    assert [param.name for param in load_table().families[name].params] == params.split()


def test_other_names_of_an_op_are_that_op() -> None:
    families = load_table().families
    for name, base in {
        "concat": "cat",
        "swapaxes": "transpose",
        "divide": "div",
        "clip": "clamp",
        "numpy_T": "T",
    }.items():
        assert families[name] is families[base]
        assert signature_table()[name] == signature_table()[base]


def test_defaults_are_as_views_have_them() -> None:
    families = load_table().families
    assert families["conv2d"].params[3].default == (1, 1)
    assert families["to"].params[-1].default is torch.preserve_format
    assert families["softmax"].params[1].default is REQUIRED
    assert families["add"].params[2].default == 1


def test_signatures_can_be_read_without_torch() -> None:
    code = (
        "import sys; from fxrules.engine.families import signature_table; "
        "assert 'softmax' in signature_table(); assert 'torch' not in sys.modules"
    )
    import subprocess

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
