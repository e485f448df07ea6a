from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from support import synthetic_executor as synthetic
from support.recorded_pool import Recorded, record

from forewarp.archive.store import Archive, default_path
from forewarp.core.errors import ModelError, TaskError, UsageError
from forewarp.core.protocols import Executor, Known, Proposal
from forewarp.core.values import Build, Candidate, Target, Task
from forewarp.gpu_runner.formats import candidate as candidates
from forewarp.gpu_runner.formats import task as tasks
from forewarp.search.events import Measured, RunFinished
from forewarp.tools import runs
from forewarp.tools.parts import Amounts, Place
from forewarp.tools.proposer import from_label, label
from forewarp.tools.run_report import best_so_far
from forewarp.tools.search import (
    Own,
    ResumeRequest,
    SearchRequest,
    open_search,
    resume_search,
    search,
    settings_of,
)
from forewarp.tools.session import Executors, reference_known, with_seeds

HERE = "http://127.0.0.1:1/v1"


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    return record(tmp_path_factory.mktemp("pool"))


def request(recorded: Recorded, **fields: object) -> SearchRequest:
    place = Place(device="replay", pool=recorded.pool)
    return SearchRequest(task=recorded.task, place=place, budget=Amounts(measurements=8)).model_copy(update=fields)


def test_a_whole_search_reports_its_winner_and_every_candidate(recorded: Recorded) -> None:
    seen: list[object] = []
    found = search(request(recorded), watch=seen.append)
    assert found.status == "finished"
    assert isinstance(seen[-1], RunFinished)
    assert sum(isinstance(e, Measured) for e in seen) == found.budget.spent.measurements == 8
    assert found.source == "replay"
    assert "replay" in found.summary
    assert found.counts.considered > 2 * found.counts.measured
    assert len(found.candidates) == found.counts.proposed
    assert found.best is not None
    curve = best_so_far(found.candidates)
    assert len(curve) == found.counts.measured
    assert max(b.ratio for b in curve if b) == found.best.speedup.ratio
    assert candidates.from_source(found.best.source, "cpp").tunables == found.best.kernel.tunables
    measured = [c for c in found.candidates if c.measured]
    assert all(c.forecast is not None and c.action == "measure" for c in measured)


def test_without_a_forecaster_everything_is_measured(recorded: Recorded) -> None:
    found = search(request(recorded, forecaster="none"))
    assert found.forecaster == ""
    assert found.counts.measured == 8
    assert all(c.forecast is None for c in found.candidates)


def test_the_same_seed_makes_the_same_choices(recorded: Recorded) -> None:
    first, second = (search(request(recorded, seed=3)) for _ in range(2))
    assert [c.kernel.sha256 for c in first.candidates] == [c.kernel.sha256 for c in second.candidates]


def test_a_stopped_run_is_resumed_with_its_spend(recorded: Recorded) -> None:
    with open_search(request(recorded)) as job:
        for event in job.events():
            if isinstance(event, Measured):
                job.stop()
        stopped = job.result()
    assert stopped.status == "interrupted"
    assert 0 < (stopped.budget.spent.measurements or 0) < 8
    assert "interrupted" in stopped.summary
    with pytest.raises(UsageError, match="--pool"), resume_search(ResumeRequest(run_id=job.run_id)):
        pass
    again = ResumeRequest(run_id=job.run_id, place=Place(pool=recorded.pool))
    with resume_search(again) as job:
        for _ in job.events():
            pass
        finished = job.result()
    assert (finished.status, finished.budget.spent.measurements) == ("finished", 8)
    assert runs.look(Place(), finished.run_id[:5]) == (finished, False)


def test_stopping_a_run_that_nobody_works_on_is_refused(recorded: Recorded) -> None:
    found = search(request(recorded))
    with pytest.raises(UsageError, match="nothing works on run"):
        runs.cancel(Place(), found.run_id)


def test_a_run_without_budget_is_refused(recorded: Recorded) -> None:
    with pytest.raises(UsageError, match="no cap"):
        search(request(recorded, budget=Amounts()))


def test_replay_without_a_pool_looks_up_what_comes_with_forewarp(recorded: Recorded) -> None:
    own = Place(device="replay")
    found = search(request(recorded, task="gelu_bias", place=own))
    assert found.source == "replay"
    assert found.device.name == "NVIDIA H200"
    with pytest.raises(TaskError, match="gelu_bias"):
        search(request(recorded, place=own))


def test_only_replay_takes_a_pool(recorded: Recorded) -> None:
    with pytest.raises(UsageError, match="only for replay"):
        search(request(recorded, place=Place(device="cpu", pool=recorded.pool)))


def test_a_model_without_key_is_refused_before_anything_is_spent(recorded: Recorded) -> None:
    with pytest.raises(ModelError, match="OPENAI_API_KEY"):
        search(request(recorded, model="openai:gpt-x"))


def test_dollars_cannot_be_capped_where_the_price_is_unknown(
    recorded: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "none")
    fields = {"model": "anthropic:no-such-model", "budget": Amounts(measurements=1, dollars=1.0)}
    with pytest.raises(UsageError, match=r"price of .* is unknown"):
        search(request(recorded, **fields))


def test_seeds_are_made_only_where_there_are_none(recorded: Recorded) -> None:
    bare, bundled = tasks.load(recorded.task), tasks.load("softmax")
    made = candidates.from_source("class ModelNew: ...", "python")
    make = partial(with_seeds, make=lambda _: [made], needed=True)
    assert make(bare, "cpu", (), None).seeds == (made,)
    assert make(bare, "cpu", (), "python").seeds == (made,)
    assert {s.language for s in make(bundled, "cpu", (), None).seeds} == {"cpp"}
    given = make(bundled, "cpu", (recorded.seed,), None)
    assert [s.source for s in given.seeds] == [Path(recorded.seed).read_text()]


def test_where_no_seed_can_be_made_it_says_what_to_pass(recorded: Recorded) -> None:
    bare = tasks.load(recorded.task)
    make = partial(with_seeds, make=lambda _: [], needed=True)
    with pytest.raises(UsageError, match=r"no cpp seed kernel") as caught:
        make(bare, "cpu", (), "cpp")
    assert caught.value.hint.startswith("leave --language out to start from code made of the reference, pass one with")
    with pytest.raises(UsageError, match="no cpp or python seed kernel"):
        make(tasks.load("examples/gpumode_vectoradd"), "cpu", (), None)
    given = partial(make, make=lambda _: [candidates.from_source("class ModelNew: ...", "python")])
    with pytest.raises(UsageError, match="cpp kernels cannot start a search in python"):
        given(bare, "cpu", (recorded.seed,), "python")  # the user's own replace all others
    with pytest.raises(UsageError, match="does not run on the cpu device"):
        make(bare, "cpu", (), "triton")


def test_a_compiler_that_fails_ends_only_what_has_no_other_way(recorded: Recorded) -> None:
    def fails(task: Task) -> list[Candidate]:
        raise TaskError(f"no compiler for {task.name}")

    bare = tasks.load(recorded.task)
    with pytest.raises(TaskError, match="no compiler"):
        with_seeds(bare, "cpu", (), None, make=fails, needed=True)
    assert with_seeds(bare, "cpu", (), None, make=fails, needed=False).seeds == ()


@pytest.mark.parametrize(
    ("models", "base_url", "replaying"),
    [([], None, False), ([], None, True), (["openai:m"], None, False), (["openai:m"], "http://h:1/v1", False)],
)
def test_a_label_tells_how_to_make_the_proposer_again(
    models: list[str], base_url: str | None, *, replaying: bool
) -> None:
    assert from_label(label(models, base_url, replaying=replaying)) == (models, base_url, replaying)


class Synthetic(Executors):
    """Always the synthetic device, for any task."""

    def get(self, place: Place, task: Task) -> Executor:
        return synthetic.SyntheticExecutor()


class Downwards:
    """Proposes one more power of two each time."""

    name = "downwards"

    def propose(self, task: Task, target: Target, known: Known, count: int, rng: random.Random) -> list[Proposal]:
        left = [synthetic.seed(TILE=2**k) for k in (9, 8, 7, 6, 5, 4)]
        return [Proposal(c, self.name) for c in left if c.sha256 not in known.seen][:count]


def settings(run: str) -> Mapping[str, Any]:
    with Archive(default_path()) as archive:
        return archive.run(run).settings


def toy(**fields: object) -> SearchRequest:
    return SearchRequest(task=synthetic.task(), budget=Amounts(measurements=5)).model_copy(update=fields)


def test_a_task_itself_is_searched_on_devices_that_are_kept_warm() -> None:
    found = search(toy(), own=Own(executors=Synthetic()))
    assert (found.task, found.budget.spent.measurements) == ("toy", 5)


def test_parts_of_ones_own_are_used_and_needed_again() -> None:
    own = Own(Downwards(), synthetic.KnowingForecaster(), Synthetic())
    with open_search(toy(), own) as job:
        for event in job.events():
            if isinstance(event, Measured):
                job.stop()
        stopped = job.result()
    assert (stopped.proposer, stopped.forecaster) == ("own downwards", "own knowing")
    assert {c.proposer for c in stopped.candidates} == {"downwards"}
    again = ResumeRequest(run_id=job.run_id)
    for given, says in ((Own(), "began with proposer downwards"), (Own(proposer=Downwards()), "forecaster knowing")):
        with pytest.raises(UsageError, match=says), resume_search(again, given):
            pass
    with (
        pytest.raises(UsageError, match="not with misleading"),
        resume_search(again, Own(Downwards(), synthetic.MisleadingForecaster())),
    ):
        pass
    with resume_search(again, own) as job:
        assert [type(e) for e in job.events()][-1] is RunFinished
        assert job.result().counts.measured > stopped.counts.measured


def test_several_models_share_a_run_and_are_made_again() -> None:
    models = ["openai:a", "openai:b", "openai:a"]
    given = toy(model=models, base_url=HERE, forecaster="cascade", forecast_model="openai:c")
    with open_search(given, Own(executors=Synthetic())) as job:
        kept = settings(job.run_id)
    assert (kept["proposer"], kept["forecaster"]) == (f"llm openai:a,openai:b {HERE}", "cascade openai:c")
    assert (kept["proposals_per_round"], kept["measure_per_round"]) == (12, 3)
    with resume_search(ResumeRequest(run_id=job.run_id), Own(executors=Synthetic())) as job:
        assert job.search.settings.proposer == kept["proposer"]


def test_the_first_model_forecasts_unless_another_is_named() -> None:
    assert settings_of(toy(model=["openai:a", "openai:b"], forecaster="llm")).forecaster == "llm"
    own = Own(proposer=Downwards())
    assert settings_of(toy(model="openai:a", forecaster="cascade"), own).forecaster == "cascade openai:a"


def test_a_run_knows_the_reference_s_time_from_earlier_ones() -> None:
    with open_search(toy(), Own(executors=Synthetic())) as job:
        task, target = job.archive.run(job.run_id).task, job.archive.run(job.run_id).target
        assert reference_known(job.archive, task, target) == {}
        for _ in job.events():
            pass
        timed = job.archive.trials(task.sha256, target.name)[-1].measurement
        known = reference_known(job.archive, task, target)
        assert set(known) == {w.workload for w in timed.workloads} != set()
        # Times with another torch are those of another reference.
        newer = replace(
            timed,
            environment={"torch": "99"},
            workloads=tuple(replace(w, anchor_median_s=9.0) for w in timed.workloads),
        )
        job.archive.record(task, target, synthetic.seed(), Build("ok", 0.0), newer)
        assert set(reference_known(job.archive, task, target).values()) == {9.0}


@pytest.mark.parametrize(
    ("fields", "own", "says"),
    [
        ({"forecast_model": "openai:a"}, Own(), "never be asked"),
        ({"model": "openai:a"}, Own(proposer=Downwards()), "never be asked"),
        ({"budget": Amounts(measurements=5, dollars=1.0)}, Own(), "a cap on dollars"),
        ({"budget": Amounts(measurements=5, tokens=1, dollars=1.0)}, Own(), "dollars and tokens"),
        ({"base_url": HERE}, Own(), "needs a model"),
    ],
)
def test_what_would_do_nothing_is_refused(fields: dict[str, object], own: Own, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        search(toy(**fields), own=own)


def test_a_proposer_of_ones_own_may_spend_dollars() -> None:
    settings_of(toy(budget=Amounts(dollars=1.0)), Own(proposer=Downwards()))
