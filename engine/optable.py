"""The op table that the checker works with, from the op families; needs no torch."""

from __future__ import annotations

from functools import cache

from ..dsl.signatures import OpParam, OpSignature, OpTable
from .families import FamilyTable, load_table, signature_table
from .signatures import REQUIRED, Param

# How rule files may abbreviate the namespaces of exact targets.
_SHORT = {"torch.nn.functional.": "F.", "torch.nn.": "nn."}


def op_table(table: FamilyTable | None = None) -> OpTable:
    """Every family by bare name, every spelling by qualified name.

    >>> "softmax" in op_table().families, "aten.add.Tensor" in op_table().targets
    (True, True)
    """
    return _built_in() if table is None or not table.own else _built(table)


# The modules of torch that are no op of a family: a module leaf may be one of them all the same.
OTHER_MODULES = (
    "AdaptiveLogSoftmaxWithLoss", "CrossMapLRN2d", "DataParallel", "FractionalMaxPool2d", "FractionalMaxPool3d", "GRU",
    "GRUCell", "Identity", "InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d", "LSTM", "LSTMCell",
    "LinearCrossEntropyLoss", "MultiheadAttention", "RNN", "RNNCell", "Sequential", "SyncBatchNorm", "Transformer",
    "TransformerDecoder", "TransformerDecoderLayer", "TransformerEncoder", "TransformerEncoderLayer",
    "TripletMarginWithDistanceLoss",
)  # fmt: skip


@cache
def _built_in() -> OpTable:
    return _built(load_table())


def _built(table: FamilyTable) -> OpTable:
    families = {
        name: OpSignature(tuple(map(_param, signature.params)), signature.commutative)
        for name, signature in signature_table(table).items()
    }
    targets: dict[str, OpSignature] = {}
    modules = {f"{package}.{name}" for package in ("torch.nn", "nn") for name in OTHER_MODULES}
    for target, names in table.names_by_target.items():
        if target.startswith("torch.nn.") and not target.startswith("torch.nn.functional."):
            modules |= {target, _short(target)}
        elif not target.startswith(("Tensor.", "getattr.")):
            # the target's own signature may differ from the family's: arity is checked when the rule is compiled
            targets[target] = targets[_short(target)] = families[names[0]]
    packages = {target.partition(".")[0] for target in (*targets, *modules)}
    return OpTable(families, targets, frozenset(packages), frozenset(modules))


def _short(target: str) -> str:
    for long, short in _SHORT.items():
        if target.startswith(long):
            return short + target.removeprefix(long)
    return target


def _param(param: Param) -> OpParam:
    optional = param.default is not REQUIRED
    takes_none = param.default is None or "?" in param.type
    return OpParam(param.name, not optional, takes_none, param.keyword_only, param.varargs, param.type)
