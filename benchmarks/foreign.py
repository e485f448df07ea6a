"""Forecast modules that other people and other models wrote, then measure them.

    python benchmarks/foreign.py collect FOLDER --mirrors DIR      # FOLDER/tasks/TASK.py and FOLDER/modules/TASK/N.py
    python benchmarks/foreign.py inspect FOLDER                    # FOLDER/builds.json: what they launch, without a GPU
    python benchmarks/foreign.py measure FOLDER --seconds 480      # FOLDER/rows.jsonl.gz, where the GPU is
    python benchmarks/foreign.py forecast FOLDER                   # FOLDER/blind/TASK.N.md: prompts
    python benchmarks/written.py answers FOLDER                    # of FOLDER/blind/TASK.N.answer.md
    python benchmarks/foreign.py judge FOLDER --answered "who answered" --out benchmarks/results/foreign.json

`judge --earlier RESULT.json` takes modules that the folder has no rows of from an earlier result, and its answers.

`foreign_modules.json` names each module by repository, commit and path; DIR holds a git directory OWNER+NAME/repo of
each. Their text is not kept here. Measured are first the references, then the modules; the prompts that the product
sends to a model know the references' times and nothing else that was measured. A task's modules stand in one prompt, in
an order that is drawn.
"""

from __future__ import annotations

import argparse
import ast
import gzip
import json
import os
import random
import subprocess
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from provenance import provenance, write
from record_pool import read, row_of
from reference_time import estimate
from written import ask

import forewarp
from forewarp.archive.forecasts import read_forecasts, write_forecasts
from forewarp.archive.pools.parquet import write_rows
from forewarp.archive.rows import Origin, RecordedRow
from forewarp.core import serde
from forewarp.core.errors import ForewarpError
from forewarp.core.protocols import Executor, Subject, with_evidence
from forewarp.core.values import Build, Candidate, Measurement, Target, Task
from forewarp.gpu_runner.devices import choose, known_targets
from forewarp.gpu_runner.executors.local import Limits, LocalExecutor
from forewarp.gpu_runner.formats import candidate as candidates
from forewarp.gpu_runner.formats import task as tasks
from forewarp.surrogate import reference
from forewarp.surrogate.baselines import ConstantForecaster, uniform
from forewarp.surrogate.evaluation import backtest, scorecard
from forewarp.surrogate.evaluation.resampling import cluster_draws
from forewarp.surrogate.reference import ReferenceTime
from forewarp.tools.evaluate import pooled
from forewarp.tools.session import make_forecaster
from forewarp.tools.suite_modules import identical

MANIFEST = Path(__file__).with_name("foreign_modules.json")
REFERENCE = "reference"
"""Name of the program in rows about a task's reference."""


def collect(folder: Path, mirrors: Path) -> None:
    """Write the tasks and the modules out of git directories."""
    listed = json.loads(MANIFEST.read_text())

    def text(repository: str, path: str) -> str:
        place = mirrors / repository.replace("/", "+") / "repo"
        commit = listed["repositories"][repository]["commit"]
        command = ["git", "--git-dir", str(place), "show", f"{commit}:{path}"]
        return subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout.decode()

    (folder / "tasks").mkdir(parents=True, exist_ok=True)
    for name, task in listed["tasks"].items():
        (folder / "tasks" / f"{name}.py").write_text(text(task["repository"], task["path"]))
        (folder / "modules" / name).mkdir(parents=True, exist_ok=True)
        for number, module in enumerate(task["modules"], 1):
            if "wrapper" in module:
                source = joined([text(module["repository"], p) for p in module["path"]], module["wrapper"])
            else:
                source = text(module["repository"], module["path"])
            (folder / "modules" / name / f"{number}.py").write_text(source)


def joined(files: list[str], wrapper: str) -> str:
    """Return one module of a wrapper and what it needs, directly or not, of several files of a package."""
    imports: dict[str, None] = {}
    defined: dict[str, ast.stmt] = {}
    # A package's layers stand in the first files, what they call in the last.
    for node in (node for text in reversed(files) for node in ast.parse(text).body):
        if isinstance(node, ast.Import) or (isinstance(node, ast.ImportFrom) and not node.level):
            imports[ast.unparse(node)] = None
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            defined[node.name] = node
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            defined[node.targets[0].id] = node
    used = set[str]()
    waiting: list[ast.AST] = [ast.parse(wrapper)]
    while waiting:
        names = {n.id for n in ast.walk(waiting.pop()) if isinstance(n, ast.Name)} & defined.keys() - used
        used |= names
        waiting += [defined[name] for name in names]
    kept = [ast.unparse(node) for name, node in defined.items() if name in used]
    return "\n\n".join(["\n".join(imports), *kept]) + "\n" + wrapper


class Modules:
    """The tasks of a folder with their modules."""

    def __init__(self, folder: Path) -> None:
        self._listed: dict[str, Any] = json.loads(MANIFEST.read_text())["tasks"]
        self._folder = folder
        self.tasks = {p.stem: tasks.load(str(p)) for p in sorted((folder / "tasks").glob("*.py"))}

    def of(self, name: str) -> list[tuple[Path, Candidate]]:
        """Return the modules of a task with their files."""
        return [(p, candidates.load(p)) for p in sorted((self._folder / "modules" / name).glob("*.py"))]

    def family(self, name: str) -> str:
        """Return the kind of operation that a task is."""
        return self._listed[name]["family"]

    def author(self, name: str, number: int) -> str:
        """Return who wrote a module, counted from 1."""
        return self._listed[name]["modules"][number - 1]["author"]


def inspect(folder: Path, executor: Executor) -> None:
    """Write each module's build with what its trace tells."""
    modules = Modules(folder)

    def built(task: Task, candidate: Candidate) -> Build:
        build = executor.compile(task, candidate)
        return replace(with_evidence(executor, task, candidate, build), artefact="")

    with ThreadPoolExecutor(2) as pool:
        jobs = {
            f"{name}/{path.stem}": pool.submit(built, task, candidate)
            for name, task in modules.tasks.items()
            for path, candidate in modules.of(name)
        }
    found = {key: serde.to_data(job.result()) for key, job in jobs.items()}
    (folder / "builds.json").write_text(json.dumps(found, indent=1))


def measure(folder: Path, device: str, seconds: float) -> None:
    """Measure the references while the modules are built, then the modules, those first that are built first.

    What the file of rows holds is not measured again.
    """
    until, modules, out = time.monotonic() + seconds, Modules(folder), folder / "rows.jsonl.gz"
    done = {(r["task"], r["program"]) for r in read([out] if out.exists() else [])}
    executor = LocalExecutor(choose(device), limits=Limits(measure_s=45.0))
    listed = [(n, path, c) for n in modules.tasks for path, c in modules.of(n) if (n, path.name) not in done]
    random.Random("order of measuring").shuffle(listed)
    with gzip.open(out, "at") as file, ThreadPoolExecutor(max(1, (os.cpu_count() or 2) - 1)) as pool:

        def measured(name: str, program: str, candidate: Candidate, build: Build) -> None:
            start = time.perf_counter()
            row: dict[str, Any] = {"task": name, "program": program}
            try:
                row = row_of(
                    name, Path(program), candidate, build, executor.measure(modules.tasks[name], candidate, build)
                )
            except ForewarpError as e:
                row["error"] = f"{type(e).__name__}: {e}"
            row |= {"seconds": time.perf_counter() - start}
            row |= {"finished": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
            file.write(json.dumps(row) + "\n")
            file.flush()
            found = row.get("measurement", {})
            said = [found.get("verdict"), found.get("speedup"), row.get("error", found.get("log", ""))[:150]]
            print(f"{name} {program} {row['seconds']:.1f} s", *said, flush=True)

        file.write(json.dumps(provenance() | {"device": executor.target.name}) + "\n")
        waiting: list[tuple[str, str, Candidate, Future[Build]]] = [
            (n, path.name, c, pool.submit(executor.compile, modules.tasks[n], c)) for n, path, c in listed
        ]
        for name, task in modules.tasks.items():
            if time.monotonic() < until and (name, REFERENCE) not in done:
                same = identical(task)
                measured(name, REFERENCE, same, executor.compile(task, same))
        while waiting and time.monotonic() < until:
            name, program, candidate, build = waiting.pop(next((i for i, w in enumerate(waiting) if w[3].done()), 0))
            measured(name, program, candidate, build.result())
        pool.shutdown(cancel_futures=True)
    executor.close()


def rows_of(folder: Path) -> tuple[dict[str, ReferenceTime], list[dict[str, Any]]]:
    """Return the references' measured times by task, and the rows about modules."""
    found, times = read([folder / "rows.jsonl.gz"]), dict[str, ReferenceTime]()
    for row in found:
        m = row.get("measurement", {})
        if row["program"] == REFERENCE and m.get("workloads"):
            seconds = {w["workload"]: w["anchor_median_s"] for w in m["workloads"]}
            times[row["task"]] = ReferenceTime(seconds, versions=reference.versions_of(m["environment"]))
    return times, [r for r in found if r["program"] != REFERENCE]


def subjects_of(folder: Path, modules: Modules, name: str) -> dict[str, Subject]:
    """Return a task's modules by file name as they are forecast, those that compile."""
    builds = json.loads((folder / "builds.json").read_text())
    found = {p.name: Subject(c, serde.from_data(Build, builds[f"{name}/{p.stem}"])) for p, c in modules.of(name)}
    return {name: s for name, s in found.items() if s.build.status == "ok"}


def forecast(folder: Path, executor: LocalExecutor) -> None:
    """Write the prompts."""
    modules, (times, _) = Modules(folder), rows_of(folder)
    asked: dict[str, tuple[Task, list[Subject], Target, ReferenceTime | None]] = {}
    for name, task in modules.tasks.items():
        subjects = list(subjects_of(folder, modules, name).values())
        random.Random(f"{name}, asked").shuffle(subjects)
        signatures = executor.describe(task)
        time = times.get(name) or reference.forecast(signatures, executor.target)
        told = replace(time, operations=reference.count(signatures)) if time else None
        asked[name] = task, subjects, executor.target, told
    ask(folder, asked)


def earlier_rows(path: Path, again: set[tuple[str, str]]) -> list[dict[str, Any]]:
    """Return the modules of a result of `judge` as rows, but for those that were measured again."""
    result, found = json.loads(path.read_text()), list[dict[str, Any]]()
    for line in result["rows"]:
        key = line["task"], f"{line['module']}.py"
        if key in again:
            continue
        named = ("status", "verdict", "speedup", "low", "high", "lifting", "log")
        measured = Measurement(device="h100", tier="T0", flags=tuple(line["flags"]), **{k: line[k] for k in named})
        date = line.get("date", result["measured"]["date"])
        row = {"task": key[0], "program": key[1], "measurement": serde.to_data(measured), "finished": date}
        found.append(row | {"line": line | {"date": date}})
    return found


def pool_of(folder: Path, modules: Modules, target: Target, measured: list[dict[str, Any]]) -> list[RecordedRow]:
    """Return the measured modules as rows of a pool, with what their traces told."""
    found: list[RecordedRow] = []
    subjects = {name: subjects_of(folder, modules, name) for name in modules.tasks}
    for row in measured:
        name, program = row["task"], row["program"]
        subject = subjects[name].get(program)
        if subject is None or "measurement" not in row or row.get("line", {}).get("not_judged"):
            continue
        found.append(
            RecordedRow(
                task=modules.tasks[name],
                target=target,
                signatures=(),
                candidate=subject.candidate,
                build=subject.build,
                measurement=serde.from_data(Measurement, row["measurement"]),
                run=None,
                finished=row["finished"],
                version=forewarp.__version__,
                origin=Origin(family=modules.family(name), split="test", source_id=f"{name}/{program}"),
            )
        )
    return found


AS_FAST = "as fast as the reference"
FIGURES = (
    "exact",
    "within_one",
    "pairwise",
    "crps",
    "ece",
    "auroc_confidence",
    "error",
    "recovery_mean_1",
    "valid_auroc",
)


def judge(folder: Path, answered: str, out: Path, earlier: Path | None = None) -> None:
    """Score the forecasts, and write the figures with what was measured of each module."""
    modules, target = Modules(folder), known_targets()["h100"]
    times, measured = rows_of(folder)
    answers = folder / "answers.parquet"
    if earlier is not None:
        answers = earlier.with_suffix(".parquet")
        answered = answered or json.loads(earlier.read_text())["answered"]
        measured += earlier_rows(earlier, {(r["task"], r["program"]) for r in measured})
        for row in measured:
            if us := row.get("line", {}).get("reference_us"):
                times.setdefault(row["task"], ReferenceTime({"default": us * 1e-6}))
            elif workloads := row.get("measurement", {}).get("workloads"):
                times[row["task"]] = ReferenceTime({w["workload"]: w["anchor_median_s"] for w in workloads})
    rows = pool_of(folder, modules, target, measured)
    write_rows(rows, folder / "pool.parquet")
    plan = backtest.plan(rows)
    cases = [case for group in plan.groups for case in group.cases]
    known = {modules.tasks[name].sha256: time for name, time in times.items()}
    learned = make_forecaster("learned", None, references=known)
    assert learned is not None
    even = ConstantForecaster(AS_FAST, [0, 0, 0, 1, 1, 0, 0, 0], 1.0)
    asked = [backtest.run(f, plan.groups) for f in (learned, uniform(), even)]
    records = list(read_forecasts(answers))
    (model,) = backtest.recorded(records, cases)
    shared = backtest.common([replace(model, name="model"), replace(asked[0], name="learned"), *asked[1:]])
    shared = [*pooled(shared[1], shared[0]), *shared]
    blocks = scorecard.blocks(shared[0])
    figures: dict[str, Any] = {}
    for by, clusters in (("tasks", [b.task for b in blocks]), ("families", [b.family for b in blocks])):
        scores = {a.name: scorecard.score(a, cluster_draws(clusters)) for a in shared}
        for name, found in scores.items():
            figures.setdefault(name, {})[by] = {k: estimate(found[k][1]) for k in FIGURES}
            if name != "model":
                pairs = {k: estimate(scores["model"][k][1].minus(found[k][1])) for k in FIGURES}
                figures.setdefault(f"model - {name}", {})[by] = pairs
    kept = []
    for row in measured:
        if "line" in row:
            kept.append(row["line"])
            continue
        name, number = row["task"], int(Path(row["program"]).stem)
        m, timed = row.get("measurement", {}), row.get("measurement", {}).get("workloads", ())
        line = {"task": name, "module": number, "author": modules.author(name, number), "family": modules.family(name)}
        line |= {k: m.get(k) for k in ("status", "verdict", "speedup", "low", "high", "lifting", "flags")}
        line |= {"reference_us": timed[0]["anchor_median_s"] * 1e6 if timed else None}
        line |= {"not_judged": "", "date": row["finished"]}
        kept.append(line | {"log": row.get("error", m.get("log", ""))[:300] if m.get("speedup") is None else ""})
    speedups = {case.kernel: case.speedup for case in cases}
    write_forecasts((replace(r, speedup=speedups.get(r.kernel)) for r in records), out.with_suffix(".parquet"))
    about = {"answered": answered, "forewarp": forewarp.__version__, "measured": provenance_of(folder)}
    if earlier is not None:
        about["measured_earlier"] = json.loads(earlier.read_text())["measured"]
    counted = {
        "modules": len(measured),
        "judged": len(shared[0].rows),
        "valid": sum(r.case.speedup is not None for r in shared[0].rows),
    }
    write(
        out,
        about
        | counted
        | {"tasks": len(blocks), "families": len({b.family for b in blocks}), "figures": figures, "rows": kept},
    )


def provenance_of(folder: Path) -> dict[str, Any]:
    """Return when, where and how the modules were measured."""
    with gzip.open(folder / "rows.jsonl.gz", "rt") as file:
        return json.loads(file.readline())


def main() -> None:
    """Do one step."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=("collect", "inspect", "measure", "forecast", "judge"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--mirrors", type=Path)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--seconds", type=float, default=480.0)
    parser.add_argument("--answered", default="", help="who answered, and what kept them from seeing anything else")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--earlier", type=Path, help="result whose rows and answers count where there are no others")
    args = parser.parse_args()
    if args.step == "collect":
        collect(args.folder, args.mirrors)
    elif args.step == "measure":
        measure(args.folder, args.device, args.seconds)
    elif args.step == "judge":
        judge(args.folder, args.answered, args.out, args.earlier)
    else:
        executor = LocalExecutor(known_targets()["h100"])
        try:
            (inspect if args.step == "inspect" else forecast)(args.folder, executor)
        finally:
            executor.close()


if __name__ == "__main__":
    main()
