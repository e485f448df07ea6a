"""The main job on this device: `forewarp optimize` as a user runs it, and where the time per candidate goes.

    python benchmarks/main_job.py --device cuda --jobs softmax:triton rmsnorm:triton cross_entropy:triton \\
        softmax:cuda matmul:cuda --budget 20 --out benchmarks/results/h200

Each job is a process of its own, with one archive for all. Written into --out: each run's JSON document and best
kernel, a recorded pool of everything measured (`pool.parquet`), and `summary.json` with the table: winner with its
interval, candidates considered and measured, and the median seconds per measured candidate by phase.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from provenance import write

from forewarp.archive.pools import splits
from forewarp.archive.pools.parquet import write_rows
from forewarp.archive.store import Archive

PHASES = ("spawn", "compile", "setup", "check", "time", "total")


def one_job(job: str, args: argparse.Namespace, archive: Path, folder: Path) -> dict[str, Any]:
    """Run one job to its end and return its result document with the seconds it took."""
    task, _, language = job.partition(":")
    command = [sys.executable, "-m", "forewarp.cli.main", "optimize", task, "--device", args.device]
    command += ["--language", language] if language else []
    command += ["--budget", str(args.budget), "--seed", str(args.seed), "--json", "--archive", str(archive)]
    command += ["--out", str(folder)]
    start = time.perf_counter()
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    document = json.loads(done.stdout)
    document.pop("artifacts", None)  # paths of a folder that is about to go
    document["exit_code"], document["wall_s"] = done.returncode, time.perf_counter() - start
    return document


def phases(archive: Archive, run: str) -> dict[str, float]:
    """Return the median seconds of each phase over a run's measurements."""
    rows = [m.measurement for m in archive.measurements(run=run) if m.measurement is not None]
    taken = {p: [r.phases[p] for r in rows if p in r.phases] for p in PHASES}
    return {p: statistics.median(v) for p, v in taken.items() if v}


def row(job: str, document: dict[str, Any], archive: Archive) -> dict[str, Any]:
    """Return a job's line of the table."""
    best, counts = document.get("best"), document.get("counts") or {}
    return {
        "job": job,
        "exit_code": document["exit_code"],
        "run": document["run_id"],
        "best": best and {k: best["speedup"][k] for k in ("ratio", "low", "high")},
        "confirmed": bool(best and best["confirmed"]),
        "considered": counts.get("considered"),
        "measured": counts.get("measured"),
        "failures": counts.get("failures"),
        "rejected": counts.get("rejected"),
        "wall_s": document["wall_s"],
        "phases_median_s": phases(archive, document["run_id"]) if document.get("run_id") else {},
    }


def main() -> None:
    """Run all jobs, print the table, write the files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", nargs="+", required=True, help="TASK or TASK:LANGUAGE")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--budget", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "archive.db"
        for job in args.jobs:
            name = job.replace(":", "_")
            document = one_job(job, args, path, Path(scratch) / name)
            (args.out / f"{name}.json").write_text(json.dumps(document, indent=1) + "\n")
            for kernel in (Path(scratch) / name).glob("best.*"):
                shutil.copy(kernel, args.out / f"{name}{kernel.suffix}")
            with Archive(path) as archive:
                rows.append(row(job, document, archive))
            print(rows[-1], file=sys.stderr, flush=True)
        with Archive(path) as archive:
            recorded = (splits.assign(row, splits.load()) for row in archive.recorded())
            write_rows(recorded, args.out / "pool.parquet", with_samples=True)
    write(args.out / "summary.json", {"jobs": rows})
    print("| job | best (95 %) | considered | measured | spawn | compile | setup | check | time | whole run |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for r in rows:
        best, taken = r["best"], r["phases_median_s"]
        won = f"{best['ratio']:.3f}× ({best['low']:.3f} to {best['high']:.3f})" if best else "none"
        spent = " | ".join(f"{taken.get(p, float('nan')):.3f} s" for p in PHASES[:-1])
        print(f"| {r['job']} | {won} | {r['considered']} | {r['measured']} | {spent} | {r['wall_s']:.0f} s |")


if __name__ == "__main__":
    main()
