"""Tuned kernels for people: one table for each kernel and call, and the change of the file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from forewarp.report import display

if TYPE_CHECKING:
    from rich.console import Console

    from forewarp.tools.tune import TriedConfiguration, TuneResult

MOST = 10


def render(result: TuneResult, console: Console, *, full: bool = False) -> None:
    """Print what was chosen and what it was chosen from; all that was looked at if `full`."""
    console.print(result.summary)
    for kernel in result.kernels:
        beyond = f" ({kernel.proposed} beyond the file's own)" if kernel.proposed else ""
        console.print(
            f"{kernel.kernel} · {kernel.call} · {kernel.considered} configurations{beyond}, {kernel.compiled} "
            f"compiled, {kernel.measured} measured",
            style="bold",
        )
        if kernel.guessed:
            console.print("No call of the file launches it, so its arguments are guessed; name yours with --call.")
        shown = kernel.configurations if full else kernel.configurations[:MOST]
        heads = ("configuration", "forecast", "registers", "shared", "measured", "speed-up [95 %]", "")
        console.print(display.table(heads, [_row(c) for c in shown]))
        if full and kernel.protections:
            console.print(f"protections: {', '.join(kernel.protections)}", style="dim")
    for problem in result.problems:
        console.print(f"problem: {problem}", style="yellow")
    if result.patch:
        console.print(result.patch.rstrip(), style="dim", markup=False, highlight=False, soft_wrap=True)
    if result.table:
        console.print(f"table: {result.table}", style="dim")


def _row(c: TriedConfiguration) -> tuple[str, ...]:
    registers = "–" if c.registers is None else f"{c.registers}" + (f" + {c.spills} spilled" if c.spills else "")
    return (
        c.configuration,
        f"{c.forecast:.2f}",
        registers,
        "–" if c.shared_bytes is None else f"{c.shared_bytes / 1024:.0f} KB",
        "–" if c.measured_us is None else f"{c.measured_us:.1f} µs",
        "–" if c.speedup is None else f"{c.speedup:.2f}× [{c.low:.2f}, {c.high:.2f}]",
        c.problem or ", ".join(w for w in ("proposed" * c.proposed, "checked" * c.checked) if w),
    )
