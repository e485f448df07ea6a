"""C++ for the CPU device: the system compiler, a shared library, and counts from its disassembly."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from forewarp.core.values import Target
from forewarp.gpu_runner.compilers import signatures
from forewarp.gpu_runner.compilers.cubin import check_defined
from forewarp.gpu_runner.compilers.process import CompilerMissing, run_compiler
from forewarp.gpu_runner.formats.plan import ResolvedPlan

# No -ffast-math: it breaks infinities and NaN, which masked softmaxes rely on.
FLAGS = ("-O3", "-march=native", "-std=c++20", "-fopenmp", "-fPIC", "-shared", "-fno-math-errno")
TIMEOUT_S = 60


def compiler() -> str | None:
    """Return the path of the C++ compiler: $CXX, g++ or clang++."""
    for name in (os.environ.get("CXX"), "g++", "clang++"):
        if name and (path := shutil.which(name)):
            return path
    return None


def build(source: str, plan: ResolvedPlan, target: Target, folder: Path, stem: str) -> dict[str, Any]:
    """Compile to `<stem>.so`; facts count instructions of the whole library."""
    del target  # -march=native means this machine
    path = compiler()
    if path is None:
        raise CompilerMissing("this machine has no C++ compiler")
    # One file name for all, because the compiler writes it into the library and duplicates are found by bytes.
    file, library = folder / "kernel.cpp", f"{stem}.so"
    defines = [f"-D{name}={value}" for name, value in plan.constants.items()]
    command = [path, *FLAGS, *defines, file.name, "-o", library, "-lm"]

    def compile_text(text: str) -> None:
        file.write_text(text)
        run_compiler(command, folder, "the compiler", TIMEOUT_S)

    signatures.checked(source, plan, compile_text)
    check_defined((folder / library).read_bytes(), (launch.kernel for launch in plan.launches))
    return {"files": [library], "kernels": {}, "facts": _facts(folder / library)}


_OPCODE = re.compile(r"^\s+[0-9a-f]+:\t(\S+)(.*)$", re.MULTILINE)


def _facts(library: Path) -> Mapping[str, float]:
    """Count instruction classes with objdump; an empty table where there is none."""
    objdump = shutil.which("objdump")
    if objdump is None:
        return {}
    done = subprocess.run(
        [objdump, "-d", "--no-show-raw-insn", "-j", ".text", str(library)], capture_output=True, text=True, check=False
    )
    counts = {"instructions": 0, "vector_instructions": 0, "fma_instructions": 0, "branches": 0, "calls": 0}
    for opcode, operands in _OPCODE.findall(done.stdout):
        counts["instructions"] += 1
        counts["vector_instructions"] += "%ymm" in operands or "%zmm" in operands
        counts["fma_instructions"] += opcode.startswith("vfm") or opcode.startswith("vfnm")
        counts["branches"] += opcode.startswith("j")
        counts["calls"] += opcode.startswith("call")
    return {k: float(v) for k, v in counts.items()} | {"code_bytes": float(library.stat().st_size)}
