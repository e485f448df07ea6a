"""Arithmetic in launch plans: a closed little language, never `eval`.

Numbers, names, `+ - * / // %`, comparisons, `and`/`or`/`not`, conditional expressions, `x.shape[i]`, and the
functions in `FUNCTIONS`.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

from forewarp.core.errors import CandidateError

Number = int | float


def _numel(shape: tuple[int, ...]) -> int:
    return math.prod(shape)


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
    "numel": _numel,
    "sqrt": math.sqrt,
    "rsqrt": _rsqrt,
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
    """Return the value of `expression`; `where` names the plan's key in error messages.

    Raises `CandidateError` that says which part is wrong and what may stand there.
    """
    value = expression if isinstance(expression, int | float) else _compute(expression, names, where)
    if not math.isfinite(value):
        raise CandidateError(f"{where}: {expression!r} is {value}, not a finite number")
    return value


def _compute(expression: str, names: Names, where: str) -> Number:
    if len(expression) > 500:
        raise CandidateError(f"{where}: the expression has {len(expression)} characters; 500 is the most")
    try:
        value = _Evaluator(names, where).visit(ast.parse(expression, mode="eval").body)
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


class _Evaluator(ast.NodeVisitor):
    def __init__(self, names: Names, where: str) -> None:
        self.names, self.where = names, where

    def generic_visit(self, node: ast.AST) -> Any:
        raise CandidateError(
            f"{self.where}: {ast.unparse(node)!r} is not allowed in a launch plan",
            hint=f"use numbers, + - * / // %, comparisons, x.shape[i] and {', '.join(FUNCTIONS)}",
        )

    def visit_Constant(self, node: ast.Constant) -> Any:
        return node.value if isinstance(node.value, int | float) else self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> Any:
        if node.id not in self.names:
            raise CandidateError(
                f"{self.where}: nothing is called {node.id!r}", hint=f"known here: {', '.join(sorted(self.names))}"
            )
        return self.names[node.id]

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        shape = self.visit(node.value)
        return shape if node.attr == "shape" and isinstance(shape, tuple) else self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        shape, index = self.visit(node.value), self.visit(node.slice)
        return shape[index] if isinstance(shape, tuple) and isinstance(index, int) else self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        value = self.visit(node.operand)
        if isinstance(node.op, ast.Not):
            return not value
        return -value if isinstance(node.op, ast.USub) else value

    def visit_BinOp(self, node: ast.BinOp) -> Any:
        compute = _BINARY.get(type(node.op))
        return compute(self.visit(node.left), self.visit(node.right)) if compute else self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> Any:
        values = [self.visit(v) for v in node.values]
        return all(values) if isinstance(node.op, ast.And) else any(values)

    def visit_Compare(self, node: ast.Compare) -> Any:
        items = [self.visit(v) for v in (node.left, *node.comparators)]
        pairs = zip(node.ops, items, items[1:], strict=False)
        return all(_COMPARE[type(op)](a, b) if type(op) in _COMPARE else self.generic_visit(node) for op, a, b in pairs)

    def visit_IfExp(self, node: ast.IfExp) -> Any:
        return self.visit(node.body if self.visit(node.test) else node.orelse)

    def visit_Call(self, node: ast.Call) -> Any:
        if not isinstance(node.func, ast.Name) or node.func.id not in FUNCTIONS or node.keywords:
            return self.generic_visit(node)
        return FUNCTIONS[node.func.id](*(self.visit(a) for a in node.args))
