"""Changed strides: followed until they agree, restored by a contiguous copy, or refused."""

from __future__ import annotations

import torch
from sites import calls, done, exported, node_of, refused, rule_of, run
from torch import Tensor

import fxrules

X = torch.linspace(-2, 2, 12).view(3, 4)
TURNED = 'rule r(x: f32[N, M]) { match neg(relu(x)) rewrite contiguous(x.mT).mT numerics differs "t" changes strides }'


def test_changed_strides_are_followed_until_they_agree() -> None:
    site = exported(lambda x: torch.exp(torch.neg(torch.relu(x))).sum(0), X)
    applied = done(site.rewrite(rule_of(TURNED)))
    assert applied.notes == ()
    assert node_of(site.graph, "exp").meta["val"].stride() == (1, 3)
    assert run(site, X).stride() == node_of(site.graph, "sum_1").meta["val"].stride() == (1,)


def test_a_later_view_that_would_fail_gets_a_contiguous_copy() -> None:
    site = exported(lambda x: torch.exp(torch.neg(torch.relu(x)).view(-1)), X)
    applied = done(site.rewrite(rule_of(TURNED)))
    assert applied.notes[0].startswith("inserted a contiguous copy, since `view` does not run on its inputs")
    assert calls(site.graph)[-3:] == ["contiguous.default", "view.default", "exp.default"]
    assert torch.equal(run(site, X), X.exp().view(-1))


def test_an_output_keeps_its_strides_by_a_contiguous_copy() -> None:
    site = exported(lambda x: torch.neg(torch.relu(x)), X)
    applied = done(site.rewrite(rule_of(TURNED)))
    assert applied.notes == ("inserted a contiguous copy, since an output of the graph would get other strides",)
    assert run(site, X).stride() == (4, 1)


def test_strides_that_cannot_be_restored_are_refused() -> None:
    site = exported(lambda x: torch.neg(torch.relu(x)), X.t().contiguous().t())
    outcome = refused(site, TURNED.replace("contiguous(x.mT).mT", "contiguous(x)"))
    assert outcome.reason == "the change of facts goes too far: an output of the graph would get other strides"


def test_views_behind_a_new_value_share_its_fake_memory() -> None:
    site = exported(lambda x: torch.exp(torch.neg(torch.relu(x)).view(-1)), X)
    (new,) = done(site.rewrite(rule_of("rule r(x: Tensor) { match neg(relu(x)) rewrite tanh(x) }"))).new_nodes
    view = node_of(site.graph, "view").meta["val"]
    assert view.untyped_storage()._cdata == new.meta["val"].untyped_storage()._cdata


def test_observers_do_not_mind() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        y = torch.neg(torch.relu(x))
        torch.ops.aten._assert_tensor_metadata(y, None, None, torch.float32)
        return torch.exp(y).sum(0)

    site = exported(function, X)
    assert done(site.rewrite(rule_of(TURNED))).notes == ()
    assert "_assert_tensor_metadata.default" in calls(site.graph)
    torch.testing.assert_close(run(site, X), X.exp().sum(0))


def test_what_has_effects_does_not_see_other_strides() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        y = torch.neg(torch.relu(x))
        y.add_(1)
        return y.exp().sum(0)

    site = exported(function, X)
    assert done(site.rewrite(rule_of(TURNED))).notes == ("inserted a contiguous copy, since `add_` would see it",)


def test_a_copy_that_becomes_a_view_is_known_as_one() -> None:
    """`reshape` copied what was transposed; it views what is contiguous now."""
    rule = rule_of("rule r(x: f32[N, M]) { match neg(relu(x)).mT rewrite contiguous(x.mT) changes strides }")
    site = exported(lambda x: torch.neg(torch.relu(x)).mT.reshape(-1).exp(), X)
    done(site.rewrite(rule))
    reshape, copy = node_of(site.graph, "reshape"), node_of(site.graph, "contiguous")
    assert reshape.meta["val"].untyped_storage()._cdata == copy.meta["val"].untyped_storage()._cdata


def test_a_random_op_must_not_see_other_strides() -> None:
    """It draws its numbers in the order of memory: other strides would give them to other elements."""
    text = """
rule own(x: Tensor) { match transpose(x, 0, 1) rewrite contiguous(transpose(x, 0, 1)) changes aliasing, strides }"""
    rules = fxrules.load(text=text)

    def forward(x: Tensor) -> Tensor:
        return torch.nn.functional.dropout(torch.transpose(torch.exp(x), 0, 1), 0.5, True)

    x = torch.randn(3, 4)
    model = torch.fx.symbolic_trace(forward)
    result = fxrules.rewrite(model, rules, (x,), stop_after=1)
    torch.manual_seed(0)
    expected = model(x)
    torch.manual_seed(0)
    torch.testing.assert_close(result.model(x), expected, rtol=0, atol=0)
    assert not result.report.fired and "draws random numbers in the order of memory" in str(result.report)
