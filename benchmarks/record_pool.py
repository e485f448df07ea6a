"""Measure the programs of a folder of tasks at random choices of their tunables, on every GPU there is.

    python benchmarks/record_pool.py --device cuda --choices 7 --seconds 540 --out rows
    python benchmarks/record_pool.py --device cuda --choices 7 --seconds 540 --out rows2 --done rows*.jsonl.gz
    python benchmarks/record_pool.py --device cuda --repeat 0.05 --out again --done rows*.jsonl.gz

Each GPU gets its share of the programs; all programs have their turn before any has a second one, so that a run which
is cut short has measured all of them about equally often. A program's default tunables come first, others are drawn
uniformly from what its constraints allow. Choices that compile to code that was measured already are left out.
`--repeat` measures a random share of what is in `--done` again, on another GPU where there are several; `--redo` what
had one of the verdicts given, after the harness has changed. Rows are
written as they come, one file per GPU; `assemble_pool.py` makes a pool of them.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import random
import subprocess
import sys
import time
import zlib
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from inspect_truth import Driver, compare
from provenance import provenance

import forewarp
from forewarp.archive import samples
from forewarp.core import serde
from forewarp.core.errors import ForewarpError
from forewarp.core.values import Build, Candidate, Measurement, Task
from forewarp.gpu_runner import devices
from forewarp.gpu_runner.executors.artifacts import manifest_of
from forewarp.gpu_runner.executors.local import Limits, LocalExecutor
from forewarp.gpu_runner.formats import candidate as candidates
from forewarp.gpu_runner.formats import plan
from forewarp.gpu_runner.formats import task as tasks

Key = tuple[str, str, str]
"""Task, program file and tunables as JSON."""

AHEAD = 24
LOOKS = (6, 12, 25)


def tunables_key(candidate: Candidate) -> str:
    return json.dumps(dict(sorted(candidate.tunables.items())))


def choices(path: Path, count: int) -> list[Candidate]:
    """Return a program at its default and at other choices of tunables; the same ones each time."""
    seed = candidates.load(path)
    found = list(plan.parse(seed).combinations())
    rng = random.Random(zlib.crc32(path.name.encode()))
    others = rng.sample([t for t in found if t != seed.tunables], min(count - 1, len(found) - 1))
    return [seed, *(Candidate(seed.source, seed.language, t) for t in others)]


def rounds(folder: Path, names: list[str], kind: str, count: int) -> Iterator[tuple[str, Path, Candidate]]:
    """Yield one choice of every program, then the next one of each."""
    languages = ("cpp",) if kind == "cpu" else ("triton", "cuda")
    programs = [(n, p) for n in names for p in sorted((folder / n / "seeds").iterdir()) if p.suffix in _SUFFIXES]
    random.Random(0).shuffle(programs)
    listed = [(n, p, cs) for n, p in programs if (cs := choices(p, count))[0].language in languages]
    for turn in range(count):
        for name, path, found in listed:
            if turn < len(found):
                yield name, path, found[turn]


_SUFFIXES = (".py", ".cu", ".cpp")


def read(paths: list[Path]) -> list[dict[str, Any]]:
    """Return the rows of files; a line that was cut off with its run is left out."""
    found: list[dict[str, Any]] = []
    for path in paths:
        try:
            with gzip.open(path, "rt") as file:
                for line in file:
                    row = json.loads(line)
                    if "task" in row:
                        found.append(row)
        except (EOFError, json.JSONDecodeError, zlib.error):
            continue
    return found


def key_of(row: dict[str, Any]) -> Key:
    return row["task"], row["program"], row["tunables"]


class Lane:
    """One GPU, its share of the work, and the file it writes."""

    def __init__(self, args: argparse.Namespace, lane: int) -> None:
        self.args, self.lane = args, lane
        target = devices.choose(args.device)
        limits = Limits(time_s=args.time_s, measure_s=30.0, call_s=5.0, looks=LOOKS)
        self.executor = LocalExecutor(target, limits=limits, index=lane)
        self.tasks = {n: tasks.load(str(args.folder / n)) for n in args.tasks}
        self.done = {key_of(r): r for r in read(args.done)}
        self.codes = {(r["task"], r["build"]["binary_sha256"]) for r in self.done.values()}
        self.bad: set[str] = set()
        self.built: list[tuple[str, str, Build]] = []
        self.file = gzip.open(f"{args.out}_{lane}.jsonl.gz", "wt", compresslevel=6)  # noqa: SIM115
        self.write({"lane": lane, "device": target.name, "version": forewarp.__version__} | provenance())

    def write(self, row: dict[str, Any]) -> None:
        """Write one line at once, so that nothing is lost with the run."""
        self.file.write(json.dumps(row, separators=(",", ":")) + "\n")
        self.file.flush()

    def work(self) -> Iterator[tuple[str, Path, Candidate]]:
        """Yield this lane's share; a program stays on one lane, a repetition goes to another."""
        a = self.args
        listed = list(rounds(a.folder, a.tasks, self.executor.target.kind, a.choices))
        if a.repeat:
            sound = [e for e in listed if (e[0], e[1].name, tunables_key(e[2])) in self.done]
            sound = random.Random(1).sample(sound, int(len(sound) * a.repeat))
        elif a.redo:
            sound = [e for e in listed if self.verdict(e[0], e[1], e[2]) in a.redo]
        else:
            sound = [e for e in listed if (e[0], e[1].name, tunables_key(e[2])) not in self.done]
        shift = 1 if a.repeat else 0
        for name, path, candidate in sound:
            if (zlib.crc32(f"{name}/{path.name}".encode()) + shift) % a.lanes == self.lane:
                yield name, path, candidate

    def verdict(self, name: str, path: Path, candidate: Candidate) -> str:
        """Return what was found of a choice in `--done`, "" where it is not there."""
        row = self.done.get((name, path.name, tunables_key(candidate)))
        return str(row["measurement"]["verdict"]) if row else ""

    def compiled(self, task: Task, candidate: Candidate) -> Build:
        """Compile; a plan that does not resolve is a compile error like any other."""
        try:
            return self.executor.compile(task, candidate)
        except ForewarpError as e:
            return Build("compile_error", 0.0, str(e))

    def run(self, deadline: float) -> int:
        """Compile ahead, measure one after the other; returns how many rows were written."""
        waiting: list[tuple[str, Path, Candidate, Future[Build]]] = []
        work, rows = self.work(), 0
        with ThreadPoolExecutor(max(1, (os.cpu_count() or 2) // self.args.lanes - 1)) as pool:
            while time.monotonic() < deadline:
                while len(waiting) < AHEAD and (one := next(work, None)) is not None:
                    name, path, candidate = one
                    waiting.append((name, path, candidate, pool.submit(self.compiled, self.tasks[name], candidate)))
                if not waiting:
                    break
                # Whatever is compiled first is measured first.
                ready = next((i for i, w in enumerate(waiting) if w[3].done()), 0)
                rows += self.one(*waiting.pop(ready))
            pool.shutdown(wait=False, cancel_futures=True)
        return rows

    def one(self, name: str, path: Path, candidate: Candidate, future: Future[Build]) -> int:
        """Measure one candidate and write its row; returns how many rows that made."""
        build = future.result()
        if name in self.bad:
            return 0
        code = (name, build.binary_sha256)
        if build.binary_sha256 and code in self.codes and not (self.args.repeat or self.args.redo):
            return 0
        self.codes.add(code)
        start = time.perf_counter()
        try:
            measurement = self.executor.measure(self.tasks[name], candidate, build)
            signatures = self.executor.describe(self.tasks[name])
        except ForewarpError as e:
            self.bad.add(name)
            self.write({"failed": name, "program": path.name, "error": str(e)[:2000]})
            print(f"lane {self.lane}: {name} {path.name}: {str(e)[:300]}", file=sys.stderr, flush=True)
            return 0
        row = row_of(name, path, candidate, build, measurement)
        row |= {"signatures": serde.to_data(signatures), "lane": self.lane}
        row |= {"finished": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
        if self.args.truth and build.status == "ok":
            self.built.append((name, path.name, build))
        self.write(row)
        seconds = time.perf_counter() - start
        said = measurement.verdict if measurement.speedup is None else f"{measurement.speedup:.3f}x"
        print(f"lane {self.lane}: {name} {path.name} {said} {seconds:.2f} s", file=sys.stderr, flush=True)
        return 1

    def truth(self) -> None:
        """Write what the driver says of the kernels; last, because another context on the GPU would be in the way."""
        driver = Driver(self.lane)
        for name, program, build in self.built:
            found = compare(driver, manifest_of(build), Path(build.artefact))
            self.write({"task_of": name, "program": program, "truth": found})


def row_of(name: str, path: Path, candidate: Candidate, build: Build, measurement: Measurement) -> dict[str, Any]:
    """Return a row without raw samples, which would be most of it."""
    bare = json.loads(samples.split(replace(measurement, log=measurement.log[:2000]))[0])
    return {
        "task": name,
        "program": path.name,
        "tunables": tunables_key(candidate),
        "build": serde.to_data(replace(build, artefact="", log=build.log[:2000])),
        "measurement": bare,
    }


def main() -> None:
    """Start a process per GPU, or be one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path(__file__).parents[1] / "pool" / "tasks")
    parser.add_argument("--tasks", nargs="+")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--lanes", type=int, default=1, help="GPUs to use")
    parser.add_argument("--choices", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=540.0)
    parser.add_argument("--time-s", type=float, default=0.2, help="most seconds of timing per shape")
    parser.add_argument("--repeat", type=float, default=0.0, help="share of --done to measure again")
    parser.add_argument("--redo", nargs="*", default=[], help="verdicts in --done to measure again")
    parser.add_argument("--truth", action="store_true", help="ask the driver about each kernel")
    parser.add_argument("--done", type=Path, nargs="*", default=[])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--lane", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    args.tasks = args.tasks or sorted(p.parent.name for p in args.folder.glob("*/task.toml"))
    if args.lane is None and args.lanes > 1:
        command = [sys.executable, *sys.argv]
        children = [subprocess.Popen([*command, "--lane", str(i)]) for i in range(args.lanes)]
        sys.exit(max(c.wait() for c in children))
    lane = Lane(args, args.lane or 0)
    try:
        rows = lane.run(time.monotonic() + args.seconds)
        if args.truth:
            lane.truth()
    finally:
        lane.file.close()
        lane.executor.close()
    print(f"lane {lane.lane}: {rows} rows", file=sys.stderr)


if __name__ == "__main__":
    main()
