"""HTML of a run's result: headline, key numbers, spending, and the winner."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from forewarp.report.html.markup import Cell, became, kind_of, speedup, table
from forewarp.tools import wording
from forewarp.tools.parts import shown
from forewarp.tools.wording import counted

if TYPE_CHECKING:
    from forewarp.tools.near_shapes import NearShapes
    from forewarp.tools.parts import Interval
    from forewarp.tools.run_figures import RunFigures
    from forewarp.tools.run_report import BestKernel, SearchResult

REPLAY = "Replay: measurements were looked up in a recorded pool, none was made for this run."


def headline(document: SearchResult, figures: RunFigures) -> str:
    """Return title, verdict, tiles and spend."""
    label = f'<p class="label">{REPLAY}</p>' if document.source == "replay" else ""
    device = document.device
    about = f"{figures.title}. " if figures.title and figures.title != document.task else ""
    return f"""<h1>{escape(document.task)} on {escape(device.name)}</h1>
{label}<p><b>{escape(document.summary)}</b></p>
<p class="soft">{escape(about + _state(document, figures))}</p>
<div class="tiles">{_tiles(document, figures)}</div>
{_spend(document)}
"""


def _state(document: SearchResult, figures: RunFigures) -> str:
    said = f"Run {document.run_id}, {document.status}"
    if document.reason:
        said += f": {document.reason}"
    if figures.lost:
        said += f"; its process is gone, `forewarp resume {document.run_id}` goes on with it"
    if figures.begun:
        said += f"; {counted(figures.begun, 'measurement')} begun without a result"
    ended = f" to {figures.finished[:16].replace('T', ' ')}" if figures.finished else ""
    who = f"Proposer {document.proposer}, forecaster {document.forecaster or 'none: everything was measured'}."
    return (
        f"{said}. {figures.created[:16].replace('T', ' ')}{ended} UTC, {document.device.kind} {document.device.arch}, "
        f"forewarp {figures.version}. {who} {wording.oracles(document)}."
    )


def _tiles(document: SearchResult, figures: RunFigures) -> str:
    best, c = document.best, document.counts
    tiles: list[tuple[str, str, str]] = []
    if best is None:
        tiles.append(("none", "correct candidate found", "fail"))
    else:
        sure = "confirmed by a second measurement" if best.confirmed else "not confirmed by a second measurement"
        tiles.append(
            (wording.speedup(best.speedup), f"over the reference, 95 %; {best.verdict}, {sure}", kind_of(best.verdict))
        )
    if c.measured:
        tiles.append(
            (
                f"{c.considered / c.measured:.1f}",
                f"candidates considered per measurement ({c.considered}/{c.measured})",
                "",
            )
        )
    tiles.append((f"{c.proposed:,}", f"proposed; {sum(c.rejected.values()):,} stopped by the gate", ""))
    floor = figures.roofline.floor_speedup if figures.roofline else None
    if floor is not None:
        tiles.append((f"{floor:.3g}×", "at the roofline floor (data-sheet rates)", ""))
    if document.audit is not None:
        a = document.audit.share
        tiles.append((f"{a.ratio:.0%}", f"false discards [{a.low:.0%}, {a.high:.0%}] (95 %)", ""))
    return "".join(
        f'<div class="tile"><b{f" class={kind} style=color:var(--c)" if kind else ""}>{escape(value)}</b>'
        f"<span>{escape(what)}</span></div>"
        for value, what, kind in tiles
    )


def _spend(document: SearchResult) -> str:
    spent, limit = document.budget.spent, document.budget.limit
    lines = (
        ("measurements", spent.measurements, limit.measurements, ",.0f"),
        ("device seconds", spent.device_s, limit.device_s, ",.1f"),
        ("dollars", spent.dollars, limit.dollars, ",.3f"),
        ("tokens", spent.tokens, limit.tokens, ",.0f"),
        ("wall seconds", spent.wall_s, limit.wall_s, ",.0f"),
    )
    rows: list[str] = []
    for what, used, cap, form in lines:
        given = used or 0
        meter = "not capped"
        if cap:
            meter = f"<meter min=0 max=1 value={min(1, given / cap):.3f}></meter> {given / cap:.0%}"
        shown_cap = "–" if cap is None else format(cap, form)
        rows.append(f"<tr><td>{what}<td class=n>{format(given, form)}<td class=n>{shown_cap}<td class=soft>{meter}")
    head = "<thead><tr><th>budget<th class=n>spent<th class=n>cap<th>"
    return f'<div class="wide"><table>{head}<tbody>{"".join(rows)}</table></div>'


def winner(best: BestKernel | None, near: NearShapes | None) -> str:
    """Return the winner's results by shape, also on near shapes, its checks and flags; "" without a winner."""
    if best is None:
        return ""

    def said(interval: Interval | None) -> str:
        return wording.speedup(interval) if interval else ""

    head = (
        "shape",
        "verdict",
        "speed-up [95 %]",
        "candidate µs",
        "reference µs",
        "noise",
        "warm L2",
        "with launch",
        "cycles",
    )
    rows: list[tuple[Cell | str, ...]] = []
    for w in best.workloads:
        noise = "" if w.noise_percent is None else f"±{w.noise_percent:{'.2g' if w.noise_percent < 100 else ',.0f'}} %"
        rows.append(
            (
                *(w.name, Cell(w.verdict, kind_of(w.verdict)), Cell(said(w.speedup), "n")),
                *(Cell(wording.microseconds(t), "n") for t in (w.candidate_us, w.reference_us)),
                *(Cell(noise, "n"), said(w.warm), said(w.launched), said(w.cycles)),
            )
        )
    tunables = f", {shown(best.kernel.tunables)}" if best.kernel.tunables else ""
    told = f"<p>{escape(best.kernel.short)} ({best.kernel.language}){escape(tunables)}.</p>"
    told += table(head, rows) + _near(near)
    for title, texts in (("Against its time", best.flags), ("Its outputs passed", best.checks)):
        if texts:
            told += f"<h3>{title}</h3><ul>{''.join(f'<li>{escape(t)}</li>' for t in texts)}</ul>"
    state = wording.device_line(best.device_state, best.workloads)
    told += f'<p class="soft">{escape(state)}</p>' if state else ""
    return f"{told}<details><summary>Source</summary><pre>{escape(best.source, quote=False)}</pre></details>"


def _near(near: NearShapes | None) -> str:
    if near is None:
        return ""
    head = ("near shape", "made from", "came to", "speed-up [95 %]", "said")
    rows = [
        (
            *(s.name, s.origin, became(s.verdict if s.status == "ok" and s.verdict else s.status), speedup(s.speedup)),
            Cell(s.log.partition("\n")[0][:160], "t"),
        )
        for s in near.shapes
    ]
    return f"<h3>On shapes that nobody tuned for</h3><p>{escape(near.said)}</p>{table(head, rows)}"
