"""Triton kernels as a file's text shows them: parameters, which of them are pointers, who launches them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

_JIT = re.compile(r"\bjit\b")
_POINTER = re.compile(r"(^|_)(ptr|ptrs|pointer)($|_|\d)|Ptr$|_ptr", re.IGNORECASE)
_ACCESSES = ("load", "store", "make_block_ptr", "make_tensor_descriptor")
_ADDED = (ast.Add, ast.Sub)

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a kernel; `default` says that there is one."""

    name: str
    constexpr: bool = False
    default: bool = False


@dataclass(frozen=True, slots=True)
class KernelText:
    """A jitted function as its text has it, with the parameters that are pointers, and those read for addresses."""

    name: str
    parameters: tuple[Parameter, ...]
    pointers: frozenset[str] = frozenset()
    indices: frozenset[str] = frozenset()
    returns: bool = False


@dataclass(frozen=True, slots=True)
class FileText:
    """All jitted functions of a file, those that are launched, and the names that each top-level item uses."""

    jitted: Mapping[str, KernelText]
    kernels: tuple[str, ...]
    uses: Mapping[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])

    def reaching(self, wanted: Iterable[str]) -> list[str]:
        """Return the functions and classes that lead to any of the names, those that no other uses first."""
        goal, found = set(wanted), dict.fromkeys(wanted, True)
        while True:
            more = [n for n, used in self.uses.items() if n not in found and used & set(found)]
            if not more:
                break
            found |= dict.fromkeys(more, True)
        callers = [n for n in self.uses if n in found and n not in goal and n not in self.jitted]
        inner = {name for c in callers for name in self.uses[c] if name != c}
        return sorted(callers, key=lambda n: n in inner)


def read(tree: ast.Module) -> FileText:
    """Find the jitted functions of a file, also those within functions and classes."""
    functions = {n.name: n for n in ast.walk(tree) if isinstance(n, FunctionNode) and _is_jitted(n)}
    pointers: dict[str, frozenset[str]] = {}
    jitted = {name: _kernel(node, functions, pointers) for name, node in functions.items()}
    called = {name for node in functions.values() for name in _called(node) if name in functions and name != node.name}
    kernels = tuple(name for name, k in jitted.items() if name not in called and not k.returns)
    uses = {
        n.name: frozenset(x.id for x in ast.walk(n) if isinstance(x, ast.Name))
        for n in _top(tree.body)
        if isinstance(n, FunctionNode | ast.ClassDef)
    }
    return FileText(jitted, kernels, uses)


def _top(body: Sequence[ast.stmt]) -> Iterable[ast.stmt]:
    """Return the statements at the top level, also those under an `if` or a `try`."""
    for node in body:
        yield node
        for name in ("body", "orelse", "finalbody"):
            if isinstance(node, ast.If | ast.Try | ast.With):
                yield from _top(getattr(node, name, []))


def _is_jitted(node: FunctionNode) -> bool:
    return any(_JIT.search(t := ast.unparse(d)) and "torch" not in t and "numba" not in t for d in node.decorator_list)


def _called(node: FunctionNode) -> set[str]:
    return {c.func.id for c in ast.walk(node) if isinstance(c, ast.Call) and isinstance(c.func, ast.Name)}


def _kernel(node: FunctionNode, functions: Mapping[str, FunctionNode], known: dict[str, frozenset[str]]) -> KernelText:
    arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    defaults = len(node.args.posonlyargs) + len(node.args.args) - len(node.args.defaults)
    parameters = tuple(
        Parameter(
            a.arg,
            a.annotation is not None and "constexpr" in ast.unparse(a.annotation),
            i >= defaults and a not in node.args.kwonlyargs,
        )
        for i, a in enumerate(arguments)
    )
    flow = _Flow(node, functions, known)
    pointers = flow.pointers()
    return KernelText(
        node.name,
        parameters,
        pointers,
        flow.indices(pointers),
        any(isinstance(n, ast.Return) and n.value is not None for n in ast.walk(node)),
    )


class _Flow:
    """Follows addresses in a function back to its parameters."""

    def __init__(
        self, node: FunctionNode, functions: Mapping[str, FunctionNode], known: dict[str, frozenset[str]]
    ) -> None:
        self._node, self._functions, self._known = node, functions, known
        plain = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
        self._names = [a.arg for a in plain]
        self._fixed = {a.arg for a in plain if a.annotation and "constexpr" in ast.unparse(a.annotation)}
        self._assigned: dict[str, list[ast.expr]] = {}
        for n in ast.walk(node):
            if isinstance(n, ast.Assign):
                for target in n.targets:
                    self._assign(target, n.value)
            elif isinstance(n, ast.AugAssign | ast.AnnAssign) and isinstance(n.target, ast.Name) and n.value:
                self._assigned.setdefault(n.target.id, []).append(n.value)

    def _assign(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Name):
            self._assigned.setdefault(target.id, []).append(value)
        elif isinstance(target, ast.Tuple):
            values = value.elts if isinstance(value, ast.Tuple) else [value] * len(target.elts)
            for one, its in zip(target.elts, values, strict=False):
                self._assign(one, its)

    def pointers(self) -> frozenset[str]:
        name = self._node.name
        if name in self._known:
            return self._known[name]
        self._known[name] = frozenset()  # for functions that call themselves
        found = {p for p in self._names if _POINTER.search(p) and "stride" not in p.lower()}
        for address in self._addresses():
            found |= self._origins(address, set())
        self._known[name] = frozenset(found - self._fixed)
        return self._known[name]

    def _addresses(self) -> Iterable[ast.expr]:
        """Return what is loaded from, stored to, or handed to a helper that does so."""
        for call in (n for n in ast.walk(self._node) if isinstance(n, ast.Call)):
            named = {k.arg: k.value for k in call.keywords}
            if isinstance(call.func, ast.Attribute):
                attribute = call.func.attr
                if attribute in _ACCESSES or attribute.startswith("atomic_"):
                    first = call.args[0] if call.args else named.get("pointer") or named.get("base")
                    if first is not None and ast.unparse(call.func.value) not in self._names:
                        yield first
            elif (
                isinstance(call.func, ast.Name) and call.func.id in self._functions and call.func.id != self._node.name
            ):
                helper = self._functions[call.func.id]
                flow = _Flow(helper, self._functions, self._known)
                reached = flow.pointers()
                places = [a.arg for a in (*helper.args.posonlyargs, *helper.args.args)]
                given = dict(zip(places, call.args, strict=False)) | {k: v for k, v in named.items() if k}
                for name, value in given.items():
                    if name in reached:
                        yield value

    def _origins(self, address: ast.expr, seen: set[str]) -> set[str]:
        """Return the parameters that an address begins at: the leftmost of what is added up."""
        while True:
            if isinstance(address, ast.BinOp) and isinstance(address.op, _ADDED):
                address = address.left
            elif isinstance(address, ast.Call) and isinstance(address.func, ast.Attribute):
                owner = ast.unparse(address.func.value)
                if owner in ("tl", "triton.language"):
                    if not address.args:
                        return set()
                    address = address.args[0]
                else:
                    address = address.func.value
            elif isinstance(address, ast.Subscript):
                address = address.value
            elif isinstance(address, ast.IfExp):
                return self._origins(address.body, seen) | self._origins(address.orelse, seen)
            else:
                break
        if not isinstance(address, ast.Name) or address.id in seen:
            return set()
        found = {address.id} & set(self._names)
        seen.add(address.id)
        for value in self._assigned.get(address.id, []):
            if not isinstance(value, ast.Constant):
                found |= self._origins(value, seen) if not found else set()
        return found

    def indices(self, pointers: frozenset[str]) -> frozenset[str]:
        """Return the pointers whose contents are part of an address, a loop's bound or a mask's comparison."""
        loaded = {
            name: {p for value in values for p in self._loaded(value) & pointers}
            for name, values in self._assigned.items()
        }
        bounds = [
            a
            for n in ast.walk(self._node)
            if isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id == "range"
            for a in n.args
        ]
        counting = [*self._addresses(), *bounds]
        used = {p for expression in counting for p in self._loaded(expression)}
        waiting = [name for expression in counting for name in _names_of(expression)]
        seen: set[str] = set()
        while waiting:
            name = waiting.pop()
            if name in seen:
                continue
            seen.add(name)
            used |= loaded.get(name, set())
            for value in self._assigned.get(name, []):
                if not any(isinstance(c, ast.Attribute) and c.attr in ("load", "where") for c in ast.walk(value)):
                    waiting += _names_of(value)
        return frozenset(used & pointers)

    def _loaded(self, expression: ast.expr) -> set[str]:
        loads = [
            c
            for c in ast.walk(expression)
            if isinstance(c, ast.Call) and isinstance(c.func, ast.Attribute) and c.func.attr == "load" and c.args
        ]
        return {p for c in loads for p in self._origins(c.args[0], set())}


def _names_of(node: ast.expr) -> list[str]:
    return [n.id for n in ast.walk(node) if isinstance(n, ast.Name)]
