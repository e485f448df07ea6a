"""Arithmetic on made-up addresses: a safe evaluator of Python expressions over integer arrays and pointers."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from forewarp.core.errors import ForewarpError
from forewarp.gpu_runner.formats.expressions import evaluate

Ints = NDArray[np.int64]

SIZE = 512
"""The made-up size of every dimension, and the range of every value that is loaded."""

_MOST = 1 << 18
_MIXER = 2654435761


@dataclass(frozen=True, slots=True, eq=False)
class Pointer:
    """Pointers of all lanes: offsets in elements of `bytes`; `random` if a loaded value is part of the address."""

    offsets: Ints
    bytes: int = 4
    shared: bool = False
    random: bool = False
    strides: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class LoadedValue:
    """An integer that came out of memory, made up but different from lane to lane."""

    values: Ints


@dataclass(frozen=True, slots=True, eq=False)
class Access:
    """One load or store: offsets in elements of `bytes`, one a lane, or one for each element of a tile."""

    offsets: Ints
    bytes: int
    store: bool
    shared: bool = False
    random: bool = False


@dataclass(slots=True)
class Found:
    """Accesses that the CUDA and Triton readers have found; `blind` counts those that they did not understand."""

    accesses: list[Access] = field(default_factory=list[Access])
    blind: int = 0


Value = Any
"""An integer array, a `Pointer`, a `LoadedValue`, a tuple of these, a string, or None where it is not known."""

_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Div: operator.floordiv,
    ast.Mod: operator.mod,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
}
_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}


def is_ints(value: Value) -> TypeGuard[Ints]:
    """Return whether a value is an array of known integers."""
    return isinstance(value, np.ndarray)


def scalar(value: int) -> Ints:
    return np.asarray(value, dtype=np.int64)


def made_up(offsets: Ints) -> LoadedValue:
    """Return the made-up values of a load: below `SIZE`, scattered, but a function of the address alone."""
    return LoadedValue((offsets * _MIXER >> 7) % SIZE)


def plain(value: Value) -> Ints | None:
    """Return the integers of a value, loaded or not; None where it has none."""
    if isinstance(value, LoadedValue):
        return value.values
    if isinstance(value, np.integer):
        return scalar(int(value))
    return value if is_ints(value) else None


def combine(kind: type[ast.operator], left: Value, right: Value) -> Value:
    """Return the result of an operation on arrays and pointers, None where that is not known."""
    if isinstance(right, Pointer) and not isinstance(left, Pointer):
        left, right = right, left
    a = left.offsets if isinstance(left, Pointer) else plain(left)
    b, act = plain(right), _BINARY.get(kind)
    if a is None or b is None or act is None:
        return None
    if kind in (ast.FloorDiv, ast.Div, ast.Mod) and not b.all():
        return None
    if kind in (ast.LShift, ast.RShift) and ((b < 0) | (b > 40)).any():
        return None
    try:
        if np.broadcast(a, b).size > _MOST:
            return None
        found = np.asarray(act(a, b), dtype=np.int64)
    except (ValueError, ArithmeticError, TypeError):
        return None
    if isinstance(left, Pointer):
        return Pointer(found, left.bytes, left.shared, left.random or isinstance(right, LoadedValue), left.strides)
    return LoadedValue(found) if isinstance(left, LoadedValue) or isinstance(right, LoadedValue) else found


class Evaluator:
    """Evaluator of expressions, which notes accesses; each language defines its calls and subscripts."""

    def __init__(self, names: Mapping[str, Value], found: Found) -> None:
        self.names: dict[str, Value] = dict(names)
        self.found = found

    def access(self, pointer: Value, *, store: bool) -> Value:
        """Note an access; return the made-up values that it loads from global memory."""
        if not isinstance(pointer, Pointer):
            self.found.blind += 1
            return None
        self.found.accesses.append(Access(pointer.offsets, pointer.bytes, store, pointer.shared, pointer.random))
        return None if store or pointer.shared else made_up(pointer.offsets)

    def value(self, node: ast.expr | None) -> Value:
        """Return the value of an expression, None where it is not known; its accesses are noted on the way."""
        match node:
            case ast.Constant(value=bool() | int()):
                return scalar(int(node.value))  # pyright: ignore[reportArgumentType]
            case ast.Constant(value=str()):
                return node.value
            case ast.Name():
                return self.names.get(node.id)
            case ast.BinOp():
                return combine(type(node.op), self.value(node.left), self.value(node.right))
            case ast.UnaryOp():
                return self._unary(node)
            case ast.Compare():
                return self._compare(node)
            case ast.IfExp():
                return self._choice(node)
            case ast.Tuple() | ast.List():
                return tuple(self.value(e) for e in node.elts)
            case ast.Call():
                return self.call(node)
            case ast.Subscript():
                return self.subscript(node)
            case ast.Attribute():
                return self.attribute(node)
            case ast.BoolOp():
                return next(iter([self.value(e) for e in node.values]))
            case _:
                return None

    def call(self, node: ast.Call) -> Value:
        for argument in node.args:
            self.value(argument)
        return None

    def subscript(self, node: ast.Subscript) -> Value:
        raise NotImplementedError

    def attribute(self, node: ast.Attribute) -> Value:
        self.value(node.value)
        return None

    def _unary(self, node: ast.UnaryOp) -> Value:
        value = plain(self.value(node.operand))
        if value is None:
            return None
        match node.op:
            case ast.USub():
                return -value
            case ast.Not():
                return (value == 0).astype(np.int64)
            case ast.Invert():
                return ~value
            case _:
                return value

    def _compare(self, node: ast.Compare) -> Value:
        sides = [plain(self.value(e)) for e in (node.left, *node.comparators)]
        act = _COMPARE.get(type(node.ops[0]))
        if len(sides) != 2 or sides[0] is None or sides[1] is None or act is None:
            return None
        try:
            return np.asarray(act(sides[0], sides[1]), dtype=np.int64)
        except ValueError:
            return None

    def _choice(self, node: ast.IfExp) -> Value:
        test, yes, no = plain(self.value(node.test)), self.value(node.body), self.value(node.orelse)
        if test is not None and test.size and (test == test.flat[0]).all():
            return yes if test.flat[0] else no
        return yes if yes is not None else no


def fold(values: Sequence[Value], act: Callable[[Any, Any], Any]) -> Value:
    """Return the known ones of some values folded into one, such as their minimum."""
    known = [v for v in map(plain, values) if v is not None]
    if not known:
        return None
    total = known[0]
    for value in known[1:]:
        total = act(total, value)
    return total


_LARGEST = 1 << 24


def number(expression: str | float, names: dict[str, object]) -> int:
    """Return the value of an expression of the plan, `SIZE` where it is not known."""
    try:
        found = int(evaluate(expression, names, "a size"))  # pyright: ignore[reportArgumentType]
        return max(-_LARGEST, min(_LARGEST, found))
    except (ForewarpError, ValueError, ArithmeticError, TypeError):
        return SIZE
