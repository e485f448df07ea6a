"""Results of Kernel Tuner in the T4 schema: configurations of one kernel with their run times in milliseconds.

Nothing but configurations is in the file, so the row of the middle run time is the anchor of all others.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean, variance
from typing import Any

from forewarp.archive.rows import RecordedRow
from forewarp.core.errors import UsageError
from forewarp.core.values import Candidate, Status
from published_sets import made, tables
from published_sets.made import Imported, ImportedOutcome, ImportOptions
from published_sets.tables import Record

DATASET = "kernel-tuner"
DEVICE = "unknown GPU (Kernel Tuner)"
_STATUS: dict[str, Status] = {
    "correct": "ok",
    "compile": "compile_error",
    "runtime": "runtime_error",
    "timeout": "timeout",
    "correctness": "incorrect",
}
_REQUIRED = ("configuration", "times", "invalidity")
_FEWEST_RUNS = 5
# Student's t, 97.5 %, five degrees of freedom: no more are assumed, whatever the number of runs.
_T5 = 2.571


def read(paths: Sequence[Path], options: ImportOptions) -> Imported:
    """Read result files; each is a task of its own, named for the file."""
    left_out: Counter[str] = Counter()
    files = tables.files(paths, (".json", ".json.gz"))
    text = tables.read_text(options.kernel) if options.kernel else ""
    results = {file: _results(file) for file in files}
    rows = (row for file, found in results.items() for row in _rows(file, found, text, options, left_out))
    return Imported(made.with_noise(rows, options), left_out=left_out)


def _results(file: Path) -> list[Record]:
    content = tables.mapping(tables.load_json(file))
    results = content.get("results")
    if not isinstance(results, list):
        raise UsageError(
            f"{file} is no T4 result: it has no list named results", hint=f"it has {', '.join(content) or 'nothing'}"
        )
    found = [tables.mapping(r) for r in tables.sequence(results)]
    for number, result in enumerate(found, 1):
        missing = [name for name in _REQUIRED if name not in result]
        if missing:
            raise UsageError(f"{file}: result {number} has no {', '.join(missing)}", hint="the schema is T4 1.0.0")
    return found


def _rows(
    file: Path, results: list[Record], text: str, options: ImportOptions, left_out: Counter[str]
) -> Iterator[RecordedRow]:
    runs = {n: _runs(r) for n, r in enumerate(results) if r["invalidity"] == "correct"}
    middle = made.middle((fmean(found), f"{n:09d}") for n, found in runs.items() if found)
    if middle is None:
        left_out["files in which no configuration was measured"] += 1
        return
    codes = _codes(results)
    source = text or f'#error "{file.stem}: the text of the kernel is not in the result file"\n'
    anchor = _candidate(results[int(middle)], source, codes)
    task, device = made.task(file.stem, "", DATASET), made.target(options.device or DEVICE)
    for number, result in enumerate(results):
        status = _STATUS.get(str(result["invalidity"]))
        if status is None:
            left_out[f"configurations that were never run ({result['invalidity']})"] += 1
            continue
        outcome = ImportedOutcome(status) if status != "ok" else _outcome(runs[number], runs[int(middle)])
        if outcome is None:
            left_out["configurations without run times"] += 1
            continue
        tunables, tags = _tunables(result, codes)
        yield made.row(
            DATASET,
            f"{file.stem}#{number}",
            task,
            device,
            source,
            "cuda",
            outcome,
            tunables=tunables,
            against=anchor,
            proposer="Kernel Tuner",
            tags=(*tags, *(() if text else ("no-source",))),
            date=str(result.get("timestamp") or ""),
        )


def _candidate(result: Record, source: str, codes: dict[str, list[Any]]) -> Candidate:
    return made.candidate(source, "cuda", _tunables(result, codes)[0])


def _codes(results: Sequence[Record]) -> dict[str, list[Any]]:
    """Return the values of each parameter that are no whole numbers, in order of appearance."""
    codes: dict[str, list[Any]] = {}
    for result in results:
        for name, value in tables.mapping(result["configuration"]).items():
            if not _whole(value) and value not in codes.setdefault(name, []):
                codes[name].append(value)
    return codes


def _tunables(result: Record, codes: dict[str, list[Any]]) -> tuple[dict[str, int], list[str]]:
    """Return the configuration in whole numbers, and a tag for each number that encodes another value."""
    tunables: dict[str, int] = {}
    tags: list[str] = []
    for name, value in tables.mapping(result["configuration"]).items():
        if _whole(value):
            tunables[name] = int(value)
        else:
            # Codes lie below zero, where a parameter that has whole numbers too has none of them.
            tunables[name] = -1 - codes[name].index(value)
            tags.append(f"{name}:{tunables[name]}={value}")
    return tunables, tags


def _whole(value: Any) -> bool:
    return isinstance(value, int) or (isinstance(value, float) and value.is_integer())


def _runs(result: Record) -> list[float]:
    """Return the run times in milliseconds: single runs, else the mean that was measured."""
    runs = [
        t for value in tables.sequence(tables.mapping(result["times"]).get("runtimes")) if (t := tables.positive(value))
    ]
    if runs:
        return runs
    named = {m.get("name"): m.get("value") for m in map(tables.mapping, tables.sequence(result.get("measurements")))}
    mean = tables.positive(named.get("time"))
    return [] if mean is None else [mean]


def _outcome(own: list[float], anchor: list[float]) -> ImportedOutcome | None:
    if not own:
        return None
    speedup = fmean(anchor) / fmean(own)
    if min(len(own), len(anchor)) < _FEWEST_RUNS:
        return ImportedOutcome("ok", speedup)
    share = sum(variance(runs) / len(runs) / fmean(runs) ** 2 for runs in (own, anchor))
    half = math.exp(_T5 * math.sqrt(share))
    return ImportedOutcome("ok", speedup, speedup / half, speedup * half)
