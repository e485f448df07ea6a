"""Time the choices of the CUDA templates of `pool/templates` on this machine's GPU, workload by workload.

    python benchmarks/record_templates.py --out templates.jsonl --seconds 60

A line per kernel, workload and choice, with what the compiler says of it, written as soon as a workload is measured. Of
more than `--most` choices as many are drawn, the same on every machine; the first is the file's own. Seven samples
each, in rounds of random order, each launch behind a flush of the L2 cache; what takes over twice the best time after
two rounds gets no more. `--assemble FILE` makes `pool/templates.parquet` of them.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import random
import statistics
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from inspect_truth import Driver

from forewarp.core.errors import ForewarpError
from forewarp.core.values import Build, Candidate, Task
from forewarp.gpu_runner import devices
from forewarp.gpu_runner.executors.artifacts import manifest_of
from forewarp.gpu_runner.executors.local import LocalExecutor
from forewarp.gpu_runner.formats import candidate as candidates
from forewarp.gpu_runner.formats import plan
from forewarp.gpu_runner.formats import task as tasks
from forewarp.gpu_runner.worker.problem import Problem

HOME = Path(__file__).parents[1] / "pool" / "templates"
ROUNDS, BEHIND, FLUSH_BYTES = 7, 2.0, 768 << 20
TOLERANCE = 1e-2
_MAX_DYNAMIC_SHARED = 8
_NUMBERS = {"i32": ctypes.c_int32, "i64": ctypes.c_int64, "f32": ctypes.c_float}


Row = tuple[dict[str, Any], Build | str]
"""A choice's record, with its build or the reason why it has none."""


@dataclass
class Choice:
    """A compiled choice of one workload, loaded, with its samples in microseconds."""

    row: dict[str, Any]
    function: ctypes.c_void_p
    launch: dict[str, Any]
    arguments: Any
    keep: list[Any] = field(default_factory=list[Any])


class Launcher(Driver):
    """The CUDA driver in torch's own context, with launches."""

    def load(self, image: bytes, symbol: str, shared: int) -> ctypes.c_void_p:
        """Return a kernel of a cubin, allowed as much shared memory as its launch asks for."""
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        self._do("cuModuleLoadData", ctypes.byref(module), image)
        self._do("cuModuleGetFunction", ctypes.byref(function), module, symbol.encode())
        if shared > 48 << 10:
            self._do("cuFuncSetAttribute", function, _MAX_DYNAMIC_SHARED, shared)
        return function

    def launch(self, choice: Choice) -> None:
        """Launch on torch's stream."""
        sizes = [ctypes.c_uint(n) for n in (*choice.launch["grid"], *choice.launch["block"], choice.launch["shared"])]
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        self._do("cuLaunchKernel", choice.function, *sizes, stream, choice.arguments, None)


def choices(path: Path, most: int) -> list[Candidate]:
    """Return a file at its own choice and at others."""
    own = candidates.load(path)
    others = [t for t in plan.parse(own).combinations() if t != own.tunables]
    drawn = random.Random(path.stem).sample(others, min(most - 1, len(others)))
    return [own, *(Candidate(own.source, own.language, t) for t in drawn)]


def arguments_of(launch: dict[str, Any], tensors: dict[str, Any]) -> tuple[Any, list[Any]]:
    """Return what `cuLaunchKernel` takes, and what must be kept for it."""
    values: list[Any] = []
    for argument in launch["args"]:
        if argument["kind"] == "ptr":
            values.append(ctypes.c_void_p(tensors[argument["name"]].data_ptr()))
        else:
            values.append(_NUMBERS[argument["kind"]](argument["value"]))
    pointers = (ctypes.c_void_p * len(values))(*(ctypes.cast(ctypes.pointer(v), ctypes.c_void_p) for v in values))
    return pointers, values


def entry_of(manifest: dict[str, Any], workload: str) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Return the kernel, the launch and what inspection says of it."""
    held = manifest["workloads"][workload]
    [kernel] = manifest["variants"][held["variant"]]["kernels"].values()
    [launch] = held["plan"]["launches"]
    inspected = next(w for w in manifest["inspection"]["workloads"] if w["workload"] == workload)
    return kernel, launch, inspected


def rows_of(name: str, task: Task, built: list[tuple[Candidate, Build | str]], device: str) -> dict[str, list[Row]]:
    """Return a row for each choice by workload, with what is known before it runs."""
    found: dict[str, list[Row]] = {}
    for workload in task.workloads["cuda"]:
        for candidate, build in built:
            row: dict[str, Any] = {"kernel": name, "workload": workload.name, "device": device}
            row |= {"values": dict(candidate.tunables), "samples": [], "problem": ""}
            if isinstance(build, str) or build.status != "ok":
                row["problem"] = (build if isinstance(build, str) else build.log)[:200] or "does not compile"
            else:
                kernel, launch, inspected = entry_of(manifest_of(build), workload.name)
                row |= {"grid": launch["grid"], "block": launch["block"], "shared": launch["shared"]}
                row |= {"code": kernel["code"], "occupancy": inspected["launches"][0]["occupancy"]}
                row |= {"bytes_moved": inspected["bytes_moved"], "flops": inspected["flops"]}
            found.setdefault(workload.name, []).append((row, build))
    return found


def measure(task: Task, workload: Any, rows: list[Row], driver: Launcher) -> None:
    """Check every choice against the reference, and time those that are right."""
    problem = Problem.load(task.reference, workload, 0)
    values = problem.inputs(0, "cuda")
    expected = problem.model("cuda")(*values)
    flush, chance = torch.empty(FLUSH_BYTES, dtype=torch.uint8, device="cuda"), random.Random(0)
    running: list[Choice] = []
    for row, build in rows:
        if row["problem"] or isinstance(build, str):
            continue
        kernel, launch, _ = entry_of(manifest_of(build), workload.name)
        held = manifest_of(build)["workloads"][workload.name]["plan"]
        output = torch.full_like(expected, float("nan"))
        tensors = dict(zip(held["inputs"], values, strict=True)) | {held["outputs"][0]: output}
        try:
            image = (Path(build.artefact) / kernel["file"]).read_bytes()
            function = driver.load(image, kernel["symbol"], launch["shared"])
            pointers, kept = arguments_of(launch, tensors)
            choice = Choice(row, function, launch, pointers, [*kept, tensors])
            driver.launch(choice)
            torch.cuda.synchronize()
        except RuntimeError as e:
            row["problem"] = str(e)[:200]
            continue
        error = float((output.float() - expected.float()).norm() / expected.float().norm())
        row["error"] = error
        if not error < TOLERANCE:
            row["problem"] = f"the result differs by {error:.1e} from PyTorch's"
            continue
        running.append(choice)
        shared_output = running[0].keep[-1][held["outputs"][0]]
        if output is not shared_output:  # one output for all, so that memory does not fill
            tensors[held["outputs"][0]] = shared_output
            choice.arguments, kept = arguments_of(launch, tensors)
            choice.keep = [*kept, tensors]
    for number in range(ROUNDS):
        if number >= 2:
            best = min(statistics.median(c.row["samples"]) for c in running)
            running = [c for c in running if min(c.row["samples"]) <= BEHIND * best]
        chance.shuffle(running)
        for first in range(0, len(running), 32):
            pending: list[tuple[Choice, Any, Any]] = []
            for choice in running[first : first + 32]:
                begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                flush.fill_(number)
                begin.record()
                driver.launch(choice)
                end.record()
                pending.append((choice, begin, end))
            torch.cuda.synchronize()
            for choice, begin, end in pending:
                choice.row["samples"].append(round(begin.elapsed_time(end) * 1e3, 3))


def assemble(lines: Path, out: Path) -> None:
    """Write recorded rows as a Parquet file, with medians in microseconds."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = [json.loads(line) for line in lines.read_text().splitlines()]
    for row in rows:
        samples = row.pop("samples")
        us = statistics.median(samples) if len(samples) > 2 else min(samples, default=None)
        row |= {"us": us, "samples": len(samples), "registers": row.get("code", {}).get("registers")}
        for name in ("values", "grid", "block", "code", "occupancy"):
            row[name] = json.dumps(row.get(name))
    # The mark tells readers of the folder's pools that this file is none.
    names = dict.fromkeys(name for row in rows for name in row)
    columns = {name: [row.get(name) for row in rows] for name in names}
    pq.write_table(pa.table(columns).replace_schema_metadata({"forewarp.configurations": "1"}), out, compression="zstd")


def main() -> None:
    """Compile all choices side by side, and measure a workload as soon as its kernel is compiled."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--kernels", default="", help="names, separated by commas; all where left out")
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--most", type=int, default=120)
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 2) - 1))
    parser.add_argument("--target", default="", help="compile for this card, and measure nothing")
    parser.add_argument("--assemble", type=Path, help="JSON lines to make a Parquet file of")
    args = parser.parse_args()
    if args.assemble:
        assemble(args.assemble, args.out)
        return
    until = time.monotonic() + args.seconds
    executor = LocalExecutor(devices.known_targets()[args.target] if args.target else devices.choose("cuda"))

    def compiled(task: Task, candidate: Candidate) -> Build | str:
        try:
            return executor.compile(task, candidate) if time.monotonic() < until else "no time was left"
        except ForewarpError as e:
            return str(e)

    names = [n for n in args.kernels.split(",") if n] or sorted(p.parent.name for p in HOME.glob("*/task.toml"))
    with ThreadPoolExecutor(args.jobs) as pool, args.out.open("a") as out:
        waiting: list[Any] = []
        for name in names:
            task, listed = tasks.load(str(HOME / name)), choices(HOME / name / "seeds" / f"{name}.cu", args.most)
            waiting.append((name, task, listed, [pool.submit(compiled, task, candidate) for candidate in listed]))
        for name, task, listed, futures in waiting:
            start = time.monotonic()
            built = [(candidate, future.result()) for candidate, future in zip(listed, futures, strict=True)]
            rows = rows_of(name, task, built, executor.target.name)
            for workload in task.workloads["cuda"]:
                held = rows[workload.name]
                if not args.target and time.monotonic() < until:
                    measure(task, workload, held, Launcher(0))
                for row, _ in held:
                    out.write(json.dumps(row) + "\n")
                out.flush()
                right = [statistics.median(r["samples"]) for r, _ in held if r["samples"]]
                problems = sorted({r["problem"][:100] for r, _ in held if r["problem"]})
                print(
                    f"{name} {workload.name}: {len(right)} of {len(held)} right, best {min(right, default=0.0)} us, "
                    f"{time.monotonic() - start:.1f} s {problems[:3]}",
                    file=sys.stderr,
                    flush=True,
                )


if __name__ == "__main__":
    main()
