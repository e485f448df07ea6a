"""Ray on several nodes of this machine: the contract, and what is lost meanwhile. All of it needs the extra `ray`."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest
from contracts.executor_contract import ExecutorContract
from support.faults import FAULTS
from support.faults import module as behaving
from support.small_tasks import cpp, small_task

from forewarp.archive.store import Archive
from forewarp.core.budget import Budget
from forewarp.core.errors import DeviceError, WorkerError
from forewarp.core.protocols import Executor, Known, Proposal
from forewarp.core.values import Candidate, Status, Target, Task
from forewarp.gpu_runner.devices import known_targets
from forewarp.gpu_runner.executors.local import Limits
from forewarp.gpu_runner.remote import over_ray
from forewarp.gpu_runner.remote.executor import RemoteExecutor
from forewarp.gpu_runner.remote.opening import extent_of
from forewarp.search.events import Measured, Measuring
from forewarp.search.loop import Search
from forewarp.search.settings import SearchSettings
from forewarp.tools.parts import Place
from forewarp.tools.slots import SlotExecutors

pytest.importorskip("ray", reason="Ray is an extra of forewarp")

from support.small_cluster import SmallCluster, holders, processes, small_cluster

# A node, an actor or a head that is lost takes its time where other tests have the cores.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

LIMITS = Limits(compile_s=60, measure_s=60, call_s=5.0, memory=2 << 30, time_s=0.05, looks=(4, 8))
ACTOR, AGENT, BRIDGE = "ray::RaySlot", "-m forewarp.gpu_runner.remote.far_end", "-m forewarp.gpu_runner.remote.bridge"


@pytest.fixture(scope="module")
def cluster() -> Iterator[SmallCluster]:
    with small_cluster(2) as made:
        yield made


@pytest.fixture(scope="module")
def shared(cluster: SmallCluster) -> Iterator[RemoteExecutor]:
    made = over_ray.open_ray(cluster.address, "cpu", python=sys.executable, limits=LIMITS)
    yield made
    made.close()


def measured_once(executor: Executor, candidate: Candidate) -> str:
    task = small_task()
    return executor.measure(task, candidate, executor.compile(task, candidate)).status


class TestContract(ExecutorContract):
    @pytest.fixture
    def executor(self, shared: RemoteExecutor) -> Executor:
        return shared

    @pytest.fixture
    def task(self) -> Task:
        return small_task()

    @pytest.fixture
    def good(self) -> Candidate:
        return cpp()

    @pytest.fixture
    def failing(self) -> list[tuple[Candidate, Status]]:
        return [(cpp(body="this is no C++"), "compile_error"), (cpp(after="y[0] += 1.0f;"), "incorrect")]

    def test_closing_twice_is_fine(self, executor: Executor) -> None:
        """The shared one is closed at the end; `test_remote` closes others twice."""


def test_both_nodes_are_devices(shared: RemoteExecutor) -> None:
    assert shared.devices == 2
    assert shared.compilers == 2


def test_nodes_that_do_not_time_compile(cluster: SmallCluster, tmp_path: Path) -> None:
    executor = over_ray.open_ray(cluster.address, "cpu", python=sys.executable, most=1, limits=LIMITS, cache=tmp_path)
    try:
        assert executor.devices == 1
        assert executor.compilers == 2
        with ThreadPoolExecutor(2) as pool:
            task, kernels = small_task(), [cpp(), cpp(after="y[0] *= 1.0f;")]
            builds = list(pool.map(executor.compile, [task, task], kernels))
        assert [b.status for b in builds] == ["ok", "ok"]
        assert executor.measure(task, kernels[1], builds[1]).status == "ok"
    finally:
        executor.close()


def settled(cluster: SmallCluster, devices: int) -> tuple[dict[int, int], dict[int, int]]:
    """Return the actors and agents once there is one of each a device: what others have closed may take a moment."""
    until = time.monotonic() + 60
    while True:
        found = cluster.processes(ACTOR), cluster.processes(AGENT)
        if [len(f) for f in found] == [devices, devices]:
            return found
        assert time.monotonic() < until, found
        time.sleep(0.1)


@pytest.mark.parametrize("fault", ["host segfault", "host hang", "kills itself"])
def test_a_kernel_takes_no_actor_with_it(cluster: SmallCluster, shared: RemoteExecutor, fault: str) -> None:
    before = settled(cluster, shared.devices)
    assert measured_once(shared, FAULTS[fault].candidate) in FAULTS[fault].statuses
    assert (cluster.processes(ACTOR), cluster.processes(AGENT)) == before


def test_a_task_is_validated_on_a_node(shared: RemoteExecutor) -> None:
    reports = shared.validate(small_task())
    assert [r.workload for r in reports] == [w.name for w in small_task().workloads["cpu"]]
    assert all(r.nulls for r in reports)


def test_the_device_is_told_without_taking_one(cluster: SmallCluster) -> None:
    cluster_with_gpu = cluster.add(**{"gpu:H200": 1})
    try:
        assert extent_of(f"ray:{cluster.address}", "auto", None) == (known_targets()["h200"], 1)
    finally:
        cluster.kill(cluster_with_gpu)


def test_a_measuring_process_gives_its_device_back(cluster: SmallCluster) -> None:
    node, known = cluster.add(), dict[str, int]()
    before = set(cluster.processes(BRIDGE))
    try:
        with SlotExecutors(0, lambda place, devices: known.update({place.executor: devices})) as slot:
            place = Place(executor=f"ray:{cluster.address}", device="cpu", python=sys.executable)
            executor = slot.get(place, small_task())
            assert slot.get(place, small_task()) is executor
            assert executor.devices == 1
            assert known[place.executor] >= 1
            assert set(cluster.processes(BRIDGE)) > before
        with pytest.raises(WorkerError, match="closed"):
            executor.compile(small_task(), cpp())
        assert set(cluster.processes(BRIDGE)) == before
    finally:
        cluster.kill(node)


def test_stdout_holds_nothing_but_the_answer(cluster: SmallCluster) -> None:
    code = "import sys; from forewarp.cli.main import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", code, "doctor", "--executor", f"ray:{cluster.address}", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    found = {c["name"]: c["detail"] for c in json.loads(done.stdout)["checks"]}
    assert "cores free" in found["machines"]
    assert any(name.startswith("node ") for name in found)


DRIVER = """
import sys
from forewarp.gpu_runner.remote.over_ray import open_ray
open_ray(sys.argv[1], "cpu", python=sys.executable)
print("ready", flush=True)
sys.stdin.read()
"""


def test_a_run_that_is_killed_leaves_no_process_behind(cluster: SmallCluster) -> None:
    before = {kind: set(cluster.processes(kind)) for kind in (ACTOR, AGENT, BRIDGE)}
    command = [sys.executable, "-c", DRIVER, cluster.address]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as driver:
        assert driver.stdout is not None
        assert driver.stdout.readline() == "ready\n"
        assert all(set(cluster.processes(kind)) - old for kind, old in before.items())
        driver.kill()
    until = time.monotonic() + 120
    while any(set(cluster.processes(kind)) - old for kind, old in before.items()):
        assert time.monotonic() < until
        time.sleep(0.1)


class Listed:
    """Proposes one module after another; all do the same, slowly enough to be hit while they are measured."""

    name = "listed"

    def propose(self, task: Task, target: Target, known: Known, count: int, rng: random.Random) -> list[Proposal]:
        begun = len(known.attempts)
        sleeps = "time.sleep(0.02)"
        return [
            Proposal(behaving(sleeps, top=f"number = {i}\n"), self.name) for i in range(begun, min(begun + count, 12))
        ]


Hit = Callable[[Event], None]
"""Something that breaks; the event says that the search is over, so that nothing is to be waited for any more."""


def seen_through(
    archive: Archive, executor: Executor, hits: Mapping[int, Hit], total: int, *, at_once: bool = False
) -> tuple[str, Sequence[Measured]]:
    """Run a search; when so many measurements have begun, do what `hits` says, in this thread if `at_once`."""
    settings = SearchSettings(budget=Budget(measurements=total), confirm=False, holdout=False, proposals_per_round=6)
    search = Search.start(archive, small_task(), executor, Listed(), None, settings)
    begun, ended, over = 0, list[Measured](), Event()
    with ThreadPoolExecutor(len(hits)) as pool:
        hitting: list[Future[None]] = []
        try:
            for event in search.events():
                if isinstance(event, Measuring):
                    begun += 1
                    if begun in hits and at_once:
                        hits[begun](over)
                    elif begun in hits:
                        hitting.append(pool.submit(hits[begun], over))
                elif isinstance(event, Measured):
                    ended.append(event)
        finally:
            over.set()
        for hit in hitting:
            hit.result()
    return search.run_id, ended


def check_books(archive: Archive, run: str, ended: Sequence[Measured], total: int) -> None:
    rows = archive.measurements(run=run)
    assert [r.state for r in rows] == ["done"] * total
    results = [r.measurement for r in rows if r.measurement]
    assert [m.status for m in results] == ["ok"] * total
    assert len({r.candidate.sha256 for r in rows}) == total == len(ended)
    spend = archive.spend(run)
    assert spend.measurements == total
    assert spend.device_s == pytest.approx(sum(m.device_s + m.phases.get("lost", 0.0) for m in results))


def in_the_middle(cluster: SmallCluster, others: Mapping[int, int], do: Callable[[int, int], object]) -> Hit:
    """Return what does something to an agent, none of `others`, and its actor while they measure."""

    def hit(over: Event) -> None:
        while not over.wait(0.02):
            held = holders()
            for agent, actor in sorted(cluster.processes(AGENT).items()):
                if agent in held and agent not in others:
                    with contextlib.suppress(ProcessLookupError):
                        do(agent, actor)
                        return
        raise AssertionError("nothing was measured any more")

    return hit


def test_agents_actors_and_nodes_are_lost_and_every_measurement_counts_once(
    cluster: SmallCluster, tmp_path: Path
) -> None:
    extra, agents = cluster.add(), cluster.processes(AGENT)
    executor = over_ray.open_ray(
        cluster.address, "cpu", python=sys.executable, limits=LIMITS, cache=tmp_path, silent_s=8
    )
    hits = {
        2: in_the_middle(cluster, agents, lambda agent, _: os.kill(agent, signal.SIGKILL)),
        4: in_the_middle(cluster, agents, lambda _, actor: os.kill(actor, signal.SIGKILL)),
        6: in_the_middle(cluster, agents, lambda _agent, _actor: cluster.kill(extra)),
        8: in_the_middle(cluster, agents, lambda _, actor: os.kill(actor, signal.SIGSTOP)),
    }
    try:
        assert executor.devices == 3
        with Archive(tmp_path / "archive.db") as archive:
            run, ended = seen_through(archive, executor, hits, total=10)
            check_books(archive, run, ended, 10)
    finally:
        executor.close()


def test_a_node_that_falls_silent_is_left_behind(cluster: SmallCluster, tmp_path: Path) -> None:
    extra = cluster.add()
    executor = over_ray.open_ray(cluster.address, "cpu", python=sys.executable, limits=LIMITS, cache=tmp_path)
    stopped: list[int] = []

    def silence(over: Event) -> None:
        # The node's raylet with its workers and agents while it measures, as behind a cut cable: nothing comes of them.
        raylet = extra.all_processes["raylet"][0].process.pid
        family = {raylet}
        while not family & holders():
            assert not over.is_set(), "the node never measured"
            for pid, parent in sorted(processes("").items()):
                if parent in family:
                    family.add(pid)
        for pid in sorted(family):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
                stopped.append(pid)

    try:
        with Archive(tmp_path / "archive.db") as archive:
            run, ended = seen_through(archive, executor, {1: silence}, total=6)
            check_books(archive, run, ended, 6)
    finally:
        executor.close()
        for pid in stopped:
            with contextlib.suppress(ProcessLookupError):  # some go with the process that started them
                os.kill(pid, signal.SIGKILL)
        cluster.kill(extra)


def test_the_head_is_restarted_and_the_run_goes_on(tmp_path: Path) -> None:
    with contextlib.ExitStack() as later, small_cluster(2) as first:
        executor = over_ray.open_ray(first.address, "cpu", python=sys.executable, limits=LIMITS, cache=tmp_path)
        later.callback(executor.close)

        def restart(_: Event) -> None:
            first.crash()
            later.enter_context(small_cluster(2, port=first.port))

        with Archive(tmp_path / "archive.db") as archive:
            # In this thread, since Ray starts nodes in the main one only; the other device measures meanwhile.
            run, ended = seen_through(archive, executor, {3: restart}, total=5, at_once=True)
            check_books(archive, run, ended, 5)


def test_a_cluster_that_is_not_there_is_no_device() -> None:
    with pytest.raises(DeviceError, match="cannot be reached"):
        over_ray.open_ray("127.0.0.1:1", "cpu")
