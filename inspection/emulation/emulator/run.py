"""Build a candidate's program and run it, each in a confined child, and read what it reports."""

from __future__ import annotations

import os
import stat
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Literal

import torch

from forewarp.core.checking import FAULTS, Finding, FindingKind
from forewarp.core.errors import CandidateError
from forewarp.core.values import Candidate
from forewarp.gpu_runner.compilers import nvrtc
from forewarp.gpu_runner.compilers.process import CompileError
from forewarp.gpu_runner.devices import known_targets
from forewarp.gpu_runner.formats.plan import ResolvedPlan
from forewarp.gpu_runner.worker import environment, protections, toolchain
from forewarp.gpu_runner.worker.watch import run_watched
from forewarp.inspection.emulation.emulator import build
from forewarp.inspection.emulation.emulator.ptx import UnsupportedPtx
from forewarp.inspection.emulation.scene import Scene, ShapeOnly, sized

Ending = Literal["ok", "failed", "timeout", "waits", "unsupported"]
_REFUSALS: tuple[Ending, ...] = ("failed", "unsupported")
_ENDINGS: Mapping[str, Ending] = {e: e for e in ("ok", "failed", "timeout", "waits", "unsupported")}
_KINDS: Mapping[str, FindingKind] = {k: k for k in FAULTS}
PROGRAM, _ORDERS, DATA, REPORT = "program", "orders", "data", "report"
_GRACE_S, _PAGE = 5.0, 4096
_MOST_REPORT, _MOST_ROWS = 1 << 20, 1000
_LOOK_S, _CHUNK = 2.0, 4 << 20
LOOK_RESERVED = 1 << 43
"""Address space in bytes that a look at a large shape takes and hardly uses: 64 buffers, far from each other."""
_SAMPLE, _LOOK_SAMPLE = 0.7, 0.1
"""Of a run's time, what blocks of a sample may begin in."""


@dataclass(frozen=True, slots=True)
class EmulatedRun:
    """Ending of one run of a program, after so many `blocks`; `atomics` says whether atomics changed a buffer."""

    ending: Ending = "failed"
    message: str = "the program ended without a word"
    blocks: int = 0
    atomics: bool = False
    findings: tuple[Finding, ...] = field(default=())


class Emulation:
    """The programs of one candidate, one for each set of constants."""

    def __init__(self, candidate: Candidate, folder: Path, memory: int, cache: Path) -> None:
        """`memory` bounds compiler and program, in bytes; `cache` is where the compiled device is kept."""
        self._candidate, self._folder, self._memory = candidate, folder, memory
        self._device, self._cache = folder / "device.o", cache
        self._built: dict[str, Path] = {}

    def prepare(self, plan: ResolvedPlan) -> EmulatedRun | None:
        """Compile for a workload's constants, unless that is done; return what went wrong, if anything did."""
        key = _key(plan)
        if key in self._built:
            return None
        if why := self._without_device():
            return EmulatedRun("unsupported", f"the emulated device does not compile on this machine:\n{why}")
        folder = self._folder / f"b{len(self._built)}"
        folder.mkdir()
        stopped = self._confined(folder, build.TIMEOUT_S, lambda: self._compile(plan, folder))
        if stopped:
            return EmulatedRun("failed", f"compiling: the candidate {stopped}")
        for ending in _REFUSALS:
            if (folder / ending).exists():
                return EmulatedRun(ending, (folder / ending).read_text(errors="replace"))
        self._built[key] = folder
        return None

    def run(self, scene: Scene, seconds: float, *, descending: bool = False, sample: bool = False) -> EmulatedRun:
        """Run what was prepared on the scene's buffers for so many seconds of processor time."""
        # What a program has once written to, nobody but it looks at again: there may be links.
        with tempfile.TemporaryDirectory(dir=self._folder) as name:
            folder, slots = Path(name), _lay_out(scene)
            orders = [f"order {int(descending)}", *([f"sample {_SAMPLE * seconds:.3f}"] if sample else [])]
            size = _write(slots, folder / DATA)
            outcome = self._run(scene.plan, slots, orders, folder, seconds)
            if outcome.ending == "ok":
                _read(slots, _plain_file(folder / DATA, size))
        return outcome

    def look(self, shape: ShapeOnly) -> tuple[Finding, ...]:
        """Run some blocks on buffers full of 0, then 1; return what is out of bounds whatever they hold."""
        slots = {name: replace(s, offset=0, writable=True) for name, s in _lay_out(shape).items()}
        orders, seen = ["hollow", f"sample {_LOOK_SAMPLE * _LOOK_S:.3f}"], list[tuple[Finding, ...]]()
        for fill in (b"\0", b"\1"):
            with tempfile.TemporaryDirectory(dir=self._folder) as name:
                folder = Path(name)
                (folder / DATA).write_bytes(fill * _CHUNK)
                seen.append(self._run(shape.plan, slots, orders, folder, _LOOK_S, LOOK_RESERVED).findings)
        return tuple(f for f in seen[0] if f.kind == "out of bounds" and f in seen[1])

    def _run(
        self,
        plan: ResolvedPlan,
        slots: Mapping[str, _Slot],
        orders: Sequence[str],
        folder: Path,
        seconds: float,
        reserved: int = 0,
    ) -> EmulatedRun:
        program = self._built[_key(plan)] / PROGRAM
        (folder / _ORDERS).write_text(_orders(plan, slots, [*orders, f"seconds {seconds:.3f}"]))
        limit_s = 3 * seconds + _GRACE_S
        work = partial(self._execute, program, folder, limit_s)
        if stopped := self._confined(folder, seconds + _GRACE_S, work, reserved):
            return EmulatedRun("failed", f"the candidate {stopped}")
        return read_report(_plain_file(folder / REPORT, _MOST_REPORT), program)

    def _without_device(self) -> str:
        """Provide what programs are linked with, once; return why that failed, or ""."""
        try:
            if not self._device.exists():
                build.provide_device(build.compiler(), self._device, self._cache)
        except CompileError as e:
            return str(e)
        return ""

    def _compile(self, plan: ResolvedPlan, folder: Path) -> None:
        """Build the program, or leave a file that is called as this ended and holds the log."""
        source = self._candidate.source
        try:
            build.build(source, plan, folder, PROGRAM, self._device)
        except UnsupportedPtx as e:
            (folder / "unsupported").write_text(str(e))
        except (CompileError, CandidateError) as e:
            ending, log = _whose_fault(source, plan, folder, str(e))
            (folder / ending).write_text(log)

    def _execute(self, program: Path, folder: Path, seconds: float) -> None:
        words = [str(program), _ORDERS, DATA, REPORT]
        no = subprocess.DEVNULL
        try:
            subprocess.run(words, cwd=folder, stdin=no, stdout=no, stderr=no, timeout=seconds, check=False)
        except subprocess.TimeoutExpired:
            with (folder / REPORT).open("a") as report:
                report.write("end\ttimeout\t0\t0\tthe run did not finish in time\n")

    def _confined(self, folder: Path, seconds: float, work: Callable[[], None], reserved: int = 0) -> str:
        """Do something in a confined child; return why that was stopped, or ""."""

        def confined(contained: bool) -> None:
            how = protections.Confinement(
                str(folder),
                memory=self._memory + reserved,
                own_processes=contained,
                drop_user=False,
                reads_only=(*toolchain.readable("cpu"), str(self._folder)),
                cpu_s=int(2 * seconds) + 10,
            )
            protections.take(how)
            environment.use_folder(str(folder))
            work()

        stopped = run_watched(confined, self._memory)
        return stopped[1] if stopped else ""


@dataclass(frozen=True, slots=True)
class _Slot:
    """Place of one buffer in the file, in bytes; kernels may write to what is `writable`. Scratch has no tensor."""

    offset: int
    size: int
    writable: bool = True
    tensor: torch.Tensor | None = None


def _lay_out(scene: ShapeOnly) -> dict[str, _Slot]:
    """Return the buffers that kernels see by the plan's names, each from a page's start on."""
    plan = scene.plan
    written = {plan.inputs[i] for i in scene.written_values}
    tensors = {name: (tensor, name in written) for name, tensor in scene.inputs.items()}
    tensors |= {name: (tensor, False) for name, tensor in scene.params.items()}
    tensors |= {name: (tensor, True) for name, tensor in scene.outputs.items() if name not in plan.aliases}
    tensors |= {spec.name: (sized(spec), True) for spec in plan.scratch}
    slots, offset = dict[str, _Slot](), 0
    for name, (tensor, writable) in tensors.items():
        size = tensor.numel() * tensor.element_size()
        slots[name] = _Slot(offset, size, writable, None if tensor.is_meta else tensor)
        offset += max(_PAGE, -(-size // _PAGE) * _PAGE)
    return slots


def _write(slots: Mapping[str, _Slot], path: Path) -> int:
    """Write the buffers as the stage has prepared them, zeros for scratch; return the file's size."""
    with path.open("wb") as file:
        for slot in slots.values():
            if slot.tensor is not None:
                file.seek(slot.offset)
                file.write(slot.tensor.detach().view(-1).view(torch.uint8).numpy().tobytes())
        return file.truncate(max(slot.offset + max(_PAGE, slot.size) for slot in slots.values()))


def _key(plan: ResolvedPlan) -> str:
    return repr((sorted(plan.constants.items()), [launch.kernel for launch in plan.launches]))


def _read(slots: Mapping[str, _Slot], data: bytes) -> None:
    """Put what kernels have left in the file where the stage looks for it; where it is cut off, nothing."""
    for slot in slots.values():
        left = bytearray(data[slot.offset : slot.offset + slot.size])
        if slot.tensor is not None and slot.writable and left and len(left) == slot.size:
            slot.tensor.view(-1).view(torch.uint8).copy_(torch.frombuffer(left, dtype=torch.uint8))


def _orders(plan: ResolvedPlan, slots: Mapping[str, _Slot], how: Sequence[str]) -> str:
    """Return the text that tells the program what to run; `how` are its first rows."""
    places = {name: i for i, name in enumerate(slots)}
    places |= {output: places[source] for output, source in plan.aliases.items()}
    rows = [*how]
    rows += [f"buffer {name} {s.size} {s.offset} {int(s.writable)}" for name, s in slots.items()]
    for launch in plan.launches:
        rows.append(f"launch {launch.kernel} {' '.join(map(str, (*launch.grid, *launch.block, launch.shared)))}")
        for a in launch.args:
            rows.append(f"arg ptr {places[a.name]}" if a.kind == "ptr" else f"arg {a.kind} {a.value!r}")
    return "\n".join(rows) + "\n"


def _whose_fault(source: str, plan: ResolvedPlan, folder: Path, log: str) -> tuple[Ending, str]:
    """Tell a faulty candidate from one that uses what the emulator does not know: NVRTC takes the latter."""
    if nvrtc.library() is None:
        return "unsupported", f"the host's compiler refuses it, and there is no NVRTC to tell why:\n{log}"
    try:
        nvrtc.build(source, plan, known_targets()["h200"], folder, "aside")
    except (CompileError, CandidateError) as e:
        return "failed", f"it does not compile:\n{e}"
    return "unsupported", f"it uses what the emulator does not know:\n{log}"


def _plain_file(path: Path, most: int) -> bytes:
    """Return what a hostile program has left in a file, b"" if that is no plain file; at most so many bytes."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return b""
    with os.fdopen(handle, "rb") as file:
        return file.read(most) if stat.S_ISREG(os.fstat(handle).st_mode) else b""


def read_report(data: bytes, program: Path) -> EmulatedRun:
    """Read what a program wrote down; nothing in it is believed about outputs."""
    rows = [row.split("\t") for row in data.decode(errors="replace").splitlines()[:_MOST_ROWS]]
    noted = [row for row in rows if len(row) == 8]
    lines = build.lines_of(program, [_number(a) for row in noted for a in row[5:7]])
    counts = {(row[1], row[2]): _number(row[3], 10) for row in rows if row[0] == "count" and len(row) == 4}
    findings: dict[tuple[str, str], Finding] = {}
    outcome, place = EmulatedRun(), ""
    for kind, kernel, _, block, thread, at, other, text in noted:
        ways = lines.get(_number(at), []), lines.get(_number(other), [])
        line, second = (next((line for line, _ in way), None) for way in ways)
        if kind == "slow":
            line = line or second
        if kind == "divergent barrier" and _number(other):
            if ways[0] == ways[1]:
                continue  # one barrier, for which the compiler has made code twice
            apart = ((a[0], b[0]) for a, b in zip(*ways, strict=False) if a != b)
            line, second = next(apart, (line, second))
        where = kernel if line is None else f"{kernel}, line {line}"
        place = f"{where}, block ({block}), thread ({thread}): "
        text = f"{text} (line {second})" if second is not None else text
        if kind not in _KINDS:
            place += f"{text}: " if kind == "fault" else ""
            continue
        known, count = findings.get((kind, where)), max(1, counts.get((kind, at), 1))
        message = f"{text}; block ({block}), thread ({thread})"
        findings[kind, where] = (
            replace(known, count=known.count + count) if known else Finding(_KINDS[kind], where, message, count)
        )
    for row in rows:
        if row[0] == "end" and len(row) == 5 and row[1] in _ENDINGS:
            message = row[4] if row[1] == "ok" else place + row[4]
            outcome = EmulatedRun(_ENDINGS[row[1]], message, _number(row[2], 10), row[3] == "1")
    return replace(outcome, findings=tuple(findings.values()))


def _number(text: str, base: int = 16) -> int:
    try:
        return int(text, base)
    except ValueError:
        return 0
