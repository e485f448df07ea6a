"""Measurements for people: what came of it, each shape, and how far to trust the numbers. Fits 100 columns."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from forewarp.core.untrusted_text import first_error, first_line
from forewarp.report import display
from forewarp.tools import wording
from forewarp.tools.measure_kernel import MeasureManyResult
from forewarp.tools.measured import DeviceState, MeasureResult, WorkloadResult

NAME = 28


def render(result: MeasureResult, console: Console, *, full: bool = False) -> None:
    """Print a measurement: what came of it, each shape, what speaks for and against it; everything if `full`."""
    anchor = "reference" if result.anchor == "reference" else "other"
    console.print(result.summary, style=display.colour(result.verdict))
    if result.workloads:
        console.print(shapes(result.workloads, anchor))
    for flag in result.flags:
        console.print(f"against it: {flag}", style="magenta")
    for problem in result.evidence.problems:
        console.print(f"note: {problem}")
    for line in state_lines(result.workloads, result.device_state, anchor):
        console.print(line, style="dim")
    if full and result.workloads:
        console.print(_more(result.workloads))
    if result.lifting:
        console.print(result.lifting, style="dim", markup=False, highlight=False)
    phases = ", ".join(f"{name} {seconds:.2f} s" for name, seconds in result.phases.items())
    if result.measurement_id is None and result.source == "measured":
        console.print(phases, style="dim")  # it never ran, so there was nothing to protect from
    else:
        console.print(f"trust {result.tier} · {result.source} · {phases}", style="dim")
        if full:
            console.print(f"checks: {', '.join(result.checks) or 'not recorded'}", style="dim")
            console.print(f"protections: {', '.join(result.protections) or 'none'}", style="dim")
    if result.log and (full or not result.trusted):
        console.print(result.log.rstrip())


def render_many(found: MeasureManyResult, console: Console, *, full: bool = False) -> None:
    """Print one table of several kernels; each measurement by itself, too, if `full`."""
    from forewarp.tools.measured import noise_of

    if full:
        for attempt in found.kernels:
            if attempt.result is not None:
                console.print(f"── {attempt.path}", style="bold")
                render(attempt.result, console, full=True)
    table = Table("kernel", "speed-up [95 %]", "verdict", "noise floor", "remark", box=None)
    for attempt in found.kernels:
        name = Path(attempt.path).name[:NAME]
        result = attempt.result
        if result is None:
            table.add_row(name, "–", "not measured", "", first_line(attempt.problem), style="red")
            continue
        said = result.verdict if result.status == "ok" else result.status
        remark = "; ".join(result.flags) if result.status == "ok" else first_error(result.log)
        row = (wording.speedup(result.speedup), said, wording.noise(noise_of(result.workloads)), remark)
        table.add_row(name, *row, style=display.colour(result.verdict))
    console.print(table)
    for attempt in found.kernels:
        what_to_do = attempt.problem.partition("\n")[2]
        if what_to_do:
            console.print(f"{Path(attempt.path).name}: {what_to_do}", style="yellow")
    console.print(found.summary, style="bold")


def shapes(workloads: Sequence[WorkloadResult], anchor: str = "reference") -> Table:
    heads = ("shape", "speed-up [95 %]", "verdict", "kernel µs [95 %]", f"{anchor} µs [95 %]")
    rows = [
        (w.name, wording.speedup(w.speedup), w.verdict, *map(wording.microseconds, (w.candidate_us, w.reference_us)))
        for w in workloads
    ]
    return display.table(heads, rows, styles=[display.colour(w.verdict) for w in workloads])


def state_lines(
    workloads: Sequence[WorkloadResult], device: DeviceState | None, anchor: str = "reference"
) -> list[str]:
    """Return how far the numbers can be trusted: noise floor, warm L2 cache, state of the device; one line each."""
    noise = [f"{w.name} {wording.noise(w.noise_percent)}" for w in workloads if w.noise_percent is not None]
    warm = [f"{w.name} {wording.speedup(w.warm)}" for w in workloads if w.warm is not None]
    lines = [f"noise floor ({anchor} against itself): {' · '.join(noise)}"] if noise else []
    lines += [f"warm L2: {' · '.join(warm)}"] if warm else []
    state = wording.device_line(device, workloads)
    return [*lines, f"device: {state}"] if state else lines


def _more(workloads: Sequence[WorkloadResult]) -> Table:
    """Return what the short table leaves out."""
    rows: list[tuple[str, ...]] = []
    for w in workloads:
        blocks = f"{w.blocks}{' early' if w.stopped_early else ''}"
        blocks += f", {w.blocks_left_out} left out" if w.blocks_left_out else ""
        ratios = (wording.speedup(w.launched), wording.speedup(w.cycles), wording.speedup(w.control))
        rows.append((w.name, *ratios, blocks, w.mode, f"{w.error:.2g}"))
    return display.table(("shape", "with launch", "in cycles", "control", "blocks", "mode", "error"), rows)
