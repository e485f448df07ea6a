"""Addresses of one warp of a CUDA kernel, worked out from its text without running it.

The text is read statement by statement with regular expressions, expressions are turned into Python's and worked out
for 32 lanes. Templates, lambdas and macros are not understood; what depends on them is not known.
"""

from __future__ import annotations

import ast
import re
from dataclasses import replace

import numpy as np

from forewarp.gpu_runner.formats.plan import LaunchPlan, PlannedLaunch
from forewarp.inspection.features.addresses import (
    SIZE,
    Evaluator,
    Found,
    Ints,
    Pointer,
    Value,
    combine,
    fold,
    number,
    plain,
    scalar,
)
from forewarp.inspection.features.c_text import balanced, choices, enclosed, split, statements

_BYTES = {
    **dict.fromkeys(("float4", "uint4", "int4", "double2", "ulonglong2", "longlong2"), 16),
    **dict.fromkeys(("float2", "uint2", "int2", "double", "int64_t", "uint64_t", "size_t", "short4", "long"), 8),
    **dict.fromkeys(
        ("half", "__half", "__nv_bfloat16", "short", "ushort", "int16_t", "uint16_t", "char2", "uchar2"), 2
    ),
    **dict.fromkeys(("char", "uint8_t", "int8_t", "bool", "uchar", "__nv_fp8_e4m3", "__nv_fp8_storage_t"), 1),
}
_WORD = r"[A-Za-z_]\w*"
_TYPE = (
    rf"(?:(?:const|unsigned|signed|volatile|static|constexpr|register)\s+)*"
    rf"(?:{_WORD}(?:::{_WORD})*(?:<[^<>;]*>)?)(?:\s+(?:long|int|char|const))*"
)
_POINTER_CAST = re.compile(rf"(?:reinterpret_cast|static_cast)\s*<\s*({_TYPE})\s*([*&]?)\s*(?:const)?\s*>\s*\(")
_C_POINTER_CAST = re.compile(rf"\(\s*({_TYPE})\s*\*\s*\)\s*(?=[\w(&])")
_C_CAST = re.compile(rf"(?<![\w)\]]) *\(\s*(?:const\s+)?({_WORD})(?:\s+(?:long|int|char))*\s*\)(?=\s*[\w(~-])")
_CASTS = ("unsigned", "signed", "int", "long", "size_t", "float", "uint32_t", "int32_t", "uintptr_t", "uint")
_PYTHONS = re.compile(r"\b(in|is|as|from|with|pass|def|del|global|yield|async|await|import|raise|except|lambda|None)\b")
_SUFFIX = re.compile(r"\b(0[xX][0-9a-fA-F]+|\d+)[uUlL]+\b")
_REAL = re.compile(r"(?<![\w.])(?:\d+\.\d*(?:[eE][+-]?\d+)?|\.\d+|\d+[eE][+-]?\d+)[fF]?")
_DECLARED = re.compile(
    rf"^({_TYPE})((?:\s|\*|&|__restrict__)+)({_WORD})\s*((?:\[[^\]]*\])*)\s*(?:=(?!=)\s*(.*))?$", re.DOTALL
)
_ASSIGNED = re.compile(rf"^({_WORD})\s*([-+*/%&|^]|<<|>>)?=(?!=)\s*(.*)$", re.DOTALL)
_FUNCTION = re.compile(rf"__global__[^;{{}}]*?\b({_WORD})\s*\(([^{{}};]*)\)\s*\{{", re.DOTALL)
_DEFINED = re.compile(rf"^[ \t]*#define[ \t]+({_WORD})[ \t]+(\d+)[ \t]*$", re.MULTILINE)
_CONSTANT = re.compile(rf"(?:constexpr|const)\s+(?:unsigned\s+)?\w+\s+({_WORD}\s*=\s*[^;{{}}]+);")
_QUALIFIED = re.compile(
    r"\b(?:extern|__shared__|static|__constant__)\b|(?:alignas|__align__)\s*\([^()]*(?:\([^()]*\)[^()]*)*\)"
)
_ALIGNED = re.compile(rf"struct\s+(?:__align__|alignas)\s*\(([^)]*(?:\([^)]*\))?[^)]*)\)\s*({_WORD})")
_ALIAS = re.compile(rf"(?:using\s+({_WORD})\s*=\s*({_TYPE})\s*;|typedef\s+({_TYPE})\s+({_WORD})\s*;)")
_BUILTIN = re.compile(r"\b(threadIdx|blockIdx|blockDim|gridDim)\.([xyz])")
_KEYWORDS = ("return", "else", "if", "for", "while", "do", "goto", "using", "typedef", "delete", "new", "break", "case")
_LOADS = ("__ldg", "__ldcs", "__ldca", "__ldcg", "__ldlu")
_STORES = ("__stcs", "__stcg", "__stwb", "__stwt", "atomicAdd", "atomicMax", "atomicMin", "atomicExch", "atomicCAS")
_MOST_STATEMENTS = 2000
_LANES = 32


def read(text: str, plan: LaunchPlan, names: dict[str, int], found: Found) -> None:
    text = re.sub(r"//[^\n]*|/\*.*?\*/", " ", text, flags=re.DOTALL)
    text = re.sub(r"__launch_bounds__\s*\([^()]*(?:\([^()]*\)[^()]*)*\)|__align__\(\d+\)(?!\s*\w+\s*\{)", " ", text)
    text = _PYTHONS.sub(r"\1_", text)
    known: dict[str, Value] = {n: scalar(v) for n, v in names.items()}
    known |= {n: scalar(int(v)) for n, v in _DEFINED.findall(text)}
    functions = {m.group(1): (m.group(2), enclosed(text, m.end())) for m in _FUNCTION.finditer(text)}
    for launch in plan.launches:
        if launch.kernel in functions:
            parameters, body = functions[launch.kernel]
            _Reader(known, found, text).enter(parameters, body, launch, names)


class _Reader(Evaluator):
    def __init__(self, names: dict[str, Value], found: Found, text: str) -> None:
        super().__init__(names, found)
        self._storing = False
        self._bytes = dict(_BYTES)
        for found_ in _CONSTANT.findall(text):
            for part in split(found_):
                name, _, value = part.partition("=")
                if name.strip() not in self.names:
                    self.names[name.strip()] = self._worked(value)
        for size, name in _ALIGNED.findall(text):
            if (bytes_ := plain(self._worked(size))) is not None and bytes_.size == 1 and 0 < int(bytes_) <= 128:
                self._bytes[name] = int(bytes_)
        for one, of, other, name in _ALIAS.findall(text):
            self._bytes[one or name] = self._size(of or other)

    def enter(self, parameters: str, body: str, launch: PlannedLaunch, names: dict[str, int]) -> None:
        """Read a kernel's body for the first warp of a block in the middle of the grid."""
        block = [number(e, dict(names)) for e in launch.block] + [1, 1, 1]
        lane = np.arange(_LANES, dtype=np.int64)
        held = {"x": lane % block[0], "y": lane // block[0] % block[1], "z": lane // (block[0] * block[1]) % block[2]}
        for place, axis in enumerate("xyz"):
            self.names |= {f"threadIdx_{axis}": held[axis], f"blockDim_{axis}": scalar(block[place])}
            self.names |= {f"blockIdx_{axis}": scalar(int(place < len(launch.grid))), f"gridDim_{axis}": scalar(1024)}
        self.names |= {"warpSize": scalar(32)}
        for written, given in zip(split(parameters), launch.args, strict=False):
            name = re.search(rf"({_WORD})\s*$", written.strip())
            if name is None:
                continue
            value = given.partition(":")[0].strip()
            if "*" in written:
                self.names[name.group(1)] = Pointer(scalar(0), self._size(written.split("*")[0]))
            elif value in names:
                self.names[name.group(1)] = scalar(names[value])
            else:
                self.names[name.group(1)] = scalar(int(value) if value.isdigit() else number(value, dict(names)))
        for count, statement in enumerate(statements(body)):
            if count > _MOST_STATEMENTS:
                break
            self._statement(statement.strip())

    def _size(self, written: str) -> int:
        words = re.findall(_WORD, written)
        if words.count("long") == 2:
            return 8
        return next((self._bytes[w] for w in words if w in self._bytes), 4)

    def _statement(self, s: str) -> None:
        s = re.sub(r"^#[^\n]*\n?", "", s).strip()
        while match := re.match(r"(?:if|while|for|switch)\s*(?:constexpr\s*)?\(", s):
            if s.startswith("for"):
                s = s[match.end() :]
                break
            end = balanced(s, match.end())
            self._worked(s[match.end() : end - 1])
            s = s[end:].strip()
        s = re.sub(r"^(?:else|do|return)\b", "", s).strip()
        if match := re.match(r"(?:if|while|for)\s*\(", s):
            self._statement(s)
            return
        # What is left of a loop's head: its step and the bracket, before the body.
        depth = 0
        for place, letter in enumerate(s):
            depth += {"(": 1, ")": -1}.get(letter, 0)
            if depth < 0:
                self._statement(s[place + 1 :].strip())
                return
        if s:
            self._simple(s)

    def _simple(self, s: str) -> None:
        shared = "__shared__" in s
        s = _QUALIFIED.sub(" ", s).strip()
        declared = _DECLARED.match(split(s)[0])
        if declared and declared.group(1).split()[0] not in _KEYWORDS and not declared.group(1)[0].isdigit():
            type_ = declared.group(1)
            for place, part in enumerate(split(s)):
                self._declare(part if place == 0 else f"{type_} {part.strip()}", shared=shared)
            return
        for part in split(s):
            if assigned := _ASSIGNED.match(part.strip()):
                name, how, value = assigned.groups()
                worked = self._worked(value)
                if how:
                    worked = self._changed(name, how, worked)
                self.names[name] = worked
            else:
                self._effect(part.strip())

    def _changed(self, name: str, how: str, change: Value) -> Value:
        acts: dict[str, type[ast.operator]] = {"+": ast.Add, "-": ast.Sub, "*": ast.Mult, "/": ast.FloorDiv}
        acts |= {"%": ast.Mod, ">>": ast.RShift, "<<": ast.LShift}
        return combine(acts[how], self.names.get(name), change) if how in acts else None

    def _declare(self, part: str, *, shared: bool) -> None:
        match = _DECLARED.match(part.strip())
        if match is None:
            return
        type_, marks, name, extents, value = match.groups()
        if extents:
            sizes = [plain(self._worked(e)) for e in re.findall(r"\[([^\]]*)\]", extents)]
            lengths = tuple(int(e) if e is not None and e.size == 1 else SIZE for e in sizes)
            self.names[name] = Pointer(scalar(0), self._size(type_), shared=True, strides=lengths) if shared else None
            return
        worked = self._worked(value) if value else None
        if isinstance(worked, Pointer) and "*" in marks and "auto" not in type_:
            worked = replace(worked, bytes=self._size(type_), offsets=_scaled(worked, self._size(type_)))
        self.names[name] = worked

    def _effect(self, s: str) -> None:
        """Evaluate a statement for its accesses; the left side of `=` is stored to."""
        left, right, depth = s, "", 0
        for match in re.finditer(r"[\[\](){}]|(?<![=!<>])(?:[-+*/|&^]|<<|>>)?=(?!=)", s):
            mark = match.group(0)
            depth += 1 if mark in "([{" else -1 if mark in ")]}" else 0
            if depth == 0 and mark.endswith("="):
                left, right = s[: match.start()], s[match.end() :]
                break
        if right:
            self._worked(right)
            self._storing = True
        self._worked(left)
        self._storing = False

    def _worked(self, text: str) -> Value:
        python = self._python(text)
        try:
            tree = ast.parse(python.strip(), mode="eval")
        except (SyntaxError, ValueError, RecursionError):
            self.found.blind += len(re.findall(rf"{_WORD}\s*\[", text))
            return None
        storing, self._storing = self._storing, False
        if storing and isinstance(tree.body, ast.Attribute):
            tree.body = tree.body.value  # type: ignore[assignment]
        if storing and isinstance(tree.body, ast.Subscript):
            return self._indexed(tree.body, store=True)
        if storing and isinstance(tree.body, ast.Call) and getattr(tree.body.func, "id", "") == "_at":
            return self.access(self.value(tree.body.args[0]), store=True)
        return self.value(tree.body)

    def _python(self, text: str) -> str:
        text = " ".join(text.split())
        while match := _POINTER_CAST.search(text):
            size, mark = self._size(match.group(1)), match.group(2)
            call = f"_cast{size}" if mark == "*" else ""
            text = f"{text[: match.start()]}{call}({text[match.end() :]}"
        text = _C_CAST.sub(lambda m: "" if m.group(1) in _CASTS or m.group(1) in self._bytes else m.group(0), text)
        while match := _C_POINTER_CAST.search(text):
            end = re.match(rf"\s*&?(?:{_WORD}(?:\.\w+)*)?", text[match.end() :])
            stop = match.end() + (end.end() if end else 0)
            if stop < len(text) and text[stop] in "([":
                stop = balanced(text, stop + 1)
            inner = text[match.end() : stop]
            text = f"{text[: match.start()]}_cast{self._size(match.group(1))}({inner}){text[stop:]}"
        text = _BUILTIN.sub(r"\1_\2", _SUFFIX.sub(r"\1", _REAL.sub("1", text)))
        text = re.sub(rf"(?<![\w)\]&]) *&(?!&) *({_WORD}) *\[", r" _address(\1)[", text)
        text = re.sub(r"(?:(?<=[=(,?:!])|^) *\*\s*(?=[\w(])", " _at * ", text)
        text = re.sub(rf"_at \* ((?:_cast\d+|{_WORD})?) ?\(", r"_at*\1(", text)
        text = _dereferenced(text)
        text = text.replace("&&", "&").replace("||", "|").replace("->", ".").replace("::", "_")
        text = re.sub(r"!(?!=)", "~", text)
        text = re.sub(r"(?<!/)/(?!/)", "//", text)
        text = re.sub(r"<[^<>()]*>\s*(?=\()", "", text)
        return choices(text)

    def subscript(self, node: ast.Subscript) -> Value:
        if isinstance(node.value, ast.Call) and getattr(node.value.func, "id", "") == "_address":
            pointer = self.value(node.value.args[0])
            return combine(ast.Add, pointer, self.value(node.slice)) if isinstance(pointer, Pointer) else None
        return self._indexed(node, store=False)

    def _indexed(self, node: ast.Subscript, *, store: bool) -> Value:
        indices: list[ast.expr] = [node.slice]
        base = node.value
        while isinstance(base, ast.Subscript):
            indices.insert(0, base.slice)
            base = base.value
        pointer = self.value(base)
        values = [self.value(i) for i in indices]
        if not isinstance(pointer, Pointer):
            if pointer is None and isinstance(base, ast.Name) and base.id not in self.names:
                self.found.blind += 1
            return None
        total: Value = scalar(0)
        lengths = pointer.strides or (SIZE,)
        for place, value in enumerate(values):
            step = int(np.prod(lengths[place + 1 :])) if len(lengths) > 1 else 1
            total = combine(ast.Add, total, combine(ast.Mult, value, scalar(step)))
        if len(values) < len(pointer.strides):
            return combine(ast.Add, replace(pointer, strides=lengths[len(values) :]), total)
        return self.access(combine(ast.Add, pointer, total), store=store)

    def access(self, pointer: Value, *, store: bool) -> Value:
        if isinstance(pointer, Pointer) and pointer.offsets.ndim < 2:
            pointer = replace(pointer, offsets=np.broadcast_to(pointer.offsets, (_LANES,)))
        return super().access(pointer, store=store)

    def call(self, node: ast.Call) -> Value:
        """Return the value of a call; loads, stores and atomics by function are noted."""
        name = getattr(node.func, "id", "")
        values = [self.value(a) for a in node.args]
        if name.startswith("_cast") and values and isinstance(values[0], Pointer):
            size = int(name[5:])
            return replace(values[0], bytes=size, offsets=_scaled(values[0], size))
        if name == "_at" and values:
            return self.access(values[0], store=False)
        if name in _LOADS and values:
            return self.access(values[0], store=False)
        if name in _STORES and values:
            return self.access(values[0], store=True)
        if name in ("min", "max") and len(values) == 2:
            return fold(values, np.minimum if name == "min" else np.maximum)
        return None


def _scaled(pointer: Pointer, size: int) -> Ints:
    return pointer.offsets * pointer.bytes // size


def _dereferenced(text: str) -> str:
    """Close the brackets of `_at*`, which stands for a pointer's `*`."""
    while (place := text.find("_at*")) >= 0 or (place := text.find("_at * ")) >= 0:
        start = place + (4 if text.startswith("_at*", place) else 6)
        word = re.match(rf" *(?:{_WORD})?", text[start:])
        stop = start + (word.end() if word else 0)
        while stop < len(text) and text[stop] in "([":
            stop = balanced(text, stop + 1)
        text = f"{text[:place]}_at({text[start:stop]}){text[stop:]}"
    return text
