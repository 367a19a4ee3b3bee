"""Hypothesis strategies for trees of `.rules` files: every class, comments too."""

from __future__ import annotations

from inspect import cleandoc
from typing import Any

import attrs
from hypothesis import strategies as st

from fxrules.dsl import ast

# Plain names, names of ops and types, and words that are keywords elsewhere.
_WORDS = """x y z w q k a1 _ _b B D scale cfg relu softmax Tensor float f32 None True pi
limit on when except module"""
NAMES = st.sampled_from(_WORDS.split())
DOTTED = st.lists(NAMES, min_size=1, max_size=3).map(".".join)
TEXTS = st.text(st.characters(codec="utf-8"), max_size=8)
NUMBERS = st.one_of(st.integers(0, 12), st.integers(0, 10**30), st.floats(0, allow_nan=False, allow_infinity=False))
COMMENTS = st.text(st.characters(min_codepoint=32, max_codepoint=0x2FF, exclude_characters="\x7f"), max_size=12).map(
    lambda text: f"# {text}".rstrip()
)
_DOC_LINES = st.text(st.characters(min_codepoint=32, max_codepoint=126) | st.sampled_from('"\\é'), max_size=12)
DOCS = st.lists(_DOC_LINES, min_size=1, max_size=3).map(
    lambda lines: cleandoc("\n".join(line.rstrip() for line in lines))
)


def tuples(items: st.SearchStrategy, least: int = 0, most: int = 3) -> st.SearchStrategy:
    return st.lists(items, min_size=least, max_size=most).map(tuple)


# ------------------------------------------------------------- expressions
_LEAVES = st.one_of(
    st.builds(ast.Name, NAMES),
    st.builds(ast.Number, NUMBERS, st.none() | st.floats(0, 1)),
    st.builds(ast.String, TEXTS),
    st.builds(ast.Special, st.sampled_from(["out", "any"])),
)
_BINARY = ["+", "-", "*", "/", "//", "%", "@", "**", "<<", ">>", "&", "^", "|", "??"]
_COMPARISONS = ["==", "!=", "<", "<=", ">", ">=", "in", "not in", "is", "is not"]


def _larger(inner: st.SearchStrategy) -> st.SearchStrategy:
    """Expressions made of smaller ones: each class once."""
    star = st.builds(ast.Star, inner)
    slices = st.builds(ast.Slice, st.none() | inner, st.none() | inner, st.none() | inner)
    args = st.one_of(
        inner, st.builds(ast.Keyword, NAMES, inner), star, st.builds(ast.StarStar, NAMES), st.builds(ast.Dots)
    )
    return st.one_of(
        st.builds(ast.Attribute, inner, NAMES),
        st.builds(ast.Call, st.builds(ast.Name, NAMES) | inner, tuples(args)),
        st.builds(ast.Flat, st.builds(ast.Call, st.builds(ast.Name, NAMES), tuples(args))),
        st.builds(ast.Index, inner, tuples(inner | slices | st.builds(ast.Dots), 1)),
        st.builds(ast.Optional, inner),
        st.builds(ast.Unary, st.sampled_from(["-", "~", "not"]), inner),
        st.builds(ast.Binary, st.sampled_from(_BINARY), inner, inner),
        tuples(inner, 2).flatmap(
            lambda operands: st.builds(
                ast.Compare,
                tuples(st.sampled_from(_COMPARISONS), len(operands) - 1, len(operands) - 1),
                st.just(operands),
            )
        ),
        st.builds(ast.And, tuples(inner, 2)),
        st.builds(ast.Or, tuples(inner, 2)),
        st.builds(ast.IfElse, inner, inner, inner),
        st.builds(ast.As, inner, NAMES),
        st.builds(ast.Through, inner, DOTTED),
        st.builds(ast.Tuple, tuples(inner)),
        st.builds(ast.List, tuples(inner | star)),
        st.builds(ast.Dict, tuples(st.tuples(inner, inner), 0, 2)),
        st.builds(ast.Comprehension, inner, NAMES, inner, st.none() | inner),
    )


EXPRS = st.recursive(_LEAVES, _larger, max_leaves=10)
SMALL = st.recursive(_LEAVES, _larger, max_leaves=3)

# ---------------------------------------------------------- bodies, headers
_STARRED = NAMES.map("*{}".format)
_TARGETS = st.builds(lambda first, rest: (first, *rest), NAMES, st.lists(NAMES | _STARRED, max_size=2))
ASSIGNS = st.builds(ast.Assign, _TARGETS, SMALL)
BLOCKS = st.builds(ast.Block, tuples(ASSIGNS), tuples(SMALL | st.builds(ast.Star, SMALL), 1))
_DIMS = st.one_of(SMALL, st.builds(ast.StarDim, NAMES), st.builds(ast.Dots))
TYPES = st.builds(
    ast.Type,
    tuples(DOTTED, 1),
    st.sampled_from([None, "const", "module", "konst"]),
    st.none() | tuples(_DIMS),
    st.booleans(),
)
PARAMS = st.builds(ast.Param, NAMES, st.none() | TYPES, st.none() | SMALL, st.booleans(), st.booleans())

# ------------------------------------------------------ clauses, statements
_NAME_LISTS = tuples(NAMES, 1)
_SETTINGS = st.none() | st.floats(-1e9, 1e9).map(lambda value: value + 0.0)
CLAUSES = st.one_of(
    st.builds(ast.Match, BLOCKS),
    st.builds(ast.Where, EXPRS, st.none() | TEXTS),
    st.builds(ast.Let, ASSIGNS),
    st.builds(ast.Keep, _NAME_LISTS),
    st.builds(ast.Freeze, _NAME_LISTS),
    st.builds(ast.Rewrite, BLOCKS),
    st.builds(ast.RewriteVia, SMALL),
    st.builds(
        ast.Numerics, NAMES, st.none() | TEXTS, _SETTINGS, _SETTINGS, _SETTINGS, tuples(NAMES), st.none() | SMALL
    ),
    st.builds(ast.Changes, _NAME_LISTS),
    st.builds(ast.Priority, st.integers(-100, 100)),
    st.builds(ast.Shrinks, SMALL),
    st.builds(ast.Tags, _NAME_LISTS),
    st.builds(ast.Example, st.none() | TEXTS, tuples(PARAMS), BLOCKS, st.none() | BLOCKS),
)
RULES = st.builds(
    ast.Rule, NAMES, tuples(PARAMS), tuples(CLAUSES, most=4), st.none() | DOCS, st.none() | st.tuples(NAMES, DOTTED)
)
SELECTORS = st.builds(ast.Selector, DOTTED, st.booleans(), st.booleans())
STEPS = st.builds(
    ast.Step,
    st.sampled_from(["fixpoint", "once", "sweep"]),
    tuples(SELECTORS, 1),
    st.none() | st.integers(1, 999),
    st.none() | SMALL,
)
_SPELLINGS = st.builds(ast.Call, st.builds(ast.Name, NAMES), tuples(SMALL))
STATEMENTS = st.one_of(
    st.builds(ast.Requires, tuples(st.tuples(NAMES, st.sampled_from(_COMPARISONS), TEXTS), 1)),
    st.builds(ast.Import, DOTTED, NAMES, st.just(False)),
    st.builds(ast.Import, TEXTS, NAMES, st.just(True)),
    st.builds(ast.FromImport, DOTTED, _NAME_LISTS),
    st.builds(ast.Const, NAMES, EXPRS),
    st.builds(ast.Opset, NAMES, tuples(DOTTED, 1)),
    st.builds(
        ast.Family,
        NAMES,
        tuples(PARAMS),
        tuples(NAMES),
        tuples(st.builds(ast.Call, st.builds(ast.Name, NAMES), tuples(SMALL)), 1),
    ),
    st.builds(ast.Pattern, NAMES, tuples(PARAMS), EXPRS, st.none() | st.integers(1, 32)),
    RULES,
    st.builds(ast.Ruleset, NAMES, tuples(SELECTORS, 1)),
    st.builds(ast.Pipeline, NAMES, tuples(STEPS)),
)
FILES = st.builds(ast.File, tuples(STATEMENTS, most=4), st.none() | DOCS)


# ---------------------------------------------------------------- comments
@st.composite
def commented(draw: st.DrawFn) -> ast.File:
    """A file with comments in all the places where a tree holds them."""
    file: ast.File = _with_comments(draw(FILES), draw)
    return file


def _with_comments(node: Any, draw: st.DrawFn) -> Any:
    if isinstance(node, tuple):
        return tuple(_with_comments(item, draw) for item in node)
    if not attrs.has(type(node)):
        return node
    changes: dict[str, Any] = {}
    for field in attrs.fields(type(node)):
        value = getattr(node, field.name)
        if field.name in ("comments", "closing_comments"):
            changes[field.name] = draw(tuples(COMMENTS, most=2))
        elif field.name == "trailing":
            changes[field.name] = draw(st.just("") | COMMENTS)
        elif field.name in ("statements", "clauses", "steps", "body", "expected", "assign", "assigns"):
            changes[field.name] = _with_comments(value, draw)
    return attrs.evolve(node, **changes)
