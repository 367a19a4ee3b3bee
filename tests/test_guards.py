"""Guards: what a header admits, how sizes unify, who may read inner values, ``where`` and ``let``, ``freeze``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from test_reference import give_facts, load, output
from torch.fx import Graph, GraphModule, Node

from fxrules.engine import reference
from fxrules.engine.candidates import Match, Mismatch
from fxrules.engine.guards import accept
from fxrules.engine.nodeview import Views
from fxrules.engine.shapes import Declared, solve

DYNAMIC = torch.export.Dim("batch", min=2, max=64)


def verdict(text: str, views: Views, *, freeze: bool = False, root: Node | None = None) -> Match | Mismatch:
    """The first match of the text's last rule at the graph's result, or what speaks against the first candidate."""
    rule = load(text)[-1]
    verdicts = [
        accept(rule, candidate, views, freeze=freeze)
        for candidate in reference.candidates(rule, root or output(views), views)
    ]
    assert verdicts, "no candidate"
    return next((one for one in verdicts if isinstance(one, Match)), verdicts[0])


def mismatch(text: str, views: Views, *, freeze: bool = False) -> tuple[str, str]:
    found = verdict(text, views, freeze=freeze)
    assert isinstance(found, Mismatch), found
    return found.kind, found.reason


def bindings(text: str, views: Views, *, freeze: bool = False) -> dict[str, Any]:
    found = verdict(text, views, freeze=freeze)
    assert isinstance(found, Match), found
    return dict(found.bindings)


def relu_of(fact: Any) -> Views:
    """``relu(a)`` where ``a`` carries this fact."""
    graph = Graph()
    a = graph.placeholder("a")
    a.meta["val"] = fact
    graph.output(graph.call_function(torch.relu, (a,)))
    return Views(graph)


# ------------------------------------------------------------------------ kinds
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
        candidate = reference.Candidate(node, {"n": value}, (node,))
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


# ------------------------------------------------------------------------ sizes
SHAPES: dict[str, tuple[list[tuple[str, tuple[int, ...]]], Any]] = {
    "one name, two tensors": ([("[M, K]", (2, 3)), ("[K, N]", (3, 4))], {"M": 2, "K": 3, "N": 4}),
    "they differ": ([("[M, K]", (2, 3)), ("[K, N]", (5, 4))], "`K` is 3, but `x1` has 5 there"),
    "star first": ([("[*B, L, E]", (2, 7, 3, 4))], {"B": (2, 7), "L": 3, "E": 4}),
    "star in the middle": ([("[N, *S, C]", (2, 7, 8, 4))], {"N": 2, "S": (7, 8), "C": 4}),
    "empty star": ([("[*B, L]", (2,))], {"B": (), "L": 2}),
    "stars agree": ([("[*B, L]", (2, 3)), ("[*B, L]", (2, 3))], {"B": (2,), "L": 3}),
    "stars differ": ([("[*B, L]", (2, 3)), ("[*B, L]", (4, 3))], "`*B` is [2] and, in `x1`, [4]"),
    "stars of different length": ([("[*B]", (2, 3)), ("[*B]", (2,))], "`x1` must have 2 dims [*B], it has 1"),
    "two stars, one known": ([("[*B, *C]", (2, 3, 4)), ("[*B]", (2, 3))], {"B": (2, 3), "C": (4,)}),
    "two stars, none known": ([("[*B, *C]", (2, 3, 4))], "the dims [*B, *C] of `x0` cannot be solved"),
    "any dims": ([("[..., D]", (2, 3, 4))], {"D": 4}),
    "number": ([("[1, D]", (1, 4))], {"D": 4}),
    "wrong number": ([("[1, D]", (2, 4))], "a dim of 1 is declared, but `x0` has 2 there"),
    "too few dims": ([("[A, B]", (2,))], "`x0` must have 2 dims [A, B], it has 1"),
    "too many dims": ([("[A]", (2, 3))], "`x0` must have 1 dims [A], it has 2"),
    "too few for a star": ([("[*B, L, E]", (2,))], "`x0` must have at least 2 dims [*B, L, E], it has 1"),
    "multiple": ([("[3 * E]", (12,))], {"E": 4}),
    "no multiple": ([("[3 * E]", (13,))], "`3 * E` cannot be 13, as `x0` has it"),
    "linear": ([("[2 * E - 1]", (7,))], {"E": 4}),
    "negative": ([("[E + 4]", (2,))], "`E` would be negative"),
    "solved by a later one": ([("[A * B]", (12,)), ("[A]", (3,))], {"A": 3, "B": 4}),
    "checked by a later one": ([("[D // 2]", (3,)), ("[D]", (7,))], {"D": 7}),
    "not solvable": ([("[D // 2]", (3,))], "`D // 2` of `x0` cannot be solved"),
    "division by zero": ([("[4 // D]", (4,)), ("[D]", (0,))], "divides by zero"),
    "zero size": ([("[A, A]", (0, 0))], {"A": 0}),
}


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("backwards", [False, True])
def test_sizes(name: str, backwards: bool) -> None:
    """The outcome does not depend on the order of the parameters (which of two is blamed may)."""
    shapes, expected = SHAPES[name]
    declared = [_declared(f"x{i}", dims, sizes) for i, (dims, sizes) in enumerate(shapes)]
    found = solve(declared[::-1] if backwards else declared, {})
    if isinstance(expected, dict):
        assert found == expected
    else:
        assert isinstance(found, Mismatch) and found.kind == "shape"
        assert backwards or expected in found.reason


def _declared(name: str, dims: str, sizes: tuple[int, ...]) -> Declared:
    (rule,) = load(f"rule r(x: Tensor{dims}) {{ match relu(x) }}")
    declared = rule.params["x"].type
    assert declared is not None and declared.dims is not None
    return Declared(name, declared.dims, sizes)


def exported(function: Callable[..., Any], *shapes: tuple[int, ...], dynamic: bool = False) -> Views:
    class Model(torch.nn.Module):
        def forward(self, *args: torch.Tensor) -> Any:
            return function(*args)

    inputs = tuple(torch.randn(shape) for shape in shapes)
    sizes = ({0: DYNAMIC},) * len(shapes) if dynamic else None
    program = torch.export.export(Model(), inputs, dynamic_shapes=(sizes,) if sizes else None)
    return Views(program.graph)


def test_symbolic_sizes_unify_and_bind() -> None:
    views = exported(lambda a, b: a @ b, (4, 3, 5), (4, 5, 6), dynamic=True)
    found = bindings("rule r(x: float[B, M, K], y: float[B, K, N]) { match x @ y  where B >= 2 }", views)
    assert isinstance(found["B"], torch.SymInt) and (found["M"], found["K"], found["N"]) == (3, 5, 6)


def test_a_symbolic_size_is_not_a_number() -> None:
    views = exported(lambda a: torch.relu(a), (4, 3), dynamic=True)
    kind, reason = mismatch("rule r(x: float[4, D]) { match relu(x) }", views)
    assert kind == "missing fact" and "a dim of 4 is declared, but `x` has s" in reason
    kind, reason = mismatch("rule r(x: float[1, D]) { match relu(x) }", views)
    assert (kind, reason.partition(" has ")[0]) == ("shape", "a dim of 1 is declared, but `x`")
    kind, reason = mismatch("rule r(x: float[3 * E, D]) { match relu(x) }", views)
    assert kind == "missing fact" and "`3 * E` cannot be s" in reason


def test_a_symbolic_multiple_is_solved() -> None:
    views = exported(lambda a, b: torch.relu(torch.cat([a, b, a])), (4, 3), (4, 3), dynamic=True)
    found = bindings("rule r(x: float[3 * E, D]) { match relu(x) }", views)
    assert isinstance(found["E"], torch.SymInt) and found["D"] == 3


def test_numbers_and_constants_may_name_sizes() -> None:
    views = exported(lambda a: a.sum(1), (4, 1))
    assert bindings("rule r(x: float[N, d], d: int) { match sum(x, [d]) }", views)["N"] == 4
    assert bindings("const ONE = 1 rule r(x: float[N, ONE]) { match sum(x, _) }", views)["N"] == 4
    assert mismatch("const ONE = 2 rule r(x: float[N, ONE]) { match sum(x, _) }", views) == (
        "shape", "`ONE` is 2, but `x` has 1 there",
    )  # fmt: skip


def test_sizes_in_the_pattern_must_agree() -> None:
    text = "rule r(x: float[*B, D]) {{ match x[..., 0 : {}] }}"
    views = exported(lambda a: a[..., 0:4], (2, 8))
    assert bindings(text.format("D // 2"), views)["D"] == 8
    assert mismatch(text.format("D // 4"), views) == ("shape", "`D // 4` is 2, the graph has 4 there")
    kind, reason = mismatch(text.format("D // (D - 8)"), views)
    assert kind == "shape" and reason == "`D // (D - 8)`: 8 // 0: integer division or modulo by zero"


# ------------------------------------------------------------------------ users
def graph_of(function: Callable[..., Any], shape: tuple[int, ...] = (2, 4)) -> Views:
    module = torch.fx.symbolic_trace(function)
    give_facts(module, shape)
    return Views(module.graph, module)


def test_an_inner_value_has_no_other_reader() -> None:
    pattern = "rule r(x) {{ match neg(relu(x) as y) {} }}"
    outside = graph_of(lambda a: (lambda y: (y + 1, -y)[1] + (y * 2))(F.relu(a)))
    root = next(node for node in outside.graph.nodes if node.name == "neg")
    found = verdict(pattern.format(""), outside, root=root)
    assert isinstance(found, Mismatch) and found.kind == "users" and found.node is not None
    assert found.reason == "inner value `relu` is also read by `add`; `keep` a name for it to allow that"
    kept = verdict(pattern.format("keep y"), outside, root=root)
    assert isinstance(kept, Match) and [node.name for node in kept.kept] == ["relu"]
    returned = graph_of(lambda a: (lambda y: (-y, y))(F.relu(a)))
    root = next(node for node in returned.graph.nodes if node.name == "neg")
    found = verdict(pattern.format(""), returned, root=root)
    assert isinstance(found, Mismatch) and "inner value `relu` is an output of the graph" in found.reason


def test_readers_inside_the_match_and_of_the_root_are_fine() -> None:
    views = graph_of(lambda a: (lambda y: (y * torch.tanh(y)) * 2)(F.relu(a)))
    root = next(node for node in views.graph.nodes if node.name == "mul")
    found = verdict("rule r(x) { match { y = relu(x)  return y * tanh(y) } }", views, root=root)
    assert isinstance(found, Match) and [node.name for node in found.nodes] == ["mul", "relu", "tanh"]


def test_observers_are_no_readers() -> None:
    views = graph_of(lambda a: -F.relu(a))
    relu = output(views).args[0]
    with views.graph.inserting_before(output(views)):
        views.graph.call_function(torch.ops.aten._assert_tensor_metadata.default, (relu, None, None, torch.float32))
    assert isinstance(verdict("rule r(x) { match neg(relu(x)) }", views), Match)


SPLIT = 'rule r(x) { match { q, k = chunk(x, 2, dim=-1)  return relu(q) }  where users(k) == 0, "k is needed" }'


def test_items_that_nobody_reads_belong_to_the_match() -> None:
    unread = verdict(SPLIT, graph_of(lambda a: F.relu(a.chunk(2, -1)[0])))
    assert isinstance(unread, Match) and unread.bindings["k"] is None
    module = torch.fx.symbolic_trace(lambda a: F.relu(a.chunk(2, -1)[0]))
    chunk = next(node for node in module.graph.nodes if node.name == "chunk")
    with module.graph.inserting_after(chunk):
        dead = module.graph.call_function(__import__("operator").getitem, (chunk, 1))
    found = verdict(SPLIT, Views(module.graph, module))
    assert isinstance(found, Match) and found.bindings["k"] is dead and dead in found.nodes
    both = graph_of(lambda a: (lambda pair: (F.relu(pair[0]), pair[1]))(a.chunk(2, -1)))
    root = next(node for node in both.graph.nodes if node.name == "relu")
    refused = verdict(SPLIT, both, root=root)
    assert isinstance(refused, Mismatch) and refused.kind == "users"


# ------------------------------------------------------------------ where and let
def test_where_gives_its_reason() -> None:
    views = graph_of(lambda a: F.relu(a))
    assert mismatch('rule r(x: Tensor) { match relu(x)  where x.dtype == f16, "only half" }', views) == (
        "where",
        "only half",
    )
    assert mismatch("rule r(x: Tensor) { match relu(x)  where x.rank  ==  3 }", views) == (
        "where", "`x.rank == 3` does not hold",
    )  # fmt: skip
    assert mismatch("rule r(x: Tensor) { match relu(x)  where 1 / 0 == 1 }", views) == (
        "where", "`1 / 0 == 1`: 1 / 0: division by zero",
    )  # fmt: skip
    assert mismatch("rule r(x) { match relu(x)  where x.dtype == f16 }", relu_of(None)) == (
        "missing fact", "dtype of `x` is unknown; pass example_inputs=",
    )  # fmt: skip


def test_let_and_where_run_in_written_order() -> None:
    views = graph_of(lambda a: (a + 1) + 2)
    text = "rule r(x, a: number, b: number) { match (x + a) + b  let c = a + b  where c == 3  let d, *e = [c, 4, 5] }"
    found = bindings(text, views)
    assert (found["c"], found["d"], found["e"]) == (3, 3, (4, 5))
    found = bindings("rule r(x, a: number) { match (x + a) + _  let s, *t = [a, 2, 3] }", views)
    assert (found["s"], found["t"]) == (1, (2, 3))
    kind, reason = mismatch("rule r(x, a: number) { match (x + a) + _  let b, c = [a] }", views)
    assert (kind, reason) == ("where", "`[a]`: 1 items do not unpack into 2 names")


def test_an_optional_leaf_that_is_absent_is_none() -> None:
    views = graph_of(lambda a: F.relu(a))
    text = "rule r(x: Tensor, m: {}) {{ match relu(x + m?)  where m is None or m.dtype == f32  let s = m ?? 1 }}"
    found = bindings(text.format("Tensor?"), views)
    assert found["m"] is None and found["s"] == 1
    assert mismatch(text.format("Tensor"), views) == ("type", "`m` is None, its type `Tensor` has no `?`")


# ------------------------------------------------------------------ const, freeze
class Scaled(torch.nn.Module):
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
