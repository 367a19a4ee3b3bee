"""The `.rules` language: sources, tree, parser, checker, formatter (no torch)."""

from .checker import ImportedNames, check, imports_of, names_of
from .formatter import format_expr, format_file
from .parser import parse, parse_expr, parse_text, read
from .signatures import OpParam, OpSignature, OpTable
from .source import FxrulesError, Problem, Source, Span, render

__all__ = [
    "FxrulesError",
    "ImportedNames",
    "OpParam",
    "OpSignature",
    "OpTable",
    "Problem",
    "Source",
    "Span",
    "check",
    "format_expr",
    "format_file",
    "imports_of",
    "names_of",
    "parse",
    "parse_expr",
    "parse_text",
    "read",
    "render",
]
