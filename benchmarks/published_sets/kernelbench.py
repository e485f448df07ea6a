"""Runs of KernelBench: a folder with one module per sample and `eval_results.json`, times in milliseconds."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from forewarp.archive.rows import RecordedRow
from forewarp.core.errors import UsageError
from forewarp.core.values import Status
from published_sets import made, tables
from published_sets.made import Imported, ImportedOutcome, ImportOptions
from published_sets.tables import Record

DATASET = "kernelbench"
DEVICE = "unknown GPU (KernelBench)"
_FILE = re.compile(r"level_(\d+)_problem_(\d+)_sample_(\d+)(?:_kernel)?\.py")
_REQUIRED = ("sample_id", "compiled", "correctness", "runtime")
_TIME_OUT = re.compile(r"time[d ]*out", re.IGNORECASE)


def read(paths: Sequence[Path], options: ImportOptions) -> Imported:
    """Read run folders; the speed-up is over the reference time in the results, or in the baseline file given."""
    left_out: Counter[str] = Counter()
    baseline = tables.mapping(tables.load_json(options.baseline)) if options.baseline else {}
    rows = [row for path in paths for row in _run(path, baseline, options, left_out)]
    return Imported(list(made.with_noise(rows, options)), left_out=left_out)


def _run(folder: Path, baseline: Record, options: ImportOptions, left_out: Counter[str]) -> Iterator[RecordedRow]:
    results = folder / "eval_results.json"
    if not results.is_file():
        raise UsageError(f"{folder} has no eval_results.json", hint="pass a folder such as KernelBench's runs/NAME")
    files = {match.groups(): file for file in sorted(folder.iterdir()) if (match := _FILE.fullmatch(file.name))}
    levels = {level for level, _, _ in files}
    if len(levels) != 1:
        found = f"levels {', '.join(sorted(levels))}" if levels else "no level_L_problem_P_sample_S_kernel.py"
        raise UsageError(f"{folder} must hold the samples of one level; it holds {found}")
    (level,) = levels
    entries = list(_entries(results))
    if not baseline and not any(tables.positive(e.get("ref_runtime")) for _, e in entries):
        raise UsageError(
            f"{results} holds no times of the reference (ref_runtime)",
            hint="pass --baseline results/timing/GPU/BASELINE.json of KernelBench, measured on the same GPU",
        )
    for problem, entry in entries:
        file = files.get((level, problem, str(entry["sample_id"])))
        outcome = _outcome(entry, _baseline(baseline, level, problem)) if file else None
        if file is None or outcome is None:
            left_out["results without their module" if file is None else "correct modules without times"] += 1
            continue
        name, reference = _problem(options.references, baseline, level, problem)
        metadata, stats = tables.mapping(entry.get("metadata")), tables.mapping(entry.get("runtime_stats"))
        device = options.device or str(metadata.get("hardware") or stats.get("hardware") or DEVICE)
        yield made.row(
            DATASET,
            f"{folder.name}/{file.name}",
            made.task(name, reference, DATASET),
            made.target(device),
            tables.read_text(file),
            "python",
            outcome,
            proposer=folder.name,
            tags=(f"level:{level}",),
        )


def _entries(results: Path) -> Iterator[tuple[str, Record]]:
    """Yield problem and result of each sample; older versions wrote one result per problem, not a list."""
    for problem, value in tables.mapping(tables.load_json(results)).items():
        for entry in map(tables.mapping, tables.sequence(value) or [value]):
            missing = [name for name in _REQUIRED if name not in entry]
            if missing:
                raise UsageError(f"{results}: problem {problem} has no {', '.join(missing)}")
            yield problem, entry


def _outcome(entry: Record, baseline: Record) -> ImportedOutcome | None:
    metadata = tables.mapping(entry.get("metadata"))
    if not (entry["compiled"] and entry["correctness"]):
        log = "\n".join(f"{k}: {v}" for k, v in metadata.items() if "error" in k or "issue" in k)
        return ImportedOutcome(_failure(entry, log), log=log)
    own = tables.positive(entry["runtime"])
    reference, stats = tables.positive(entry.get("ref_runtime")), tables.mapping(entry.get("ref_runtime_stats"))
    if reference is None:
        reference, stats = tables.positive(baseline.get("mean")), baseline
    if own is None or reference is None:
        return None
    speedup = reference / own
    shares = [_share(s) for s in (tables.mapping(entry.get("runtime_stats")), stats)]
    suspicious = "suspicious" if metadata.get("excessive_speedup") else None
    if None in shares:
        return ImportedOutcome("ok", speedup, verdict=suspicious)
    half = math.exp(1.96 * math.sqrt(sum(s for s in shares if s is not None)))
    return ImportedOutcome("ok", speedup, speedup / half, speedup * half, verdict=suspicious)


def _failure(entry: Record, log: str) -> Status:
    if _TIME_OUT.search(log):
        return "timeout"
    if not entry["compiled"]:
        return "compile_error"
    return "runtime_error" if "runtime_error" in log else "incorrect"


def _share(stats: Record) -> float | None:
    """Return the squared standard error of the mean as a share of it; None where it is not known."""
    mean, spread, trials = (tables.number(stats.get(name)) for name in ("mean", "std", "num_trials"))
    if mean is None or spread is None or trials is None or mean <= 0 or trials < 2:
        return None
    return (spread / mean) ** 2 / trials


def _baseline(baseline: Record, level: str, problem: str) -> Record:
    named = tables.mapping(baseline.get(f"level{level}"))
    return tables.mapping(next((v for k, v in named.items() if k.split("_")[0] == problem), None))


def _problem(references: Path | None, baseline: Record, level: str, problem: str) -> tuple[str, str]:
    """Return the problem's name and reference program, as far as they are known."""
    if references is not None:
        for folder in (references / f"level{level}", references):
            for file in sorted(folder.glob(f"{problem}_*.py")):
                return file.stem, tables.read_text(file)
    named = tables.mapping(baseline.get(f"level{level}"))
    name = next((Path(k).stem for k in named if k.split("_")[0] == problem), "")
    return name or f"kernelbench_level_{level}_problem_{problem}", ""
