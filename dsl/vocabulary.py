"""The words that the language itself knows: types, dtypes, facts and functions of ``where`` and ``let``.

One frozen table each, shared by the checker, the engine's evaluator and the
language reference. Op names are not here: they come from the op families.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from attrs import frozen


@frozen
class Word:
    """A function of ``where`` and ``let``: how many arguments it takes and what it gives."""

    least: int
    most: int | None
    doc: str


VOCABULARY: Mapping[str, Word] = MappingProxyType(
    {
        # values and lists
        "abs": Word(1, 1, "absolute value of a number or a constant tensor"),
        "all": Word(1, 1, "true if every item of a list is true"),
        "any": Word(1, 1, "true if some item of a list is true"),
        "bool": Word(1, 1, "a number as True or False"),
        "enumerate": Word(1, 1, "the list of (position, item)"),
        "float": Word(1, 1, "a number as a float"),
        "int": Word(1, 1, "a number as an int, rounded towards zero"),
        "len": Word(1, 1, "number of items of a list, a capture such as `*xs`, or a starred dim"),
        "list": Word(1, 1, "the items as a list"),
        "max": Word(1, None, "greatest of a list or of the arguments"),
        "min": Word(1, None, "least of a list or of the arguments"),
        "ones": Word(1, 1, "a list with one 1 for each item: `ones(K)` for a starred dim `*K`"),
        "prod": Word(1, 1, "product of a list, 1 if it is empty"),
        "range": Word(1, 3, "the list of ints `start, start + step, ...` below `stop`"),
        "reversed": Word(1, 1, "the items in reverse order"),
        "sorted": Word(1, 1, "the items in ascending order"),
        "sum": Word(1, 1, "sum of a list, 0 if it is empty"),
        "tuple": Word(1, 1, "the items as a tuple"),
        "zip": Word(2, None, "the list of tuples of items at the same place; the shortest list ends it"),
        # arithmetic
        "ceil": Word(1, 1, "least int that is not below the number"),
        "exp": Word(1, 1, "e to the power of a number or a constant tensor"),
        "floor": Word(1, 1, "greatest int that is not above the number"),
        "is_pow2": Word(1, 1, "true for 1, 2, 4, 8, ..."),
        "log": Word(1, 1, "natural logarithm of a number or a constant tensor"),
        "log2": Word(1, 1, "logarithm to base 2; an int for an int power of two"),
        "rsqrt": Word(1, 1, "1 / sqrt of a number or a constant tensor"),
        "sqrt": Word(1, 1, "square root of a number or a constant tensor"),
        # dtypes
        "finfo": Word(1, 1, "limits of a floating dtype: `max`, `min`, `eps`, `tiny`, `bits`"),
        "iinfo": Word(1, 1, "limits of an integer dtype: `max`, `min`, `bits`"),
        "promote_types": Word(2, 2, "the dtype that torch computes two dtypes in"),
        # the graph
        "broadcastable": Word(2, 2, "true if a tensor (or shape) broadcasts to a shape without growing it"),
        "depends_on": Word(2, 2, "true if the first value is computed, over whatever steps, from the second"),
        "is_const": Word(
            1, 1, "true if the value is known at rewrite time: a number, a parameter, a buffer not written to"
        ),
        "is_contiguous": Word(1, 2, "true if the tensor is dense in row-major order, or in that of a memory format"),
        "is_input": Word(1, 1, "true if the value is an input of the graph"),
        "is_number": Word(1, 1, "true if the value is a Python int or float (not a bool)"),
        "is_output": Word(1, 1, "true if the value is an output of the graph"),
        "is_symbolic": Word(1, 1, "true if the value is a size that is not known yet"),
        "is_tensor": Word(1, 1, "true if the value is a tensor"),
        "op": Word(1, 1, 'name of the op that computes the value; `"input"` or `"constant"` if none does'),
        "path": Word(1, 1, 'module path of the node or module, such as `"encoder.layer.0"`; `""` if it has none'),
        "same": Word(2, 2, "true if both are the same value of the graph, or equal constants"),
        "same_device": Word(1, None, "true if all tensors (or all in the lists) live on one device"),
        "same_dtype": Word(1, None, "true if all tensors (or all in the lists) have one dtype"),
        "same_shape": Word(1, None, "true if all tensors (or all in the lists) have one shape"),
        "user_ops": Word(
            1, 1, 'names of the ops that read the value, in graph order; `"output"` where it leaves the graph'
        ),
        "users": Word(1, 1, "number of nodes that read the value, observers left out"),
        "uses": Word(
            1, 1, "number of places in the whole graph that call the module or read the parameter, by identity"
        ),
        # measures, for `shrinks`
        "count": Word(1, 1, "number of nodes of an op in the graph"),
        "depth": Word(1, 1, "sum over nodes of an op of the number of nodes above it"),
    }
)

MEASURES: frozenset[str] = frozenset({"count", "depth"})
"""The functions that take an op name and stand in ``shrinks`` only."""

FACTS: Mapping[str, str] = MappingProxyType(
    {
        "dtype": "element type of a tensor",
        "device": "where a tensor lives; `.type` and `.index` of it",
        "index": "number of a device, None if it has none",
        "is_complex": "true if the dtype is complex",
        "is_floating_point": "true if the dtype is floating",
        "ndim": "number of dims",
        "numel": "number of elements",
        "rank": "number of dims",
        "requires_grad": "true if autograd follows the tensor",
        "shape": "sizes of the dims, as a list",
        "stride": "strides of the dims, as a list",
        "type": 'kind of a device: `"cpu"`, `"cuda"`, ...',
    }
)
"""What ``.name`` of a tensor, a device or a dtype gives in ``where`` and ``let``."""

CONSTANTS: frozenset[str] = frozenset({"True", "False", "None", "inf", "nan", "pi"})
"""Names with a value of their own, in every expression."""

FORMATS: frozenset[str] = frozenset(
    {"strided", "contiguous_format", "channels_last", "channels_last_3d", "preserve_format"}
)
"""Names of torch layouts and memory formats, in every expression."""

DTYPES: Mapping[str, str] = MappingProxyType(
    {
        "f16": "float16",
        "bf16": "bfloat16",
        "f32": "float32",
        "f64": "float64",
        "f8_e4m3fn": "float8_e4m3fn",
        "f8_e4m3fnuz": "float8_e4m3fnuz",
        "f8_e5m2": "float8_e5m2",
        "f8_e5m2fnuz": "float8_e5m2fnuz",
        "i8": "int8",
        "i16": "int16",
        "i32": "int32",
        "i64": "int64",
        "u8": "uint8",
        "u16": "uint16",
        "u32": "uint32",
        "u64": "uint64",
        "c32": "complex32",
        "c64": "complex64",
        "c128": "complex128",
    }
)
"""Names of single dtypes, with torch's name. ``bool`` is a dtype set of one: see `DTYPE_SETS`."""

DTYPE_SETS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "float": ("f16", "bf16", "f32", "f64"),
        "int": ("i8", "i16", "i32", "i64", "u8"),
        "complex": ("c64", "c128"),
        "bool": ("bool",),
        **{name: (name,) for name in DTYPES},
    }
)
"""What a name in front of ``[...]`` admits: ``float[M, N]`` is a tensor of one of these dtypes."""

VALUE_TYPES: Mapping[str, str] = MappingProxyType(
    {
        "Tensor": "a dense, strided tensor of any dtype; `Tensor[M, N]` with a shape",
        "number": "a Python int or float (not a bool)",
        "int": "a Python int, or a SymInt node; `const int` only a literal",
        "float": "a Python float, or an int",
        "bool": "True or False",
        "complex": "a Python complex number",
        "str": "a string",
        "dtype": "a torch.dtype",
        "device": "a torch.device",
        "layout": "a torch.layout",
        "memory_format": "a torch.memory_format",
    }
)
"""Types that stand without brackets. A leaf without a type is any value."""

COMPARISONS: Mapping[str, str] = MappingProxyType(
    {"==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}
)
"""What a comparison of two values means in graph code."""

NUMERIC_LEVELS: tuple[str, ...] = ("bitwise", "rounding", "approx", "differs")
WAIVERS: tuple[str, ...] = (
    "signed_zero",
    "nan",
    "inf",
    "overflow",
    "underflow",
    "subnormal",
    "fully_masked_rows",
    "gradient",
)
CHANGES: tuple[str, ...] = ("aliasing", "strides", "dtype", "device", "shape")
ASSOCIATIVE: tuple[str, ...] = (
    *("add", "mul", "maximum", "minimum", "logical_and", "logical_or", "logical_xor"),
    *("bitwise_and", "bitwise_or", "bitwise_xor"),
)
"""Ops whose operands ``flat`` sees as one list, and that fold a list in a rewrite: ``add(*xs)``."""

EFFECTS: tuple[str, ...] = ("pure", "commutative", "random", "mutates")
SITUATION: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"device": (), "mode": ("train", "eval"), "level": ("torch", "aten")}
)
"""What the condition of a step knows, and the values that it can have (none listed: a torch.device)."""

STRATEGIES: tuple[str, ...] = ("fixpoint", "once", "sweep")
REQUIREMENTS: tuple[str, ...] = ("fxrules", "torch", "python")
