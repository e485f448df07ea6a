"""An extension's CUDA source, read leniently: its device code without torch, its host functions, constants, kernels.

What is compiled here is looked at and never run, so a construct that is not understood may be left out; the compiler
says whether something was missing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from forewarp.gpu_runner.compilers.extension.tokens import Item, NotUnderstood, Token, closing, items, tokens

_TORCH = {"torch", "at", "pybind11", "py", "PYBIND11_MODULE", "TORCH_EXTENSION_NAME", "TORCH_LIBRARY", "Tensor"}
_TORCH_ALLOWED = {"PackedTensorAccessor32", "PackedTensorAccessor64", "RestrictPtrTraits", "DefaultPtrTraits", "Half"}
_KEPT_HEADERS = re.compile(
    r"(?:cuda_fp16|cuda_bf16|cuda_fp8|mma|math_constants|cooperative_groups|cuda_pipeline|cub/|cuda/|vector_types)"
)
_INCLUDE = re.compile(r"#\s*include\s*[<\"]([^>\"]+)")
_DEFINE = re.compile(r"#\s*define\s+(\w+)(\(([^)]*)\))?[ \t]+(.*)", re.DOTALL)
_BINDING = re.compile(r"\bdef\s*\(\s*\"(\w+)\"\s*,\s*&?\s*(?:\w+::)*(\w+)")
_CUB = (
    "#include <cub/block/block_reduce.cuh>\n#include <cub/block/block_scan.cuh>\n#include <cub/warp/warp_reduce.cuh>\n"
)


@dataclass(frozen=True, slots=True)
class Function:
    """A host function: parameter names and types, template parameters, its body's tokens, its declared return type."""

    name: str
    parameters: tuple[tuple[str, str], ...]
    templates: tuple[str, ...]
    body: tuple[Token, ...]
    returns: str


@dataclass(frozen=True, slots=True)
class Macro:
    """A macro that may be evaluated: its parameters, None for one without brackets, and its tokens."""

    parameters: tuple[str, ...] | None
    body: tuple[Token, ...]


@dataclass(slots=True)
class CudaSource:
    """A source as read. `kernels` has the template parameters of each, `bindings` functions by names in Python."""

    text: str
    device: str = ""
    kernels: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    functions: dict[str, Function] = field(default_factory=dict[str, Function])
    macros: dict[str, Macro] = field(default_factory=dict[str, Macro])
    constants: list[tuple[Token, ...]] = field(default_factory=list[tuple[Token, ...]])
    bindings: dict[str, str] = field(default_factory=dict[str, str])

    @classmethod
    def read(cls, text: str) -> CudaSource:
        """Read a source; raises `NotUnderstood` where brackets do not match."""
        source = cls(text)
        reader = _Reader(source)
        reader.scope(0, len(reader.found))
        source.device = "".join(reader.device)
        source.bindings = dict(_BINDING.findall(text))
        return source


class _Reader:
    def __init__(self, source: CudaSource) -> None:
        self.source = source
        self.found = tokens(source.text)
        self.device: list[str] = []
        self.included: set[str] = set()

    def scope(self, first: int, end: int) -> None:
        for item in items(self.found, first, end):
            names = {t.text for t in self.found[item.first : item.last + 1] if t.kind == "name"}
            match item.kind:
                case "directive":
                    self._directive(self.found[item.first].text)
                case "scope":
                    self._keep(item.first, item.body)
                    self.scope(item.body + 1, item.last)
                    self.device.append("}\n")
                case "function":
                    self._function(item, names)
                case "class":
                    if not _of_torch(names):
                        self._keep(item.first, item.last)
                case "declaration":
                    self._declaration(item, names)

    def _keep(self, first: int, last: int) -> None:
        self.device.append(self.source.text[self.found[first].start : self.found[last].end] + "\n")

    def _directive(self, text: str) -> None:
        include = _INCLUDE.match(text)
        if include:
            name = include[1]
            if name.startswith("cub/cub"):
                self.device.append(_CUB)
            elif _KEPT_HEADERS.match(name) and name not in self.included:
                self.included.add(name)
                self.device.append(text + "\n")
            return
        define = _DEFINE.match(text)
        if define:
            name, brackets, parameters, body = define.groups()
            names = tuple(p.strip() for p in parameters.split(",")) if brackets else None
            self.source.macros[name] = Macro(names, tuple(tokens(body.replace("\\\n", "\n"))))
            if _of_torch(set(re.findall(r"\w+", body))) and "CHECK" in name:
                return
        if not re.match(r"#\s*pragma\s+once", text):
            self.device.append(text + "\n")

    def _function(self, item: Item, names: set[str]) -> None:
        head = self.found[item.first : item.body]
        words = {t.text for t in head if t.kind == "name"}
        place = _name_place(head)
        if place < 0:
            return
        name = head[place].text
        if "__global__" in words:
            self.source.kernels[name] = _template_names(head)
            text = self.source.text[self.found[item.first].start : self.found[item.last].end] + "\n"
            # A static kernel would be left out of the machine code, since nothing in the file calls it.
            self.device.append(re.sub(r"\bstatic\s+", "", text, count=int("static" in words)))
            return
        if "__device__" in words or ("constexpr" in words and not _of_torch(names)):
            self._keep(item.first, item.last)
        if "__device__" not in words or "__host__" in words:
            body = tuple(self.found[item.body + 1 : item.last])
            returns = "".join(t.text for t in head[:place] if t.text not in ("static", "inline"))
            self.source.functions[name] = Function(
                name, _parameters(head, place + 1), _template_names(head), body, returns
            )

    def _declaration(self, item: Item, names: set[str]) -> None:
        found = self.found[item.first : item.last + 1]
        starts = [t.text for t in found[:3]]
        if _of_torch(names) or "<<<" in self.source.text[found[0].start : found[-1].end]:
            return
        called = any(t.text == "(" for t in found)
        if names & {
            "__constant__",
            "__device__",
            "using",
            "namespace",
            "typedef",
            "template",
            "struct",
            "class",
            "enum",
        }:
            self._keep(item.first, item.last)
        elif set(starts) & {"constexpr", "const"} or (names & {"constexpr"}):
            self._keep(item.first, item.last)
            self.source.constants.append(tuple(found))
        elif "__global__" in names or (called and "__device__" in names):
            self._keep(item.first, item.last)


def _of_torch(names: set[str]) -> bool:
    if names & _TORCH:
        return not names & _TORCH_ALLOWED
    return any(n.startswith(("TORCH_", "AT_", "PYBIND11")) for n in names)


def _name_place(head: Sequence[Token]) -> int:
    """Return where the name before the parameters, the last brackets of the head, stands; -1 for none."""
    i, last = 0, -1
    while i < len(head):
        if head[i].text == "(" and head[i].kind == "sign":
            if i and head[i - 1].kind == "name" and head[i - 1].text not in ("__launch_bounds__", "__attribute__"):
                last = i - 1
            i = closing(head, i)
        elif head[i].text == ":" and last >= 0:
            break  # a constructor's initialisers
        i += 1
    return last


def _template_names(head: Sequence[Token]) -> tuple[str, ...]:
    """Return the names of template parameters: `template <typename T, int N = 4>` has T and N."""
    if head[0].text != "template":
        return ()
    found: list[str] = []
    depth, name, default = 0, "", False
    for token in head[1:]:
        depth += {"<": 1, ">": -1}.get(token.text, 0)
        if token.kind == "name" and depth == 1 and not default:
            name = token.text
        default = (default or token.text == "=") and token.text != ","
        if (token.text == "," and depth == 1) or depth == 0:
            found.append(name)
            name = ""
        if depth == 0:
            break
    return tuple(n for n in found if n)


def _parameters(head: Sequence[Token], place: int) -> tuple[tuple[str, str], ...]:
    end = closing(head, place)
    found: list[tuple[str, str]] = []
    for piece in split_at(head[place + 1 : end], ","):
        declared = next(iter(split_at(piece, "=")), [])
        names = [t.text for t in declared if t.kind == "name"]
        if names and names != ["void"]:
            found.append((names[-1], " ".join(t.text for t in declared[:-1])))
    return tuple(found)


def split_at(found: Sequence[Token], sign: str) -> list[list[Token]]:
    """Split tokens at a sign that is in no bracket, round, square, curly, or of a template."""
    pieces: list[list[Token]] = [[]]
    i, angles = 0, 0
    while i < len(found):
        token = found[i]
        if token.kind == "sign" and token.text in "([{":
            try:
                end = closing(found, i)
            except NotUnderstood:
                end = len(found) - 1
            pieces[-1] += found[i : end + 1]
            i = end + 1
            continue
        if token.text == "<" and _opens_template(found, i):
            angles += 1
        elif token.text == ">" and angles and found[i - 1].text != "-":
            angles -= 1
        if token.kind == "sign" and token.text == sign and not angles:
            pieces.append([])
        else:
            pieces[-1].append(token)
        i += 1
    return [p for p in pieces if p]


def _opens_template(found: Sequence[Token], place: int) -> bool:
    """Return whether a `<` is followed by its `>` before anything that no template argument has."""
    if place == 0 or found[place - 1].kind != "name":
        return False
    for token in found[place + 1 :]:
        if token.text == ">":
            return True
        if token.text in ";{}&|=?" and token.kind == "sign":
            return False
    return False
