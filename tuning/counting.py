"""Work of one program of a Triton kernel, counted from its text for many configurations at once.

The kernel's statements are walked through once. Numbers are arrays with an entry per configuration and sampled
program, tiles have shapes of such numbers and no contents. A loop's body is walked once and counts as often as the loop
runs; of a branch that depends on contents both sides count half. Nothing is compiled and no code of the kernel runs.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import zip_longest
from typing import Any, cast

import numpy as np

from forewarp.tuning.space import Space, TensorArgument

Numbers = np.ndarray[Any, np.dtype[np.float64]]

SAMPLED = ((0.125, 0.625, 0.375), (0.375, 0.125, 0.875), (0.625, 0.875, 0.125), (0.875, 0.375, 0.625))
"""Programs that are looked at, as shares of the grid's axes: what a program does may depend on its place.

Shares of the whole grid in its order would mostly be the first of an axis, whose length divides them.
"""
SECTOR = 32
"""Bytes that a load moves at least."""
LINE, SCATTER = 128, 0.3
"""Bytes next to one another beyond which more make a load no faster, and the power of them by which fewer cost."""
WARP, NEIGHBOURS = 32, 4
"""Threads of a warp, and neighbouring elements that each of them has."""
ROWS, COLUMNS = 16, 8
"""Rows and columns of a product that a warp has at least."""
UNROLLED = 16
"""Trips of a `static_range` that are walked through one by one."""
UNKNOWN_TRIPS = 1024
"""Elements that a loop of unknown length is taken to walk over."""
_DEPTH = 8
_DTYPES = {
    "float64": 8, "fp64": 8, "int64": 8, "uint64": 8, "float32": 4, "fp32": 4, "int32": 4, "uint32": 4,
    "float16": 2, "fp16": 2, "bfloat16": 2, "bf16": 2, "int16": 2, "uint16": 2, "int8": 1, "uint8": 1, "int1": 1,
    "bool": 1, "float8e4nv": 1, "float8e5": 1, "float8e4b15": 1, "float8_e4m3fn": 1, "float8_e5m2": 1,
    "float8e4b8": 1, "float8e5b16": 1,
}  # fmt: skip
_FLOATS = ("float", "fp", "bf")
_SPECIAL = frozenset(
    (
        *("exp", "exp2", "log", "log2", "log1p", "sqrt", "rsqrt", "sqrt_rn", "div_rn", "sin", "cos", "tanh", "sigmoid"),
        *("erf", "pow", "softmax", "fdiv", "acos", "atan"),
    )
)
_REDUCTIONS = frozenset(["sum", "max", "min", "argmax", "argmin", "xor_sum", "reduce", "max2", "min2", "any"])
_SCANS = frozenset(["cumsum", "cumprod", "associative_scan", "sort", "histogram"])
_RESHAPES = frozenset(["reshape", "view", "broadcast_to", "ravel", "join", "interleave", "cat", "split"])
_MODULES = ("tl", "triton", "language", "libdevice", "math", "tlx", "extra", "triton_helpers", "tl_math")
"""Names of modules of functions, those of Inductor's code among them."""
_TRANSPARENT = frozenset(
    (
        *("multiple_of", "max_contiguous", "max_constancy", "assume", "debug_barrier", "static_assert", "static_print"),
        *("device_assert", "inline_asm_elementwise", "abs", "clamp", "maximum", "minimum", "fma", "floor", "ceil"),
        *("umulhi", "where", "cast", "to_tensor"),
    )
)
_KEEPING = _TRANSPARENT | _RESHAPES | frozenset(["constexpr", "int", "float", "bool", "tensor", "const"])
"""Functions whose result is their first argument, where that is no tile."""
ZERO, ONE = (cast("Numbers", np.float64(n)) for n in (0, 1))


@dataclass(frozen=True, slots=True)
class Tile:
    """A tile of unknown contents: its shape, its dtype, and where it holds addresses, of which argument.

    A block pointer or descriptor is the tile of the addresses that it stands for.

    `steps` are the differences between neighbours along each axis, where the contents are integers that grow evenly.
    """

    shape: tuple[Numbers, ...] = ()
    dtype: str = "int32"
    pointer: str = ""
    steps: tuple[Numbers | None, ...] = ()
    loaded: int = 0  # number of the load that it comes from; 0 where it was computed
    loop: int = 0  # number of the loop in which it was loaded; 0 outside of any
    product: bool = False  # whether it is a product as it comes, which a sum may take in place

    @property
    def elements(self) -> Numbers:
        """Number of elements."""
        return math.prod(self.shape, start=ONE)

    @property
    def item(self) -> int:
        """Bytes of an element."""
        return _DTYPES.get(self.dtype, 4)


@dataclass(slots=True)
class ProgramWork:
    """Amounts per program, each an entry per configuration and sampled program.

    Bytes are by argument. `loads_moved` counts whole sectors. `dots` holds the flops of matrix products by dtype.
    """

    count: int
    loads: dict[str, Numbers] = field(default_factory=dict[str, "Numbers"])
    stores: dict[str, Numbers] = field(default_factory=dict[str, "Numbers"])
    atomics: dict[str, Numbers] = field(default_factory=dict[str, "Numbers"])
    dots: dict[str, Numbers] = field(default_factory=dict[str, "Numbers"])
    amounts: dict[str, Numbers] = field(default_factory=dict[str, "Numbers"])
    unknown: int = 0

    def add(self, kind: dict[str, Numbers], name: str, amount: Any) -> None:
        """Add an amount."""
        kind[name] = kind.get(name, np.zeros(self.count)) + amount

    def most(self, name: str, amount: Any) -> None:
        """Keep the largest amount."""
        before = self.amounts.get(name, np.zeros(self.count))
        self.amounts[name] = np.maximum(before, amount)

    def get(self, name: str) -> Numbers:
        """Return an amount, zeros where there is none."""
        return self.amounts.get(name, np.zeros(self.count))


class NotCounted(Exception):
    """The kernel's text cannot be followed."""


def count(space: Space) -> ProgramWork:
    """Return what the programs of each configuration do, `len(SAMPLED)` entries per configuration in order.

    Raises `NotCounted` where the text does not parse.
    """
    repeat = len(SAMPLED)
    configurations = space.configurations
    names: dict[str, Any] = dict(space.constants)
    for name, value in space.arguments.items():
        names[name] = _argument(name, value)
    values: dict[str, list[Any]] = {}
    for configuration in configurations:
        for name, value in {**configuration.values, **configuration.derived}.items():
            values.setdefault(name, []).append(value)
    for name, listed in values.items():
        names[name] = _column(listed, repeat) if len(listed) == len(configurations) else None
    grids = np.array([[*g, 1, 1, 1][:3] for g in space.grids], dtype=np.float64).repeat(repeat, 0)
    names["num_warps"] = _column([c.warps for c in configurations], repeat)
    names["num_stages"] = _column([c.stages for c in configurations], repeat)
    walker = _Walker(space, names, grids, np.tile(np.array(SAMPLED), (len(configurations), 1)))
    try:
        walker.run()
    except (SyntaxError, RecursionError, ValueError) as e:
        raise NotCounted(f"the text of {space.kernel} cannot be followed: {e}") from e
    return walker.work


def _argument(name: str, value: Any) -> Any:
    if isinstance(value, TensorArgument):
        return Tile((), value.dtype, name)
    if isinstance(value, bool | int | float):
        return float(value)
    return value


def _column(values: Sequence[Any], repeat: int) -> Any:
    """Return the values of a meta-parameter as an array, or the one that all have."""
    if all(isinstance(v, bool | int | float) for v in values):
        return np.array(values, dtype=np.float64).repeat(repeat)
    return values[0] if all(v == values[0] for v in values) else None


def _is_number(value: Any) -> bool:
    return isinstance(value, bool | int | float | np.ndarray | np.floating)


def _truth(number: Any) -> Numbers:
    """Return 1 where a number is not zero, else 0."""
    return (np.asarray(number) != 0).astype(np.float64)


@dataclass(slots=True)
class _Function:
    tree: ast.FunctionDef
    defaults: Mapping[str, ast.expr]


@dataclass(slots=True)
class _Scope:
    """Tiles of a loop, of which this is the number (0 outside of any): those loaded, and shapes of those computed."""

    loop: int = 0
    loads: list[Tile] = field(default_factory=list[Tile])
    results: list[tuple[Numbers, ...]] = field(default_factory=list[tuple["Numbers", ...]])
    products: list[tuple[Numbers, ...]] = field(default_factory=list[tuple["Numbers", ...]])
    apart: list[tuple[Numbers, ...]] = field(default_factory=list[tuple["Numbers", ...]])
    """Shapes of the products that no sum takes in place."""
    amounts: list[_Amount] = field(default_factory=list["_Amount"])
    chained: list[tuple[Numbers, ...]] = field(default_factory=list[tuple["Numbers", ...]])
    """Shapes of the products that are multiplied further."""
    computed: bool = False
    """True if an operand of a product was computed, not loaded."""


@dataclass(frozen=True, slots=True)
class _Amount:
    """Amounts counted for one tile, with its shape."""

    kind: dict[str, Numbers]
    name: str
    shape: tuple[Numbers, ...]
    amount: Numbers


class _Walker:
    def __init__(self, space: Space, names: dict[str, Any], grids: Numbers, places: Numbers) -> None:
        self.work = ProgramWork(len(grids))
        self._space, self._grids, self._places = space, grids, places
        self._globals = names
        self._names: dict[str, Any] = {}
        self._weight: Any = np.ones(len(grids))
        self._loops = 0  # walked through so far
        self._depth = 0
        self._functions = {name: _parsed(text) for name, text in space.helpers.items()}
        self._result: Any = None
        self._operands: set[int] = set()
        self._loaded = 0
        self._scope = _Scope()

    def run(self) -> None:
        """Walk through the kernel."""
        self._enter(_parsed(self._space.source), self._globals)
        self._repeat(self._scope)
        self.work.most("held", self._held(self._scope))

    # Statements

    def _body(self, statements: Sequence[ast.stmt]) -> None:
        for statement in statements:
            self._statement(statement)

    def _statement(self, s: ast.stmt) -> None:
        match s:
            case ast.Assign():
                value = self._value(s.value)
                for target in s.targets:
                    self._bind(target, value)
            case ast.AnnAssign() if s.value is not None:
                self._bind(s.target, self._value(s.value))
            case ast.AugAssign() if isinstance(s.target, ast.Name):
                change = self._value(s.value)
                self._names[s.target.id] = self._combined(s.op, self._names.get(s.target.id), change)
            case ast.Expr():
                self._value(s.value)
            case ast.Return():
                self._result = self._value(s.value) if s.value is not None else None
            case ast.For():
                self._loop(s)
            case ast.While():
                self._value(s.test)
                self.work.unknown += 1
                self._inside(s.body, 1.0)
            case ast.If():
                self._branch(s)
            case ast.With():
                self._body(s.body)
            case _:
                pass

    def _loop(self, s: ast.For) -> None:
        bounds: list[Any] = [self._value(a) for a in s.iter.args] if isinstance(s.iter, ast.Call) else []
        low, high, step, *_ = (0.0, *bounds, 1.0) if len(bounds) == 1 else (*bounds, 1.0, 1.0, 1.0)
        if bounds and _is_number(low) and _is_number(high) and _is_number(step):
            trips = np.maximum(0.0, np.ceil((np.asarray(high) - low) / np.where(np.asarray(step) == 0, 1, step)))
        else:
            self.work.unknown += 1
            trips = np.ceil(UNKNOWN_TRIPS / np.maximum(1.0, step)) if bounds and _is_number(step) else 1.0
        self._bind(s.target, low if _is_number(low) else 0.0)
        if _is_unrolled(s.iter) and np.ndim(trips) == 0 and 0 < trips <= UNROLLED and _is_number(low):
            for trip in range(int(trips)):
                self._bind(s.target, low + trip * step)
                self._body(s.body)
            return
        before = self._weight
        self._weight = before * np.minimum(1.0, trips)
        self._inside(s.body, np.maximum(1.0, trips))
        self._weight = before

    def _inside(self, body: Sequence[ast.stmt], trips: Any) -> None:
        before, loads = self._weight, sum(self.work.loads.values(), np.zeros(self.work.count))
        names, outer = dict(self._names), self._scope
        shared = {name: self.work.amounts.pop(name, ZERO) for name in ("staged", "kept")}
        self._weight = before * trips
        self._loops += 1
        self._scope = scope = _Scope(self._loops)
        self._body(body)
        self._repeat(scope)
        for tile in scope.loads if scope.computed else ():  # what an operand is computed from is loaded ahead, too
            if tile.loaded not in self._operands and len(tile.shape) > 1:
                self.work.add(self.work.amounts, "staged", tile.elements * tile.item)
        self._scope = outer
        self._weight = before
        for name, amount in shared.items():  # one loop's shared memory is free for the next
            self.work.most(name, amount)
        self.work.add(self.work.amounts, "iterations", before * trips)
        if self._loops > scope.loop:
            return  # what follows is of innermost loops
        moved = sum(self.work.loads.values(), np.zeros(self.work.count)) - loads
        trips_now = np.maximum(before * trips, 1e-9)
        self.work.most("iteration_loads", moved / trips_now)
        carried = [
            after
            for name, value in names.items()
            if isinstance(after := self._names.get(name), Tile) and after.shape
            if after is not value and not after.pointer
        ]
        self.work.most("carried", _bytes(carried))
        self.work.most("held", self._held(scope, carried))

    def _repeat(self, scope: _Scope) -> None:
        """Count what several warps do alike: of a product that is multiplied further, a row is in one warp alone.

        So warps beyond its rows, or its columns where these are more, do again what others do.
        """
        warps = np.asarray(self._globals["num_warps"])
        for shape in scope.chained:
            rows, columns = shape[-2:]
            along = np.where((rows >= columns) | ((rows >= 64) & (warps >= 4)), rows / ROWS, columns / COLUMNS)
            again = np.maximum(warps / np.maximum(along, 1.0), 1.0) - 1.0
            for done in scope.amounts:
                if _same(done.shape, shape):
                    self.work.add(done.kind, done.name, done.amount * again)

    def _held(self, scope: _Scope, carried: Sequence[Tile] = ()) -> Numbers:
        """Return the registers that tiles take in a scope, those of all threads together.

        Operands of products are in shared memory, and what is added to a carried sum takes no place of its own. Other
        products are held until all are there.
        """
        waiting = _bytes([tile for tile in scope.loads if tile.loaded not in self._operands]) / 4
        sums = [t.shape for t in carried if any(_same(t.shape, product) for product in scope.products)]

        def apart(shapes: Sequence[tuple[Numbers, ...]]) -> list[Numbers]:
            return [math.prod(s, start=ONE) for s in shapes if not any(_same(s, own) for own in sums)]

        products = sum((math.prod(s, start=ONE) for s in scope.apart), ZERO)
        return _bytes(carried) / 4 + np.max(np.broadcast_arrays(waiting, products, *apart(scope.results)), axis=0)

    def _branch(self, s: ast.If) -> None:
        test = self._value(s.test)
        if _is_number(test):
            share = _truth(test)
        elif isinstance(test, Tile) or test is None:
            share = np.float64(0.5) if s.orelse else np.float64(1.0)
        else:
            share = np.float64(bool(test))
        before, names = self._weight, self._names
        taken = dict(names)
        if np.any(share > 0):
            self._names, self._weight = taken, before * share
            self._body(s.body)
            taken = self._names  # a branch within has replaced them
        other = dict(names)
        if np.any(share < 1):
            self._names, self._weight = other, before * (1.0 - share)
            self._body(s.orelse)
            other = self._names
        self._weight = before
        self._names = _merged(taken, other, share)

    def _bind(self, target: ast.expr, value: Any) -> None:
        if isinstance(target, ast.Name):
            self._names[target.id] = value
        elif isinstance(target, ast.Tuple | ast.List):
            parts: Sequence[Any] = value if isinstance(value, tuple) else (Tile(),) * len(target.elts)
            for one, part in zip(target.elts, parts, strict=False):
                self._bind(one, part)

    # Expressions

    def _value(self, node: ast.expr | None) -> Any:
        match node:
            case ast.Constant():
                value = node.value
                return float(value) if isinstance(value, bool | int | float) else value
            case ast.Name():
                if node.id in self._names:
                    return self._names[node.id]
                return self._globals.get(node.id, node.id if node.id in _DTYPES else None)
            case ast.Tuple() | ast.List():
                return tuple(self._value(e) for e in node.elts)
            case ast.BinOp():
                return self._combined(node.op, self._value(node.left), self._value(node.right))
            case ast.UnaryOp():
                value = self._value(node.operand)
                if isinstance(node.op, ast.Not):
                    return 1.0 - _truth(value) if _is_number(value) else value
                return -value if _is_number(value) and isinstance(node.op, ast.USub) else value
            case ast.Compare():
                return self._compared(node)
            case ast.BoolOp():
                return self._joined(node)
            case ast.IfExp():
                test, yes, no = self._value(node.test), self._value(node.body), self._value(node.orelse)
                return _chosen(yes, no, _truth(test)) if _is_number(test) else yes
            case ast.Call():
                return self._call(node)
            case ast.Subscript():
                return self._subscript(node)
            case ast.Attribute():
                return self._attribute(node)
            case _:
                return None

    def _attribute(self, node: ast.Attribute) -> Any:
        if node.attr in _DTYPES:
            return node.attr
        base = self._value(node.value)
        if isinstance(base, Tile):
            if node.attr == "T":
                return _transposed(base, None)
            if node.attr in ("dtype", "element_ty", "type", "scalar"):
                return base.dtype
            if node.attr == "shape":
                return base.shape
        if node.attr in ("element_ty", "type", "dtype", "value", "scalar"):
            return base
        return None

    def _combined(self, op: ast.operator, a: Any, b: Any) -> Any:
        if _is_number(a) and _is_number(b):
            left, right = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
            return _ARITHMETIC.get(type(op), lambda a, _: a)(left, right)
        if isinstance(a, tuple) and isinstance(b, tuple) and isinstance(op, ast.Add):
            return cast("tuple[Any, ...]", a) + cast("tuple[Any, ...]", b)
        if not isinstance(a, Tile) and not isinstance(b, Tile):
            return None
        left, right = _as_tile(a), _as_tile(b)
        shape = _broadcast(left.shape, right.shape)
        if isinstance(op, ast.Add) and (left.product or right.product):
            self._in_place(shape)
        pointer = left.pointer or right.pointer
        dtype = left.dtype if left.pointer else right.dtype if right.pointer else _wider(left, right, a, b)
        steps = _steps(op, left, right, a, b, len(shape))
        result = Tile(shape, dtype, pointer, steps)
        if shape and not pointer and dtype.startswith(_FLOATS):
            self._elementwise(result, special=isinstance(op, ast.Div))
        elif shape:
            self._count("integer", result.elements)
        return result

    def _in_place(self, shape: tuple[Numbers, ...]) -> None:
        """Take back that a product of a shape is held apart: a sum takes it in place."""
        place = next((i for i, own in enumerate(self._scope.apart) if _same(own, shape)), None)
        if place is not None:
            del self._scope.apart[place]

    def _count(self, name: str, amount: Any = 1.0) -> None:
        """Add an amount, as often as what is walked through happens."""
        self.work.add(self.work.amounts, name, self._weight * amount)

    def _of_shape(self, kind: dict[str, Numbers], name: str, shape: tuple[Numbers, ...], amount: Any) -> None:
        """Add an amount for a tile of a shape, which may be done more than once."""
        done = _Amount(kind, name, shape, self._weight * amount)
        self.work.add(kind, name, done.amount)
        self._scope.amounts.append(done)

    def _elementwise(self, tile: Tile, *, special: bool = False) -> None:
        self._of_shape(self.work.amounts, "special" if special else "elementwise", tile.shape, tile.elements)
        self.work.most("tile", tile.elements)
        self._scope.results.append(tile.shape)

    def _compared(self, node: ast.Compare) -> Any:
        values = [self._value(v) for v in (node.left, *node.comparators)]
        if any(isinstance(v, Tile) for v in values):
            first, second = _as_tile(values[0]), _as_tile(values[1])
            return Tile(_broadcast(first.shape, second.shape), "int1")
        if len(values) == 2:
            a, b = values
            op = node.ops[0]
            if _is_number(a) and _is_number(b):
                compare = _COMPARISONS.get(type(op))
                return None if compare is None else np.asarray(compare(a, b), dtype=np.float64)
            same = a is b or (isinstance(a, str) and isinstance(b, str) and a == b)
            if isinstance(op, ast.Is | ast.Eq):
                return float(same)
            if isinstance(op, ast.IsNot | ast.NotEq):
                return float(not same)
        return None

    def _joined(self, node: ast.BoolOp) -> Any:
        values = [self._value(v) for v in node.values]
        if all(_is_number(v) for v in values):
            kind = np.minimum if isinstance(node.op, ast.And) else np.maximum
            return reduce(kind, map(_truth, values))
        return next((v for v in values if isinstance(v, Tile)), None)

    def _subscript(self, node: ast.Subscript) -> Any:
        value = self._value(node.value)
        if isinstance(value, tuple):
            place = self._value(node.slice)
            items = cast("tuple[Any, ...]", value)
            if _is_number(place) and np.ndim(place) == 0 and -len(items) <= int(place) < len(items):
                return items[int(place)]
            return None
        if not isinstance(value, Tile):
            return value
        entries = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if value.loaded and len(value.shape) < len(entries):  # it gets the layout of what it is spread over
            self._count("barriers", np.asarray(self._globals["num_warps"]) > 1)
        axes = zip_longest(value.shape, value.steps)
        found = [next(axes, None) if isinstance(entry, ast.Slice) else (ONE, ZERO) for entry in entries]
        kept = [pair for pair in found if pair is not None]
        return replace(value, shape=tuple(size for size, _ in kept), steps=tuple(step for _, step in kept))

    # Calls

    def _call(self, node: ast.Call) -> Any:
        func = node.func
        name = func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "")
        named = {k.arg: self._value(k.value) for k in node.keywords if k.arg}
        args = [self._value(a) for a in node.args]
        is_builtin = isinstance(func, ast.Attribute) and _is_module(func.value)
        if name in self._functions and not is_builtin:
            return self._enter(self._functions[name], named, args)
        if isinstance(func, ast.Attribute) and not is_builtin:
            args = [self._value(func.value), *args]
        return self._builtin(name, args, named)

    def _enter(self, function: _Function, named: Mapping[str, Any], args: Sequence[Any] = ()) -> Any:
        if self._depth > _DEPTH:
            return Tile()
        parameters = [a.arg for a in (*function.tree.args.posonlyargs, *function.tree.args.args)]
        given = dict(zip(parameters, args, strict=False)) | dict(named)
        given |= {name: self._value(default) for name, default in function.defaults.items() if name not in given}
        before, self._names, self._depth = self._names, given, self._depth + 1
        self._result = None
        self._body(function.tree.body)
        result, self._result = self._result, None
        self._names, self._depth = before, self._depth - 1
        return result

    def _builtin(self, name: str, args: list[Any], named: dict[str, Any]) -> Any:
        first = args[0] if args else None
        if name == "program_id":
            return self._program(int(_scalar(first, named.get("axis", 0.0))))
        if name == "num_programs":
            return self._grids[:, int(_scalar(first, named.get("axis", 0.0)))]
        if name in ("cdiv", "ceildiv"):
            a, b = (cast("list[Any]", [*args, None, None]))[:2]
            if _is_number(a) and _is_number(b):
                return np.ceil(np.asarray(a) / np.maximum(1e-9, b))
            return Tile() if isinstance(a, Tile) or isinstance(b, Tile) else None
        if name in ("min", "minimum", "max", "maximum") and len(args) >= 2 and all(_is_number(a) for a in args[:2]):
            kind = np.minimum if name.startswith("min") else np.maximum
            return kind(np.asarray(args[0]), np.asarray(args[1]))
        if name == "arange" and len(args) >= 2:
            return Tile((_extent(args[1], args[0]),), "int32", "", (ONE,))
        if name in ("zeros", "full", "zeros_like", "full_like"):
            return self._filled(name, args, named)
        if name in ("load", "store") or name.startswith("atomic_"):
            return self._access(name, args, named)
        if name in ("make_block_ptr", "make_tensor_descriptor", "advance"):
            return self._block(name, args, named)
        if name in ("load_tensor_descriptor", "_experimental_descriptor_load"):
            return self._access("load", args[:1], named)
        if name in ("dot", "dot_scaled"):
            return self._dot(args, named)
        if isinstance(first, Tile) and (result := self._of_tile(name, first, args, named)) is not None:
            return result
        if name in _SPECIAL and _is_number(first):
            return Tile((), "float32")
        if name == "where" and len(args) == 3:
            return self._where(args)
        tiles = [a for a in args if isinstance(a, Tile)]
        if name in _TRANSPARENT and len(tiles) > 1:
            result = replace(tiles[0], shape=reduce(_broadcast, (t.shape for t in tiles)), steps=())
            self._elementwise(result)
            return result
        if name in _TRANSPARENT and tiles:
            return tiles[0]
        if name in _KEEPING:
            return first
        if name == "len" and isinstance(first, tuple):
            return float(len(cast("tuple[Any, ...]", first)))
        return replace(tiles[0], pointer="", steps=()) if tiles else None

    def _of_tile(self, name: str, tile: Tile, args: list[Any], named: dict[str, Any]) -> Any:
        """Return the result of a function whose first argument is a tile; None for one that is not known."""
        if name in ("to", "cast"):
            wanted = args[1] if len(args) > 1 else named.get("dtype")
            changed = isinstance(wanted, str) and wanted in _DTYPES
            if changed and tile.shape and tile.dtype != wanted:
                self._of_shape(self.work.amounts, "converted", tile.shape, tile.elements)
            return replace(tile, dtype=cast("str", wanted)) if changed else tile
        if name in ("trans", "permute"):
            return _transposed(tile, _order(args[1:] or [named.get("dims")]))
        if name == "expand_dims":
            axis = int(_scalar(args[1] if len(args) > 1 else named.get("axis"), 0.0))
            shape, steps = list(tile.shape), list(_padded(tile))
            axis = axis if axis >= 0 else len(shape) + 1 + axis
            shape.insert(axis, ONE)
            steps.insert(axis, ZERO)
            return replace(tile, shape=tuple(shape), steps=tuple(steps))
        if name in _RESHAPES:
            return _reshaped(name, tile, args, named)
        if name in _REDUCTIONS:
            return self._reduced(name, tile, args, named)
        if name in _SCANS:
            self._count("scanned", tile.elements)
            self._count("barriers")
            return tile
        if name in _SPECIAL:
            if tile.shape:
                self._elementwise(tile, special=True)
            return replace(tile, steps=()) if not tile.dtype.startswith("int") else replace(tile, dtype="float32")
        return None

    def _program(self, axis: int) -> Numbers:
        """Return the program's place along an axis."""
        return np.floor(self._places[:, axis] * self._grids[:, axis])

    def _filled(self, name: str, args: list[Any], named: dict[str, Any]) -> Any:
        first = args[0] if args else named.get("shape")
        if name.endswith("_like"):
            return first
        dtype = named.get("dtype", args[-1] if len(args) > 1 else None)
        shape = first if isinstance(first, tuple) else (first,)
        return Tile(
            tuple(_extent(s) for s in cast("tuple[Any, ...]", shape)),
            dtype if isinstance(dtype, str) and dtype in _DTYPES else "float32",
        )

    def _access(self, name: str, args: list[Any], named: dict[str, Any]) -> Any:
        tile = args[0] if args else named.get("pointer")
        if not isinstance(tile, Tile) or not tile.pointer:
            self.work.unknown += 1
            value = args[1] if len(args) > 1 else None
            return value if isinstance(value, Tile) else Tile()
        moved = tile.elements * tile.item
        weighted = self._weight * moved
        if name.startswith("atomic_"):
            self.work.add(self.work.atomics, tile.pointer, weighted)
        elif name == "store":
            self.work.add(self.work.stores, tile.pointer, weighted)
        else:
            self.work.add(self.work.loads, tile.pointer, weighted)
        if tile.shape:
            run = _run(tile)
            whole = np.ceil(np.maximum(run, tile.item) / SECTOR) * SECTOR / np.maximum(run, tile.item)
            sector = "stored_sectors" if name == "store" else "sectors"
            self.work.add(self.work.amounts, sector, weighted * whole)
            self.work.add(self.work.amounts, "scattered", weighted * whole * (np.minimum(run, LINE) / LINE) ** -SCATTER)
        self.work.most("tile", tile.elements)
        if name == "store":
            return None
        self._loaded += 1
        loaded = Tile(tile.shape, tile.dtype, loaded=self._loaded, loop=self._scope.loop)
        self._scope.loads.append(loaded)
        return loaded

    def _block(self, name: str, args: list[Any], named: dict[str, Any]) -> Any:
        if name == "advance":
            return args[0] if args else None
        base = args[0] if args else named.get("base")
        strides = named.get("strides", args[2] if len(args) > 2 else None)
        place = 4 if name == "make_block_ptr" else 3
        shape = named.get("block_shape", args[place] if len(args) > place else None)
        if not isinstance(base, Tile) or not isinstance(shape, tuple):
            return None
        extents = tuple(_extent(s) for s in cast("tuple[Any, ...]", shape))
        listed = cast("tuple[Any, ...]", strides) if isinstance(strides, tuple) else (None,) * len(extents)
        steps = tuple(np.asarray(s, dtype=np.float64) if _is_number(s) else None for s in listed)
        return Tile(extents, base.dtype, base.pointer, cast("tuple[Numbers | None, ...]", steps))

    def _dot(self, args: list[Any], named: dict[str, Any]) -> Any:
        a, b = args[0], args[2] if len(args) > 4 and isinstance(args[1], Tile) and isinstance(args[2], str) else args[1]
        if not isinstance(a, Tile) or not isinstance(b, Tile) or len(a.shape) < 2 or len(b.shape) < 2:
            self.work.unknown += 1
            return Tile()
        m, k, n = a.shape[-2], a.shape[-1], b.shape[-1]
        batch = math.prod(a.shape[:-2], start=ONE)
        flops = 2.0 * batch * m * n * k
        kind = a.dtype if a.item <= b.item or not a.dtype.startswith(_FLOATS) else b.dtype
        shape = (*a.shape[:-2], m, n)
        if not a.loaded and any(_same(a.shape, product) for product in self._scope.products):
            self._scope.chained += [] if any(_same(a.shape, s) for s in self._scope.chained) else [a.shape]
        self._of_shape(self.work.dots, _unit(kind), shape, flops)
        self._count("dot_count")
        for label, size in (("dot_m", m), ("dot_n", n), ("dot_k", k)):
            self.work.most(label, size)
        self.work.most("tile", batch * m * n)
        self._scope.results.append(shape)
        self._scope.products.append(shape)
        self._scope.computed |= not (a.loaded and b.loaded)
        for tile in (a, b):
            if tile.loaded not in self._operands and (tile.loaded or tile is b):  # else it is a tile of registers
                self._operands.add(tile.loaded)
                held = "staged" if tile.loaded and tile.loop == self._scope.loop else "kept"
                self.work.add(self.work.amounts, held, tile.elements * tile.item)
        accumulator = named.get("acc", args[2] if len(args) > 2 and isinstance(args[2], Tile) else None)
        self._scope.apart += [] if isinstance(accumulator, Tile) else [shape]
        dtype = accumulator.dtype if isinstance(accumulator, Tile) else "int32" if kind.startswith("int") else "float32"
        return Tile(shape, dtype, product=not isinstance(accumulator, Tile))

    def _reduced(self, name: str, first: Tile, args: list[Any], named: dict[str, Any]) -> Any:
        self._of_shape(self.work.amounts, "reduced", first.shape, first.elements)
        self.work.most("tile", first.elements)
        axis = args[1] if len(args) > 1 else named.get("axis")
        drop = int(_scalar(axis, 0.0)) % len(first.shape) if _is_number(axis) and first.shape else None
        self._exchange(first.shape, drop)
        shape: tuple[Numbers, ...] = ()
        if drop is not None and len(first.shape) > 1:
            kept = (ONE,) if named.get("keep_dims") else ()
            shape = (*first.shape[:drop], *kept, *first.shape[drop + 1 :])
        result = Tile(shape, "int32" if name.startswith("arg") else first.dtype)
        return (result, replace(result, dtype="int32")) if named.get("return_indices") else result

    def _exchange(self, shape: Sequence[Numbers], axis: int | None) -> None:
        """Count what warps exchange because each holds a part of what is reduced along an axis, or along all.

        A warp's threads lie along the last axis first, with `NEIGHBOURS` elements each where such a tile is loaded or a
        product, then along those before; warps follow them.
        """
        known = (*self._scope.products, *(tile.shape for tile in self._scope.loads))
        neighbours = NEIGHBOURS if len(shape) < 2 or any(_same(tuple(shape), own) for own in known) else 1
        threads: Numbers = np.full(self.work.count, float(WARP))
        warps_left = threads * 0 + self._globals["num_warps"]
        sharing = sums = np.ones(self.work.count)
        for place in reversed(range(len(shape))):
            size = shape[place] / (neighbours if place == len(shape) - 1 else 1)
            along = np.clip(size, 1.0, threads)
            warps = np.clip(size / along, 1.0, warps_left)
            threads, warps_left = threads / along, warps_left / warps
            if axis in (None, place):
                sharing = sharing * warps
            else:
                sums = sums * shape[place]
        self._count("barriers", sharing > 1)
        self._count("exchanged", np.where(sharing > 1, sharing * sums, 0.0))

    def _where(self, args: list[Any]) -> Any:
        tiles = [_as_tile(a) for a in args]
        shape = _broadcast(_broadcast(tiles[0].shape, tiles[1].shape), tiles[2].shape)
        chosen = tiles[1] if isinstance(args[1], Tile) else tiles[2]
        result = replace(chosen, shape=shape, steps=())
        if shape:
            self._elementwise(result)
        return result


def _parsed(text: str) -> _Function:
    lines = text.splitlines()
    indent = len(lines[0]) - len(lines[0].lstrip()) if lines else 0
    tree = ast.parse("\n".join(line[indent:] for line in lines))
    function = next((n for n in tree.body if isinstance(n, ast.FunctionDef)), None)
    if function is None:
        raise SyntaxError("there is no function")
    arguments = function.args
    every = [*arguments.posonlyargs, *arguments.args]
    defaults = dict(zip([a.arg for a in every[::-1]], arguments.defaults[::-1], strict=False))
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        if default is not None:
            defaults[argument.arg] = default
    return _Function(function, defaults)


def _is_module(node: ast.expr) -> bool:
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name) and node.id in _MODULES


def _is_unrolled(node: ast.expr) -> bool:
    func = node.func if isinstance(node, ast.Call) else None
    return isinstance(func, ast.Attribute) and func.attr == "static_range"


def _scalar(value: Any, default: Any) -> float:
    chosen = value if _is_number(value) else default
    return float(np.asarray(chosen).flat[0]) if _is_number(chosen) else 0.0


def _extent(high: Any, low: Any = 0.0) -> Numbers:
    if _is_number(high) and _is_number(low):
        return np.maximum(1.0, np.asarray(high, dtype=np.float64) - low)
    return ONE


def _as_tile(value: Any) -> Tile:
    fractional = isinstance(value, float) and value % 1
    return value if isinstance(value, Tile) else Tile((), "float32" if fractional else "int32")


def _padded(tile: Tile) -> tuple[Numbers | None, ...]:
    return (None,) * (len(tile.shape) - len(tile.steps)) + tile.steps


def _bytes(tiles: Sequence[Tile]) -> Numbers:
    """Return the bytes of tiles together."""
    return sum((t.elements * t.item for t in tiles), ZERO)


def _same(a: tuple[Numbers, ...], b: tuple[Numbers, ...]) -> bool:
    """Return whether two shapes are the same in every configuration."""
    return len(a) == len(b) and all(np.all(x == y) for x, y in zip(a, b, strict=True))


def _broadcast(a: tuple[Numbers, ...], b: tuple[Numbers, ...]) -> tuple[Numbers, ...]:
    longer = max(len(a), len(b))
    a, b = ((ONE,) * (longer - len(shape)) + shape for shape in (a, b))
    return tuple(np.maximum(x, y) for x, y in zip(a, b, strict=True))


def _wider(a: Tile, b: Tile, left: Any, right: Any) -> str:
    """Return the dtype of a result: a number beside a tile does not widen it, but makes a float of integers."""
    if not isinstance(left, Tile) or not isinstance(right, Tile):
        tile, number = (a, right) if isinstance(left, Tile) else (b, left)
        fractional = isinstance(number, float) and not float(number).is_integer()
        return "float32" if fractional and not tile.dtype.startswith(_FLOATS) else tile.dtype
    floats = [t for t in (a, b) if t.dtype.startswith(_FLOATS)]
    return max(floats or [a, b], key=lambda t: t.item).dtype


def _steps(op: ast.operator, a: Tile, b: Tile, left: Any, right: Any, rank: int) -> tuple[Numbers | None, ...]:
    """Return how much neighbours differ along each axis after an operation on integers or addresses."""

    def padded(tile: Tile) -> list[Numbers | None]:
        own = list(_padded(tile))
        return [ZERO] * (rank - len(own)) + own

    if isinstance(op, ast.Add | ast.Sub):
        sign = -1.0 if isinstance(op, ast.Sub) else 1.0
        return tuple(
            None if x is None or y is None else x + sign * y for x, y in zip(padded(a), padded(b), strict=True)
        )
    if isinstance(op, ast.Mult):
        for tile, factor in ((a, right), (b, left)):
            if _is_number(factor):
                return tuple(None if x is None else x * factor for x in padded(tile))
    if isinstance(op, ast.Mod):  # neighbours mostly stay neighbours
        return tuple(padded(a))
    return (None,) * rank


_ARITHMETIC: Mapping[type[ast.operator], Callable[[Numbers, Numbers], Any]] = {
    ast.Add: np.add,
    ast.Sub: np.subtract,
    ast.Mult: np.multiply,
    ast.Div: lambda a, b: a / np.where(b == 0, 1.0, b),
    ast.FloorDiv: lambda a, b: np.floor(a / np.where(b == 0, 1.0, b)),
    ast.Mod: lambda a, b: np.mod(a, np.where(b == 0, 1.0, b)),
    ast.Pow: np.power,
    ast.LShift: lambda a, b: a * 2.0**b,
    ast.RShift: lambda a, b: np.floor(a / 2.0**b),
    ast.BitAnd: lambda a, b: _of_truths(np.logical_and, a, b),
    ast.BitOr: lambda a, b: _of_truths(np.logical_or, a, b),
}
"""Operations on numbers; of others the left side is taken."""
_COMPARISONS: Mapping[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: np.equal,
    ast.NotEq: np.not_equal,
    ast.Lt: np.less,
    ast.LtE: np.less_equal,
    ast.Gt: np.greater,
    ast.GtE: np.greater_equal,
}


def _of_truths(function: Callable[[Numbers, Numbers], Any], a: Numbers, b: Numbers) -> Any:
    """Return the result for truth values; bits of larger numbers are not followed."""
    return function(a, b).astype(np.float64) if max(a.max(), b.max()) <= 1 else a


def _run(tile: Tile) -> Numbers:
    """Return the bytes that lie next to one another in memory, as far as it is known; one sector where it is not."""
    run = cast("Numbers", np.float64(tile.item))
    known = False
    for size, step in zip(tile.shape, _padded(tile), strict=True):
        if step is not None:
            known = True
            run = np.maximum(run, np.where(np.abs(step) == 1.0, size * tile.item, tile.item))
    return run if known else cast("Numbers", np.float64(max(SECTOR, tile.item)))


def _transposed(tile: Tile, order: Sequence[int] | None) -> Tile:
    rank = len(tile.shape)
    if order is None or sorted(order) != list(range(rank)):
        order = [*range(rank - 2), rank - 1, rank - 2] if rank >= 2 else list(range(rank))
    steps = _padded(tile)
    return replace(tile, shape=tuple(tile.shape[i] for i in order), steps=tuple(steps[i] for i in order))


def _reshaped(name: str, tile: Tile, args: list[Any], named: dict[str, Any]) -> Any:
    if name in ("join", "interleave", "cat"):
        grown = [*tile.shape]
        if name == "join":
            grown.append(2 * ONE)
        elif grown:
            grown[-1] = grown[-1] * 2
        return Tile(tuple(grown), tile.dtype)
    if name == "split":
        half = Tile(tile.shape[:-1], tile.dtype)
        return (half, half)
    rest = args[1:] if len(args) > 1 else [named.get("shape")]
    sizes = rest[0] if len(rest) == 1 and isinstance(rest[0], tuple) else tuple(rest)
    if name == "ravel" or any(s is None for s in sizes):
        return Tile((tile.elements,), tile.dtype, tile.pointer)
    shape = tuple(_extent(s) for s in cast("tuple[Any, ...]", sizes))
    kept = name == "broadcast_to" and len(shape) == len(tile.shape)
    return Tile(shape, tile.dtype, tile.pointer, tile.steps if kept else ())


def _order(args: Sequence[Any]) -> list[int] | None:
    items = args[0] if len(args) == 1 and isinstance(args[0], tuple) else tuple(args)
    found = [int(_scalar(i, 0.0)) for i in cast("tuple[Any, ...]", items) if _is_number(i)]
    return found or None


def _unit(dtype: str) -> str:
    """Return which rate a product of a dtype has."""
    size = _DTYPES.get(dtype, 4)
    if dtype.startswith(("int", "uint")):
        return "int8"
    return {1: "fp8", 2: "fp16", 8: "fp64"}.get(size, "tf32")


def _chosen(yes: Any, no: Any, share: Any) -> Any:
    """Return one of two values, per configuration where both are numbers."""
    if _is_number(yes) and _is_number(no):
        return np.where(share > 0, yes, no)
    if isinstance(yes, Tile) and isinstance(no, Tile) and len(yes.shape) == len(no.shape):
        shape = tuple(np.where(share > 0, x, y) for x, y in zip(yes.shape, no.shape, strict=True))
        return replace(yes if np.mean(share) >= 0.5 else no, shape=shape)
    return yes if np.mean(share) >= 0.5 else no


def _merged(taken: dict[str, Any], other: dict[str, Any], share: Any) -> dict[str, Any]:
    merged = dict(other)
    for name, value in taken.items():
        if name not in other:
            merged[name] = value
        elif other[name] is not value:
            merged[name] = _chosen(value, other[name], share)
    return merged


def mean(values: Numbers) -> Numbers:
    """Return the mean over the sampled programs, an entry per configuration."""
    return np.asarray(values).reshape(-1, len(SAMPLED)).mean(1)


def spread(values: Numbers) -> Numbers:
    """Return the largest over the mean of the sampled programs, an entry per configuration."""
    table = np.asarray(values).reshape(-1, len(SAMPLED))
    average = table.mean(1)
    return np.where(average > 0, table.max(1) / np.maximum(average, 1e-30), 1.0)


def item_bytes(dtype: str) -> int:
    """Return the bytes of an element."""
    return _DTYPES.get(dtype, 4)
