"""`forewarp calibration`: whether forecasts come true as often as they say."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from forewarp.cli import printing
from forewarp.cli.options import PLAIN, Output

if TYPE_CHECKING:
    from rich.table import Table

    from forewarp.tools.calibration import CalibrationResult, Limit, TierCalibration


def calibration(
    *,
    run: str | None = None,
    task: str | None = None,
    pool: Path | None = None,
    forecaster: str | None = None,
    alpha: Annotated[float, Parameter(validator=Number(gt=0, lt=1))] = 0.05,
    image: Path | None = None,
    archive: Path | None = None,
    output: Output = PLAIN,
) -> int:
    """Show the archive's forecasts next to what was measured after them, as they were given and as corrected.

    Args:
        run: Only this run; its id or a unique beginning of it.
        task: Only this task, by name.
        pool: Parquet file or folder to look at instead: the forecasts recorded beside it, or made now.
        forecaster: Only this forecaster, such as learned or llm; for a pool, the one to ask.
        alpha: Error rate that the thresholds keep.
        image: Also draw the reliability diagrams into this file, .svg or .png.
        archive: Archive file; $FOREWARP_ARCHIVE, else one in your data folder.
        output: How results are shown.
    """
    from forewarp.cli import exits
    from forewarp.report import display
    from forewarp.report.documents import Artifact, CalibrationDocument
    from forewarp.tools.calibration import CalibrationRequest, calibrate

    if image is not None:
        from forewarp.report import reliability

        reliability.check(image)
    found = calibrate(
        CalibrationRequest(
            archive=str(archive) if archive else None,
            run=run,
            task=task,
            pool=str(pool) if pool else None,
            forecaster=forecaster,
            alpha=alpha,
        )
    )
    artifacts: list[Artifact] = []
    if image is not None and found.tiers:
        from forewarp.report import reliability

        artifacts.append(Artifact(kind="image", path=str(reliability.draw(found, image))))
    if output.json:
        status = "ok" if any(t.after for t in found.tiers) else "too_few"
        document = CalibrationDocument(command="calibration", status=status, artifacts=artifacts, **dict(found))
        printing.document(document)
        return exits.OK
    console = display.stdout()
    for tier in found.tiers:
        _show(tier, found)
    if artifacts:
        console.print(f"diagrams in {artifacts[0].path}", style="dim")
    console.print(found.summary, style="dim")
    return exits.OK


def _show(tier: TierCalibration, found: CalibrationResult) -> None:
    from forewarp.report import display, reliability

    console = display.stdout()
    console.print(f"{tier.forecaster}: {tier.outcomes} outcomes, {tier.valid} of them valid, of {_tasks(tier.tasks)}")
    for title, kind in reliability.DIAGRAMS:
        if drawn := reliability.terminal(tier, kind, title):
            console.print(drawn)
    console.print(_scores(tier))
    console.print(_limits(tier, found.alpha))
    console.print(_drift(tier))
    if tier.after is None:
        more = tier.needed - tier.valid
        console.print(f"A correction takes {tier.needed} valid outcomes: {more} more.")
    console.print()


def _tasks(count: int) -> str:
    return f"{count} task{'s' * (count != 1)}"


def _scores(tier: TierCalibration) -> Table:
    from rich.table import Table

    table = Table("", "ECE", "Brier", "CRPS", "NLL", "in 80 % interval", "Brier of p(correct)", box=None)
    rows = [("as given", tier.before)]
    if tier.after is not None:
        rows.append((f"corrected by {tier.corrected_by}", tier.after))
    for label, s in rows:
        numbers = (_number(v) for v in (s.ece, s.brier, s.crps, s.nll))
        covered = "–" if s.coverage is None else f"{s.coverage:.0%}"
        table.add_row(label, *numbers, covered, _number(s.brier_valid))
    return table


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _limits(tier: TierCalibration, alpha: float) -> Table:
    from rich.table import Table

    table = Table(f"so that at most {alpha:.0%} …", "threshold", "decides", "share on these", "outcomes", box=None)
    table.add_row("of stated bins are wrong: confidence above", *_limit(tier.abstain))
    table.add_row("of discards beat the best so far: p(better) below", *_limit(tier.discard))
    table.add_row("of what beats it is discarded: p(better) below", *_limit(tier.keep_winners))
    return table


def _limit(limit: Limit) -> tuple[str, str, str, str]:
    if limit.value is None:
        short = limit.outcomes < limit.needed
        why = f"{limit.outcomes}; takes {limit.needed}" if short else f"{limit.outcomes}; too often wrong"
        return "none: measure", "0%", "–", why
    return f"{limit.value:.3f}", f"{limit.decided:.0%}", f"{limit.error:.1%}", str(limit.outcomes)


def _drift(tier: TierCalibration) -> str:
    state = tier.drift
    seen = f"evidence {state.evidence:.3g} of {state.limit:.0f}, at most, in {state.runs} run{'s' * (state.runs != 1)}"
    if not state.alarmed:
        return f"Drift: no alarm; {seen}."
    return f"Drift: ALARM in {', '.join(state.alarmed)}; {seen}."
