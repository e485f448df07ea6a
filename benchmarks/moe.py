"""Tune the fused mixture of experts of vLLM or SGLang as they do, and by forecasts, on this machine's GPU.

    python benchmarks/moe.py FUSED_MOE_FILE --out benchmarks/results/moe.json --sample 24 --for 200

The kernel is read from a file of theirs, of which nothing is imported, and gets their space of 1,920 configurations
(`moe_calls.py`). Both products of a layer are launched with one configuration, as their tuner does. For each number of
tokens:

- `ours`: all configurations forecast, `COMPILED` compiled in parallel, forecast again, `KEPT` measured, then those that
  are forecast as the best of them is; in seconds from the forecast to the winner, the start of the compiling processes
  included.
- `theirs`: one configuration after the other in one process, each compiled and timed by their protocol (a graph of ten
  launches, replayed ten times). With `--sample N` so many are drawn, and the seconds of all are estimated from them.
- `all`: every configuration, compiled in parallel, to know the best. Nobody tunes so; its seconds count for none.
- `afresh`: our winner, the best of all, that of `--table` (vLLM's JSON for this card) and vLLM's default, interleaved.

Rows are written as they come, a second run with the same `--out` goes on, and `--for` ends it. Without a GPU,
`--dry-run h100` forecasts only, and `--write FOLDER` leaves a file to look at with `forewarp tune`.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import hashlib
import importlib
import json
import math
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from provenance import provenance

MODULE, KERNEL = "fused_moe", "fused_moe_kernel"
COMPILED, KEPT = 24, 8
ROUNDS, AFRESH, FINALISTS = 3, 21, 5
"""Rounds of replays to choose from, rounds that judge, and the fastest of all that are timed again before them."""
SHARED_BYTES = 232_448
"""Shared memory of a block on an H100 and an H200."""
TOLERANCE = 2e-2
ALIKE = 1e-4
"""Octaves within which two forecasts are the same."""
HEADER = "import torch\nimport triton\nimport triton.language as tl\n\n\n"
FOOTER = f"""

import moe_calls

tuned = moe_calls.autotuned({KERNEL})


def run(tokens: int = 128):
    return moe_calls.run(tuned, tokens)
"""


def main() -> None:
    """Do what is left to do, and write the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kernel", type=Path, help="vLLM's fused_moe.py or SGLang's fused_moe_triton_kernels.py")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/moe.json"))
    parser.add_argument("--tokens", default="16,128,1024", help="batch sizes, separated by commas")
    parser.add_argument("--sample", type=int, default=0, help="configurations tried their way; all where left out")
    parser.add_argument("--for", dest="seconds", type=float, default=float("inf"))
    parser.add_argument("--table", type=Path, help="vLLM's own table for this card")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--dry-run", default="", metavar="CARD")
    parser.add_argument("--replay", action="store_true", help="choose again among what --out has times of, on no GPU")
    parser.add_argument("--write", type=Path, metavar="FOLDER")
    parser.add_argument("--child", default="", help="used by this script: what a child of it does, as JSON")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="forewarp-moe-", ignore_cleanup_errors=True) as made:
        folder = chosen.write or Path(made)
        write_module(chosen.kernel, folder)
        tokens = [int(n) for n in chosen.tokens.split(",")]
        if chosen.child:
            child(folder, json.loads(chosen.child))
        elif chosen.replay:
            replay(chosen.kernel, folder, tokens, chosen.out)
        elif chosen.dry_run:
            dry_run(folder, tokens, chosen.dry_run, table_of(chosen.table))
        elif not chosen.write:
            Bench(chosen, folder, tokens).run()


def write_module(kernel: Path, folder: Path) -> None:
    """Write the kernel, with what it needs of its file, as a module that wraps Triton's autotuner around it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{MODULE}.py").write_text(HEADER + kernel_text(kernel.read_text()) + FOOTER)
    shutil.copy(Path(__file__).with_name("moe_calls.py"), folder)


def kernel_text(source: str) -> str:
    """Return the text of the kernel, and of the functions and constants of the file that it names, in their order.

    Raises ValueError where the file has no such kernel.
    """
    known: dict[str, ast.stmt] = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef):
            known[node.name] = node
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            known[node.targets[0].id] = node
    if KERNEL not in known:
        raise ValueError(f"the file has no function {KERNEL}")
    needed, waiting = set[str](), [KERNEL]
    while waiting:
        name = waiting.pop()
        needed.add(name)
        names = {n.id for n in ast.walk(known[name]) if isinstance(n, ast.Name)}
        waiting += [n for n in names & known.keys() if n not in needed]
    lines = source.splitlines()
    parts: list[str] = []
    for node in (n for name, n in known.items() if name in needed):
        decorators = node.decorator_list if isinstance(node, ast.FunctionDef) else []
        first = min([node.lineno, *(d.lineno for d in decorators)])
        parts.append("\n".join(lines[first - 1 : node.end_lineno]))
    return "\n\n\n".join(parts) + "\n"


class BothProducts:
    """The two launches of a layer for a number of tokens; `configs` is vLLM's space."""

    def __init__(self, folder: Path, tokens: int) -> None:
        from forewarp.tuning.catching import TunedLaunch, catching

        if str(folder) not in sys.path:
            sys.path.insert(0, str(folder))
        module, calls = importlib.import_module(MODULE), importlib.import_module("moe_calls")
        self.tokens, self.outputs = tokens, list[Any]()
        self.launches: list[TunedLaunch] = []
        for first in (True, False):
            found: list[TunedLaunch] = []
            with catching(found, launch=False):
                self.outputs.append(calls.product(module.tuned, tokens, first=first))
            self.launches += found
        self.configs: Sequence[Any] = module.tuned.configs
        self._expected: list[Any] = []

    def seconds(self, target: Any, facts: dict[int, list[dict[str, float]]] | None = None) -> dict[int, float]:
        """Forecast the seconds of both together by place: of all, or of those in `facts`, which the compiler told."""
        from forewarp.tuning import forecasts, physics
        from forewarp.tuning.catching import space_of

        places = list(range(len(self.configs)) if facts is None else facts)
        total = dict.fromkeys(places, 0.0)
        for number, launch in enumerate(self.launches):
            space = space_of(launch.tuner, launch.arguments, launch.keywords, [self.configs[p] for p in places])
            said = facts and physics.CompilerFacts(
                *([f[number][name] for f in facts.values()] for name in ("registers", "spills", "shared"))
            )
            for place, seconds in zip(places, forecasts.forecast(space, target, said).seconds, strict=True):
                total[place] += float(seconds)
        return total

    def ranked(self, target: Any, facts: dict[int, list[dict[str, float]]] | None = None) -> list[int]:
        """Return the places, the fastest forecast first; of those forecast alike, one stands for all."""
        from forewarp.tuning.physics import fastest_first

        seconds = self.seconds(target, facts)
        places = list(seconds)
        return [places[i] for i in fastest_first(np.array([seconds[place] for place in places]))]

    def alike(self, place: int, target: Any) -> list[int]:
        """Return the other places that are forecast as this one is: forecasts do not tell groups of tiles apart."""
        seconds = self.seconds(target)
        return [p for p, s in seconds.items() if p != place and abs(np.log2(s / seconds[place])) < ALIKE]

    def place(self, named: dict[str, int]) -> int | None:
        """Return the place of a configuration as vLLM writes it; None where it is not in the space."""
        return next((i for i, c in enumerate(self.configs) if as_named(c) == as_named(config_of(named))), None)

    def prepare(self, config: Any) -> None:
        """Put the tokens into place for a configuration's tile."""
        for launch in self.launches:
            launch.prepare(config)

    def launch(self, config: Any) -> None:
        """Launch both products."""
        for launch in self.launches:
            launch.run(config)

    def checked(self, config: Any) -> None:
        """Launch a configuration; raises where it does not run, and ValueError where it gives other results."""
        import torch

        self.prepare(config)
        for output in self.outputs:
            output.zero_()
        self.launch(config)
        torch.cuda.synchronize()
        self._expected = self._expected or [expected(launch.arguments) for launch in self.launches]
        for number, (right, found) in enumerate(zip(self._expected, self.outputs, strict=True), 1):
            error = float((found.float() - right).norm() / right.norm())
            if not error <= TOLERANCE:
                raise ValueError(f"product {number} differs from PyTorch's by {error:.1e}")

    def graph(self, config: Any) -> Any:
        """Return a graph of ten launches of a configuration that was run before, as vLLM times it."""
        import torch

        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(10):
                self.launch(config)
        return graph

    def glance(self, config: Any, best: float) -> float:
        """Return the microseconds of a configuration that ran before: of three launches, one if it is far behind."""
        import torch

        samples: list[float] = []
        while len(samples) < 3 and (not samples or samples[0] < 2 * best):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            torch.cuda._sleep(300_000)  # meanwhile both launches are enqueued
            begin.record()
            self.launch(config)
            end.record()
            end.synchronize()
            samples.append(begin.elapsed_time(end) * 1e3)
        return statistics.median(samples)

    def interleaved(self, configs: dict[str, Any], rounds: int) -> dict[str, list[float]]:
        """Return the microseconds of configurations in rounds of random order; those that fail are left out."""
        import torch

        graphs: dict[str, Any] = {}
        for name, config in configs.items():
            try:
                self.checked(config)
                graphs[name] = self.graph(config)
            except Exception as e:
                reraise_if_lost(e)
                print(f"{name}: {type(e).__name__}: {e}"[:300], file=sys.stderr, flush=True)
        samples: dict[str, list[float]] = {name: [] for name in graphs}
        for number in range(rounds + 1):
            for name in random.Random(number).sample(list(graphs), len(graphs)):
                self.prepare(configs[name])
                begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                begin.record()
                graphs[name].replay()
                end.record()
                end.synchronize()
                if number:  # the first round warms up
                    samples[name].append(begin.elapsed_time(end) * 100)
        return samples


def winner_of(samples: dict[str, list[float]]) -> int:
    """Return the place with the least median."""
    return int(min(samples, key=lambda name: statistics.median(samples[name])))


def expected(given: dict[str, Any]) -> Any:
    """Return PyTorch's result of a product, with the routes of the launch."""
    import torch

    calls = importlib.import_module("moe_calls")
    tokens, top_k = given["topk_weights_ptr"].shape
    inputs, weights = given["a_ptr"], given["b_ptr"]
    owners = torch.tensor(calls.routes(tokens, len(weights), top_k), device=inputs.device)
    rows = torch.arange(len(owners), device=inputs.device) // given["top_k"]
    out = torch.empty(len(owners), weights.shape[1], device=inputs.device)
    for expert, weight in enumerate(weights):
        out[owners == expert] = (inputs[rows[owners == expert]] @ weight.T).float()
    return out


def reraise_if_lost(error: Exception) -> None:
    """Raise an error again after which the process can do no more on the GPU."""
    if any(word in str(error) for word in ("illegal", "misaligned", "unspecified", "device-side")):
        raise error


def as_named(config: Any) -> dict[str, int]:
    """Return a configuration as vLLM writes it."""
    return {**config.kwargs, "num_warps": config.num_warps, "num_stages": config.num_stages}


def config_of(named: dict[str, int]) -> Any:
    """Return a configuration that vLLM wrote; with Triton's own warps and stages where it names none."""
    import triton

    rest = {n: v for n, v in named.items() if n not in ("num_warps", "num_stages")}
    hook = importlib.import_module("moe_calls").align
    return triton.Config(
        rest, num_warps=named.get("num_warps", 4), num_stages=named.get("num_stages", 3), pre_hook=hook
    )


def default_of(tokens: int, experts: int) -> dict[str, int]:
    """Return what vLLM takes where it has no table (`get_default_config`, nothing quantised)."""
    sizes = (16, 32, 64, 1) if tokens <= experts else (64, 64, 32, 8)
    return dict(zip(("BLOCK_SIZE_M", "BLOCK_SIZE_N", "BLOCK_SIZE_K", "GROUP_SIZE_M"), sizes, strict=True))


def table_of(path: Path | None) -> dict[int, dict[str, int]]:
    """Return vLLM's table by number of tokens."""
    found: dict[str, Any] = json.loads(path.read_text()) if path else {}
    return {int(n): config for n, config in found.items() if n.isdecimal()}


def cannot_fit(config: Any) -> bool:
    """Return whether the tiles in flight alone are more than a block's shared memory."""
    m, n, k = (config.kwargs[f"BLOCK_SIZE_{axis}"] for axis in "MNK")
    return 2 * k * (m + n) * (config.num_stages - 1) > SHARED_BYTES


def dry_run(folder: Path, tokens: Sequence[int], card: str, table: dict[int, dict[str, int]]) -> None:
    """Print what is forecast for a card that need not be here, and where vLLM's own choice stands in it."""
    from forewarp.gpu_runner.devices import known_targets

    for count in tokens:
        both = BothProducts(folder, count)
        start = time.perf_counter()
        order = both.ranked(known_targets()[card])
        took = time.perf_counter() - start
        print(f"{count} tokens: {len(order)} configurations of both products forecast in {took:.2f} s")
        for number, place in enumerate(order[:KEPT], 1):
            print(f"  {number}. {as_named(both.configs[place])}")
        if count in table and (place := both.place(table[count])) is not None:
            print(f"  {order.index(place) + 1}. {as_named(both.configs[place])} is vLLM's choice")


def replay(kernel: Path, folder: Path, tokens: Sequence[int], out: Path) -> None:
    """Add to a file of results what is found among the configurations that it has times of."""
    from forewarp.gpu_runner.devices import known_targets

    state = json.loads(out.read_text())
    target = known_targets()["h100" if "H100" in state["device"] else "h200"]
    found = {str(n): replayed(BothProducts(folder, n), target, times_of(state["batches"][str(n)])) for n in tokens}
    state["replayed"] = {"kernel": hashlib.sha256(kernel.read_bytes()).hexdigest()} | found
    print(json.dumps(state["replayed"], indent=1))
    out.write_text(json.dumps(state, indent=1) + "\n")


def times_of(batch: dict[str, Any]) -> dict[int, float]:
    """Return the microseconds of all configurations that have a time, by place."""
    return {int(place): us for place, us in batch["all"].items() if us}


def replayed(both: BothProducts, target: Any, us: dict[int, float]) -> dict[str, float]:
    """Return how far the best of so many measured is from the best of all that have times, forecast without compiling.

    `eight` measures in one step, the others correct the forecasts after their first half, as `forewarp tune` does.
    """
    from forewarp.tuning import feedback, physics
    from forewarp.tuning.space import Configuration

    seconds, places = both.seconds(target), list(us)
    times = np.array([us[p] for p in places])
    order = physics.fastest_first(np.array([seconds[p] for p in places]))
    octaves = np.log2([seconds[p] for p in places])
    configurations = [Configuration.of(both.configs[p]) for p in places]
    found: dict[str, float] = {"first": times[order[0]], "eight": times[order[:8]].min()}
    for name, half in (("four_and_four", 4), ("eight_and_eight", 8)):
        measured = {i: math.log2(times[i] / 1e6) for i in order[:half]}
        then = feedback.following(order, octaves, configurations, measured)[:half]
        found[name] = times[[*measured, *then]].min()
    return {name: float(value / times.min()) for name, value in found.items()}


class Bench:
    """The measurements, the file that they stand in, and the time that is left."""

    def __init__(self, chosen: argparse.Namespace, folder: Path, tokens: list[int]) -> None:
        from forewarp.gpu_runner import devices

        self._until = time.monotonic() + chosen.seconds
        self._chosen, self._folder, self._tokens = chosen, folder, tokens
        self._target = devices.choose("cuda")
        self._table = table_of(chosen.table)
        self._state: dict[str, Any] = json.loads(chosen.out.read_text()) if chosen.out.exists() else {}
        about = {"kernel": hashlib.sha256(chosen.kernel.read_bytes()).hexdigest(), "device": self._target.name}
        if any(self._state.get(n, v) != v for n, v in about.items()):
            raise SystemExit(f"{chosen.out} holds results of another kernel or card")
        self._state |= about
        self._state["runs"] = [*self._state.get("runs", []), provenance()]
        self._rows: list[dict[str, Any]] = self._state.setdefault("theirs", [])
        self._batches: dict[str, dict[str, Any]] = self._state.setdefault("batches", {})
        for count in tokens:
            self._batches.setdefault(str(count), {"all": {}})
        self._both = {count: BothProducts(folder, count) for count in tokens}
        self._configs = self._both[tokens[0]].configs
        self._state["space"] = len(self._configs)

    def run(self) -> None:
        """Do what the file does not have yet."""
        for count in self._tokens:
            batch = self._batches[str(count)]
            if "ours" not in batch and self._left() > 30:
                batch["ours"] = self._ours(self._both[count])
                self._write()
        self._theirs()
        self._all()
        for count in self._tokens:
            self._afresh(self._both[count], self._batches[str(count)])
            self._write()

    def _left(self) -> float:
        return self._until - time.monotonic()

    def _write(self) -> None:
        for count in self._tokens:
            self._batches[str(count)]["theirs"] = their_seconds(self._rows, count, len(self._configs))
        summary = {n: summarised(b) for n, b in self._batches.items() if "afresh" in b}
        self._chosen.out.parent.mkdir(parents=True, exist_ok=True)
        self._chosen.out.write_text(json.dumps({**self._state, "moe": summary}, indent=1) + "\n")

    def _ours(self, both: BothProducts) -> dict[str, Any]:
        start = time.monotonic()
        order = both.ranked(self._target)[:COMPILED]
        ranked = time.monotonic()
        with self._compiling(order, both.tokens) as compiling:
            facts = {place: row["facts"] for place, row in compiling if "facts" in row}
        facts = {place: f for place, f in facts.items() if all(each["shared"] <= SHARED_BYTES for each in f)}
        kept = both.ranked(self._target, facts)[:KEPT]
        compiled = time.monotonic()
        samples = both.interleaved({str(place): self._configs[place] for place in kept}, ROUNDS)
        winner = winner_of(samples)
        alike = both.alike(winner, self._target)[:KEPT]
        if alike:
            again = both.interleaved({str(p): self._configs[p] for p in (winner, *alike)}, ROUNDS)
            winner, samples = winner_of(again), samples | again
        done = {
            "seconds": time.monotonic() - start,
            "forecast_s": ranked - start,
            "compile_s": compiled - ranked,
            "measured": len(samples),
            "place": winner,
            "winner": as_named(self._configs[winner]),
            "forecast_best": as_named(self._configs[kept[0]]),
        }
        print(f"ours, {both.tokens} tokens: {json.dumps(done)}", flush=True)
        return done

    def _theirs(self) -> None:
        """Have a process try configurations one after the other, as vLLM's tuner does, and keep its rows."""
        everything = range(len(self._configs))
        places = random.Random(0).sample(everything, self._chosen.sample or len(everything))
        done = {(row["place"], row["tokens"]) for row in self._rows}
        places = [p for p in places if any((p, n) not in done for n in self._tokens)]
        if not places or self._left() < 60:
            return
        cache = Path(tempfile.mkdtemp(dir=self._folder))
        file = cache / "rows.jsonl"
        worker = self._child({"do": "try", "places": places, "tokens": self._tokens, "file": str(file)}, cache)
        while worker.poll() is None and self._left() > 40:
            time.sleep(1)
            self._rows += new_rows(file)
            self._write()
        worker.kill()
        worker.wait()
        self._rows += new_rows(file)
        self._write()

    def _all(self) -> None:
        """Time every configuration for every number of tokens, while they are compiled, in random order."""
        timed = {n: self._batches[str(n)]["all"] for n in self._tokens}
        places = [p for p, config in enumerate(self._configs) if not cannot_fit(config)]
        self._state["cannot_fit"] = len(self._configs) - len(places)
        random.Random(1).shuffle(places)
        places = [p for p in places if any(str(p) not in timed[n] for n in self._tokens)]
        if not places or self._left() < 40:
            return
        wrote = time.monotonic()
        with self._compiling(places, self._tokens[0]) as compiling:
            for place, row in compiling:
                for n in self._tokens:
                    best = min((us for us in timed[n].values() if us), default=float("inf"))
                    timed[n][str(place)] = None if "problem" in row else self._glance(self._both[n], place, best)
                if time.monotonic() - wrote > 5:
                    self._write()
                    wrote = time.monotonic()
                if self._left() < 20:
                    break
        self._write()

    def _glance(self, both: BothProducts, place: int, best: float) -> float | None:
        try:
            both.checked(self._configs[place])
            return both.glance(self._configs[place], best)
        except Exception as e:
            reraise_if_lost(e)
            return None

    def _afresh(self, both: BothProducts, batch: dict[str, Any]) -> None:
        """Time our winner beside the best of all, that of the table and the default, in rounds of their own."""
        if "ours" not in batch:
            return
        timed = {p: us for p, us in batch["all"].items() if us}
        fastest = sorted(timed, key=lambda p: timed[p])[:FINALISTS]
        again = both.interleaved({p: self._configs[int(p)] for p in fastest}, ROUNDS)
        configs = {"ours": self._configs[batch["ours"]["place"]]}
        configs |= {"best": self._configs[winner_of(again)]} if again else {}
        configs |= {"table": config_of(self._table[both.tokens])} if both.tokens in self._table else {}
        configs["default"] = config_of(default_of(both.tokens, importlib.import_module("moe_calls").LAYER.experts))
        samples = both.interleaved(configs, AFRESH)
        batch["afresh"] = {n: {"configuration": as_named(configs[n]), "us": us} for n, us in samples.items()}

    def _child(self, job: dict[str, Any], cache: Path) -> subprocess.Popen[bytes]:
        command = [sys.executable, __file__, str(self._chosen.kernel), "--child", json.dumps(job)]
        return subprocess.Popen(command, env=os.environ | {"TRITON_CACHE_DIR": str(cache)})

    @contextlib.contextmanager
    def _compiling(self, places: Sequence[int], tokens: int) -> Iterator[Iterator[tuple[int, dict[str, Any]]]]:
        """Compile configurations in several processes, into a cache that was empty; give what comes of each."""
        cache = Path(tempfile.mkdtemp(dir=self._folder))
        os.environ["TRITON_CACHE_DIR"] = str(cache)
        count = min(self._chosen.jobs, len(places))
        files = [cache / f"rows.{k}.jsonl" for k in range(count)]
        job = {"do": "compile", "tokens": tokens, "architecture": self._target.arch}
        children = [
            self._child(job | {"places": places[k::count], "file": str(file)}, cache) for k, file in enumerate(files)
        ]

        def rows() -> Iterator[tuple[int, dict[str, Any]]]:
            left = len(places)
            while left:
                over = all(one.poll() is not None for one in children)
                for row in (r for file in files for r in new_rows(file)):
                    left -= 1
                    yield row["place"], row
                if over or self._left() < 15:
                    return
                time.sleep(0.02)

        try:
            yield rows()
        finally:
            for one in children:
                one.kill()
                one.wait()


_read: dict[Path, int] = {}


def new_rows(file: Path) -> list[dict[str, Any]]:
    """Return the whole rows that a process has added to its file since the last look."""
    if not file.exists():
        return []
    with file.open("rb") as opened:
        opened.seek(_read.get(file, 0))
        text = opened.read()
    text = text[: text.rfind(b"\n") + 1]
    _read[file] = _read.get(file, 0) + len(text)
    return [json.loads(line) for line in text.splitlines()]


def child(folder: Path, job: dict[str, Any]) -> None:
    """Do what a process is started for, a row at a time."""
    with Path(job["file"]).open("a") as out:
        for row in compiled(folder, job) if job["do"] == "compile" else tried(folder, job):
            out.write(json.dumps(row) + "\n")
            out.flush()


def compiled(folder: Path, job: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Compile both kernels of each configuration, on tensors that take no memory; give the compiler's facts."""
    from forewarp.gpu_runner.compilers.cubin import codes

    sys.path.insert(0, str(folder))
    vars(importlib.import_module("moe_calls"))["DEVICE"] = "meta"
    both = BothProducts(folder, job["tokens"])
    for place in job["places"]:
        facts: list[dict[str, float]] = []
        try:
            for launch in both.launches:
                keywords = {n: v for n, v in launch.keywords.items() if n != "warmup"}
                kernel = launch.tuner.fn.warmup(**keywords, **both.configs[place].all_kwargs())
                code = next(iter(codes(kernel.asm["cubin"], job["architecture"]).values()))
                shared = int(kernel.metadata.shared)
                facts.append({"registers": code.registers, "spills": code.stack_bytes / 4, "shared": shared})
        except Exception as e:
            yield {"place": place, "problem": f"{type(e).__name__}: {e}"[:200]}
        else:
            yield {"place": place, "facts": facts}


def tried(folder: Path, job: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Compile and time configurations one after the other, by the protocol of vLLM's tuner with `num_iters=10`."""
    import torch

    batches = [BothProducts(folder, tokens) for tokens in job["tokens"]]
    for place in job["places"]:
        for both in batches:
            row: dict[str, Any] = {"place": place, "tokens": both.tokens, "us": None, "bench_s": 0.0}
            config = both.configs[place]
            start = time.perf_counter()
            try:
                both.prepare(config)
                both.launch(config)
                torch.cuda.synchronize()
            except Exception as e:
                reraise_if_lost(e)
                yield row | {"compile_s": time.perf_counter() - start, "problem": f"{type(e).__name__}: {e}"[:200]}
                continue
            ran = time.perf_counter()
            graph = both.graph(config)
            torch.cuda.synchronize()
            for _ in range(5):
                graph.replay()
            torch.cuda.synchronize()
            total = 0.0
            for _ in range(10):
                begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                torch.cuda.synchronize()
                begin.record()
                graph.replay()
                end.record()
                end.synchronize()
                total += begin.elapsed_time(end)
            graph.reset()
            yield row | {"us": total * 10, "compile_s": ran - start, "bench_s": time.perf_counter() - ran}


def their_seconds(rows: Sequence[dict[str, Any]], tokens: int, count: int) -> dict[str, Any]:
    """Return the seconds of all `count` configurations: summed, or estimated where fewer were tried.

    `compiled_s` is what is left where another number of tokens had them compiled before.
    """
    compiling: dict[int, float] = {}
    for row in rows:
        compiling[row["place"]] = max(compiling.get(row["place"], 0.0), row["compile_s"])
    own = [row for row in rows if row["tokens"] == tokens]
    if not own:
        return {"tried": 0}
    benching, each = sum(row["bench_s"] for row in own), count / len(own)
    return {
        "tried": len(own),
        "estimated": len(own) < count,
        "seconds": each * (benching + sum(compiling[row["place"]] for row in own)),
        "compiled_s": each * benching,
    }


def summarised(batch: dict[str, Any]) -> dict[str, Any]:
    """Return the figures of a number of tokens: seconds of both ways, and our winner's time over others, afresh."""
    from forewarp.tuning.tuner import paired_ratio

    ours, theirs, afresh = batch["ours"]["seconds"], batch["theirs"], batch["afresh"]
    found: dict[str, Any] = {
        "ours_s": ours,
        "theirs_s": theirs.get("seconds"),
        "theirs_estimated_from": theirs["tried"] if theirs.get("estimated") else None,
        "times_less": theirs["seconds"] / ours if theirs["tried"] else None,
        "timed_to_know_the_best": len(batch["all"]),
        "us": {name: statistics.median(row["us"]) for name, row in afresh.items()},
    }
    for name in (n for n in ("best", "table", "default") if n in afresh and "ours" in afresh):
        found[f"ours_over_{name}"] = paired_ratio(afresh["ours"]["us"], afresh[name]["us"])
    return found


if __name__ == "__main__":
    main()
