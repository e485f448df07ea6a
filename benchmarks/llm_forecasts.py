"""Ask a language model about kernels of the pool, with and without parts of the prompt, and record what it says.

    python benchmarks/llm_forecasts.py pool --model openai:NAME --base-url URL --share 0/4 --out answers_0.jsonl
    python benchmarks/llm_forecasts.py pool --join answers_*.jsonl --out benchmarks/results/llm_forecasts.parquet

Of each task, some kernels are drawn to be asked about, as many programs as possible, and others that are shown as
measured trials. A share answers each task under one condition only, so that a model that remembers its other answers
cannot use what it saw under another one. Conditions: `bare` (code, shapes, target), `evidence` (with compiled facts),
`trials` (with measured neighbours), `full` (both); `reference` (facts, and the reference's measured time), and `alike`
(that, and measured kernels of tasks of other families, from the training split).

`benchmarks/README.md` has the commands by which the answers are judged.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import json
import random
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from provenance import provenance

from forewarp.archive.forecasts import RecordedForecast, read_forecasts, write_forecasts
from forewarp.archive.pools.parquet import read_pool
from forewarp.archive.rows import RecordedRow
from forewarp.core import serde
from forewarp.core.protocols import Subject, Trial
from forewarp.surrogate import models
from forewarp.surrogate.alike import ExamplePool
from forewarp.surrogate.evaluation import backtest
from forewarp.surrogate.llm import LlmForecaster
from forewarp.surrogate.questions import Shown, question, system_prompt

CONDITIONS = {
    "bare": Shown(evidence=False, trials=False),
    "evidence": Shown(evidence=True, trials=False),
    "trials": Shown(evidence=False, trials=True),
    "full": Shown(),
    "reference": Shown(trials=False),
    "alike": Shown(trials=False),
}
TOLD, ALIKE = ("reference", "alike"), ("alike",)
"""Conditions that tell the reference's measured time, and those that show kernels of other tasks."""


def drawn(rows: Sequence[RecordedRow], count: int, known: int) -> tuple[list[RecordedRow], list[RecordedRow]]:
    """Return the rows of one task to ask about, in random order, and those to show; the same ones each time."""
    rng = random.Random(rows[0].task.name)
    shuffled = rng.sample(list(rows), len(rows))
    shown, rest = shuffled[:known], shuffled[known:]
    by_program: dict[str, list[RecordedRow]] = defaultdict(list)
    for row in rest:
        by_program[row.origin.source_id].append(row)
    asked: list[RecordedRow] = []
    for turn in range(max(map(len, by_program.values()))):
        asked += [found[turn] for found in by_program.values() if turn < len(found)]
    asked = asked[:count]
    rng.shuffle(asked)
    return asked, shown


def work(args: argparse.Namespace) -> Iterator[tuple[str, list[RecordedRow], list[RecordedRow]]]:
    """Yield this share's conditions with rows to ask about and rows to show: each task under one condition."""
    share, shares = map(int, args.share.split("/"))
    by_task: dict[str, list[RecordedRow]] = defaultdict(list)
    answered = set[tuple[str, str]]()
    for path in args.skip:
        answered |= {(f.task, f.kernel) for f in read_forecasts(path) if f.comparison in args.conditions}
    for row in read_pool(args.pool):
        if row.origin.split == args.split and (row.task.name, row.candidate.sha256) not in answered:
            by_task[row.task.name].append(row)
    for place, name in enumerate(sorted(by_task)):
        turn = (place + share) % shares
        if turn < len(args.conditions):
            yield args.conditions[turn], *drawn(by_task[name], args.count, args.known)


def ask(args: argparse.Namespace) -> None:
    """Put the questions, and write answers as they come."""
    with args.out.open("a") as file:
        file.write(json.dumps(provenance()) + "\n")
        pool = functools.cache(lambda: ExamplePool(r for r in read_pool(args.pool) if r.origin.split == "train"))
        for condition, asked, known in work(args):
            times = backtest.references([backtest.group([], asked)], [*asked, *known]) if condition in TOLD else {}
            shown = replace(CONDITIONS[condition], references=times)
            asked_model = replace(models.resolve(args.model, args.base_url), timeout_s=args.timeout_s)
            alike = pool if condition in ALIKE else None
            model = LlmForecaster(asked_model, batch=args.batch, shown=shown, examples=alike)
            subjects = [Subject(r.candidate, r.build) for r in asked]
            trials = [Trial(Subject(r.candidate, r.build), r.measurement) for r in known]
            task, target = asked[0].task, asked[0].target
            found = model.forecast(task, target, subjects, trials)
            examples = pool().nearest(task, target, subjects) if alike else []
            for row, subject, said in zip(asked, subjects, found, strict=True):
                text = f"{system_prompt()}\0{question(task, target, [subject], trials, shown, examples).text}"
                entry = {"task": row.task.name, "kernel": row.candidate.sha256, "condition": condition}
                entry |= {"prompt_sha256": hashlib.sha256(text.encode()).hexdigest(), "forecast": serde.to_data(said)}
                entry["speedup"] = row.measurement.speedup if row.measurement.trusted else None
                file.write(json.dumps(entry) + "\n")
            file.flush()
            print(f"{condition} {task.name}: {len(found)} answers", file=sys.stderr, flush=True)


def recorded(entry: dict[str, Any]) -> RecordedForecast:
    """Return an answer in the form in which forecasts are kept."""
    said = entry["forecast"]
    malformed = said["raw_sum"] == 0.0
    return RecordedForecast(
        source_dataset="forewarp-h200",
        comparison=entry["condition"],
        task=entry["task"],
        kernel=entry["kernel"],
        anchor="reference",
        forecaster=said["forecaster"],
        repeat=0,
        probabilities=None if malformed else tuple(said["probabilities"]),
        raw_sum=said["raw_sum"],
        parse_failed=malformed,
        parse_error=said["rationale"] if malformed else "",
        input_tokens=said["cost"]["input_tokens"],
        output_tokens=said["cost"]["output_tokens"],
        seconds=said["cost"]["seconds"],
        speedup=entry["speedup"],
        p_valid=said["p_valid"],
        mean_log2=said["mean_log2"],
        sd_log2=said["sd_log2"],
        rationale=said["rationale"],
        prompt_sha256=entry["prompt_sha256"],
    )


def main() -> None:
    """Ask, or join what was answered."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pool", type=Path)
    parser.add_argument("--split", default="test")
    parser.add_argument("--count", type=int, default=24, help="kernels of each task to ask about")
    parser.add_argument("--known", type=int, default=6, help="kernels of each task that are shown as measured")
    parser.add_argument("--batch", type=int, default=12)
    parser.add_argument("--conditions", nargs="+", choices=list(CONDITIONS), default=list(CONDITIONS))
    parser.add_argument("--skip", type=Path, nargs="+", default=[], help="forecasts that need not be asked for again")
    parser.add_argument("--share", default="0/1", metavar="K/N")
    parser.add_argument("--model", default="openai:model")
    parser.add_argument("--base-url", default="")
    parser.add_argument("--timeout-s", type=float, default=3000.0)
    parser.add_argument("--join", type=Path, nargs="+")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    if args.join is None:
        ask(args)
        return
    entries = [json.loads(line) for path in args.join for line in path.read_text().splitlines()]
    latest = {(e["task"], e["kernel"], e["condition"]): e for e in entries if "task" in e}
    print(f"{write_forecasts(map(recorded, latest.values()), args.out)} forecasts")


if __name__ == "__main__":
    main()
