"""Repeat the gate on equal kernels, and on kernels with 3 % more work: false alarms, and alarms that are missing.

    python benchmarks/gate.py --device cpu --for 1500 --out benchmarks/results/gate_cpu.json
    python benchmarks/gate.py --device cuda --for 200 --out gate.json            # again and again: it goes on
    python benchmarks/gate.py --table gate_0.json gate_1.json --out gate.json    # of several machines, as one file
    python benchmarks/gate.py --simulate --out benchmarks/results/gate_simulation.json
    python benchmarks/gate.py --triton h100 --device none --python OLD NEW --out benchmarks/results/gate_triton.json

`--triton` compares what Triton kernels of `tasks/` and `pool/` compile to in two environments; with `--device cuda`,
their times.

One check follows another, each as `forewarp gate check` with two Pythons makes it: a round has new processes of both
sides and times every case that the check has not decided yet. The rounds of a case on one machine, in order, are cut
into runs: a run ends where the gate would have decided, or given up. A check is whole where each of its cases has a
run. Equal cases are bundled seeds in a few configurations (on the CPU device, whose seeds take too long, kernels of
`planted.py`); planted ones are kernels of `planted.py` whose loop runs 3 % longer in the new environment.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import planted
from provenance import provenance, write

from forewarp.core.languages import languages_on
from forewarp.core.protocols import Subject
from forewarp.core.values import Candidate, Task
from forewarp.gpu_runner import devices
from forewarp.gpu_runner.executors.alternating import AlternatingExecutors
from forewarp.gpu_runner.formats import plan
from forewarp.gpu_runner.formats import task as tasks

RESULT = Path(__file__).parent / "results" / "gate_cpu.json"
TILES = {"cpu": range(2, 16, 2), "cuda": range(12288, 73728, 8192)}
EQUAL = {"cross_entropy": "llama3", "topk_gate": "mixtral", "rmsnorm": "odd", "softmax": "attention"}
"""Shapes of the tasks whose seeds are the equal kernels on a GPU, where each takes 0.1 to 0.5 ms. The softmax in Triton
runs at another speed in each process."""
SETTINGS = 3
"""Configurations of each seed, its own and others."""
THRESHOLD = 0.02
SIMULATED = {
    "normal": lambda rng, n: rng.standard_normal(n),
    "Student's t, 3 degrees of freedom": lambda rng, n: rng.standard_t(3, n) / math.sqrt(3),
    "one round in ten 5 times as far off": lambda rng, n: rng.standard_normal(n) * (1 + 4 * (rng.random(n) < 0.1)),
    "log-normal": lambda rng, n: (rng.lognormal(0, 0.75, n) - 1) / 1.1496,
    "log-normal, turned round": lambda rng, n: (1 - rng.lognormal(0, 0.75, n)) / 1.1496,
    "log-normal, turned round, mean 0": lambda rng, n: (math.exp(0.28125) - rng.lognormal(0, 0.75, n)) / 1.1496,
    "each process one of two speeds": lambda rng, n: (
        0.1 * rng.standard_normal(n) + math.sqrt(2 - 0.02) * (rng.integers(0, 2, n) - rng.integers(0, 2, n))
    ),
}
"""Noise of a round with standard deviation 1, but for the outliers, and with median 0, but for the last log-normal."""


@dataclass(frozen=True)
class Case:
    """A kernel of each environment on one shape."""

    name: str
    planted: bool
    task: Task
    kernels: tuple[Candidate, Candidate]

    @property
    def key(self) -> tuple[bool, str]:
        """Identity among rows: an equal case and a planted one may have the same name."""
        return self.planted, self.name


def cases(device: str, count: int, slowed: int, folder: Path) -> list[Case]:
    """Return `count` equal cases and `slowed` planted ones."""
    made = [
        (f"work {work}, {tiles} tiles", planted.task(folder, tiles), (work, more))
        for tiles in TILES[device]
        for work, more in planted.THREE_PERCENT.items()
    ]
    slower = [Case(n, True, t, tuple(planted.kernel(device, work=w) for w in both)) for n, t, both in made]  # pyright: ignore[reportArgumentType]
    if device == "cpu":
        equal = [replace(c, planted=False, kernels=(c.kernels[0], c.kernels[0])) for c in slower]
    else:
        equal = list(_bundled())
    return equal[:count] + slower[:slowed]


def _bundled() -> Iterator[Case]:
    for name, shape in EQUAL.items():
        task = tasks.load(name)
        workload = next(w for w in task.workloads["cuda"] if w.name == shape)
        alone = replace(task.without_seeds(), workloads={"cuda": (workload,)})
        seeds = [(seed, _settings(seed)) for seed in task.seeds if seed.language in languages_on("cuda")]
        for number in range(SETTINGS):
            for seed, settings in seeds:
                about = ", ".join(f"{k} {v}" for k, v in settings[number].items() if v != seed.tunables[k])
                kernel = replace(seed, tunables=settings[number])
                yield Case(f"{name} {shape} {seed.language} {about}".strip(), False, alone, (kernel, kernel))


def _settings(seed: Candidate) -> list[dict[str, int]]:
    """Return a seed's own configuration, and others."""
    return [dict(seed.tunables), *(c for c in plan.parse(seed).combinations() if c != seed.tunables)]


def machine(commit: str) -> dict[str, Any]:
    """Return what tells this machine from others: processor or GPU, its number, versions, commit, and when."""
    about = {k: provenance()[k] for k in ("date", "gpu", "platform", "versions")} | {"version": commit}
    query = [
        "nvidia-smi",
        "--query-gpu=uuid",
        "--format=csv,noheader",
        f"--id={os.environ.get('CUDA_VISIBLE_DEVICES', 0)}",
    ]
    try:
        return about | {"uuid": subprocess.run(query, capture_output=True, text=True, timeout=20).stdout.strip()}
    except OSError:
        return about


def measured(
    device: str, counts: tuple[int, int], pythons: tuple[str, str], earlier: Sequence[dict[str, Any]]
) -> Iterator[dict[str, Any]]:
    """Yield one ratio after another, check after check without end, going on from `earlier` rows of this machine."""
    rows = [*earlier]
    with tempfile.TemporaryDirectory() as folder:
        chosen = cases(device, *counts, Path(folder))
        pair = AlternatingExecutors(devices.choose(device), pythons)
        try:
            check = max((r["check"] for r in rows), default=0)
            pair.compile_all([(case.task, kernel) for case in chosen for kernel in case.kernels])
            for number in itertools.count(1 + max((r["round"] for r in rows), default=0)):
                begun, order = time.monotonic(), random.Random(number)
                ratios = series_of(r for r in rows if r["check"] == check)
                left = [case for case in chosen if not runs_of(ratios.get(case.key, []), len(chosen))]
                if not left:
                    check, left = check + 1, chosen
                pair.renew()
                for case in order.sample(left, len(left)):
                    subjects = [
                        Subject(kernel, pair.compile(case.task, kernel)[side])
                        for side, kernel in enumerate(case.kernels)
                    ]
                    found = pair.measure(case.task, subjects, order.randrange(2))
                    row: dict[str, Any] = {
                        "round": number,
                        "check": check,
                        "case": case.name,
                        "planted": case.planted,
                        "log_ratios": {name: round(ratio, 7) for name, ratio in found.log_ratios.items()},
                        "us": [round(w.candidate_median_s * 1e6, 2) for w in found.old.workloads],
                        "seconds": round(time.monotonic() - begun, 3),
                        "phases": {name: round(s, 3) for name, s in found.old.phases.items() if name != "compile"},
                    }
                    if {found.old.status, found.new.status} != {"ok"}:
                        row["failed"] = [f"{one.status}: {one.log[-500:]}" for one in (found.old, found.new)]
                    begun = time.monotonic()
                    rows.append(row)
                    yield row
        finally:
            pair.close()


def series_of(rows: Iterable[dict[str, Any]]) -> dict[tuple[bool, str], list[float]]:
    """Return the log-ratios of each case, in the order of rounds."""
    series: dict[tuple[bool, str], list[float]] = {}
    for row in sorted((r for r in rows if r["log_ratios"]), key=lambda r: r["round"]):
        series.setdefault((row["planted"], row["case"]), []).extend(row["log_ratios"].values())
    return series


def runs_of(ratios: Sequence[float], tests: int) -> list[dict[str, Any]]:
    """Cut a case's rounds into runs of the gate; one that is not decided and not at its end is left out."""
    from forewarp.tools.gate_verdicts import ROUNDS, judge

    runs: list[dict[str, Any]] = []
    begun = 0
    for end in range(1, len(ratios) + 1):
        here = ratios[begun:end]
        found = judge(here, THRESHOLD, tests) if len(here) > 1 else None
        if found and (found.verdict or len(here) == ROUNDS[-1]):
            runs.append({"verdict": found.verdict or "too noisy", "rounds": len(here), "ratio": found.ratio})
            begun = end
    return runs


def summed_up(rows: Sequence[dict[str, Any]], *, joined: bool = False) -> list[dict[str, Any]]:
    """Return for equal and for planted cases what their runs came to, with exact 95 % intervals.

    If `joined`, a case's rounds on all machines are one series, the first round of each machine first.
    """
    from scipy import stats

    table: list[dict[str, Any]] = []
    places = [rows] if joined else list(by_machine(rows).values())
    for kind in (False, True):
        series: list[list[float]] = []
        cut: list[list[dict[str, Any]]] = []
        for found in map(series_of, places):
            series += (own := [ratios for (planted, _), ratios in found.items() if planted == kind])
            cut += [runs_of(ratios, len(found)) for ratios in own]
        runs = [*itertools.chain(*cut)]
        spread = [statistics.stdev(ratios) for ratios in series if len(ratios) > 1]
        line: dict[str, Any] = {
            "planted": kind,
            "joined": joined,
            "kernels": len({r["case"] for r in rows if r["planted"] == kind}),
            "machines": len(by_machine(rows)),
            "rounds": sum(map(len, series)),
            "runs": len(runs),
            "unfinished": sum(sum(r["rounds"] for r in c) < len(s) for c, s in zip(cut, series, strict=True)),
            "slower_by": math.expm1(statistics.fmean(itertools.chain(*series))) if series else None,
            "sd_of_a_round": statistics.median(spread) if spread else None,
            "rounds_of_a_run": statistics.fmean(r["rounds"] for r in runs) if runs else None,
        }
        for verdict in ("same", "slower", "faster", "too noisy"):
            count = sum(r["verdict"] == verdict for r in runs)
            interval = stats.binomtest(count, len(runs)).proportion_ci() if runs else None
            line[verdict] = {"count": count, "low": interval and interval.low, "high": interval and interval.high}
        table.append(line)
    return table


def by_machine(rows: Iterable[dict[str, Any]]) -> dict[int, list[dict[str, Any]]]:
    """Return the rows of each machine by its number."""
    found: dict[int, list[dict[str, Any]]] = {}
    for row in rows:
        found.setdefault(row.get("machine", 0), []).append(row)
    return found


def whole_checks(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return for each check that came to its end what it said of equal and of planted cases, and its seconds."""
    found: list[dict[str, Any]] = []
    for number, here in by_machine(rows).items():
        for check in sorted({row["check"] for row in here if "check" in row}):
            parts = [row for row in here if row.get("check") == check]
            series = series_of(parts)
            runs = {key: runs_of(ratios, len(series)) for key, ratios in series.items()}
            if all(runs.values()):
                said = {
                    kind: Counter(r[0]["verdict"] for (p, _), r in runs.items() if p == kind) for kind in (False, True)
                }
                found.append(
                    {
                        "machine": number,
                        "check": check,
                        "equal": dict(said[False]),
                        "planted": dict(said[True]),
                        "rounds": len({row["round"] for row in parts}),
                        "seconds": round(sum(row["seconds"] for row in parts), 1),
                    }
                )
    return found


def simulated(gates: int, kernels: int) -> list[dict[str, Any]]:
    """Simulate gates of so many kernels: how often any kernel is called slower wrongly, and slow-downs are found."""
    import numpy as np

    from forewarp.tools.gate_verdicts import ROUNDS, judge

    rng = np.random.default_rng(0)
    table: list[dict[str, Any]] = []
    for noise, draw in SIMULATED.items():
        for sd in (0.002, 0.005, 0.01):
            for slower in (0.0, THRESHOLD, 0.03):
                counts = {"slower": 0, "same": 0, "faster": 0, "too noisy": 0}
                alarmed = rounds = 0
                for _ in range(gates):
                    any_ = False
                    for _ in range(kernels):
                        ratios = math.log1p(slower) + sd * draw(rng, ROUNDS[-1])
                        for n in ROUNDS:
                            verdict = judge(ratios[:n].tolist(), THRESHOLD, kernels).verdict
                            if verdict:
                                break
                        counts[verdict or "too noisy"] += 1
                        rounds += n
                        any_ = any_ or verdict == "slower"
                    alarmed += any_
                shares = {k: v / gates / kernels for k, v in counts.items()}
                about = {"noise": noise, "sd": sd, "slower_by": slower, "gates_with_alarm": alarmed / gates}
                table.append(about | shares | {"rounds": rounds / gates / kernels})
                print(json.dumps(table[-1]), flush=True)
    return table


def compared(
    target: str, pythons: tuple[str, str], device: str, taken: slice, archive: Path, seconds: float
) -> dict[str, Any]:
    """Check the bundled Triton kernels, and the first of each of the pool's tasks, in two environments.

    Of all these, those of `taken` are checked, and no more rounds begin after so many `seconds`.
    """
    until = time.monotonic() + seconds
    from forewarp.gpu_runner.formats import candidate as candidates
    from forewarp.tools.gate_check import check_gate
    from forewarp.tools.gate_lock import LockedKernel, write_lock
    from forewarp.tools.requests import GateCheckRequest

    root = Path(__file__).parents[1]
    folders = [*(root / "tasks" / name for name in tasks.bundled()), *sorted((root / "pool" / "tasks").iterdir())]
    locked: list[LockedKernel] = []
    for folder in folders:
        loaded = [(p, candidates.load(p)) for p in sorted((folder / "seeds").glob("*.py"))]
        for path, kernel in [pair for pair in loaded if pair[1].language == "triton"][:1]:
            about = {"path": str(path), "task": str(folder), "task_sha256": tasks.load(folder).sha256}
            about |= {"sha256": kernel.sha256, "compiled": {target: []} if device == "none" else {}}
            locked.append(LockedKernel.of(kernel, tunables=dict(kernel.tunables), **about))
    with tempfile.TemporaryDirectory() as folder:
        lock = Path(folder) / "lock.json"
        write_lock(lock, locked[taken])
        where = {"device": device, "archive": str(archive)}
        request = GateCheckRequest(lock=str(lock), python=list(pythons), check=False, **where)
        result = check_gate(
            request,
            stage=lambda said: print(said, file=sys.stderr, flush=True),
            stopped=lambda: time.monotonic() > until,
        )
    rows = [
        row.model_copy(update={"path": str(Path(row.path).relative_to(root)), "task": Path(row.task or "").name})
        for row in result.rows
    ]
    found = result.model_copy(update={"rows": rows, "lock": ""}).model_dump(mode="json")
    pair = AlternatingExecutors(devices.choose("cpu"), pythons)
    try:
        return found | {"target": target, "versions": pair.probe()}
    finally:
        pair.close()


def show(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Print the table; returns it, empty where forewarp's own packages are missing."""
    try:
        table = summed_up(rows)
        if table[0]["machines"] > 1:
            table += summed_up(rows, joined=True)
    except ImportError as e:
        print(f"{len(rows)} ratios; the table takes {e.name}: --table FILE makes it elsewhere")
        return []
    for line in table:
        counts = ", ".join(f"{v} {line[v]['count']}" for v in ("same", "slower", "faster", "too noisy"))
        sd = line["sd_of_a_round"]
        print(
            f"{'3 % more work' if line['planted'] else 'equal'}: {line['kernels']} kernels on "
            f"{'all' if line['joined'] else line['machines']} machines{' joined' * line['joined']}, {line['runs']} "
            f"runs of {line['rounds']} rounds: {counts}; not at their end: {line['unfinished']}; "
            f"sd of a round {sd or 0:.2%}"
        )
    return table


def main() -> None:
    """Measure, and write after each round; or print what a file says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda", "none"))
    parser.add_argument("--for", type=float, default=600, dest="seconds", help="seconds to go on for")
    parser.add_argument("--kernels", type=int, default=20, help="equal cases")
    parser.add_argument("--planted", type=int, default=20, help="cases with 3 %% more work")
    parser.add_argument("--python", nargs=2, default=[sys.executable] * 2, metavar=("OLD", "NEW"))
    parser.add_argument("--out", type=Path, default=RESULT)
    parser.add_argument("--commit", default="", help="commit of forewarp, to be kept with the rounds")
    parser.add_argument("--table", type=Path, nargs="+", help="join result files in --out, and measure nothing")
    parser.add_argument("--simulate", action="store_true", help="simulate the verdicts instead of measuring")
    parser.add_argument("--triton", metavar="TARGET", help="compare machine code of Triton kernels")
    parser.add_argument("--taken", type=int, nargs=2, default=(0, 1), help="first one of these, and how many further")
    args = parser.parse_args()
    if args.triton:
        taken, archive = slice(args.taken[0], None, args.taken[1]), args.out.with_suffix(".db")
        write(args.out, compared(args.triton, tuple(args.python), args.device, taken, archive, args.seconds))
        return
    if args.simulate:
        write(args.out, {"gates": 200, "kernels": 20, "threshold": THRESHOLD, "table": simulated(200, 20)})
        return
    if args.table:
        write(args.out, joined([json.loads(path.read_text()) for path in args.table]))
        return
    kept: dict[str, Any] = json.loads(args.out.read_text()) if args.out.exists() else {}
    rows: list[dict[str, Any]] = kept.get("rounds", [])
    machines: list[dict[str, Any]] = kept.get("machines", [])
    here = machine(args.commit)
    number = next((n for n, m in enumerate(machines) if m | {"date": ""} == here | {"date": ""}), len(machines))
    machines += [here] if number == len(machines) else []
    about = {"device": args.device, "threshold": THRESHOLD, "machines": machines}
    args.out.parent.mkdir(parents=True, exist_ok=True)
    until = time.monotonic() + args.seconds
    earlier = by_machine(rows).get(number, [])
    written = time.monotonic()
    for row in measured(args.device, (args.kernels, args.planted), tuple(args.python), earlier):
        rows.append(row | {"machine": number})
        ended = time.monotonic() > until
        if ended or time.monotonic() > written + 5:  # the file may be large
            args.out.write_text(json.dumps(about | {"rounds": rows}) + "\n")
            written = time.monotonic()
        if ended:
            break
    write(args.out, about | {"summary": show(rows), "checks": whole_checks(rows), "rounds": rows})


def joined(files: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the rounds of several files as of one, each machine under a number of its own."""
    machines: list[dict[str, Any]] = []
    rows: list[dict[str, Any]] = []
    for found in files:
        rows += [row | {"machine": len(machines) + row.get("machine", 0)} for row in found["rounds"]]
        machines += found["machines"]
    about = {"device": files[0]["device"], "threshold": files[0]["threshold"], "machines": machines}
    return about | {"summary": show(rows), "checks": whole_checks(rows), "rounds": rows}


if __name__ == "__main__":
    main()
