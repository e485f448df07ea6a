"""Searches that begin with a reference alone: no key, no seed kernel. The winner beside what torch.compile makes.

    python benchmarks/seedless.py KERNELBENCH --device cpu --out benchmarks/results/seedless_cpu.json
    python benchmarks/seedless.py KERNELBENCH --device cuda --out benchmarks/results/seedless.json --for 600

`KERNELBENCH` is the folder with `level1` and `level2`. `seedless.toml` lists the problems. For each of them `forewarp
optimize` runs as a user runs it, with a cache and an archive of its own; then `seedless_plain.py` checks and times the
exported module in a process without forewarp. Each problem's row is written as it comes, and a later call goes on with
those that have none; `--for` begins none after so many seconds. With `--jobs` searches and compilations of several
problems run beside each other, on a GPU too; timing afresh is always alone.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor, as_completed
from datetime import datetime
from pathlib import Path
from typing import Any

from provenance import write

HERE = Path(__file__).parent
PLAIN_LIMIT_S = 600.0


def problems(device: str) -> dict[str, dict[str, Any]]:
    """Return the constants of each problem by name."""
    table = tomllib.loads((HERE / "seedless.toml").read_text())
    return table["cpu"] if device == "cpu" else {name: {} for name in table["cuda"]["problems"]}


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
    command += ["--archive", str(folder / "archive.db"), "--out", str(folder / "out")]
    command += ["--events", str(folder / "events.jsonl")]
    begun, clock = time.perf_counter(), time.time()
    environment = os.environ | {"XDG_CACHE_HOME": str(folder / "cache")}
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=environment)
    document = json.loads(done.stdout)
    document["wall_s"] = time.perf_counter() - begun
    events = folder / "events.jsonl"
    lines = [json.loads(line) for line in events.read_text().splitlines()] if events.exists() else []
    first = next((e["time"] for e in lines if e["type"] == "Measured"), None)
    document["first_s"] = first and datetime.fromisoformat(first).timestamp() - clock
    return document


def plain(reference: Path, winner: Path, constants: dict[str, Any], args: argparse.Namespace) -> dict[str, Any]:
    """Check and time a winner in a process of its own."""
    command = [sys.executable, str(HERE / "seedless_plain.py"), args.device, str(reference), str(winner)]
    command += [json.dumps(constants), str(args.seconds), str(lock_of(args.out))]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PLAIN_LIMIT_S)
    except subprocess.TimeoutExpired:
        return {"error": f"not done after {PLAIN_LIMIT_S:.0f} s"}
    lines = done.stdout.splitlines()
    return json.loads(lines[-1]) if done.returncode == 0 and lines else {"error": done.stderr[-600:]}


def lock_of(out: Path) -> Path:
    """Return the file that is locked by what runs beside other problems (shared) and by timing (alone)."""
    return Path(tempfile.gettempdir()) / f"{out.stem}.{os.getpid()}.lock"


def one(path: Path, constants: dict[str, Any], args: argparse.Namespace) -> dict[str, Any]:
    """Return a problem's row."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        task = task_folder(path, constants, folder / path.stem)
        with lock_of(args.out).open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH)
            found = optimize(task, folder, args)
        row: dict[str, Any] = {"constants": constants, "wall_s": found["wall_s"], "first_s": found["first_s"]}
        row["counts"] = found.get("counts")
        if error := found.get("error"):
            return row | {"error": error}
        if best := found.get("best"):
            row["best"] = {
                "tunables": best["kernel"]["tunables"],
                "confirmed": best["confirmed"],
                "over_eager": {k: best["speedup"][k] for k in ("ratio", "low", "high")},
            }
        winner = folder / "out" / "best_module.py"
        if winner.exists():
            row["plain"] = plain(task / "reference.py", winner, constants, args)
        return row


def summary(rows: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return the share of problems with a winner that is right in a plain process, and its speed-ups in the mean."""
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
    parser.add_argument("kernelbench", type=Path)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--budget", type=int, default=8, help="measurements a search")
    parser.add_argument("--deadline", type=float, default=180.0, help="most seconds of a search")
    parser.add_argument("--seconds", type=float, default=10.0, help="most seconds of timing afresh, per problem")
    parser.add_argument("--jobs", type=int, default=1, help="problems beside each other, but for timing afresh")
    parser.add_argument("--only", nargs="+", help="these problems, of those listed")
    parser.add_argument(
        "--for", dest="limit", type=float, default=math.inf, help="begin no problem after so many seconds"
    )
    args = parser.parse_args()
    settings = {k: getattr(args, k) for k in ("device", "budget", "deadline", "seconds", "jobs")}
    rows: dict[str, dict[str, Any]] = json.loads(args.out.read_text())["rows"] if args.out.exists() else {}
    begun = time.perf_counter()

    def row(name: str, constants: dict[str, Any]) -> dict[str, Any] | None:
        if time.perf_counter() - begun > args.limit:
            return None
        return one(args.kernelbench / f"{name}.py", constants, args)

    with ThreadPoolExecutor(args.jobs) as pool:
        listed = {n: c for n, c in problems(args.device).items() if n not in rows and n in (args.only or [n])}
        running = {pool.submit(row, name, constants): name for name, constants in listed.items()}
        for done in as_completed(running):
            if not (found := done.result()):
                continue
            name = running[done]
            rows[name] = found
            write(args.out, {"settings": settings, "summary": summary(rows), "rows": rows})
            over = found.get("plain", {}).get("over", {})
            print(name, {a: round(o["ratio"], 3) for a, o in over.items()} or found, file=sys.stderr, flush=True)
    lock_of(args.out).unlink(missing_ok=True)


if __name__ == "__main__":
    main()
