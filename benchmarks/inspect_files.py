"""Count the files with Triton kernels that `forewarp inspect` sees through without a task and without a GPU.

    python benchmarks/inspect_files.py FOLDER... --out benchmarks/results/inspect_files.json

A folder is any collection of Python files, such as a clone of github.com/thunlp/TritonBench (data/TritonBench_G_v1),
github.com/linkedin/Liger-Kernel (src/liger_kernel/ops) or github.com/FlagOpen/FlagGems (src/flag_gems/ops); only files
that lie in it directly count, and of those the ones whose text has `triton.jit`. What is kept of a file is its name,
its hash, how many of its kernels compiled, and the kinds of the errors of the others: none of its text. Folders that
the result file has from an earlier run stay in it.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from provenance import write

from forewarp.gpu_runner.devices import known_targets
from forewarp.gpu_runner.executors.local import Limits, LocalExecutor
from forewarp.inspection.tracing.files.job import GUESSED
from forewarp.inspection.tracing.values import SourceFile

_KIND = re.compile(r"[A-Z]\w*(?:Error|Exception|Failure|Resources|Construct|Exit|Interrupt)\b")
_MODULE = re.compile(r"No module named '([\w.]+)'")


def kind(text: str) -> str:
    """Return what kind of failure a problem is, without the words of the file."""
    missing = _MODULE.search(text)
    if missing:
        return f"ModuleNotFoundError: {missing[1]}"
    if "time is over" in text or "did not finish" in text:
        return "time is over"
    found = _KIND.findall(text)
    return found[0] if found else "no call launches it" if "nothing in the file" in text else "other"


def inspected(executor: LocalExecutor, path: Path) -> dict[str, Any]:
    """Return what came of one file."""
    source, start = path.read_text(), time.perf_counter()
    row: dict[str, Any] = {"file": path.name, "sha256": hashlib.sha256(source.encode()).hexdigest()}
    trace = executor.trace_file(SourceFile(source, str(path.absolute())))
    own = [k for k in trace.kernels if k.line]
    others = [k for k in trace.kernels if not k.line and k.origin]
    compiled = [k for k in own if k.origin]
    row |= {
        "kernels": len(own),
        "compiled": len(compiled),
        "guessed": sum(k.origin == GUESSED for k in compiled),
        "generated": len(others),
        "backward": sum(len(w.backward) for w in trace.workloads.values()),
    }
    row["at_least_one"] = bool(compiled or others)
    row["all"] = row["at_least_one"] and len(compiled) == len(own)
    problems = [p for w in trace.workloads.values() for p in w.problems]
    row["reasons"] = sorted({kind(k.reason) for k in own if k.reason})
    row["problems"] = [] if row["all"] else sorted({kind(p) for p in problems})
    return row | {"seconds": round(time.perf_counter() - start, 2)}


def main() -> None:
    """Inspect every file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--target", default="h100")
    parser.add_argument("--every", type=int, default=1, help="take every N-th only")
    parser.add_argument("--trace-s", type=float, default=Limits().trace_s)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    executor = LocalExecutor(known_targets()[args.target], limits=Limits(trace_s=args.trace_s, memory=12 << 30))
    known: dict[str, Any] = json.loads(args.out.read_text())["folders"] if args.out and args.out.exists() else {}
    result: dict[str, Any] = {"target": args.target, "arch": executor.target.arch, "folders": known}
    try:
        for folder in args.folders:
            files = [p for p in sorted(folder.glob("*.py")) if "triton.jit" in p.read_text()][:: args.every]
            with ThreadPoolExecutor(2) as pool:
                rows: list[dict[str, Any]] = []
                for row in pool.map(partial(inspected, executor), files):
                    rows.append(row)
                    print(len(rows), {k: v for k, v in row.items() if k != "sha256"}, file=sys.stderr, flush=True)
            counts = {
                "files": len(rows),
                "at_least_one": sum(r["at_least_one"] for r in rows),
                "all": sum(r["all"] for r in rows),
                "kernels": sum(r["kernels"] for r in rows),
                "compiled": sum(r["compiled"] for r in rows),
                "compiled_for_guessed_arguments": sum(r["guessed"] for r in rows),
                "median_seconds": sorted(r["seconds"] for r in rows)[len(rows) // 2] if rows else None,
                "reasons": dict(Counter(reason for r in rows for reason in r["reasons"]).most_common()),
                "problems_of_files_without_any": dict(
                    Counter(p for r in rows if not r["at_least_one"] for p in r["problems"]).most_common()
                ),
            }
            name = "/".join(folder.absolute().parts[-3:])
            print(name, counts)
            result["folders"][name] = counts | {"rows": rows}
    finally:
        executor.close()
    if args.out:
        write(args.out, result)


if __name__ == "__main__":
    main()
