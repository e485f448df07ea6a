"""Tuned kernels for people: one table for each kernel and call, and the change of the file."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from forewarp.report import display
from forewarp.tools.tune import TriedConfiguration, TuneResult

HEADS = ("configuration", "forecast", "registers", "shared", "measured", "speed-up [95 %]", "")
MOST = 10
REST = 70
"""Columns that a table takes beside the configurations; where these are wider than what is left, names stand above."""


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
        labels = [c.configuration for c in shown]
        if max(map(len, labels)) > console.width - REST:
            names, labels = _values(labels)
            console.print(f"configuration: {names}")
        rows = [(label, *figures(c)) for label, c in zip(labels, shown, strict=True)]
        console.print(display.table(HEADS, rows))
        if kernel.best is not None and (kernel.best != kernel.configurations[0] or kernel.chosen_by == "lock"):
            by = " (by the lock file)" if kernel.chosen_by == "lock" else ""
            console.print(f"chosen{by}: {kernel.best.configuration}")
        over = f"; speed-ups are over {kernel.baseline}" if kernel.measured else ""
        console.print(f"forecast: time over that of the configuration forecast fastest{over}", style="dim")
        if full and kernel.protections:
            console.print(f"protections: {', '.join(kernel.protections)}", style="dim")
    for problem in result.problems:
        console.print(f"problem: {problem}", style="yellow")
    if result.patch:
        console.print(result.patch.rstrip(), style="dim", markup=False, highlight=False, soft_wrap=True)
    if result.table:
        console.print(f"table: {result.table}", style="dim")
    if result.lock:
        read = f"forewarp.triton.install(lock={result.lock!r})"
        console.print(f"lock file: {result.lock}, which {read} reads", style="dim", markup=False, soft_wrap=True)


def _values(labels: Sequence[str]) -> tuple[str, list[str]]:
    """Return the names in labels such as "BLOCK=64 num_warps=4", and the values of each label below each other."""
    split = [[word.partition("=") for word in label.split()] for label in labels]
    parts = [{name: value for name, _, value in words} for words in split]
    names = list(dict.fromkeys(name for part in parts for name in part))
    widths = {name: max(len(part.get(name, "–")) for part in parts) for name in names}
    return " ".join(names), [" ".join(part.get(n, "–").rjust(widths[n]) for n in names) for part in parts]


def figures(c: TriedConfiguration) -> tuple[str, ...]:
    """Return the cells of a configuration that stand behind it, in the columns of `HEADS`."""
    registers = "–" if c.registers is None else f"{c.registers}" + (f" + {c.spills} spilled" if c.spills else "")
    return (
        f"{c.forecast:.2f}",
        registers,
        "–" if c.shared_bytes is None else f"{c.shared_bytes / 1024:.0f} KB",
        "–" if c.measured_us is None else f"{c.measured_us:.1f} µs",
        "–" if c.speedup is None else f"{c.speedup:.2f}× [{c.low:.2f}, {c.high:.2f}]",
        c.problem or ", ".join(w for w in ("proposed" * c.proposed, "checked" * c.checked) if w),
    )
