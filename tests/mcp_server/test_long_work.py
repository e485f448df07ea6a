"""Handles, the queue for the device, cancelling, and budgets that no client exceeds."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from mcp import Client
from support.served_mcp import WAIT_S, Served, begun, call, ended, happens, refused, until

from forewarp.archive.store import default_path
from forewarp.core import processes
from forewarp.mcp_server.jobs import Jobs
from forewarp.mcp_server.options import ServerOptions
from forewarp.mcp_server.server import build_server
from forewarp.mcp_server.spool import Spool, owner
from forewarp.tools.parts import Place


def spool() -> Spool:
    return Spool(default_path().parent)


async def test_clients_queue_for_the_device_and_see_their_place(served: Served) -> None:
    async with served.in_memory() as one, served.in_memory() as two:
        with spool().alone("worker"):
            first = await call(one, "measure_kernel", task="toy.py", path="toy.cpp", wait_s=0)
            second = await call(two, "measure_kernel", task="toy.py", path="broken.cpp", wait_s=0.3)
            assert [(m["status"], m["ahead"]) for m in (first, second)] == [("queued", 0), ("queued", 1)]
            assert "search_status" in second["summary"]
            assert "1 ahead" in second["summary"]
            gone = await call(two, "search_cancel", run_id=first["run_id"])
            assert (gone["status"], gone.get("poll_after_s")) == ("cancelled", None)
        done = await ended(two, second)
        assert done["status"] == "compile_error"
        assert (await call(one, "search_status", run_id=first["run_id"]))["status"] == "cancelled"
        over = await call(one, "search_cancel", run_id=second["run_id"])
        assert over["summary"].startswith("It was over before")


def test_any_server_waits_for_the_files_of_a_run_that_is_over(served: Served, tmp_path: Path) -> None:
    """The run's process is no child of the server that waits for its files: here the test starts it."""
    asked, file = spool().add("search", "another", "toy.py", {}), tmp_path / "result.json"
    with subprocess.Popen(["sh", "-c", f"sleep 0.5; touch {file}; exec sleep 0.1"]) as process:
        spool().claim(asked.id, owner(process.pid))
        spool().write(asked.id, "run", "r-1")
        Jobs(served.options).written("r-1")
        assert file.exists()


def test_who_waits_for_several_devices_is_nearer_to_one(tmp_path: Path) -> None:
    place = {"executor": "ssh:box", "device": "cuda:all"}
    queue = Spool(tmp_path)
    jobs = [queue.add("measure", "s", "toy.py", {"place": place}) for _ in range(4)]
    assert [queue.ahead(j) for j in jobs] == [0, 1, 2, 3]
    queue.has(place, 3)
    assert [queue.devices(j) for j in jobs] == [3] * 4
    assert [queue.ahead(j) for j in jobs] == [0, 0, 0, 1]
    elsewhere = queue.add("measure", "s", "toy.py", {"place": place | {"device": "cuda:1"}})
    assert queue.devices(elsewhere) == 1
    # Who found that out is gone, and the devices may be, too.
    told = queue.read("", "devices.json") or ""
    queue.write("", "devices.json", told.replace(f'"{os.getpid()}:', '"4194304:'))
    assert queue.devices(jobs[0]) == 1


async def test_a_cancelled_call_takes_its_measurement_out_of_the_queue(served: Served) -> None:
    async with served.in_memory() as client:
        with spool().alone("worker"):
            waiting = asyncio.ensure_future(client.call_tool("measure_kernel", {"task": "toy.py", "path": "toy.cpp"}))
            await happens(lambda: spool().waiting())
            job = spool().waiting()[0]
            waiting.cancel()
            await asyncio.wait([waiting])
            await happens(lambda: spool().state(job.id) == "cancelled")


async def test_a_lost_measuring_process_is_told(served: Served) -> None:
    request = {"task": served.recorded.task}
    job = spool().add("measure", "s", "toy.py", request)
    spool().claim(job.id, "4194304:1")
    async with served.in_memory() as client:
        state = await call(client, "search_status", run_id=job.id)
    assert state["status"] == "lost"
    assert "measure_kernel again" in state["summary"]


@pytest.mark.slow
async def test_nobody_exceeds_the_budget_that_the_operator_set(served: Served) -> None:
    caps = {"max_measurements": 3, "session_measurements": 2}
    async with served.in_memory(**caps) as one:
        first = await ended(one, await call(one, "measure_kernel", task="toy.py", path="toy.cpp"))
        assert first["measurements_left"] == 1
        await ended(
            one, await call(one, "measure_kernel", task="toy.py", path="broken.cpp")
        )  # does not compile, so it is not counted
        text = await refused(one, "search", task="toy.py", budget=2)
        assert "2 measurements are more than the 1 left of the session's 2" in text
        with spool().alone("worker"):
            await call(one, "measure_kernel", task="toy.py", path="toy.cpp", wait_s=0)
            text = await refused(one, "measure_kernel", task="toy.py", path="toy.cpp")
            assert "the session's budget of 2 measurements is spent" in text
            assert "only the operator" in text.lower()
            assert "--" not in text
        left = (await call(one, "describe", about="budget"))["budget"]
        assert left["session"]["measurements"]["left"] == 0
        assert left["server"]["measurements"]["left"] == 1
    async with served.in_memory(**caps) as two:  # a restart: another session, the same server's budget
        run = await begun(two, await call(two, "search", task="toy.py"))
        assert run["limit"]["measurements"] == 1
        assert "the server's budget" in await refused(two, "measure_kernel", task="toy.py", path="toy.cpp")
        await call(two, "search_cancel", run_id=run["run_id"])


async def test_device_time_and_models_are_the_operators(served: Served) -> None:
    async with served.in_memory(max_gpu_seconds=0.4, model=["openai:small"]) as client:
        await ended(client, await call(client, "measure_kernel", task="toy.py", path="toy.cpp"))
        text = await refused(client, "measure_kernel", task="toy.py", path="toy.cpp")
        assert "gpu seconds is spent" in text
        text = await refused(client, "forecast_kernel", task="toy.py", path="toy.cpp", model="openai:large")
        assert "allowed: openai:small" in text


async def test_only_so_many_runs_at_a_time(served: Served) -> None:
    job = spool().add("search", "s", "toy.py", {"archive": str(default_path())})
    spool().claim(job.id, f"{os.getpid()}:{processes.began(os.getpid())}")
    async with served.in_memory(max_searches=1) as client:
        text = await refused(client, "search", task="toy.py")
    assert job.id in text
    assert "search_cancel" in text


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler")
async def test_cancelling_frees_the_device(tmp_path: Path) -> None:
    options = ServerOptions(place=Place(device="cpu"), workspace=tmp_path, keep_warm=2.0)
    async with Client(build_server(options)) as client:
        start = (await call(client, "describe", task="softmax", language="cpp"))["start"]["source"]
        slow = start.replace("#include", "#include <unistd.h>\n#include", 1).replace("{\n", "{\n    sleep(60);\n", 1)
        began = await call(client, "measure_kernel", task="softmax", source=slow, language="cpp", wait_s=0)
        await happens(lambda: spool().read(began["run_id"], "stage") == "measuring")
        await asyncio.sleep(1.5)  # most likely the kernel sleeps by then; the device is held in any case
        pid = spool().worker(began["run_id"])
        assert pid is not None
        held = [pid, *processes.below(pid)]
        start = time.monotonic()
        await call(client, "search_cancel", run_id=began["run_id"])
        await happens(lambda: not any(processes.began(p) for p in held))
        # Within a second where the machine has nothing else to do; the kernel would sleep for a minute.
        assert time.monotonic() - start < 10
        run = await call(client, "search", task="softmax", budget=500)
        deadline = time.monotonic() + WAIT_S
        while not run["counts"].get("measured"):
            assert time.monotonic() < deadline, run
            run = await call(client, "search_status", run_id=run["run_id"], wait_s=1)
        start = time.monotonic()
        cancelled = await call(client, "search_cancel", run_id=run["run_id"])
        assert time.monotonic() - start < 15  # all of it would take minutes
        assert cancelled["status"] == "interrupted"
        assert cancelled["best"] is not None


def test_a_tree_is_killed_with_what_left_its_session() -> None:
    code = (
        "import subprocess, sys, time;"
        "p = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'], start_new_session=True);"
        "print(p.pid, flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert processes.below(parent.pid) == [child]
        processes.kill_tree(parent.pid)
        assert parent.wait(WAIT_S) == -signal.SIGKILL
    until(lambda: processes.began(child) == "")


def test_a_damaged_job_is_no_job(tmp_path: Path) -> None:
    made = Spool(tmp_path)
    job = made.add("measure", "s", "t", {})
    (made.at(job.id) / "job.json").write_text(json.dumps({"id": 1})[:-1])
    assert made.jobs() == []


def test_a_job_that_is_just_being_taken_is_not_lost(tmp_path: Path) -> None:
    made = Spool(tmp_path)
    job = made.add("measure", "s", "t", {})
    (made.at(job.id) / "claim").touch()
    assert made.state(job.id) == "running"
    mine = f"{os.getpid()}:{processes.began(os.getpid())}"

    class Watched(Spool):
        """Sees the file before and after who takes the job wrote itself into it."""

        def read(self, job_id: str, name: str) -> str | None:
            found = super().read(job_id, name)
            if name == "claim" and not found:
                (self.at(job_id) / "claim").write_text(mine)
            return found

    assert Watched(tmp_path).state(job.id) == "running"
    assert made.state(job.id) == "running"


@pytest.mark.parametrize(("name", "text", "state"), [("result.json", "{}", "finished"), ("cancelled", "", "cancelled")])
def test_a_process_that_says_its_last_word_and_ends_is_not_lost(
    tmp_path: Path, name: str, text: str, state: str
) -> None:
    class Watched(Spool):
        """Looks whether there is a word, and finds the process gone that has said it since."""

        def read(self, job_id: str, file: str) -> str | None:
            if file == "claim":
                self.write(job_id, name, text)
            return super().read(job_id, file)

    made = Watched(tmp_path)
    job = made.add("measure", "s", "t", {})
    made.claim(job.id, "4194304:1")
    assert made.state(job.id) == state


def test_a_process_whose_measurement_ends_as_it_is_cancelled_goes_on(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as worker:

        class Watched(Spool):
            def worker(self, job_id: str) -> int | None:
                found = super().worker(job_id)
                self.write(job_id, "result.json", "{}")
                return found

        made = Watched(tmp_path)
        job = made.add("measure", "s", "t", {})
        made.claim(job.id, f"{worker.pid}:{processes.began(worker.pid)}")
        assert not made.cancel(job.id)
        assert made.state(job.id) == "finished"
        until(lambda: Path(f"/proc/{worker.pid}/stat").read_text().rpartition(")")[2].split()[0] != "T")
        assert worker.poll() is None
        worker.kill()


def test_a_look_at_a_lock_keeps_nobody_from_it(tmp_path: Path) -> None:
    made, held = Spool(tmp_path), list[bool]()

    def hold() -> None:
        with made.alone("worker", within_s=WAIT_S) as ours:
            held.append(ours)

    other = threading.Thread(target=hold)
    with made.alone("worker"):
        with made.alone("worker", within_s=0) as ours:
            assert not ours
        other.start()
        other.join(0.2)
        assert held == []
    other.join()
    assert held == [True]


def test_calls_that_wait_at_once_start_one_process(served: Served) -> None:
    jobs = Jobs(served.options)
    started: list[int] = []

    class Counted(dict[int, subprocess.Popen[bytes]]):
        def __setitem__(self, number: int, process: subprocess.Popen[bytes]) -> None:
            started.append(process.pid)
            super().__setitem__(number, process)

    jobs._workers = Counted()  # pyright: ignore[reportPrivateUsage]
    job = jobs.spool.add("measure", "s", "toy.py", {})
    together = threading.Barrier(8)

    def wait() -> None:
        together.wait()
        jobs.await_measurement(job, 0.0, lambda _: None)

    calls = [threading.Thread(target=wait) for _ in range(8)]
    for one in calls:
        one.start()
    for one in calls:
        one.join()
    until(lambda: jobs.spool.state(job.id) == "failed")
    jobs.close()
    assert len(started) == 1


BOMB = """\
/*forewarp
format = 1
inputs = ["x"]
outputs = ["y"]
[[launch]]
kernel = "softmax"
args = ["x", "y"]
*/
template <int N, int M> struct Sum { static constexpr int v = Sum<N - 1, M * 2>::v + Sum<N - 1, M * 2 + 1>::v; };
template <int M> struct Sum<0, M> { static constexpr int v = M; };
extern "C" void softmax(const float* x, float* y) { y[0] = x[0] * Sum<25, 0>::v; }
"""


def compilers() -> list[int]:
    found: list[int] = []
    for pid in processes.below(os.getpid()):
        with contextlib.suppress(OSError):  # it has ended since
            if b"cc1plus" in Path(f"/proc/{pid}/cmdline").read_bytes():
                found.append(pid)
    return found


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler")
async def test_a_cancelled_forecast_ends_its_compiler_and_no_other(tmp_path: Path) -> None:
    options = ServerOptions(place=Place(device="cpu"), workspace=tmp_path)
    async with Client(build_server(options)) as client:
        calls = [
            asyncio.ensure_future(call(client, "forecast_kernel", task="softmax", source=source, language="cpp"))
            for source in (BOMB, BOMB.replace("25", "24"), BOMB.replace("25", "23"))  # the third waits for its turn
        ]
        await happens(lambda: len(compilers()) == 2)
        calls[2].cancel()
        calls[0].cancel()
        await happens(lambda: len(compilers()) == 1)
        assert not calls[1].done()
        calls[1].cancel()
        await happens(lambda: not compilers())
        await asyncio.wait(calls)
        honest = BOMB.replace("25", "2")
        found = await call(client, "forecast_kernel", task="softmax", source=honest, language="cpp")
        assert found["status"] == "ok"
