"""Checks of C++ candidates for the CPU: built with the compiler's sanitizers, and run once in a confined child."""

from __future__ import annotations

import os
import re
from pathlib import Path

from forewarp.core.checking import Finding
from forewarp.core.untrusted_text import first_line
from forewarp.gpu_runner.compilers import cpp
from forewarp.gpu_runner.compilers.process import CompileError, run_compiler
from forewarp.gpu_runner.formats.plan import ResolvedPlan
from forewarp.inspection.emulation.check import Bounds, Checker
from forewarp.inspection.emulation.emulator import build
from forewarp.inspection.emulation.emulator.check import EmulatorCheck
from forewarp.inspection.emulation.emulator.run import PROGRAM, REPORT, EmulatedRun, Emulation
from forewarp.inspection.emulation.shapes import Size

RESERVED = 1 << 45
"""Address space that AddressSanitizer takes: a byte for every eight that there are, nearly all of them unused."""
_FLAGS = (
    *("-O1", "-g1", "-march=native", "-std=c++20", "-fopenmp", "-fno-math-errno", "-fno-omit-frame-pointer"),
    # People load vectors from anywhere, which x86 allows.
    *("-fsanitize=address,undefined", "-fno-sanitize=alignment,vptr", "-fno-sanitize-recover=all"),
)
_NAME = "kernel.cpp"
_PLACE = re.compile(rf"#\d+ \S+ in (\w+)\S* .*\b{re.escape(_NAME)}:(\d+)")
_UNDEFINED = re.compile(rf"\b{re.escape(_NAME)}:(\d+):\d+: runtime error: (.+)")
_ERROR = re.compile(r"ERROR: AddressSanitizer: ([\w-]+)")
_ACCESS = re.compile(r"^(READ|WRITE) of size (\d+)", re.MULTILINE)
_BESIDE = re.compile(r"is located (\d+) bytes (?:to the )?(\w+)(?: of)? (\d+)-byte region \[(0x[0-9a-f]+)")
_SIDES = {"right": "after", "left": "before"}
_BUFFER = re.compile(r"^buffer (0x[0-9a-f]+) (\w+)$", re.MULTILINE)


class SanitizedCheck(EmulatorCheck):
    """Checks a C++ candidate, at the task's own shapes where they are not very large."""

    kinds = ("cpu", "cuda")
    bounds = Bounds(
        first=Size(1 << 23, 1 << 30),
        whole=Size(1 << 23, 1 << 30),
        most=Size(1 << 24, 1 << 30),
        stretched=Size(1 << 24, 1 << 30),
        again_s=5.0,
        unsuited=EmulatorCheck.bounds.unsuited,
    )

    unhidden = Checker.unhidden

    def _refusal(self) -> str:
        return "" if cpp.compiler() else "checking C++ needs a compiler: install g++, or set CXX to one"

    def _start(self, folder: Path) -> Emulation:
        return Sanitized(self.candidate, folder, self.job.memory, Path(self.job.cache))


class Sanitized(Emulation):
    """The programs of one candidate, each with the sanitizers built in."""

    both_orders, reserved, errors = False, RESERVED, REPORT

    def _without_device(self) -> str:
        return ""

    def _compile(self, plan: ResolvedPlan, folder: Path) -> None:
        (folder / _NAME).write_text(self._candidate.source)
        calls = list[str]()
        for name, count in {launch.kernel: len(launch.args) for launch in plan.launches}.items():
            values = ", ".join(f"v[{i}]" for i in range(count))
            calls.append(f'if (!std::strcmp(kernel, "{name}")) static_cast<void>({name}({values}));')
        unit = [f'#include "{_NAME}"', f'#include "{build.NATIVE / "host.hpp"}"']
        unit += ["void fw::call(const char* kernel, const Value* v) {", *calls, "}", ""]
        (folder / "unit.cpp").write_text("\n".join(unit))
        defines = [f"-D{name}={value}" for name, value in plan.constants.items()]
        command = [cpp.compiler() or "", *_FLAGS, *defines, "unit.cpp", "-o", PROGRAM, "-lm"]
        try:
            run_compiler(command, folder, "the compiler", build.TIMEOUT_S)
        except CompileError as e:
            missing = re.search(r"cannot find .*san", str(e))
            why = "the compiler's sanitizers are not installed" if missing else "it does not compile"
            (folder / ("unsupported" if missing else "failed")).write_text(f"{why}:\n{e}")

    def _execute(self, program: Path, folder: Path, seconds: float) -> None:
        os.environ["ASAN_OPTIONS"] = "detect_leaks=0"
        super()._execute(program, folder, seconds)

    def _outcome(self, report: bytes, program: Path) -> EmulatedRun:
        return read_report(report.decode(errors="replace"))


def read_report(text: str) -> EmulatedRun:
    """Read what a program and its sanitizers wrote; nothing in it is believed about outputs."""
    if done := re.search(r"^end (\d+)\n\Z", text, re.MULTILINE):
        return EmulatedRun("ok", blocks=int(done[1]))
    if undefined := _UNDEFINED.search(text):
        return EmulatedRun(message=f"line {undefined[1]}: {undefined[2]}")
    error, place = _ERROR.search(text), _PLACE.search(text)
    if error is None:
        if "\ttimeout\t" in text:
            return EmulatedRun("timeout", "the run did not finish in time")
        said = first_line(_BUFFER.sub("", text))
        return EmulatedRun(message=said) if said else EmulatedRun()
    where = f"{place[1]}, line {place[2]}" if place else "a library that the kernel calls"
    access, beside = _ACCESS.search(text), _BESIDE.search(text)
    if access is None or not error[1].endswith(("overflow", "underflow", "unknown-crash")):
        return EmulatedRun(message=f"{where}: {error[1]}")
    message = f"{'reads' if access[1] == 'READ' else 'writes'} {access[2]} bytes"
    if beside:
        distance, side, size, start = beside.groups()
        whose = dict(_BUFFER.findall(text)).get(start, "memory that the kernel allocated")
        message = f"{message}, {distance} bytes {_SIDES.get(side, side)} {whose}, which has {size}"
    else:
        message = f"{message} beside a variable"
    finding = Finding("out of bounds", where, message, 1)
    return EmulatedRun(message=f"{where}: {message}", findings=(finding,))
