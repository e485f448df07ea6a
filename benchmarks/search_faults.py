"""Searches that are killed, and searches that share a device.

    nice -n 5 python benchmarks/search_faults.py kills --out benchmarks/results/search_kills.json
    nice -n 5 python benchmarks/search_faults.py replayed --out benchmarks/results/search_kills_simulated.json
    nice -n 5 python benchmarks/search_faults.py sharing --out benchmarks/results/search_sharing.json

`kills` starts `forewarp optimize` on the CPU, ends its whole process group with SIGKILL at random instants, takes it up
with `forewarp resume` after each, and in the end compares what the archive holds with what was booked. Timings differ
from run to run there, and with them decisions, so `replayed` does the same to a search on an arithmetic device, whose
proposals, forecasts, decisions, measurements and totals must be those of a search that was left alone. `sharing` runs
two and three searches at once on one CPU and one archive, and notes by the machine's monotonic clock when each asked
for the device, got it, timed, and gave it back.

Timings are short here (0.1 s per shape), because what they say does not matter.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import itertools
import json
import os
import random
import signal
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Generator, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from provenance import write

from forewarp.archive.store import Archive
from forewarp.search.settings import SearchSettings, stored
from forewarp.search.state import RunState, pending

TESTS = Path(__file__).parents[1] / "tests"
PHASES = {"check": "gate", "measure": "before a measurement"}
GONE_S = 20.0


def main() -> None:
    """Run one of the experiments and write its result; or be one of its searches."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("kills", "replayed", "sharing"))
    parser.add_argument("--task", default="softmax")
    parser.add_argument("--budget", type=int, default=8)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    adopt_orphans()
    with tempfile.TemporaryDirectory(prefix="search-faults-") as folder:
        experiment = {"kills": kills, "replayed": replayed, "sharing": sharing}[args.what]
        write(args.out, experiment(args, Path(folder)))


class Controller:
    """One search in a process group of its own; its folder holds cache, archive and temporary files."""

    def __init__(self, folder: Path, command: list[str], probe: Path | None = None) -> None:
        (folder / "tmp").mkdir(parents=True, exist_ok=True)
        environment = os.environ | {"FOREWARP_CACHE": str(folder / "cache"), "TMPDIR": str(folder / "tmp")}
        self.began = time.monotonic()
        self.log = folder / "log"
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, __file__, "--child", str(probe or ""), *command],
                start_new_session=True,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def wait(self, seconds: float) -> bool:
        """Return whether it ended by itself within so many seconds."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(seconds)
            return True
        return False

    def kill(self) -> float:
        """End the group at once; returns the seconds until no process of it was left."""
        began = time.monotonic()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        while children() and time.monotonic() < began + GONE_S:
            time.sleep(0.01)
        return time.monotonic() - began


def kills(args: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Kill real searches, `args.kills` times in all."""
    flags = ["--device", "cpu", "--budget", str(args.budget), "--no-holdout", "--quiet", "--json"]
    flags += ["--archive", str(folder / "a.db"), "--out", str(folder / "out")]
    begin = ["optimize", args.task, *flags, "--seed", str(args.seed)]
    # Its cache is its own, so that the killed ones compile, too.
    alone = Controller(folder / "first", [*begin, "--events", str(folder / "alone")])
    alone.wait(900)
    took = time.monotonic() - alone.began
    chance, table, runs = random.Random(args.seed), [], []
    with Archive(folder / "a.db") as archive:
        reference = audited(archive, run_of(folder / "alone"), args.budget)
        starting = _startup(archive, run_of(folder / "alone"), took)
        # Long enough that some sessions get a measurement done, short enough that one run lasts for all of the kills.
        reach = starting + 1.2 * (took - starting) / args.budget
        while len(table) < args.kills:
            name = folder / f"run{len(runs)}"
            controller = Controller(folder, [*begin, "--events", str(name)])
            while not (run := run_of(name)):
                time.sleep(0.02)
            ended = False
            while not ended:
                delay = chance.uniform(0.0, reach) if len(table) < args.kills else 900.0
                ended = controller.wait(delay)
                if not ended:
                    table.append(_killed(archive, controller, run, len(runs)))
                    print(table[-1], file=sys.stderr, flush=True)
                    rest = ["--device", "cpu", "--archive", str(folder / "a.db"), "--out", str(folder / "out")]
                    controller = Controller(folder, ["resume", run, *rest, "--quiet", "--json"])
            runs.append(audited(archive, run, args.budget) | {"kills": sum(k["run"] == len(runs) for k in table)})
        integrity = archive._one("PRAGMA integrity_check")[0]  # pyright: ignore[reportPrivateUsage, reportOptionalSubscript]
    return {
        "task": args.task,
        "alone": reference | {"wall_s": took, "startup_s": starting},
        "kills": table,
        "phases": Counter(k["phase"] for k in table),
        "runs": runs,
        "integrity_check": integrity,
        "orphans": sum(k["left"] for k in table),
        "slowest_end_s": max(k["gone_s"] for k in table),
        "folders_left_in_tmp": _folders(folder / "tmp"),
        "exact": all(r["exact"] for r in runs),
    }


def run_of(events: Path) -> str:
    """Return the run whose events a file holds; "" before the first is whole."""
    first, newline, _ = events.read_text().partition("\n") if events.exists() else ("", "", "")
    return str(json.loads(first)["run"]) if newline else ""


def _startup(archive: Archive, run: str, took: float) -> float:
    """Return how many of a run's seconds went by before its first candidate."""
    return max(0.5, took - archive.spend(run).wall_s)


def _killed(archive: Archive, controller: Controller, run: str, number: int) -> dict[str, Any]:
    """Kill it and say what it was doing, what is lost, and whether all of its processes are gone."""
    instant = time.monotonic() - controller.began
    gone = controller.kill()
    left = children()
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    said = archive.events(run)
    begun = [m for m in archive.measurements(run=run) if m.state == "started"]
    quiet = archive.run(run).owner.split(":")[1:2] != [str(controller.process.pid)]
    return {
        "run": number,
        "after_s": round(instant, 2),
        "phase": "starting" if quiet else phase(archive, run),
        "events": len(said),
        "measured": archive.spend(run).measurements - len(begun),
        "lost": "a measurement in progress" if begun and not quiet else "nothing",
        "gone_s": round(gone, 2),
        "left": len(left),
        "integrity": _integrity(archive.path),
    }


def phase(archive: Archive, run: str) -> str:
    """Return what a killed run was doing: what is to be done next by what it wrote."""
    settings = stored(archive.run(run).settings)
    state = RunState.load(archive, run, forecasting=bool(settings.forecaster))
    doing = pending(state, settings)
    if doing.kind == "finish" or any(m.purpose == "confirm" for m in archive.measurements(run=run)):
        return "confirm"
    announced = doing.kind == "measure" and state.rows[doing.proposals[0]].measurement_id is not None
    return "measure" if announced else PHASES.get(doing.kind, doing.kind)


def audited(archive: Archive, run: str, budget: int) -> dict[str, Any]:
    """Compare what a run measured with what was booked."""
    rows, spend, row = archive.measurements(run=run), archive.spend(run), archive.run(run)
    done = [m for m in rows if m.measurement is not None]
    seconds = sum(m.measurement.device_s for m in done if m.measurement)
    often = Counter((m.proposal, m.purpose) for m in rows)
    texts = Counter(m.candidate.sha256 for m in rows if m.purpose == "candidate")
    began = Counter(e.data["measurement"] for e in archive.events(run) if e.type == "Measured")
    found = {
        "run": run,
        "status": row.status,
        "reason": row.reason,
        "measurements": len(done),
        "booked": spend.measurements,
        "device_s": seconds,
        "device_s_booked": spend.device_s,
        "wall_s_booked": spend.wall_s,
        "repeated": sum(n - 1 for n in often.values()) + sum(n - 1 for n in texts.values()),
        "unfinished": len(rows) - len(done),
        "told_once": sorted(began) == [m.id for m in done] and set(began.values()) <= {1},
    }
    exact = (
        found["status"] == "finished"
        and found["measurements"] == found["booked"] == budget
        and abs(seconds - spend.device_s) < 1e-6
        and not found["repeated"]
        and not found["unfinished"]
        and found["told_once"]
    )
    return found | {"exact": bool(exact)}


def replayed(args: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Kill searches on the arithmetic device, and compare them with one that was left alone."""
    alone = Controller(folder, ["--simulated", str(folder / "alone.db"), str(args.seed)])
    alone.wait(600)
    took = time.monotonic() - alone.began
    with Archive(folder / "alone.db") as archive:
        expected = traced(archive)
        startup = _startup(archive, archive.runs()[0].id, took)
    chance, table, path, ended = random.Random(args.seed), [], folder / "killed.db", False
    per_kill = _events(folder / "alone.db") / args.kills
    while not ended:
        controller = Controller(folder, ["--simulated", str(path), str(args.seed)])
        if len(table) < args.kills:
            # By events rather than seconds, because a session takes seconds until its forecaster is loaded; then a
            # little more, so that it is not always right after a write.
            wanted = _events(path) + chance.uniform(0.0, 0.8 * per_kill)
            while _events(path) < wanted and not controller.wait(0.01):
                pass
            ended = controller.wait(chance.uniform(0.0, 0.4))
        else:
            ended = controller.wait(600.0)
        if not ended:
            gone = controller.kill()
            table.append({"after_s": round(time.monotonic() - controller.began, 2), "gone_s": round(gone, 2)})
            if path.exists():
                with Archive(path) as archive:
                    begun = archive.runs()
                    quiet = not begun or begun[0].owner.split(":")[1:2] != [str(controller.process.pid)]
                    table[-1] |= {"phase": "starting" if quiet else phase(archive, begun[0].id)}
                    table[-1] |= {"events": len(archive.events(begun[0].id)) if begun else 0}
                table[-1] |= {"integrity": _integrity(path)}
            print(table[-1], file=sys.stderr, flush=True)
    with Archive(path) as archive:
        found = traced(archive)
    return {
        "simulated": True,
        "alone": {"wall_s": took, "startup_s": startup, "counts": {k: len(v) for k, v in expected.items()}},
        "kills": table,
        "phases": Counter(k.get("phase", "starting") for k in table),
        "identical": {name: found[name] == expected[name] for name in expected},
    }


def _events(path: Path) -> int:
    """Return how many events an archive holds, whoever writes to it meanwhile."""
    if not path.exists():
        return 0
    with contextlib.suppress(sqlite3.Error), contextlib.closing(sqlite3.connect(path)) as db:
        return int(db.execute("SELECT count(*) FROM event").fetchone()[0])
    return 0


def traced(archive: Archive) -> dict[str, list[Any]]:
    """Return everything of the archive's only run that must not depend on kills; seconds of the clock may."""
    (row,) = archive.runs()
    run, spend = row.id, archive.spend(row.id)
    return {
        "proposals": [(r.round, r.position, r.candidate.sha256, r.parent, r.outcome) for r in archive.candidates(run)],
        "forecasts": [(p, replace(f, cost=replace(f.cost, seconds=0.0))) for p, f in archive.forecasts(run)],
        "decisions": archive.decisions(run),
        "measurements": [(m.id, m.candidate.sha256, m.purpose, m.measurement) for m in archive.measurements(run=run)],
        "alarms": [e.data for e in archive.events(run) if e.type == "Alarmed"],
        "totals": [spend.measurements, spend.device_s, spend.tokens, spend.dollars],
        "end": [row.status, row.reason],
    }


def sharing(args: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Let two and then three searches share the CPU and an archive."""
    return {"task": args.task, "together": [_together(args, folder / str(count), count) for count in (1, 2, 3)]}


def _together(args: argparse.Namespace, folder: Path, count: int) -> dict[str, Any]:
    folder.mkdir()
    searches = []
    for number in range(count):
        command = ["optimize", args.task, "--device", "cpu", "--budget", str(args.budget), "--no-holdout", "--quiet"]
        command += ["--json", "--seed", str(number), "--archive", str(folder / "a.db")]
        command += ["--out", str(folder / f"out{number}"), "--events", str(folder / f"run{number}")]
        searches.append(Controller(folder, command, folder / f"probe{number}.jsonl"))
    ended = [s.wait(1200) for s in searches]
    walls = [time.monotonic() - s.began for s in searches]
    probes = [_lines(folder / f"probe{number}.jsonl") for number in range(count)]
    timings = sorted((p["began"], p["ended"], n) for n, found in enumerate(probes) for p in found if "job" in p)
    holds = sorted((p["got"], p["gave"], p["asked"], n) for n, found in enumerate(probes) for p in found if "got" in p)
    with Archive(folder / "a.db") as archive:
        runs = [audited(archive, run_of(folder / f"run{n}"), args.budget) for n in range(count)]
        integrity = _integrity(archive.path)
    result = {
        "searches": count,
        "ended": all(ended),
        "wall_s": max(walls),
        "timings": len(timings),
        "timings_overlap": sum(b[0] < a[1] for a, b in itertools.pairwise(timings)),
        "timing_outside_of_its_hold": sum(
            not any(got <= began and done <= gave and n == m for got, gave, _, m in holds) for began, done, n in timings
        ),
        "held_s": sum(gave - got for got, gave, _, _ in holds),
        "shortest_gap_s": min((b[0] - a[1] for a, b in itertools.pairwise(timings)), default=None),
        "each": [_waits(holds, n) for n in range(count)],
        "runs": runs,
        "exact": all(r["exact"] for r in runs),
        "integrity_check": integrity,
    }
    print(json.dumps(result), file=sys.stderr, flush=True)
    return result


def _waits(holds: list[tuple[float, float, float, int]], number: int) -> dict[str, Any]:
    """Return how long one search waited for the device, and how many of the others' holds it had to let pass."""
    own = [(asked, got, gave) for got, gave, asked, n in holds if n == number]
    waits = [got - asked for asked, got, _ in own]
    passed = [sum(asked < other < got for other, _, _, n in holds if n != number) for asked, got, _ in own]
    return {
        "holds": len(own),
        "held_s": sum(gave - got for _, got, gave in own),
        "waited_s": sum(waits),
        "wait_median_s": statistics.median(waits),
        "wait_longest_s": max(waits),
        "most_let_pass": max(passed),
    }


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def _integrity(path: Path) -> str:
    with contextlib.closing(sqlite3.connect(path)) as db:
        return str(db.execute("PRAGMA integrity_check").fetchone()[0])


def _folders(path: Path) -> dict[str, int]:
    found = [p for p in path.iterdir() if p.is_dir()]
    return {"folders": len(found), "bytes": sum(f.stat().st_size for p in found for f in p.rglob("*") if f.is_file())}


def adopt_orphans() -> None:
    """Become the parent of whatever a killed search leaves behind, so that nothing of it goes unseen."""
    if ctypes.CDLL(None, use_errno=True).prctl(36, 1, 0, 0, 0) != 0:  # PR_SET_CHILD_SUBREAPER
        raise OSError("this kernel has no subreapers")


def children() -> list[int]:
    """Return this process's living descendants; those that ended are buried on the way."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    return list(_below(os.getpid(), _parents()))


def _below(pid: int, parents: Mapping[int, int]) -> Iterator[int]:
    for child, parent in parents.items():
        if parent == pid:
            yield child
            yield from _below(child, parents)


def _parents() -> dict[int, int]:
    found: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, IndexError):
            state, parent = stat.read_text().rpartition(")")[2].split()[:2]
            if state != "Z":
                found[int(stat.parent.name)] = int(parent)
    return found


def child(probe: str, command: list[str]) -> None:
    """Be one search: the command line's own, with short timings, and notes of when it had the device."""
    if command[0] == "--simulated":
        simulated(Path(command[1]), int(command[2]))
        return
    from forewarp.cli.main import main as forewarp
    from forewarp.gpu_runner.executors import client, local

    local.Limits = partial(local.Limits, time_s=0.1)  # pyright: ignore[reportAttributeAccessIssue]
    if probe:
        _watch_device(local, client, Path(probe))
    sys.argv = ["forewarp", *command]
    sys.exit(forewarp())


def _watch_device(local: Any, client: Any, probe: Path) -> None:
    from forewarp.gpu_runner.worker.requests import MeasureJob

    hold, run = local.exclusive_device, client.WorkerClient.run

    def note(**facts: Any) -> None:
        with probe.open("a") as file:
            file.write(json.dumps(facts) + "\n")

    @contextlib.contextmanager
    def exclusive_device(*where: Any) -> Generator[None]:
        asked = time.monotonic()
        with hold(*where):
            got = time.monotonic()
            yield
            gave = time.monotonic()
        note(asked=asked, got=got, gave=gave)

    def timed(self: Any, job: Any, *more: Any) -> Any:
        began = time.monotonic()
        try:
            return run(self, job, *more)
        finally:
            if isinstance(job, MeasureJob):
                note(job="measure", began=began, ended=time.monotonic())

    local.exclusive_device, client.WorkerClient.run = exclusive_device, timed


def simulated(path: Path, seed: int) -> None:
    """Begin a search on the arithmetic device, or take it up if the archive holds one."""
    sys.path.insert(0, str(TESTS))
    from support.synthetic_executor import SyntheticExecutor, task

    from forewarp.core.budget import Budget
    from forewarp.search.loop import Search
    from forewarp.search.proposers.tunables import TunablesProposer
    from forewarp.surrogate.calibration import Recalibrated
    from forewarp.surrogate.learned import LearnedForecaster

    class Slow(SyntheticExecutor):
        def compile(self, *args: Any) -> Any:
            time.sleep(0.02)
            return super().compile(*args)

        def measure(self, *args: Any, **more: Any) -> Any:
            time.sleep(0.3)
            return super().measure(*args, **more)

    settings = SearchSettings(
        seed=seed,
        budget=Budget(measurements=30),
        audit=0.3,
        audit_budget=1.0,
        patience=0,
        min_improvement=0.0,
        compile_threads=2,
    )
    made = TunablesProposer(), Recalibrated(LearnedForecaster())
    with Archive(path) as archive:
        begun = archive.runs()
        if begun:
            search = Search.resume(archive, begun[0].id, Slow(), *made)
        else:
            search = Search.start(archive, task(), Slow(), *made, settings)
        search.run()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(sys.argv[2], sys.argv[3:])
    else:
        main()
