"""Measurements on a machine with two devices: as many at once, each with a process that can be ended alone."""

from __future__ import annotations

import asyncio
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from support import two_devices
from support.served_mcp import WAIT_S, Served, call, ended, happens, refused

from forewarp.archive.store import Archive, default_path
from forewarp.mcp_server.spool import Spool
from forewarp.tools.parts import Place

pytestmark = pytest.mark.slow
SECONDS = 40


@dataclass(frozen=True)
class Machine:
    """The machine that `ssh` leads to."""

    folder: Path

    def begun(self) -> dict[str, int]:
        """Return which measurements began, and on which device."""
        path = self.folder / "begun"
        lines = path.read_text().split("\n")[:-1] if path.exists() else []
        found = {name: int(number) for number, name in (line.split() for line in lines)}
        assert len(found) == len(lines), "one was begun twice"
        return found

    async def until_begun(self, *names: str) -> dict[str, int]:
        await happens(lambda: set(names) <= set(self.begun()))
        return self.begun()

    def end(self, *names: str) -> None:
        for name in names:
            (self.folder / name).touch()


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    folder = tmp_path / "machine"
    folder.mkdir()
    ssh = tmp_path / "bin" / "ssh"
    ssh.parent.mkdir()
    ssh.write_text(f"#!/bin/sh\nexec {sys.executable} {two_devices.__file__} {folder}\n")
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", f"{ssh.parent}{os.pathsep}{os.environ['PATH']}")
    return Machine(folder)


PLACE = Place(executor="ssh:box", device="cuda:all")


async def begin(client: Client, name: str) -> dict[str, Any]:
    kernel = two_devices.source(name)
    return await call(client, "measure_kernel", task="toy.py", source=kernel, language="cpp", wait_s=0)


async def status(client: Client, started: dict[str, Any]) -> dict[str, Any]:
    return await call(client, "search_status", run_id=started["run_id"])


def spool() -> Spool:
    return Spool(default_path().parent)


async def test_as_many_at_once_as_there_are_devices(served: Served, machine: Machine) -> None:
    async with served.in_memory(place=PLACE) as one, served.in_memory(place=PLACE) as two:
        a = await begin(one, "a")
        assert (await machine.until_begun("a")) == {"a": 0}
        b = await begin(two, "b")
        assert (await machine.until_begun("b")) == {"a": 0, "b": 1}
        c, d = await begin(one, "c"), await begin(two, "d")
        assert [(await status(one, x))["status"] for x in (a, b, c, d)] == ["running", "running", "queued", "queued"]
        assert [(await status(one, x)).get("ahead") for x in (c, d)] == [1, 2]

        holder = spool().worker(a["run_id"])
        gone = await call(one, "search_cancel", run_id=b["run_id"])
        assert gone["status"] == "cancelled"
        assert (await machine.until_begun("c"))["c"] == 1
        assert (await status(one, a))["status"] == "running"
        assert spool().worker(a["run_id"]) == holder
        assert (await status(two, d))["ahead"] == 1

        machine.end("a", "c", "d")
        assert [(await ended(two, x))["status"] for x in (a, c, d)] == ["ok"] * 3
    with Archive(default_path()) as archive:
        rows = archive.measurements()
    states = {two_devices.called(r.candidate.source): r.state for r in rows}
    assert {n: s for n, s in states.items() if s == "done"} == {"a": "done", "c": "done", "d": "done"}
    assert len(rows) == len(states)


async def test_calls_at_once_do_not_exceed_the_budget(served: Served, machine: Machine) -> None:
    machine.end(*"abcdefgh")
    caps = {"place": PLACE, "max_measurements": 3}
    async with served.in_memory(**caps) as one, served.in_memory(**caps) as two:
        calls = [
            client.call_tool(
                "measure_kernel",
                {"task": "toy.py", "source": two_devices.source(name), "language": "cpp", "wait_s": SECONDS},
            )
            for client, name in zip((one, two) * 4, "abcdefgh", strict=True)
        ]
        answers = await asyncio.gather(*calls)
        assert sum(not answer.is_error for answer in answers) == 3
        assert len(machine.begun()) == 3
        assert "budget of 3 measurements is spent" in await refused(
            one, "measure_kernel", task="toy.py", source=two_devices.source("z"), language="cpp"
        )


async def test_device_time_that_runs_out_ends_only_its_own(served: Served, machine: Machine) -> None:
    # The first one sets two minutes aside, and leaves five seconds to the second: by then it has surely begun.
    async with served.in_memory(place=PLACE, max_gpu_seconds=125.0) as client:
        a = await begin(client, "a")
        await machine.until_begun("a")
        b = await begin(client, "b")
        said = await refused(client, "search_status", run_id=b["run_id"], wait_s=SECONDS)
        assert "no more was left of the budget" in said
        assert machine.begun() == {"a": 0, "b": 1}
        assert (await status(client, a))["status"] == "running"
        with spool().alone("worker-1", within_s=WAIT_S) as free:
            assert free, "the process that was to end is there yet, and holds its device"
        machine.end("a")
        assert (await ended(client, a))["status"] == "ok"
