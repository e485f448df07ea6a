from __future__ import annotations

import random
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from support.clock import timed
from support.synthetic_executor import (
    BEST,
    SOURCE,
    TARGET,
    KnowingForecaster,
    MisleadingForecaster,
    SyntheticExecutor,
    log2_speedup,
    seed,
    task,
)

from forewarp.archive.store import Archive
from forewarp.core.budget import Budget
from forewarp.core.errors import ForewarpError, UsageError
from forewarp.core.protocols import Forecaster, Known, Proposal, Proposer, Subject, Trial
from forewarp.core.values import Build, Candidate, Cost, Forecast, Measurement, Target, Task, Verdict
from forewarp.gpu_runner.formats import plan as plans
from forewarp.search import events as kinds
from forewarp.search.loop import Search
from forewarp.search.proposers.recorded import PoolProposer
from forewarp.search.proposers.tunables import TunablesProposer
from forewarp.search.settings import SearchSettings
from forewarp.tools.describe import latest_runs
from forewarp.tools.parts import Place


@pytest.fixture
def archive(tmp_path: Path):
    with Archive(tmp_path / "a.db") as opened:
        yield opened


def begin(
    archive: Archive,
    forecaster: Forecaster | None = None,
    proposer: Proposer | None = None,
    executor: SyntheticExecutor | None = None,
    of: Task | None = None,
    **settings: object,
) -> Search:
    chosen = replace(SearchSettings(budget=Budget(measurements=12)), **settings)  # type: ignore[arg-type]
    return Search.start(
        archive, of or task(), executor or SyntheticExecutor(), proposer or TunablesProposer(), forecaster, chosen
    )


def every_kernel() -> list[Candidate]:
    return [Candidate(SOURCE, "cpp", t) for t in plans.parse(seed()).combinations()]


class Listed:
    """Proposes what it is given, in order, whatever was seen."""

    name = "listed"

    def __init__(self, *rounds: Sequence[Candidate], cost: Cost | None = None) -> None:
        self.rounds, self.cost, self.known = [list(r) for r in rounds], cost or Cost(), list[Known]()

    def propose(self, task: Task, target: Target, known: Known, count: int, rng: random.Random) -> list[Proposal]:
        self.known.append(replace(known, attempts=list(known.attempts), trials=list(known.trials)))
        batch = self.rounds.pop(0) if self.rounds else []
        return [Proposal(c, self.name, cost=self.cost) for c in batch]


def test_finds_the_top_with_few_measurements(archive: Archive) -> None:
    search = begin(archive, KnowingForecaster(), budget=Budget(measurements=15))
    summary = search.run()
    assert summary.status == "finished"
    assert summary.reason == "the budget of 15 measurements is spent"
    assert summary.spend.measurements == 15
    assert summary.measured == 14
    assert summary.considered > 3 * summary.measured
    assert summary.best is not None
    assert summary.best.confirmed
    assert log2_speedup(summary.best.candidate) > 1.7
    assert summary.best.low < summary.best.speedup < summary.best.high


def test_the_event_table_holds_what_was_yielded(archive: Archive) -> None:
    search = begin(archive, KnowingForecaster())
    yielded = list(search.events())
    stored = [kinds.from_data(e.type, e.data) for e in archive.events(search.run_id)]
    assert stored == yielded
    assert isinstance(yielded[0], kinds.RunStarted)
    assert isinstance(yielded[-1], kinds.RunFinished)
    assert yielded[-1].spend.measurements == 12
    assert all(e.run == search.run_id for e in yielded)
    assert kinds.to_data(yielded[-1])["type"] == "RunFinished"
    told = [type(e).__name__ for e in yielded]
    assert told.count("Measuring") == told.count("Measured") == 12
    assert told.count("Proposed") == told.count("Accepted") + told.count("Rejected")


def test_a_search_is_begun_once(archive: Archive) -> None:
    search = begin(archive)
    before = search.run()
    with pytest.raises(UsageError, match="begun before"):
        search.run()
    assert search.summary() == before


def test_without_a_forecaster_everything_is_measured_in_the_order_proposed(archive: Archive) -> None:
    search = begin(archive, budget=Budget(measurements=9), proposals_per_round=4, confirm=False)
    search.run()
    passed = [r.candidate.sha256 for r in archive.candidates(search.run_id) if r.outcome == "passed"]
    assert [m.candidate.sha256 for m in archive.measurements(run=search.run_id)] == passed[:9]


def test_baseline_and_cascade_see_the_same_proposals(archive: Archive) -> None:
    kernels = every_kernel()
    streams: list[list[str]] = []
    for forecaster in (None, KnowingForecaster(), MisleadingForecaster()):
        search = begin(archive, forecaster, PoolProposer(kernels), proposals_per_round=5, seed=3)
        search.run()
        streams.append([r.candidate.sha256 for r in archive.candidates(search.run_id)])
    shared = min(map(len, streams))
    assert shared >= 10
    assert streams[0][:shared] == streams[1][:shared] == streams[2][:shared]
    first_rounds = []
    for forecaster in (None, KnowingForecaster()):
        search = begin(archive, forecaster, seed=4)
        search.run()
        first_rounds.append([r.candidate.sha256 for r in archive.candidates(search.run_id) if r.round == 0])
    assert first_rounds[0] == first_rounds[1]


def test_the_same_seed_gives_the_same_run_and_another_one_another(archive: Archive) -> None:
    def kernels(seed: int) -> list[str]:
        search = begin(archive, KnowingForecaster(), seed=seed)
        search.run()
        return [m.candidate.sha256 for m in archive.measurements(run=search.run_id)]

    assert kernels(1) == kernels(1)
    assert kernels(1) != kernels(2)


def test_nothing_is_measured_or_compiled_twice(archive: Archive) -> None:
    a, b = seed(), seed(UNROLL=4)
    commented = Candidate(SOURCE.replace("{ y[0]", "{ /* faster! */ y[0]"), "cpp", a.tunables)
    executor = SyntheticExecutor()
    proposer = Listed([a, commented, a, b, seed(UNUSED=1)], [a, commented, seed(UNROLL=4, UNUSED=1)], [a], [b])
    search = begin(archive, None, proposer, executor, confirm=False, proposals_per_round=5)
    summary = search.run()
    assert [c.sha256 for c in executor.measured] == [a.sha256, b.sha256]
    assert max(executor.compiled.values()) == 1
    assert summary.rejected == {"duplicate": 6, "same_code": 2}
    reasons = [r.reason for r in archive.candidates(search.run_id) if r.outcome == "same_code"]
    assert reasons == [f"compiles to the same code as {c.short}" for c in (a, b)]


def test_rejects_say_why_and_proposers_learn_from_compile_errors(archive: Archive) -> None:
    broken = seed(SOURCE.replace("extern", "#error\nextern"))
    unplanned = Candidate('extern "C" void go();', "cpp")
    outside = seed(TILE=512, UNROLL=16)
    proposer = Listed([seed(), broken, unplanned, outside], [seed(UNROLL=2)])
    search = begin(archive, None, proposer, proposals_per_round=4)
    summary = search.run()
    assert summary.rejected == {"malformed": 2, "compile_error": 1}
    rows = {r.candidate.sha256: r for r in archive.candidates(search.run_id)}
    assert "no such instruction" in rows[broken.sha256].reason
    assert "no launch plan" in rows[unplanned.sha256].reason
    assert "constraints" in rows[outside.sha256].reason
    assert [t.measurement.status for t in proposer.known[1].trials] == ["ok"]
    attempts = proposer.known[1].attempts
    assert [a.outcome for a in attempts] == ["passed", "compile_error", "malformed", "malformed"]
    assert attempts[1].build is not None
    assert "no such instruction" in attempts[1].build.log


def test_failing_kernels_are_counted_and_never_win(archive: Archive) -> None:
    wrong, crash = (Candidate(SOURCE.replace("go(", f"go_{word}("), "cpp", BEST) for word in ("wrong", "crash"))
    summary = begin(archive, None, Listed([wrong, crash, seed()])).run()
    assert summary.failures == {"incorrect": 1, "crashed": 1}
    assert summary.best is not None
    assert summary.best.candidate == seed()


def test_a_run_in_which_nothing_works_has_no_winner(archive: Archive) -> None:
    wrong = Candidate(SOURCE.replace("go(", "go_wrong("), "cpp", BEST)
    summary = begin(archive, KnowingForecaster(), Listed([wrong])).run()
    assert summary.best is None
    assert summary.measured == 1
    assert summary.reason == "there are no more candidates"


@pytest.mark.parametrize(
    ("budget", "currency"),
    [
        (Budget(measurements=5), "measurements"),
        (Budget(device_s=2.0), "device_s"),
        (Budget(dollars=0.3), "dollars"),
        (Budget(tokens=2000), "tokens"),
        (Budget(wall_s=2.0), "wall_s"),
    ],
)
def test_each_currency_ends_the_run(
    archive: Archive, monkeypatch: pytest.MonkeyPatch, budget: Budget, currency: str
) -> None:
    class Paid(TunablesProposer):
        def propose(
            self,
            task: Task,
            target: Target,
            known: Known,
            count: int,
            rng: random.Random,
        ) -> list[Proposal]:
            made = super().propose(task, target, known, count, rng)
            return [replace(p, cost=Cost(0.1, 100, 20, 0.02)) for p in made]

    device = timed(monkeypatch)
    search = begin(archive, KnowingForecaster(), Paid(), device, budget=budget, proposals_per_round=6)
    told = list(search.events())
    cap, spent = getattr(budget, currency), getattr(archive.spend(search.run_id), currency)
    # The last step may overshoot: one measurement, or one round of proposals.
    step = {"measurements": 0, "device_s": 0.5, "dollars": 0.12, "tokens": 720, "wall_s": 0.5}[currency]
    assert cap <= spent <= cap + step
    assert "is spent" in search.summary().reason
    warned = [e for e in told if isinstance(e, kinds.BudgetWarning)]
    assert {w.currency for w in warned} == {currency}
    if currency == "measurements":
        assert [(w.spent, w.share) for w in warned] == [(3, 0.5), (4, 0.8)]


def test_forecasts_cost_budget_too(archive: Archive) -> None:
    class Paid(KnowingForecaster):
        def _one(self, candidate: Candidate) -> Forecast:
            return replace(super()._one(candidate), cost=Cost(0.1, 90, 10, 0.01))

    summary = begin(archive, Paid(), budget=Budget(tokens=5000), proposals_per_round=10, reconsider=0).run()
    assert summary.spend.tokens >= 5000
    assert summary.spend.dollars == pytest.approx(summary.spend.tokens * 1e-4)


def test_a_forecast_that_was_paid_for_is_not_bought_again(archive: Archive) -> None:
    class Counting(KnowingForecaster):
        price = 0

        def forecast(
            self, task: Task, target: Target, subjects: Sequence[Subject], history: Sequence[Trial]
        ) -> list[Forecast]:
            self.asked = [*getattr(self, "asked", []), *(s.candidate.sha256 for s in subjects)]
            made = super().forecast(task, target, subjects, history)
            return [replace(f, cost=Cost(input_tokens=self.price)) for f in made]

    class Paid(Counting):
        price = 100

    free, paid = Counting(), Paid()
    results = [begin(archive, forecaster).run() for forecaster in (free, paid)]
    assert len(paid.asked) == len(set(paid.asked))
    assert len(free.asked) > len(set(free.asked))
    # Both forecasters say the same whenever they are asked, so the old forecasts lead to the same choices.
    assert measured_of(archive, results[0].run) == measured_of(archive, results[1].run)


def measured_of(archive: Archive, run: str) -> list[Candidate]:
    return [r.candidate for r in archive.candidates(run) if r.measurement]


def test_a_finite_space_is_used_up(archive: Archive) -> None:
    small = seed(SOURCE.replace("[64, 16, 32, 128, 256, 512]", "[64, 128]").replace("[4, 1, 2, 8]", "[4]"))
    summary = begin(
        archive, KnowingForecaster(), of=task(small), budget=Budget(measurements=100), min_improvement=0.0
    ).run()
    assert summary.reason == "there are no more candidates"
    assert summary.proposed == 2 * 5 * 2
    assert summary.measured == 2 * 5
    assert summary.best is not None
    assert summary.best.confirmed


def test_without_reconsidering_a_skip_is_final(archive: Archive) -> None:
    kernels = every_kernel()[:20]
    settings = {
        "proposals_per_round": 10,
        "measure_per_round": 3,
        "audit": 0.0,
        "confirm": False,
        "min_improvement": 0.0,
        "budget": Budget(measurements=100),
    }
    final = begin(archive, KnowingForecaster(), Listed(kernels[:10], kernels[10:]), reconsider=0, **settings).run()
    assert final.measured == 6
    assert final.reason == "there are no more candidates"
    again = begin(archive, KnowingForecaster(), Listed(kernels[:10], kernels[10:]), **settings).run()
    assert again.measured == again.considered


def test_a_proposer_that_only_repeats_itself_ends_the_run(archive: Archive) -> None:
    summary = begin(archive, None, Listed(*[[seed()]] * 30)).run()
    assert summary.reason == "nothing passed the gate in 10 rounds"
    assert max(r.round for r in archive.candidates(summary.run)) < 15


def test_the_forecaster_learns_from_its_own_run(archive: Archive) -> None:
    begin(archive, KnowingForecaster()).run()
    alone = KnowingForecaster()
    begin(archive, alone).run()
    assert alone.histories[0] == 0
    assert alone.histories == sorted(alone.histories)


def test_forecast_rows_hold_forecasts_made_before(archive: Archive) -> None:
    class Growing(KnowingForecaster):
        """Says how many trials it had seen."""

        def forecast(
            self, task: Task, target: Target, subjects: Sequence[Subject], history: Sequence[Trial]
        ) -> list[Forecast]:
            made = super().forecast(task, target, subjects, history)
            return [replace(f, rationale=str(len(history))) for f in made]

    search = begin(archive, Growing())
    summary = search.run()
    measured = [r for r in archive.candidates(search.run_id) if r.forecast and r.measurement]
    assert len(measured) == summary.measured
    order = {m.candidate.sha256: place for place, m in enumerate(archive.measurements(run=search.run_id))}
    for row in measured:
        assert row.forecast is not None
        assert int(row.forecast.rationale) <= order[row.candidate.sha256]


def test_the_confirmation_is_recorded_and_reported(archive: Archive) -> None:
    class Lucky(SyntheticExecutor):
        """Every first measurement is 20 % too good."""

        def measure(
            self,
            task: Task,
            candidate: Candidate,
            build: Build,
            against: Subject | None = None,
            beat: float | None = None,
        ) -> Measurement:
            first = candidate not in self.measured
            m = super().measure(task, candidate, build, against, beat)
            s = m.speedup
            return replace(m, speedup=s * 1.2, high=s * 1.25) if first and s else m

    search = begin(archive, KnowingForecaster(), executor=Lucky())
    summary = search.run()
    assert summary.best is not None
    assert summary.best.confirmed
    assert summary.best.first_speedup == pytest.approx(1.2 * summary.best.speedup)
    purposes = [m.purpose for m in archive.measurements(run=search.run_id)]
    assert purposes == ["candidate"] * 11 + ["confirm"]
    assert summary.spend.measurements == 12
    last = list(archive.events(search.run_id))[-1]
    assert last.data["best"] == summary.best.speedup


def test_a_winner_that_fails_its_confirmation_is_out(archive: Archive) -> None:
    class Once(SyntheticExecutor):
        def measure(
            self,
            task: Task,
            candidate: Candidate,
            build: Build,
            against: Subject | None = None,
            beat: float | None = None,
        ) -> Measurement:
            again = candidate in self.measured
            m = super().measure(task, candidate, build, against, beat)
            return Measurement("incorrect", "incorrect", TARGET.name, "T0") if again else m

    summary = begin(archive, KnowingForecaster(), executor=Once(), early_stop=False).run()
    assert summary.best is not None
    assert not summary.best.confirmed
    assert "failed its confirmation" in summary.note
    speeds = sorted(r.measurement.speedup or 0 for r in archive.candidates(summary.run) if r.measurement)
    assert summary.best.speedup == speeds[-2]
    [listed] = latest_runs(Place(device="cpu", archive=str(archive.path)))
    assert listed.best is not None
    assert listed.best.ratio == summary.best.speedup


class Doubtful(SyntheticExecutor):
    """Gives the candidates of the listed ranks (0 is the first measured) another verdict and a great speed-up."""

    def __init__(self, verdicts: dict[int, Verdict]) -> None:
        super().__init__()
        self.verdicts = verdicts

    def measure(
        self,
        task: Task,
        candidate: Candidate,
        build: Build,
        against: Subject | None = None,
        beat: float | None = None,
    ) -> Measurement:
        verdict = self.verdicts.get(len(self.measured))
        m = super().measure(task, candidate, build, against, beat)
        return m if verdict is None else replace(m, verdict=verdict, speedup=20.0, low=19.0, high=21.0)


FOUR = [seed(TILE=t) for t in (16, 32, 64, 128)]


def test_neither_untrusted_nor_ambiguous_numbers_win_over_a_plain_one(archive: Archive) -> None:
    executor = Doubtful({0: "suspicious", 1: "impossible", 2: "ambiguous"})
    summary = begin(archive, None, Listed(FOUR), executor, budget=Budget(measurements=5)).run()
    assert summary.measured == 4
    assert summary.best is not None
    assert (summary.best.candidate, summary.best.verdict, summary.best.confirmed) == (FOUR[3], "faster", True)


def test_an_ambiguous_number_wins_only_where_there_is_no_other(archive: Archive) -> None:
    executor = Doubtful({0: "suspicious", 1: "ambiguous"})
    search = begin(archive, None, Listed(FOUR[:2]), executor, budget=Budget(measurements=2), confirm=False)
    summary = search.run()
    assert summary.best is not None
    assert (summary.best.candidate, summary.best.verdict) == (FOUR[1], "ambiguous")
    from forewarp.tools.run_report import best_so_far, report

    found = report(archive, search.run_id)
    assert "keep the reference" in found.summary
    assert [b.ratio if b else None for b in best_so_far(found.candidates)] == [None, 20.0]


def test_untrusted_and_ambiguous_audits_are_no_false_discards(archive: Archive) -> None:
    class Everything(Doubtful):
        def measure(
            self,
            task: Task,
            candidate: Candidate,
            build: Build,
            against: Subject | None = None,
            beat: float | None = None,
        ) -> Measurement:
            m = super().measure(task, candidate, build, against, beat)
            doubtful = m.status == "ok" and log2_speedup(candidate) > 0.5
            return replace(m, verdict="ambiguous") if doubtful else m

    settings = {"budget": Budget(measurements=25), "audit": 1.0, "audit_budget": 1.0}
    # One that is honest about how little it knows raises no alarm.
    doubtful = begin(archive, KnowingForecaster(error=2.0), executor=Everything({}), **settings).run()
    plain = begin(archive, KnowingForecaster(error=2.0), **settings).run()
    assert plain.false_discards is not None
    assert doubtful.false_discards is not None
    assert plain.false_discards.false > doubtful.false_discards.false


def test_a_budget_of_one_measurement_is_spent_on_a_candidate(archive: Archive) -> None:
    summary = begin(archive, KnowingForecaster(), budget=Budget(measurements=1)).run()
    assert summary.measured == 1
    assert summary.best is not None
    assert not summary.best.confirmed


def test_stop_from_another_thread_finishes_the_measurement(archive: Archive) -> None:
    inside, go_on = threading.Event(), threading.Event()

    class Slow(SyntheticExecutor):
        def measure(
            self,
            task: Task,
            candidate: Candidate,
            build: Build,
            against: Subject | None = None,
            beat: float | None = None,
        ) -> Measurement:
            inside.set()
            assert go_on.wait(60)
            return super().measure(task, candidate, build, against, beat)

    search = begin(archive, KnowingForecaster(), executor=Slow())
    worker = threading.Thread(target=search.run)
    worker.start()
    assert inside.wait(60)
    search.stop()
    go_on.set()
    worker.join()
    summary = search.summary()
    assert summary.status == "interrupted"
    assert summary.measured == summary.spend.measurements == 1


def test_a_run_whose_forecaster_miscounts_has_failed(archive: Archive) -> None:
    class Short(KnowingForecaster):
        def forecast(
            self, task: Task, target: Target, subjects: Sequence[Subject], history: Sequence[Trial]
        ) -> list[Forecast]:
            return super().forecast(task, target, subjects, history)[1:]

    search = begin(archive, Short())
    with pytest.raises(ForewarpError, match="7 forecasts where"):
        search.run()
    assert search.summary().status == "failed"


@pytest.mark.parametrize(
    "settings",
    [
        {"budget": Budget()},
        {"proposals_per_round": 0},
        {"measure_per_round": 0},
        {"audit": 1.5},
        {"explore": -1},
    ],
)
def test_settings_that_make_no_sense(archive: Archive, settings: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        begin(archive, **settings)  # type: ignore[arg-type]
    assert archive.runs() == []
