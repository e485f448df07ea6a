"""Precompiled headers: torch's lean headers, parsed once by g++ and shared by all builds on a machine.

    python -m forewarp.gpu_runner.compilers.extension.precompiled FOLDER ARCHS

A process that runs no candidate makes them, from torch's own headers and flags; compile jobs only read them. g++ itself
refuses a precompiled header that does not fit a command line, and then reads the plain header of the same name, so that
a wrong choice costs time and nothing else.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from forewarp.gpu_runner.compilers.extension import headers, torch_build
from forewarp.gpu_runner.compilers.extension.settings import set_arch
from forewarp.gpu_runner.compilers.extension.torch_build import Recipe
from forewarp.gpu_runner.compilers.process import CompileError, CompilerCall, run_all

_HEADER = "headers.h"
# The garbage collector of g++ visits all that was precompiled, for a tenth of the time. Objects stay the same.
_NO_COLLECTION = ("--param", "ggc-min-expand=1000", "--param", "ggc-min-heapsize=2000000")


@dataclass(frozen=True, slots=True)
class HeaderSet:
    """A set of headers: its name, the parts of the lean headers in it, and what it includes."""

    name: str
    parts: tuple[str, ...]
    text: str


# Nothing here may be more than `torch/extension.h` brings to every source: a source that forgets to include a header
# must be refused as it is by torch.
BINDINGS = HeaderSet("bindings", (headers.PYTHON,), "#include <torch/extension.h>\n")
HOST = HeaderSet(
    "host",
    (headers.BODIES, headers.FACTORIES, headers.INDEXING),
    "#include <torch/extension.h>\n#include <cuda_runtime.h>\n",
)
_MADE = ((BINDINGS, ""), (HOST, ""), (HOST, "-O3"))


def arguments(folder: Path | None, cxx: Sequence[str], flags: Sequence[str], parts: Sequence[str]) -> list[str] | None:
    """Return what to pass to g++ before `flags` for a source that needs `parts`; None where nothing in `folder` fits.

    The source must find all that it includes in torch's folders: `flags` with other folders have no match.
    """
    if folder is None:
        return None
    for kind in (BINDINGS, HOST):
        home = folder / key(cxx, flags, kind)
        if set(parts) <= set(kind.parts) and (home / f"{_HEADER}.gch").exists():
            return [*_lean(home, kind), *_NO_COLLECTION, "-include", str(home / _HEADER)]
    return None


def _lean(home: Path, kind: HeaderSet) -> list[str]:
    return [f"-I{home / 'include'}", "-DAT_PER_OPERATOR_HEADERS", *(f"-D{p}" for p in kind.parts)]


def key(cxx: Sequence[str], flags: Sequence[str], kind: HeaderSet) -> str:
    """Return the name of the folder with the headers that commands of this compiler with such flags can use."""
    import torch

    compiler = Path(shutil.which(cxx[0]) or cxx[0]).resolve()
    seen = compiler.stat() if compiler.exists() else None
    identity = [str(compiler), seen and seen.st_size, seen and seen.st_mtime_ns]
    parts = [
        torch.__version__,
        str(headers.torch_include()),
        identity,
        *cxx[1:],
        kind.name,
        kind.text,
        *_relevant(flags),
    ]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:24]


# Functions in a precompiled header are optimised as it was, so that each level needs its own.
_LEVEL = re.compile(r"-O([0-3]?)")
# Flags that do not affect how headers are parsed. Macros do: g++ looks whether a header has used one.
_IRRELEVANT = re.compile(r"-(?:W|w$|D)")


def _relevant(flags: Sequence[str]) -> list[str]:
    """Return the flags that a precompiled header depends on, in one spelling for all commands that can share it."""
    level, kept = "0", set[str]()
    rest = iter(flags)
    for flag in rest:
        if found := _LEVEL.fullmatch(flag):
            level = found[1] or "1"
        elif flag in ("-isystem", "-I", "-D", "-U", "-include"):
            value = next(rest, "")
            kept |= {f"{flag} {value}"} if flag != "-D" else set()
        elif flag and not _IRRELEVANT.match(flag):
            kept.add(flag)
    return [f"-O{level}", *sorted(kept)]


def trial_recipe(folder: Path) -> Recipe | None:
    """Return torch's recipe for a CUDA extension without flags of its own; None where torch refuses to make one."""
    from torch.utils import cpp_extension

    found: list[str] = []
    if torch_build.originals() is None:
        return None
    os.environ["TORCH_EXTENSIONS_DIR"] = str(folder)

    def run(directory: str, verbose: bool, error_prefix: str) -> None:
        del verbose, error_prefix
        found.append(directory)

    def load(name: str, directory: str, is_python_module: bool) -> None:
        del name, directory, is_python_module

    with torch_build.installed(run, load):
        cpp_extension.load_inline("forewarp_headers", cpp_sources="", cuda_sources="\n", functions=[])
    return torch_build.read(Path(found[0])) if found else None


def make(folder: Path, recipe: Recipe) -> list[Path]:
    """Make what is missing under `folder` for the flags of a recipe; return all there is. Raises `CompileError`."""
    folder.mkdir(parents=True, exist_ok=True)
    jobs: list[CompilerCall] = []
    done: list[Path] = []
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for kind, level in _MADE:
            flags = [f for f in recipe.cflags if not f.startswith("-DTORCH_EXTENSION_NAME=")] + [level] * bool(level)
            home = folder / key(recipe.cxx, flags, kind)
            done.append(home / f"{_HEADER}.gch")
            if done[-1].exists():
                continue
            headers.write(home / "include")
            (home / _HEADER).write_text(kind.text)
            scratch = home / "making"
            command = [*recipe.cxx, *_lean(home, kind), *flags, "-x", "c++-header", str(home / _HEADER)]
            jobs.append(CompilerCall((*command, "-o", str(scratch)), scratch))
        run_all(jobs, folder)
        for job in jobs:
            job.output.chmod(0o444)
            job.output.rename(job.output.with_name(f"{_HEADER}.gch"))
    return done


def main() -> None:
    """Make the headers; say on standard error why there are none, and leave with status 1."""
    folder, archs = Path(sys.argv[1]), sys.argv[2]
    set_arch(archs)
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    os.nice(5)
    with tempfile.TemporaryDirectory() as scratch:
        try:
            recipe = trial_recipe(Path(scratch))
            if recipe is None:
                raise RuntimeError("this torch builds extensions in another way")
            make(folder, recipe)
        except (OSError, RuntimeError, CompileError) as e:
            raise SystemExit(f"no precompiled headers: {e}") from None


if __name__ == "__main__":
    main()
