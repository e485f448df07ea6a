"""Arithmetic in launch plans: a closed little language, never `eval`. `_value` has its grammar."""

from __future__ import annotations

import ast
import math
import operator
import sys
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any, cast

from forewarp.core.errors import CandidateError

Number = int | float


def _next_pow2(n: Number) -> int:
    return 1 << max(0, math.ceil(n) - 1).bit_length()


def _cdiv(a: Number, b: Number) -> Number:
    return -(-a // b)


def _rsqrt(a: Number) -> float:
    return 1.0 / math.sqrt(a)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "cdiv": _cdiv,
    "min": min,
    "max": max,
    "next_pow2": _next_pow2,
    "numel": math.prod,
    "sqrt": math.sqrt,
    "rsqrt": _rsqrt,
}

_UNARY: dict[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.Not: operator.not_,
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
}
_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}

Names = Mapping[str, Number | tuple[int, ...]]
"""Names that an expression may use: numbers, and tensors as their shapes."""


def evaluate(expression: str | Number, names: Names, where: str) -> Number:
    """Return the value of `expression`; raises `CandidateError`. `where` names the plan's key in messages."""
    value = expression if isinstance(expression, int | float) else _compute(expression, names, where)
    if not abs(value) <= sys.float_info.max:  # math.isfinite raises for whole numbers beyond that
        raise CandidateError(f"{where}: {expression!r} is not a finite number")
    return value


def _compute(expression: str, names: Names, where: str) -> Number:
    if len(expression) > 500:
        raise CandidateError(f"{where}: the expression has {len(expression)} characters; 500 is the most")
    try:
        value = _value(ast.parse(expression, mode="eval").body, names, where)
    except SyntaxError as e:
        raise CandidateError(f"{where}: {expression!r} is not an expression: {e.msg}") from None
    except RecursionError:
        raise CandidateError(f"{where}: {expression[:60]!r}… is nested too deeply") from None
    except (ArithmeticError, TypeError, ValueError, IndexError) as e:
        raise CandidateError(f"{where}: {expression!r} cannot be computed: {e}") from None
    if not isinstance(value, int | float):
        raise CandidateError(f"{where}: {expression!r} is a tensor, not a number", hint="write x.shape[0] or numel(x)")
    return int(value) if isinstance(value, bool) else value


def whole(expression: str | Number, names: Names, where: str) -> int:
    """Return the value of an expression that must be a whole number; raises `CandidateError`."""
    value = evaluate(expression, names, where)
    if value != int(value):
        raise CandidateError(
            f"{where}: {expression!r} is {value}, not a whole number", hint="divide with // or cdiv(a, b)"
        )
    return int(value)


def _value(node: ast.expr, names: Names, where: str) -> Any:
    def value(inner: ast.expr) -> Any:
        return _value(inner, names, where)

    match node:
        case ast.Constant(value=int() | float()):
            return node.value
        case ast.Name(id=name):
            if name not in names:
                known = f"known here: {', '.join(sorted(names))}"
                raise CandidateError(f"{where}: nothing is called {name!r}", hint=known)
            return names[name]
        case ast.Attribute(attr="shape") if isinstance(shape := value(node.value), tuple):
            return cast("tuple[int, ...]", shape)
        case ast.Subscript() if isinstance(shape := value(node.value), tuple) and isinstance(
            index := value(node.slice), int
        ):
            return shape[index]
        case ast.UnaryOp(op=ast.Not() | ast.UAdd() | ast.USub()):
            return _UNARY[type(node.op)](value(node.operand))
        case ast.BinOp() if type(node.op) in _BINARY:
            return _BINARY[type(node.op)](value(node.left), value(node.right))
        case ast.BoolOp():
            return (all if isinstance(node.op, ast.And) else any)([value(v) for v in node.values])
        case ast.Compare() if all(type(op) in _COMPARE for op in node.ops):
            items = [value(v) for v in (node.left, *node.comparators)]
            return all(_COMPARE[type(op)](*pair) for op, pair in zip(node.ops, pairwise(items), strict=True))
        case ast.IfExp():
            return value(node.body if value(node.test) else node.orelse)
        case ast.Call(func=ast.Name(id=name), keywords=[]) if name in FUNCTIONS:
            return FUNCTIONS[name](*(value(a) for a in node.args))
        case _:
            raise CandidateError(
                f"{where}: {ast.unparse(node)!r} is not allowed in a launch plan",
                hint=f"use numbers, + - * / // %, comparisons, x.shape[i] and {', '.join(FUNCTIONS)}",
            )
