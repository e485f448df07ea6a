"""Host functions of an extension, followed on given arguments: which kernels they launch, how, and what they return.

Tensors are computed by torch itself, so that shapes are right; kernels write nothing. What cannot be told is `UNKNOWN`:
of a condition, both branches are followed, and what they set is unknown after them.
"""

from __future__ import annotations

import contextlib
import math
import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from tree_sitter import Node

from forewarp.inspection.tracing import host_values
from forewarp.inspection.tracing.cuda_source import CudaSource, Macro, NotFollowed, block, name_of, text_of, words_of
from forewarp.inspection.tracing.host_values import UNKNOWN, Dim

_MOST_STEPS = 5_000
_MOST_DEPTH = 12
_MOST_ROUNDS = 256
_SIZES = {
    **dict.fromkeys(("float", "int", "unsigned", "int32_t", "uint32_t", "half2", "__half2", "__nv_bfloat162"), 4),
    **dict.fromkeys(("double", "long", "int64_t", "uint64_t", "size_t", "float2", "int2"), 8),
    **dict.fromkeys(("half", "__half", "short", "__nv_bfloat16", "c10::Half", "c10::BFloat16", "at::Half"), 2),
    **dict.fromkeys(("char", "bool", "int8_t", "uint8_t"), 1),
    **dict.fromkeys(("float4", "int4", "double2"), 16),
}
_INTEGRAL = re.compile(
    r"(?:unsigned|signed|int|long|short|char|bool|size_t|u?int\d+_t|uint|const(?:expr)?|std::|\s|&)+"
)
_FLOATING = re.compile(r"(?:float|double|const(?:expr)?|\s|&)+")
_MISTAKES = (ArithmeticError, AttributeError, IndexError, KeyError, RuntimeError, TypeError, ValueError)


@dataclass(frozen=True, slots=True)
class TypeName:
    """A C++ type that a name stands for, such as "float" for `scalar_t`."""

    text: str


@dataclass(frozen=True, slots=True)
class KernelName:
    """A kernel, as a value: its name and template arguments."""

    name: str
    arguments: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class HostLaunch:
    """A launch as the text has it: grid and block None where they cannot be told."""

    kernel: KernelName
    grid: tuple[int, int, int] | None
    block: tuple[int, int, int] | None
    shared: int | None
    certain: bool


class _Return(Exception):
    def __init__(self, value: Any) -> None:
        super().__init__()
        self.value = value


class HostCode:
    """Follows host functions of one source; `launched` is called with every launch."""

    def __init__(self, source: CudaSource, launched: Callable[[HostLaunch], None]) -> None:
        self.source, self.launched = source, launched
        self.steps, self.depth = 0, 0
        self.constants: dict[str, Any] = {}
        frame = _Frame(self, self.constants)
        for declaration in source.constants:
            frame.execute(declaration)

    def call(self, name: str, arguments: Sequence[Any], templates: Sequence[str] = ()) -> Any:
        """Follow a function; return what it returns, `UNKNOWN` where that cannot be told."""
        function = self.source.functions[name]
        if self.depth >= _MOST_DEPTH:
            return UNKNOWN
        values: dict[str, Any] = {n: UNKNOWN for n, _ in function.parameters}
        values |= {n: _cast(kind, v) for (n, kind), v in zip(function.parameters, arguments, strict=False)}
        values |= {n: _template_value(t) for n, t in zip(function.templates, templates, strict=False)}
        self.depth += 1
        try:
            _Frame(self, values).execute(function.body)
        except _Return as e:
            return e.value
        finally:
            self.depth -= 1
        return None if "void" in function.returns else UNKNOWN

    def step(self) -> None:
        """Count a statement; raises `NotFollowed` where they become too many."""
        self.steps += 1
        if self.steps > _MOST_STEPS:
            raise NotFollowed("the host code does too much")


def _template_value(text: str) -> Any:
    try:
        return int(text)
    except ValueError:
        return {"true": True, "false": False}.get(text, TypeName(text))


class _Frame:
    """The statements of one function, with the values of its names."""

    def __init__(self, host: HostCode, values: dict[str, Any], certain: bool = True) -> None:
        self.host, self.values, self.certain = host, values, certain

    # Statements

    def execute(self, node: Node | None) -> None:
        """Follow a statement; raises `_Return`."""
        if node is None:
            return
        self.host.step()
        match node.type:
            case "compound_statement" | "preproc_ifdef" | "preproc_if" | "else_clause":
                for child in node.named_children:
                    self.execute(child)
            case "declaration":
                self._declare(node)
            case "expression_statement":
                for child in node.named_children:
                    self.evaluate(child)
            case "return_statement":
                value = self.evaluate(node.named_children[0]) if node.named_children else None
                if self.certain:
                    raise _Return(value)
            case "if_statement":
                condition = self._field(_required(node, "condition"), "value")
                branches = [node.child_by_field_name(name) for name in ("consequence", "alternative")]
                if isinstance(condition, bool | int | float):
                    self.execute(branches[not condition])
                else:
                    self._perhaps([[b] if b else [] for b in branches])
            case "for_statement":
                self.execute(node.child_by_field_name("initializer"))
                self._loop(node, node.child_by_field_name("condition"), node.child_by_field_name("update"))
            case "while_statement":
                self._loop(node, _required(node, "condition").child_by_field_name("value"), None)
            case "for_range_loop" | "do_statement" | "try_statement":
                self._perhaps([[_required(node, "body")], []])
            case "switch_statement":
                self._perhaps([case.named_children for case in _children(node, "body")])
            case "alias_declaration":
                name, kind = node.child_by_field_name("name"), node.child_by_field_name("type")
                self.values[text_of(name)] = TypeName(self._template_text(kind))
            case _:
                pass

    def _perhaps(self, branches: Sequence[Sequence[Node]]) -> None:
        """Follow branches of which one may be taken; what they set differently is unknown afterwards."""
        after: list[dict[str, Any]] = []
        for branch in branches:
            frame = _Frame(self.host, dict(self.values), certain=False)
            for statement in branch:
                frame.execute(statement)
            after.append(frame.values)
        for name in {n for values in after for n in values}:
            first = after[0].get(name, UNKNOWN)
            same = all(values.get(name, UNKNOWN) is first for values in after)
            self.values[name] = first if same else UNKNOWN

    def _loop(self, node: Node, condition: Node | None, update: Node | None) -> None:
        body = _required(node, "body")
        for _ in range(_MOST_ROUNDS):
            going = self.evaluate(condition)
            if not isinstance(going, bool | int | float):
                self._perhaps([[body], []])
                break
            if not going:
                break
            self.execute(body)
            self.evaluate(update)

    def _declare(self, node: Node) -> None:
        kind = " ".join(w for c in node.children if c.type != "init_declarator" for w in words_of(c))
        for declared in node.children_by_field_name("declarator"):
            value, target = declared.child_by_field_name("value"), _required(declared, "declarator", declared)
            given = UNKNOWN
            if declared.type == "function_declarator":  # `dim3 grid(x, y)` reads like a function that takes types
                texts = [f"({text_of(p)})" for p in _children(declared, "parameters")]
                given = self._made(kind, [self._expanded(Macro(None, block(t)), []) for t in texts])
            elif value is not None and value.type in ("argument_list", "initializer_list"):
                many = value.type == "initializer_list" and ("[" in text_of(target) or "vector" in kind)
                items = [self.evaluate(c) for c in value.named_children]
                given = items if many else self._made(kind, items)
            elif value is not None:
                given = self._made(kind, [self.evaluate(value)])
            self._bind(target, given)

    @staticmethod
    def _made(kind: str, values: list[Any]) -> Any:
        """Return what a variable of a type holds that is initialised with values."""
        if "dim3" in kind:
            return _dim(values)
        return _cast(kind, values[0]) if len(values) == 1 else values

    def _bind(self, target: Node, value: Any) -> None:
        if target.type == "structured_binding_declarator":
            names = target.named_children
            parts = value if isinstance(value, list | tuple) and len(value) == len(names) else [UNKNOWN] * len(names)
            for name, part in zip(names, parts, strict=True):
                self.values[text_of(name)] = part
        elif (name := name_of(target)).type == "identifier":
            self.values[text_of(name)] = value

    # Expressions

    def evaluate(self, node: Node | None) -> Any:
        """Return an expression's value, `UNKNOWN` for one that cannot be told."""
        if node is None:
            return UNKNOWN
        try:
            return self._value(node)
        except _MISTAKES:
            return UNKNOWN

    def _field(self, node: Node, name: str) -> Any:
        return self.evaluate(node.child_by_field_name(name))

    def _value(self, node: Node) -> Any:
        match node.type:
            case "number_literal":
                return _number(text_of(node))
            case "string_literal":
                return text_of(node)[1:-1]
            case "true" | "false" | "null":
                return {"true": True, "false": False}.get(node.type, 0)
            case "identifier" | "qualified_identifier" | "template_function":
                name, templates = self._qualified(node)
                return self._kernel(name, templates) or self._named(name)
            case "parenthesized_expression" | "comma_expression":
                return [self.evaluate(c) for c in _children(node)][-1]
            case "initializer_list":
                return [self.evaluate(c) for c in _children(node)]
            case "compound_literal_expression":
                kind, values = text_of(node.child_by_field_name("type")), self._field(node, "value")
                return values if not kind or "vector" in kind else self._call(kind, [], values)
            case "conditional_expression":
                condition, *sides = (self._field(node, f) for f in ("condition", "consequence", "alternative"))
                return UNKNOWN if condition is UNKNOWN else sides[not condition]
            case "binary_expression":
                return _apply(self._operator(node), self._field(node, "left"), self._field(node, "right"))
            case "unary_expression" | "pointer_expression":
                return self._unary(node)
            case "assignment_expression" | "update_expression":
                return self._assign(node)
            case "cast_expression":
                return _cast(text_of(node.child_by_field_name("type")), self._field(node, "value"))
            case "sizeof_expression":
                return self._size_of(node.child_by_field_name("type") or node.child_by_field_name("value"))
            case "subscript_expression":
                value, index = self._field(node, "argument"), self.evaluate(_children(node, "indices")[0])
                plain = isinstance(value, list | tuple) and not isinstance(value, Dim) and type(index) is int
                return value[index] if plain else UNKNOWN
            case "field_expression":
                owner, name = self._field(node, "argument"), text_of(node.child_by_field_name("field"))
                return owner["xyz".index(name)] if isinstance(owner, Dim) else UNKNOWN
            case "call_expression":
                return self._call_expression(node)
            case _:
                return UNKNOWN

    @staticmethod
    def _operator(node: Node) -> str:
        return text_of(node.child_by_field_name("operator"))

    def _unary(self, node: Node) -> Any:
        value = self._field(node, "argument")
        if isinstance(value, KernelName):
            return value
        signs: dict[str, Callable[[Any], Any]] = {"-": operator.neg, "+": operator.pos, "!": operator.not_}
        signs["~"] = lambda v: ~int(v)
        known = isinstance(value, int | float) and self._operator(node) in signs
        return signs[self._operator(node)](value) if known else UNKNOWN

    def _assign(self, node: Node) -> Any:
        """Do `a = b`, `a += b` or `a++`, and return the new value."""
        target = node.child_by_field_name("left") or _required(node, "argument")
        sign = self._operator(node)
        right = 1 if sign in ("++", "--") else self._field(node, "right")
        value = right if sign == "=" else _apply(sign[0], self.evaluate(target), right)
        if target.type == "identifier":
            self.values[text_of(target)] = value
        return value

    def _size_of(self, node: Node | None) -> Any:
        text = self._template_text(node).removeprefix("std::").removeprefix("const ")
        return 8 if "*" in text else _SIZES.get(text, _SIZES.get(text.split()[-1], UNKNOWN))

    # Names

    def _qualified(self, node: Node) -> tuple[str, list[str]]:
        """Return a name with its scopes, and its template arguments as texts."""
        if node.type == "qualified_identifier":
            name, templates = self._qualified(_required(node, "name"))
            return f"{text_of(node.child_by_field_name('scope'))}::{name}", templates
        if node.type in ("template_function", "template_type"):
            arguments = _children(node, "arguments")
            return text_of(node.child_by_field_name("name")), [self._template_text(a) for a in arguments]
        return text_of(node), []

    def _template_text(self, node: Node | None) -> str:
        """Return a template argument as text that means the same outside of the function."""
        if node is None:
            return ""
        value = self._named(text_of(node)) if node.type == "type_descriptor" else self.evaluate(node)
        if isinstance(value, bool | int):
            return str(value).lower()
        words = (self.values.get(w, w) for w in words_of(node))
        return re.sub(r" ?:: ?", "::", " ".join(w.text if isinstance(w, TypeName) else str(w) for w in words))

    def _kernel(self, name: str, templates: Sequence[str]) -> KernelName | None:
        found = self.values.get(name)
        if isinstance(found, KernelName):
            return found
        last = name.rpartition("::")[2]
        return KernelName(last, tuple(templates)) if last in self.host.source.kernels else None

    def _named(self, name: str) -> Any:
        for known in (self.values, self.host.constants):
            if name in known:
                return known[name]
        macro = self.host.source.macros.get(name)
        return self._expanded(macro, []) if macro and macro.parameters is None else host_values.named(name)

    def _expanded(self, macro: Macro, arguments: Sequence[Any]) -> Any:
        """Follow a macro's statements; return the value of the last one."""
        frame = _Frame(
            self.host, self.values | dict(zip(macro.parameters or (), arguments, strict=False)), self.certain
        )
        value = UNKNOWN
        for statement in macro.body.named_children:
            if statement.type == "expression_statement" and statement.named_children:
                value = frame.evaluate(statement.named_children[0])
            else:
                frame.execute(statement)
        return value

    # Calls

    def _call_expression(self, node: Node) -> Any:
        function, arguments = _required(node, "function"), _children(node, "arguments")
        configuration = next((c for c in node.children if c.type == "kernel_call_syntax"), None)
        if configuration is not None:
            return self._launch(function, [self.evaluate(c) for c in configuration.named_children], arguments)
        if function.type == "field_expression":
            field = _required(function, "field")
            name = text_of(field.child_by_field_name("name") if field.type == "template_method" else field)
            return host_values.method(self._field(function, "argument"), name, [self.evaluate(a) for a in arguments])
        if function.type not in ("identifier", "qualified_identifier", "template_function", "primitive_type"):
            return UNKNOWN
        name, templates = self._qualified(function)
        if name.startswith("AT_DISPATCH"):
            return self._dispatch(arguments)
        return self._call(name, templates, [self.evaluate(a) for a in arguments])

    def _call(self, name: str, templates: Sequence[str], arguments: list[Any]) -> Any:
        last = name.rpartition("::")[2]
        if last in ("static_cast", "reinterpret_cast", "const_cast"):
            return _cast(templates[0], arguments[0])
        if last in _SIZES:
            return _cast(last, arguments[0] if arguments else UNKNOWN)
        if last in ("cudaLaunchKernel", "cudaLaunchCooperativeKernel"):  # kernel, grid, block, arguments, shared memory
            if isinstance(arguments[0], KernelName):
                self._launched(arguments[0], [*arguments[1:3], *arguments[4:5]])
            return UNKNOWN
        macro = self.host.source.macros.get(last)
        if macro is not None and macro.parameters is not None:
            return self._expanded(macro, arguments)
        kernel = self._kernel(name, templates)
        if kernel is not None:
            return kernel
        if last in self.host.source.functions and not name.startswith(("torch::", "at::", "std::")):
            return self.host.call(last, arguments, templates)
        return host_values.call(name, arguments)

    def _dispatch(self, arguments: Sequence[Node]) -> Any:
        """Follow the body of a dispatch on a type, with that type as `scalar_t`."""
        kinds = [kind for a in arguments if (kind := host_values.c_type(self.evaluate(a)))]
        body = arguments[-1]
        while body.type == "parenthesized_expression":
            body = body.named_children[0]
        kind = TypeName(kinds[-1] if kinds else "float")
        inner = _Frame(self.host, self.values | {"scalar_t": kind}, self.certain)
        with contextlib.suppress(_Return):
            inner.execute(body.child_by_field_name("body"))
        self.values |= {k: v for k, v in inner.values.items() if k in self.values}
        return UNKNOWN

    def _launch(self, function: Node, configuration: Sequence[Any], arguments: Sequence[Node]) -> Any:
        kernel = self.evaluate(function)
        if isinstance(kernel, KernelName):
            if not kernel.arguments and not any(a.type == "lambda_expression" for a in arguments):
                kernel = self._deduced(kernel, arguments)
            self._launched(kernel, configuration)
        return UNKNOWN

    def _launched(self, kernel: KernelName, configuration: Sequence[Any]) -> None:
        grid, block, shared = (*configuration, *(UNKNOWN, UNKNOWN, 0)[len(configuration) :])[:3]
        shared = _cast("int", shared)
        known = shared if type(shared) is int and shared >= 0 else None
        self.host.launched(HostLaunch(kernel, _extents(grid), _extents(block), known, self.certain))

    def _deduced(self, kernel: KernelName, arguments: Sequence[Node]) -> KernelName:
        """Return the instance of a template with one parameter that the type of a pointer leads to."""
        pointers = [m[1] for a in arguments if (m := re.search(r"data_ptr\s*<\s*([\w:]+)\s*>", text_of(a)))]
        if len(self.host.source.kernels[kernel.name]) != 1 or not pointers:
            return kernel
        bound = self.values.get(pointers[0])
        return KernelName(kernel.name, (bound.text if isinstance(bound, TypeName) else pointers[0],))


def _required(node: Node, name: str, otherwise: Node | None = None) -> Node:
    child = node.child_by_field_name(name) or otherwise
    if child is None:
        raise NotFollowed(f"{node.type} without {name} in {text_of(node)[:60]!r}")
    return child


def _children(node: Node, name: str = "") -> list[Node]:
    """Return the nodes in a field, or in the node itself, without comments."""
    inner = _required(node, name) if name else node
    return [c for c in inner.named_children if c.type != "comment"]


def _dim(values: Sequence[Any]) -> Any:
    """Return a `dim3` of one to three values, or of a list of them, or a copy of one."""
    if len(values) == 1 and isinstance(values[0], list | Dim):
        return values[0] if isinstance(values[0], Dim) else _dim(values[0])
    return Dim((*values, 1, 1, 1)[:3])


def _extents(value: Any) -> tuple[int, int, int] | None:
    """Return a grid or a block as three integers; None where one cannot be told."""
    x, y, z = (int(v) if isinstance(v, int | float) else -1 for v in _dim([value]))
    return (x, y, z) if min(x, y, z) >= 0 else None


def _number(text: str) -> int | float:
    plain = text.replace("'", "").lower()
    if plain.startswith(("0x", "0b")):
        return int(plain.rstrip("ul"), 0)
    if "." in plain or "e" in plain or plain.endswith("f"):
        return float(plain.rstrip("fl"))
    digits = plain.rstrip("ulz")
    return int(digits, 8) if len(digits) > 1 and digits[0] == "0" else int(digits)


def _cast(kind: str, value: Any) -> Any:
    """Convert a number to an integral or floating type; anything else stays."""
    if isinstance(value, int | float):
        return int(value) if _INTEGRAL.fullmatch(kind) else float(value) if _FLOATING.fullmatch(kind) else value
    return value


_TENSOR_OPERATORS = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv}
_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    **{"+": operator.add, "-": operator.sub, "*": operator.mul, "%": lambda a, b: int(math.fmod(a, b))},
    **{"<": operator.lt, ">": operator.gt, "<=": operator.le, ">=": operator.ge},
    **{"&": operator.and_, "|": operator.or_, "^": operator.xor, "<<": operator.lshift, ">>": operator.rshift},
    **{"&&": lambda a, b: bool(a) and bool(b), "||": lambda a, b: bool(a) or bool(b)},
}


def _apply(sign: str, left: Any, right: Any) -> Any:
    if (sign == "&&" and (left is False or right is False)) or (sign == "||" and (left is True or right is True)):
        return sign == "||"
    if left is UNKNOWN or right is UNKNOWN:
        return UNKNOWN
    if isinstance(left, torch.Tensor) or isinstance(right, torch.Tensor):
        return _TENSOR_OPERATORS[sign](left, right) if sign in _TENSOR_OPERATORS else UNKNOWN
    if sign in ("==", "!="):
        return (left == right) == (sign == "==")
    if not isinstance(left, int | float) or not isinstance(right, int | float):
        return UNKNOWN
    if sign == "/":
        if isinstance(left, float) or isinstance(right, float):
            return left / right
        return int(math.trunc(left / right) if abs(left) < 1 << 52 else left // right)
    return _OPERATORS[sign](left, right)
