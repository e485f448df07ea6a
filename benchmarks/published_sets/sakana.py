"""SakanaAI/AI-CUDA-Engineer-Archive: CUDA kernels for KernelBench problems with their run times and PyTorch's."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from forewarp.archive.rows import RecordedRow
from forewarp.core.values import Task
from published_sets import made, tables
from published_sets.made import Imported, ImportedOutcome, ImportOptions
from published_sets.tables import Record

DATASET = "SakanaAI/AI-CUDA-Engineer-Archive"
DEVICE = "NVIDIA H100 (not recorded)"
REQUIRED = (
    *("Op_Name", "Level_ID", "Task_ID", "Kernel_Name", "CUDA_Code", "Correct"),
    *("CUDA_Runtime", "PyTorch_Native_Runtime", "PyTorch_Code_Module", "Error"),
)
_COMPILER = re.compile(r"building extension|ninja|nvcc|compilation", re.IGNORECASE)
_SLOW = re.compile(r"timeout|timed out", re.IGNORECASE)


def read(paths: Sequence[Path], options: ImportOptions) -> Imported:
    """Read levels of the archive; the speed-up is PyTorch's eager time over the kernel's."""
    files = tables.files(paths, (".parquet", ".jsonl"))
    left_out: Counter[str] = Counter()
    return Imported(made.with_noise(_rows(files, options, left_out), options), left_out=left_out)


def _rows(files: Sequence[Path], options: ImportOptions, left_out: Counter[str]) -> Iterator[RecordedRow]:
    device = made.target(options.device or DEVICE)
    tasks: dict[str, Task] = {}
    for file in files:
        for number, r in enumerate(tables.records(file, REQUIRED, f"level of {DATASET}")):
            if not str(r["CUDA_Code"] or "").strip():
                left_out["rows without a kernel"] += 1
                continue
            outcome = _outcome(r)
            if outcome is None:
                left_out["correct kernels without run times"] += 1
                continue
            reference = str(r["PyTorch_Code_Module"] or "")
            if reference not in tasks:
                tasks[reference] = made.task(str(r["Op_Name"]), reference, DATASET)
            yield made.row(
                DATASET,
                f"{r['Level_ID']}_{r['Task_ID']}_{r['Kernel_Name']}#{file.stem}-{number}",
                tasks[reference],
                device,
                str(r["CUDA_Code"]),
                "cuda",
                outcome,
                proposer="AI CUDA Engineer",
                tags=(f"level:{r['Level_ID']}", "unaudited"),
            )


def _outcome(record: Record) -> ImportedOutcome | None:
    error = str(record["Error"] or "")
    if not record["Correct"]:
        if not error:
            return ImportedOutcome("incorrect")
        timed_out, built = _SLOW.search(error), not _COMPILER.search(error)
        return ImportedOutcome("timeout" if timed_out else "runtime_error" if built else "compile_error", log=error)
    own, reference = tables.positive(record["CUDA_Runtime"]), tables.positive(record["PyTorch_Native_Runtime"])
    return None if own is None or reference is None else ImportedOutcome("ok", reference / own)
