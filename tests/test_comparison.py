"""Comparing two models: right rewrites pass, wrong ones do not."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from comparing import Function, check, normal
from torch import Tensor, nn

from fxrules.dsl.ast import Numerics
from fxrules.dsl.source import FxrulesError
from fxrules.engine.comparison import compare
from fxrules.engine.contracts import compose
from fxrules.engine.inputs import Call
from fxrules.engine.precision import observe_in_float64

HALF_TYPES = (torch.float16, torch.bfloat16)


def gelu_by_hand(x: Tensor, cubic: float = 0.044715, scale: float = math.sqrt(2 / math.pi)) -> Tensor:
    return 0.5 * x * (1 + torch.tanh(scale * (x + cubic * x**3)))


def gelu(x: Tensor) -> Tensor:
    return F.gelu(x, approximate="tanh")


def layer_norm_by_hand(x: Tensor) -> Tensor:
    mean = x.mean(-1, keepdim=True)
    return (x - mean) / torch.sqrt((x - mean).pow(2).mean(-1, keepdim=True) + 1e-5)


# ---------------------------------------------------------------- rounding
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, *HALF_TYPES], ids=str)
@pytest.mark.parametrize("seed", range(3))
def test_right_rewrites_pass_in_every_float_type(dtype: torch.dtype, seed: int) -> None:
    x = normal(64, 96, dtype=dtype, seed=seed)
    assert check(gelu_by_hand, gelu, x)
    assert check(layer_norm_by_hand, lambda x: F.layer_norm(x, (96,)), x)
    assert check(lambda x: (x + 1) + 2, lambda x: x + 3, x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize(("cubic", "scale"), [(0.0447, 0.7978845608028654), (0.044715, 0.7978), (0.044715, 0.79788)])
def test_slightly_wrong_constants_fail(dtype: torch.dtype, cubic: float, scale: float) -> None:
    assert not check(lambda x: gelu_by_hand(x, cubic, scale), gelu, normal(64, 96, dtype=dtype))


def test_the_oracle_does_not_accuse_the_better_side() -> None:
    """exp(x) - 1 cancels near 0: replacing it by expm1 improves, the other way round is a fault."""
    x = normal(5000) * 1e-3
    assert check(lambda x: torch.exp(x) - 1, torch.expm1, x)
    assert not check(torch.expm1, lambda x: torch.exp(x) - 1, x)


def test_the_bound_is_the_contracts() -> None:
    """Errors that are known: the original errs by e everywhere, the new one by a multiple of it."""
    error = 2.0**-20

    def shifted(by: float) -> Callable[[Tensor], Tensor]:
        # Casting to float64 and back hides the shift from the oracle only: its x is wider than float32.
        return lambda x: x + (by if x.dtype is torch.float32 else 0.0)

    x = torch.ones(4096)
    assert check(shifted(error), shifted(2.0 * error), x)
    assert not check(shifted(error), shifted(2.2 * error), x)
    assert check(shifted(error), shifted(2.2 * error), x, contract=Numerics("rounding", slack=3))
    assert check(shifted(error), shifted(5 * error), x, contract=Numerics("rounding", rtol=4 * error))
    (output,) = check(shifted(error), shifted(-2.0 * error), x).outputs
    assert output.errors is not None
    assert (output.errors.before.rms, output.errors.after.rms) == (error, 2 * error)
    assert output.errors.difference.largest == 3 * error


def test_one_element_far_out_fails_by_its_maximum() -> None:
    def spoil(x: Tensor) -> Tensor:
        y = x / 10
        return torch.cat([y[:1] + 1e-6, y[1:]])

    x = normal(1_000_000)
    assert check(lambda x: x * 0.1, lambda x: x / 10, x)
    (output,) = (result := check(lambda x: x * 0.1, spoil, x)).outputs
    assert not result and output.errors is not None
    assert output.errors.after.rms < 2 * output.errors.before.rms


def test_few_elements_get_a_wider_floor() -> None:
    """The error of a single number is a matter of luck; that of a right rewrite stays within 32 ulp."""
    for seed in range(20):
        assert check(lambda x: x.exp().sum().log(), lambda x: torch.logsumexp(x, 0), normal(1000, seed=seed))
    assert not check(lambda x: x.exp().sum().log(), lambda x: torch.logsumexp(x, 0) + 1e-4, normal(1000))


def test_special_values_must_agree_unless_waived() -> None:
    x = torch.tensor([1.0, 2.0, float("inf"), float("nan"), 0.0])
    waive_nan, waive_inf = (Numerics("rounding", waivers=(name,)) for name in ("nan", "overflow"))
    assert check(lambda x: x * 1, lambda x: x + 0, x)
    assert not check(lambda x: x, lambda x: x.nan_to_num(0.0, float("inf")), x)
    assert check(lambda x: x * 1, lambda x: x.nan_to_num(0.0, float("inf")), x, contract=waive_nan)
    assert not check(lambda x: x * 1, lambda x: x.nan_to_num(float("nan"), 7.0), x, contract=waive_nan)
    assert check(lambda x: x * 1, lambda x: x.nan_to_num(float("nan"), 7.0), x, contract=waive_inf)
    assert not check(lambda x: x * 1, lambda x: x * 1 - torch.where(x == 2, 1.0, 0.0), x, contract=waive_nan)


def test_the_sign_of_zero_counts_unless_waived() -> None:
    x = torch.tensor([-0.0, 1.0])
    assert not check(lambda x: x * 1, lambda x: x + 0, x)
    assert check(lambda x: x * 1, lambda x: x + 0, x, contract=Numerics("rounding", waivers=("signed_zero",)))


def test_bitwise_can_waive_a_set() -> None:
    x = torch.tensor([-0.0, 1.0, float("nan")])
    waive_zero = Numerics("bitwise", waivers=("signed_zero",))
    assert not check(lambda x: x * 1, lambda x: x + 0, x, contract="bitwise")
    assert check(lambda x: x * 1, lambda x: x + 0, x, contract=waive_zero)
    assert not check(lambda x: x * 1, lambda x: x + 1e-7, x, contract=waive_zero)
    assert not check(lambda x: x * 1, lambda x: x.nan_to_num(), x, contract=waive_zero)


def test_choices_among_rounded_numbers_may_tip_as_often_as_before() -> None:
    x = normal(500, 40)
    assert check(lambda x: x.argmax(-1), lambda x: x.topk(1, -1).indices.squeeze(-1), x)
    assert not check(lambda x: x.argmax(-1), lambda x: x.argmin(-1), x)
    assert not check(lambda x: x > 0, lambda x: x > 0.01, x)


def test_a_float64_run_that_is_another_function_is_no_oracle() -> None:
    """Measured against a far-off oracle both sides would err alike, and anything would pass."""

    def by_dtype(x: Tensor) -> Tensor:
        return x * 3 if x.dtype is torch.float32 else x * 100

    result = check(by_dtype, lambda x: x * 3.5, normal(5000))
    assert not result
    assert "the float64 run is far from the original" in result.text


def test_a_wide_output_of_a_narrow_computation_has_an_oracle() -> None:
    """The original is as far from its float64 run as bfloat16 is coarse, not as its float32 output is."""
    x = normal(64, 64, dtype=torch.bfloat16)
    plain, fused = (lambda x: (x * x * x).float()), (lambda x: (x**3).float())
    result = check(plain, fused, x)
    assert result and "compared directly" not in result.text
    assert not check(plain, lambda x: (x**3).float() * 1.05, x)


def test_hard_coded_casts_do_not_spoil_the_oracle() -> None:
    def in_float(x: Tensor) -> Tensor:
        y = torch.softmax(x.float(), -1, dtype=torch.float32) + torch.zeros(8, dtype=torch.float32)
        return torch.matmul(y.to(torch.float32), torch.full((8, 8), 0.1, dtype=torch.float32))

    x = normal(4, 8, dtype=torch.bfloat16)
    exact = torch.softmax(x.double(), -1) @ torch.full((8, 8), 0.1, dtype=torch.float64)
    for module in (Function(in_float), torch.export.export(Function(in_float), (x,)).module()):
        (value,) = observe_in_float64(module, Call((x,))).returned.values()
        assert torch.equal(value, exact)
    assert torch.get_default_dtype() is torch.float32


# ------------------------------------------------------- the other contracts
def test_bitwise() -> None:
    x = normal(100)
    assert check(lambda x: x * 2, lambda x: x + x, x, contract="bitwise")
    assert not check(lambda x: x * 0.1, lambda x: x / 10, x, contract="bitwise")
    nan = torch.tensor([float("nan"), 1.0])
    assert check(lambda x: x, lambda x: -x.neg(), nan, contract="bitwise")
    assert not check(lambda x: x * 1, lambda x: x + 0, torch.tensor([-0.0]), contract="bitwise")


def test_approx() -> None:
    x = normal(100)
    assert check(lambda x: x, lambda x: x * 1.001, x, contract=Numerics("approx", rtol=2e-3))
    assert not check(lambda x: x, lambda x: x * 1.001, x, contract=Numerics("approx", rtol=5e-4))
    assert check(lambda x: x, lambda x: x + 1e-3, x, contract=Numerics("approx", atol=2e-3))
    assert not check(lambda x: x, lambda x: x / (x > 5), x, contract=Numerics("approx", rtol=1.0, atol=100.0))


def test_differs_compares_the_interface_only() -> None:
    x = normal(4, 6)
    assert check(torch.relu, torch.sin, x, contract="differs")
    assert not check(torch.relu, lambda x: torch.sin(x).double(), x, contract="differs")


def test_contracts_that_cannot_be_held() -> None:
    with pytest.raises(FxrulesError, match="did you mean `rounding`"):
        check(torch.relu, torch.relu, normal(2), contract="roundin")
    with pytest.raises(FxrulesError, match="needs rtol or atol"):
        check(torch.relu, torch.relu, normal(2), contract="approx")
    with pytest.raises(FxrulesError, match="did you mean `strides`"):
        check(torch.relu, torch.relu, normal(2), changes=["stride"])


def test_contracts_compose_to_the_weakest() -> None:
    assert compose([]).level == "bitwise"
    clauses = [Numerics("bitwise", waivers=("nan",)), Numerics("rounding", slack=4), Numerics("approx", atol=1e-3)]
    assert compose(clauses) == Numerics("approx", slack=4, atol=1e-3, waivers=("nan",))


# ------------------------------------------------------------ ways of asking
def test_inputs_may_be_one_call_or_several() -> None:
    def scaled(x: Tensor, scale: float = 1.0) -> Tensor:
        return x * scale

    x = normal(3)
    for inputs in (x, (x, 2.0), {"x": x}, ((x,), {"scale": 3.0})):
        assert check(scaled, scaled, inputs).calls == 1
    assert check(scaled, scaled, [(x,), {"x": x, "scale": 2.0}]).calls == 2
    wrong_once = check(scaled, lambda x, scale=1.0: x if scale == 1 else x * 9, [(x,), (x, 2.0)])
    assert not wrong_once
    with pytest.raises(FxrulesError, match="empty list"):
        check(scaled, scaled, [])


def test_modules_graph_modules_and_programs_compare_with_one_another() -> None:
    model, x = nn.Sequential(nn.Linear(8, 8), nn.GELU()), normal(4, 8)
    program = torch.export.export(model, (x,))
    models: list[Any] = [model, program, program.module(), torch.fx.symbolic_trace(model)]
    for old in models:
        for new in models:
            assert compare(old, new, x, contract="bitwise")
    text: Any = "gpt2"
    with pytest.raises(FxrulesError, match="not str"):
        compare(text, model, x)


def test_inputs_on_which_the_original_fails_are_an_error() -> None:
    with pytest.raises(FxrulesError, match="the original model does not run on these inputs: RuntimeError: mat1"):
        compare(nn.Linear(2, 2), nn.Linear(2, 2), normal(3, 3))


def test_random_numbers_are_the_same_on_both_sides_and_the_state_is_put_back() -> None:
    x, state = normal(64, 64), torch.get_rng_state()
    old, new = nn.Dropout(0.3), Function(lambda x: F.dropout(x, 0.3))
    result = compare(old, new, x)
    assert result and all(output.verdict.text == "equal bits" for output in result.outputs)
    wrong = compare(old, Function(lambda x: F.dropout(x, 0.3) * 1.01), x)
    assert not wrong and "draws random numbers" in wrong.notes[0]
    assert torch.equal(torch.get_rng_state(), state)


def test_a_model_without_a_float64_form_is_compared_directly() -> None:
    def only_float(x: Tensor) -> Tensor:
        if x.dtype is not torch.float32:
            raise TypeError("float32 only")
        return x * 0.1

    result = check(only_float, lambda x: x / 10, normal(5000))
    assert result
    assert result.notes == ("the original does not run in float64 (TypeError: float32 only)",)
    assert "compared directly: no float64 oracle" in result.text
    assert not check(only_float, lambda x: x * 0.10001, normal(5000))


# ------------------------------------------------------------------ results
def test_a_result_reads_as_text_and_as_data() -> None:
    result = check(lambda x: x * 2, lambda x: x * 3, torch.ones(4), contract="bitwise", log=["std.double", "std.gelu"])
    assert str(result) == (
        "DIFFER (bitwise; 1 call)\n"
        "  FAIL output  float32[4]  4 of 4 elements differ in their bits\n"
        "  rewritten by: std.double, std.gelu"
    )
    assert result.worst == 1.0
    assert str(check(torch.relu, torch.relu, torch.ones(4))).splitlines()[0] == "agree (rounding; 1 call)"
    data = json.loads(json.dumps(result.to_dict()))
    assert (data["ok"], data["contract"], data["outputs"][0]["unequal"]) == (False, "bitwise", 4)
