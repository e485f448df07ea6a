"""Make the pool `forewarp-h200` of what `record_pool.py` has measured: one Parquet file per split, with features.

    python benchmarks/assemble_pool.py rows*.jsonl.gz --out pool

Texts and lineage come from the folder of tasks, so it must be the one that was measured; signatures and floors are
worked out anew. Of rows about the same choice the last one counts. A row that was refused by a rule which has become
milder since is left out: nobody knows what it would be today. `--slice N` also writes the
small one that comes with the package: N kernels of each training task, spread over the programs.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import statistics
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import lineage
from record_pool import key_of, read

import forewarp
from forewarp.archive import text
from forewarp.archive.pools import splits
from forewarp.archive.pools.parquet import write_rows
from forewarp.archive.rows import Origin, RecordedRow
from forewarp.core import serde
from forewarp.core.roofline import floor_s
from forewarp.core.values import Build, Candidate, Measurement, Signature, Target, Task
from forewarp.gpu_runner.devices import known_targets
from forewarp.gpu_runner.formats import candidate as candidates
from forewarp.gpu_runner.formats import task as tasks
from forewarp.gpu_runner.worker.check import STRAY_REACH, STRAYS
from forewarp.gpu_runner.worker.requests import TaskJob
from forewarp.gpu_runner.worker.signatures import describe_job
from forewarp.inspection.features.vector import VECTOR_VERSION, vector

PROPOSER = "Claude"


class Sources:
    """The tasks and programs that were measured."""

    def __init__(self, folder: Path, target: Target) -> None:
        self._folder, self._target = folder, target
        self._tasks: dict[str, Task] = {}
        self._lineage: dict[str, dict[str, lineage.ParentLine]] = {}
        self._signatures: dict[str, tuple[Signature, ...]] = {}
        self._splits = splits.load()

    def task(self, name: str) -> Task:
        """Return a task without its seeds, which are the programs."""
        if name not in self._tasks:
            self._tasks[name] = tasks.load(str(self._folder / name)).without_seeds()
            self._lineage[name] = lineage.load(self._folder / name)
        return self._tasks[name]

    def signatures(self, name: str, seen: tuple[Signature, ...]) -> tuple[Signature, ...]:
        """Return a task's signatures; raises ValueError where those that were `seen` are another task's."""
        if name not in self._signatures:
            task = self.task(name)
            job = TaskJob(task=task, target=self._target)
            self._signatures[name] = tuple(describe_job(job, w) for w in task.workloads[self._target.kind])
        for one, other in zip(self._signatures[name], seen, strict=True):
            if replace(other, needed_flops=one.needed_flops) != one:
                raise ValueError(f"{name}: not the task that was measured")
        return self._signatures[name]

    def program(self, name: str, file: str, tunables: Mapping[str, int]) -> Candidate:
        """Return a program with a choice of tunables."""
        seed = candidates.load(self._folder / name / "seeds" / file)
        return Candidate(seed.source, seed.language, dict(tunables))

    def origin(self, name: str, file: str) -> Origin:
        """Return family, split and parent program."""
        task, line = self.task(name), self._lineage[name].get(file, lineage.ParentLine())
        parent = text.keys(self.program(name, line.parent, {})).program if line.parent else ""
        family, split = splits.place(name, task.family, self._splits, None)
        source = f"{name}/{file}"
        return Origin(family=family, split=split, parent=parent, proposer=PROPOSER, tags=line.tags, source_id=source)

    def row(self, found: Mapping[str, Any], anchors: Mapping[str, float]) -> RecordedRow:
        """Put a measured row together with its text and its features."""
        name, file = found["task"], found["program"]
        candidate = self.program(name, file, json.loads(found["tunables"]))
        build = serde.from_data(Build, found["build"])
        signatures = self.signatures(name, tuple(serde.from_data(Signature, s) for s in found["signatures"]))
        seen = build.evidence
        if "floor_s" in seen.facts:
            floor = statistics.geometric_mean(floor_s(s, self._target) for s in signatures)
            seen = replace(seen, facts=dict(seen.facts) | {"floor_s": floor})
            build = replace(build, evidence=seen)
        columns = vector(seen.facts, len(seen.problems), candidate, self._target, anchors.get(name))
        features = {"version": VECTOR_VERSION} | {k: v for k, v in columns.items() if not math.isnan(v)}
        return RecordedRow(
            task=self.task(name),
            target=self._target,
            signatures=signatures,
            candidate=candidate,
            build=build,
            measurement=serde.from_data(Measurement, found["measurement"]),
            run=None,
            finished=found["finished"],
            version=forewarp.__version__,
            origin=replace(self.origin(name, file), features=json.dumps(features, separators=(",", ":"))),
        )


def outdated(row: RecordedRow) -> bool:
    """Return whether a measurement was refused that would not be today: below the floor of then, or off by a hair."""
    m = row.measurement
    if m.verdict == "impossible":
        floors = {s.workload: floor_s(s, row.target) for s in row.signatures}
        return all(w.candidate_median_s >= floors[w.workload] for w in m.workloads)
    off = _OFF.search(m.log) if m.verdict == "incorrect" else None
    return bool(off) and float(off[1]) / 100 <= STRAYS and float(off[2]) <= STRAY_REACH


_OFF = re.compile(r"(\S+) % of the elements are off, by up to (\S+) times")


def anchor_times(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Return each task's anchor time in seconds: median over measurements, geometric mean over shapes."""
    times: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        shapes = [w["anchor_median_s"] for w in row["measurement"]["workloads"]]
        if shapes:
            times[row["task"]].append(statistics.geometric_mean(shapes))
    return {name: statistics.median(found) for name, found in times.items()}


def sliced(rows: list[RecordedRow], count: int) -> list[RecordedRow]:
    """Return up to `count` rows of each training task, as many programs as possible."""
    kept: list[RecordedRow] = []
    taken: Counter[str] = Counter()
    by_program: dict[tuple[str, str], list[RecordedRow]] = defaultdict(list)
    for row in rows:
        if row.origin.split == "train":
            by_program[row.task.name, row.origin.source_id].append(row)
    for turn in range(count):
        for (name, _), found in by_program.items():
            if turn < len(found) and taken[name] < count:
                kept.append(found[turn])
                taken[name] += 1
    return kept


def main() -> None:
    """Write the splits, and the slice."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", type=Path, nargs="+")
    parser.add_argument("--folder", type=Path, default=Path(__file__).parents[1] / "pool" / "tasks")
    parser.add_argument("--target", default="h200")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--slice", type=int, default=0)
    parser.add_argument("--slice-out", type=Path)
    args = parser.parse_args()
    found = list({key_of(r): r for r in read(args.rows)}.values())
    sources = Sources(args.folder, known_targets()[args.target])
    anchors = anchor_times(found)
    rows = [sources.row(r, anchors) for r in found]
    kept = [r for r in rows if not outdated(r)]
    print(f"{len(rows) - len(kept)} rows left out, refused by rules that have changed")
    for split in splits.NAMES:
        count = write_rows((r for r in kept if r.origin.split == split), args.out / f"{split}.parquet")
        print(f"{split}: {count} rows")
    if args.slice and args.slice_out:
        print(f"slice: {write_rows(sliced(kept, args.slice), args.slice_out)} rows")


if __name__ == "__main__":
    main()
