"""What the searches of `live_search.py` came to: one table, every event, and the winners' sources.

    python benchmarks/live_figures.py live --bridge bridge/done --out benchmarks/results/live_h100

Its `winners.json` is what `live_check.py` measures where the device is. With `--bridge`, the folder in which a bridge
keeps what was asked and answered, these are kept word by word, too.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
from pathlib import Path
from typing import Any

from provenance import write

from forewarp.archive.store import Archive
from forewarp.core import serde
from forewarp.export.bake import bake
from forewarp.search.summary import RunSummary, summarise


def one_run(path: Path, out: Path) -> dict[str, Any]:
    """Return one run's figures, and write its events and its winner."""
    task, _, arm = path.stem.rpartition("-")
    with Archive(path) as archive:
        run = archive.runs(limit=1)[0]
        summary = summarise(archive, run.id)
        rows = archive.candidates(run.id)
        done = [m for m in archive.measurements(run=run.id) if m.state == "done" and m.purpose == "candidate"]
        with gzip.open(out / f"{path.stem}.events.jsonl.gz", "wt") as file:
            for event in archive.events(run.id):
                file.write(json.dumps({"seq": event.seq, "time": event.time, "type": event.type, **event.data}) + "\n")
    if summary.best:
        ending = "cu" if summary.best.candidate.language == "cuda" else "py"
        (out / f"{path.stem}.best.{ending}").write_text(bake(summary.best.candidate))
    best: list[float | None] = []
    for m in done:
        speedup = m.measurement.speedup if m.measurement and m.measurement.trusted else None
        best.append(max([b for b in (best[-1] if best else None, speedup) if b is not None], default=None))
    return {
        "task": task,
        "arm": arm,
        "run": run.id,
        "best": _best(summary),
        "curve": best,
        "considered": summary.considered,
        "proposed": summary.proposed,
        "written": sum(r.proposer.startswith("llm") for r in rows),
        "measured": summary.measured,
        "measurements": summary.spend.measurements,
        "device_s": summary.spend.device_s,
        "tokens": summary.spend.tokens,
        "failures": dict(summary.failures),
        "rejected": dict(summary.rejected),
        "tiers": {t.tier: t.candidates for t in summary.tiers},
        "alarms": summary.alarms,
        "reason": summary.reason,
        "audit": None
        if summary.false_discards is None
        else {"audited": summary.false_discards.audited, "false": summary.false_discards.false},
    }


def _best(summary: RunSummary) -> dict[str, Any] | None:
    if summary.best is None:
        return None
    b = summary.best
    return {
        "kernel": b.candidate.sha256,
        "language": b.candidate.language,
        "tunables": dict(b.candidate.tunables),
        "speedup": b.speedup,
        "low": b.low,
        "high": b.high,
        "confirmed": b.confirmed,
        "first": b.first_speedup,
    }


def show(runs: list[dict[str, Any]]) -> None:
    """Print the table."""
    for r in runs:
        b = r["best"]
        said = f"{b['speedup']:.2f} [{b['low']:.2f}, {b['high']:.2f}]" if b else "none"
        counts = f"{r['written']} written, {r['considered']} considered, {r['measurements']} measured"
        spent = f"{r['device_s']:.0f} s, {r['tokens'] / 1000:.0f} k tokens"
        print(f"{r['task']:34s} {r['arm']:11s} {said:22s} {counts}, {spent}")


def winner_of(path: Path) -> dict[str, Any] | None:
    """Return a run's winner with its task, for `live_check.py`."""
    arm = path.stem.rpartition("-")[2]
    with Archive(path) as archive:
        run = archive.runs(limit=1)[0]
        best = summarise(archive, run.id).best
    return best and {"task": serde.to_data(run.task), "arm": arm, "candidate": serde.to_data(best.candidate)}


def conversations(bridge: Path, out: Path) -> None:
    """Write each request with its answer, as they were; not those that were withdrawn unanswered."""
    with gzip.open(out / "prompts.jsonl.gz", "wt") as file:
        for path in sorted(p for p in bridge.glob("*.json") if p.stem.isdigit()):
            answer = path.with_suffix(".answer.json")
            if not answer.exists():
                continue
            pair = {"request": json.loads(path.read_text()), "answer": json.loads(answer.read_text())}
            file.write(json.dumps(pair) + "\n")


def main() -> None:
    """Collect, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--bridge", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    paths = sorted(args.folder.glob("*.db"))
    runs = [one_run(path, args.out) for path in paths]
    show(runs)
    (args.folder / "winners.json").write_text(json.dumps([w for path in paths if (w := winner_of(path))]))
    if args.bridge:
        conversations(args.bridge, args.out)
    write(args.out / "live.json", {"runs": runs})


if __name__ == "__main__":
    sys.exit(main())
