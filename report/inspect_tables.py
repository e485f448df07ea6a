"""Inspections for people. Fits 100 columns."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rich.console import Console

from forewarp.report import display
from forewarp.tools.inspect_kernel import CpuCheck, InspectResult, KernelInspection, LaunchFacts, WorkloadFacts
from forewarp.tools.wording import counted

HEADS = ("shape", "kernel", "grid × block", "waves", "tail", "occupancy", "regs", "shared", "local")
NAME = 24
CALLS = 6
QUIET = ("branch", "move", "constant_load", "other", "fence")
"""Classes of instructions that say little; shown with -v."""


def render(result: InspectResult, console: Console, *, full: bool = False) -> None:
    """Print each kernel: launches, instructions, floors, problems, and the check where there was one."""
    for kernel in result.kernels:
        target = f"{result.target.name} ({result.target.arch})" if kernel.workloads else ""
        about = [Path(kernel.path).name or "kernel", result.task, target]
        title = " · ".join(part for part in about if part)
        console.print(title, style="bold")
        _kernel(kernel, result, console, full=full)
        console.print()
    console.print(result.summary, style="green" if all(k.sound for k in result.kernels) else "red")
    if full:
        console.print(f"the target's numbers: {result.target_source}", style="dim")


def _kernel(kernel: KernelInspection, result: InspectResult, console: Console, *, full: bool) -> None:
    if kernel.status != "ok":
        console.print(kernel.log.rstrip(), style="red")
        return
    if kernel.workloads:
        console.print(display.table(HEADS, launch_rows(kernel.workloads)))
    shown: set[str] = set()
    for launch in (e for w in kernel.workloads for e in w.launches):
        line = _instructions(launch, full=full)
        if line not in shown:
            console.print(line)
            shown.add(line)
    short = next((name for name, at in _short(result).items() if at), "")
    for workload in kernel.workloads:
        console.print(_floor(workload, short, full=full), style="dim")
        if workload.calls:
            more = len(workload.calls) - CALLS
            tail = f" and {more} more" if more > 0 and not full else ""
            calls = workload.calls if full else workload.calls[:CALLS]
            console.print(f"library calls, {workload.workload}: {', '.join(calls)}{tail}", style="dim")
    for problem in kernel.problems:
        console.print(f"problem: {problem}", style="yellow")
    if kernel.check is not None:
        style = "yellow" if kernel.check.status == "unsupported" else "green" if kernel.check.sound else "red"
        first, shapes, findings = check_lines(kernel.check)
        console.print(first, style=style)
        for line in shapes:
            console.print(f"  {line}", style="dim")
        for line in findings:
            console.print(f"  {line}", style="yellow")
    again = ", from the cache" if kernel.cached else ""
    console.print(f"{kernel.how} in {kernel.seconds:.2f} s{again}", style="dim")


def _short(result: InspectResult) -> dict[str, bool]:
    """Return the names of the floors, and which of them is this target's."""
    squeezed = result.target.name.lower().replace(" ", "").replace("-", "")
    names = next((w.floors_us for k in result.kernels for w in k.workloads), {})
    return {name: name in squeezed for name in names}


def launch_rows(workloads: list[WorkloadFacts]) -> Iterator[tuple[str, ...]]:
    """Yield a row for each launch, in the columns of `HEADS`."""
    for workload in workloads:
        name = workload.workload
        for launch in workload.launches:
            yield (name[:NAME], launch.kernel[:NAME], *_geometry(launch))
            name = ""


def _geometry(launch: LaunchFacts) -> tuple[str, ...]:
    grid = "?" if launch.grid is None else "·".join(str(n) for n in _trimmed(launch.grid))
    block = "?" if launch.block is None else "·".join(str(n) for n in _trimmed(launch.block))
    held = "–" if launch.occupancy is None else f"{launch.occupancy:.0%} ({launch.limiter})"
    shared = launch.static_shared_bytes + launch.dynamic_shared_bytes
    return (
        f"{grid} × {block}" + (f", {launch.times} times" if launch.times > 1 else ""),
        "–" if launch.waves is None else f"{launch.waves:,.0f}" if launch.waves >= 100 else f"{launch.waves:.3g}",
        "–" if launch.tail is None else f"{launch.tail:.0%}",
        held,
        str(launch.registers),
        _size(shared),
        _size(launch.local_bytes),
    )


def _trimmed(size: tuple[int, int, int]) -> tuple[int, ...]:
    """Leave out trailing ones."""
    if size[2] > 1:
        return size
    return size[:2] if size[1] > 1 else size[:1]


def _instructions(launch: LaunchFacts, *, full: bool) -> str:
    total = sum(launch.instructions.values())
    parts: list[str] = []
    for name, count in sorted(launch.instructions.items(), key=lambda pair: -pair[1]):
        if name in QUIET and not full:
            continue
        widths = {k.partition(".")[2]: n for k, n in launch.widths.items() if k.startswith(f"{name}.")}
        listed = (f"{n} of {bits} bits" if bits.isdigit() else f"{n} {bits}" for bits, n in widths.items())
        wide = f" ({', '.join(listed)})" if widths else ""
        parts.append(f"{name.replace('_', ' ')} {count}{wide}")
    inside = sum(launch.loop_instructions.values())
    return f"{launch.kernel}: {total} instructions, {inside} in loops: {', '.join(parts)}"


def _floor(workload: WorkloadFacts, short: str, *, full: bool) -> str:
    flops = f", {workload.flops:.3g} operations" if workload.flops else ""
    floors = {n: us for n, us in workload.floors_us.items() if full or n == short}
    times = ", ".join(f"{us:.4g} µs on {name}" for name, us in floors.items())
    bound = f" ({workload.bound})" if workload.bound else ""
    return f"floor, {workload.workload}: {times}{bound}; {_size(workload.bytes_moved)} to move{flops}"


def check_lines(check: CpuCheck) -> tuple[str, list[str], list[str]]:
    """Return a check's outcome, a line for each shape, and one for each finding."""
    shapes: list[str] = []
    but = f", but {counted(check.faults, 'fault')}" if check.status == "ok" and check.faults else ""
    for w in check.workloads:
        shape = " ".join(f"{k}={v}" for k, v in w.constants.items())
        error = "" if w.error is None else f", error {w.error:.3g} of the tolerance"
        ran = f"{w.programs} of {w.grid} programs"
        shapes.append(f"{w.workload}: {shape or 'as it is'}, {ran}{error} {w.message}".rstrip())
    findings = [f"{f.kind} at {f.where}: {f.message} (seen {counted(f.count, 'time')})" for f in check.findings]
    return f"{check.how}: {check.status}{but}. {check.message}".strip(), shapes, findings


def _size(count: int) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("KB", 1024)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count} B" if count else "0"
