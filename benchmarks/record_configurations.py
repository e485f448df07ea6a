"""Time every configuration of the kernels of `pool/configurations` on this machine's GPU.

    python benchmarks/record_configurations.py --out rows.jsonl --seconds 480

A line per kernel, call and configuration, written as they come; `--resume` goes on with a file. Several processes
compile into Triton's cache meanwhile (`--jobs`), one measures. Of spaces with more than `--most` configurations as many
are drawn, the same on every machine. `--assemble rows.jsonl ...` adds such files to the pool's Parquet file `--out`.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import random
import subprocess
import sys
import time
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

PARTIAL = ("attention_decode", "attention_decode_fp8", "attention_latent_decode", "attention_paged", "recurrence")
"""Kernels that write parts whose number depends on the configuration: the whole call's result is compared."""
HOME = Path(__file__).parents[1] / "pool" / "configurations"


def main() -> None:
    """Compile in other processes, and measure in this one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--kernels", default="", help="names, separated by commas; all where left out")
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--most", type=int, default=120)
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 2) - 1))
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--compile", default="", help="used by this script: K/N compiles each N-th configuration")
    parser.add_argument("--assemble", type=Path, nargs="+")
    chosen = parser.parse_args()
    if chosen.assemble:
        assemble(chosen.assemble, chosen.out)
        return
    calls = tomllib.loads((HOME / "calls.toml").read_text())
    names = [n for n in chosen.kernels.split(",") if n] or list(calls)
    cache = os.environ.setdefault("TRITON_CACHE_DIR", f"/tmp/forewarp-configurations-{os.getpid()}")
    if chosen.compile:
        compile_share(calls, names, chosen.most, *(int(n) for n in chosen.compile.split("/")))
        return
    until = time.monotonic() + chosen.seconds
    done: set[tuple[str, str]] = set()
    if chosen.resume and chosen.out.exists():
        done = {(r["kernel"], json.dumps(r["call"])) for r in map(json.loads, chosen.out.read_text().splitlines())}
    names = [n for n in names if any((n, json.dumps(c)) not in done for c in calls[n])]
    options = ["--kernels", ",".join(names), "--most", str(chosen.most)]
    workers = [
        subprocess.Popen(
            [sys.executable, __file__, *options, "--compile", f"{k}/{chosen.jobs}"], stderr=subprocess.DEVNULL
        )
        for k in range(chosen.jobs)
    ]
    try:
        with chosen.out.open("a") as out:
            for name in names:
                wait_for(cache, name, chosen.jobs, workers, until)
                measure_kernel(
                    name, [c for c in calls[name] if (name, json.dumps(c)) not in done], chosen.most, out, until
                )
    finally:
        for worker in workers:
            worker.kill()


def wait_for(cache: str, name: str, jobs: int, workers: list[subprocess.Popen[bytes]], until: float) -> None:
    """Wait until all processes have compiled a kernel's configurations."""
    while time.monotonic() < until:
        if all((Path(cache) / f"{name}.{k}.done").exists() or workers[k].poll() is not None for k in range(jobs)):
            return
        time.sleep(0.02)


def imported(name: str) -> Any:
    """Import a kernel's file."""
    spec = importlib.util.spec_from_file_location(name, HOME / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def drawn(count: int, most: int, name: str) -> list[int]:
    """Return the places of the configurations that are measured: the first, and others drawn by the kernel's name."""
    if count <= most:
        return list(range(count))
    return [0, *sorted(random.Random(name).sample(range(1, count), most - 1))]


def caught(name: str, call: list[Any]) -> Any:
    """Return the autotuned launch of a call."""
    from forewarp.tuning.catching import TunedLaunch, catching

    found: list[TunedLaunch] = []
    with catching(found):
        imported(name).run(*call)
    return found[0]


def compile_share(calls: dict[str, Any], names: list[str], most: int, share: int, of: int) -> None:
    """Compile each `of`-th configuration of every kernel into the cache."""
    import torch

    for name in names:
        try:
            for call in calls[name]:
                launch = caught(name, call)
                configs = launch.tuner.configs
                for place in drawn(len(configs), most, name)[share::of]:
                    try:
                        keywords = {k: v for k, v in launch.keywords.items() if k != "warmup"}
                        launch.tuner.fn.warmup(*launch.positional, **keywords, **configs[place].all_kwargs())
                    except Exception as e:  # told when it is measured
                        print(f"{name} {place}: {type(e).__name__}", file=sys.stderr)
                del launch
                torch.cuda.empty_cache()
        except Exception as e:
            print(f"{name}: {type(e).__name__}: {e}", file=sys.stderr)
        (Path(os.environ["TRITON_CACHE_DIR"]) / f"{name}.{share}.done").touch()


def measure_kernel(name: str, calls: list[list[Any]], most: int, out: Any, until: float) -> None:
    """Write the timings of a kernel's configurations for each call."""
    import torch
    import triton

    from forewarp.core import serde
    from forewarp.tuning import counting
    from forewarp.tuning.catching import space_of
    from forewarp.tuning.measuring import Timer

    for call in calls:
        if time.monotonic() > until:
            return
        start = time.monotonic()
        try:
            launch = caught(name, call)
            configs = launch.tuner.configs
            places = drawn(len(configs), most, name)
            space = space_of(launch.tuner, launch.arguments, launch.keywords, configs)
            work = counting.count(space)
            timer = Timer(launch, [*work.stores, *work.atomics])
            timings = [timer.check(place, compare=name not in PARTIAL) for place in places]
            if name in PARTIAL:
                for timing in (t for t in timings if not t.problem):
                    error = reference_error(name, call, {launch.kernel: configs[timing.place]})
                    if error > 2e-2:
                        timing.problem = f"the call's result differs by {error:.1e} from PyTorch's"
            checked = time.monotonic()
            timer.time(timings, until=until)
            error = reference_error(name, call, {})
        except Exception as e:
            print(f"{name}{tuple(call)}: {type(e).__name__}: {e}"[:600], file=sys.stderr, flush=True)
            if "CUDA" in str(e):
                raise
            continue
        arguments = serde.to_data(space.arguments)
        for timing in timings:
            configuration = space.configurations[timing.place]
            row = {
                "kernel": name,
                "call": call,
                "device": torch.cuda.get_device_name(),
                "torch": torch.__version__,
                "triton": triton.__version__,
                "arguments": arguments,
                "values": dict(configuration.values),
                "warps": configuration.warps,
                "stages": configuration.stages,
                "registers_cap": configuration.registers,
                "grid": list(space.grids[timing.place]),
                "samples": [round(s * 1e6, 3) for s in timing.samples],
                "problem": timing.problem,
                "reference_error": error,
                "registers": timing.registers,
                "spills": timing.spills,
                "shared": timing.shared,
            }
            out.write(json.dumps(row) + "\n")
        out.flush()
        right = [t for t in timings if not t.problem and t.samples]
        best = min((t.seconds for t in right), default=float("nan"))
        print(
            f"{name}{tuple(call)}: {len(right)} of {len(timings)} right, best {best * 1e6:.1f} us, first "
            f"{timings[0].seconds * 1e6:.1f} us, error {error:.1e}, "
            f"checked in {checked - start:.1f} s, timed in {time.monotonic() - checked:.1f} s"
            + "".join(sorted({f"; {t.problem[:90]}" for t in timings if t.problem})[:2]),
            file=sys.stderr,
            flush=True,
        )
        del launch, timer
        torch.cuda.empty_cache()


def reference_error(name: str, call: list[Any], chosen: Mapping[str, Any]) -> float:
    """Return the largest error of outputs against PyTorch's, over their size; `chosen` are configurations by kernel."""
    from forewarp.tuning.catching import TunedLaunch, catching

    module, found = imported(name), list[TunedLaunch]()
    with catching(found, chosen=chosen):
        outputs = module.run(*call)
    wanted = module.expected(*call)
    pairs = zip(outputs, wanted, strict=True) if isinstance(outputs, tuple) else [(outputs, wanted)]
    return max(float((a.float() - b.float()).norm() / b.float().norm().clamp(min=1e-30)) for a, b in pairs)


def assemble(files: list[Path], out: Path) -> None:
    """Add the rows of several files to a Parquet file, medians in microseconds; new ones replace those of a space."""
    from statistics import median

    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    rows = [row for row in rows if (HOME / f"{row['kernel']}.py").exists()]
    for row in rows:
        samples = row.pop("samples")
        # Of two samples, which a configuration left behind has, one may have waited for the host.
        us = (median(samples) if len(samples) > 2 else min(samples, default=None)) if not row["problem"] else None
        row |= {"us": us, "samples": len(samples)}
        for name in ("call", "arguments", "values", "grid"):
            row[name] = json.dumps(row[name])
    renewed = {space_key(row) for row in rows}
    earlier = pq.read_table(out).to_pylist() if out.exists() else []
    rows = [row for row in earlier if space_key(row) not in renewed] + rows
    # The mark tells readers of the folder's pools that this file is none.
    table = pa.Table.from_pylist(rows).replace_schema_metadata({"forewarp.configurations": "1"})
    pq.write_table(table, out, compression="zstd")


def space_key(row: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what a row's space is known by."""
    return row["device"], row["kernel"], row["call"]


if __name__ == "__main__":
    main()
