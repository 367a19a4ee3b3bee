"""Calls against signatures: how arguments meet parameters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from attrs import frozen

from . import ast
from .nearest import did_you_mean
from .signatures import OpParam, OpSignature
from .source import Problem, Span

Argument: TypeAlias = ast.Expr | ast.Keyword | ast.Star | ast.StarStar


@frozen
class Call:
    """A call with its callee resolved: the name for messages, the arguments, a method's own value first."""

    name: str
    args: tuple[Argument, ...]
    span: Span | None


def pair(call: Call, signature: OpSignature) -> tuple[tuple[Argument, OpParam | None], ...]:
    """Each argument with the parameter it is for; None where that is not known or there is none."""
    positional = [param for param in signature.params if not param.keyword_only]
    by_name = {param.name: param for param in signature.params}
    pairs: list[tuple[Argument, OpParam | None]] = []
    place, after_star = 0, False
    for arg in call.args:
        match arg:
            case ast.Keyword(name):
                pairs.append((arg, by_name.get(name)))
            case ast.Star():
                pairs.append((arg, None))
                after_star = True
            case ast.StarStar() | ast.Dots():
                pairs.append((arg, None))
            case _:
                known = place < len(positional) and not after_star
                param = positional[place] if known else None
                pairs.append((arg, param))
                place += 0 if param and param.varargs else 1
    return tuple(pairs)


def check_call(call: Call, signature: OpSignature, *, open_ended: bool) -> Iterator[Problem]:
    """Arity and keywords. ``open_ended`` where ``...`` and ``**cfg`` may stand for arguments that are not given."""
    given: set[str] = set()
    spread = any(isinstance(arg, ast.Star) for arg in call.args)
    rest = any(isinstance(arg, ast.StarStar) or (open_ended and isinstance(arg, ast.Dots)) for arg in call.args)
    extra: list[Argument] = []
    named = False
    for arg, param in pair(call, signature):
        if isinstance(arg, ast.Keyword):
            named = True
            yield from _check_keyword(arg, param, call, signature, given)
        elif isinstance(arg, ast.Star | ast.StarStar | ast.Dots):
            continue
        elif named:
            what = "an argument by place cannot follow one by name"
            yield Problem(arg.span, "argument-order", what, f"`{call.name}({_shown(signature)})`")
        elif param is None:
            extra += [] if spread else [arg]
        if param is not None:
            given.add(param.name)
    if extra:
        count = sum(not param.keyword_only for param in signature.params)
        plural = "" if count == 1 else "s"
        given_count = count + len(extra)
        what = f"`{call.name}` takes at most {count} argument{plural} by place, {given_count} are given"
        yield Problem(extra[0].span, "arity", what, f"`{call.name}({_shown(signature)})`")
    missing = [param.name for param in signature.params if param.required and param.name not in given]
    if missing and not spread and not rest:
        named_missing = " and ".join(f"`{name}`" for name in missing)
        yield Problem(call.span, "arity", f"`{call.name}` needs {named_missing}", f"`{call.name}({_shown(signature)})`")


def _check_keyword(
    arg: ast.Keyword, param: OpParam | None, call: Call, signature: OpSignature, given: set[str]
) -> Iterator[Problem]:
    if param is None:
        names = [one.name for one in signature.params]
        hint = did_you_mean(arg.name, names) or (f"`{call.name}({_shown(signature)})`" if names else "it takes none")
        yield Problem(_name_span(arg), "unknown-keyword", f"`{call.name}` has no parameter `{arg.name}`", hint)
    elif arg.name in given:
        yield Problem(_name_span(arg), "duplicate-keyword", f"`{call.name}` is given `{arg.name}` twice")


def _name_span(arg: ast.Keyword) -> Span | None:
    return arg.span and Span(arg.span.source, arg.span.start, arg.span.start + len(arg.name))


def _shown(signature: OpSignature) -> str:
    """The parameters as text: ``input, dim, dtype=…``."""
    shown: list[str] = []
    star = False
    for param in signature.params:
        if param.keyword_only and not star and not any(one.varargs for one in signature.params):
            shown.append("*")
            star = True
        name = ("*" if param.varargs else "") + param.name
        shown.append(name if param.required or param.varargs else f"{name}={'None' if param.takes_none else '…'}")
    return ", ".join(shown)


def check_plain(call: Call, names: Sequence[str]) -> Iterator[Problem]:
    """A call that takes exactly these arguments, by place."""
    for arg in call.args:
        if isinstance(arg, ast.Keyword | ast.Star | ast.StarStar | ast.Dots):
            yield Problem(arg.span, "arity", f"`{call.name}` takes its arguments by place, one by one")
            return
    if len(call.args) != len(names):
        count = f"{len(names)} argument{'' if len(names) == 1 else 's'}"
        what = f"`{call.name}` takes {count}, {len(call.args)} {'is' if len(call.args) == 1 else 'are'} given"
        yield Problem(call.span, "arity", what, f"`{call.name}({', '.join(names)})`")
