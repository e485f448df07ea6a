"""makora-ai/triton-gpu-latency: a PyTorch problem and a Triton module in one program, and the module's run time.

The set has no times of the problems themselves, so rows are timed against the module of the middle run time of their
problem: a pair of kernels, whose ratio does not depend on the unit of the times.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from forewarp.archive.rows import RecordedRow
from forewarp.core.values import Candidate, Task
from published_sets import made, tables
from published_sets.made import Imported, ImportedOutcome, ImportOptions
from published_sets.tables import Record

DATASET = "makora-ai/triton-gpu-latency"
DEVICE = "unknown GPU (makora-ai)"
_PROBLEM = re.compile(r"^(?:class Model\b|def get_inputs\b|def get_init_inputs\b)", re.MULTILINE)
_ANSWER = re.compile(r"^class ModelNew\b", re.MULTILINE)
# The next statement at the left margin; a closing bracket there still belongs to the one before.
_STATEMENT = re.compile(r"^(?![)\]}\s#])", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class _Program:
    """A program taken apart. `key` is equal for rows of one problem."""

    key: str
    reference: str
    answer: str
    name: str


def read(paths: Sequence[Path], options: ImportOptions) -> Imported:
    """Read splits of the set; rows are read twice, so that not all of them are held."""
    files = tables.files(paths, (".parquet", ".jsonl"))
    left_out: Counter[str] = Counter()
    times: dict[str, list[tuple[float, str]]] = defaultdict(list)
    for file, number, record in _records(files):
        program, seconds = _split(record), tables.positive(record["y"])
        if program is not None and seconds is not None:
            times[program.key].append((seconds, f"{file.name}#{number:09d}"))
    chosen = {key: made.middle(found) for key, found in times.items()}
    middle = set(chosen.values())
    anchors: dict[str, tuple[float, Candidate]] = {}
    for file, number, record in _records(files):
        program = _split(record) if f"{file.name}#{number:09d}" in middle else None
        if program is not None and chosen.get(program.key) == f"{file.name}#{number:09d}":
            anchors[program.key] = (record["y"], made.candidate(program.answer, "python"))
    return Imported(made.with_noise(_rows(files, anchors, options, left_out), options), left_out=left_out)


def _rows(
    files: Sequence[Path], anchors: dict[str, tuple[float, Candidate]], options: ImportOptions, left_out: Counter[str]
) -> Iterator[RecordedRow]:
    device = made.target(options.device or DEVICE)
    tasks: dict[str, Task] = {}
    for file, number, record in _records(files):
        program = _split(record)
        if program is None:
            left_out["programs whose problem could not be told from the answer"] += 1
            continue
        if program.key not in anchors:
            left_out["answers to problems of which nothing was measured"] += 1
            continue
        seconds, anchor = anchors[program.key]
        own = tables.positive(record["y"])
        # The set has a single mark for every kind of failure.
        failed = ImportedOutcome("runtime_error", log="not measured: did not compile, was wrong, or failed as it ran")
        if program.key not in tasks:
            tasks[program.key] = made.task(program.name, program.reference, DATASET)
        yield made.row(
            DATASET,
            f"{file.name}#{number}",
            tasks[program.key],
            device,
            program.answer,
            "python",
            failed if own is None else ImportedOutcome("ok", seconds / own),
            against=anchor,
            proposer="MakoraGenerate",
            tags=_tags(record, own is None),
        )


def _records(files: Sequence[Path]) -> Iterator[tuple[Path, int, Record]]:
    for file in files:
        for number, record in enumerate(tables.records(file, ("x", "y"), f"split of {DATASET}")):
            yield file, number, record


def _split(record: Record) -> _Program | None:
    """Take a program apart after the last definition of its problem; None where the two are mixed."""
    source = str(record["x"] or "")
    answer = _ANSWER.search(source)
    if answer is None:
        return None
    starts = [m.start() for m in _PROBLEM.finditer(source, 0, answer.start())]
    if len(starts) < 2:
        return None
    end = _STATEMENT.search(source, source.index("\n", starts[-1]) + 1)
    if end is None or end.start() > answer.start():
        return None
    reference = source[: end.start()].strip() + "\n"
    key = hashlib.sha256(reference.encode()).hexdigest()
    return _Program(key, reference, source[end.start() :], str(record.get("problem_id") or f"problem-{key[:10]}"))


def _tags(record: Record, failed: bool) -> list[str]:
    tags = [f"holdout:{record['holdout_group']}"] if record.get("holdout_group") else []
    return [*tags, "failure-of-unknown-kind"] if failed else tags
