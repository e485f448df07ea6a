"""Host functions of an extension, followed on given arguments: which kernels they launch, how, and what they return.

Tensors are computed by torch itself, so that shapes are right; kernels write nothing. What cannot be told is `UNKNOWN`:
of a condition, both branches are followed, and what they set is unknown after them.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from forewarp.gpu_runner.compilers.extension.tokens import NotUnderstood, Token, closing
from forewarp.inspection.tracing import host_values
from forewarp.inspection.tracing.cpp_expressions import UNKNOWN, Dim, KernelName, TypeName, cast, evaluate
from forewarp.inspection.tracing.cpp_statements import (
    assignment,
    compound_sign,
    is_lambda,
    loop_parts,
    plain_end,
    statement_end,
    triple,
)
from forewarp.inspection.tracing.cuda_source import CudaSource, Function, split_at

_MOST_STEPS = 5_000
_MOST_DEPTH = 12
_MOST_ROUNDS = 256


@dataclass(frozen=True, slots=True)
class HostLaunch:
    """A launch as the text has it: grid and block None where they cannot be told, and the arguments' texts."""

    kernel: KernelName
    grid: tuple[int, int, int] | None
    block: tuple[int, int, int] | None
    shared: int | None
    arguments: tuple[str, ...]
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
        frame = _Frame(self, {})
        for declaration in source.constants:
            frame.statement(list(declaration[:-1]))
        self.constants = frame.values

    def call(self, name: str, arguments: Sequence[Any], templates: Sequence[str] = ()) -> Any:
        """Follow a function; return what it returns, `UNKNOWN` where that cannot be told."""
        function = self.source.functions[name]
        if self.depth >= _MOST_DEPTH:
            return UNKNOWN
        values: dict[str, Any] = {n: UNKNOWN for n, _ in function.parameters}
        for (parameter, kind), value in zip(function.parameters, arguments, strict=False):
            values[parameter] = cast(kind, value) if isinstance(value, int | float) else value
        values |= {n: _template_value(t) for n, t in zip(function.templates, templates, strict=False)}
        return self._follow(function, values)

    def _follow(self, function: Function, values: dict[str, Any]) -> Any:
        self.depth += 1
        try:
            _Frame(self, values).block(list(function.body))
        except _Return as e:
            return e.value
        finally:
            self.depth -= 1
        return None if "void" in function.returns else UNKNOWN

    def step(self) -> None:
        """Count a statement; raises `NotUnderstood` where they become too many."""
        self.steps += 1
        if self.steps > _MOST_STEPS:
            raise NotUnderstood("the host code does too much")


def _template_value(text: str) -> Any:
    try:
        return int(text)
    except ValueError:
        return {"true": True, "false": False}.get(text, TypeName(text))


class _Frame:
    """The statements of one function, with the values of its names; also says what names mean, as `Names`."""

    def __init__(self, host: HostCode, values: dict[str, Any], certain: bool = True) -> None:
        self.host, self.values, self.certain = host, values, certain

    # Values of names

    def value(self, name: str) -> Any:
        if name in self.values:
            return self.values[name]
        if name in self.host.constants:
            return self.host.constants[name]
        macro = self.host.source.macros.get(name)
        if macro is not None and macro.parameters is None:
            return evaluate(macro.body, self)
        return host_values.named(name)

    def call(self, name: str, templates: Sequence[str], arguments: list[Any]) -> Any:
        last = name.rpartition("::")[2]
        if last in ("cudaLaunchKernel", "cudaLaunchCooperativeKernel"):
            self._through_runtime(arguments)
            return UNKNOWN
        macro = self.host.source.macros.get(last)
        if macro is not None and macro.parameters is not None:
            inner = _Frame(self.host, self.values | dict(zip(macro.parameters, arguments, strict=False)), self.certain)
            return evaluate(macro.body, inner)
        if last in self.host.source.functions and not name.startswith(("torch::", "at::", "std::")):
            return self.host.call(last, arguments, templates)
        return host_values.call(name, templates, arguments)

    def method(self, owner: Any, name: str, arguments: list[Any]) -> Any:
        return host_values.method(owner, name, arguments)

    def kernel(self, name: str, templates: Sequence[str]) -> KernelName | None:
        found = self.values.get(name)
        if isinstance(found, KernelName):
            return found
        return KernelName(name, tuple(templates)) if name in self.host.source.kernels else None

    def template_text(self, found: Sequence[Token]) -> str:
        value = evaluate(found, self) if found else UNKNOWN
        if isinstance(value, bool):
            return str(value).lower()
        if isinstance(value, int):
            return str(value)
        words: list[str] = []
        for token in found:
            bound = self.values.get(token.text) if token.kind == "name" else None
            words.append(bound.text if isinstance(bound, TypeName) else token.text)
        return " ".join(words).replace(" :: ", "::").replace(": : ", "::").replace(" : :", "::")

    # Statements.

    def block(self, found: list[Token]) -> None:
        """Follow statements one after another. Raises `_Return`."""
        i = 0
        while i < len(found):
            i = self._one(found, i)

    def _one(self, found: list[Token], i: int) -> int:
        """Follow the statement at `i` and return where the next begins."""
        self.host.step()
        token = found[i]
        if token.kind == "directive" or token.text == ";":
            return i + 1
        if token.text == "{":
            end = closing(found, i)
            self.block(found[i + 1 : end])
            return end + 1
        if token.text == "if":
            return self._if(found, i)
        if token.text in ("for", "while"):
            return self._loop(found, i)
        if token.text in ("switch", "do", "try"):
            end = statement_end(found, i)
            self._perhaps([found[i + 1 : end]])
            return end
        if token.text in ("case", "default"):
            return next((k + 1 for k in range(i, len(found)) if found[k].text == ":"), len(found))
        end = plain_end(found, i)
        if token.text == "return":
            value = evaluate(found[i + 1 : end], self) if end > i + 1 else None
            if self.certain:
                raise _Return(value)
        elif token.text not in ("break", "continue"):
            self.statement(found[i:end])
        return end + 1

    def _if(self, found: list[Token], i: int) -> int:
        at = i + 2 if found[i + 1].text == "constexpr" else i + 1
        bracket = closing(found, at)
        condition = evaluate(found[at + 1 : bracket], self)
        end = statement_end(found, bracket + 1)
        then = found[bracket + 1 : end]
        other: list[Token] = []
        if end < len(found) and found[end].text == "else":
            start, end = end + 1, statement_end(found, end + 1)
            other = found[start:end]
        if isinstance(condition, bool | int | float):
            self.block(then if condition else other)
        else:
            self._perhaps([then, other])
        return end

    def _perhaps(self, branches: Sequence[list[Token]]) -> None:
        """Follow branches of which one may be taken; what they set differently is unknown afterwards."""
        after: list[dict[str, Any]] = []
        for branch in branches:
            frame = _Frame(self.host, dict(self.values), certain=False)
            frame.block(branch)
            after.append(frame.values)
        for name in {n for values in after for n in values}:
            first = after[0].get(name, UNKNOWN)
            same = all(values.get(name, UNKNOWN) is first for values in after)
            self.values[name] = first if same else UNKNOWN

    def _loop(self, found: list[Token], i: int) -> int:
        bracket = closing(found, i + 1)
        end = statement_end(found, bracket + 1)
        body = found[bracket + 1 : end]
        parts = loop_parts(found[i + 2 : bracket])
        if found[i].text == "while":
            parts = [[], found[i + 2 : bracket], []]
        if len(parts) != 3:
            self._perhaps([body, []])
            return end
        self.statement(parts[0])
        for _ in range(_MOST_ROUNDS):
            going = evaluate(parts[1], self)
            if not isinstance(going, bool | int | float):
                self._perhaps([body, []])
                break
            if not going:
                break
            self.block(body)
            self.statement(parts[2])
        return end

    def statement(self, found: list[Token]) -> None:
        """Follow a declaration, an assignment, a launch, or an expression."""
        if not found:
            return
        launch = triple(found, "<", 0)
        lambda_at = next((k for k, t in enumerate(found) if t.text == "[" and is_lambda(found, k)), -1)
        if found[0].text.startswith("AT_DISPATCH") and lambda_at >= 0:
            self._dispatch(found, lambda_at)
        elif launch >= 0 and (lambda_at < 0 or launch < lambda_at):
            self._launch(found, launch)
        elif found[0].text in ("using", "typedef"):
            self._alias(found)
        else:
            self._assign(found)

    def _dispatch(self, found: list[Token], lambda_at: int) -> None:
        """Follow the body of a dispatch on a type, with that type as `scalar_t`."""
        pieces = split_at(found[2:lambda_at], ",")
        kinds = [host_values.c_type(evaluate(p, self)) for p in pieces]
        body = next(k for k in range(lambda_at, len(found)) if found[k].text == "{")
        kind = next((k for k, p in zip(reversed(kinds), reversed(pieces), strict=True) if k and len(p) > 3), "")
        inner = _Frame(self.host, dict(self.values) | {"scalar_t": TypeName(kind or "float")}, self.certain)
        with contextlib.suppress(_Return):
            inner.block(found[body + 1 : closing(found, body)])
        self.values |= {k: v for k, v in inner.values.items() if k in self.values}

    def _alias(self, found: list[Token]) -> None:
        if found[0].text == "using" and len(found) > 3 and found[2].text == "=":
            self.values[found[1].text] = TypeName(self.template_text(found[3:]))

    def _assign(self, found: list[Token]) -> None:
        for piece in split_at(found, ","):
            place = assignment(piece)
            if place < 0:
                self._without_sign(piece)
                continue
            compound = piece[place - 1].text if compound_sign(piece[place - 1], piece[place]) else ""
            target = piece[place - 2 if compound else place - 1]
            value = evaluate(piece[place + 1 :], self)
            if compound:
                left = [target, *piece[place - 1 : place], *piece[place + 1 :]]
                value = evaluate(left, self) if compound in "+-*/%" else UNKNOWN
            if target.kind == "name":
                types = {t.text for t in piece[: place - 1]}
                self.values[target.text] = _declared(types, value)

    def _without_sign(self, piece: list[Token]) -> None:
        """Follow a declaration such as `dim3 grid(a, b)`, or an expression."""
        bracket = next((k for k, t in enumerate(piece) if t.text in "({" and t.kind == "sign"), -1)
        declares = bracket >= 2 and piece[bracket - 1].kind == "name" and piece[bracket - 2].kind == "name"
        if declares and piece[bracket - 2].text not in ("return", "new"):
            inner = piece[bracket + 1 : closing(piece, bracket)]
            values = [evaluate(p, self) for p in split_at(inner, ",")]
            kind = {t.text for t in piece[: bracket - 1]}
            one = values[0] if len(values) == 1 else UNKNOWN
            self.values[piece[bracket - 1].text] = dim(values) if "dim3" in kind else _declared(kind, one)
        elif len(piece) >= 2 and piece[-1].kind == "name" and piece[-2].kind == "name":
            self.values[piece[-1].text] = UNKNOWN
        elif len(piece) == 3 and piece[1].text == piece[2].text and piece[1].text in "+-" and piece[0].kind == "name":
            self._step_by(piece[0].text, 1 if piece[1].text == "+" else -1)
        elif len(piece) == 3 and piece[0].text == piece[1].text and piece[0].text in "+-" and piece[2].kind == "name":
            self._step_by(piece[2].text, 1 if piece[0].text == "+" else -1)
        else:
            evaluate(piece, self)

    def _step_by(self, name: str, by: int) -> None:
        value = self.values.get(name, UNKNOWN)
        self.values[name] = value + by if isinstance(value, int) else UNKNOWN

    def _launch(self, found: list[Token], place: int) -> None:
        end = triple(found, ">", place + 3)
        if end < 0:
            return
        kernel = evaluate(found[:place], self)
        if not isinstance(kernel, KernelName):
            return
        parts = split_at(found[place + 3 : end], ",")
        values = [evaluate(p, self) for p in parts]
        shared = cast("int", values[2]) if len(values) > 2 else 0
        after = found[end + 3 :]
        arguments = split_at(after[1 : closing(after, 0)], ",") if after and after[0].text == "(" else []
        texts = tuple("".join(t.text for t in a) for a in arguments)
        kernel = self._deduced(kernel, texts)
        grid, block = (size(v) for v in (*values, UNKNOWN, UNKNOWN)[:2])
        known = shared if type(shared) is int and shared >= 0 else None
        self.host.launched(HostLaunch(kernel, grid, block, known, texts, self.certain))

    def _deduced(self, kernel: KernelName, arguments: Sequence[str]) -> KernelName:
        """Return the instance of a template with one parameter that the type of a pointer leads to."""
        pointers = [m[1] for a in arguments if (m := re.search(r"data_ptr<([\w:]+)>", a))]
        functional = any("]" in a and "{" in a for a in arguments)
        if functional or kernel.arguments or len(self.host.source.kernels[kernel.name]) != 1 or not pointers:
            return kernel
        bound = self.values.get(pointers[0])
        return KernelName(kernel.name, (bound.text if isinstance(bound, TypeName) else pointers[0],))

    def _through_runtime(self, arguments: Sequence[Any]) -> None:
        """Record a launch through a function of the CUDA runtime: kernel, grid, block, arguments, shared memory."""
        if len(arguments) < 3 or not isinstance(arguments[0], KernelName):
            return
        shared = arguments[4] if len(arguments) > 4 else 0
        known = shared if type(shared) is int and shared >= 0 else None
        self.host.launched(HostLaunch(arguments[0], size(arguments[1]), size(arguments[2]), known, (), self.certain))


def dim(values: Sequence[Any]) -> Any:
    """Return a `dim3` of one to three values, or a copy of one."""
    if len(values) == 1 and isinstance(values[0], Dim):
        return values[0]
    return Dim((*values, 1, 1, 1)[:3])


def size(value: Any) -> tuple[int, int, int] | None:
    """Return a grid or a block as three integers; None where one cannot be told."""
    whole = value if isinstance(value, Dim) else dim(value) if isinstance(value, list) else dim([value])
    x, y, z = (int(v) if isinstance(v, int | float) else -1 for v in whole)
    return (x, y, z) if min(x, y, z) >= 0 else None


def _declared(types: set[str], value: Any) -> Any:
    if "dim3" in types:
        return value if isinstance(value, Dim) else dim(value if isinstance(value, list) else [value])
    if isinstance(value, float) and types & {"int", "int64_t", "size_t", "long", "unsigned", "int32_t", "uint32_t"}:
        return int(value)
    if type(value) is int and types & {"float", "double"}:
        return float(value)
    return value
