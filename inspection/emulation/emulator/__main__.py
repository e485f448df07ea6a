"""Emulate candidates, with a line or more for each: `python -m …emulation.emulator TASK FILE.cu …`.

Shapes are those of the task's workloads for the CPU, text constants such as dtypes those for the GPU.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from forewarp.core import serde
from forewarp.core.checking import Check
from forewarp.core.errors import ForewarpError
from forewarp.gpu_runner.cache import default_cache
from forewarp.gpu_runner.formats import candidate, task
from forewarp.inspection.emulation.emulator.job import emulate
from forewarp.inspection.emulation.emulator.scene import merged

BUDGET_S = 20.0


def main(words: list[str]) -> int:
    """Emulate the files of the command line; return 1 if any is not right."""
    if len(words) < 2:
        print("usage: python -m forewarp.inspection.emulation.emulator TASK FILE.cu …", file=sys.stderr)
        return 2
    wanted = task.load(words[0])
    kinds = wanted.workloads
    workloads = [merged(w, next(iter(kinds["cuda"]), None)) for w in kinds["cpu"]]
    bad = 0
    for name in words[1:]:
        job: dict[str, Any] = {
            "reference": wanted.reference,
            "format": wanted.format,
            "files": dict(wanted.files),
            "target_kind": "cpu",
            "candidate": serde.to_data(candidate.load(Path(name))),
            "kinds": {"cpu": serde.to_data(workloads)},
            "tolerance": serde.to_data(wanted.tolerance),
            "perturb": wanted.perturb,
            "mode": wanted.mode,
            "allow_tf32": wanted.allow_tf32,
            "budget_s": BUDGET_S,
            "memory": 4 << 30,
            "cache": str(default_cache() / "emulator"),
        }
        check = emulate(job, shrink=False)
        bad += check.status != "ok" or bool(check.faults)
        print(f"{Path(name).name}: {describe(check)}", flush=True)
    return int(bad > 0)


def describe(check: Check) -> str:
    """Return a check as text: one line where all is well."""
    errors = ", ".join(f"{w.name} {'–' if w.error is None else f'{w.error:.2g}'}" for w in check.workloads)
    rows = [f"{check.status} in {check.seconds:.1f} s; worst error in tolerances: {errors or '–'}"]
    rows += [f"    {check.message}"] if check.message else []
    rows += [f"    {f.kind}: {f.where}: {f.message} ({f.count} times)" for f in check.findings]
    return "\n".join(rows)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except ForewarpError as e:
        sys.exit(str(e))
