"""Whatever a candidate breaks, the next one's result is unaffected, and soon there."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from support.faults import FAULTS, module
from support.shared_executors import limited
from support.small_tasks import cpp, small_task

from forewarp.core.errors import ForewarpError, WorkerError
from forewarp.core.values import Candidate, Measurement
from forewarp.gpu_runner.devices import detect_cpu
from forewarp.gpu_runner.executors.local import Limits, LocalExecutor
from forewarp.gpu_runner.worker import watch

LIMITS = Limits(compile_s=60, measure_s=60, call_s=20.0, memory=2 << 30, time_s=0.02, looks=(4,))


@pytest.fixture(scope="module")
def executor(cpu_executor: LocalExecutor) -> Iterator[LocalExecutor]:
    with limited(cpu_executor, LIMITS) as made:
        assert measure(made, cpp()).status == "ok"
        yield made


def measure(executor: LocalExecutor, candidate: Candidate) -> Measurement:
    task = small_task()
    return executor.measure(task, candidate, executor.compile(task, candidate))


def named(name: str) -> list[int]:
    """Return the processes of that name."""
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and (entry / "comm").read_text().strip() == name:
                found.append(int(entry.name))
    return found


def eventually(test: Callable[[], object], within_s: float = 60.0) -> bool:
    end = time.monotonic() + within_s
    while time.monotonic() < end:
        if test():
            return True
        time.sleep(0.02)
    return False


_DAILY = ("leaves a daemon",)


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] * (n not in _DAILY)) for n in FAULTS])
def test_the_next_result_is_unaffected(executor: LocalExecutor, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fault = FAULTS[name]
    if name == "fills its folder" and "private temporary files" not in measure(executor, cpp()).protections:
        pytest.skip("without the right to mount its folder has no bound")
    executor.probe()
    there = watch.strays(())
    with monkeypatch.context() as patch:
        if fault.statuses == ("timeout",):
            patch.setattr(executor, "_limits", replace(LIMITS, call_s=1.0))
        result = measure(executor, fault.candidate)
    assert result.status in fault.statuses, result.log
    assert fault.word in result.log
    assert len(result.log) < 20_000
    after = measure(executor, cpp())
    assert after.status == "ok", after.log
    assert not named("fw-daemon")
    assert not named("fw-left")
    assert not watch.strays(there)


def _command(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    return ""


def servers_of(parent: int) -> set[int]:
    """Return the fork servers that a process has started."""
    return {p.pid for p in watch.processes().values() if p.parent == parent and "worker.server" in _command(p.pid)}


@pytest.fixture
def own_executor(tmp_path: Path) -> Iterator[LocalExecutor]:
    made = LocalExecutor(detect_cpu(), limits=LIMITS, cache=tmp_path)
    yield made
    made.close()


CONTROLLER = """
import sys
sys.path.insert(0, {tests!r})
from pathlib import Path
from support.faults import module
from support.small_tasks import small_task
from forewarp.gpu_runner.devices import detect_cpu
from forewarp.gpu_runner.executors.local import Limits, LocalExecutor
executor = LocalExecutor(detect_cpu(), limits=Limits(measure_s=300, call_s=300), cache=Path({cache!r}))
candidate = module("os.fork(); rename(b'fw-orphan'); time.sleep(300)")
executor.measure(small_task(), candidate, executor.compile(small_task(), candidate))
"""


@pytest.mark.slow
def test_a_killed_controller_leaves_nothing_behind(tmp_path: Path) -> None:
    code = CONTROLLER.format(tests=str(Path(__file__).parents[1]), cache=str(tmp_path))
    controller = subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
    try:
        assert eventually(lambda: len(named("fw-orphan")) == 2)
        (server,) = servers_of(controller.pid)
    finally:
        controller.kill()
        controller.wait()
    assert eventually(lambda: not named("fw-orphan") and _dead(server), 30)


@pytest.mark.slow
def test_a_killed_server_is_replaced(own_executor: LocalExecutor) -> None:
    there = servers_of(os.getpid())
    own_executor.probe()
    (own,) = servers_of(os.getpid()) - there
    os.kill(own, signal.SIGKILL)
    assert eventually(lambda: _dead(own))
    assert measure(own_executor, cpp()).status == "ok"


def _dead(pid: int) -> bool:
    process = watch.processes().get(pid)
    return process is None or process.zombie


@pytest.mark.slow
def test_a_killed_judge_costs_its_own_measurement_only(
    own_executor: LocalExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    # It hangs until it is found, however long that takes.
    monkeypatch.setattr(own_executor, "_limits", replace(LIMITS, measure_s=300, call_s=300))

    def strike() -> None:
        assert eventually(lambda: named("fw-judged"))
        everybody = watch.processes()
        for pid in named("fw-judged"):
            os.kill(everybody[pid].parent, signal.SIGKILL)

    striker = threading.Thread(target=strike)
    striker.start()
    with pytest.raises(WorkerError, match="killed by something else than forewarp; the candidate is not to blame"):
        measure(own_executor, module("rename(b'fw-judged'); time.sleep(300)"))
    striker.join()
    assert eventually(lambda: not named("fw-judged"), 30)
    assert measure(own_executor, cpp()).status == "ok"


BOMB_AT_IMPORT = '''"""forewarp
inputs = ["x"]
outputs = ["y"]
[[launch]]
kernel = "f"
grid = ["1"]
args = ["x", "y"]
"""
import os, time
end = time.monotonic() + 30
for _ in range(10):
    try: os.fork()
    except OSError: pass
while time.monotonic() < end: time.sleep(0.1)
'''


@pytest.mark.slow
def test_a_fork_bomb_in_a_triton_source_is_stopped(tmp_path: Path) -> None:
    target = replace(detect_cpu(), kind="cuda", arch="sm_90", shared_bytes=232448)
    executor = LocalExecutor(target, limits=LIMITS, cache=tmp_path)
    try:
        build = executor.compile(small_task(), Candidate(BOMB_AT_IMPORT, "triton"))
    finally:
        executor.close()
    assert build.status == "crashed"
    assert "processes and threads" in build.log


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "full"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)], check=False)
    if mounted.returncode != 0:
        pytest.skip("needs the right to mount")
    (folder / "builds").mkdir()
    with contextlib.suppress(OSError), (folder / "filler").open("wb", buffering=0) as filler:
        for _ in range(14):
            filler.write(bytes(4096))
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.slow
def test_a_full_disk_is_named_with_what_to_do(full_disk: Path) -> None:
    executor = LocalExecutor(detect_cpu(), limits=LIMITS, cache=full_disk)
    try:
        with pytest.raises(ForewarpError) as e:
            executor.compile(small_task(), cpp())
    finally:
        executor.close()
    assert "full" in str(e.value)
    assert "FOREWARP_CACHE" in (e.value.hint or "")
