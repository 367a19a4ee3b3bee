"""Who may read inner values, ``where`` and ``let``, constants and ``freeze``."""

from __future__ import annotations

import operator

import torch
import torch.nn.functional as F
from small_rules import bindings, mismatch, output, relu_of, traced, verdict
from torch.fx import GraphModule

from fxrules.engine.candidates import Match, Mismatch
from fxrules.engine.nodeview import Views


# ------------------------------------------------------------------------ users
def test_an_inner_value_has_no_other_reader() -> None:
    pattern = "rule r(x) {{ match neg(relu(x) as y) {} }}"
    outside = traced(lambda a: (lambda y: (y + 1, -y)[1] + (y * 2))(F.relu(a)))
    root = next(node for node in outside.graph.nodes if node.name == "neg")
    found = verdict(pattern.format(""), outside, root=root)
    assert isinstance(found, Mismatch) and found.kind == "users" and found.node is not None
    assert found.reason == "inner value `relu` is also read by `add`; `keep` a name for it to allow that"
    kept = verdict(pattern.format("keep y"), outside, root=root)
    assert isinstance(kept, Match) and [node.name for node in kept.kept] == ["relu"]
    returned = traced(lambda a: (lambda y: (-y, y))(F.relu(a)))
    root = next(node for node in returned.graph.nodes if node.name == "neg")
    found = verdict(pattern.format(""), returned, root=root)
    assert isinstance(found, Mismatch) and "inner value `relu` is an output of the graph" in found.reason


def test_readers_inside_the_match_and_of_the_root_are_fine() -> None:
    views = traced(lambda a: (lambda y: (y * torch.tanh(y)) * 2)(F.relu(a)))
    root = next(node for node in views.graph.nodes if node.name == "mul")
    found = verdict("rule r(x) { match { y = relu(x)  return y * tanh(y) } }", views, root=root)
    assert isinstance(found, Match) and [node.name for node in found.nodes] == ["mul", "relu", "tanh"]


def test_observers_are_no_readers() -> None:
    views = traced(lambda a: -F.relu(a))
    relu = output(views).args[0]
    with views.graph.inserting_before(output(views)):
        views.graph.call_function(torch.ops.aten._assert_tensor_metadata.default, (relu, None, None, torch.float32))
    assert isinstance(verdict("rule r(x) { match neg(relu(x)) }", views), Match)


SPLIT = 'rule r(x) { match { q, k = chunk(x, 2, dim=-1)  return relu(q) }  where users(k) == 0, "k is needed" }'


def test_items_that_nobody_reads_belong_to_the_match() -> None:
    unread = verdict(SPLIT, traced(lambda a: F.relu(a.chunk(2, -1)[0])))
    assert isinstance(unread, Match) and unread.bindings["k"] is None
    module = torch.fx.symbolic_trace(lambda a: F.relu(a.chunk(2, -1)[0]))
    chunk = next(node for node in module.graph.nodes if node.name == "chunk")
    with module.graph.inserting_after(chunk):
        dead = module.graph.call_function(operator.getitem, (chunk, 1))
    found = verdict(SPLIT, Views(module.graph, module))
    assert isinstance(found, Match) and found.bindings["k"] is dead and dead in found.nodes
    both = traced(lambda a: (lambda pair: (F.relu(pair[0]), pair[1]))(a.chunk(2, -1)))
    root = next(node for node in both.graph.nodes if node.name == "relu")
    refused = verdict(SPLIT, both, root=root)
    assert isinstance(refused, Mismatch) and refused.kind == "users"


# ------------------------------------------------------------------ where and let
def test_where_gives_its_reason() -> None:
    views = traced(lambda a: F.relu(a))
    assert mismatch('rule r(x: Tensor) { match relu(x)  where x.dtype == f16, "only half" }', views) == (
        "where",
        "only half",
    )
    assert mismatch("rule r(x: Tensor) { match relu(x)  where x.rank  ==  2 }", views) == (
        "where", "`x.rank == 2` does not hold",
    )  # fmt: skip
    assert mismatch("rule r(x: Tensor) { match relu(x)  where 1 / 0 == 1 }", views) == (
        "where", "`1 / 0 == 1`: 1 / 0: division by zero",
    )  # fmt: skip
    assert mismatch("rule r(x) { match relu(x)  where x.dtype == f16 }", relu_of(None)) == (
        "missing fact", "dtype of `x` is unknown; pass example_inputs=",
    )  # fmt: skip


def test_let_and_where_run_in_written_order() -> None:
    views = traced(lambda a: (a + 1) + 2)
    text = "rule r(x, a: number, b: number) { match (x + a) + b  let c = a + b  where c == 3  let d, *e = [c, 4, 5] }"
    found = bindings(text, views)
    assert (found["c"], found["d"], found["e"]) == (3, 3, (4, 5))
    found = bindings("rule r(x, a: number) { match (x + a) + _  let s, *t = [a, 2, 3] }", views)
    assert (found["s"], found["t"]) == (1, (2, 3))
    kind, reason = mismatch("rule r(x, a: number) { match (x + a) + _  let b, c = [a] }", views)
    assert (kind, reason) == ("where", "`[a]`: 1 items do not unpack into 2 names")


def test_an_optional_leaf_that_is_absent_is_none() -> None:
    views = traced(lambda a: F.relu(a))
    text = "rule r(x: Tensor, m: {}) {{ match relu(x + m?)  where m is None or m.dtype == f32  let s = m ?? 1 }}"
    found = bindings(text.format("Tensor?"), views)
    assert found["m"] is None and found["s"] == 1
    assert mismatch(text.format("Tensor"), views) == ("type", "`m` is None, its type `Tensor` has no `?`")


# ------------------------------------------------------------------ const, freeze
class Scaled(torch.nn.Module):
    count: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.w = torch.nn.Parameter(torch.tensor([1.0, 2.0]))
        self.register_buffer("count", torch.zeros(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count.add_(1)
        return x * self.w + self.count


FOLD = "rule r(x, w: const float[N]) { match x * w + _  freeze w  let w2 = w * 2 }"


def scaled(training: bool) -> Views:
    module = torch.fx.symbolic_trace(Scaled().train(training))
    return Views(module.graph, module)


def test_folding_needs_freeze_and_eval_mode() -> None:
    views = scaled(training=False)
    folded = bindings(FOLD, views, freeze=True)["w2"]
    assert torch.equal(folded, torch.tensor([2.0, 4.0])) and not folded.requires_grad
    assert mismatch(FOLD, views) == ("freeze", "this bakes parameter values into new constants: pass freeze=True")
    assert mismatch(FOLD, scaled(training=True), freeze=True) == (
        "freeze", "the model is in training mode: call .eval() before folding parameters",
    )  # fmt: skip
    assert mismatch(FOLD.replace("freeze w", ""), views)[0] == "freeze"
    unread = "rule r(x, w: const float[N]) { match x * w + _  freeze w }"
    assert mismatch(unread, views)[0] == "freeze"
    assert bindings(unread, views, freeze=True)["N"] == 2
    assert bindings(unread.replace("freeze w", ""), views)["N"] == 2


def test_an_exported_graph_has_no_training_mode() -> None:
    program = torch.export.export(Scaled().eval(), (torch.randn(2),))
    module = program.module()
    assert isinstance(module, GraphModule)
    views = Views(module.graph, module)
    root = next(node for node in module.graph.nodes if node.name == "add")
    found = verdict(FOLD, views, freeze=True, root=root)
    assert isinstance(found, Match)
    lifted = {name: program.state_dict[target] for name, target in program.graph_signature.inputs_to_parameters.items()}
    root = next(node for node in program.graph.nodes if node.name == "add")
    assert isinstance(verdict(FOLD, Views(program.graph, lifted=lifted), freeze=True, root=root), Match)
    unknown = verdict(FOLD, Views(program.graph), freeze=True, root=root)
    assert isinstance(unknown, Mismatch)
    assert unknown.reason == "`w` must be known at rewrite time: a parameter, or a buffer that nothing writes to"


def test_a_buffer_that_the_program_writes_is_no_constant() -> None:
    module = torch.export.export(Scaled().eval(), (torch.randn(2),)).module()
    assert isinstance(module, GraphModule)
    text = "rule r(b: const Tensor) { match _ + b  freeze b }"
    assert mismatch(text, Views(module.graph, module), freeze=True) == (
        "type",
        "`b` must be known at rewrite time: a parameter, or a buffer that nothing writes to",
    )
