"""Kernels without a launch plan, as their text has them: parameters, what they write to, how they share work out."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from forewarp.core.values import Candidate
from forewarp.inspection.features.c_text import enclosed, split
from forewarp.inspection.tracing.files import kernels as kernel_texts

MOST_TEXT, MOST_PARAMETERS = 20_000, 64
"""Texts and kernels beyond are not read: some patterns take time that grows with the square."""

_BOUNDS = r"__launch_bounds__\s*\(((?:[^()]|\([^()]*\))*)\)"
_NO_C = re.compile(rf"//[^\n]*|/\*.*?\*/|{_BOUNDS}|__restrict__", re.DOTALL)
_TEMPLATE = re.compile(r"\btemplate\s*<([^<>]*)>")
_MACRO = re.compile(r"#\s*ifndef\s+(\w+)\s+#\s*define\s+\1\s+(\d+)\s")
_NAMED_NUMBER = re.compile(r"\b(?:const|constexpr)[\s\w]*?\b(\w+)\s*=\s*(\d+)\s*;|#\s*define\s+(\w+)\s+(\d+)\s")
_CAST = re.compile(r"\b(?:reinterpret|static)_cast\s*<[^<>]*>|\((?:const\s+)?\w+(?:\s+\w+)?\s*\*?\s*\)(?=\s*[\w(])")
_C_FUNCTION = re.compile(r"\bvoid\s+(\w+)\s*\(([^{};]*)\)\s*\{")
_C_STORED = re.compile(
    r"\b(\w+)\s*\[[^;=]*\]\s*(?:[-+*/%&|^]|<<|>>)?=(?!=)|[;{}]\s*\*\s*\(?\s*(\w+)[^;=]*=(?!=)"
    r"|\batomic\w+\s*\(\s*&?\s*(\w+)"
)
_INDEX = re.compile(r"\b(blockIdx|blockDim|threadIdx)\.([xyz])")
_PROGRAM = re.compile(r"tl\.program_id\((?:axis\s*=\s*)?(\d)\)(?:\.to\([\w.]+\))?")
_BLOCK_POINTER = re.compile(r"\b(?:tl\.)?make_(?:block_ptr|tensor_descriptor)\(\s*(?:base\s*=\s*)?")
_ASSIGNED = re.compile(r"\b(\w+)\s*=(?!=)\s*[&(\s]*(\w+)")
_KINDS = {"i64": "int64_t long size_t ssize_t uint64_t ptrdiff_t", "f32": "float", "f64": "double"}


@dataclass(frozen=True, slots=True)
class KernelParameter:
    """A parameter as the source writes it, and its kind: ptr, i32, i64, f32, f64, or "" for a number of Triton's.

    `element` is the type that a pointer of C points to.
    """

    name: str
    written: str
    kind: str = ""
    element: str = ""


@dataclass(frozen=True, slots=True)
class UnplannedKernel:
    """A kernel: its parameters, the pointers among them that it writes to, and its text.

    In the text, `pid0` to `pid2` stand for the indices of block or program, `BLOCK0` to `BLOCK2` and `tid0` to `tid2`
    for the size of a CUDA block and the index in it. `constants` are Triton's constexpr parameters without a default,
    `head` is what stands before the `void` of C. `host` says that it is host code, which launches kernels itself.

    `templates` are the parameters of a C++ template with what the file passes for each, instance by instance; `macros`
    those with a default that a compiler's option overrides, `threads` is what `__launch_bounds__` says.
    """

    name: str
    parameters: Sequence[KernelParameter]
    stored: frozenset[str]
    body: str
    constants: Sequence[str] = ()
    head: str = ""
    host: bool = False
    templates: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    macros: Mapping[str, int] = field(default_factory=dict[str, int])
    threads: str = ""

    def of_kind(self, *kinds: str) -> list[str]:
        """Return the names of the parameters of these kinds."""
        return [p.name for p in self.parameters if p.kind in kinds]

    @property
    def by_row(self) -> bool:
        """True if work is shared out by rows: in no blocks of a fixed size, and in more than one loop."""
        if "pid" not in self.body:
            return len(self.of_kind("i32", "i64")) > 1
        return not re.search(r"pid\w*\s*\*\s*[A-Z\d]|[A-Z]\w*\s*\*\s*pid", self.body)

    def made_of(self, name: str) -> list[str]:
        """Return a variable, and those whose values begin with it or one made of it."""
        found, links = [name], _ASSIGNED.findall(self.body)
        for known in found:
            found += [made for made, first in links if first == known and made not in found]
        return found


def unplanned_kernels(candidate: Candidate) -> list[UnplannedKernel]:
    """Return the kernels that no other one calls, or the host function that launches them; none where none is seen."""
    if len(candidate.source) > MOST_TEXT:
        return []
    found = _triton(candidate.source) if candidate.language == "triton" else _c(candidate)
    found = [k for k in found if k.host][-1:] or found
    called = {name for k in found for name in re.findall(r"\b(\w+)\s*\(", k.body)}
    return [k for k in found if k.name not in called and len(k.parameters) <= MOST_PARAMETERS]


def _triton(source: str) -> list[UnplannedKernel]:
    tree = ast.parse(source)
    text = kernel_texts.read(tree)
    nodes = {n.name: n for n in tree.body if isinstance(n, ast.FunctionDef)}
    found: list[UnplannedKernel] = []
    for name in text.kernels:
        if (node := nodes.get(name)) is None:
            continue
        body = "\n".join(ast.unparse(s) for s in node.body)
        body = _BLOCK_POINTER.sub("", _PROGRAM.sub(r"pid\1", body))
        plain = [p.name for p in text.jitted[name].parameters if not p.constexpr]
        stored = _roots(re.findall(r"\b(?:store|atomic_\w+)\(\s*\(?(\w+)", body), plain, body)
        pointers = text.jitted[name].pointers | stored
        parameters = [KernelParameter(n, n, "ptr" if n in pointers else "") for n in plain]
        needed = [p.name for p in text.jitted[name].parameters if p.constexpr and not p.default]
        found.append(UnplannedKernel(name, parameters, stored, body, needed))
    return found


def _c(candidate: Candidate) -> list[UnplannedKernel]:
    source = _NO_C.sub(" ", candidate.source)
    found: list[UnplannedKernel] = []
    for match in _C_FUNCTION.finditer(source):
        head = re.split(r"[;{}]", source[max(0, match.start() - 400) : match.start()])[-1]
        body = _CAST.sub("", enclosed(source, match.end()))
        host = "<<<" in body
        if not (host or candidate.language == "cpp" or "__global__" in head):
            continue
        parameters = [_c_parameter(p.strip()) for p in split(match[2]) if p.strip() not in ("", "void")]
        pointers = [p for p in parameters if p.kind == "ptr"]
        stored = _roots(["".join(m) for m in _C_STORED.findall(body)], [p.name for p in pointers], body)
        if host:
            stored |= {p.name for p in pointers if not p.written.startswith("const")}
        words = {"blockIdx": "pid", "blockDim": "BLOCK", "threadIdx": "tid"}
        body = _INDEX.sub(lambda m, words=words: f"{words[m[1]]}{'xyz'.index(m[2])}", body)
        macros = {name: int(value) for name, value in _MACRO.findall(source)}
        bounds = re.search(rf"{_BOUNDS}[\s\w]*\b{match[1]}\s*\(", candidate.source)
        templates = {} if host else _instances(match[1], head, source)
        threads = split(bounds[1])[0].strip() if bounds else ""
        kernel = UnplannedKernel(
            match[1], parameters, frozenset(stored), body, (), head, host, templates, macros, threads
        )
        found.append(kernel)
    return found


def _instances(name: str, head: str, source: str) -> dict[str, list[str]]:
    """Return the template parameters of a kernel, each with its arguments in the instances that the source names.

    Without an instance it is the parameter's default, if it has one; a type's is float.
    """
    template = _TEMPLATE.search(head)
    if template is None:
        return {}
    numbers = {one or other: value or last for one, value, other, last in _NAMED_NUMBER.findall(source)}
    named = [split(m) for m in re.findall(rf"\b{name}\s*<([^<>;{{}}]*)>\s*(?:<<<|\()", source)]
    instances = [[numbers.get(a.strip(), a.strip()) for a in instance] for instance in named]
    found: dict[str, list[str]] = {}
    for place, written in enumerate(split(template[1])):
        declared, _, default = (part.strip() for part in written.partition("="))
        usual = "float" if re.match(r"typename|class", declared) else default
        values = [i[place] if place < len(i) else usual for i in instances]
        found[declared.split()[-1]] = values or [usual] * bool(usual)
    return found


def _c_parameter(written: str) -> KernelParameter:
    *types, name = re.findall(r"\w+", written) or [written]
    types = [t for t in types if t not in ("const", "unsigned", "signed", "volatile")]
    if "*" in written or "[" in written:
        return KernelParameter(name, written, "ptr", " ".join(types))
    return KernelParameter(
        name, written, next((k for k, held in _KINDS.items() if set(types) & set(held.split())), "i32")
    )


def _roots(names: Iterable[str], among: Sequence[str], body: str) -> frozenset[str]:
    """Return the parameters that addresses begin with, by way of the variables that were made of them."""
    links = dict(reversed(_ASSIGNED.findall(body)))
    found: set[str] = set()
    for name in names:
        seen: set[str] = set()
        while name not in among and name in links and name not in seen:
            seen.add(name)
            name = links[name]
        found.add(name)
    return frozenset(found & set(among))
