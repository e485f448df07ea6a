from __future__ import annotations

from pathlib import Path

import pytest
from contracts.forecaster_contract import TARGET, TASK, failed, measured, subject

from forewarp.archive.store import Archive
from forewarp.core import bins
from forewarp.core.errors import UsageError
from forewarp.core.protocols import Proposal
from forewarp.core.values import Build, Forecast, KernelPlan, Measurement, RatedPlan
from forewarp.tools.evaluate import EvaluateRequest, evaluate

OUTCOMES = {16: (2.0, measured(2.1)), 32: (1.2, measured(0.6)), 64: (3.0, failed()), 128: (1.0, None)}
"""By the block of a kernel: the speed-up forecast of its plan, and what came of it."""


def planned(block: int, median: float) -> Proposal:
    p = [0.0] * bins.COUNT
    p[bins.bin_of(median)] = 1.0
    rated = RatedPlan(KernelPlan(f"reach {median}", "fewer bytes", "spills"), Forecast(tuple(p), 0.7, "plans:m"))
    return Proposal(subject(block).candidate, "llm:m", plan=rated)


@pytest.fixture
def archive(tmp_path: Path) -> str:
    path = tmp_path / "archive.db"
    with Archive(path) as opened:
        run = opened.create_run(TASK, TARGET, {}, {}, "")
        unplanned = Proposal(subject(256).candidate, "tunables")
        proposals = [*(planned(block, median) for block, (median, _) in OUTCOMES.items()), unplanned]
        results: list[Measurement | None] = [*(m for _, m in OUTCOMES.values()), measured(1.0)]
        ids = opened.add_proposals(run, 0, proposals)
        for number, proposal, result in zip(ids, proposals, results, strict=True):
            if result is not None:
                started = opened.begin_measurement(
                    TASK, TARGET, proposal.candidate, run=run, proposal=number, purpose="candidate"
                )
                opened.finish_measurement(started, result, Build("ok", 0.0))
    return str(path)


def test_plans_are_judged_by_the_kernels_that_were_written_from_them(archive: str) -> None:
    found = evaluate(EvaluateRequest(what="plans", archive=archive, resamples=20))
    assert (found.rows, found.valid, found.split) == (3, 2, "plans")
    (scores,) = found.forecasters
    assert scores.name == "plans"
    assert scores.figures["exact"].value == 0.5
    assert scores.figures["pairwise"].value == 1.0


def test_a_plan_is_kept_with_its_proposal(archive: str) -> None:
    with Archive(archive) as opened:
        (run,) = opened.runs()
        rows = opened.candidates(run.id)
    assert [r.plan for r in rows] == [planned(b, m).plan for b, (m, _) in OUTCOMES.items()] + [None]


def test_pools_have_no_plans(archive: str) -> None:
    with pytest.raises(UsageError, match="plans are judged as an archive holds them"):
        evaluate(EvaluateRequest(what="plans", archive=archive, pools=["pool"]))
    with pytest.raises(UsageError, match="no kernel of this archive was written from a plan"):
        evaluate(EvaluateRequest(what="plans", archive=archive, tasks=["another"]))
