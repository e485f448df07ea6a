"""Kernels of ours beside the vendor's library and beside torch.compile, in one run.

    python benchmarks/winners.py --out benchmarks/results/winners_h100.json
    python benchmarks/winners.py --trimul FOLDER --out benchmarks/results/trimul_h100.json
    python benchmarks/winners.py --dry-run       # compile all for an H100, without a GPU

The kernels are bundled examples: those of the cards that proposers are given (`prompts/cards/`), the tasks' own seeds,
and one that a search found (`results/live_h100/`). Each is measured as any candidate, in blocks
that alternate with the task's reference, which calls cuBLAS or cuDNN. What is fused stands beside `torch.compile` with
max-autotune: the same reference alternates with that by `compiled.py` in the same run, and the ratio is the quotient of
the two speed-ups, its interval that of the ends that are furthest apart. A ratio above 1 says that ours is faster;
intervals are of 95 %. Texts of all kernels are in the result.

`--trimul` takes GPU MODE's task of that name instead (gpu-mode/reference-kernels, problems/bioml/trimul), whose target
is a time: the geometric mean over its shapes. Beside it stands what `torch.compile`, in its default mode, makes of the
same mathematics with products in fp16 (`winners/trimul_plain.py`).
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from provenance import write

from forewarp import __version__
from forewarp.core import serde
from forewarp.core.values import Candidate, Measurement, Task, Workload
from forewarp.gpu_runner.devices import choose, known_targets
from forewarp.gpu_runner.executors.local import Limits, LocalExecutor
from forewarp.gpu_runner.formats import candidate as candidates
from forewarp.gpu_runner.formats import task as tasks
from forewarp.search.holdout import examine

HERE = Path(__file__).parent / "winners"
FOUND = Path(__file__).parent / "results" / "live_h100"
CARDS = Path(__file__).parents[1] / "prompts" / "cards"


@dataclass(frozen=True, slots=True)
class Case:
    """A kernel on a task, what it stands beside, and the ratio that it is to reach at least."""

    name: str
    task: Task
    kernel: Candidate
    beside: str
    target: float
    origin: str = "bundled example, written by hand"
    rival: Task | None = None
    """Task for torch.compile, with workloads of the same names; None where that is the task itself."""
    mode: str = "max-autotune-no-cudagraphs"


def cases() -> Iterator[Case]:
    """Yield every case; products and attention stand beside libraries, what is fused beside torch.compile."""
    bf16 = {"DTYPE": "bfloat16"}
    squares = {f"{n}": {"M": n, "N": n, "K": n} | bf16 for n in (4096, 8192)}
    others = {"512 × 11008 × 4096": {"M": 512, "N": 11008, "K": 4096} | bf16}
    others |= {"2047 × 3001 × 1537": {"M": 2047, "N": 3001, "K": 1537} | bf16}
    yield _case("bf16 product", "matmul", CARDS / "hopper_gemm.cu", squares | others, "cuBLAS", 0.95)
    squares = {f"{n}": {"N": n} for n in (4096, 8192)}
    yield _case("fp8 product", HERE / "gemm_fp8.py", CARDS / "hopper_gemm_fp8.cu", squares, "cuBLAS", 0.95)
    lengths = {"2k": {"BATCH": 4, "HEADS": 16, "LENGTH": 2048}, "8k": {"BATCH": 1, "HEADS": 16, "LENGTH": 8192}}
    yield _case("causal attention", HERE / "attention.py", CARDS / "hopper_attention.cu", lengths, "cuDNN", 0.9)
    rows = {"4096 × 4096": {"ROWS": 4096, "COLS": 4096}, "512 × 8192": {"ROWS": 512, "COLS": 8192}}
    quantise = HERE / "search" / "rmsnorm_fp8"
    yield _case(
        "RMSNorm, residual, fp8", quantise, FOUND / "rmsnorm_fp8-everything.best.cu", rows, "torch.compile", 1.2
    )
    for name in ("topk_gate", "cross_entropy"):
        task = tasks.load(name)
        yield Case(name, task, next(s for s in task.seeds if s.language == "triton"), "torch.compile", 1.2)


def trimul(folder: Path) -> Case:
    """Return GPU MODE's task with our module, and the same shapes for torch.compile."""
    task = tasks.load(str(folder))
    shapes = tuple(
        Workload(w.name, {"LENGTH": c["seqlen"], "BATCH": c["bs"], "DIM": c["dim"], "HIDDEN": c["hiddendim"]})
        for w in task.workloads["cuda"]
        for c in [w.constants]
    )
    rival = replace(tasks.load(str(HERE / "trimul_plain.py")), workloads={"cuda": shapes})
    kernel = candidates.load(HERE / "trimul.py")
    return Case("TriMul", task, kernel, "torch.compile", 1.2, rival=rival, mode="default")


def _case(
    name: str, task: str | Path, kernel: Path, shapes: dict[str, dict[str, Any]], beside: str, target: float
) -> Case:
    workloads = tuple(Workload(shape, constants) for shape, constants in shapes.items())
    loaded = replace(tasks.load(str(task)), workloads={"cuda": workloads})
    return Case(name, loaded, candidates.load(kernel), beside, target)


def beside_compile(case: Case, shape: dict[str, Any]) -> dict[str, Any]:
    """Return the ratio to `torch.compile`, from what ours and it gain over the reference."""
    import compiled  # needs a GPU

    task = case.rival or case.task
    workload = next(w for w in task.workloads["cuda"] if w.name == shape["name"])
    try:
        other = compiled.measure(task, dict(workload.constants), case.mode)
    except Exception as e:  # Inductor may refuse a reference in any way; the row says so
        return {"compiled": {"error": f"{type(e).__name__}: {str(e)[:300]}"}}
    ours = {key: shape[key] for key in ("speedup", "low", "high")}
    ratio = ours["speedup"] / other["speedup"]
    # Where the rival computes something else, its own time counts, not what it gains over that.
    scale = 1.0 if case.rival is None else other["compiled_ms"] * 1e3 / shape["candidate_us"] / ratio
    return {
        "over_eager": ours,
        "compiled": other,
        "speedup": scale * ratio,
        "low": scale * ours["low"] / other["high"],
        "high": scale * ours["high"] / other["low"],
    }


def row(case: Case, m: Measurement) -> dict[str, Any]:
    """Return what is kept of a measurement, with the kernel's text."""
    kept = {
        "name": case.name,
        "beside": case.beside,
        "target": case.target,
        "origin": case.origin,
        "language": case.kernel.language,
        "tunables": dict(case.kernel.tunables),
        "source": case.kernel.source,
        "status": m.status,
        "verdict": m.verdict,
        "flags": list(m.flags),
        "lifting": m.lifting,
        "log": m.log[-1000:],
        "device_s": m.device_s,
    }
    kept["shapes"] = [
        {
            "name": w.workload,
            "constants": dict(next(o.constants for o in case.task.workloads["cuda"] if o.name == w.workload)),
            "speedup": w.speedup,
            "low": w.low,
            "high": w.high,
            "candidate_us": w.candidate_median_s * 1e6,
            "blocks": len(w.candidate_s) // 2,
            "mode": w.mode,
        }
        for w in m.workloads
    ]
    return kept


def show(rows: list[dict[str, Any]]) -> None:
    """Print the table."""
    print("\n| kernel | shape | beside | ratio (95 %) | ours | target |\n|---|---|---|---|---|---|")
    for r in rows:
        for s in r["shapes"]:
            ratio = f"{s['speedup']:.3f}× ({s['low']:.3f} to {s['high']:.3f})"
            print(
                f"| {r['name']} | {s['name']} | {r['beside']} | {ratio} | {s['candidate_us']:.1f} µs | {r['target']} |"
            )
        if r["status"] != "ok":
            print(f"| {r['name']} | | {r['beside']} | {r['status']}: {r['log'][:300]} | | |")


def main() -> None:
    """Measure what is asked for; the file is written after each kernel."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--only", default="", help="parts of the names of the cases, separated by commas")
    parser.add_argument("--trimul", type=Path, help="GPU MODE's task of that name; with --only, beside others")
    parser.add_argument("--near", action="store_true", help="measure each on near shapes, too")
    parser.add_argument("--dry-run", action="store_true", help="compile for an H100 and measure nothing")
    parser.add_argument("--time-s", type=float, default=Limits().time_s)
    args = parser.parse_args()
    parts = args.only.split(",") if args.only or not args.trimul else []
    chosen = [trimul(args.trimul)] if args.trimul else []
    chosen += [case for case in cases() if any(part in case.name for part in parts)]
    target = known_targets()["h100"] if args.dry_run else choose("cuda")
    rows: list[dict[str, Any]] = []

    def keep(found: dict[str, Any]) -> None:
        show([found])
        sys.stdout.flush()
        if args.out:
            write(args.out, {"forewarp": __version__, "device": target.name, "rows": rows})

    with tempfile.TemporaryDirectory() as folder:
        executor = LocalExecutor(target, limits=Limits(time_s=args.time_s), cache=Path(folder))
        try:
            for case in chosen:
                build = executor.compile(case.task, case.kernel)
                if args.dry_run:
                    print(f"{case.name}: {build.status} {build.log[:500]}")
                    continue
                rows.append(row(case, executor.measure(case.task, case.kernel, build)))
                keep(rows[-1])
                if args.near:
                    rows[-1]["holdout"] = serde.to_data(examine(executor, case.task, case.kernel))
        finally:
            executor.close()
    # Once the executor has freed its memory; the dearest case, which is the first, comes last.
    for case, found in reversed(list(zip(chosen, rows, strict=False))):
        for index, shape in enumerate(found["shapes"] if case.beside == "torch.compile" else ()):
            found["shapes"][index] = shape | beside_compile(case, shape)
            keep(found)
    show(rows)
    ratios = [s["speedup"] for r in rows if r["beside"] == "torch.compile" for s in r["shapes"]]
    if ratios:
        print(f"beside torch.compile, geometric mean: {math.exp(sum(map(math.log, ratios)) / len(ratios)):.2f}×")


if __name__ == "__main__":
    main()
