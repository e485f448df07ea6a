"""An extension's CUDA source, parsed by tree-sitter: its device code without torch, host functions, constants, kernels.

Device code is compiled to be looked at and never run, so a construct that is not understood may be left out; the
compiler says whether something was missing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache

import tree_sitter_cuda
from tree_sitter import Language, Node, Parser

_TORCH = {"torch", "at", "pybind11", "py", "PYBIND11_MODULE", "TORCH_EXTENSION_NAME", "TORCH_LIBRARY", "Tensor"}
_TORCH_ALLOWED = {"PackedTensorAccessor32", "PackedTensorAccessor64", "RestrictPtrTraits", "DefaultPtrTraits", "Half"}
_KEPT_HEADERS = re.compile(
    r"(?:cuda_fp16|cuda_bf16|cuda_fp8|mma|math_constants|cooperative_groups|cuda_pipeline|cub/|cuda/|vector_types)"
)
_CUB = (
    b"#include <cub/block/block_reduce.cuh>\n#include <cub/block/block_scan.cuh>\n#include <cub/warp/warp_reduce.cuh>\n"
)
_SCOPES = ("namespace_definition", "declaration_list", "preproc_ifdef", "preproc_if", "preproc_else", "preproc_elif")
_KEPT_DECLARATIONS = {"__constant__", "__device__", "__global__", "constexpr", "const", "struct", "class", "enum"}


class NotFollowed(Exception):
    """The source has something that cannot be followed."""


@dataclass(frozen=True, slots=True)
class HostFunction:
    """A host function: parameter names and types, template parameters, its body, its declared return type."""

    name: str
    parameters: tuple[tuple[str, str], ...]
    templates: tuple[str, ...]
    body: Node
    returns: str


@dataclass(frozen=True, slots=True)
class Macro:
    """A macro that may be evaluated: its parameters, None for one without brackets, and its body as a block."""

    parameters: tuple[str, ...] | None
    body: Node


@dataclass(slots=True)
class CudaSource:
    """A source as read. `kernels` has the template parameters of each, `bindings` functions by names in Python."""

    device: str = ""
    kernels: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    functions: dict[str, HostFunction] = field(default_factory=dict[str, HostFunction])
    macros: dict[str, Macro] = field(default_factory=dict[str, Macro])
    constants: list[Node] = field(default_factory=list[Node])
    bindings: dict[str, str] = field(default_factory=dict[str, str])

    @classmethod
    def read(cls, text: str) -> CudaSource:
        """Read a source; raises `NotFollowed` where its brackets do not match."""
        data = text.encode()
        root = _parser().parse(data).root_node
        if root.type == "ERROR":
            raise NotFollowed("its brackets do not match")
        source = cls(bindings=dict(re.findall(r"\bdef\s*\(\s*\"(\w+)\"\s*,\s*&?\s*(?:\w+::)*(\w+)", text)))
        device, place = list[bytes](), 0
        for start, end, instead in source._host_parts(root):
            device += [data[place:start], instead]
            place = end
        source.device = b"".join([*device, data[place:]]).decode()
        return source

    def _host_parts(self, scope: Node) -> Iterator[tuple[int, int, bytes]]:
        """Record what stands in a scope; yield the bytes that are not for the device, and what to put there instead."""
        for node in scope.named_children:
            inner = node
            while inner.type in ("template_declaration", "linkage_specification"):
                inner = inner.child_by_field_name("body") or inner.named_children[-1]
            if inner.type in _SCOPES:
                yield from self._host_parts(inner)
            elif inner.type == "preproc_include" and "cub/cub" in text_of(inner):
                yield node.start_byte, node.end_byte, _CUB
            elif not self._is_for_device(node, inner):
                yield node.start_byte, node.end_byte, b""
            elif inner.type == "function_definition":
                # A static kernel would be left out of the machine code, since nothing in the file calls it.
                yield from ((c.start_byte, c.end_byte, b"") for c in inner.children if c.text == b"static")

    def _is_for_device(self, node: Node, inner: Node) -> bool:
        """Record one item; `inner` is it without `template <…>` and `extern "C"`."""
        heads = [c for c in inner.children if c.type not in ("compound_statement", "function_declarator")]
        words = {w for c in heads for w in words_of(c)}
        match inner.type:
            case "preproc_include":
                return _KEPT_HEADERS.match(text_of(inner.child_by_field_name("path"))[1:-1]) is not None
            case "preproc_def" | "preproc_function_def":
                return self._macro(inner)
            case "function_definition":
                return self._function(node, inner, words)
            case "declaration":
                kept = not _of_torch(inner) and (node is not inner or bool(words & _KEPT_DECLARATIONS))
                if kept and words & {"const", "constexpr"}:
                    self.constants.append(inner)
                return kept
            case _:
                return not _of_torch(inner) and text_of(inner).split() != ["#pragma", "once"]

    def _macro(self, node: Node) -> bool:
        name, parameters = text_of(node.child_by_field_name("name")), node.child_by_field_name("parameters")
        body = block(text_of(node.child_by_field_name("value")).replace("\\\n", "\n"))
        names = None if parameters is None else tuple(text_of(p) for p in parameters.named_children)
        self.macros[name] = Macro(names, body)
        return not (_of_torch(body) and "CHECK" in name)

    def _function(self, node: Node, inner: Node, words: set[str]) -> bool:
        name, templates = text_of(name_of(inner)), _template_names(node)
        body = inner.child_by_field_name("body")
        if "__global__" in words:
            self.kernels[name] = templates
            return True
        if body is not None and ("__device__" not in words or "__host__" in words):
            returns = text_of(inner.child_by_field_name("type"))
            self.functions[name] = HostFunction(name, _parameters(inner), templates, body, returns)
        return "__device__" in words or ("constexpr" in words and not _of_torch(inner))


@cache
def _parser() -> Parser:
    return Parser(Language(tree_sitter_cuda.language()))


def block(text: str) -> Node:
    """Parse statements, or an expression that lacks its semicolon; return them as a block."""
    root = _parser().parse(f"void _() {{ {text}\n; }}".encode()).root_node
    body = root.named_children[0].child_by_field_name("body") if root.named_children else None
    return body or root


def text_of(node: Node | None) -> str:
    """Return a node's text, "" for none."""
    return node.text.decode() if node is not None and node.text is not None else ""


def words_of(node: Node) -> Iterator[str]:
    """Yield the texts of a node's leaves, without comments and what stands in quotes."""
    if node.type not in ("comment", "string_literal", "raw_string_literal", "char_literal"):
        if not node.child_count:
            yield text_of(node)
        for child in node.children:
            yield from words_of(child)


def name_of(node: Node) -> Node:
    """Return the name that a declarator, or a definition of a function, declares."""
    while (inner := node.child_by_field_name("declarator") or node.child_by_field_name("name")) is not None:
        node = inner
    if node.type in ("reference_declarator", "parenthesized_declarator", "variadic_declarator"):
        return name_of(node.named_children[-1]) if node.named_children else node
    return node


def _of_torch(node: Node) -> bool:
    names = set(words_of(node))
    if names & _TORCH:
        return not names & _TORCH_ALLOWED
    return any(n.startswith(("TORCH_", "AT_", "PYBIND11")) for n in names)


def _template_names(node: Node) -> tuple[str, ...]:
    """Return the names of template parameters: `template <typename T, int N = 4>` has T and N."""
    parameters = node.child_by_field_name("parameters") if node.type == "template_declaration" else None
    return tuple(text_of(name_of(p)).split()[-1] for p in parameters.named_children) if parameters is not None else ()


def _parameters(function: Node) -> tuple[tuple[str, str], ...]:
    declarator: Node | None = function
    while declarator is not None and declarator.type != "function_declarator":
        declarator = declarator.child_by_field_name("declarator") or next(iter(declarator.named_children), None)
    parameters = declarator.child_by_field_name("parameters") if declarator is not None else None
    found: list[tuple[str, str]] = []
    for p in parameters.named_children if parameters is not None else ():
        if (named := p.child_by_field_name("declarator")) is not None:
            name = name_of(named)
            kind = (p.text or b"")[: name.start_byte - p.start_byte].decode()
            found.append((text_of(name), " ".join(kind.split())))
    return tuple(found)
