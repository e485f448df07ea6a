"""Accuracy of measured modules: against plain processes, against themselves, and against twins with more work.

    python benchmarks/modules.py --kernelbench PATH --out benchmarks/results/modules_h200.json

PATH is a checkout's folder with `level1` to `level3`. Parts, each a key of the result:

- `agreement`: each module of `modules/kernels` and `modules/unliftable`, its speed-up against that in a plain process
  (`modules_plain.py`: module and reference captured as CUDA graphs, replayed in turns behind a flush of the L2 cache),
  and for the latter that of a second plain process against the first;
- `identical`: the problems of `modules/kernelbench_problems.json` against themselves, renamed;
- `planted`: twins with 3 % more work against the modules that they are made from;
- `short`: kernels of 3 to 15 µs against themselves, and against twins with 5 % more work;
- `seconds`: from a source never seen to its result, with warm workers and empty caches.

`--devices 0,1` spreads the work over GPUs. Rows are written as they come; `--seconds` ends the run in time, and
`--resume` goes on with what this version has left in the file.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import queue
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from provenance import write

from forewarp import __version__
from forewarp.core.protocols import Subject
from forewarp.core.values import Build, Candidate, Measurement, Task
from forewarp.gpu_runner import devices
from forewarp.gpu_runner.executors.local import LocalExecutor
from forewarp.gpu_runner.formats import task as tasks
from forewarp.tools.suite_modules import identical

CORPUS = Path(__file__).parent / "modules"
PARTS = ("agreement", "identical", "planted", "short", "seconds")
PLAIN_S = 240
SECONDS = (
    *(("triton", "softmax", i) for i in range(3)),
    *(("triton", "layernorm", i) for i in range(3)),
    *(("cuda", "layernorm", i % 2) for i in range(3)),
)
"""What is timed from source to result: kind, operation, and which module."""
FIRST_BUILT = 6
THINKING_S = 2.0
"""Seconds between two candidates: nobody writes them faster."""
Unit = Callable[[LocalExecutor, "PlainProcess"], None]


class Run:
    """The rows measured so far, written to a file as they come."""

    def __init__(self, out: Path, seconds: float) -> None:
        self.out, self.until = out, time.monotonic() + seconds
        self.rows: dict[str, list[dict[str, Any]]] = {part: [] for part in PARTS}
        self.builds: list[tuple[float, float]] = []
        self.per_minute: float | None = None  # of an earlier run, whose libraries may still lie in the cache
        self.earlier: list[dict[str, Any]] = []
        self._lock = threading.Lock()
        self._written = 0.0

    def resume(self) -> None:
        """Take up the rows of the file, if there is one; raises ValueError where another version wrote it."""
        if not self.out.exists():
            return
        found = json.loads(self.out.read_text())
        if found["forewarp"] != __version__:
            raise ValueError(f"{self.out} is of forewarp {found['forewarp']}, this is {__version__}")
        self.earlier = [*found.get("earlier", []), found["provenance"]]
        self.rows = found["rows"]
        self.per_minute = found.get("seconds", {}).get("load_inline_per_minute")

    def done(self, part: str, name: str) -> bool:
        """Return whether a part has a row with this name from an earlier run."""
        return any(row["name"] == name for row in self.rows[part])

    @property
    def over(self) -> bool:
        """True once the time is up."""
        return time.monotonic() > self.until

    def add(self, part: str, row: dict[str, Any]) -> None:
        """Keep a row."""
        with self._lock:
            self.rows[part].append(row)
            short = {k: row[k] for k in ("name", "status", "verdict", "speedup", "plain") if k in row}
            print(f"{part}: {json.dumps(short)}", file=sys.stderr, flush=True)
            if time.monotonic() > self._written + 5.0:
                self.write()

    def write(self) -> None:
        """Write all rows and what they come to."""
        self._written = time.monotonic()
        summary = {part: SUMMARIES[part](rows) for part, rows in self.rows.items() if rows}
        per_minute = self.per_minute
        if self.builds and per_minute is None:
            ends = [end for _, end in self.builds]
            per_minute = len(ends) / (max(ends) - min(start for start, _ in self.builds)) * 60
        if per_minute is not None:
            summary.setdefault("seconds", {})["load_inline_per_minute"] = per_minute
        earlier = {"earlier": self.earlier} if self.earlier else {}
        write(self.out, {"forewarp": __version__} | earlier | summary | {"rows": self.rows})


def measured(m: Measurement, seconds: float) -> dict[str, Any]:
    """Return what a row keeps of a measurement."""
    row: dict[str, Any] = {
        "status": m.status,
        "verdict": m.verdict,
        "tier": m.tier,
        "speedup": m.speedup,
        "low": m.low,
        "high": m.high,
        "lifting": m.lifting,
        "anchor": m.environment.get("anchor", ""),
        "seconds": seconds,
        "phases": {k: round(v, 4) for k, v in m.phases.items()},
        "log": "" if m.status == "ok" and not m.flags else m.log[-600:],
    }
    for w in m.workloads:
        row |= {"us": w.candidate_median_s * 1e6, "anchor_us": w.anchor_median_s * 1e6, "mode": w.mode}
        row |= {"blocks": len(w.log_ratios)}
    return row


def half_width(row: dict[str, Any]) -> float:
    """Return half the width of a row's 95 % interval, as a log-ratio."""
    return math.log(row["high"] / row["low"]) / 2


def load(path: Path) -> Candidate:
    """Return a module."""
    return Candidate(path.read_text(), "python")


def timed(
    executor: LocalExecutor, task: Task, candidate: Candidate, build: Build, against: Subject | None = None
) -> dict[str, Any]:
    """Measure, and return the row; an error of ours is a row, too."""
    start = time.perf_counter()
    try:
        return measured(executor.measure(task, candidate, build, against), time.perf_counter() - start)
    except Exception:
        return {"status": "error", "log": traceback.format_exc()[-1500:], "seconds": time.perf_counter() - start}


class Compilers:
    """Threads that compile modules from a signal on: until then, one that is timed has the processors to itself."""

    def __init__(self, run: Run, executor: LocalExecutor, threads: int) -> None:
        self.begin = threading.Event()
        self._run, self._executor, self._threads = run, executor, ThreadPoolExecutor(threads)

    def submit(self, task: Task, candidate: Candidate) -> Future[Build]:
        """Have a module compiled."""

        def compiled() -> Build:
            self.begin.wait()
            start = time.monotonic()
            build = self._executor.compile(task, candidate)
            if "load_inline" in candidate.source:
                self._run.builds.append((start, time.monotonic()))
            return build

        return self._threads.submit(compiled)

    def close(self) -> None:
        """Start no further ones."""
        self.begin.set()
        self._threads.shutdown(cancel_futures=True)


def agreement(compilers: Compilers, run: Run, only: Sequence[str]) -> list[Unit]:
    """Return a unit per operation, those that need no C++ compiler first."""
    groups = [
        (CORPUS / "problems" / f"{folder.name}.py", sorted(folder.glob("*.py")))
        for folder in sorted((CORPUS / "kernels").iterdir())
    ]
    groups += [
        (CORPUS / "unliftable" / "problems" / path.name, [path])
        for path in sorted((CORPUS / "unliftable").glob("*.py"))
    ]
    units: list[list[Unit]] = [[], []]
    for problem, modules in groups:
        if only and not any(word in str(problem) for word in only):
            continue
        task = tasks.load(str(problem))
        chosen = [(path, load(path)) for path in modules if not run.done("agreement", _name(path))]
        builds = [(p, c, compilers.submit(task, c)) for p, c in chosen]
        for built in (False, True):
            part = [b for b in builds if ("load_inline" in b[1].source) == built]
            if part:
                units[built].append(_agree(run, problem, task, part))
    return [*units[0], *units[1]]


def _agree(run: Run, problem: Path, task: Task, builds: list[tuple[Path, Candidate, Future[Build]]]) -> Unit:
    def unit(executor: LocalExecutor, process: PlainProcess) -> None:
        rows: list[dict[str, Any]] = []
        for path, candidate, building in builds:
            build = building.result()
            row = {"name": _name(path)} | timed(executor, task, candidate, build)
            rows.append(row | {"path": str(path), "artefact": build.artefact, "build_s": build.seconds})
        plain = process.times(problem, rows)
        unliftable = "unliftable" in str(problem)
        again = process.another().times(problem, rows) if unliftable else {}
        for row in rows:
            path = row.pop("path")
            row.pop("artefact")
            row |= {"unliftable": unliftable} | plain.get(path, {"plain_error": "none"})
            if second := again.get(path, {}).get("plain"):
                row["plain_again"] = second
            run.add("agreement", row)

    return unit


def _name(module: Path) -> str:
    return f"{module.parent.name}/{module.stem}"


class PlainProcess:
    """A process that times modules without forewarp on a GPU; made anew where one hangs or dies."""

    def __init__(self, index: int) -> None:
        self.index = index
        self._command = [sys.executable, str(Path(__file__).with_name("modules_plain.py")), str(index)]
        self._process = self._start()
        self._another: PlainProcess | None = None

    def another(self) -> PlainProcess:
        """Return a second such process: what two of them disagree by, nobody can agree with."""
        self._another = self._another or PlainProcess(self.index)
        return self._another

    def _start(self) -> subprocess.Popen[str]:
        return subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def times(self, problem: Path, modules: Sequence[dict[str, Any]]) -> dict[str, dict[str, Any]]:
        """Return what the process says of each module, by path."""
        wanted = [{"path": row["path"], "artefact": row["artefact"]} for row in modules]
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        hung = threading.Timer(PLAIN_S, process.kill)
        hung.start()
        found: dict[str, dict[str, Any]] = {}
        try:
            process.stdin.write(json.dumps({"problem": str(problem), "modules": wanted}) + "\n")
            process.stdin.flush()
            for line in process.stdout:
                row: dict[str, Any] = json.loads(line) if line.startswith("{") else {}
                if row.get("end"):
                    return found
                if "path" in row:
                    found[row.pop("path")] = row
        except BrokenPipeError:
            pass
        finally:
            hung.cancel()
        self._process = self._start()
        return found

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        if self._another is not None:
            self._another.close()


def identical_units(run: Run, root: Path, only: Sequence[str]) -> list[Unit]:
    """Return a unit per KernelBench problem."""
    listed: list[str] = json.loads((CORPUS / "kernelbench_problems.json").read_text())["problems"]

    def unit_of(name: str) -> Unit:
        def unit(executor: LocalExecutor, process: PlainProcess) -> None:
            del process
            path = root / name
            try:
                task = tasks.load(str(path))
                same = identical(task)
                build = executor.compile(task, same)
                start = time.perf_counter()
                executor.describe(task)
                described = time.perf_counter() - start
            except Exception as e:
                run.add("identical", {"name": name, "status": "error", "log": f"{type(e).__name__}: {e}"[-1500:]})
                return
            row = {"name": name} | timed(executor, task, same, build)
            run.add("identical", row | {"describe_s": described})

        return unit

    wanted = [name for name in listed if not only or any(word in name for word in only)]
    return [unit_of(name) for name in wanted if not run.done("identical", name)]


def pair_units(run: Run, part: str, only: Sequence[str]) -> list[Unit]:
    """Return a unit per pair: the twin against the module, and of short ones the module against itself."""
    spec = importlib.util.spec_from_file_location("plant", CORPUS / "plant.py")
    assert spec is not None
    assert spec.loader is not None
    plant = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(plant)

    def unit_of(problem: Path, module: Path, twin: str) -> Unit:
        def unit(executor: LocalExecutor, process: PlainProcess) -> None:
            del process
            task, first = tasks.load(str(problem)), load(module)
            anchor = Subject(first, executor.compile(task, first))
            others = [("twin", Candidate(twin, "python"))]
            if part == "short":
                others.insert(0, ("itself", Candidate(first.source + "\n# the same\n", "python")))
            for kind, other in others:
                row = timed(executor, task, other, executor.compile(task, other), anchor)
                run.add(part, {"name": module.stem, "kind": kind} | row)

        return unit

    wanted = [pair for pair in plant.pairs(part) if not only or any(word in str(pair[1]) for word in only)]
    return [unit_of(*pair) for pair in wanted if not run.done(part, pair[1].stem)]


def seconds_unit(run: Run, over: threading.Event) -> Unit:
    """Return the unit that times modules as sources never seen, one after another, on an executor with empty caches.

    It sets `over` at its end.
    """

    def unit(executor: LocalExecutor, process: PlainProcess) -> None:
        with tempfile.TemporaryDirectory() as cache:
            fresh = LocalExecutor(executor.target, index=process.index, cache=Path(cache))
            try:
                known = ""
                for turn, (kind, operation, which) in enumerate(SECONDS):
                    if run.over:
                        break
                    path = sorted((CORPUS / "kernels" / operation).glob(f"*{kind}*"))[which]
                    task = tasks.load(str(CORPUS / "problems" / f"{operation}.py"))
                    fresh.describe(task)
                    new = Candidate(f"{path.read_text()}\n# {time.time_ns()}\n", "python")
                    start = time.perf_counter()
                    build = fresh.compile(task, new)
                    row = timed(fresh, task, new, build)
                    row |= {"name": f"{operation}/{path.stem}", "kind": kind, "build_s": build.seconds}
                    row |= {"total": time.perf_counter() - start, "new_task": operation != known}
                    # The first warms workers; the first extension waits for the headers that all share.
                    run.add("seconds", row | {"warm": turn not in (0, FIRST_BUILT)})
                    known = operation
                    time.sleep(THINKING_S)
            finally:
                over.set()
                fresh.close()

    return unit


def ratios(rows: Sequence[dict[str, Any]]) -> list[float]:
    """Return |ln ratio| of our speed-ups to those of plain processes, where both are there."""
    return sorted(abs(math.log(r["speedup"] / r["plain"])) for r in rows if r.get("speedup") and r.get("plain"))


def quantile(values: Sequence[float], share: float) -> float | None:
    """Return a quantile of sorted values, by the nearest rank; None where there are none."""
    return values[max(0, math.ceil(share * len(values)) - 1)] if values else None


def sum_agreement(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Sum up the agreement with plain processes."""
    usual = [r for r in rows if not r["unliftable"]]
    lifted = [r for r in rows if str(r.get("lifting", "")).startswith("lifted")]
    unlifted = [r for r in rows if r not in lifted]
    off, apart = ratios(usual), ratios(unlifted)
    waiting = ratios([r for r in unlifted if r.get("plain_how") == "waits"])
    not_waiting = ratios([r for r in unlifted if r.get("plain_how") != "waits"])
    twice = [r for r in unlifted if r.get("plain") and r.get("plain_again")]
    again = sorted(abs(math.log(r["plain_again"] / r["plain"])) for r in twice)
    right = [r for r in usual if r.get("speedup")]
    return {
        "n": len(off),
        "operations": len({r["name"].split("/")[0] for r in usual}),
        "modules": len(usual),
        "not_ok": sorted(f"{r['name']}: {r['status']}" for r in usual if r["status"] != "ok"),
        "median_abs_log": quantile(off, 0.5),
        "p95_abs_log": quantile(off, 0.95),
        "largest_abs_log": off[-1] if off else None,
        "median_half_width": statistics.median(half_width(r) for r in right) if right else None,
        "share_lifted": sum(r in lifted for r in usual) / len(usual) if usual else None,
        "unlifted_n": len(apart),
        "unlifted_median_abs_log": quantile(apart, 0.5),
        "unlifted_not_waiting": {"n": len(not_waiting), "median_abs_log": quantile(not_waiting, 0.5)},
        "unlifted_waiting": {"n": len(waiting), "median_abs_log": quantile(waiting, 0.5)},
        "unlifted_plain_again": {"n": len(again), "median_abs_log": quantile(again, 0.5)},
    }


def sum_identical(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Sum up the verdicts on problems measured against themselves."""
    counts = {k: sum(r.get("verdict") == k for r in rows) for k in ("tie", "inconclusive", "faster", "slower")}
    statuses = {k: sum(r["status"] == k for r in rows) for k in ("incorrect", "out_of_memory")}
    others = sorted(f"{r['name']}: {r['status']}" for r in rows if r["status"] not in ("ok", *statuses))
    told = counts["faster"] + counts["slower"]
    share = counts["tie"] / len(rows)
    return {"n": len(rows), "tie_share": share} | counts | statuses | {"told_apart": told, "others": others}


def sum_planted(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Sum up the twins with 3 % more work."""
    slower = sum(r.get("verdict") == "slower" for r in rows)
    found = sorted(1 / r["speedup"] - 1 for r in rows if r.get("speedup"))
    return {"n": len(rows), "slower": slower / len(rows), "median_more": quantile(found, 0.5)}


def sum_short(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Sum up the short kernels."""
    same, more = ([r for r in rows if r["kind"] == kind] for kind in ("itself", "twin"))
    return {
        "n": len(same),
        "tie": sum(r.get("verdict") == "tie" for r in same) / max(1, len(same)),
        "told_apart": sum(r.get("verdict") == "slower" for r in more) / max(1, len(more)),
        "us": sorted(round(r["us"], 2) for r in same if "us" in r),
        "more": sorted(round(1 / r["speedup"] - 1, 4) for r in more if r.get("speedup")),
    }


def sum_seconds(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Sum up the seconds from source to result, of warm workers."""
    warm = [r for r in rows if r["warm"] and r["status"] == "ok"]
    triton, inline = ([r for r in warm if r["kind"] == kind and not r["new_task"]] for kind in ("triton", "cuda"))
    found: dict[str, Any] = {}
    if first := [r["total"] for r in warm if r["kind"] == "triton" and r["new_task"]]:
        found["triton_new_task"] = statistics.median(first)
    if triton:
        found["triton"] = statistics.median(r["total"] for r in triton)
        # The rehearsal is where Triton compiles; its calls themselves take a few milliseconds.
        without = [r["total"] - r["phases"].get("observe rehearse", 0.0) for r in triton]
        found["triton_without_compile"] = statistics.median(without)
    if inline:
        found["load_inline"] = statistics.median(r["total"] for r in inline)
        found["load_inline_build"] = statistics.median(r["build_s"] for r in inline)
    return found


SUMMARIES: dict[str, Callable[[Sequence[dict[str, Any]]], dict[str, Any]]] = {
    "agreement": sum_agreement,
    "identical": sum_identical,
    "planted": sum_planted,
    "short": sum_short,
    "seconds": sum_seconds,
}


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernelbench", type=Path, help="folder with level1 to level3; needed for `identical`")
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--devices", default="0", help="numbers of the GPUs to use")
    parser.add_argument("--only", default="", help="words, separated by commas, of which a name must have one")
    parser.add_argument("--threads", type=int, default=16, help="for compiling")
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--resume", action="store_true", help="keep what the file has, and measure the rest")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/modules_h200.json"))
    asked = parser.parse_args()
    parts, only = asked.parts.split(","), [w for w in asked.only.split(",") if w]
    run = Run(asked.out, asked.seconds)
    if asked.resume:
        run.resume()
    numbers = [int(n) for n in asked.devices.split(",")]
    executors = [LocalExecutor(devices.choose(f"cuda:{n}"), index=n) for n in numbers]
    processes = [PlainProcess(n) for n in numbers]
    compilers = Compilers(run, executors[0], asked.threads)
    lists = [pair_units(run, part, only) for part in ("short", "planted") if part in parts]
    if "agreement" in parts:
        lists.append(agreement(compilers, run, only))
    if "identical" in parts:
        lists.append(identical_units(run, asked.kernelbench, only))
    # Mixed, so that a run that ends early has some of each.
    placed = [((i + 0.5) / len(units), unit) for units in lists for i, unit in enumerate(units)]
    units = [unit for _, unit in sorted(placed, key=lambda p: p[0])]
    if "seconds" in parts and not run.rows["seconds"]:
        units.insert(0, seconds_unit(run, compilers.begin))
    else:
        compilers.begin.set()
    waiting: queue.SimpleQueue[Unit] = queue.SimpleQueue()
    for unit in units:
        waiting.put(unit)

    def work(executor: LocalExecutor, process: PlainProcess) -> None:
        while not run.over:
            try:
                unit = waiting.get_nowait()
            except queue.Empty:
                return
            try:
                unit(executor, process)
            except Exception:
                traceback.print_exc()

    threads = [threading.Thread(target=work, args=pair) for pair in zip(executors, processes, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    run.write()
    for executor in executors:
        executor.close()
    for process in processes:
        process.close()
    compilers.close()


if __name__ == "__main__":
    main()
