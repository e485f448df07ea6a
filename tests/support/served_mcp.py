"""A recorded pool inside a workspace, and servers on it: in memory in both protocol eras, and as processes."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from mcp import Client, StdioServerParameters
from support.recorded_pool import Recorded

import forewarp
from forewarp.mcp_server.options import Options
from forewarp.mcp_server.server import build_server
from forewarp.tools.parts import Place

Mode = Literal["auto", "legacy"]
KEEP_WARM_S = 2.0


@dataclass(frozen=True)
class Served:
    """A workspace with a recorded task, and ways to serve it."""

    recorded: Recorded

    @property
    def workspace(self) -> Path:
        return Path(self.recorded.task).parent

    @property
    def options(self) -> Options:
        place = Place(device="replay", pool=self.recorded.pool)
        return Options(place=place, workspace=self.workspace, keep_warm_s=KEEP_WARM_S)

    @asynccontextmanager
    async def in_memory(self, mode: Mode = "auto", **changes: Any) -> AsyncGenerator[Client]:
        async with Client(build_server(replace(self.options, **changes)), mode=mode) as client:
            yield client

    @asynccontextmanager
    async def as_process(self, mode: Mode = "auto", *flags: str) -> AsyncGenerator[Client]:
        arguments = ["-m", "forewarp.cli.main", "mcp", *self.recorded.flags, f"--workspace={self.workspace}"]
        server = StdioServerParameters(
            command=sys.executable,
            args=[*arguments, f"--keep-warm={KEEP_WARM_S}", *flags],
            env={
                "PYTHONPATH": str(Path(forewarp.__file__).parents[1]),
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


async def refused(client: Client, tool: str, **arguments: Any) -> str:
    """Call a tool that must refuse, and return its text."""
    result = await client.call_tool(tool, arguments)
    assert result.is_error, result.content
    return result.content[0].text  # type: ignore[union-attr]
