"""Split a CUDA source in two: device code for nvcc without torch, and host code for the C++ compiler.

nvcc parses torch's headers three times over, for device code that does not use them. Here it gets the kernels alone;
the C++ compiler gets their declarations, and every launch written as nvcc would write it: a call of the kernel's host
stub behind `__cudaPushCallConfiguration`. The linker joins the two. Which instances of kernel templates are called is
read off the host object's undefined symbols. Whatever is not understood raises `NotUnderstood`, and is compiled whole.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

TokenKind = Literal["directive", "name", "number", "text", "sign"]


class NotUnderstood(Exception):
    """The source has something that this reader does not know."""


@dataclass(frozen=True, slots=True)
class Token:
    """A token and where it stands in the source."""

    kind: TokenKind
    text: str
    start: int
    end: int


_TOKEN = re.compile(
    r"""
    (?P<skip>\s+|//(?:\\\n|[^\n])*|/\*.*?\*/)
  | (?P<text>(?:u8|[uUL])?R"(?P<mark>[^()\\\s]{0,16})\(.*?\)(?P=mark)"
        |(?:u8|[uUL])?"(?:\\.|[^"\\\n])*"|(?:u8|[uUL])?'(?:\\.|[^'\\\n])*')
  | (?P<name>[A-Za-z_]\w*)
  | (?P<number>\.?\d(?:[eEpP][+-]|'(?=\w)|[\w.])*)
  | (?P<sign>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_DIRECTIVE = re.compile(r"[ \t]*\#(?:\\\n|/\*.*?\*/|[^\n])*", re.DOTALL)


def tokens(source: str) -> list[Token]:
    """Read `source`; comments and spaces are left out, a directive is one token with its continuation lines."""
    found: list[Token] = []
    place, fresh = 0, True
    while place < len(source):
        directive = _DIRECTIVE.match(source, place) if fresh else None
        if directive:
            start = place + len(directive[0]) - len(directive[0].lstrip())
            found.append(Token("directive", directive[0].strip(), start, directive.end()))
            place, fresh = directive.end(), False
            continue
        match = _TOKEN.match(source, place)
        assert match is not None
        kind = match.lastgroup if match.lastgroup != "mark" else "text"
        text = match[0]
        if kind == "skip":
            fresh = fresh or "\n" in text
        else:
            fresh = False
            found.append(Token(kind, text, match.start(), match.end()))  # pyright: ignore[reportArgumentType]
        place = match.end()
        if text.isspace() and "\n" in text:
            place = match.start() + text.rfind("\n") + 1
    return found


_CLOSES = {"(": ")", "[": "]", "{": "}"}


def closing(found: Sequence[Token], place: int) -> int:
    """Return where the bracket at `place` closes; raises `NotUnderstood` where it does not."""
    waiting: list[str] = []
    for i in range(place, len(found)):
        if found[i].kind != "sign":
            continue
        text = found[i].text
        if text in _CLOSES:
            waiting.append(_CLOSES[text])
        elif text in _CLOSES.values():
            if not waiting or waiting.pop() != text:
                raise NotUnderstood("brackets do not match")
            if not waiting:
                return i
    raise NotUnderstood("a bracket is not closed")


def closing_angle(found: Sequence[Token], place: int) -> int:
    depth, i = 0, place
    while i < len(found):
        text = found[i].text if found[i].kind == "sign" else ""
        if text in _CLOSES:
            i = closing(found, i)
        elif text == "<":
            depth += 1
        elif text == ">":
            depth -= 1
            if depth == 0:
                return i
        elif text == ";":
            break
        i += 1
    raise NotUnderstood("a template's bracket is not closed")


@dataclass(frozen=True, slots=True)
class SourceItem:
    """An item of the source between its tokens `first` and `last`; `body` is the place of the opening brace, or -1."""

    kind: Literal["directive", "scope", "function", "class", "declaration"]
    first: int
    last: int
    body: int = -1


_CLASS = {"struct", "class", "union", "enum"}


def items(found: Sequence[Token], first: int, end: int) -> Iterator[SourceItem]:
    i = first
    while i < end:
        token = found[i]
        if token.kind == "directive":
            yield SourceItem("directive", i, i)
        elif token.text == ";":
            pass
        else:
            item = _item(found, i, end)
            yield item
            i = item.last
        i += 1


def _item(found: Sequence[Token], first: int, end: int) -> SourceItem:
    i, called, assigned, classes = first, False, False, False
    while i < end:
        token = found[i]
        if token.kind == "directive":
            raise NotUnderstood("a directive inside of a declaration")
        if token.text == "template" and i + 1 < end and found[i + 1].text == "<":
            i = closing_angle(found, i + 1)
        elif token.kind == "name":
            classes = classes or token.text in _CLASS
        elif token.kind == "sign":
            match token.text:
                case ";":
                    return SourceItem("declaration", first, i)
                case "=":
                    assigned = assigned or found[i - 1].text != "operator"
                case "(" | "[":
                    called = called or token.text == "("
                    i = closing(found, i)
                case "{":
                    close = closing(found, i)
                    if found[first].text in ("namespace", "extern", "inline") and not called and not classes:
                        return SourceItem("scope", first, close, i)
                    is_class = classes and found[i - 1].text not in (")", "const", "noexcept")
                    if called and not assigned and not is_class:
                        return SourceItem("function", first, close, i)
                    if is_class and not assigned:
                        end_of_class = next((k for k in range(close, end) if found[k].text == ";"), -1)
                        if end_of_class < 0:
                            raise NotUnderstood("a class without an end")
                        return SourceItem("class", first, end_of_class, i)
                    i = close
                case _:
                    pass
        i += 1
    raise NotUnderstood("a declaration without an end")


@dataclass(frozen=True, slots=True)
class Halves:
    """Both texts, the names of all kernels, and of the templates among them, whose instances are not known yet."""

    device: str
    host: str
    templates: frozenset[str]
    kernels: frozenset[str]


_QUALIFIERS = {"__global__", "__device__", "__host__", "__constant__", "__managed__", "__shared__"}
_NOT_VARIABLES = {
    *_QUALIFIERS,
    *("const", "static", "extern", "unsigned", "int", "char", "float", "double", "bool", "half"),
}
_TORCH = {"torch", "at", "c10", "Tensor", "pybind11", "py", "PYBIND11_MODULE"}
_NAMESPACES = {"torch", "at", "c10", "py"}
_TORCH_PREFIXES = ("TORCH_", "AT_", "C10_", "THC", "CUDA_KERNEL_")
# Namespaces whose headers need nvcc.
_DEVICE_ONLY = {"cooperative_groups", "nvcuda", "wmma", "cub", "cuda", "cg"}
_TORCH_HEADER = re.compile(r"#\s*include\s*[<\"](?:torch|ATen|c10|pybind11|Python)")
_DEVICE_HEADER = re.compile(r"#\s*include\s*[<\"](?:cooperative_groups|mma\.h|cub/|cuda/|cuda_pipeline|.*\.cuh)")
_STARTS = {"template", "using", "typedef", "struct", "class", "enum", "union", "constexpr", "const", "static_assert"}
# Standard headers that torch's bring along.
_PRELUDE = "".join(f"#include <c{h}>\n" for h in ("assert", "float", "limits", "math", "stdint", "stdio"))
_STANDARD = "".join(f"#include <{h}>\n" for h in ("algorithm", "array", "limits", "tuple", "type_traits", "utility"))
_HALVES = "#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n"
_HOST_PRELUDE = """#include <cuda_runtime.h>
extern "C" unsigned __cudaPushCallConfiguration(dim3, dim3, size_t = 0, struct CUstream_st* = nullptr);
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __maxnreg__(...)
"""


def split(source: str) -> Halves:
    """Split a CUDA source into code for the device and for the host, or raise `NotUnderstood`."""
    if re.search(r"__CUDACC__|__NVCC__|__managed__|\bthrust\b", source):
        raise NotUnderstood("the source asks which compiler reads it, or needs nvcc for its host code")
    found = tokens(source)
    halves = _Halves(source, found)
    halves.scope(0, len(found))
    if not halves.kernels:
        raise NotUnderstood("no kernel was found")
    reached = halves.variables & halves.host_names
    if reached:
        raise NotUnderstood(f"host code uses the device variable {sorted(reached)[0]}")
    device = "".join(halves.device)
    prelude = _PRELUDE
    if re.search(r"\bstd\b", device):
        prelude += _STANDARD
    if re.search(r"half|bfloat", device, re.IGNORECASE):
        prelude += _HALVES
    return Halves(
        prelude + device, _HOST_PRELUDE + "".join(halves.host), frozenset(halves.templates), frozenset(halves.kernels)
    )


def unresolved(undefined: Sequence[str], kernels: frozenset[str]) -> list[str]:
    """Return those of a library's demangled `undefined` symbols that are kernels: a half is missing."""
    names = [(re.match(r"(?:void )?(?:\w+::)*(\w+)(?:[<(]|$)", symbol), symbol) for symbol in undefined]
    return [symbol for found, symbol in names if found and found[1] in kernels]


def with_instances(device: str, undefined: Sequence[str], templates: frozenset[str]) -> str:
    """Return `device` with explicit instances of the kernel templates among the demangled `undefined` symbols.

    Raises `NotUnderstood` for an instance that cannot be written down.
    """
    wanted: list[str] = []
    for symbol in undefined:
        found = re.match(r"void (?:\w+::)*(\w+)<", symbol)
        if found and found[1] in templates:
            if "{lambda" in symbol or "{unnamed" in symbol:
                raise NotUnderstood("a kernel is called with a type that has no name")
            wanted.append(f"template __global__ {symbol};\n")
    text = "".join(wanted)
    types = "#include <c10/util/Half.h>\n#include <c10/util/BFloat16.h>\n" if "c10::" in text else ""
    return f"{types}{device}\n{text}"


_PASSED = re.compile(r"-(?:D|U|I|O\d?$|std=|g$|f|W(?!no-deprecated-gpu))")
_DROPPED = re.compile(
    r"-(?:gencode=|arch=|-gpu-architecture=|-?expt-|-?extended-lambda|-?use_fast_math$|lineinfo$|-generate-line-info$"
    r"|-?maxrregcount=|Xptxas=|-ptxas-options=|-?ftz=|-?prec-div=|-?prec-sqrt=|-?fmad=|-?extra-device-vectorization$"
    r"|t=|-threads=|-?split-compile=|diag-suppress=|-diag-suppress=|w$"
    r"|-resource-usage$|res-usage$)"
)
_PASSED_PAIRS = {"-isystem", "-D", "-U", "-I", "-include"}
_DROPPED_PAIRS = {"-gencode", "-arch", "-Xptxas", "--ptxas-options", "-maxrregcount", "--maxrregcount", "-t"}
_HOST = ("-Xcompiler", "--compiler-options")


def host_flags(flags: Sequence[str]) -> list[str]:
    """Return what nvcc with these flags passes on to the C++ compiler. Raises `NotUnderstood`."""
    kept: list[str] = []
    rest = iter(flags)
    for flag in rest:
        name, _, value = flag.partition("=")
        if name in _HOST:
            kept += (value or next(rest, "")).replace("'", "").split(",")
        elif flag in _PASSED_PAIRS:
            kept += [flag, next(rest, "")]
        elif flag in _DROPPED_PAIRS:
            next(rest, "")
        elif flag == "-ccbin":
            # torch passes on $CC, which is for nvcc's own host code; $CXX compiles this half.
            if (compiler := next(rest, "")) != os.environ.get("CC"):
                raise NotUnderstood(f"nvcc's option {flag} {compiler}")
        elif _PASSED.match(flag) and not _DROPPED.match(flag):
            kept.append(flag)
        elif not _DROPPED.match(flag):
            raise NotUnderstood(f"nvcc's option {flag}")
    return kept


class _Halves:
    def __init__(self, source: str, found: list[Token]) -> None:
        self.source, self.found = source, found
        self.device: list[str] = []
        self.host: list[str] = []
        self.templates: set[str] = set()
        self.kernels: set[str] = set()
        self.variables: set[str] = set()
        self.host_names: set[str] = set()

    def scope(self, first: int, end: int) -> None:
        for item in items(self.found, first, end):
            match item.kind:
                case "directive":
                    self._directive(self.found[item.first].text)
                case "scope":
                    self._scope(item)
                case "function":
                    self._function(item)
                case "class":
                    self._class(item)
                case "declaration":
                    self._declaration(item)

    def _text(self, first: int, last: int) -> str:
        return self.source[self.found[first].start : self.found[last].end]

    def _names(self, item: SourceItem) -> set[str]:
        span = range(item.first, item.last + 1)
        return {self.found[i].text for i in span if self.found[i].kind == "name" and not self._is_variable(i)}

    def _is_variable(self, index: int) -> bool:
        """Return whether a name that torch has for a namespace stands for something else, such as an index `at`."""
        if self.found[index].text not in _NAMESPACES:
            return False
        before = self.found[index - 1].text if index else ""
        return before != "namespace" and [t.text for t in self.found[index + 1 : index + 3]] != [":", ":"]

    def _both(self, text: str) -> None:
        self.device.append(text + "\n")
        self.host.append(text + "\n")

    def _for_host(self, item: SourceItem) -> None:
        names = self._names(item)
        if names & _QUALIFIERS:
            raise NotUnderstood("device code inside of host code")
        if names & {"cub", "thrust"}:
            raise NotUnderstood("host code that needs nvcc")
        self.host_names |= names
        self.host.append(_launches(self.source, self.found[item.first : item.last + 1]) + "\n")

    def _directive(self, text: str) -> None:
        if "<<<" in text or any(q in text for q in _QUALIFIERS - {"__host__"}):
            raise NotUnderstood("a macro with device code")
        if _DEVICE_HEADER.match(text):
            self.device.append(text + "\n")
        elif _TORCH_HEADER.match(text):
            self.host.append(text + "\n")
        else:
            self._both(text)

    def _scope(self, item: SourceItem) -> None:
        head = self._text(item.first, item.body)
        # Both halves must mean the same entity; an anonymous namespace is another one in each object.
        self._both("inline namespace forewarp_anonymous {" if re.fullmatch(r"namespace\s*\{", head) else head)
        self.scope(item.body + 1, item.last)
        self._both("}")

    def _function(self, item: SourceItem) -> None:
        names = {t.text for t in self.found[item.first : item.body] if t.kind == "name"}
        text = self._text(item.first, item.last)
        head = self._text(item.first, item.body - 1)
        if "__global__" in names:
            self._kernel(item, head, text)
        elif "__device__" in names and "__host__" in names:
            _refuse_torch(self._names(item))
            self.device.append(text + "\n")
            self.host.append(("" if names & {"inline", "static", "constexpr", "template"} else "inline ") + text + "\n")
        elif "__device__" in names:
            _refuse_torch(self._names(item))
            self.device.append(text + "\n")
        elif "constexpr" in names and not _of_torch(self._names(item)):
            self._both(text)
        else:
            self._for_host(item)

    def _kernel(self, item: SourceItem, head: str, text: str) -> None:
        _refuse_torch(self._names(item))
        name = self._kernel_name(item)
        self.kernels.add(name)
        if re.match(r"template\b", head) and not re.match(r"template\s*<\s*>", head):
            self.templates.add(name)
        # A kernel of one file only cannot be called from another.
        self.device.append(re.sub(r"\bstatic\s+", "", text, count=int("static" in head)) + "\n")
        self.host.append(re.sub(r"\b(?:static|inline|__forceinline__)\s+", "", head) + ";\n")

    def _kernel_name(self, item: SourceItem) -> str:
        """Return the name before the parameters, which are the last brackets of the head."""
        i, last = item.first, -1
        while i < item.body:
            if self.found[i].text == "(":
                last, i = i, closing(self.found, i)
            i += 1
        if last < 1 or self.found[last - 1].kind != "name":
            raise NotUnderstood("a kernel without a plain name")
        return self.found[last - 1].text

    def _class(self, item: SourceItem) -> None:
        names = self._names(item)
        if _of_torch(names):
            self._for_host(item)
            return
        self.device.append(self._text(item.first, item.last) + "\n")
        if names & _DEVICE_ONLY:
            return
        pieces, place = [], self.found[item.first].start
        for inner in items(self.found, item.body + 1, closing(self.found, item.body)) if "__device__" in names else ():
            if inner.kind == "function" and "__host__" not in self._names(inner):
                pieces.append(self.source[place : self.found[inner.body].start] + ";")
                place = self.found[inner.last].end
        self.host.append("".join(pieces) + self.source[place : self.found[item.last].end] + "\n")

    def _declaration(self, item: SourceItem) -> None:
        names, text = self._names(item), self._text(item.first, item.last)
        called = any(t.text == "(" for t in self.found[item.first : item.last])
        starts = {t.text for t in self.found[item.first : item.first + 2]}
        if "__global__" in names:
            explicit = self.found[item.first].text == "template" and self.found[item.first + 1].text != "<"
            self.device.append(text + "\n")
            if not explicit:
                self.host.append(text + "\n")
        elif names & {"__constant__", "__device__"}:
            self.variables |= {t.text for t in self.found[item.first : item.last] if t.kind == "name"} - _NOT_VARIABLES
            self.device.append(text + "\n")
        elif _of_torch(names):
            self._for_host(item)
        elif names & _DEVICE_ONLY:
            self.device.append(text + "\n")
        elif starts & _STARTS or called:
            self._both(text)
        else:
            self._for_host(item)


def _of_torch(names: set[str]) -> bool:
    return bool(names & _TORCH) or any(n.startswith(_TORCH_PREFIXES) for n in names)


def _refuse_torch(names: set[str]) -> None:
    if _of_torch(names):
        raise NotUnderstood("device code that uses torch")


def _launches(source: str, found: Sequence[Token]) -> str:
    """Return the text of these tokens with every launch as a call."""
    edits: list[tuple[int, int, str]] = []
    for i in range(len(found)):
        if _triple(found, i, "<"):
            end = next((k for k in _flat(found, i + 3) if _triple(found, k, ">")), -1)
            if end < 0 or end + 3 >= len(found) or found[end + 3].text != "(":
                raise NotUnderstood("a launch without arguments")
            start = found[_callee(found, i - 1)].start
            kernel = source[start : found[i].start]
            configuration = source[found[i + 2].end : found[end].start]
            edits.append((start, start, f"(__cudaPushCallConfiguration({configuration}) ? (void)0 : "))
            edits.append((found[i].start, found[end + 2].end, ""))
            after = found[closing(found, end + 3)].end
            edits.append((after, after, ")"))
            if "<<<" in kernel or "<<<" in configuration:
                raise NotUnderstood("a launch inside of a launch")
    pieces, place = [], found[0].start
    for start, end, text in sorted(edits):
        pieces += [source[place:start], text]
        place = end
    return "".join(pieces) + source[place : found[-1].end]


def _triple(found: Sequence[Token], i: int, sign: str) -> bool:
    three = found[i : i + 3]
    return len(three) == 3 and all(t.text == sign for t in three) and three[2].end - three[0].start == 3


def _flat(found: Sequence[Token], first: int) -> Iterator[int]:
    """Yield the places from `first` on that are in no inner bracket."""
    i = first
    while i < len(found):
        if found[i].kind == "sign" and found[i].text in "([{":
            i = closing(found, i)
        yield i
        i += 1


def _opening(found: Sequence[Token], last: int) -> int:
    depth = 0
    for i in range(last, -1, -1):
        depth += {")": 1, "(": -1}.get(found[i].text, 0)
        if depth == 0:
            return i
    raise NotUnderstood("brackets do not match")


def _callee(found: Sequence[Token], last: int) -> int:
    """Return where the kernel's name begins, of which `last` is the last token: `a::b<c, d>`."""
    i = last
    if found[i].text == ">":
        depth = 0
        while i >= 0:
            if found[i].text == ")":
                i = _opening(found, i)
            depth += {">": 1, "<": -1}.get(found[i].text, 0)
            if depth == 0:
                break
            if found[i].text in ";{}":
                raise NotUnderstood("a launch of something without a plain name")
            i -= 1
        i -= 1
    if i < 0 or found[i].kind != "name":
        raise NotUnderstood("a launch of something without a plain name")
    while i >= 2 and found[i - 1].text == ":" and found[i - 2].text == ":":
        i -= 3 if i >= 3 and found[i - 3].kind == "name" else 2
    return i
