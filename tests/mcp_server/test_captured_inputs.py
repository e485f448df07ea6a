"""Captured calls of the workspace as the shapes of a task, in forecasts, measurements and runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from support import small_tasks
from support.served_mcp import Served, call, ended, refused

from forewarp.mcp_server.jobs import Jobs
from forewarp.mcp_server.options import ServerOptions
from forewarp.mcp_server.server import build_server
from forewarp.tools.parts import Place


class Begun(Exception):
    """The arguments of a run that is not started."""


async def test_only_files_of_the_workspace_are_taken(served: Served) -> None:
    async with served.in_memory() as client:
        given = {"task": "toy.py", "path": "toy.cpp"}
        for tool in ("forecast_kernel", "measure_kernel"):
            text = await refused(client, tool, **given, inputs="/etc/passwd")
            assert "inputs '/etc/passwd' is outside the workspace" in text
        assert "inputs 'none.pt'" in await refused(client, "search", task="toy.py", inputs="none.pt")
        (served.workspace / "calls.pt").write_bytes(b"")
        assert "recorded pool" in await refused(client, "forecast_kernel", **given, inputs="calls.pt")


def test_a_run_gets_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from forewarp.mcp_server.work import Work

    (tmp_path / "calls.pt").write_bytes(b"")

    def start(jobs: Jobs, session: str, task: str, request: Any, reserved: Any) -> None:
        raise Begun(request.inputs)

    monkeypatch.setattr(Jobs, "start_search", start)
    work = Work(ServerOptions(workspace=tmp_path))
    names = ("budget", "max_gpu_seconds", "max_usd", "max_tokens", "deadline_s", "model", "device")
    given = dict.fromkeys(names) | {"task": "softmax", "forecaster": "none", "seed_kernels": [], "detail": "concise"}
    with pytest.raises(Begun) as begun:
        work.search("s", given | {"inputs": "calls.pt"}, lambda _: None)
    assert begun.value.args == (str(tmp_path / "calls.pt"),)


@pytest.mark.slow
async def test_captured_calls_become_the_shapes(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    torch.save([{"name": "few", "weight": 9, "values": (torch.randn(3, 256),)}], tmp_path / "calls.pt")
    (tmp_path / "task.py").write_text(small_tasks.REFERENCE)
    kernel = small_tasks.cpp()
    given: dict[str, Any] = {"task": "task.py", "source": kernel.source, "language": kernel.language}
    options = ServerOptions(place=Place(device="cpu"), workspace=tmp_path, keep_warm=2.0)
    async with Client(build_server(options)) as client:
        began = await call(client, "measure_kernel", **given, inputs="calls.pt", wait_s=40)
        measured = await ended(client, began)
        assert [s["name"] for s in measured["shapes"]] == ["few"], measured
        # What was measured is a trial of the task with these calls, and of no other.
        assert (await call(client, "forecast_kernel", **given, inputs="calls.pt"))["trials"] == 1
        assert (await call(client, "forecast_kernel", **given))["trials"] == 0
