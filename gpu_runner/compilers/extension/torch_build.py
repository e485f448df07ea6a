"""Torch's own way to build an extension: hooks after it has written its Ninja file, and the recipe in that file."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shlex
import tempfile
from collections.abc import Callable, Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

NINJA_FILE = "build.ninja"
COMPILE, COMPILE_CUDA, LINK = "compile", "cuda_compile", "link"

_VARIABLE = re.compile(r"^(\w+) = (.*)$", re.MULTILINE)
_EDGE = re.compile(r"^build (.+?): (\w+) (.+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Unit:
    """One source file: the object it becomes, the rule that makes it (`COMPILE` or `COMPILE_CUDA`), and its path."""

    object: str
    rule: str
    source: Path


@dataclass(frozen=True, slots=True)
class Recipe:
    """Compilers, their flags in torch's order, the units, and the library's name without ".so"."""

    folder: Path
    name: str
    cxx: tuple[str, ...]
    nvcc: tuple[str, ...]
    cflags: tuple[str, ...]
    cuda_cflags: tuple[str, ...]
    ldflags: tuple[str, ...]
    units: tuple[Unit, ...]

    @property
    def library(self) -> str:
        return f"{self.name}.so"


def _unescape(text: str) -> str:
    return re.sub(r"\$([ :$])", r"\1", text)


def _edges(text: str) -> list[tuple[str, str, str]]:
    return [(_unescape(out), rule, _unescape(source)) for out, rule, source in _EDGE.findall(text)]


def read(folder: Path) -> Recipe | None:
    """Read the Ninja file in `folder`; None where it asks for more than C++, nvcc and one link, such as SYCL."""
    text = (folder / NINJA_FILE).read_text()
    edges = _edges(text)
    links = [e for e in edges if e[1] == LINK]
    compiles = [e for e in edges if e[1] in (COMPILE, COMPILE_CUDA)]
    if len(links) != 1 or len(links) + len(compiles) != len(edges):
        return None
    flags = {k: tuple(shlex.split(_unescape(v))) for k, v in _VARIABLE.findall(text)}
    if flags.get("post_cflags") or flags.get("cuda_post_cflags") or flags.get("cuda_dlink_post_cflags"):
        return None
    return Recipe(
        folder=folder,
        name=Path(links[0][0]).stem,
        cxx=flags["cxx"],
        nvcc=flags.get("nvcc", ()),
        cflags=flags["cflags"],
        cuda_cflags=flags.get("cuda_cflags", ()),
        ldflags=flags["ldflags"],
        units=tuple(Unit(out, rule, Path(source)) for out, rule, source in compiles),
    )


def fingerprint(folder: Path) -> str:
    """Return a hash of all that a build depends on, except its folder and its name, which may be drawn at random."""
    import torch

    text = (folder / NINJA_FILE).read_text()
    edges = _edges(text)
    name = next((Path(out).stem for out, rule, _ in edges if rule == LINK), "")
    parts = [str(torch.__version__), text]
    parts += [Path(source).read_text(errors="replace") for _, rule, source in edges if rule != LINK]
    joined = "\0".join(parts).replace(str(folder), "<folder>").replace(tempfile.gettempdir(), "<tmp>")
    if name:
        joined = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", "<name>", joined)
    return hashlib.sha256(joined.encode()).hexdigest()[:32]


RunBuild = Callable[[str, bool, str], None]
"""Build in a folder; called with (folder, verbose, the first words of an error). Raises RuntimeError."""
ImportLibrary = Callable[[str, str, bool], Any]
"""Import what was built; called with (name, folder, whether it is a Python module)."""


def originals() -> tuple[RunBuild, ImportLibrary] | None:
    """Return torch's own two functions; None where this torch has them no more."""
    from torch.utils import cpp_extension

    run = getattr(cpp_extension, "_run_ninja_build", None)
    load = getattr(cpp_extension, "_import_module_from_library", None)
    return (run, load) if run is not None and load is not None else None


def install(run: RunBuild, load: ImportLibrary) -> None:
    """Put `run` and `load` in the place of torch's own, for the rest of this process's life; folders are absolute."""
    from torch.utils import cpp_extension

    def run_there(directory: str, verbose: bool, error_prefix: str) -> None:
        run(os.path.abspath(directory), verbose, error_prefix)

    def load_there(name: str, directory: str, is_python_module: bool) -> Any:
        return load(name, os.path.abspath(directory), is_python_module)

    cpp_extension.__dict__.update(_run_ninja_build=run_there, _import_module_from_library=load_there)


@contextlib.contextmanager
def installed(run: RunBuild, load: ImportLibrary) -> Generator[None]:
    from torch.utils import cpp_extension

    own = originals()
    assert own is not None
    install(run, load)
    try:
        yield
    finally:
        cpp_extension.__dict__.update(_run_ninja_build=own[0], _import_module_from_library=own[1])
