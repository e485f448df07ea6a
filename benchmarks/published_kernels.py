"""Kernels of ours beside the published winners of KernelAgent on five KernelBench problems, in one run.

    git -C kernelagent-optimization-artifacts archive HEAD | tar x -C theirs
    python benchmarks/published_kernels.py theirs --out benchmarks/results/published_h100.json
    python benchmarks/published_kernels.py theirs --dry-run       # compile ours for an H100, without a GPU

Problems and their kernels are read from that folder (github.com/kaiming-cheng/kernelagent-optimization-artifacts), and
never kept. They were published in bfloat16, so inputs and weights are rounded to it here. Ours are in
`winners/kernelbench/`, written by hand for these very shapes. Ours is checked as any candidate and timed in blocks that
alternate with theirs, lifted from its module; then `torch.compile` with max-autotune alternates with the reference.
Ratios above 1 say that ours is faster; intervals are of 95 %.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from provenance import write

from forewarp import __version__
from forewarp.core.protocols import Subject
from forewarp.core.values import Candidate, Measurement, Task
from forewarp.gpu_runner.devices import choose, known_targets
from forewarp.gpu_runner.executors.local import Limits, LocalExecutor
from forewarp.gpu_runner.formats import candidate as candidates
from forewarp.gpu_runner.formats import task as tasks

HERE = Path(__file__).parent / "winners" / "kernelbench"
CARDS = Path(__file__).parents[1] / "prompts" / "cards"
ROUNDED = """

_plain_init, _plain_inputs = Model.__init__, get_inputs


def _rounded_init(self, *args):
    _plain_init(self, *args)
    self.bfloat16()


Model.__init__ = _rounded_init


def get_inputs():
    return [x.bfloat16() for x in _plain_inputs()]
"""
CALLED = """

class ModelNew(torch.nn.Module):
    def __init__(self, *args):
        super().__init__()
        {layer}
        self.bfloat16()

    def forward(self, *inputs):
        return kernel_function({arguments})
"""


@dataclass(frozen=True, slots=True)
class Problem:
    """A published result: its folder there, our kernel, milliseconds as published, and how their function is called."""

    folder: str
    ours: str
    published_ms: float
    arguments: str = "*inputs"
    layer: str = ""


PROBLEMS = (
    Problem("04_Matrix_vector_multiplication", "matvec", 1.956),
    Problem("36_RMSNorm", "rmsnorm", 3.525),
    Problem("43_Max_Pooling_3D", "max_pool_3d", 2.436, "*inputs, kernel_size=3, stride=2, padding=1, dilation=3"),
    Problem(
        "77_conv_transposed_3D_square_input_square_kernel___padded____dilated____strided__",
        "transposed_conv_3d",
        7.821,
        "*inputs, self.conv_transpose3d.weight, stride=2, padding=1, dilation=2",
        "i, o, k, s, p, d = args; self.conv_transpose3d = torch.nn.ConvTranspose3d("
        "i, o, (k, k, k), stride=s, padding=p, dilation=d, bias=False)",
    ),
    Problem(
        "82_conv_depthwise_2D_square_input_square_kernel",
        "depthwise_conv",
        1.225,
        "*inputs, self.conv2d.weight",
        "c, k, s, p = args; self.conv2d = torch.nn.Conv2d(c, c, k, stride=s, padding=p, groups=c, bias=False)",
    ),
)


def task_of(folder: Path, problem: Problem) -> Task:
    """Return the problem as a task in bfloat16."""
    return tasks.from_source((folder / problem.folder / "problem.py").read_text() + ROUNDED, problem.ours)


def theirs_of(folder: Path, problem: Problem) -> Candidate:
    """Return their kernel as a module."""
    source = (folder / problem.folder / "optimized_kernel_beam_search.py").read_text()
    return Candidate(source + CALLED.format(layer=problem.layer or "pass", arguments=problem.arguments), "python")


def taken(m: Measurement) -> dict[str, Any]:
    """Return what is kept of a measurement."""
    kept: dict[str, Any] = {"status": m.status, "verdict": m.verdict, "flags": list(m.flags), "log": m.log[-1000:]}
    for w in m.workloads:
        kept |= {"ratio": w.speedup, "low": w.low, "high": w.high, "blocks": len(w.candidate_s) // 2, "mode": w.mode}
        kept |= {"ours_ms": w.candidate_median_s * 1e3, "other_ms": w.candidate_median_s * w.speedup * 1e3}
    return kept


def by_compile(task: Task) -> dict[str, Any]:
    """Return what `torch.compile` gains over the reference."""
    import compiled  # needs a GPU

    try:
        return compiled.measure(task, {})
    except Exception as e:  # Inductor may refuse a reference in any way; the row says so
        return {"error": f"{type(e).__name__}: {str(e)[:300]}"}


def main() -> None:
    """Measure every problem; the file is written after each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("theirs", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--only", default="", help="part of the names of our kernels")
    parser.add_argument("--dry-run", action="store_true")
    args = parser.parse_args()
    target = known_targets()["h100"] if args.dry_run else choose("cuda")
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as cache:
        executor = LocalExecutor(target, limits=Limits(), cache=Path(cache))
        try:
            for problem in (p for p in PROBLEMS if args.only in p.ours):
                task = task_of(args.theirs, problem)
                name = f"{problem.ours}.cu"
                ours = candidates.load(HERE / name if (HERE / name).exists() else CARDS / name)
                build = executor.compile(task, ours)
                if args.dry_run:
                    print(f"{problem.ours}: {build.status} {build.log[:2000]}")
                    continue
                theirs = theirs_of(args.theirs, problem)
                row: dict[str, Any] = {"problem": problem.folder, "published_ms": problem.published_ms}
                anchor = Subject(theirs, executor.compile(task, theirs))
                row["theirs"] = taken(executor.measure(task, ours, build, anchor))
                row["compiled"] = by_compile(task)
                row["source"] = ours.source
                rows.append(row)
                shown = {key: value for key, value in row.items() if key != "source"}
                print(shown, flush=True)
                if args.out:
                    write(args.out, {"forewarp": __version__, "device": target.name, "rows": rows})
        finally:
            executor.close()


if __name__ == "__main__":
    sys.exit(main())
