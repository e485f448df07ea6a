"""Shared parts of all importers: options, outcomes, tasks, and the devices on which somebody else measured."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import forewarp
from forewarp.archive import text
from forewarp.archive.forecasts import RecordedForecast
from forewarp.archive.pools.columns import UNKNOWN_INTERVAL, raw_sha256
from forewarp.archive.rows import Origin, RecordedRow
from forewarp.core.values import (
    Build,
    Candidate,
    Language,
    Measurement,
    Status,
    Target,
    Task,
    TaskFormat,
    Verdict,
    Workload,
    WorkloadTiming,
)

_SHAPES = (Workload("default"),)
_DEVICES = {
    "L40S": ("sm_89", 142),
    "A100": ("sm_80", 108),
    "A10G": ("sm_86", 80),
    "H100": ("sm_90", 132),
    "H200": ("sm_90", 132),
    "B200": ("sm_100", 148),
    "L4": ("sm_89", 58),
    "T4": ("sm_75", 40),
}


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """Options that supply what the source does not say.

    `device` names the device. `noise` is the half-width of an interval, as a share, to assume where none is known.
    `baseline` holds reference times, `references` the problems' files, `kernel` the text that was tuned.
    """

    device: str = ""
    noise: float | None = None
    limit: int | None = None
    baseline: Path | None = None
    references: Path | None = None
    kernel: Path | None = None


@dataclass(slots=True)
class Imported:
    """Rows (read lazily) and forecasts; `left_out` counts what was not imported, by reason."""

    rows: Iterable[RecordedRow] = ()
    forecasts: Sequence[RecordedForecast] = ()
    left_out: Counter[str] = field(default_factory=Counter[str])


@dataclass(frozen=True, slots=True)
class ImportedOutcome:
    """Outcome of a candidate as the source reports it. Times are in seconds."""

    status: Status
    speedup: float | None = None
    low: float | None = None
    high: float | None = None
    shapes: tuple[WorkloadTiming, ...] = ()
    log: str = ""
    verdict: Verdict | None = None


def task(name: str, reference: str, dataset: str, form: TaskFormat = "kernelbench") -> Task:
    """Return a task with its reference program where there is one.

    It is the task that the same file would be, so that its rows can be replayed with it. Tasks without a reference are
    told apart by a line that names them, because a task's identity is its reference.
    """
    known = reference if reference.strip() else f"# {dataset}: {name}. The reference program is not known.\n"
    return Task(name, name, known, {"cpu": _SHAPES, "cuda": _SHAPES}, format=form)


def target(device: str) -> Target:
    """Return the device of this name, with the architecture and size that the name alone reveals."""
    words = re.split(r"[^A-Za-z0-9]+", device.upper())
    arch, processors = next((_DEVICES[w] for w in words if w in _DEVICES), ("", 0))
    return Target(device, "cuda", arch, processors, source="imported: the name only")


def candidate(raw: str, language: Language, tunables: Mapping[str, int] | None = None) -> Candidate:
    """Return a candidate without the comments and docstrings of its text."""
    return Candidate(text.without_comments(raw, language), language, dict(tunables or {}))


def shape(name: str, speedup: float, candidate_s: float, anchor_s: float) -> WorkloadTiming:
    """Return the timing of one shape with an unknown interval, because its noise is not known."""
    return WorkloadTiming(name, speedup, *UNKNOWN_INTERVAL, candidate_s, anchor_s, 0.0)


def row(
    dataset: str,
    source_id: str,
    of: Task,
    on: Target,
    raw: str,
    language: Language,
    outcome: ImportedOutcome,
    *,
    tunables: Mapping[str, int] | None = None,
    against: Candidate | None = None,
    family: str = "",
    parent: str = "",
    proposer: str = "",
    tags: Iterable[str] = (),
    date: str = "",
) -> RecordedRow:
    """Return one imported row; its measurement is of tier T2, which knows nothing of how it was made."""
    subject = candidate(raw, language, tunables)
    measured = Measurement(
        status=outcome.status,
        verdict=outcome.verdict or _verdict(outcome),
        device=on.name,
        tier="T2",
        anchor=against.sha256 if against else "reference",
        speedup=outcome.speedup,
        low=outcome.low,
        high=outcome.high,
        workloads=outcome.shapes,
        log=outcome.log[-2000:],
    )
    build = Build("compile_error" if outcome.status == "compile_error" else "ok", 0.0)
    if build.status != "ok":
        build = replace(build, log=measured.log)
    origin = Origin(
        family=family,
        parent=parent,
        proposer=proposer,
        source_dataset=dataset,
        source_id=source_id,
        raw_sha256=raw_sha256(raw),
        tags=(*tags, *_uses(raw, language)),
    )
    return RecordedRow(of, on, (), subject, build, measured, None, date, forewarp.__version__, against, origin)


def with_noise(rows: Iterable[RecordedRow], options: ImportOptions) -> Iterator[RecordedRow]:
    """Yield the first `limit` rows; those without an interval get the one that the user wants assumed."""
    for number, found in enumerate(rows):
        if options.limit is not None and number >= options.limit:
            return
        m = found.measurement
        if options.noise is None or m.speedup is None or m.low is not None:
            yield found
            continue
        wide = 1 + options.noise
        low, high = m.speedup / wide, m.speedup * wide
        measured = replace(m, low=low, high=high, verdict=_verdict(ImportedOutcome(m.status, m.speedup, low, high)))
        tags = (*found.origin.tags, "assumed-interval")
        yield replace(found, measurement=measured, origin=replace(found.origin, tags=tags))


def middle(times: Iterable[tuple[float, str]]) -> str | None:
    """Return the name at the (lower) median time, None if there are no times; ties are ordered by name."""
    ordered = sorted(times)
    return ordered[(len(ordered) - 1) // 2][1] if ordered else None


def _verdict(outcome: ImportedOutcome) -> Verdict:
    if outcome.status != "ok":
        return "incorrect" if outcome.status == "incorrect" else "failed"
    if outcome.low is not None and outcome.low > 1:
        return "faster"
    return "slower" if outcome.high is not None and outcome.high < 1 else "inconclusive"


def _uses(raw: str, language: Language) -> list[str]:
    """Return tags for what a Python module writes its kernels in (`uses:triton`, …); none for other languages."""
    if language != "python":
        return []
    written = {"triton": "@triton.jit" in raw, "cuda": "__global__" in raw}
    return [f"uses:{name}" for name, used in written.items() if used] or ["uses:torch"]
