from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.synthetic_executor import KnowingForecaster, SyntheticExecutor, task

from forewarp.archive.store import Archive
from forewarp.core import serde
from forewarp.core.budget import Budget
from forewarp.core.values import Comparison, Measurement
from forewarp.search.holdout import Generalises, Holdout, HoldoutShape
from forewarp.search.loop import Search
from forewarp.search.proposers.tunables import TunablesProposer
from forewarp.search.settings import SearchSettings
from forewarp.tools.run_report import best_so_far, in_order, report


def test_the_curve_follows_the_order_of_measuring_not_of_proposing(tmp_path: Path) -> None:
    with Archive(tmp_path / "a.db") as archive:
        settings = SearchSettings(budget=Budget(measurements=9), measure_per_round=3, confirm=False)
        search = Search.start(archive, task(), SyntheticExecutor(), TunablesProposer(), KnowingForecaster(), settings)
        measured = [e.kernel for e in search.events() if type(e).__name__ == "Measured"]  # type: ignore[attr-defined]
        document = report(archive, search.run_id)
    assert [c.kernel.sha256 for c, _ in in_order(document.candidates)] == measured
    assert [c.kernel.sha256 for c in document.candidates if c.measured] != measured
    curve = [best.ratio for best in best_so_far(document.candidates) if best]
    assert curve == sorted(curve)
    assert len(curve) == 9


def summary_of_a_search(tmp_path: Path, executor: SyntheticExecutor, *, measurements: int) -> str:
    with Archive(tmp_path / "a.db") as archive:
        settings = SearchSettings(budget=Budget(measurements=measurements))
        search = Search.start(archive, task(), executor, TunablesProposer(), KnowingForecaster(), settings)
        search.run()
        return report(archive, search.run_id).summary


class LoudExecutor(SyntheticExecutor):
    """One on whose device equal kernels come out up to 150 % apart."""

    def measure(self, *args: Any, **kwargs: Any) -> Measurement:
        found = super().measure(*args, **kwargs)
        control = Comparison(1.0, 0.9, 2.5, 1.0, 1.0)
        return replace(found, workloads=tuple(replace(w, control=control) for w in found.workloads))


def test_a_winner_among_equal_kernels_far_apart_is_to_be_measured_again(tmp_path: Path) -> None:
    summary = summary_of_a_search(tmp_path, LoudExecutor(), measurements=9)
    assert "equal kernels came out up to 150 % apart, and above 50 % no time is believed; measure again on" in summary
    assert "use it" not in summary


class DoubtingExecutor(SyntheticExecutor):
    """One on which no time is believed."""

    def measure(self, *args: Any, **kwargs: Any) -> Measurement:
        found = super().measure(*args, **kwargs)
        return replace(found, verdict="suspicious", log="works before its calls: it was ready late")


def test_it_is_said_why_nothing_is_trusted(tmp_path: Path) -> None:
    summary = summary_of_a_search(tmp_path, DoubtingExecutor(), measurements=3)
    assert summary.startswith("No correct and trusted candidate for")
    assert "is suspicious: works before its calls: it was ready late" in summary


@pytest.mark.parametrize(
    ("generalises", "said", "advice"),
    [
        ("yes", "correct on 1 near shape", "use it; correct on 1 near shape."),
        ("no", "wrong on N=17: use only behind a shape guard", "measurement; wrong on N=17: use only behind"),
    ],
)
def test_the_advice_tells_of_shapes_that_nobody_tuned_for(
    tmp_path: Path, generalises: Generalises, said: str, advice: str
) -> None:
    with Archive(tmp_path / "a.db") as archive:
        settings = SearchSettings(budget=Budget(measurements=9))
        search = Search.start(archive, task(), SyntheticExecutor(), TunablesProposer(), KnowingForecaster(), settings)
        search.run()
        before = report(archive, search.run_id)
        assert before.best is not None
        (signature,) = SyntheticExecutor().describe(task())
        status = "ok" if generalises == "yes" else "incorrect"
        shape = HoldoutShape("N=17", "small", {"N": 17}, {"N": (16, 17)}, status, signature, "faster", 2.0, 1.9, 2.1)
        found = serde.to_data(Holdout((shape,), generalises, 1.0, said))
        archive.add_holdout(search.run_id, before.best.kernel.sha256, found)
        after = report(archive, search.run_id)
    assert advice in after.summary
    assert after.holdout is not None
    assert (after.holdout.generalises, after.holdout.shapes[0].origin) == (generalises, "small")
    assert str(after.holdout.shapes[0].speedup) == "2× [1.9, 2.1]"
