"""A recorded pool inside a workspace, and servers on it: in memory in both protocol eras, and as processes."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from mcp import Client, StdioServerParameters
from support.ports import free_port
from support.recorded_pool import Recorded

import forewarp
from forewarp.mcp_server.options import ServerOptions
from forewarp.mcp_server.server import build_server
from forewarp.tools.parts import Place

Mode = Literal["auto", "legacy"]
KEEP_WARM_S = 2.0
WAIT_S = 60.0
"""For what takes a moment here, and on a busy machine much longer."""
SOURCES = str(Path(forewarp.__file__).parents[1])


@contextmanager
def listening(port: int, *arguments: str, **environment: str) -> Generator[str]:
    """Run Python with these arguments, which must serve on the port and print nothing; yields the URL."""
    command, environment = [sys.executable, *arguments], os.environ | {"PYTHONPATH": SOURCES} | environment
    # A pipe that nobody reads would stop a server that has much to say.
    with (
        tempfile.TemporaryFile() as out,
        tempfile.TemporaryFile() as said,
        subprocess.Popen(command, env=environment, stdout=out, stderr=said) as process,
    ):
        try:
            until(lambda: process.poll() is not None or _answers(port))
            said.seek(0)
            assert process.poll() is None, said.read().decode()
            yield f"http://127.0.0.1:{port}/mcp"
        finally:
            process.terminate()
            try:
                process.wait(WAIT_S)
            finally:
                process.kill()
        out.seek(0)
        assert out.read() == b""


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def until(true: Callable[[], object], why: str = "it did not happen") -> None:
    """Wait for something that another process does."""
    deadline = time.monotonic() + WAIT_S
    while not true():
        assert time.monotonic() < deadline, why
        time.sleep(0.02)


async def happens(true: Callable[[], object], why: str = "it did not happen") -> None:
    """Wait for something that goes on beside the test, in this loop or elsewhere."""
    deadline = time.monotonic() + WAIT_S
    while not true():
        assert time.monotonic() < deadline, why
        await asyncio.sleep(0.02)


@dataclass(frozen=True)
class Served:
    """A workspace with a recorded task, and ways to serve it."""

    recorded: Recorded

    @property
    def workspace(self) -> Path:
        return Path(self.recorded.task).parent

    @property
    def options(self) -> ServerOptions:
        place = Place(device="replay", pool=self.recorded.pool)
        return ServerOptions(place=place, workspace=self.workspace, keep_warm=KEEP_WARM_S)

    @asynccontextmanager
    async def in_memory(self, mode: Mode = "auto", **changes: Any) -> AsyncGenerator[Client]:
        async with Client(build_server(self.options.model_copy(update=changes)), mode=mode) as client:
            yield client

    @property
    def arguments(self) -> list[str]:
        """What Python is given to serve on stdio."""
        flags = [*self.recorded.flags, f"--workspace={self.workspace}", f"--keep-warm={KEEP_WARM_S}"]
        return ["-m", "forewarp.cli.main", "mcp", *flags]

    @contextmanager
    def over_http(self, token: str = "", *flags: str) -> Generator[str]:
        with free_port() as port:
            arguments = [*self.arguments, *flags, f"--http=127.0.0.1:{port}"]
            with listening(port, *arguments, FOREWARP_MCP_TOKEN=token) as url:
                yield url

    @asynccontextmanager
    async def as_process(self, mode: Mode = "auto", *flags: str) -> AsyncGenerator[Client]:
        server = StdioServerParameters(
            command=sys.executable,
            args=[*self.arguments, *flags],
            env={
                "PYTHONPATH": SOURCES,
                "FOREWARP_ARCHIVE": os.environ["FOREWARP_ARCHIVE"],
                "PATH": os.environ["PATH"],
            },
        )
        async with Client(server, mode=mode) as client:
            yield client


async def call(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """Call a tool that must succeed, and return what is structured of its answer."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    found = result.structured_content
    assert found is not None
    assert next(iter(found)) == "summary"
    assert result.content[0].text.startswith(found["summary"])  # type: ignore[union-attr]
    return found


async def ended(client: Client, answer: dict[str, Any]) -> dict[str, Any]:
    """Ask for work until it is over; returns the last answer."""
    deadline = time.monotonic() + WAIT_S
    while answer.get("poll_after_s") is not None:
        assert time.monotonic() < deadline, answer
        answer = await call(client, "search_status", run_id=answer["run_id"], wait_s=20)
    return answer


async def begun(client: Client, answer: dict[str, Any]) -> dict[str, Any]:
    """Ask for a run until it has begun: loading takes long on a busy machine; returns the first answer of the run."""
    deadline = time.monotonic() + WAIT_S
    while answer["status"] == "starting":
        assert time.monotonic() < deadline, answer
        answer = await call(client, "search_status", run_id=answer["run_id"], wait_s=20)
    return answer


async def refused(client: Client, tool: str, **arguments: Any) -> str:
    """Call a tool that must refuse, and return its text."""
    result = await client.call_tool(tool, arguments)
    assert result.is_error, result.content
    return result.content[0].text  # type: ignore[union-attr]
