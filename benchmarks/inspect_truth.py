"""What `forewarp inspect` says of kernels against the CUDA driver: registers, local and shared memory, occupancy.

    python benchmarks/inspect_truth.py rows_0.jsonl.gz rows_1.jsonl.gz --out benchmarks/results/inspect_truth.json

The rows come from `record_pool.py --truth`, which asks the driver on the GPU machine. `--compile-again` compiles the
programs whose answers differ once more, here, with the same compilers, and compares again: the rows of 2026-11-21 hold,
where a program has a kernel in several versions, the occupancy of the wrong one.
"""

from __future__ import annotations

import argparse
import ctypes
import gzip
import itertools
import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from provenance import write

from forewarp.core.values import Candidate
from forewarp.gpu_runner.devices import known_targets
from forewarp.gpu_runner.executors.artifacts import manifest_of
from forewarp.gpu_runner.executors.local import LocalExecutor
from forewarp.gpu_runner.formats import candidate as candidates
from forewarp.gpu_runner.formats import task as tasks

_STATIC_SHARED, _LOCAL, _REGISTERS = 1, 3, 4
_MAX_DYNAMIC_SHARED = 8
_OF_CODE = ("registers", "local_bytes", "static_shared_bytes")


class Driver:
    """The CUDA driver with a context on one device; no kernel is launched."""

    def __init__(self, device: int) -> None:
        self._cuda = ctypes.CDLL("libcuda.so.1")
        context = ctypes.c_void_p()
        self._do("cuInit", 0)
        self._do("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self._do("cuCtxSetCurrent", context)

    def _do(self, call: str, *arguments: Any) -> None:
        code = getattr(self._cuda, call)(*arguments)
        if code:
            raise RuntimeError(f"{call}: error {code}")

    def kernel(self, image: bytes, symbol: str, threads: int, dynamic_shared: int) -> dict[str, int]:
        """Load a cubin and ask about one kernel."""
        module, function, blocks = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_int()
        self._do("cuModuleLoadData", ctypes.byref(module), image)
        try:
            self._do("cuModuleGetFunction", ctypes.byref(function), module, symbol.encode())
            found = {
                "registers": self._attribute(function, _REGISTERS),
                "local_bytes": self._attribute(function, _LOCAL),
                "static_shared_bytes": self._attribute(function, _STATIC_SHARED),
            }
            if dynamic_shared > 48 << 10:
                self._do("cuFuncSetAttribute", function, _MAX_DYNAMIC_SHARED, dynamic_shared)
            size = ctypes.c_size_t(dynamic_shared)
            self._do("cuOccupancyMaxActiveBlocksPerMultiprocessor", ctypes.byref(blocks), function, threads, size)
            return found | {"blocks": blocks.value}
        finally:
            self._do("cuModuleUnload", module)

    def _attribute(self, function: ctypes.c_void_p, number: int) -> int:
        value = ctypes.c_int()
        self._do("cuFuncGetAttribute", ctypes.byref(value), number, function)
        return value.value


class Recorded:
    """Answers of the driver from a row, in the order in which they were given."""

    def __init__(self, answers: list[dict[str, Any]]) -> None:
        self._answers = iter(answers)

    def kernel(self, image: bytes, symbol: str, threads: int, dynamic_shared: int) -> dict[str, int]:
        """Return the next answer, which must be about this kernel."""
        answer = next(self._answers)
        if answer["kernel"] != symbol:
            raise ValueError(f"expected {symbol}, found {answer['kernel']}")
        return dict(answer["driver"])


def _key(code: Mapping[str, Any], block: Sequence[int], shared: int) -> tuple[Any, ...]:
    return code["kernel"], code["registers"], code["static_shared_bytes"], tuple(block), shared


def compare(driver: Driver | Recorded, manifest: Mapping[str, Any], folder: Path) -> list[dict[str, Any]]:
    """Return for each kernel of a build what was seen in its machine code and what the driver says."""
    found: list[dict[str, Any]] = []
    launches = [e for w in manifest["inspection"]["workloads"] for e in w["launches"]]
    held = {_key(e["code"], e["block"], e["dynamic_shared_bytes"]): e["occupancy"] for e in launches}
    for variant in manifest["variants"].values():
        for entry in variant["kernels"].values():
            code, block = entry["code"], entry["block"]
            threads = block[0] * block[1] * block[2]
            ours = {
                "registers": code["registers"],
                "local_bytes": code["stack_bytes"],
                "static_shared_bytes": code["static_shared_bytes"],
                "blocks": held[_key(code, block, entry["shared"])]["blocks"],
            }
            theirs = driver.kernel((folder / entry["file"]).read_bytes(), entry["symbol"], threads, entry["shared"])
            found.append({"kernel": entry["symbol"], "ours": ours, "driver": theirs})
    return found


class Compiler:
    """The programs of the pool, compiled for the target here."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._executor = folder, LocalExecutor(known_targets()["h200"])

    def again(self, measured: Mapping[str, Any], answers: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the comparison with a new build; the old one where registers or memory have become others."""
        seed = candidates.load(self._folder / measured["task"] / "seeds" / measured["program"])
        candidate = Candidate(seed.source, seed.language, json.loads(measured["tunables"]))
        build = self._executor.compile(tasks.load(str(self._folder / measured["task"])), candidate)
        found = compare(Recorded(answers), manifest_of(build), Path(build.artefact))
        if all(k["ours"][name] == k["driver"][name] for k in found for name in _OF_CODE):
            return found
        print(f"{measured['task']} {measured['program']}: compiles to other code here", file=sys.stderr)
        return answers


def answers(path: Path) -> Iterator[tuple[dict[str, Any], dict[str, Any], list[dict[str, Any]]]]:
    """Yield a file's head, each row whose kernels the driver was asked about, and its answers."""
    with gzip.open(path, "rt") as file:
        head, *rows = map(json.loads, file)
    built = [r for r in rows if r.get("build", {}).get("status") == "ok"]
    asked = [r for r in rows if "truth" in r]
    for row, answer in zip(built, asked, strict=bool(asked)):
        yield head, row, answer["truth"]


def main() -> None:
    """Count how often the two agree."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", type=Path, nargs="+")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--compile-again", action="store_true")
    parser.add_argument("--folder", type=Path, default=Path(__file__).parents[1] / "pool" / "tasks")
    args = parser.parse_args()
    compiler = Compiler(args.folder) if args.compile_again else None
    equal: Counter[str] = Counter()
    again, differing = 0, []
    found: list[dict[str, Any]] = []
    heads: dict[str, dict[str, Any]] = {}
    for head, row, kernels in itertools.chain.from_iterable(map(answers, args.rows)):
        heads[head["command"]] = head
        if compiler and any(k["ours"] != k["driver"] for k in kernels):
            kernels, again = compiler.again(row, kernels), again + 1
        found += kernels
        wrong = [k for k in kernels if k["ours"] != k["driver"]]
        differing += [{"task": row["task"], "program": row["program"]} | k for k in wrong]
    if not found:
        sys.exit("these rows hold no answer of the driver; record them with --truth")
    for kernel in found:
        equal.update(name for name, value in kernel["ours"].items() if value == kernel["driver"][name])
    for name, count in equal.items():
        print(f"{name:22s} equal for {count} of {len(found)} kernels")
    if args.out:
        result = {"measured_on": list(heads.values()), "kernels": len(found), "equal": dict(equal)}
        write(args.out, result | {"programs_compiled_again": again, "differing": differing[:200]})


if __name__ == "__main__":
    main()
