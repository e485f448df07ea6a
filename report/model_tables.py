"""Profiles of models, and models with kernels in them, for people."""

from __future__ import annotations

from textwrap import shorten

from rich.console import Console

from forewarp.report import display
from forewarp.tools import wording
from forewarp.tools.apply_model import ApplyResult
from forewarp.tools.optimize_model import OptimizeModelResult
from forewarp.tools.profile_model import ProfileResult

MOST = 12
SMALL = 0.002
"""Share of the device time of lines that are left out unless all are asked for."""


def render_profile(result: ProfileResult, console: Console, *, full: bool = False) -> None:
    """Print the lines, the most promising first; all of them and the kernels if `full`."""
    from rich.table import Column

    console.print(result.summary)
    if result.task:
        return
    shown = result.lines if full else [line for line in result.lines if line.share.value >= SMALL][:MOST]
    rows = [
        (
            str(line.number),
            line.operations if not line.why_no_task else f"{line.operations} (no task: {line.why_no_task})",
            f"×{line.places}",
            f"{line.share.value:.1%} ± {(line.share.high - line.share.low) / 2:.1%}",
            f"{line.time_us:.1f}",
            f"{line.roofline_us:.1f}",
            f"{line.headroom.ratio:.2g}× [{line.headroom.low:.2g}, {line.headroom.high:.2g}]",
            f"{line.gain.value:.1%} [{line.gain.low:.1%}, {line.gain.high:.1%}]",
        )
        for line in shown
    ]
    right = [Column(h, justify="right", no_wrap=True) for h in ("", "share", "µs each", "roofline")]
    fixed = [Column(h, no_wrap=True) for h in ("headroom [80 %]", "gain [80 %]")]
    heads = (Column("line", justify="right"), Column("operations", overflow="fold", ratio=1), *right, *fixed)
    console.print(display.table(heads, rows))
    left = len(result.lines) - len(shown)
    if left:
        console.print(f"{left} more lines; -v lists all", style="dim")
    if full:
        kernels = [(k.name[:80], f"{k.share:.1%}", f"{k.launches:.1f}") for k in result.kernels]
        console.print(display.table(("kernel", "share", "launches a call"), kernels))
    console.print(
        f"a call {result.call_us / 1e3:.3g} ms, its kernels {result.device_us / 1e3:.3g} ms, those of its graph "
        f"{result.graph_us / 1e3:.3g} ms; headroom by {result.forecasts}",
        style="dim",
    )
    for problem in result.problems:
        console.print(f"note: {problem}", style="yellow")


def render_apply(result: ApplyResult, console: Console, *, full: bool = False, summary: bool = True) -> None:
    """Print what was kept and why the rest was not, and the whole model before and after."""
    if summary:
        console.print(result.summary, style="green" if any(k.kept for k in result.kernels) else "yellow")
    rows = [
        (
            str(k.line),
            k.path,
            f"×{k.places}",
            "kept" if k.kept else "dropped",
            str(k.speedup) if k.speedup else "–",
            k.why if full else _short(k.why),
        )
        for k in result.kernels
    ]
    console.print(display.table(("line", "module", "", "", "whole model [95 %]", "why"), rows))
    if result.latency_us and result.model_latency_us:
        console.print(f"latency {result.model_latency_us.median:.1f} µs → {result.latency_us.median:.1f} µs")
    if result.throughput:
        console.print(f"throughput {result.throughput}")
    if result.peak_bytes and result.model_peak_bytes:
        console.print(f"peak memory {result.model_peak_bytes / 2**20:.1f} MiB → {result.peak_bytes / 2**20:.1f} MiB")
    for problem in result.problems:
        console.print(f"note: {problem}", style="yellow")
    if result.module:
        console.print(f"module: {result.module}", style="dim")


def render_optimize(result: OptimizeModelResult, console: Console, *, full: bool = False) -> None:
    """Print each line's best kernel, then what the whole model gained by those that help it."""
    rows = [
        (
            str(line.number),
            f"{line.operations} ×{line.places}",
            f"{line.gain.value:.1%}",
            str(line.best) if line.best else "–",
            line.run_id or "–",
            line.why_none if full else _short(line.why_none),
        )
        for line in result.lines
    ]
    heads = ("line", "operations", "forecast gain", "best kernel [95 %]", "run", "why none")
    console.print(display.table(heads, rows))
    if result.applied is not None and result.applied.kernels:
        render_apply(result.applied, console, full=full, summary=False)
    console.print(result.summary, style="bold")
    console.print(f"spent {wording.amounts(result.budget.spent, result.budget.limit)}", style="dim")
    console.print(f"files, a page for each line among them: {result.folder}", soft_wrap=True, style="dim")


def _short(why: str) -> str:
    """Return the beginning of a reason's first line, which may be a traceback's."""
    return shorten(why.partition("\n")[0], 200, placeholder=" … (-v shows all)")
