"""Addresses of the tiles of a Triton kernel, worked out from its text without running it."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from forewarp.gpu_runner.formats.plan import LaunchPlan
from forewarp.inspection.features.addresses import (
    SIZE,
    Evaluator,
    Found,
    Ints,
    LoadedValue,
    Pointer,
    Value,
    combine,
    fold,
    is_ints,
    plain,
    scalar,
)

_MOST_TILE = 1 << 17
_DEPTH = 6
_STATEMENTS = 3000
_SAME = ("to", "cast", "multiple_of", "max_contiguous", "assume", "debug_barrier", "abs")


def read(text: str, plan: LaunchPlan, names: dict[str, int], found: Found) -> None:
    try:
        module = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return
    functions = {f.name: f for f in module.body if isinstance(f, ast.FunctionDef)}
    known: dict[str, Value] = {n: scalar(v) for n, v in names.items()}
    for statement in module.body:
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            constant = statement.value
            if isinstance(constant, ast.Call) and constant.args:
                constant = constant.args[0]
            if isinstance(constant, ast.Constant) and isinstance(constant.value, int):
                known.setdefault(statement.targets[0].id, scalar(constant.value))
    buffers = {*plan.inputs, *plan.outputs, *plan.params, *(s.name for s in plan.scratch)}
    for launch in plan.launches:
        if (function := functions.get(launch.kernel)) is None:
            continue
        values = [_argument(a, names, buffers) for a in launch.args]
        reader = _Reader(known, functions, found)
        reader.enter(function, values, {})


def _argument(text: str, names: dict[str, int], buffers: set[str]) -> Value:
    name = text.partition(":")[0].strip()
    if name in buffers:
        return Pointer(scalar(0))
    if name in names:
        return scalar(names[name])
    return scalar(int(name)) if name.isdigit() else scalar(SIZE)


class _Reader(Evaluator):
    def __init__(self, names: dict[str, Value], functions: dict[str, ast.FunctionDef], found: Found) -> None:
        super().__init__(names, found)
        self._functions = functions
        self._depth, self._left = 0, _STATEMENTS
        self._result: Value = None

    def enter(self, function: ast.FunctionDef, values: Sequence[Value], named: dict[str, Value]) -> Value:
        if self._depth >= _DEPTH:
            return None
        before, self._result = dict(self.names), None
        given = list(values)
        parameters = function.args.args
        defaults = dict(zip([p.arg for p in parameters[::-1]], function.args.defaults[::-1], strict=False))
        for parameter in parameters:
            name = parameter.arg
            constexpr = "constexpr" in ast.dump(parameter.annotation) if parameter.annotation else False
            if name in named:
                self.names[name] = named[name]
            elif constexpr and self._depth == 0:
                if name not in before and name in defaults:
                    self.names[name] = self.value(defaults[name])
            elif given:
                self.names[name] = given.pop(0)
            elif name in defaults:
                self.names[name] = self.value(defaults[name])
        self._depth += 1
        self._body(function.body)
        self._depth -= 1
        result, self._result = self._result, None
        self.names = before
        return result

    def _body(self, statements: Sequence[ast.stmt]) -> None:
        for statement in statements:
            self._left -= 1
            if self._left < 0:
                return
            self._statement(statement)

    def _statement(self, s: ast.stmt) -> None:
        match s:
            case ast.Assign():
                value = self.value(s.value)
                for target in s.targets:
                    self._bind(target, value)
            case ast.AnnAssign() if s.value is not None:
                self._bind(s.target, self.value(s.value))
            case ast.AugAssign():
                change = self.value(s.value)
                if isinstance(s.target, ast.Name):
                    self.names[s.target.id] = combine(type(s.op), self.names.get(s.target.id), change)
            case ast.Expr():
                self.value(s.value)
            case ast.Return():
                self._result = self.value(s.value)
            case ast.For():
                self._bind(s.target, self._first(s.iter))
                self._body(s.body)
            case ast.While():
                self.value(s.test)
                self._body(s.body)
            case ast.If():
                self._branch(s)
            case _:
                pass

    def _branch(self, s: ast.If) -> None:
        test = plain(self.value(s.test))
        if test is None or test.size != 1:
            self._body(s.body)
            self._body(s.orelse)
        else:
            self._body(s.body if test.flat[0] else s.orelse)

    def _bind(self, target: ast.expr, value: Value) -> None:
        if isinstance(target, ast.Name):
            self.names[target.id] = value
        elif isinstance(target, ast.Tuple):
            parts = value if isinstance(value, tuple) else (None,) * len(target.elts)
            for one, part in zip(target.elts, parts, strict=False):
                self._bind(one, part)

    def _first(self, node: ast.expr) -> Value:
        if isinstance(node, ast.Call) and node.args:
            values = [self.value(a) for a in node.args]
            return values[0] if len(values) > 1 else scalar(0)
        return scalar(0)

    def call(self, node: ast.Call) -> Value:
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        method = isinstance(node.func, ast.Attribute) and not _is_module(node.func.value)
        if isinstance(node.func, ast.Name) and name in self._functions:
            named = {k.arg: self.value(k.value) for k in node.keywords if k.arg}
            return self.enter(self._functions[name], [self.value(a) for a in node.args], named)
        first = [self.value(node.func.value)] if method and isinstance(node.func, ast.Attribute) else []
        args: list[Value] = [*first, *(self.value(a) for a in node.args)]
        named = {k.arg: self.value(k.value) for k in node.keywords if k.arg}
        return self._builtin(name, args, named)

    def _builtin(self, name: str, args: list[Value], named: dict[str, Value]) -> Value:
        known = [plain(a) for a in args]
        if name in ("load", "store") or name.startswith("atomic_"):
            return self.access(args[0] if args else None, store=name != "load")
        if name == "arange" and len(known) == 2 and known[0] is not None and known[1] is not None:
            low, high = int(known[0]), int(known[1])
            return np.arange(low, high, dtype=np.int64) if 0 < high - low <= _MOST_TILE else None
        if name == "program_id":
            return scalar(1)
        if name == "num_programs":
            return scalar(1024)
        if name in ("cdiv", "minimum", "min", "maximum", "max") and len(args) == 2:
            if name == "cdiv":
                a, b = known
                return None if a is None or b is None or not b.all() else -(-a // b)
            return fold(args, np.minimum if name.startswith("min") else np.maximum)
        if name in ("make_block_ptr", "make_tensor_descriptor", "advance"):
            return self._block(name, args, named)
        if name in ("expand_dims", "broadcast_to", "reshape", "view", "trans", "permute"):
            return _shaped(name, args)
        if name in ("where",) and len(args) == 3:
            return args[1] if args[1] is not None else args[2]
        return args[0] if name in _SAME and args else None

    def _block(self, name: str, args: list[Value], named: dict[str, Value]) -> Value:
        if name == "advance":
            return args[0] if args else None
        base = args[0] if args else named.get("base")
        strides = named.get("strides", args[2] if len(args) > 2 else None)
        place = 4 if name == "make_block_ptr" else 3
        shape = named.get("block_shape", args[place] if len(args) > place else None)
        if not isinstance(base, Pointer) or not isinstance(strides, tuple) or not isinstance(shape, tuple):
            return None
        offsets: Value = base.offsets
        for axis, (stride, size) in enumerate(zip(strides, shape, strict=False)):
            step, extent = plain(stride), plain(size)
            if step is None or extent is None or not 0 < int(extent) <= SIZE:
                return None
            line = np.arange(int(extent), dtype=np.int64).reshape([-1 if i == axis else 1 for i in range(len(shape))])
            offsets = offsets + line * step
        return replace(base, offsets=offsets) if offsets.size <= _MOST_TILE else None

    def subscript(self, node: ast.Subscript) -> Value:
        value = self.value(node.value)
        entries = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if isinstance(value, tuple):
            place = plain(self.value(node.slice))
            items: tuple[Value, ...] = value
            return items[int(place)] if place is not None and int(place) < len(items) else None
        index = tuple(None if isinstance(e, ast.Constant) and e.value is None else slice(None) for e in entries)

        def reshaped(ints: Ints) -> Ints | None:
            return ints[index] if ints.ndim == sum(i is not None for i in index) else None

        return _over(value, reshaped)

    def attribute(self, node: ast.Attribute) -> Value:
        """Return a transposed tile; nothing else that has a name after a dot matters for addresses."""
        return _over(self.value(node.value), np.transpose) if node.attr == "T" else None


def _is_module(node: ast.expr) -> bool:
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name) and node.id in ("tl", "triton", "libdevice", "math")


def _shaped(name: str, args: list[Value]) -> Value:
    tile, rest = args[0], [plain(a) for a in (args[1] if len(args) > 1 and isinstance(args[1], tuple) else args[1:])]
    numbers = [int(r) for r in rest if is_ints(r) and r.size == 1]

    def reshaped(ints: Ints) -> Ints | None:
        try:
            if name == "expand_dims":
                return np.expand_dims(ints, numbers[0])
            if name in ("trans", "permute"):
                return np.transpose(ints, numbers or None)
            return np.broadcast_to(ints, numbers) if name == "broadcast_to" else ints.reshape(numbers)
        except (ValueError, IndexError):
            return None

    return _over(tile, reshaped)


def _over(value: Value, act: Callable[[Ints], Ints | None]) -> Value:
    """Apply a change of shape to the integers in a value."""
    ints = value.offsets if isinstance(value, Pointer) else plain(value)
    changed = act(ints) if ints is not None else None
    if changed is None:
        return None
    if isinstance(value, Pointer):
        return replace(value, offsets=changed)
    return LoadedValue(changed) if isinstance(value, LoadedValue) else changed
