"""Compile a candidate and link it with the emulated device into one program."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from pathlib import Path

from forewarp.gpu_runner.compilers.process import CompileError, run_compiler
from forewarp.gpu_runner.formats.plan import ResolvedPlan
from forewarp.inspection.emulation.emulator import source

TIMEOUT_S = 60.0
# Of later DWARF, binutils take the name of the wrong file.
_CANDIDATE = (
    *("-std=c++20", "-O1", "-g1", "-gdwarf-4", "-w", "-fmax-errors=5"),
    *("-fno-exceptions", "-fpermissive", "-fno-strict-aliasing", "-fwrapv"),
    # These make the compiler announce accesses and faults; the functions that it calls are in native/memory.cpp.
    *("-fsanitize=thread,alignment,bounds-strict", "-fsanitize-recover=alignment,bounds-strict"),
    *("--param", "tsan-distinguish-volatile=1", "--param", "tsan-instrument-func-entry-exit=0"),
)


def available() -> str:
    """Return why nothing can be emulated on this machine; "" where it can."""
    if platform.machine() != "x86_64" or platform.system() != "Linux":
        return f"emulating CUDA needs Linux on x86-64, not {platform.system()} on {platform.machine()}"
    return "" if _found() else "emulating CUDA needs g++: install it, or set CXX to one"


def build(text: str, plan: ResolvedPlan, folder: Path, name: str, device: Path) -> None:
    """Compile a candidate for one workload and link it with the device to the program `folder/name`.

    Raises `CompileError` and `UnsupportedPtx`.
    """
    candidate, unit = source.translate(text, plan)
    (folder / source.NAME).write_text(candidate)
    (folder / f"{name}.cpp").write_text(unit)
    command = [compiler(), *_CANDIDATE, f"-I{source.HEADERS}", "-c", f"{name}.cpp", "-o", f"{name}.o"]
    run_compiler(command, folder, "the compiler", TIMEOUT_S)
    run_compiler([compiler(), "-no-pie", f"{name}.o", str(device), "-o", name], folder, "the linker", TIMEOUT_S)


def _found() -> str | None:
    """Return the path of g++: other compilers announce accesses in other ways."""
    names = [n for n in (os.environ.get("CXX", ""), "g++") if "g++" in Path(n).name]
    return next((path for n in names if (path := shutil.which(n))), None)


def compiler() -> str:
    """Return the path of g++; raises `CompileError` where there is none."""
    path = _found()
    if path is None:
        raise CompileError("no g++ was found: install it, or set CXX to one")
    return path


def lines_of(program: Path, addresses: list[int]) -> dict[int, int]:
    """Return for addresses in a program the line of the candidate's source each belongs to, where there is one."""
    tool = shutil.which("addr2line")
    wanted = sorted({a for a in addresses if a})
    if tool is None or not wanted:
        return {}
    # An address that a call returns to is behind the call.
    text = "\n".join(f"{a - 1:#x}" for a in wanted)
    done = subprocess.run(
        [tool, "-a", "-i", "-e", str(program)],
        input=text,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    lines: dict[int, int] = {}
    current = 0
    for row in done.stdout.splitlines():
        if re.fullmatch(r"0x[0-9a-f]+", row):
            current = int(row, 16) + 1
        elif (found := re.match(rf".*\b{re.escape(source.NAME)}:(\d+)", row)) and current not in lines:
            lines[current] = int(found[1])
    return lines
