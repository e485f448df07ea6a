"""Measure modules that others published, from a clone outside the repository; their texts are not kept.

    python benchmarks/foreign_modules.py REPOSITORY --seconds 200 --out benchmarks/results/foreign_h100.json

REPOSITORY is a clone of github.com/anneouyang/KernelBenchLeaderboard, as for `inspect_modules.py`: modules with CUDA
extensions for KernelBench, written by several language models. A problem's modules have their turns one after another,
so that a run that is cut short has seen as many problems as possible. A row has the module's hash, its verdict and
speed-up over the reference, and the facts of its compiled code.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import time
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from inspect_modules import DEFAULT, solutions
from provenance import write

from forewarp import __version__
from forewarp.core.errors import ForewarpError
from forewarp.core.values import Build, Candidate, Task
from forewarp.gpu_runner.devices import choose
from forewarp.gpu_runner.executors.local import LocalExecutor


def in_turns(assets: Path) -> list[tuple[str, Path, Path]]:
    """Return the modules in a drawn order, one of each problem before any has a second one; no text twice."""
    by_problem: dict[str, list[tuple[str, Path, Path]]] = defaultdict(list)
    taken: set[str] = set()
    for name, problem, solution in random.Random(0).sample(found := solutions(assets), len(found)):
        digest = hashlib.sha256(solution.read_bytes()).hexdigest()
        if digest not in taken:
            taken.add(digest)
            by_problem[problem.stem].append((name, problem, solution))
    turns = max(map(len, by_problem.values()))
    return [own[turn] for turn in range(turns) for own in by_problem.values() if turn < len(own)]


def measured(executor: LocalExecutor, name: str, task: Task, candidate: Candidate, build: Build) -> dict[str, Any]:
    """Return one module's row."""
    row: dict[str, Any] = {"problem": task.name, "module": name, "kernel": candidate.sha256, "facts": {}}
    if build.status != "ok":
        return row | {"verdict": build.status}
    try:
        m = executor.measure(task, candidate, build)
    except ForewarpError as e:
        return row | {"verdict": "the reference fails", "log": str(e)[:200]}
    timing = m.workloads[0].anchor_median_s if m.workloads else None
    found = {"verdict": m.verdict, "speedup": m.speedup, "low": m.low, "high": m.high, "reference_s": timing}
    return row | found | {"trusted": m.trusted, "device_s": m.device_s, "facts": dict(build.evidence.facts)}


def main() -> None:
    """Build ahead, measure what is ready, and write after each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("repository", type=Path)
    parser.add_argument("--seconds", type=float, default=200.0)
    parser.add_argument("--workers", type=int, default=12, help="modules built at once")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    deadline = time.monotonic() + args.seconds
    executor = LocalExecutor(choose(args.device))
    rows: list[dict[str, Any]] = []

    def built(entry: tuple[str, Path, Path]) -> tuple[str, Task, Candidate, Build] | None:
        name, problem, solution = entry
        if time.monotonic() > deadline:
            return None
        task = Task(problem.stem, name, problem.read_text(), {"cuda": DEFAULT, "cpu": DEFAULT})
        candidate = Candidate(solution.read_text(), "python")
        return name, task, candidate, executor.compile(task, candidate)

    with ThreadPoolExecutor(args.workers) as pool:
        futures = [pool.submit(built, entry) for entry in in_turns(args.repository / "docs" / "assets")]
        for future in as_completed(futures):
            entry = future.result() if not future.cancelled() else None
            if entry is None or time.monotonic() > deadline:
                pool.shutdown(wait=False, cancel_futures=True)
                break
            rows.append(measured(executor, *entry))
            print({k: rows[-1].get(k) for k in ("module", "verdict", "speedup")}, flush=True)
            source = "github.com/anneouyang/KernelBenchLeaderboard, no licence: texts are not kept"
            counts = dict(Counter(r["verdict"] for r in rows))
            write(
                args.out,
                {
                    "forewarp": __version__,
                    "device": executor.target.name,
                    "source": source,
                    "verdicts": counts,
                    "problems": len({r["problem"] for r in rows}),
                    "rows": rows,
                },
            )
    executor.close()


if __name__ == "__main__":
    main()
