"""The machine's memory runs low: whoever took it is stopped, and nobody else is blamed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from forewarp.gpu_runner.worker.channel import MACHINE
from forewarp.gpu_runner.worker.memory import HostMemory
from forewarp.gpu_runner.worker.watch import HostWatch, Suspect, Watch, processes, run_watched

MB = 1 << 20
HOLDS = "import sys, time; held = b'x' * int(sys.argv[1]); print('holds', flush=True); time.sleep(60)"


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    (tmp_path / "proc").mkdir()
    leave(tmp_path, 800 * MB)
    return tmp_path


def leave(root: Path, available: int) -> None:
    """Say that so many bytes can be had."""
    whole = root / "meminfo.new"
    whole.write_text(f"MemTotal: {8 << 20} kB\nMemAvailable: {available >> 10} kB\n")
    whole.rename(root / "proc/meminfo")


@pytest.fixture(scope="module")
def hog() -> Iterator[int]:
    """A process that holds 500 MB more than this one, whose memory counts as inherited."""
    resident, shared = map(int, Path("/proc/self/statm").read_text().split()[1:3])
    size = 500 * MB + (resident - shared) * os.sysconf("SC_PAGE_SIZE")
    with subprocess.Popen([sys.executable, "-c", HOLDS, str(size)], stdout=subprocess.PIPE) as held:
        assert held.stdout is not None
        held.stdout.readline()
        yield held.pid
        held.kill()


def test_enough_memory_is_no_violation(machine: Path, hog: int) -> None:
    watching = HostWatch(host=HostMemory(machine))
    leave(machine, 150 * MB)
    assert watching.violation(hog) is None
    leave(machine, 80 * MB)  # less than an eighth of what there was
    assert watching.violation(hog) is not None


def test_whoever_took_most_is_to_blame(machine: Path, hog: int) -> None:
    idle, taker = Suspect("the idle ", "idle", [os.getppid()]), Suspect("the taker ", "taken", [hog])
    watching = HostWatch(lambda _: [Suspect("none ", "none", ()), taker, idle], HostMemory(machine))
    leave(machine, 50 * MB)
    status, log = watching.violation(0) or ("", "")
    assert status == "taken"
    assert log.startswith("the taker took 0.5 GB of main memory and was stopped when this machine had 0.1 GB left")


def test_others_are_to_blame_where_no_suspect_took_most(machine: Path) -> None:
    watching = HostWatch(lambda _: [Suspect("none ", "none", ())], HostMemory(machine))
    leave(machine, 50 * MB)
    status, log = watching.violation(0) or ("", "")
    assert status == MACHINE
    assert "0.1 GB were left: other programs took most of the 0.8 GB" in log


def test_a_machine_that_does_not_say_is_not_watched(tmp_path: Path, hog: int) -> None:
    assert HostWatch(host=HostMemory(tmp_path)).violation(hog) is None


def test_what_runs_is_stopped_when_memory_runs_low(machine: Path) -> None:
    watching = HostWatch(host=HostMemory(machine))
    threading.Timer(0.3, leave, (machine, 10 * MB)).start()
    started = time.monotonic()
    stopped = run_watched(lambda _: time.sleep(60), None, host=watching)
    assert time.monotonic() - started < 20
    assert stopped is not None
    assert stopped[0] == MACHINE


MEASURES = """
import sys
sys.path.insert(0, {tests!r})
from pathlib import Path
from support.faults import module
from support.small_tasks import REFERENCE, small_task
from forewarp.gpu_runner.devices import detect_cpu
from forewarp.gpu_runner.executors.local import Limits, LocalExecutor

EATS = "globals().setdefault('kept', []).append(torch.ones(1 << 25)); time.sleep(0.02)"
line = "        return torch.softmax"
eaten = REFERENCE.replace(line, "        x.device.type == 'meta' or kept()\\n" + line)
eaten += "\\nimport time\\nheld = []\\ndef kept():\\n    held.append(torch.ones(1 << 25)); time.sleep(0.02)\\n"
task = small_task(eaten if sys.argv[1] == "reference" else REFERENCE)
candidate = module(EATS if sys.argv[1] == "candidate" else "pass")
executor = LocalExecutor(detect_cpu(), limits=Limits(time_s=2.0), cache=Path({cache!r}))
try:
    measured = executor.measure(task, candidate, executor.compile(task, candidate))
    print(measured.status, measured.log)
except Exception as e:
    print(type(e).__name__, e)
finally:
    executor.close()
"""


@pytest.fixture
def small_group() -> Iterator[Path]:
    """A control group of 2.5 GB."""
    own = next((line for line in Path("/proc/self/cgroup").read_text().splitlines() if ":memory:" in line), "")
    group = Path("/sys/fs/cgroup/memory") / own.rpartition(":")[2].strip("/") / f"forewarp-{os.getpid()}"
    try:
        group.mkdir()
        (group / "memory.limit_in_bytes").write_text(str(2500 * MB))
    except OSError:
        pytest.skip("needs the right to make a control group of memory (version 1)")
    yield group
    group.rmdir()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("who", "words"),
    [
        ("candidate", "out_of_memory the candidate took"),
        ("reference", "the candidate is not to blame: the reference took"),
    ],
)
def test_the_kernel_need_not_end_anything(small_group: Path, tmp_path: Path, who: str, words: str) -> None:
    code = MEASURES.format(tests=str(Path(__file__).parents[1]), cache=str(tmp_path))
    enter = f'echo $$ > {small_group}/cgroup.procs && exec {sys.executable} -c "$0" {who}'
    done = subprocess.run(["bash", "-c", enter, code], capture_output=True, text=True, timeout=120, check=False)
    assert words in done.stdout, done.stdout + done.stderr
    assert "when this machine had" in done.stdout
    assert "oom_kill 0" in (small_group / "memory.oom_control").read_text()


CHILDREN = """
import os, subprocess, sys, time
held = b"x" * (200 << 20)
def fork():
    if os.fork() == 0:
        time.sleep(60)
print("ready", flush=True)
sys.stdin.readline()
program = "held = b'x' * (100 << 20); print('holds', flush=True); import time; time.sleep(60)"
start = lambda: subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE).stdout.readline()
for _ in range(4):
    start() if sys.argv[1] == "programs" else fork()
print("ready", flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize(("what", "status"), [("programs", "out_of_memory"), ("forks", None)])
def test_only_what_is_shared_is_not_counted(what: str, status: str | None) -> None:
    command, pipe = [sys.executable, "-c", CHILDREN, what], subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, start_new_session=True) as parent:
        assert parent.stdin is not None
        assert parent.stdout is not None
        parent.stdout.readline()
        watch = Watch(parent.pid, 250 * MB, keep=_children())
        parent.stdin.write(b"go\n")
        parent.stdin.flush()
        parent.stdout.readline()
        time.sleep(0.6)  # until it looks at all of them again
        found = watch.violation()
        os.killpg(parent.pid, signal.SIGKILL)
    assert (found and found[0]) == status


def _children() -> list[int]:
    me = os.getpid()
    return [p.pid for p in processes().values() if p.parent == me]
