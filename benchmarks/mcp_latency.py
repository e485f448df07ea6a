"""Time the MCP server on stdio, and treat it badly.

    nice -n 5 python benchmarks/mcp_latency.py
    python benchmarks/mcp_latency.py --table    # print what docs/mcp.md shows of the committed results

A fresh process per start, in both eras of the protocol; forecasts on the CPU device by the forecaster that comes along;
fifty at once; a server killed in the middle of a search; a kernel that writes to its standard output; five megabytes of
source; a thousand malformed calls. CPU seconds are those of the server and of what it started; wall time is of use only
where nothing else ran.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import sys
import tempfile
import threading
import time
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from mcp_wire import LEGACY, MODERN, Wire, refused, text_of
from provenance import write

from forewarp.core import processes

ROOT = Path(__file__).parents[1]
RESULTS = Path(__file__).parent / "results" / "mcp_latency.json"
PAGE = ROOT / "docs" / "mcp.md"
SEED = ROOT / "tasks" / "softmax" / "seeds" / "softmax.cpp"
LONG = 5_000_000
GARBAGE = """
#include <unistd.h>
__attribute__((constructor)) static void garble() { const char text[] = "garbage {\\n"; (void)!write(1, text, 10); }
"""
MALFORMED: list[tuple[str, dict[str, Any]]] = [
    ("measure_kernel", {}),
    ("measure_kernel", {"task": 3, "source": []}),
    ("search", {"task": "softmax", "budget": -1}),
    ("search_status", {"run_id": "", "wait_s": "soon"}),
    ("describe", {"about": "everything"}),
    ("forecast_kernel", {"task": "../../etc/passwd", "path": "\0"}),
    ("measure_kernel", {"task": "softmax", "path": "/etc/passwd"}),
    ("search_cancel", {"run_id": "m-../../x"}),
]


def main() -> None:
    """Do all of it and write what was seen."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--starts", type=int, default=15)
    parser.add_argument("--at-once", type=int, default=50)
    parser.add_argument("--malformed", type=int, default=1000)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--table", action="store_true")
    args = parser.parse_args()
    if args.table:
        print(table(committed()))
        return
    found: dict[str, Any] = {"machine": machine()}
    parts: dict[str, Callable[[Path], Any]] = {
        "start": lambda folder: start(folder, args.starts),
        "forecasts": lambda folder: forecasts(folder, args.at_once),
        "killed": killed,
        "garbage": garbage,
        "long_source": long_source,
        "malformed": lambda folder: malformed(folder, args.malformed),
    }
    for name, part in parts.items():
        say(name)
        # A measuring process outlives its server, and may still write.
        with tempfile.TemporaryDirectory(prefix="mcp-latency-", ignore_cleanup_errors=True) as folder:
            found[name] = part(Path(folder))
        say(f"  {found[name]}"[:400])
    found["load_after"] = os.getloadavg()
    write(args.out, found)


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def machine() -> dict[str, Any]:
    """Return what the machine is, and how busy it was."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return {"cpu": next(iter(names), ""), "cores": os.cpu_count(), "load_before": os.getloadavg()}


def serve(folder: Path, *flags: str, revision: str = LEGACY) -> Wire:
    """Start a server whose archive and files are in a folder of its own, and greet it."""
    archive = ["--archive", str(folder / "archive.sqlite")] if not any(f == "--archive" for f in flags) else []
    device = ["--device", "cpu"] if "--device" not in flags else []
    cache = {"FOREWARP_CACHE": str(folder / "cache")}
    wire = Wire([*device, *archive, "--workspace", str(folder), "--keep-warm", "2", *flags], revision, cache)
    wire.greet()
    return wire


def start(folder: Path, starts: int) -> dict[str, Any]:
    """Time a fresh process from its start to its list of tools, the eras in turn."""
    taken: dict[str, dict[str, list[float]]] = {r: {"wall_s": [], "cpu_s": []} for r in (LEGACY, MODERN)}
    for _ in range(starts):
        for revision, samples in taken.items():
            wire = serve(folder, revision=revision)
            came, answer = wire.wait(wire.send("tools/list"))
            cpu = wire.kill()
            if not answer["result"]["tools"]:
                raise RuntimeError(f"no tools in {revision}")
            samples["wall_s"].append(came - wire.started)
            samples["cpu_s"].append(cpu)
    return taken


def kernels(count: int) -> list[dict[str, int]]:
    """Return so many different choices of the seed's tunables."""
    plan = SEED.read_text().partition("/*forewarp")[2].partition("*/")[0]
    tunables: dict[str, list[int]] = tomllib.loads(plan)["tunables"]
    every = [dict(zip(tunables, values, strict=True)) for values in itertools.product(*tunables.values())]
    return every[:: len(every) // count][:count]


def forecasts(folder: Path, at_once: int) -> dict[str, Any]:
    """Time the first forecast of a server, the second, and many at once; every kernel is another one."""
    source = SEED.read_text()
    choices = kernels(at_once + 3)
    wire = serve(folder)

    def ask(choice: dict[str, int]) -> tuple[float, int]:
        arguments = {"task": "softmax", "source": source, "language": "cpp", "tunables": choice}
        return time.perf_counter(), wire.send("tools/call", {"name": "forecast_kernel", "arguments": arguments})

    def done(asked: tuple[float, int]) -> float:
        came, answer = wire.wait(asked[1])
        if refused(answer) or answer["result"]["structuredContent"]["status"] != "ok":
            raise RuntimeError(f"no forecast: {text_of(answer)[:500]}")
        return came - asked[0]

    def one(choice: dict[str, int]) -> dict[str, float]:
        before = wire.cpu()
        return {"wall_s": done(ask(choice)), "cpu_s": wire.cpu() - before}

    first, second = one(choices[0]), one(choices[1])
    peak = Peak(wire)
    before, began = wire.cpu(), time.perf_counter()
    asked = [ask(choice) for choice in choices[2:-1]]
    each = [done(a) for a in asked]
    total, total_cpu = time.perf_counter() - began, wire.cpu() - before
    seen = peak.end()
    rss = wire.status("VmRSS")
    wire.kill()
    wire = serve(folder)
    again = one(choices[-1])
    wire.kill()
    return {
        **{"first": first, "second": second, "first_of_next_server": again},
        **{"at_once": at_once, "total_s": total, "total_cpu_s": total_cpu, "each_s": each},
        **{"rss_kib": rss, **seen, "strange_lines": len(wire.strange)},
    }


class Peak:
    """Watches how many threads a server has and how many processes it started."""

    def __init__(self, wire: Wire) -> None:
        self._wire, self._over = wire, threading.Event()
        self._most = {"threads": 0, "processes": 0}
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def end(self) -> dict[str, int]:
        """Stop watching and return the largest numbers seen."""
        self._over.set()
        self._thread.join()
        return {f"most_{name}": count for name, count in self._most.items()}

    def _watch(self) -> None:
        while not self._over.wait(0.05):
            now = {
                "threads": self._wire.status("Threads"),
                "processes": 1 + len(processes.below(self._wire.process.pid)),
            }
            self._most = {name: max(count, now[name]) for name, count in self._most.items()}


def killed(folder: Path) -> dict[str, Any]:
    """Kill the server in the middle of a search; another one takes it up by handle. Beside it, one left alone."""
    sys.path.insert(0, str(ROOT / "tests"))
    from support.recorded_pool import record

    recorded = record(folder, every=1)
    common = {"task": Path(recorded.task).name, "budget": 60, "forecaster": "none", "seed": 3}

    def follow(wire: Wire, run_id: str) -> dict[str, Any]:
        while (state := wire.told("search_status", run_id=run_id, wait_s=10)).get("poll_after_s"):
            pass
        return {name: state[name] for name in ("status", "counts")} | {
            "measurements": state["spent"]["measurements"],
            "best": state["best"]["kernel"],
            "speedup": state["best"]["speedup"],
        }

    def server(name: str) -> Wire:
        return serve(folder, *recorded.flags, "--archive", str(folder / name / "archive.sqlite"))

    alone = server("alone")
    left = follow(alone, alone.told("search", **common)["run_id"])
    alone.kill()
    hurt = server("killed")
    run_id = hurt.told("search", **common)["run_id"]
    while not (seen := hurt.told("search_status", run_id=run_id))["counts"].get("measured"):
        pass
    hurt.kill()
    began = time.perf_counter()
    other = server("killed")
    again = other.told("search_status", run_id=run_id)
    found_s = time.perf_counter() - began
    after = follow(other, run_id)
    other.kill()
    return {
        **{"status_when_killed": seen["status"], "measured_when_killed": seen["counts"]["measured"]},
        **{"status_when_found": again["status"], "found_s": found_s},
        **{"left_alone": left, "killed": after, "identical": left == after},
    }


def garbage(folder: Path) -> dict[str, Any]:
    """Forecast and measure a kernel whose library writes to standard output when it is loaded."""
    wire = serve(folder)
    head, _, body = SEED.read_text().partition("*/")
    arguments = {"task": "softmax", "source": f"{head}*/{GARBAGE}{body}", "language": "cpp"}
    forecast = wire.told("forecast_kernel", **arguments)
    measured = wire.told("measure_kernel", **arguments)
    while measured.get("poll_after_s"):
        measured = wire.told("search_status", run_id=measured["run_id"], wait_s=30)
    tools = len(wire.ask("tools/list")["result"]["tools"])
    wire.kill()
    states = {"forecast": forecast["status"], "measured": measured["status"]}
    return {**states, "strange_lines": len(wire.strange), "tools_after": tools}


def long_source(folder: Path) -> dict[str, Any]:
    """Send five megabytes of source to both tools that take one."""
    wire = serve(folder)
    found: dict[str, Any] = {"bytes": LONG}
    for tool in ("forecast_kernel", "measure_kernel"):
        began = time.perf_counter()
        answer = wire.call(tool, task="softmax", source="x" * LONG)
        taken = time.perf_counter() - began
        found[tool] = {"s": taken, "refused": refused(answer), "text": text_of(answer)}
    found["strange_lines"] = len(wire.strange)
    wire.kill()
    return found


def malformed(folder: Path, count: int) -> dict[str, Any]:
    """Send calls that no tool can carry out, and lines that are no JSON; see what is left of the server."""
    wire = serve(folder)
    for name, arguments in MALFORMED:
        wire.call(name, **arguments)
    before = wire.status("VmRSS")
    errors, began = 0, time.perf_counter()
    for number in range(count):
        name, arguments = MALFORMED[number % len(MALFORMED)]
        errors += refused(wire.call(name, **arguments))
    seconds = time.perf_counter() - began
    after = wire.status("VmRSS")
    for line in ("no json", '{"jsonrpc": "2.0"}', "[]", '{"id": {}}', "\x00"):
        wire.write(line)
    tools = len(wire.ask("tools/list")["result"]["tools"])
    wire.kill()
    return {
        **{"calls": count, "errors": errors, "s": seconds, "rss_before_kib": before, "rss_after_kib": after},
        **{"tools_after": tools, "strange_lines": len(wire.strange)},
    }


def committed() -> dict[str, Any]:
    """Return the committed results."""
    return json.loads(RESULTS.read_text())


def table(found: dict[str, Any]) -> str:
    """Return what the page shows: where it was measured, then a line for each experiment."""
    machine = found["machine"]
    loads = (machine["load_before"][0], found["load_after"][0])
    rows = "\n".join(f"| {what} | {value} |" for what, value in lines(found))
    where = f"{machine['cpu']}, {machine['cores']} cores, load average {loads[0]:.1f} before and {loads[1]:.1f} after"
    return f"{where}:\n\n| what | found |\n|---|---|\n{rows}\n"


def lines(found: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield what was done and what came of it."""
    for revision, samples in found["start"].items():
        wall, cpu = samples["wall_s"], samples["cpu_s"]
        yield (
            f"new process to `tools/list`, {revision}, {len(wall)} times",
            f"median {statistics.median(wall):.2f} s, fastest {min(wall):.2f} s; CPU {statistics.median(cpu):.2f} s",
        )
    asked = found["forecasts"]
    for name, what in (
        ("first", "first forecast ever (C++, CPU device, nothing cached)"),
        ("first_of_next_server", "first forecast of the next server"),
        ("second", "second forecast, of another kernel"),
    ):
        yield what, f"{asked[name]['wall_s']:.1f} s; CPU {asked[name]['cpu_s']:.1f} s"
    yield (
        f"{asked['at_once']} forecasts at once, of different kernels",
        f"{asked['total_s']:.0f} s in all, CPU {asked['total_cpu_s']:.0f} s; a call"
        f" {statistics.median(asked['each_s']):.0f} s, at most {max(asked['each_s']):.0f} s;"
        f" {asked['most_threads']} threads, {asked['most_processes']} processes",
    )
    killed, other = found["killed"], found["killed"]["killed"]
    yield (
        f"search of {other['counts']['measured']} measurements, server killed after {killed['measured_when_killed']}",
        f"another server answers for it after {killed['found_s']:.1f} s with its own start; totals as left alone: "
        f"{'identical' if killed['identical'] else 'different'}",
    )
    garbage = found["garbage"]
    yield (
        "kernel that writes to standard output",
        f"forecast {garbage['forecast']}, measured {garbage['measured']}; "
        f"{garbage['strange_lines']} lines on the wire that are none of the protocol",
    )
    long = found["long_source"]
    seconds = max(long[tool]["s"] for tool in ("forecast_kernel", "measure_kernel"))
    refusals = sum(long[tool]["refused"] for tool in ("forecast_kernel", "measure_kernel"))
    yield f"source of {long['bytes'] / 1e6:.0f} MB", f"refused {refusals} of 2 times, within {seconds:.2f} s"
    bad = found["malformed"]
    before, after = (bad[f"rss_{when}_kib"] / 1024 for when in ("before", "after"))
    yield (
        f"{bad['calls']:,} malformed calls, one after the other",
        f"{bad['errors']:,} answered as errors in {bad['s']:.1f} s; memory {before:.1f} MiB before, {after:.1f} MiB"
        f" after; then `tools/list` has {bad['tools_after']}",
    )


if __name__ == "__main__":
    main()
