"""A search whose measurements are made on another machine, in batches that are carried there and back.

    python benchmarks/live_search.py live --tasks TASK … --model openai:NAME --base-url URL
    python benchmarks/live_measure.py live/requests.json live/results_1.jsonl     # over there; and so on, in turn

A task is a path, a bundled name, or one of the pool's. Each is searched at the same number of measurements by every
arm: `cascade` lets forecasts choose what is measured, `everything` is the same search with forecasting off, and
`unaided` is that again with neither cards nor diagnosis in its prompts. Everything but measuring happens here, kernels
are compiled for the device without having it. A run that needs a result which is not there ends as a failed one, and is
resumed by the next call: no state lies outside of the archives. What the model is asked is sent to `--base-url`.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from forewarp.archive.pools.parquet import read_pool
from forewarp.archive.rows import RunRow
from forewarp.archive.store import Archive
from forewarp.core import serde
from forewarp.core.budget import Budget
from forewarp.core.errors import ForewarpError
from forewarp.core.protocols import Executor, Forecaster, Subject
from forewarp.core.values import Build, Candidate, Measurement, Signature, Target, Task
from forewarp.gpu_runner.devices import choose, known_targets
from forewarp.gpu_runner.executors.local import LocalExecutor
from forewarp.gpu_runner.formats import task as tasks
from forewarp.search import events
from forewarp.search.loop import Search
from forewarp.search.proposers.llm import KernelWriter
from forewarp.search.proposers.portfolio import Portfolio
from forewarp.search.proposers.tunables import TunablesProposer
from forewarp.search.settings import SearchSettings
from forewarp.surrogate import models
from forewarp.tools.session import make_forecaster

ARMS = ("cascade", "everything", "unaided")


class Awaited(ForewarpError):
    """A result is not there yet."""


class Elsewhere:
    """Compiles here; what is measured elsewhere is looked up by kernel and by how often it was measured before."""

    def __init__(
        self, compiler: Executor, signatures: Sequence[Signature], results: Mapping[str, Any], archive: Archive
    ) -> None:
        self._compiler, self._signatures, self._results, self._archive = compiler, tuple(signatures), results, archive
        self.run = ""
        self.beat: float | None = None

    @property
    def target(self) -> Target:
        """The device over there."""
        return self._compiler.target

    @property
    def devices(self) -> int:
        """One candidate at a time."""
        return 1

    def candidates(self, task: Task) -> None:
        """None: any candidate can be measured over there."""

    def describe(self, task: Task) -> tuple[Signature, ...]:
        """Return what was recorded over there."""
        return self._signatures

    def compile(self, task: Task, candidate: Candidate) -> Build:
        """Compile for the device over there."""
        return self._compiler.compile(task, candidate)

    def measure(
        self, task: Task, candidate: Candidate, build: Build, against: Subject | None = None, beat: float | None = None
    ) -> Measurement:
        """Return the result that was carried here; raises `Awaited` where there is none yet."""
        self.beat = beat
        key = request_key(self.run, candidate, times_measured(self._archive, self.run, candidate))
        if key not in self._results:
            raise Awaited(f"{key} is not measured yet", hint="measure what requests.json asks for, and run this again")
        return serde.from_data(Measurement, self._results[key])

    def close(self) -> None:
        """End the compilers."""
        self._compiler.close()


def request_key(run: str, candidate: Candidate, times: int) -> str:
    """Return the name of a measurement."""
    return f"{run}:{candidate.sha256}:{times}"


def times_measured(archive: Archive, run: str, candidate: Candidate) -> int:
    """Return how often the run has measured the candidate."""
    rows = archive.measurements(run=run, kernel=candidate.sha256)
    return sum(m.state == "done" for m in rows)


def settings(arm: str, args: argparse.Namespace) -> SearchSettings:
    """Return an arm's settings: the budget is the same."""
    budget = Budget(measurements=args.budget)
    common = {"seed": args.seed, "budget": budget, "holdout": False, "proposer": "llm+tunables", "patience": 0}
    if arm != "cascade":
        return SearchSettings(proposals_per_round=args.batch, measure_per_round=args.batch, **common)
    return SearchSettings(
        proposals_per_round=args.proposals,
        measure_per_round=args.batch,
        explore=args.explore,
        forecaster="cascade",
        **common,
    )


def one_run(
    task: Task, signatures: Sequence[Signature], target: Target, arm: str, args: argparse.Namespace
) -> list[dict[str, Any]]:
    """Take one run as far as it goes; returns what must be measured for it to go on."""
    model = None if args.model is None else models.resolve(args.model, args.base_url)
    if model is not None:
        writer = Portfolio([KernelWriter(model, aided=arm != "unaided")], TunablesProposer(), max_calls=args.calls)
    else:
        writer = TunablesProposer()
    forecaster: Forecaster | None = None
    if arm == "cascade":
        forecaster = make_forecaster("cascade" if model else "learned", model)
    path = args.folder / f"{task.name}-{arm}.db"
    with Archive(path) as archive:
        compiler = LocalExecutor(target, python=args.python)
        executor = Elsewhere(compiler, signatures, results(args.folder), archive)
        try:
            known = archive.runs(limit=1)
            if known and known[0].status == "finished":
                return []
            if known:
                search = Search.resume(archive, known[0].id, executor, writer, forecaster)
            else:
                search = Search.start(archive, task, executor, writer, forecaster, settings(arm, args))
            executor.run = search.run_id
            for event in search.events():
                log(task.name, arm, event)
        except Awaited:
            return asked(archive, archive.runs(limit=1)[0], executor.beat)
        finally:
            executor.close()
    return []


def asked(archive: Archive, run: RunRow, beat: float | None) -> list[dict[str, Any]]:
    """Return requests for all that the run has decided to measure and did not yet."""
    rows = archive.candidates(run.id)
    last = max(r.decided_round or 0 for r in rows)
    chosen = [r for r in rows if r.decided_round == last and r.decision and r.decision.action == "measure"]
    wanted = [r for r in chosen if r.measurement is None]
    # With every candidate measured, what is announced is the confirmation.
    again = [] if wanted else [m for m in archive.measurements(run=run.id) if m.state == "started"]
    found = [(r.candidate, beat) for r in wanted] + [(m.candidate, None) for m in again]
    return [
        {
            "key": request_key(run.id, c, times_measured(archive, run.id, c)),
            "task": serde.to_data(run.task),
            "candidate": serde.to_data(c),
            "beat": b,
        }
        for c, b in found
    ]


def results(folder: Path) -> dict[str, Any]:
    """Return what was measured over there, by key."""
    found: dict[str, Any] = {}
    for path in sorted(folder.glob("results*.jsonl")):
        for line in path.read_text().splitlines():
            entry = json.loads(line)
            if "key" in entry:
                found[entry["key"]] = entry["measurement"]
    return found


def log(task: str, arm: str, event: events.Event) -> None:
    """Say what happens, shortly."""
    if isinstance(event, events.Measured):
        speedup = "–" if event.speedup is None else f"{event.speedup:.3f}"
        print(
            f"{task} {arm}: {event.kernel[:10]} {event.verdict} {speedup}, best {event.best}",
            file=sys.stderr,
            flush=True,
        )
    elif isinstance(event, events.Rejected | events.Escalated | events.RunFinished | events.Alarmed):
        print(f"{task} {arm}: {str(event)[:300]}", file=sys.stderr, flush=True)


def tasks_of(args: argparse.Namespace) -> dict[str, tuple[Task, tuple[Signature, ...], Target]]:
    """Return the tasks with their signatures on the device, by name; those of the pool as it recorded them."""
    found: dict[str, tuple[Task, tuple[Signature, ...], Target]] = {}
    local = LocalExecutor(choose("cpu") if args.target == "cpu" else known_targets()[args.target])
    try:
        for name in args.tasks:
            if name in tasks.bundled() or Path(name).exists():
                task = tasks.load(name)
                found[task.name] = task, local.describe(task), local.target
    finally:
        local.close()
    if len(found) < len(args.tasks):
        for row in read_pool(args.pool):
            if row.task.name in args.tasks and row.signatures:
                found.setdefault(row.task.name, (row.task, row.signatures, row.target))
    return found


def main() -> None:
    """Take every run as far as it goes, and write what must be measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tasks", nargs="+", required=True)
    parser.add_argument("--pool", type=Path, default=Path("pool"))
    parser.add_argument("--arms", nargs="+", choices=ARMS, default=list(ARMS))
    parser.add_argument("--budget", type=int, default=20)
    parser.add_argument("--batch", type=int, default=5, help="measurements a round")
    parser.add_argument("--proposals", type=int, default=20, help="candidates a round where forecasts choose")
    parser.add_argument("--calls", type=int, default=4, help="kernels that the model writes a round, at most")
    parser.add_argument("--explore", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--target", default="h100", help="device of what the pool does not hold; cpu to try this out")
    parser.add_argument("--python", default=sys.executable, help="Python with the device's version of Triton")
    parser.add_argument("--model")
    parser.add_argument("--base-url", default="")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    begun = time.monotonic()
    known = tasks_of(args)
    jobs = [(*known[name], arm, args) for name in known for arm in args.arms]
    with ThreadPoolExecutor(len(jobs)) as workers:
        requests = [r for made in workers.map(lambda job: one_run(*job), jobs) for r in made]
    (args.folder / "requests.json").write_text(json.dumps(requests))
    print(f"{len(requests)} measurements are asked for, after {time.monotonic() - begun:.0f} s")


if __name__ == "__main__":
    main()
