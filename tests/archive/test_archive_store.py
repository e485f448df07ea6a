from __future__ import annotations

import json
import sqlite3
import threading
import zlib
from dataclasses import replace
from pathlib import Path

import pytest
from support import synthetic_executor as synthetic
from support.full_measurement import full_measurement

from forewarp.archive import samples
from forewarp.archive.store import MAX_LOG_CHARS, Archive
from forewarp.core import bins
from forewarp.core.budget import Spend
from forewarp.core.errors import ArchiveError, UsageError
from forewarp.core.protocols import Proposal
from forewarp.core.values import UNTRUSTED, Build, Cost, Decision, Forecast, Measurement

TASK = synthetic.task()
TARGET = synthetic.TARGET
KERNEL = synthetic.seed()
BUILD = Build("ok", 0.1, artefact="/tmp/a", binary_sha256="ab")
OK = Measurement("ok", "faster", "synthetic-1", "T0", speedup=2.0, low=1.9, high=2.1, device_s=0.5)
FAILED = Measurement("crashed", "failed", "synthetic-1", "T0", device_s=0.25)


@pytest.fixture
def archive(tmp_path: Path):
    with Archive(tmp_path / "deep" / "er" / "a.db") as opened:
        yield opened


@pytest.fixture
def run(archive: Archive) -> str:
    return archive.create_run(TASK, TARGET, {"seed": 3}, {"python": "3"})


def test_a_run_keeps_its_task_target_and_settings(archive: Archive, run: str) -> None:
    row = archive.run(run)
    assert row.task == TASK
    assert row.target == TARGET
    assert row.settings == {"seed": 3}
    assert row.status == "running"
    assert row.finished == ""
    assert archive.run(run[:5]).id == run
    archive.set_status(run, "finished", "done")
    assert archive.run(run).finished >= row.created
    assert [r.id for r in archive.runs(status="finished")] == [run]
    assert archive.runs(status="failed") == []


@pytest.mark.parametrize("name", ["r-nosuch", "", "%"])
def test_an_unknown_run_names_the_latest_ones(archive: Archive, run: str, name: str) -> None:
    with pytest.raises(UsageError, match=run):
        archive.run(name)


def test_the_way_of_a_candidate(archive: Archive, run: str) -> None:
    cost = Cost(1.0, 100, 50, 0.25)
    [proposal] = archive.add_proposals(run, 0, [Proposal(KERNEL, "tests", "parent", "note", cost)])
    archive.set_outcome(proposal, "passed", "", BUILD)
    early, late = (Forecast(bins.from_normal(x, 0.3), 0.9, "f", cost=cost) for x in (0.0, 1.0))
    archive.add_forecasts(run, 0, {proposal: early})
    archive.add_decisions(run, 0, {proposal: Decision("skip", "later", 0.1, {"gain": 0.1})})
    archive.add_forecasts(run, 1, {proposal: late})
    archive.add_decisions(run, 1, {proposal: Decision("measure", "now", 0.5, {"gain": 0.5})})
    number = archive.begin_measurement(TASK, TARGET, KERNEL, run=run, proposal=proposal, purpose="candidate")
    [row] = archive.candidates(run)
    assert (row.measurement_id, row.measurement) == (number, None)
    archive.finish_measurement(number, OK, BUILD)
    [row] = archive.candidates(run)
    assert row.candidate == KERNEL
    assert row.build == BUILD
    assert (row.forecast, row.forecast_round) == (late, 1)
    assert row.decision == Decision("measure", "now", 0.5, {"gain": 0.5})
    assert row.decided_round == 1
    assert row.measurement == OK
    assert [d.decision.action for d in archive.decisions(run)] == ["skip", "measure"]
    assert archive.spend(run) == Spend(1, 0.5, 0.75, 450, 0.0)
    best = archive.best(run)
    assert best is not None
    assert best.id == number


def test_an_unknown_price_adds_tokens_only(archive: Archive, run: str) -> None:
    archive.add_cost(run, Cost(1.0, 10, 5, None))
    assert archive.spend(run) == Spend(tokens=15)


def test_an_announced_measurement_is_booked_once(archive: Archive, run: str) -> None:
    [proposal] = archive.add_proposals(run, 0, [Proposal(KERNEL, "tests")])
    ids = [
        archive.begin_measurement(TASK, TARGET, KERNEL, run=run, proposal=proposal, purpose="candidate")
        for _ in range(3)
    ]
    assert len(set(ids)) == 1
    assert archive.spend(run).measurements == 1
    assert archive.spend(run, over=True).measurements == 0
    assert archive.trials(TASK.sha256, TARGET.name) == []


def test_a_result_is_never_changed_and_nothing_is_deleted(archive: Archive) -> None:
    number = archive.record(TASK, TARGET, KERNEL, BUILD, OK)
    with pytest.raises(ArchiveError, match="not waiting"):
        archive.finish_measurement(number, FAILED, BUILD)
    for statement in (
        "UPDATE measurement SET speedup = 9",
        "DELETE FROM measurement",
        "UPDATE spend SET amount = 0",
        "DELETE FROM spend",
    ):
        with pytest.raises(ArchiveError, match="never"):
            archive._write(statement)
    assert archive.measurement(number).measurement == OK


@pytest.mark.parametrize(
    "wrong",
    [replace(OK, speedup=None), replace(FAILED, speedup=1.0), replace(OK, low=None), replace(OK, speedup=-1.0)],
)
def test_a_result_that_contradicts_itself_is_refused_whole(archive: Archive, wrong: Measurement) -> None:
    with pytest.raises(ArchiveError, match="CHECK"):
        archive.record(TASK, TARGET, KERNEL, BUILD, wrong)
    assert archive.measurements() == []


def test_trials_of_one_run_or_of_all(archive: Archive, run: str) -> None:
    archive.record(TASK, TARGET, KERNEL, BUILD, FAILED)
    [proposal] = archive.add_proposals(run, 0, [Proposal(KERNEL, "tests")])
    number = archive.begin_measurement(TASK, TARGET, KERNEL, run=run, proposal=proposal, purpose="candidate")
    archive.finish_measurement(number, OK, BUILD)
    assert [t.measurement for t in archive.trials(TASK.sha256, TARGET.name)] == [FAILED, OK]
    assert [t.measurement for t in archive.trials(TASK.sha256, TARGET.name, run)] == [OK]
    assert archive.trials(TASK.sha256, "another") == []
    assert archive.candidate(KERNEL.short) == KERNEL
    with pytest.raises(UsageError, match="no kernel"):
        archive.candidate("zz")


def win(archive: Archive, run: str, results: list[Measurement]) -> Measurement | None:
    """Measure a candidate per result and return the best one."""
    kernels = [synthetic.seed(UNROLL=2**k) for k in range(len(results))]
    proposals = archive.add_proposals(run, 0, [Proposal(k, "tests") for k in kernels])
    for kernel, proposal, result in zip(kernels, proposals, results, strict=True):
        number = archive.begin_measurement(TASK, TARGET, kernel, run=run, proposal=proposal, purpose="candidate")
        archive.finish_measurement(number, result, BUILD)
    best = archive.best(run)
    return best.measurement if best else None


def test_untrusted_and_unbounded_results_do_not_win(archive: Archive, run: str) -> None:
    untrusted = [replace(OK, speedup=9.0, verdict=v) for v in UNTRUSTED]
    assert win(archive, run, [*untrusted, OK, replace(OK, speedup=8.0, low=None, high=None)]) == OK


def test_an_ambiguous_result_wins_only_where_there_is_no_other(archive: Archive, run: str) -> None:
    ambiguous = replace(OK, speedup=3.0, high=3.1, verdict="ambiguous")
    assert win(archive, run, [OK, ambiguous]) == OK
    other = archive.create_run(TASK, TARGET, {}, {})
    assert win(archive, other, [ambiguous]) == ambiguous


def test_measurements_against_a_kernel_stay_apart(archive: Archive, run: str) -> None:
    anchor = synthetic.seed(UNROLL=4)
    number = archive.begin_measurement(TASK, TARGET, KERNEL, against=anchor)
    with pytest.raises(ArchiveError, match="announced against"):
        archive.finish_measurement(number, OK, BUILD)
    archive.finish_measurement(number, replace(OK, anchor=anchor.sha256), BUILD)
    archive.record(TASK, TARGET, KERNEL, BUILD, FAILED)
    assert [r.anchor for r in archive.measurements()] == [anchor.sha256, "reference"]
    assert archive.candidate(anchor.sha256) == anchor
    assert [t.measurement for t in archive.trials(TASK.sha256, TARGET.name)] == [FAILED]
    assert [r.measurement for r in archive.recorded()] == [FAILED]
    with pytest.raises(ArchiveError, match="CHECK"):
        archive.begin_measurement(TASK, TARGET, KERNEL, run=run, against=anchor)


def test_every_field_comes_back_and_samples_take_little_room(archive: Archive) -> None:
    """As large as it gets: four workloads of 200 blocks, every series there is."""
    full = full_measurement()
    number = archive.record(TASK, TARGET, KERNEL, BUILD, full)
    assert archive.measurement(number).measurement == full
    assert [r.measurement for r in archive.recorded()] == [full]
    [listed] = archive.measurements()
    assert listed.measurement is not None
    assert [w.candidate_s for w in listed.measurement.workloads] == [()] * 4
    assert listed.measurement.workloads[0].control is not None
    assert replace(listed.measurement, workloads=()) == replace(full, workloads=())
    [size] = archive._rows("SELECT length(data) + length(samples) AS total FROM measurement")
    assert size["total"] < 100_000


def test_a_measurement_with_a_series_that_there_is_no_more_is_read(archive: Archive) -> None:
    full = full_measurement()
    data, packed = samples.split(full)
    assert packed is not None
    series = [s | {"reported_candidate_s": [7.9e-5]} for s in json.loads(zlib.decompress(packed))]
    assert samples.join(data, zlib.compress(json.dumps(series).encode())) == full


def test_long_logs_are_cut(archive: Archive) -> None:
    log = "x" * 100_000
    number = archive.record(TASK, TARGET, KERNEL, replace(BUILD, log=log), replace(OK, log=log))
    row = archive.measurement(number)
    assert row.build is not None
    assert row.measurement is not None
    assert len(row.build.log) == len(row.measurement.log) == MAX_LOG_CHARS


def test_an_error_takes_all_writes_of_the_transaction_back(archive: Archive, run: str) -> None:
    def both() -> None:
        with archive.transaction():
            archive.add_event(run, "A", {})
            archive.add_spend(run, "tokens", 5)
            raise KeyError

    with pytest.raises(KeyError):
        both()
    assert archive.events(run) == []
    assert archive.spend(run) == Spend()
    assert archive.add_event(run, "B", {"x": 1}) == 1
    assert [(e.seq, e.type, e.data) for e in archive.events(run)] == [(1, "B", {"x": 1})]
    assert archive.events(run, after=1) == []


def test_threads_share_one_archive(archive: Archive, run: str) -> None:
    def work() -> None:
        for _ in range(25):
            with archive.transaction():
                archive.add_event(run, "E", {})
                archive.add_spend(run, "tokens", 1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert [e.seq for e in archive.events(run)] == list(range(1, 101))
    assert archive.spend(run).tokens == 100


def test_two_connections_see_each_other(archive: Archive, run: str) -> None:
    with Archive(archive.path) as other:
        other.add_spend(run, "tokens", 7)
        assert archive.spend(run).tokens == 7
        assert isinstance(other, Archive)


def test_the_ledger_knows_its_currencies(archive: Archive, run: str) -> None:
    with pytest.raises(ArchiveError, match="CHECK"):
        archive.add_spend(run, "euros", 1)  # type: ignore[arg-type]
    with pytest.raises(ArchiveError, match="CHECK"):
        archive.add_spend(run, "tokens", -1)
    with pytest.raises(ArchiveError, match="FOREIGN"):
        archive.add_spend("r-000000", "tokens", 1)


def test_the_best_is_a_view(archive: Archive) -> None:
    with sqlite3.connect(archive.path) as db:
        kinds = dict(db.execute("SELECT name, type FROM sqlite_master WHERE type IN ('table', 'view')"))
    db.close()
    assert kinds["best"] == "view"
