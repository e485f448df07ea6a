"""How soon does the terminal agent stop a stream, a compilation and a measurement, and an MCP server a measurement.

    python benchmarks/interrupts.py --times 5
    python benchmarks/interrupts.py --device cuda --out interrupts_h200.json

Each is begun as a user or a client begins it, interrupted when it is well under way, and timed twice: until the
conversation says so or the call is answered, and until none of its processes is left.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from mcp import Client
from provenance import provenance
from pydantic_ai.messages import ModelMessage
from pydantic_ai.models.function import AgentInfo, FunctionModel

from forewarp.agent.conversation import Conversation
from forewarp.agent.events import ConversationEvent, Interrupted, Progressed, TextDelta
from forewarp.agent.settings import Settings
from forewarp.core import processes
from forewarp.mcp_server.options import ServerOptions
from forewarp.mcp_server.server import build_server
from forewarp.mcp_server.spool import Spool
from forewarp.tools import describe
from forewarp.tools.parts import Place

RESULT = Path(__file__).parent / "results" / "interrupts.json"
TASK = "softmax"
GONE_S = 30.0
KERNELS = {"cpu": ("cpp", ".cpp"), "cuda": ("cuda", ".cu")}
"""Language and suffix of what is compiled on each device: text to which a comment can be added with //."""


async def endless(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str]:
    """A model that does not stop talking."""
    while True:
        yield "and "
        await asyncio.sleep(0.02)


def children() -> set[int]:
    """Return the processes below this one."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, IndexError, ValueError):
            parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
    found = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {os.getpid()}


async def stopped(
    talk: Conversation, text: str, when: Callable[[ConversationEvent], bool], after_s: float
) -> dict[str, float]:
    """Say something, interrupt it `after_s` after an event, and return the seconds that its end took."""
    told, before = 0.0, children()

    def interrupt() -> None:
        nonlocal told
        told = time.perf_counter()
        talk.interrupt()

    ended = 0.0
    async for event in talk.say(text):
        if when(event) and not told:
            told = -1.0
            asyncio.get_running_loop().call_later(after_s, interrupt)
        if isinstance(event, Interrupted):
            ended = time.perf_counter()
    assert told > 0, f"{text} ended before it was interrupted"
    assert ended > 0, f"{text} was not interrupted"
    start = time.perf_counter()
    while children() - before and time.perf_counter() - start < GONE_S:
        await asyncio.sleep(0.02)
    return {"told_s": ended - told, "gone_s": time.perf_counter() - told, "left": len(children() - before)}


async def cancelled(home: Path, device: str, kernel: Path) -> dict[str, float]:
    """Measure by a tool call, cancel it by another one, and return the seconds that its end took."""
    options = ServerOptions(
        place=Place(device=device, archive=str(home / "archive.db")), workspace=kernel.parent, keep_warm=2.0
    )
    spool = Spool(home)
    async with Client(build_server(options)) as client:
        begun = await client.call_tool("measure_kernel", {"task": TASK, "path": kernel.name, "wait_s": 0})
        assert begun.structured_content, begun
        job = begun.structured_content["run_id"]
        while spool.read(job, "stage") != "measuring":
            await asyncio.sleep(0.02)
        await asyncio.sleep(1.0)
        worker = spool.worker(job)
        assert worker is not None, "the measurement ended before it was cancelled"
        held = [worker, *processes.below(worker)]
        told = time.perf_counter()
        await client.call_tool("search_cancel", {"run_id": job})
        ended = time.perf_counter()
        while (left := [p for p in held if processes.began(p)]) and time.perf_counter() - told < GONE_S:
            await asyncio.sleep(0.02)
    return {"told_s": ended - told, "gone_s": time.perf_counter() - told, "left": len(left)}


async def measured(folder: Path, times: int, device: str) -> dict[str, list[dict[str, float]]]:
    """Interrupt each kind of work, several times."""
    language, suffix = KERNELS[device]
    seed = describe.task_of(TASK, Place(device=device)).seeds[language]
    found: dict[str, list[dict[str, float]]] = {
        kind: [] for kind in ("stream", "compilation", "measurement", "MCP measurement")
    }
    for number in range(times):
        place = Place(device=device, archive=str(folder / f"{number}.db"))
        settings = Settings(place=place, folder=folder, approval="never", model=FunctionModel(stream_function=endless))
        (folder / f"new{suffix}").write_text(f"{seed}\n// {time.time_ns()}\n")
        (folder / f"seed{suffix}").write_text(seed)
        talk = Conversation(settings)
        found["stream"].append(await stopped(talk, "Talk.", lambda e: isinstance(e, TextDelta), 0.5))
        compiling = stopped(talk, f"/forecast {TASK} new{suffix}", lambda e: isinstance(e, Progressed), 0.5)
        found["compilation"].append(await compiling)
        measuring = stopped(
            talk,
            f"/measure {TASK} seed{suffix}",
            lambda e: isinstance(e, Progressed) and e.text == "measuring",
            1.0,
        )
        found["measurement"].append(await measuring)
        talk.close()
        found["MCP measurement"].append(await cancelled(folder / f"mcp-{number}", device, folder / f"seed{suffix}"))
        print(f"{number + 1} of {times}", {k: v[-1] for k, v in found.items()}, flush=True)
    return found


def main() -> None:
    """Measure, write the file, and print the medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--device", choices=list(KERNELS), default="cpu")
    parser.add_argument("--out", type=Path, default=RESULT)
    args = parser.parse_args()
    load = list(Path("/proc/loadavg").read_text().split()[:3])
    with tempfile.TemporaryDirectory() as folder:
        found = asyncio.run(measured(Path(folder), args.times, args.device))
    medians: dict[str, Any] = {
        kind: {key: statistics.median(r[key] for r in rounds) for key in rounds[0]} for kind, rounds in found.items()
    }
    worst = {kind: max(r["told_s"] for r in rounds) for kind, rounds in found.items()}
    document = {
        "provenance": provenance(),
        "device": args.device,
        "load": load,
        "median": medians,
        "worst_told_s": worst,
        "rounds": found,
    }
    args.out.write_text(json.dumps(document, indent=1) + "\n")
    for kind, m in medians.items():
        print(
            f"{kind}: told after {m['told_s'] * 1e3:.0f} ms, processes gone after {m['gone_s'] * 1e3:.0f} ms (medians)"
        )


if __name__ == "__main__":
    main()
