"""The MCP server through the SDK's own client: in memory in both protocol eras, and as a real process over stdio."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import anyio
import pytest
from mcp import Client, StdioServerParameters
from support.recorded_pool import Recorded, record

import forewarp
from forewarp.mcp_server.server import build_server
from forewarp.tools.parts import Place

Mode = Literal["auto", "legacy"]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    return record(tmp_path_factory.mktemp("pool"))


@pytest.fixture(params=["auto", "legacy"])
def mode(request: pytest.FixtureRequest) -> Mode:
    return request.param


@asynccontextmanager
async def in_memory(recorded: Recorded, mode: Mode = "auto") -> AsyncGenerator[Client]:
    async with Client(build_server(Place(device="replay", pool=recorded.pool)), mode=mode) as client:
        yield client


@asynccontextmanager
async def as_process(recorded: Recorded, mode: Mode = "auto") -> AsyncGenerator[Client]:
    source = str(Path(forewarp.__file__).parents[1])
    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "forewarp.cli.main", "mcp", *recorded.flags],
        env={"PYTHONPATH": source, "FOREWARP_ARCHIVE": os.environ["FOREWARP_ARCHIVE"], "PATH": os.environ["PATH"]},
    )
    async with Client(server, mode=mode) as client:
        yield client


async def call(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    assert result.structured_content is not None
    assert next(iter(result.structured_content)) == "summary"
    return result.structured_content


async def refused(client: Client, tool: str, **arguments: Any) -> str:
    result = await client.call_tool(tool, arguments)
    assert result.is_error
    return result.content[0].text  # type: ignore[union-attr]


async def test_offers_three_tools_with_short_descriptions(recorded: Recorded, mode: Mode) -> None:
    async with in_memory(recorded, mode) as client:
        tools = (await client.list_tools()).tools
    assert [t.name for t in tools] == ["forecast_kernel", "measure_kernel", "search"]
    for tool in tools:
        assert tool.description is not None
        assert len(tool.description.encode()) <= 2048
        assert tool.annotations is not None
        assert tool.annotations.destructive_hint is False
        assert tool.annotations.read_only_hint is (tool.name == "forecast_kernel")
        assert tool.output_schema is not None
        assert next(iter(tool.output_schema["properties"])) == "summary"


async def test_forecasts_and_measures_a_kernel(recorded: Recorded, mode: Mode) -> None:
    said: list[str] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        said.append(message or "")

    async with in_memory(recorded, mode) as client:
        forecast = await call(client, "forecast_kernel", task=recorded.task, path=recorded.seed)
        assert (forecast["recommendation"], forecast["trials"]) == ("measure", 0)
        ranked = await call(client, "forecast_kernel", task=recorded.task, paths=[recorded.broken, recorded.seed])
        assert [line["position"] for line in ranked["ranking"]] == [2, 1]
        assert ranked["kernel"] == ranked["ranking"][0]["kernel"]
        both = await refused(client, "forecast_kernel", task=recorded.task, path=recorded.seed, paths=[recorded.seed])
        assert "either one kernel" in both
        source = Path(recorded.seed).read_text()
        arguments = {"task": recorded.task, "source": source}
        measured = await client.call_tool("measure_kernel", arguments, progress_callback=hear)
        assert measured.structured_content is not None
        assert measured.structured_content["source"] == "replay"
        assert set(measured.structured_content["speedup"]) == {"ratio", "low", "high", "level"}
        assert {"trusted", "checks", "flags", "device_state"} <= set(measured.structured_content)
        shape = measured.structured_content["workloads"][0]
        assert {"verdict", "noise_percent", "warm", "launched"} <= set(shape)
        assert not any(isinstance(value, list) for value in shape.values())
        assert said
        text = await refused(client, "measure_kernel", **arguments, against=recorded.seed)
        assert "against the reference only" in text
        broken = await call(client, "measure_kernel", task=recorded.task, path=recorded.broken)
        assert (broken["status"], broken["speedup"]) == ("compile_error", None)


async def test_errors_say_all_in_the_text(recorded: Recorded, mode: Mode) -> None:
    async with in_memory(recorded, mode) as client:
        text = await refused(client, "measure_kernel", task=recorded.task)
        assert "pass exactly one" in text
        text = await refused(client, "forecast_kernel", task="softmux", path=recorded.seed)
        assert "softmux" in text
        assert "it holds" in text
        text = await refused(client, "search")
        assert "either task" in text
        text = await refused(client, "search", run_id="r-none")
        assert "there is no run 'r-none'" in text
        text = await refused(client, "search", run_id="r-none", wait_s=60)
        assert "45" in text
        text = await refused(client, "search", task="softmux")
        assert "softmux" in text
        assert "error code: task" in text


async def test_a_run_outlives_the_server_that_started_it(recorded: Recorded) -> None:
    async with as_process(recorded) as client:
        began = await call(client, "search", task=recorded.task, budget=8)
        assert began["status"] in ("running", "finished")
    async with in_memory(recorded) as client:
        deadline = time.monotonic() + 30
        state = began
        while state["status"] == "running" and time.monotonic() < deadline:
            state = await call(client, "search", run_id=began["run_id"], wait_s=5)
        assert state["status"] == "finished"
        assert state["poll_after_s"] is None
        assert state["best"]["speedup"]["low"] > 1
        assert state["budget"]["spent"]["measurements"] == 8
        assert state["best"]["source"].startswith("/*forewarp")
        result = Path(state["folder"]) / "result.json"
        while not result.exists() and time.monotonic() < deadline:
            await anyio.sleep(0.1)
        assert result.exists()
        text = await refused(client, "search", run_id=began["run_id"], stop=True)
        assert "nothing works on run" in text


async def test_a_killed_run_is_called_lost(recorded: Recorded) -> None:
    from forewarp.archive.store import Archive, default_path
    from forewarp.tools.search import SearchRequest, open_search

    place = Place(device="replay", pool=recorded.pool)
    with open_search(SearchRequest(task=recorded.task, place=place)) as job:
        run_id = job.run_id
    with Archive(default_path()) as archive:
        archive.set_status(run_id, "running", owner=f"{os.uname().nodename}:4194304:1")
    async with in_memory(recorded) as client:
        state = await call(client, "search", run_id=run_id)
    assert state["status"] == "lost"
    assert f"forewarp resume {run_id}" in state["summary"]


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler")
async def test_a_run_is_stopped_with_the_best_so_far() -> None:
    async with Client(build_server(Place(device="cpu"))) as client:
        state = await call(client, "search", task="softmax", budget=500)
        run_id = state["run_id"]
        deadline = time.monotonic() + 60
        while not state["counts"]["measured"] and time.monotonic() < deadline:
            state = await call(client, "search", run_id=run_id, wait_s=1)
        state = await call(client, "search", run_id=run_id, stop=True, wait_s=30)
    assert state["status"] == "interrupted"
    assert state["best"] is not None
    assert (Path(state["folder"]) / "result.json").exists()


@pytest.mark.parametrize("era", ["auto", "legacy"])
async def test_a_process_lists_its_tools_quickly(recorded: Recorded, era: Mode) -> None:
    start = time.perf_counter()
    async with as_process(recorded, era) as client:
        tools = await client.list_tools()
        seconds = time.perf_counter() - start
        assert len(tools.tools) == 3
    # The aim is 1.5 s; a busy machine gets twice that.
    assert seconds < 3.0
