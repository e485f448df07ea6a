from __future__ import annotations

from pathlib import Path

from support.synthetic_executor import SyntheticExecutor, task

from forewarp.archive.store import Archive
from forewarp.core import bins
from forewarp.core.budget import Budget
from forewarp.search.loop import Search
from forewarp.search.proposers.tunables import TunablesProposer
from forewarp.search.settings import SearchSettings
from forewarp.training.examples import examples


def test_an_example_knows_what_was_measured_before_it_and_nothing_after(tmp_path: Path) -> None:
    with Archive(tmp_path / "a.db") as archive:
        settings = SearchSettings(budget=Budget(measurements=6))
        Search.start(archive, task(), SyntheticExecutor(), TunablesProposer(), None, settings).run()
        rows = list(examples(archive))
    # Five candidates and one confirmation, which is no example.
    assert len(rows) == len({r["kernel"] for r in rows}) == 5
    shown = [r["prompt"].count("Measured: S =") for r in rows]
    assert shown == [0, 1, 2, 3, 4]
    for row in rows:
        assert row["speedup"] is not None
        assert row["bin"] == bins.bin_of(row["speedup"])
        assert row["source"] == "measured"
        assert "severe slow-down" in row["system"]
