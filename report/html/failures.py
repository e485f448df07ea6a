"""HTML of a run's failed candidates, grouped by cause."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from forewarp.tools.wording import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from forewarp.tools.run_decisions import FailureGroup


def groups(found: Sequence[FailureGroup]) -> str:
    """Return each group with the first lines of one log, folded; "" where nothing failed."""
    return "".join(map(_group, found))


def lead(found: Sequence[FailureGroup]) -> str:
    """Return how many candidates failed at the gate and when measured, in a sentence."""
    by_stage = {stage: sum(g.count for g in found if g.stage == stage) for stage in ("gate", "measurement")}
    gate, measured = by_stage["gate"], by_stage["measurement"]
    return (
        f"{counted(gate, 'candidate')} stopped by the gate, without a measurement; {measured:,} failed when measured."
    )


def _group(g: FailureGroup) -> str:
    where = f" ({g.stage})" if g.stage else ""
    title = f"{g.count:,} {g.outcome.replace('_', ' ')}{where}"
    said = escape(g.reason or "no reason given")
    of = f'<p class="soft">Such as {escape(", ".join(g.examples))}.</p>' if g.examples else ""
    log = f"<pre>{escape(g.log, quote=False)}</pre>" if g.log and g.log != g.reason else ""
    head = f'<b>{escape(title)}</b> <span class="soft">{said}</span>'
    return f"<details><summary>{head}</summary>{of}{log}</details>" if of or log else f"<p>{head}</p>"
