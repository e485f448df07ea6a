"""A run as one self-contained HTML page: inline SVG, a script for sorting tables only, no network."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from forewarp.archive.rows import MeasurementRow
from forewarp.core.values import UNTRUSTED, Measurement
from forewarp.report.html import changes, decisions
from forewarp.report.html.blocks import (
    Fold,
    Heading,
    Page,
    PageBlock,
    Section,
    SmallPrint,
    SourceLines,
    TableCell,
    TextList,
    became,
    keys,
    kind_of,
    meaning,
    number,
    table,
)
from forewarp.report.html.chart import ChartFigure, PlotArea, count_axis, log_axis, share_axis, short
from forewarp.report.html.roofline import Roofline
from forewarp.search import policy
from forewarp.tools import wording
from forewarp.tools.calibration import CalibrationScores, ReliabilityPoint, scores_of_run
from forewarp.tools.parts import Interval, shown, speedup_of
from forewarp.tools.run_report import BestSoFar, RunRecord, SearchResult, lost, oracles, usable
from forewarp.tools.wording import counted

FOLDED_FROM = 60
"""Lines of the table of decisions from which it starts folded."""
MANY = 400
"""Measurements above which a chart leaves out most whiskers."""
FAR = 4.0
"""A floor that is farther above the best than this is named, not drawn: it would flatten everything else."""
FEW = 30
"""Outcomes below which calibration figures are mostly chance."""


def page(document: SearchResult, record: RunRecord) -> str:
    """Return the page; readable with scripts off."""
    made = steps(record)
    leads = [s.row.candidate.sha256 for s in made if s.leads]
    best = document.best.kernel.sha256 if document.best else ""
    roofline = Roofline.of(record, best)
    outcomes = scores_of_run(record.run.task.name, record.candidates)
    sections = [
        Section("progress", "Best so far against budget", _progress(document, made, roofline)),
        Section("winner", "The winner", _winner(document)),
        Section("forecasts", "Forecast against measurement", _forecasts(document, outcomes), _how_many(outcomes)),
        Section("changes", "What changed", changes.changes(record.candidates, record.run.task.seeds, leads, best)),
        Section("roofline", "Roofline", roofline.blocks() if roofline else (), roofline.lead() if roofline else ""),
        Section("proposers", "Who proposed what", decisions.proposers(record.candidates, leads)),
        Section("account", "Account", _account(document)),
        Section("forecasters", "Who forecast", decisions.forecasters(document, record), decisions.audits(document)),
        Section(
            *("decisions", "Decisions", decisions.by_candidate(record), decisions.lead(record)),
            folded=sum(r.decision is not None for r in record.candidates) > FOLDED_FROM,
        ),
        Section("failures", "Failures", decisions.failures(record.candidates), decisions.failed(record.candidates)),
    ]
    title = record.run.task.title
    return Page(
        name=f"{document.run_id}: {document.task}",
        title=f"{document.task} on {document.device.name}",
        replay=document.source == "replay",
        summary=document.summary,
        about=(f"{title}. " if title not in ("", document.task) else "") + _state(document, record),
        tiles=_tiles(document, roofline),
        spend=_spend(document),
        sections=sections,
    ).html()


@dataclass(frozen=True, slots=True)
class SpendingStep:
    """One finished measurement; `number` counts them from 1, `device_s` and `spent` all that was spent until then."""

    number: int
    row: MeasurementRow
    measurement: Measurement
    best: Interval | None
    leads: bool
    audit: bool
    device_s: float
    spent: Mapping[str, Any]

    @property
    def fate(self) -> str:
        return changes.fate_of(self.measurement)

    @property
    def speedup(self) -> Interval | None:
        """Its speed-up, None where it has none to be believed."""
        return speedup_of(self.measurement) if self.measurement.status == "ok" else None


def steps(record: RunRecord) -> list[SpendingStep]:
    """Return every finished measurement in the order made, the confirmation among them."""
    spent = {e.data["measurement"]: e.data["spend"] for e in record.events if e.type == "Measured"}
    audits = {r.measurement_id for r in record.candidates if r.decision and policy.is_audit(r.decision)}
    best, device_s, made = BestSoFar(), 0.0, list[SpendingStep]()
    for row in record.measurements:
        m = row.measurement
        if m is None:
            continue
        found = speedup_of(m) if m.status == "ok" and row.purpose == "candidate" else None
        leads = best.see(found, m.verdict)
        device_s += m.device_s
        made.append(
            SpendingStep(len(made) + 1, row, m, best.speedup, leads, row.id in audits, device_s, spent.get(row.id, {}))
        )
    return made


def _state(document: SearchResult, record: RunRecord) -> str:
    run = record.run
    parts = [f"Run {document.run_id}, {document.status}{f': {document.reason}' if document.reason else ''}"]
    if lost(run):
        parts.append(f"its process is gone, `forewarp resume {document.run_id}` goes on with it")
    if begun := sum(m.state == "started" for m in record.measurements):
        parts.append(f"{counted(begun, 'measurement')} begun without a result")
    ended = f" to {run.finished[:16].replace('T', ' ')}" if run.finished else ""
    return (
        f"{'; '.join(parts)}. {run.created[:16].replace('T', ' ')}{ended} UTC, {document.device.kind} "
        f"{document.device.arch}, forewarp {run.version}. Proposer {document.proposer}, forecaster "
        f"{document.forecaster or 'none: everything was measured'}. {oracles(document)}."
    )


def _tiles(document: SearchResult, roofline: Roofline | None) -> list[tuple[str, str, str]]:
    best, c = document.best, document.counts
    tiles = [("none", "correct candidate found", "fail")]
    if best is not None:
        sure = f"{'' if best.confirmed else 'not '}confirmed by a second measurement"
        tiles = [(str(best.speedup), f"over the reference, 95 %; {best.verdict}, {sure}", kind_of(best.verdict))]
    if c.measured:
        what = f"candidates considered per measurement ({c.considered}/{c.measured})"
        tiles.append((f"{c.considered / c.measured:.1f}", what, ""))
    tiles.append((f"{c.proposed:,}", f"proposed; {sum(c.rejected.values()):,} stopped by the gate", ""))
    if roofline and roofline.floor_speedup is not None:
        tiles.append((f"{roofline.floor_speedup:.3g}×", "at the roofline floor (data-sheet rates)", ""))
    if document.audit is not None:
        a = document.audit.share
        tiles.append((f"{a.ratio:.0%}", f"false discards [{a.low:.0%}, {a.high:.0%}] (95 %)", ""))
    return tiles


def _spend(document: SearchResult) -> list[tuple[str, str, str, float | None]]:
    forms = {"measurements": ",.0f", "device_s": ",.1f", "dollars": ",.3f", "tokens": ",.0f", "wall_s": ",.0f"}
    rows: list[tuple[str, str, str, float | None]] = []
    for name, form in forms.items():
        spent, cap = getattr(document.budget.spent, name) or 0, getattr(document.budget.limit, name)
        what = {"device_s": "device seconds", "wall_s": "wall seconds"}.get(name, name)
        rows.append(
            (what, format(spent, form), "–" if cap is None else format(cap, form), spent / cap if cap else None)
        )
    return rows


def _account(document: SearchResult) -> list[PageBlock]:
    """Return the run in seconds and dollars, against measuring everything."""
    found = document.account
    if found is None:
        return []
    lines = {
        "asked forecasters": found.asked,
        "programs written by models": found.written,
        "built": found.built,
        "measured": found.measured,
        "not measured, by estimate": found.spared,
        "saved by forecasts, by estimate": found.saved,
    }
    hour = "not listed in the price table" if found.hour is None else f"taken to cost {wording.dollars(found.hour)}"
    return [
        table(
            [(name, item) for name, item in lines.items() if item is not None],
            {
                "what": lambda line: line[0],
                "count": lambda line: line[1].count,
                "seconds": lambda line: number(line[1].seconds, ",.1f"),
                "dollars": lambda line: number(line[1].dollars, ",.4f"),
            },
        ),
        SmallPrint(
            f"An hour of {document.device.name} is {hour}. While a model answers or a compiler works, the device is "
            "held and counts. Seconds of compilers add up over threads. The estimate takes for each candidate that was "
            "not measured what this run's measurements of its language took, and says nothing of what they would have "
            "found."
        ),
    ]


def _progress(document: SearchResult, made: Sequence[SpendingStep], roofline: Roofline | None) -> list[PageBlock]:
    """Return the chart of the best so far, with every measured candidate."""
    timed = [s for s in made if s.speedup and s.measurement.verdict not in UNTRUSTED]
    if not timed:
        text = f"{counted(len(made), 'measurement')}, none of them with a speed-up to show; see the failures below."
        return [text] if made else []
    values = [v for s in timed if s.speedup for v in (s.speedup.low, s.speedup.high)] + [1.0]
    floor = roofline.floor_speedup if roofline else None
    near = floor is not None and floor <= FAR * max(values)
    x = count_axis("measurements made", len(made))
    y = log_axis("speed-up over the reference", [*values, *([floor] if floor is not None and near else [])], "×")
    frame = PlotArea(x, y, width=760, height=380, top=42)
    if made[-1].device_s > 0:
        what = "GPU seconds" if document.device.kind == "cuda" else "device seconds"
        recorded = " of the recorded measurements" if document.source == "replay" else ""
        ticks = [(at, short(made[round(at) - 1].device_s)) for at, _ in x.ticks if round(at) <= len(made)]
        frame.above(f"{what}{recorded}", ticks)
    end = len(made) + 0.5
    frame.line((0.5, 1.0), (end, 1.0), "ink", stroke_dasharray="2 3")
    frame.text(0.6, 1.0, "the reference, 1×")
    if floor is not None and near:
        frame.line((0.5, floor), (end, floor), "odd", stroke_dasharray="7 4")
        frame.text(0.6, floor, f"roofline floor, {floor:.3g}×")
    _curve(frame, made, end)
    for step in made:
        _draw(frame, step, many=len(timed) > MANY)
    caption = [
        "Dots are candidates with their 95 % intervals, ringed where they became the best so far; the line is the best "
        "so far with its interval; crosses at the bottom failed",
        *(["hollow dots are audits"] if any(s.audit for s in made) else []),
        *(["the diamond is the winner measured once more"] if any(s.row.purpose == "confirm" for s in made) else []),
        "at the roofline floor no data-sheet rate allows more"
        if near
        else f"the roofline floor, {floor:.3g}×, lies far above"
        if floor is not None
        else "the device's peak rates are not known, so there is no roofline floor",
        *(["all of it looked up in a recorded pool"] if document.source == "replay" else []),
    ]
    return [frame.figure(_reached(document, made), f"{'; '.join(caption)}.", keys(s.fate for s in made))]


def _curve(frame: PlotArea, made: Sequence[SpendingStep], end: float) -> None:
    """Draw the best so far as steps, with its interval as a band."""
    corners = [(float(s.number), s.best) for s in made if s.best is not None]
    until = [*(at for at, _ in corners[1:]), end]
    spans = [(at, to, best) for (at, best), to in zip(corners, until, strict=False)]
    if spans:
        upper = [(x, best.high) for at, to, best in spans for x in (at, to)]
        lower = [(x, best.low) for at, to, best in spans for x in (at, to)]
        frame.path([*upper, *reversed(lower)], "band", filled=True)
        frame.path([(x, best.ratio) for at, to, best in spans for x in (at, to)], "step")


def _draw(frame: PlotArea, step: SpendingStep, *, many: bool) -> None:
    what = "confirmation of " if step.row.purpose == "confirm" else "audit of " if step.audit else ""
    spent = [f"after {short(step.device_s)} s of device"]
    spent += [f"{tokens:,} tokens"] if (tokens := step.spent.get("tokens")) else []
    spent += [f"${dollars:.3f}"] if (dollars := step.spent.get("dollars")) else []
    about = f"{step.speedup or ''} {meaning(step.fate)}{'; best so far' if step.leads else ''}".strip()
    text = f"{step.number}: {what}{step.row.candidate.short} {about}, {', '.join(spent)}"
    kind, found = kind_of(step.fate), step.speedup
    if found is None:
        frame.mark(step.number, frame.axes[1].low, kind, text, failed=True)
        return
    if step.leads or step.row.purpose == "confirm" or not many:
        frame.line((step.number, found.low), (step.number, found.high), kind)
    if step.row.purpose == "confirm":
        frame.mark(step.number, found.ratio, kind, text)
        return
    if step.leads:
        frame.dot(step.number, found.ratio, "best", "", 6.5, hollow=True)
    frame.dot(step.number, found.ratio, kind, text, hollow=step.audit)


def _reached(document: SearchResult, made: Sequence[SpendingStep]) -> str:
    last = next((s for s in reversed(made) if s.leads), None)
    if last is None or last.best is None:
        return "Nothing was correct and to be believed so far"
    cap = document.budget.limit.measurements
    of = f" of a budget of {cap}" if cap else ""
    return f"Best so far: {last.best.ratio:.3g}×, reached with measurement {last.number}; {len(made)} made{of}"


def _winner(document: SearchResult) -> list[PageBlock]:
    """Return the winner's results by shape, also on near shapes, its checks, flags and source."""
    best = document.best
    if best is None:
        return []
    tunables = f", {shown(best.kernel.tunables)}" if best.kernel.tunables else ""
    shapes = table(
        best.workloads,
        {
            "shape": lambda w: w.name,
            "verdict": lambda w: became(w.verdict),
            "speed-up [95 %]": lambda w: w.speedup,
            "candidate µs": lambda w: TableCell(wording.microseconds(w.candidate_us), "n"),
            "reference µs": lambda w: TableCell(wording.microseconds(w.reference_us), "n"),
            "noise": lambda w: TableCell(wording.noise(w.noise_percent), "n"),
            "warm L2": lambda w: w.warm,
            "with launch": lambda w: w.launched,
            "cycles": lambda w: w.cycles,
        },
    )
    blocks: list[PageBlock] = [f"{best.kernel.short} ({best.kernel.language}){tunables}.", shapes]
    if (near := document.holdout) is not None:
        fates = {s.name: s.verdict if s.status == "ok" and s.verdict else s.status for s in near.shapes}
        blocks += [Heading("On shapes that nobody tuned for"), near.said]
        blocks.append(
            table(
                near.shapes,
                {
                    "near shape": lambda s: s.name,
                    "made from": lambda s: s.origin,
                    "came to": lambda s: became(fates[s.name]),
                    "speed-up [95 %]": lambda s: s.speedup,
                    "said": lambda s: TableCell(s.log.partition("\n")[0][:160], "t"),
                },
            )
        )
    for title, texts in (("Against its time", best.flags), ("Its outputs passed", best.checks)):
        blocks += [Heading(title), TextList(texts)] if texts else []
    state = wording.device_line(best.device_state, best.workloads)
    return [*blocks, SmallPrint(state) if state else None, Fold("Source", "", [SourceLines.of(best.source)])]


def _forecasts(document: SearchResult, found: Mapping[str, CalibrationScores]) -> list[PageBlock]:
    """Return the scatter, the reliability diagrams of who decided, and the scores of all."""
    if not found:
        return [_scatter(document)]
    name, first = next(iter(found.items()))
    gap = "" if first.ece is None else f", {first.ece:.0%} apart on average (ECE)"
    return [
        _scatter(document),
        _diagram(
            *(name, first.confidence, f"Confidence of {name} against how often it was right{gap}"),
            *("confidence in the likeliest range", "share that was right"),
        ),
        _diagram(
            *(name, first.faster, f"Chance of being faster, as {name} said, against how often it was so"),
            *("forecast chance of correct and faster", "share that was correct and faster"),
        ),
        table(
            found.items(),
            {
                "forecaster": lambda f: f[0],
                "outcomes": lambda f: _outcomes(f[1]),
                "ECE": lambda f: number(f[1].ece, ".3f"),
                "Brier": lambda f: number(f[1].brier, ".3f"),
                "CRPS": lambda f: number(f[1].crps, ".3f"),
                "NLL (nats)": lambda f: number(f[1].nll, ".3f"),
                "in 80 % interval": lambda f: number(f[1].coverage, ".0%"),
                "Brier of p(correct)": lambda f: number(f[1].brier_valid, ".3f"),
            },
        ),
        SmallPrint(
            "ECE: gap between confidence and accuracy of the likeliest of eight ranges. Brier and CRPS: distance of "
            "the eight probabilities to what came, 0 is best. Correct candidates only, but for the last column."
        ),
    ]


def _outcomes(scores: CalibrationScores) -> int:
    return sum(p.count for p in scores.faster)


def _how_many(found: Mapping[str, CalibrationScores]) -> str:
    """Return how far the figures can be believed."""
    outcomes = max((_outcomes(s) for s in found.values()), default=0)
    if not outcomes:
        return ""
    few = f" Calibration figures of so few outcomes ({outcomes}) are mostly chance." if outcomes < FEW else ""
    return f"Forecasts as they were made before each measurement, uncorrected afterwards.{few}"


def _scatter(document: SearchResult) -> ChartFigure | None:
    pairs = [
        (c, c.forecast.median, found, c.measured.verdict)
        for c in document.candidates
        if c.forecast and c.measured and (found := usable(c.measured))
    ]
    if not pairs:
        return None
    values = [v for _, f, m, _ in pairs for v in (f.ratio, m.low, m.high)]
    # The widest forecasts reach so far that they would squeeze all others together.
    values += [min(values) / 1.3, max(values) * 1.3]
    axes = ("forecast speed-up (80 % interval)", "measured speed-up (95 % interval)")
    x, y = (log_axis(title, values, "×") for title in axes)
    frame = PlotArea(x, y, 430, 400)
    frame.diagonal()
    many = len(pairs) > MANY
    for _, f, m, verdict in [] if many else pairs:
        frame.line((f.low, m.ratio), (f.high, m.ratio), kind_of(verdict), stroke_opacity=".45")
        frame.line((f.ratio, m.low), (f.ratio, m.high), kind_of(verdict))
    for c, f, m, verdict in pairs:
        frame.dot(f.ratio, m.ratio, kind_of(verdict), f"{c.kernel.short}: forecast {f}, measured {m}")
    inside = sum(f.low <= m.ratio <= f.high for _, f, m, _ in pairs)
    return frame.figure(
        f"{inside} of {len(pairs)} measured speed-ups lie in their forecast's 80 % interval",
        "Each dot is a correct candidate; bars are intervals, cut where they leave the chart; on the dashed line "
        "forecast and measurement agree." + (" Bars are left out, because there are many." if many else ""),
        keys(verdict for *_, verdict in pairs),
    )


def _diagram(name: str, points: Sequence[ReliabilityPoint], title: str, x: str, y: str) -> ChartFigure | None:
    if not points:
        return None
    frame = PlotArea(share_axis(x), share_axis(y), 330, 320)
    frame.diagonal()
    most = max(p.count for p in points)
    for p in points:
        text = f"{p.count} forecasts of {p.forecast:.0%} on average: {p.observed:.0%} came true"
        frame.line((p.forecast, p.low), (p.forecast, p.high), "best")
        frame.dot(p.forecast, p.observed, "best", text, 2.5 + 4 * math.sqrt(p.count / most))
    count = sum(p.count for p in points)
    return frame.figure(title, f"Forecasts of {name} ({count}) in tenths; bars are exact 95 % intervals of the share.")
