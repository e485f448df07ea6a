"""The run as one self-contained HTML page: inline SVG, a script for sorting tables only, no network."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from forewarp.report.html import decisions, diffs, failures, forecasts, headline, lineage, progress, roofline
from forewarp.report.html.markup import SCRIPT, STYLE, section

if TYPE_CHECKING:
    from forewarp.tools.run_figures import RunFigures
    from forewarp.tools.run_report import SearchResult

FOLDED_FROM = 60
"""Lines of a table from which it starts folded."""


def page(document: SearchResult, figures: RunFigures) -> str:
    """Return the page; readable with scripts off."""
    parts = _parts(document, figures)
    links = "".join(f'<a href="#{name}">{escape(title)}</a>' for name, title, text in parts if text)
    return f"""<!doctype html><html lang="en"><meta charset="utf-8">
<meta name="viewport" content="width=device-width,initial-scale=1"><title>forewarp {escape(document.run_id)}: \
{escape(document.task)}</title>
<style>{STYLE}</style>
{headline.headline(document, figures)}<nav>{links}</nav>
{"".join(text for _, _, text in parts)}<script>{SCRIPT}</script></html>
"""


def _parts(document: SearchResult, figures: RunFigures) -> list[tuple[str, str, str]]:
    """Return name, title and text of each section; the text is "" where there is nothing to show."""
    many = len(figures.decisions) > FOLDED_FROM
    found = figures.roofline
    made: list[tuple[str, str, str, str, bool]] = [
        ("progress", "Best so far against budget", progress.chart(document, figures), "", False),
        ("winner", "The winner", headline.winner(document.best, document.holdout), "", False),
        (
            "forecasts",
            "Forecast against measurement",
            forecasts.charts(document, figures),
            forecasts.lead(figures),
            False,
        ),
        ("lineage", "Lineage", lineage.tree(figures.lineage), lineage.lead(figures.lineage), False),
        ("changes", "What changed", diffs.changes(figures.changes), "", False),
        ("roofline", "Roofline", roofline.charts(found), roofline.lead(found), False),
        ("proposers", "Who proposed what", decisions.proposers(figures.proposers), "", False),
        ("forecasters", "Who forecast", decisions.forecasters(document, figures), decisions.audits(document), False),
        ("rounds", "Rounds", decisions.by_round(figures), "", True),
        ("decisions", "Decisions", decisions.by_candidate(figures.decisions), _decided(figures), many),
        ("failures", "Failures", failures.groups(figures.failures), failures.lead(figures.failures), False),
    ]
    return [(name, title, section(name, title, body, lead=lead, folded=fold)) for name, title, body, lead, fold in made]


def _decided(figures: RunFigures) -> str:
    kinds = {d.action: 0 for d in figures.decisions}
    for d in figures.decisions:
        kinds[d.action] += 1
    counts = ", ".join(f"{n} {action}" for action, n in kinds.items())
    return f"The last decision on each candidate: {counts}. A heading sorts the table."
