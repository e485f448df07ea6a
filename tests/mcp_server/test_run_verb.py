"""Whole models, locks and exports over MCP: jobs with handles, which read nothing outside of the workspace."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from support.served_mcp import WAIT_S, call, refused
from support.small_model import TEXT

from forewarp.archive.store import default_path
from forewarp.gpu_runner.formats import task as tasks
from forewarp.mcp_server.arguments import Requests
from forewarp.mcp_server.options import ServerOptions
from forewarp.mcp_server.server import build_server
from forewarp.mcp_server.spool import Spool
from forewarp.mcp_server.verb_jobs import verb_request
from forewarp.tools.parts import Amounts, Place

pytest.importorskip("torch")


@pytest.fixture
def options(tmp_path: Path) -> ServerOptions:
    folder = tmp_path / "workspace"
    folder.mkdir()
    (folder / "small.py").write_text(TEXT)
    return ServerOptions(place=Place(device="cpu"), workspace=folder, max_measurements=20)


async def done(client: Client, **given: Any) -> dict[str, Any]:
    """Call the verb and wait for its end."""
    found = await call(client, "run_verb", **given)
    for _ in range(round(WAIT_S / 10)):
        if found["status"] != "running":
            break
        found = await call(client, "search_status", run_id=found["run_id"], wait_s=10)
    assert found["status"] == "finished", found
    return found


@pytest.mark.slow
async def test_a_model_is_profiled_and_a_line_becomes_a_task_of_the_workspace(options: ServerOptions) -> None:
    async with Client(build_server(options)) as client:
        found = await done(client, verb="profile", subject="small.py")
        first = found["result"]["lines"][0]
        assert first["number"] == 1
        assert first["gain"].endswith("%]")
        task = (await done(client, verb="profile", subject="small.py", line=1))["result"]["task"]
        assert task == "small_line1_task.py"
        assert (options.folder() / task).read_text().count("class Model(") == 1
        told = await call(client, "describe", about="budget")
        assert told["budget"]["server"]["measurements"]["left"] == 20  # a profile measures no kernel


@pytest.mark.slow
async def test_an_ended_job_is_resumed_under_its_handle(options: ServerOptions) -> None:
    async with Client(build_server(options)) as client:
        begun = await call(client, "run_verb", verb="optimize", subject="small.py", top=1, budget=6, wait_s=0)
        handle = begun["run_id"]
        assert begun["status"] == "running"
        assert "one run" not in await refused(client, "search_resume", run_id=handle)
        assert (await call(client, "search_cancel", run_id=handle))["status"] == "cancelled"
        told = await call(client, "describe", about="budget")
        assert told["budget"]["server"]["measurements"]["left"] == 14
        assert (await call(client, "search_resume", run_id=handle))["run_id"] == handle
        await call(client, "search_cancel", run_id=handle)
    assert Spool(default_path().parent).state(handle) in ("cancelled", "finished")


@pytest.mark.slow
async def test_kernels_are_locked_and_checked_in_a_python_that_the_operator_allows(options: ServerOptions) -> None:
    seed = next(s for s in tasks.load("softmax").seeds if s.language == "cpp")
    (options.folder() / "mine.cpp").write_text(seed.source)
    allowed = options.model_copy(update={"gate_python": [Path(sys.executable)]})
    async with Client(build_server(allowed)) as client:
        locked = await done(client, verb="gate_lock", subject="gate.json", kernels=["mine.cpp"], task="softmax")
        assert locked["summary"].startswith("1 of 1 kernel locked in gate.json")  # with times on a quiet machine only
        [kernel] = json.loads((options.folder() / "gate.json").read_text())["kernels"]
        assert (kernel["path"], kernel["task"]) == ("mine.cpp", "softmax")
        found = await done(client, verb="gate_check", subject="gate.json", python=[sys.executable], budget=1)
        [row] = found["result"]["rows"]
        assert row["path"] == "mine.cpp"
        told = await call(client, "describe", about="budget")
        assert told["budget"]["server"]["measurements"]["left"] == 18


@pytest.mark.parametrize("verb", ["profile", "optimize", "apply"])
def test_a_model_is_asked_about_as_torch_compiles_it(options: ServerOptions, verb: str) -> None:
    given = {"verb": verb, "subject": "small.py", "kernels": ["small.py"], "compile": True, "top": 3}
    left_out = dict.fromkeys(("call", "line", "deadline_s", "device"))
    request = verb_request(given | left_out, Requests(options), options.folder(), Amounts())
    assert request.model_dump()["compile"] is True


async def test_nothing_outside_of_the_workspace_is_read(options: ServerOptions, tmp_path: Path) -> None:
    (tmp_path / "secret.py").write_text(TEXT)
    locked = {"path": "../secret.py", "tunables": {}, "language": "python", "sha256": "0", "task": "softmax"}
    (options.folder() / "kernels.lock.json").write_text(json.dumps({"kernels": [locked]}))
    async with Client(build_server(options)) as client:
        for given in (
            {"verb": "profile", "subject": "../secret.py"},
            {"verb": "gate_check", "subject": "kernels.lock.json"},
            {"verb": "apply", "subject": "small.py", "kernels": ["../secret.py"]},
        ):
            assert "is refused" in await refused(client, "run_verb", **given)
        assert "no run" in await refused(client, "run_verb", verb="export", subject="../secret.py")
        for verb in ("apply", "gate_lock"):
            assert "no kernel is given" in await refused(client, "run_verb", verb=verb, subject="small.py")
        lock = {"verb": "gate_lock", "subject": "new.json", "kernels": ["small.py"]}
        assert "is refused" in await refused(client, "run_verb", **lock | {"subject": "../new.json"})
        assert "is refused" in await refused(client, "run_verb", **lock | {"kernels": ["../secret.py"]})
        (options.folder() / "gate.json").write_text('{"kernels": []}')
        check = {"verb": "gate_check", "subject": "gate.json", "python": [sys.executable]}
        assert "the operator allows none" in await refused(client, "run_verb", **check)
