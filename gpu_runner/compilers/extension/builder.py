"""Build one extension, in the fastest way that works.

`split` gives nvcc the kernels alone and the C++ compiler the rest; `lean` compiles each file whole, behind lean
headers; `torch` runs torch's own Ninja file. Compilers and their flags are torch's in all three.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from forewarp.gpu_runner.compilers.extension import headers, split
from forewarp.gpu_runner.compilers.extension.split import NotUnderstood
from forewarp.gpu_runner.compilers.extension.torch_build import COMPILE_CUDA, Recipe, Unit, read
from forewarp.gpu_runner.compilers.process import CompileError, CompilerCall, run_all

Way = Literal["split", "lean", "torch"]


@dataclass(frozen=True, slots=True)
class ExtensionBuild:
    """Result of building one extension: `library` (None where no way worked), the way, and the compilers' output."""

    library: Path | None
    way: Way
    seconds: float
    log: str = ""


def build(folder: Path, torch_way: Callable[[], None]) -> ExtensionBuild:
    """Build what torch's Ninja file in `folder` describes; `torch_way` runs Ninja, or raises RuntimeError."""
    start = time.perf_counter()
    library, way, log = _build(folder, torch_way)
    return ExtensionBuild(library, way, time.perf_counter() - start, log.replace(f"{folder}/", ""))


def _build(folder: Path, torch_way: Callable[[], None]) -> tuple[Path | None, Way, str]:
    recipe = read(folder)
    reasons = ""
    if recipe is not None:
        lean = LeanBuild(recipe)
        try:
            return folder / recipe.library, lean.build(), lean.passed_over
        except CompileError as e:
            reasons = str(e)
            if not _may_be_ours(reasons):
                return None, "lean", reasons
    try:
        torch_way()
    except RuntimeError as e:
        return None, "torch", str(e)
    name = recipe.library if recipe is not None else next(p.name for p in folder.glob("*.so"))
    return folder / name, "torch", reasons


class LeanBuild:
    """The two ways with lean headers."""

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        self.passed_over = ""
        self.kernels: frozenset[str] = frozenset()
        self.work = recipe.folder / "lean"
        self.include = self.work / "include"
        headers.write(self.include)

    def build(self) -> Way:
        """Compile both halves and link them; return the way that worked, or raise `CompileError`."""
        plain = [u for u in self.recipe.units if u.rule != COMPILE_CUDA]
        cuda = [u for u in self.recipe.units if u.rule == COMPILE_CUDA]
        way: Way = "lean"
        if cuda:
            try:
                self._link(self.in_halves(plain, cuda))
                way = "split"
            except (NotUnderstood, CompileError) as e:
                if "cannot find -l" in str(e):
                    raise CompileError(str(e)) from None
                self.passed_over = f"compiled in one piece: {e}"
        if way == "lean":
            jobs = [self.plain(u) for u in plain] + [self.whole(u) for u in cuda]
            run_all(jobs, self.recipe.folder)
            self.kernels = frozenset()
            self._link([j.output for j in jobs])
        shutil.rmtree(self.work, ignore_errors=True)
        return way

    def _link(self, objects: Sequence[Path]) -> None:
        library = self.recipe.folder / self.recipe.library
        link = (*self.recipe.cxx, *map(str, objects), *self.recipe.ldflags, "-o", str(library))
        run_all([CompilerCall(link, library)], self.recipe.folder)
        # A shared library may have loose ends; loading it would then fail.
        loose = split.unresolved(_undefined(library), self.kernels) if self.kernels else []
        if loose:
            raise NotUnderstood(f"the halves do not fit: {loose[0]}")

    def in_halves(self, plain: Sequence[Unit], cuda: Sequence[Unit]) -> list[Path]:
        """Compile `cuda` units in two halves each; return all objects. Raises `NotUnderstood` or `CompileError`."""
        flags = split.host_flags(self.recipe.cuda_cflags)
        early = [self.plain(u) for u in plain]
        late: list[tuple[CompilerCall, CompilerCall, Path, split.Halves]] = []
        for unit in cuda:
            halves = split.split(unit.source.read_text(errors="replace"))
            host, device = self.work / f"{unit.object}.host.cpp", self.work / f"{unit.object}.device.cu"
            self.kernels |= halves.kernels
            host.write_text(halves.host)
            device.write_text(halves.device)
            near = f"-I{unit.source.parent}"  # for what the source includes beside itself
            options = (*self._headers(host), near, "-Wno-attributes", *flags)
            hosting = _job((*self.recipe.cxx, *options), host)
            compiling = _job((*self.recipe.nvcc, near, *_STUBS, *_PLAIN, *self.recipe.cuda_cflags), device)
            early += [hosting] if halves.templates else [hosting, compiling]
            if halves.templates:
                late.append((hosting, compiling, device, halves))
        run_all(early, self.recipe.folder)
        for hosting, _, device, halves in late:
            device.write_text(split.with_instances(halves.device, _undefined(hosting.output), halves.templates))
        run_all([compiling for _, compiling, _, _ in late], self.recipe.folder)
        return [j.output for j in early] + [compiling.output for _, compiling, _, _ in late]

    def _headers(self, source: Path) -> list[str]:
        text = source.read_text(errors="replace")
        operators = self.include / f"{source.name}.operators.h"
        operators.write_text(headers.operators(text))
        parts = (f"-D{part}" for part in headers.parts(text))
        return [f"-I{self.include}", "-DAT_PER_OPERATOR_HEADERS", *parts, "-include", str(operators)]

    def plain(self, unit: Unit) -> CompilerCall:
        flags = self.recipe.cflags
        if headers.parts(unit.source.read_text(errors="replace")) == (headers.PYTHON,):
            # Bindings without code of the candidate: nothing that runs in them is worth optimising.
            flags = tuple(f for f in flags if not re.fullmatch(r"-O\w*", f))
        options = (*self._headers(unit.source), *flags)
        return _job((*self.recipe.cxx, *options), unit.source, self.work / unit.object)

    def whole(self, unit: Unit) -> CompilerCall:
        flags = (*self._headers(unit.source), *_PLAIN, *self.recipe.cuda_cflags)
        return _job((*self.recipe.nvcc, *flags), unit.source, self.work / unit.object)


def _job(command: Sequence[str], source: Path, output: Path | None = None) -> CompilerCall:
    output = output or Path(f"{source}.o")
    return CompilerCall((*command, "-c", str(source), "-o", str(output)), output)


# Host stubs of kernel templates can be linked to, as before CUDA 13.
_STUBS = ("-static-global-template-stub=false",)
# Device code that others can read out of the library.
_PLAIN = ("--no-compress",)


def _undefined(output: Path) -> list[str]:
    nm = shutil.which("nm")
    if nm is None:
        raise NotUnderstood("nm was not found")
    done = subprocess.run([nm, "-u", "-C", str(output)], capture_output=True, text=True, check=False)
    return [line.strip().removeprefix("U ").strip() for line in done.stdout.splitlines()]


# Messages of g++, nvcc and the linker about a name that they do not know.
_UNKNOWN = re.compile(
    r"‘([^’]+)’ (?:is not a member|was not declared|has not been declared|does not name|is not a class)"
    r"|no (?:member|type|template) named ‘([^’]+)’|has no member named ‘([^’]+)’"
    r'|identifier "([^"]+)" is undefined|has no (?:actual )?member "([^"]+)"'
)
_INCOMPLETE = re.compile(
    r"fatal error: .*No such file|could not open source file|undefined reference|incomplete (?:type|class)|no match for"
    r"|no operator|no suitable|Internal error|internal compiler error|Killed"
)


def _may_be_ours(log: str) -> bool:
    """Return whether torch's full headers may know what the lean ones did not; other errors are worth no rebuild."""
    if _INCOMPLETE.search(log):
        return True
    names = {part.split("<")[0].split("::")[-1].strip() for found in _UNKNOWN.findall(log) for part in found if part}
    return any(_in_headers(name) for name in names)


def _in_headers(name: str) -> bool:
    grep = shutil.which("grep")
    if grep is None or not re.fullmatch(r"[A-Za-z_]\w*", name):
        return True
    done = subprocess.run(
        [grep, "-rqwF", "--include=*.h", "--include=*.cuh", name, str(headers.torch_include())], check=False
    )
    return done.returncode != 1
