"""Searches that begin with a reference alone: no key, no seed kernel. The winner beside what torch.compile makes.

    python benchmarks/seedless.py KERNELBENCH --device cpu --out benchmarks/results/seedless_cpu.json
    python benchmarks/seedless.py KERNELBENCH --device cuda --out benchmarks/results/seedless.json --for 600

`KERNELBENCH` is the folder with `level1` and `level2`. `seedless.toml` lists the problems. For each of them `forewarp
optimize` runs as a user runs it, with an archive of its own; then `seedless_plain.py` checks and times the exported
module in a process without forewarp. Each problem's row is written as it comes, and a later call goes on with those
that have none; `--for` begins none after so many seconds. With `--jobs` several problems run beside each other, and
wait for each other where they measure; of those listed as `large`, one at a time. `--part 2/4` runs every fourth
problem, from the second; `--merge` makes one file of those of several calls.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import random
import signal
import socket
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from datetime import datetime
from pathlib import Path
from typing import Any

from provenance import write

from forewarp.gpu_runner.devices import detect_cpu, detect_cuda
from forewarp.gpu_runner.executors.local import LocalExecutor

HERE = Path(__file__).parent
PLAIN_LIMIT_S = 600.0


def problems(device: str) -> dict[str, dict[str, Any]]:
    """Return the constants of each problem by name."""
    table = tomllib.loads((HERE / "seedless.toml").read_text())
    return table["cpu"] if device == "cpu" else {name: {} for name in table["cuda"]["problems"]}


def listed_large() -> list[str]:
    """Return the problems on a GPU of which one is searched at a time."""
    return tomllib.loads((HERE / "seedless.toml").read_text())["cuda"]["large"]


def task_folder(reference: Path, constants: dict[str, Any], folder: Path) -> Path:
    """Make a task of a problem with other constants."""
    folder.mkdir()
    (folder / "reference.py").write_text(reference.read_text())
    fields = ", ".join(f"{name} = {json.dumps(value)}" for name, value in constants.items())
    table = f"[workloads.KIND]\ndefault = {{ {fields} }}\n" if constants else ""
    (folder / "task.toml").write_text("".join(table.replace("KIND", kind) for kind in ("cpu", "cuda")))
    return folder


def optimize(task: Path, folder: Path, args: argparse.Namespace) -> dict[str, Any]:
    """Search, and return the result document with its seconds, also those to the first measured candidate."""
    command = [sys.executable, "-m", "forewarp.cli.main", "optimize", str(task), "--device", args.device, "--quiet"]
    command += ["--budget", str(args.budget), "--deadline", str(args.deadline), "--json", "--seed", "0"]
    command += ["--no-confirm"]  # winners are timed afresh
    command += ["--archive", str(folder / "archive.db"), "--out", str(folder / "out")]
    command += ["--events", str(folder / "events.jsonl")]
    begun, clock = time.perf_counter(), time.time()
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    document = json.loads(done.stdout or json.dumps({"error": f"left with exit status {done.returncode}"}))
    document["wall_s"] = time.perf_counter() - begun
    events = folder / "events.jsonl"
    lines = [json.loads(line) for line in events.read_text().splitlines()] if events.exists() else []
    measured = [e for e in lines if e["type"] == "Measured"]
    document["looks"] = [{k: e[k] for k in ("purpose", "status", "speedup")} for e in measured]
    with contextlib.closing(sqlite3.connect(folder / "archive.db")) as archive:
        query = "SELECT m.data, k.tunables FROM measurement m JOIN kernel k ON m.kernel = k.sha256 WHERE m.id = ?"
        for look, event in zip(document["looks"], measured, strict=True):
            look["s"] = datetime.fromisoformat(event["time"]).timestamp() - clock
            data, tunables = archive.execute(query, (event["measurement"],)).fetchone()
            found = json.loads(data)
            look |= {"tunables": json.loads(tunables), "phases": found["phases"], "log": found["log"][:600]}
    return document


class Plain:
    """The process that forks one for each winner, see `seedless_plain.py`."""

    def __init__(self, args: argparse.Namespace, folder: Path) -> None:
        self._device, self._seconds, self._socket = device_of(args), args.seconds, str(folder / "plain")
        command = [sys.executable, str(HERE / "seedless_plain.py"), args.device, self._socket]
        # Triton's templates of fp32 convolutions were 12 times as slow as cuDNN, twice, and took 28 s to time.
        variables = os.environ | {"TORCHINDUCTOR_MAX_AUTOTUNE_CONV_BACKENDS": "ATEN"}
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True, env=variables)
        assert self._process.stdout is not None
        self._process.stdout.readline()

    def prepared(self, reference: Path, winner: Path, constants: dict[str, Any]) -> socket.socket:
        """Return the line to a process that gets ready for a winner that is not there yet."""
        line = socket.socket(socket.AF_UNIX)
        line.settimeout(PLAIN_LIMIT_S)
        line.connect(self._socket)
        asked = {"reference": str(reference), "winner": str(winner), "constants": constants, "seconds": self._seconds}
        line.sendall(json.dumps(asked).encode() + b"\n")
        return line

    def measured(self, line: socket.socket) -> dict[str, Any]:
        """Check and time a winner in its process, which has the device for itself."""
        with self._device.held(), line.makefile() as answer:
            begun = time.perf_counter()
            line.sendall(b"go\n")
            try:
                found = answer.readline()
            except TimeoutError:
                return {"error": f"not done after {PLAIN_LIMIT_S:.0f} s"}
            return {"held_s": time.perf_counter() - begun} | (json.loads(found) if found else {"error": "it ended"})

    def close(self) -> None:
        """End all processes."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


def device_of(args: argparse.Namespace) -> LocalExecutor:
    """Return the device that searches measure on, too; they wait for each other."""
    target = detect_cpu() if args.device == "cpu" else detect_cuda()
    if target is None:
        raise SystemExit("there is no GPU here")
    return LocalExecutor(target)


def one(
    path: Path, constants: dict[str, Any], folder: Path, args: argparse.Namespace, plain: Plain
) -> Callable[[], dict[str, Any]]:
    """Search, and return a function that times the winner afresh and returns the problem's row."""
    folder.mkdir()
    task, winner = task_folder(path, constants, folder / path.stem), folder / "out" / "best_module.py"
    line = plain.prepared(task / "reference.py", winner, constants)
    found = optimize(task, folder, args)
    looks = found["looks"]
    row = {"constants": constants, "wall_s": found["wall_s"], "first_s": looks[0]["s"] if looks else None}
    row |= {"counts": found.get("counts"), "looks": looks}
    print(path.stem, "searched:", *((k["speedup"], k["tunables"]) for k in looks), file=sys.stderr, flush=True)
    if error := found.get("error"):
        row["error"] = error
    if best := found.get("best"):
        row["best"] = {
            "tunables": best["kernel"]["tunables"],
            "confirmed": best["confirmed"],
            "over_eager": {k: best["speedup"][k] for k in ("ratio", "low", "high")},
        }

    def timed() -> dict[str, Any]:
        with line:
            if "error" in row or not winner.exists():
                return row
            made = next(s[2:] for s in winner.read_text().splitlines() if s.startswith("# The reference, "))
            return row | {"made": made, "plain": plain.measured(line)}

    return timed


def summary(rows: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return the share of problems with a winner that is right in a plain process, and its speed-ups in the mean.

    `over_best` is over the fastest of the other ways, chosen for each problem by these very times.
    """
    right = {n: r["plain"] for n, r in rows.items() if r.get("plain", {}).get("right", {}).get("winner")}
    arms = sorted({arm for p in right.values() for arm in p.get("over", {})})

    def means(key: str) -> dict[str, Any]:
        found = {arm: [p[key][arm]["ratio"] for p in right.values() if arm in p.get(key, {})] for arm in arms}
        return {arm: mean(ratios) for arm, ratios in found.items()}

    firsts = [r["first_s"] for r in rows.values() if r["first_s"]]
    return {
        "problems": len(rows),
        "right": len(right),
        "share": len(right) / len(rows),
        "over": means("over"),
        "quiet": means("quiet"),
        "over_best": mean([min(o["ratio"] for o in p["over"].values()) for p in right.values()]) if right else None,
        "wall_s": statistics.median(r["wall_s"] for r in rows.values()),
        "first_s": statistics.median(firsts) if firsts else None,
    }


def mean(ratios: list[float]) -> dict[str, float]:
    """Return the geometric mean, with a bootstrap 95 % interval over the problems."""
    logs, draw = [math.log(r) for r in ratios], random.Random(0)
    means = sorted(statistics.fmean(draw.choices(logs, k=len(logs))) for _ in range(2000))
    found = {"ratio": math.exp(statistics.fmean(logs)), "low": math.exp(means[50]), "high": math.exp(means[-51])}
    return found | {"problems": len(logs)}


def main() -> None:
    """Run what has no row yet, and write the file after each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kernelbench", type=Path, nargs="?")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--budget", type=int, default=8, help="measurements a search")
    parser.add_argument("--deadline", type=float, default=180.0, help="most seconds of a search")
    parser.add_argument("--seconds", type=float, default=10.0, help="most seconds of timing afresh, per problem")
    parser.add_argument("--jobs", type=int, default=1, help="searches beside each other")
    parser.add_argument("--only", nargs="+", help="these problems, of those listed, in this order")
    parser.add_argument("--part", default="1/1", help="K/N: every Nth problem, from the Kth")
    parser.add_argument("--merge", type=Path, nargs="+", help="make one file of these")
    parser.add_argument(
        "--for", dest="limit", type=float, default=math.inf, help="begin no problem after so many seconds"
    )
    args = parser.parse_args()
    if args.merge:
        files = [json.loads(path.read_text()) for path in args.merge]
        rows = {name: row for file in files for name, row in file["rows"].items()}
        parts = [p for f in files for p in f.get("parts", [{k: f.get(k) for k in ("provenance", "settings")}])]
        write(args.out, {"parts": parts, "summary": summary(rows), "rows": rows})
    else:
        run(args)


def run(args: argparse.Namespace) -> None:
    """Run the problems asked for."""
    settings = {k: getattr(args, k) for k in ("device", "budget", "deadline", "seconds", "jobs")}
    rows: dict[str, dict[str, Any]] = json.loads(args.out.read_text())["rows"] if args.out.exists() else {}
    begun = time.perf_counter()
    first, step = map(int, args.part.split("/"))

    def row(name: str) -> dict[str, Any] | None:
        folder = tmp / name.replace("/", "_")
        with large if name in listed_large() else small:
            if time.perf_counter() - begun > args.limit:
                return None
            found = one(args.kernelbench / f"{name}.py", constants[name], folder, args, plain)
        return found()

    constants, small, large = problems(args.device), threading.Semaphore(args.jobs), threading.Semaphore(1)
    listed = (args.only or list(constants))[first - 1 :: step]
    with tempfile.TemporaryDirectory() as scratch, ThreadPoolExecutor(len(listed)) as pool:
        tmp = Path(scratch)
        plain = Plain(args, tmp)
        running = {pool.submit(row, name): name for name in listed if name not in rows}
        for done in as_completed(running):
            if not (found := done.result()):
                continue
            name = running[done]
            rows[name] = found
            write(args.out, {"settings": settings, "summary": summary(rows), "rows": rows})
            over = found.get("plain", {}).get("over", {})
            print(name, {a: round(o["ratio"], 3) for a, o in over.items()} or found, file=sys.stderr, flush=True)
        plain.close()


if __name__ == "__main__":
    main()
