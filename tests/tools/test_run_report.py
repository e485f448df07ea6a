from __future__ import annotations

from pathlib import Path

from support.synthetic_executor import KnowingForecaster, SyntheticExecutor, task

from forewarp.archive.store import Archive
from forewarp.core.values import Budget
from forewarp.search.loop import Search
from forewarp.search.proposers.tunables import TunablesProposer
from forewarp.search.settings import SearchSettings
from forewarp.tools.run_report import best_so_far, in_order, report


def test_the_curve_follows_the_order_of_measuring_not_of_proposing(tmp_path: Path) -> None:
    with Archive(tmp_path / "a.db") as archive:
        settings = SearchSettings(budget=Budget(measurements=9), confirm=False)
        search = Search.start(archive, task(), SyntheticExecutor(), TunablesProposer(), KnowingForecaster(), settings)
        measured = [e.kernel for e in search.events() if type(e).__name__ == "Measured"]  # type: ignore[attr-defined]
        document = report(archive, search.run_id)
    assert [c.kernel.sha256 for c, _ in in_order(document.candidates)] == measured
    assert [c.kernel.sha256 for c in document.candidates if c.measured] != measured
    curve = [best.ratio for best in best_so_far(document.candidates) if best]
    assert curve == sorted(curve)
    assert len(curve) == 9
