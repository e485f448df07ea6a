"""Forecasts of plans, judged by the kernels that were written from them.

    python benchmarks/written_plans.py ask benchmarks/results/written_h100 FOLDER      # FOLDER/TASK.md
    python benchmarks/written_plans.py judge benchmarks/results/written_h100 FOLDER    # and FOLDER/TASK.N.answer.md

The kernels are those of `written.py`. Each reply gave its idea in a sentence or two before its source; here that is the
plan's change, its effect and risk are not stated. A forecaster is asked, as a search with `--plans` asks it, about all
plans of a task at once, in an order that is drawn; it sees the task, the device, the reference's time and the plans.
The quarter that promises most is written; what share of it lies in the best quarter of the task's kernels (their own
default tunables, invalid ones last), beside a quarter taken as it comes? Intervals draw tasks. `order` is the share of
pairs over 10 % apart that the forecasts put right. `best_at_equal_cost` gives the other side as many kernels, rounded
up, as the quarter, all plans and their forecasts cost (tokens by characters, prices as in `written_policy.py`).
"""

from __future__ import annotations

import argparse
import difflib
import gzip
import json
import math
import random
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import search_replay
from provenance import write
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, ToolCallPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from written import CHARS_A_TOKEN
from written_policy import writing_dollars

from forewarp import __version__
from forewarp.archive.pools.parquet import read_pool
from forewarp.archive.rows import RecordedRow
from forewarp.core.protocols import Known
from forewarp.core.values import Forecast, KernelPlan
from forewarp.search.policy import improvement
from forewarp.surrogate import prices, reference, replies
from forewarp.surrogate.evaluation.resampling import cluster_draws, resample
from forewarp.surrogate.models import LanguageModel
from forewarp.surrogate.plans import PlanForecaster
from forewarp.surrogate.questions import system_prompt
from forewarp.surrogate.reference import ReferenceTime

IDEA = "#IDEA "
APART = math.log2(1.1)


@dataclass(frozen=True)
class Written:
    """A plan with the speed-up of the kernel that was written from it; None where it is not valid."""

    plan: KernelPlan
    row: RecordedRow | None

    @property
    def speedup(self) -> float | None:
        return search_replay.speed(self.row) or None if self.row else None


def written(folder: Path) -> dict[str, list[Written]]:
    """Return what was written for each task, in an order that is drawn; each with its own default tunables."""
    first: dict[str, dict[str, RecordedRow]] = {}
    for row in read_pool(folder):
        first.setdefault(row.task.name, {}).setdefault(row.candidate.source, row)
    found: dict[str, list[Written]] = {}
    with gzip.open(folder / "prompts.jsonl.gz", "rt") as file:
        for said in map(json.loads, file):
            name = said["asked"].split(".")[0]
            for text in said.get("answers", {}).values():
                idea, source = text.split("\n", 1)
                plan = KernelPlan(idea.removeprefix(IDEA), "not stated", "not stated")
                found.setdefault(name, []).append(Written(plan, measured(first[name].values(), source)))
    for name, each in found.items():
        random.Random(f"{name}, plans").shuffle(each)
    return found


def measured(rows: Iterable[RecordedRow], source: str) -> RecordedRow | None:
    """Return the row of a source, some names of which may have been mended since; None where none is alike."""
    likeness, best = max(((alike(r.candidate.source, source), r) for r in rows), key=lambda pair: pair[0])
    return best if likeness > 0.97 else None


def alike(one: str, other: str) -> float:
    """Return how alike two texts are, line by line."""
    return difflib.SequenceMatcher(None, one.splitlines(), other.splitlines(), autojunk=False).ratio()


def asked(
    folder: Path, name: str, plans: Sequence[KernelPlan], row: RecordedRow, said: str | None
) -> tuple[str, list[Forecast]]:
    """Return the prompt about a task's plans, and the forecasts that an answer gives."""
    known = json.loads((folder / "references.json").read_text())
    operations = reference.count(row.signatures)
    time = ReferenceTime(known["tasks"][name]["seconds"], operations=operations, versions=known["versions"])
    prompts: list[str] = []

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        first = messages[0]
        assert isinstance(first, ModelRequest)
        prompts.extend(str(p.content) for p in first.parts if isinstance(p, UserPromptPart))
        reply = replies.read(said, len(plans)) if said else None
        if reply is None:
            return ModelResponse(parts=[TextPart("")])
        return ModelResponse(parts=[ToolCallPart(info.output_tools[0].name, reply.model_dump())])

    forecaster = PlanForecaster(LanguageModel(FunctionModel(answer), "recorded", local=True), {row.task.sha256: time})
    (forecasts,), _ = forecaster.forecast(row.task, row.target, Known(signatures=row.signatures), [(None, plans)])
    return prompts[0], forecasts


def ask(folder: Path, out: Path) -> None:
    """Write a prompt for each task."""
    out.mkdir(parents=True, exist_ok=True)
    schema = json.dumps(replies.SpeedupForecasts.model_json_schema(), indent=1)
    for name, each in written(folder).items():
        text, _ = asked(folder, name, [w.plan for w in each], some_row(each), None)
        whole = f"{system_prompt()}\n{text}\n\nAnswer with one JSON object of this schema and nothing else:\n{schema}\n"
        (out / f"{name}.md").write_text(whole)
        print(f"{name}: {len(each)} plans, {sum(w.speedup is not None for w in each)} valid kernels")


def some_row(each: Sequence[Written]) -> RecordedRow:
    """Return a row of the task."""
    return next(w.row for w in each if w.row)


def planning_dollars(each: Sequence[Written], prompt: str, answer: str) -> float:
    """Return what a task's plans cost, asked for in one prompt as long as that for the forecasts, and those."""
    read = 2 * len(prompt) // CHARS_A_TOKEN
    said = (len(answer) + sum(len(w.plan.change) for w in each)) // CHARS_A_TOKEN
    return prices.load().dollars(search_replay.PRICED_AS, read, said) or 0.0


def judged(each: Sequence[Written], forecasts: Sequence[Forecast], planning: float, writing: float) -> dict[str, Any]:
    """Return what became of the quarter that promised most; `planning` and `writing` (of one kernel) in dollars."""
    quarter = len(each) // 4
    as_many = min(len(each), quarter + math.ceil(planning / writing))
    true = [w.speedup or 0.0 for w in each]
    promise = [f.p_valid * improvement(f, 1.0) for f in forecasts]
    by_truth = sorted(range(len(each)), key=lambda i: -true[i])
    chosen = sorted(range(len(each)), key=lambda i: -promise[i])[:quarter]
    apart = [
        (i, j)
        for i, j in combinations(range(len(each)), 2)
        if true[i] and true[j] and abs(math.log2(true[i] / true[j])) > APART
    ]
    right = [(promise[i] > promise[j]) == (true[i] > true[j]) for i, j in apart]

    def as_they_come(count: int) -> float:
        found = [max(1.0, *(true[i] for i in c)) for c in combinations(range(len(each)), count)]
        return 2.0 ** statistics.fmean(map(math.log2, found))

    return {
        "plans": len(each),
        "written": quarter,
        "in_best_quarter": sum(i in by_truth[:quarter] for i in chosen) / quarter,
        "as_it_comes": quarter / len(each),
        "best_written": max(1.0, *(true[i] for i in chosen)),
        "best_as_it_comes": as_they_come(quarter),
        "as_many_for_the_same": as_many,
        "best_for_the_same": as_they_come(as_many),
        "best_of_all": true[by_truth[0]],
        "pairs": len(apart),
        "order": statistics.fmean(right) if right else None,
        "each": [
            {"change": w.plan.change, "speedup": w.speedup, "median": f.median, "p_valid": f.p_valid}
            for w, f in zip(each, forecasts, strict=True)
        ],
    }


def over_tasks(draws: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, Any]:
    """Return the figures over tasks, each the mean of its draws."""
    names = sorted(draws)

    def mean(key: str) -> np.ndarray[Any, Any]:
        return np.array([statistics.fmean(d[key] for d in draws[n]) for n in names])

    def log_gain(beside: str) -> np.ndarray[Any, Any]:
        gains = [[math.log2(d["best_written"] / d[beside]) for d in draws[n]] for n in names]
        return np.array([statistics.fmean(g) for g in gains])

    picks = cluster_draws(names, 4000)
    share, chance, order = mean("in_best_quarter"), mean("as_it_comes"), mean("order")
    gain, paid = log_gain("best_as_it_comes"), log_gain("best_for_the_same")
    found = {
        "in_best_quarter": resample(lambda p: float(share[p].mean()), names, picks),
        "over_as_it_comes": resample(lambda p: float(share[p].mean() / chance[p].mean()), names, picks),
        "order": resample(lambda p: float(order[p].mean()), names, picks),
        "best_at_equal_number": resample(lambda p: float(2.0 ** gain[p].mean()), names, picks),
        "best_at_equal_cost": resample(lambda p: float(2.0 ** paid[p].mean()), names, picks),
    }
    estimates = {k: v.estimate() for k, v in found.items()}
    return {k: {"value": e.value, "low": e.low, "high": e.high} for k, e in estimates.items()}


def judge(folder: Path, answers: Path, out: Path) -> None:
    """Judge every draw of answers, and write the file."""
    draws: dict[str, list[dict[str, Any]]] = {}
    writing = writing_dollars(folder)
    for name, each in written(folder).items():
        for path in sorted(answers.glob(f"{name}.*.answer.md")):
            said = path.read_text()
            prompt, forecasts = asked(folder, name, [w.plan for w in each], some_row(each), said)
            planning, unread = planning_dollars(each, prompt, said), sum(not f.raw_sum for f in forecasts)
            figures = judged(each, forecasts, planning, writing)
            draws.setdefault(name, []).append(
                {"answer": said, "unread": unread, "planning_dollars": planning, **figures}
            )
    found = over_tasks(draws)
    for key, value in found.items():
        print(f"{key}: {value['value']:.3f} ({value['low']:.3f} to {value['high']:.3f})")
    write(out, {"forewarp": __version__, "writing_dollars": writing, "all": found, "tasks": draws})


def main() -> None:
    """Write the prompts, or judge the answers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=("ask", "judge"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("answers", type=Path)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "written_plans.json")
    args = parser.parse_args()
    if args.step == "ask":
        ask(args.folder, args.answers)
    else:
        judge(args.folder, args.answers, args.out)


if __name__ == "__main__":
    main()
