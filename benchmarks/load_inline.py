"""Time modules with `load_inline` from source to result: alone, in a batch, and against torch's own build.

    python benchmarks/load_inline.py --out benchmarks/results/load_inline.json           # on a GPU machine
    python benchmarks/load_inline.py --target h200 --parts one,batch                     # builds alone, without a GPU
    python benchmarks/load_inline.py --parts torch                                       # against torch's own build

`one`: three modules, each as a source never seen, one after another, with warm workers and an empty cache of builds;
`seconds.warm_up` is what the first build took. `seconds.load_inline` is from source to measurement
(`load_inline_build` compiling alone, `load_inline_import` the module's statements in a fresh process that has torch,
with the libraries ready made). `batch`: distinct sources, compiled by `--threads` threads and measured in between, as a
search does. `torch`: forewarp's build and torch's own in turns, each in a process of its own.

`processor` is the processor time of compilers and all else that was started, in seconds: wall times say little on a
machine that has other work. The device's part is left out where there is none.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from provenance import write

from forewarp.core.values import Build, Candidate, Target, Task, Workload
from forewarp.gpu_runner.devices import detect_cuda, known_targets
from forewarp.gpu_runner.executors.local import LocalExecutor
from forewarp.gpu_runner.pipeline import measure_all

KERNELS = Path(__file__).parent / "inline_kernels"
_MODEL = "import torch\nimport torch.nn as nn\n\n\nclass Model(nn.Module):\n"
REFERENCES = {
    "softmax": f"""{_MODEL}    def forward(self, x):
        return torch.softmax(x, dim=-1)


def get_inputs():
    return [torch.randn(4096, 1024)]


def get_init_inputs():
    return []
""",
    "layernorm": f"""{_MODEL}    def __init__(self, columns):
        super().__init__()
        self.norm = nn.LayerNorm(columns)

    def forward(self, x):
        return self.norm(x)


def get_inputs():
    return [torch.randn(4096, 1024)]


def get_init_inputs():
    return [1024]
""",
    "matmul": f"""{_MODEL}    def forward(self, a, b):
        return a @ b


def get_inputs():
    return [torch.randn(512, 512), torch.randn(512, 512)]


def get_init_inputs():
    return []
""",
}


def task(name: str) -> Task:
    """Return the task of one of the three kernels."""
    return Task(name, name, REFERENCES[name], {"cuda": (Workload("default"),)})


def source(name: str, number: int) -> str:
    """Return a module that no cache has seen: its kernel has a name of its own."""
    return (KERNELS / f"{name}.py").read_text().replace(f"{name}_kernel", f"{name}_{number}_kernel")


def processor_s() -> float:
    """Return the processor time of all children that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class Runs:
    """An executor with an empty cache, and the numbers of sources that it has not seen."""

    def __init__(self, target: Target, folder: Path, *, measures: bool) -> None:
        """`measures` is false where there is no device."""
        self.executor = LocalExecutor(target, cache=folder)
        self.measures, self._number = measures, 0

    def candidate(self, name: str) -> Candidate:
        """Return a candidate that was never compiled."""
        self._number += 1
        return Candidate(source(name, self._number), "python")

    def one(self, name: str) -> dict[str, Any]:
        """Return the seconds of one module."""
        candidate = self.candidate(name)
        start = time.perf_counter()
        build = self.executor.compile(task(name), candidate)
        built = time.perf_counter()
        row: dict[str, Any] = {"name": name, "build": built - start, "import": import_s(candidate, built_well(build))}
        if self.measures:
            start = time.perf_counter()
            measured = self.executor.measure(task(name), candidate, build)
            row |= {"measure": time.perf_counter() - start, "status": measured.status, "verdict": measured.verdict}
            row |= {"total": row["build"] + row["measure"], "speedup": measured.speedup, "log": measured.log[-500:]}
        return row

    def batch(self, count: int, threads: int) -> dict[str, Any]:
        """Return how many distinct modules a minute are compiled, and measured where there is a device."""
        candidates = [self.candidate("softmax") for _ in range(count)]
        start = time.perf_counter()
        if self.measures:
            done = [
                (b, m.status) for _, b, m in measure_all(self.executor, task("softmax"), candidates, threads=threads)
            ]
        else:
            with ThreadPoolExecutor(threads) as pool:
                done = [
                    (b, b.status) for b in pool.map(lambda c: self.executor.compile(task("softmax"), c), candidates)
                ]
        wall = time.perf_counter() - start
        return {
            "count": count,
            "threads": threads,
            "seconds": wall,
            "ok": sum(status == "ok" for _, status in done),
            "median_build_s": statistics.median(b.seconds for b, _ in done),
            "per_minute": 60 * count / wall,
        }


def built_well(build: Build) -> Path:
    """Return the artefact's folder; ends the benchmark where there is none."""
    if build.status != "ok":
        raise SystemExit(f"a module was not built:\n{build.log}")
    return Path(build.artefact)


def import_s(candidate: Candidate, artefact: Path) -> float:
    """Return the seconds of running a module's statements in a fresh process that has imported torch."""
    command = [sys.executable, __file__, "--import", str(artefact)]
    done = subprocess.run(command, input=candidate.source, capture_output=True, text=True, check=False)
    if done.returncode != 0 or "not built ahead" in done.stderr:
        raise SystemExit(f"a module could not be imported:\n{done.stderr}")
    return float(done.stdout.splitlines()[-1])


def import_here(artefact: Path) -> None:
    """Run the module on standard input with the libraries of `artefact` and print the seconds."""
    import torch  # noqa: F401

    from forewarp.gpu_runner.worker import extensions

    text = sys.stdin.read()
    with tempfile.TemporaryDirectory() as folder:
        tempfile.tempdir = folder
        start = time.perf_counter()
        extensions.install(str(artefact), json.loads((artefact / "build.json").read_text()))
        exec(compile(text, "module.py", "exec"), {"__name__": "module"})
        print(time.perf_counter() - start)


def build_here(name: str, way: str) -> None:
    """Build one module in this process and print what it took as JSON; the clock leaves out importing torch."""
    from forewarp.gpu_runner.compilers.extension import capture, torch_build

    folder = Path(tempfile.mkdtemp())
    os.environ["TORCH_EXTENSIONS_DIR"] = str(folder / "torch")
    import torch.utils.cpp_extension  # noqa: F401

    text = source(name, 0)
    start, before = time.perf_counter(), processor_s()
    found: dict[str, Any] = {"way": "torch"}
    if way == "torch":
        own = torch_build.originals()
        assert own is not None
        with torch_build.installed(own[0], lambda name, directory, is_python_module: None):
            exec(compile(text, "module.py", "exec"), {"__name__": "module"})
    else:
        (entry,) = capture.compile_module(text, folder, folder / "scratch")["extensions"].values()
        if not entry["file"]:
            raise SystemExit(entry["log"])
        found = {"way": entry["way"]}
    seconds = {"seconds": time.perf_counter() - start, "processor": processor_s() - before}
    print(json.dumps({"name": name, "arm": way} | found | seconds))


def against_torch(rounds: int) -> list[dict[str, Any]]:
    """Return the builds of each kernel by forewarp and by torch."""
    rows: list[dict[str, Any]] = []

    def run(name: str, way: str) -> str:
        command = [sys.executable, __file__, "--one", name, way]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise SystemExit(f"{name}, {way}, failed:\n{done.stdout}\n{done.stderr}")
        return done.stdout

    arms = ("lean", "torch")
    for round_ in range(rounds):
        for name in REFERENCES:
            for arm in arms[round_ % 2 :] + arms[: round_ % 2]:
                row = json.loads(run(name, arm).splitlines()[-1])
                rows.append(row)
                print(f"{name:10} {arm:12} {row['way']:6} {row['seconds']:6.1f} s, {row['processor']:6.1f} s of CPU")
    for arm in arms:
        own = [r for r in rows if r["arm"] == arm]
        print(f"median, {arm}: {median(own, 'seconds'):.1f} s, {median(own, 'processor'):.1f} s of CPU")
    return rows


def median(rows: Sequence[dict[str, Any]], key: str) -> float:
    """Return the median of one column."""
    return statistics.median(r[key] for r in rows)


def through_executor(options: argparse.Namespace, parts: Sequence[str], scratch: Path) -> dict[str, Any]:
    """Return the parts `one` and `batch`."""
    here = detect_cuda()
    target = known_targets()[options.target] if options.target else here
    if target is None:
        raise SystemExit("there is no GPU here: pass --target h200 to build for one, without measuring")
    runs = Runs(target, scratch / "cache", measures=here is not None and not options.target)
    found: dict[str, Any] = {"target": target.name, "cores": os.cpu_count(), "seconds": {}}
    try:
        runs.executor.probe()
        start = time.perf_counter()
        warm = runs.one("softmax")
        found["seconds"]["warm_up"] = time.perf_counter() - start - warm.get("measure", 0.0)
        if "one" in parts:
            rows = [runs.one(name) for _ in range(options.rounds) for name in REFERENCES]
            for row in rows:
                print({k: round(v, 2) if isinstance(v, float) else v for k, v in row.items() if k != "log"}, flush=True)
            found["rows"] = rows
            found["seconds"] |= {f"load_inline_{k}": median(rows, k) for k in ("build", "import")}
            if runs.measures:
                found["seconds"]["load_inline"] = median(rows, "total")
        if "batch" in parts:
            found["batch"] = runs.batch(options.batch, options.threads)
            found["seconds"]["load_inline_per_minute"] = found["batch"]["per_minute"]
            print(found["batch"])
    finally:
        runs.executor.close()
    print(json.dumps(found["seconds"], indent=1))
    return found


def main() -> None:
    """Run what is asked for, print it, write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--parts", default="one,batch", help="one, batch and torch, with commas between")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--batch", type=int, default=32, help="modules of the batch")
    parser.add_argument("--threads", type=int, default=16, help="threads that compile the batch")
    parser.add_argument("--target", choices=sorted(known_targets()), help="build for this GPU and measure nothing")
    parser.add_argument("--arch", default="9.0+PTX", help="what `torch` builds for")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--import", dest="artefact", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        build_here(*options.one)
        return
    if options.artefact:
        import_here(options.artefact)
        return
    parts = options.parts.split(",")
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="load-inline-") as folder:
        if {"one", "batch"} & set(parts):
            results |= through_executor(options, parts, Path(folder))
        if "torch" in parts:
            os.environ.setdefault("TORCH_CUDA_ARCH_LIST", options.arch)
            results["builds"] = against_torch(options.rounds)
    if options.out:
        write(options.out, results)


if __name__ == "__main__":
    main()
