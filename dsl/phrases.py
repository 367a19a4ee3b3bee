"""Expressions, types and parameters as text, with parentheses only where precedence needs them."""

from __future__ import annotations

from collections.abc import Sequence

from . import ast
from .layout import Align, Group, Layout, Line, Nest, fill, join, render

# How tightly an expression holds together, as in the grammar.
_IF, _OR, _BIND, _AND, _NOT, _COMPARE, _COALESCE = range(7)
_UNARY, _POWER, _POSTFIX = 13, 14, 15
_BINARY = {
    "??": _COALESCE, "|": 7, "^": 8, "&": 9, "<<": 10, ">>": 10, "+": 11, "-": 11,
    "*": 12, "/": 12, "//": 12, "%": 12, "@": 12, "**": _POWER,
}  # fmt: skip
_ARITHMETIC = 11
_STRING_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r", "\0": "\\0"}


def format_expr(expr: ast.Expr) -> str:
    """An expression as text, on one line if it fits.

    >>> format_expr(ast.Binary("*", ast.Binary("+", ast.Name("x"), ast.Number(1)), ast.Number(2e-5)))
    '(x + 1) * 2e-5'
    """
    return render(expr_layout(expr))


def format_selector(selector: ast.Selector) -> str:
    """A selector of a rule set or step.

    >>> format_selector(ast.Selector("shape", wildcard=True, minus=True))
    '- shape.*'
    """
    return ("- " if selector.minus else "") + selector.name + (".*" if selector.wildcard else "")


def format_step(step: ast.Step) -> str:
    """A step of a pipeline on one line.

    >>> format_step(ast.Step("fixpoint", (ast.Selector("a"), ast.Selector("b")), limit=3))
    'fixpoint a, b limit 3'
    """
    limit = "" if step.limit is None else f" limit {step.limit}"
    when = "" if step.condition is None else f" when {' '.join(format_expr(step.condition).split())}"
    return f"{step.strategy} {', '.join(map(format_selector, step.selectors))}{limit}{when}"


def format_string(text: str) -> str:
    r"""A string literal; whatever does not print is escaped.

    >>> format_string('a "b"')
    '"a \\"b\\""'
    """
    return '"' + "".join(_STRING_ESCAPES.get(char) or _escaped(char) for char in text) + '"'


def _escaped(char: str) -> str:
    if char.isprintable():
        return char
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def format_number(value: int | float) -> str:
    """A number as short as it can be written, an int without a point.

    >>> format_number(5e-4), format_number(0.01), format_number(1.0)
    ('5e-4', '0.01', '1.0')
    """
    if isinstance(value, int):
        return str(value)
    plain = repr(value)
    digits, _, exponent = f"{value:.17e}".partition("e")
    for places in range(17):
        short, _, exponent = f"{value:.{places}e}".partition("e")
        if float(f"{short}e{exponent}") == value:
            digits = short
            break
    scientific = f"{digits}e{int(exponent)}"
    is_usual = 0.01 <= abs(value) < 1e5 or len(plain) <= len(scientific)
    return plain if is_usual and "e" not in plain else scientific


def expr_layout(expr: ast.Expr | ast.Star | ast.Slice, tightness: int = _IF) -> Layout:
    """The layout of an expression that stands where only one at least so tight may stand."""
    own = _tightness(expr)
    layout = _open_layout(expr) if own < _POSTFIX else _closed_layout(expr)
    return ("(", Align(Group(layout)), ")") if own < tightness else layout


def _tightness(expr: ast.Expr | ast.Star | ast.Slice) -> int:
    match expr:
        case ast.IfElse():
            return _IF
        case ast.Or():
            return _OR
        case ast.As() | ast.Through():
            return _BIND
        case ast.And():
            return _AND
        case ast.Unary(op):
            return _NOT if op == "not" else _UNARY
        case ast.Compare():
            return _COMPARE
        case ast.Binary(op):
            return _BINARY[op]
        case ast.Number(value) if value < 0:
            return _UNARY
    return _POSTFIX


def _open_layout(expr: ast.Expr | ast.Star | ast.Slice) -> Layout:
    """An expression whose parts are held together by precedence alone."""
    match expr:
        case ast.IfElse(then, test, other):
            parts: tuple[Layout, ...] = (
                expr_layout(then, _OR),
                (Line(), "if ", expr_layout(test, _OR)),
                (Line(), "else ", expr_layout(other)),
            )
            return Group(Align(parts))
        case ast.Or(operands):
            return Group(Align(join((expr_layout(one, _BIND) for one in operands), (Line(), "or "))))
        case ast.And(operands):
            return Group(Align(join((expr_layout(one, _NOT) for one in operands), (Line(), "and "))))
        case ast.As(value, name):
            return expr_layout(value, _BIND), " as ", name
        case ast.Through(value, name):
            return expr_layout(value, _BIND), " through ", name
        case ast.Unary("not", operand):
            return "not ", expr_layout(operand, _NOT)
        case ast.Unary(op, operand):
            return op, expr_layout(operand, _UNARY)
        case ast.Compare(ops, operands):
            layouts = [expr_layout(one, _COALESCE) for one in operands]
            tail = (((Line(), f"{op} ", layout)) for op, layout in zip(ops, layouts[1:], strict=True))
            return Group(Align((layouts[0], *tail)))
        case ast.Binary("**", left, right):
            return expr_layout(left, _POSTFIX), " ** ", expr_layout(right, _UNARY)
        case ast.Binary():
            return _chain(expr)
        case ast.Number():
            return format_number(expr.value)
    raise TypeError(f"not an open expression: {expr!r}")


def _chain(expr: ast.Binary) -> Layout:
    """``a + b - c``: operators of one precedence, which group to the left."""
    tightness = _BINARY[expr.op]
    tail: list[Layout] = []
    left: ast.Expr = expr
    while isinstance(left, ast.Binary) and _BINARY[left.op] == tightness:
        tail.append(Group((Line(), f"{left.op} ", expr_layout(left.right, tightness + 1))))
        left = left.left
    return Align((expr_layout(left, tightness + 1), *reversed(tail)))


def _closed_layout(expr: ast.Expr | ast.Star | ast.Slice) -> Layout:
    """An expression that holds together by itself."""
    match expr:
        case ast.Name(id):
            return id
        case ast.Number(value, tolerance):
            return format_number(value) + ("" if tolerance is None else f"~{format_number(tolerance)}")
        case ast.String(value):
            return format_string(value)
        case ast.Special(id):
            return f"${id}"
        case ast.Dots():
            return "..."
        case ast.Star(value):
            return "*", expr_layout(value)
        case ast.Attribute(value, name):
            inner = expr_layout(value, _POSTFIX)
            return ("(", inner, ")", f".{name}") if isinstance(value, ast.Number) else (inner, f".{name}")
        case ast.Optional(value):
            inner = expr_layout(value, _POSTFIX)
            return ("(", inner, ")?") if isinstance(value, ast.Optional) else (inner, "?")
        case ast.Call(func, args):
            return expr_layout(func, _POSTFIX), _bracketed("(", [_argument(arg) for arg in args], ")")
        case ast.Flat(call):
            return "flat ", expr_layout(call, _POSTFIX)
        case ast.Index(value, items):
            return expr_layout(value, _POSTFIX), _bracketed("[", [_index_item(item) for item in items], "]")
        case ast.Tuple((item,)):
            return "(", expr_layout(item), ",)"
        case ast.Tuple(items):
            return _bracketed("(", [expr_layout(item) for item in items], ")")
        case ast.List(items):
            return _bracketed("[", [expr_layout(item) for item in items], "]")
        case ast.Dict(entries):
            pairs: list[Layout] = [(expr_layout(key), ": ", expr_layout(value)) for key, value in entries]
            return _bracketed("{", pairs, "}")
        case ast.Comprehension(element, name, iterable, condition):
            parts: tuple[Layout, ...] = (
                expr_layout(element),
                (Line(), f"for {name} in ", expr_layout(iterable, _OR)),
                () if condition is None else (Line(), "if ", expr_layout(condition)),
            )
            return Group(("[", Align(parts), "]"))
    raise TypeError(f"not an expression: {expr!r}")


def _bracketed(opener: str, items: Sequence[Layout], closer: str) -> Layout:
    if not items:
        return opener + closer
    return Group((opener, Nest(4, (Line(""), fill(items))), Line(""), closer))


def _argument(arg: ast.Expr | ast.Keyword | ast.Star | ast.StarStar) -> Layout:
    match arg:
        case ast.Keyword(name, value):
            return f"{name}=", expr_layout(value)
        case ast.StarStar(name):
            return f"**{name}"
    return expr_layout(arg)


def _index_item(item: ast.Expr | ast.Slice) -> Layout:
    if not isinstance(item, ast.Slice):
        return expr_layout(item)
    parts = [item.start, item.stop] + ([item.step] if item.step is not None else [])
    space = "" if all(part is None or _is_short(part) for part in parts) else " "
    shown: list[Layout] = [() if part is None else expr_layout(part) for part in parts]
    before = ["" if part is None else space for part in parts[:-1]]
    after = ["" if part is None else space for part in parts[1:]]
    tail = ((f"{left}:{right}", part) for left, right, part in zip(before, after, shown[1:], strict=True))
    return shown[0], *tail


def _is_short(expr: ast.Expr) -> bool:
    match expr:
        case ast.Name() | ast.Number():
            return True
        case ast.Unary("-", ast.Name() | ast.Number()):
            return True
    return False


def type_layout(type: ast.Type) -> Layout:
    """``const float|int[*B, L]?``."""
    head = " ".join(filter(None, (type.qualifier, "|".join(type.names))))
    tail = "?" if type.optional else ""
    if type.dims is None:
        return head + tail
    return head, _bracketed("[", [_dim(dim) for dim in type.dims], "]"), tail


def _dim(dim: ast.Expr | ast.StarDim | ast.Dots) -> Layout:
    return f"*{dim.name}" if isinstance(dim, ast.StarDim) else expr_layout(dim, _ARITHMETIC)


def param_layout(param: ast.Param) -> Layout:
    """``*xs``, ``w: const float[O]``, ``weight?`` or ``eps=1e-6``."""
    name = ("*" if param.star else "") + param.name + ("?" if param.optional else "")
    kind: Layout = () if param.type is None else (": ", type_layout(param.type))
    if param.default is None:
        return name, kind
    return name, kind, "=" if param.type is None else " = ", expr_layout(param.default)


def params_layout(params: Sequence[ast.Param]) -> Layout:
    """The parameters in parentheses, filled, later lines under the first one."""
    return ("(", Align(fill([param_layout(param) for param in params])), ")") if params else "()"
