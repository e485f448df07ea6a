"""What a confined process can still do, tried from inside; and that the filter's numbers are the kernel's."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import re
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from forewarp.gpu_runner.worker import environment, linux, protections, toolchain
from forewarp.gpu_runner.worker.least import INSIST, Unprotected
from forewarp.gpu_runner.worker.protections import MOST_OPEN, Confinement
from forewarp.gpu_runner.worker.watch import run_watched

HEADERS = {
    0: Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
    1: Path("/usr/include/asm-generic/unistd.h"),
}


def inside(
    act: Callable[[], object], tmp_path: Path, *, contained: bool = True, **how: object
) -> tuple[str, list[str]]:
    """Confine a forked child, let it act, and return what came of it with the protections in force."""
    reading, writing = os.pipe()
    folder = tmp_path / "own"
    folder.mkdir()
    tmp_path.chmod(0o755)
    with linux.children_in_own_pid_namespace(wanted=contained) as contained:
        pid = os.fork()
        if pid == 0:
            try:
                keep = {"keep": (writing,), "memory": 1 << 30, "own_processes": contained, "folder_bytes": 1 << 20}
                in_force = protections.take(Confinement(str(folder), **(keep | how)))  # type: ignore[arg-type]
                try:
                    said = str(act())
                except OSError as e:
                    said = errno.errorcode[e.errno or 0]
                os.write(writing, f"{said}\n{','.join(in_force)}".encode())
            finally:
                os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as told:
        said, _, names = told.read().partition("\n")
    os.waitpid(pid, 0)
    return said, names.split(",")


def call(number: int, *arguments: int) -> Callable[[], int]:
    def act() -> int:
        libc = ctypes.CDLL(None, use_errno=True)
        result: int = libc.syscall(number, *arguments)
        if result < 0:
            raise OSError(ctypes.get_errno(), "refused")
        return result

    return act


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="numbers of x86-64")
@pytest.mark.parametrize(
    ("number", "arguments"),
    [
        *((101, (0, 0, 0, 0)), (319, (0, 0)), (272, (0x10000000,)), (425, (1, 0)), (157, (1, 0))),
        *((298, (0, 0, -1, -1, 0)), (68, (0x1234, 0o1600)), (64, (0x1234, 1, 0o1600))),
        (447, (0,)),
    ],
    ids=[
        *("ptrace", "memfd_create", "unshare", "io_uring_setup", "no more death with the parent", "perf_event_open"),
        *("a queue for other processes", "semaphores for other processes", "memory that no limit counts"),
    ],
)
def test_calls_are_refused(tmp_path: Path, number: int, arguments: tuple[int, ...]) -> None:
    said, in_force = inside(call(number, *arguments), tmp_path)
    if "system calls filtered" not in in_force:
        pytest.skip("seccomp is not to be had here")
    assert said == "EPERM"


def test_few_sockets_can_hold_memory_that_no_limit_counts(tmp_path: Path) -> None:
    def act() -> int:
        import resource

        return resource.getrlimit(resource.RLIMIT_NOFILE)[1]

    said, _ = inside(act, tmp_path)
    assert int(said) <= MOST_OPEN


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="numbers of x86-64")
def test_limits_and_priorities_of_a_named_process_are_refused_and_its_own_are_not(tmp_path: Path) -> None:
    def act() -> list[str]:
        me, said = os.getpid(), list[str]()
        calls = [(302, (who, 7, 0, 0)) for who in (me, 0)] + [(141, (0, who, 19)) for who in (me, 0)]
        for number, arguments in (*calls, (141, (os.PRIO_PGRP, 0, 19)), (142, (me, 0)), (251, (1, 0, 0))):
            try:
                said.append(str(call(number, *arguments)()))
            except OSError as e:
                said.append(errno.errorcode[e.errno or 0])
        return said

    said, in_force = inside(act, tmp_path)
    if "system calls filtered" not in in_force:
        pytest.skip("seccomp is not to be had here")
    assert said == str(["EPERM", "0", "EPERM", "0", "EPERM", "EPERM", "EPERM"])


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="numbers of x86-64")
@pytest.mark.parametrize(
    ("number", "arguments"),
    [(222, (1, 0, 0)), (72, (0, 10, signal.SIGCONT)), (244, (0, 0))],
    ids=["timer_create", "a signal of its own choice when a file is ready", "mq_notify"],
)
def test_nothing_wakes_what_was_stopped(tmp_path: Path, number: int, arguments: tuple[int, ...]) -> None:
    said, in_force = inside(call(number, *arguments), tmp_path, stoppable=True)
    if "system calls filtered" not in in_force:
        pytest.skip("seccomp is not to be had here")
    assert said == "EPERM"


@pytest.mark.parametrize("apart", [{"start_new_session": True}, {"process_group": 0}], ids=["session", "group"])
def test_what_it_starts_stays_in_its_group(tmp_path: Path, apart: dict[str, Any]) -> None:
    def act() -> int:
        import subprocess

        command = [sys.executable, "-c", "import os; print(os.getpgrp())"]
        return int(subprocess.run(command, capture_output=True, text=True, check=True, **apart).stdout) - os.getpgrp()

    said, in_force = inside(act, tmp_path, stoppable=True)
    if "system calls filtered" not in in_force:
        pytest.skip("seccomp is not to be had here")
    assert said == "0"


def test_threads_and_processes_still_start(tmp_path: Path) -> None:
    def act() -> str:
        import subprocess
        import threading

        heard: list[str] = []
        thread = threading.Thread(target=heard.append, args=("thread",))
        thread.start()
        thread.join()
        return heard[0] + subprocess.run(["echo", " and process"], capture_output=True, text=True, check=True).stdout

    assert inside(act, tmp_path)[0] == "thread and process"


def test_only_the_own_folder_is_writable(tmp_path: Path) -> None:
    own, other = tmp_path / "own" / "file", tmp_path / "other"

    def act() -> str:
        own.write_text("mine")
        try:
            other.write_text("not mine")
        except OSError:
            return own.read_text()
        return "wrote outside"

    said, in_force = inside(act, tmp_path)
    if "read-only files" not in in_force:
        pytest.skip("Landlock is not to be had here")
    assert said == "mine"


def test_only_what_is_named_is_readable(tmp_path: Path) -> None:
    private, public = tmp_path / "private", tmp_path / "public"
    for folder in (private, public):
        folder.mkdir()
        (folder / "file").write_text(folder.name)

    def act() -> str:
        seen = (public / "file").read_text()
        for path in (private / "file", Path("/etc/passwd"), Path(f"/proc/{os.getppid()}/environ")):
            with contextlib.suppress(OSError):
                seen += path.read_text()
        return seen

    said, in_force = inside(act, tmp_path, reads_only=(*toolchain.readable("cpu"), str(public)))
    if "read-only files" not in in_force:
        pytest.skip("Landlock is not to be had here")
    assert said == "public"
    assert "no private files" in in_force


@pytest.mark.parametrize("user", [True, False], ids=["nobody", "its own user"])
def test_other_files_do_not_exist_where_that_is_listed(tmp_path: Path, user: bool) -> None:
    private, shown, link = tmp_path / "private", tmp_path / "shown", tmp_path / "link"
    private.mkdir()
    shown.mkdir()
    (shown / "file").write_text("through a link")
    link.symlink_to(shown)

    def act() -> str:
        there = [p for p in ("/etc/passwd", "/home", "/.old", str(private)) if os.path.lexists(p)]
        return f"{there} {(link / 'file').read_text()}"

    said, in_force = inside(act, tmp_path, drop_user=user, reads_only=(*toolchain.readable("cpu"), str(link)))
    if "other files do not exist" not in in_force:
        pytest.skip("mounting is not allowed here")
    assert said == "[] through a link"


def test_files_that_are_hidden_early_stay_hidden_from_what_is_forked(tmp_path: Path) -> None:
    """Without superuser rights the judge hides files once, before it forks its cells."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            protections.hide_files(str(tmp_path), [])
            protections.keep_signals_inside()
            with linux.children_in_own_pid_namespace(wanted=True):
                status = int(os.path.lexists("/etc/passwd")) * 2
        finally:
            os._exit(status)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if status == 2:
        pytest.skip("mounting is not allowed here")
    assert status == 0


def test_where_the_kernel_is_gvisors_a_watched_process_runs_and_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def leave(_: bool) -> None:
        os._exit(3)

    def not_there(*_: object) -> int:
        raise OSError(errno.ENOSYS, "no such call")

    monkeypatch.setattr(os, "pidfd_open", not_there)

    def refused(*_: object) -> int:
        return -1

    monkeypatch.setattr(linux.libc, "setns", refused)
    told = tmp_path / "told"
    pid = os.fork()  # it becomes the parent of orphans, and may be left in another process namespace
    if pid == 0:
        found = run_watched(lambda contained: void(told.write_text(str(contained))), 1 << 30, passes_on=False)
        failed = run_watched(leave, 1 << 30, passes_on=False)
        os._exit(0 if (found, failed) == (None, ("crashed", "left with exit status 3")) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert told.read_text() == "False"


def void(_: object) -> None:
    """Let an expression stand where nothing is to be returned."""


def test_python_still_finds_its_packages(tmp_path: Path) -> None:
    def act() -> str:
        import sqlite3

        from torch.fx.experimental import symbolic_shapes  # imported by nothing so far

        return f"{sqlite3.__name__} {symbolic_shapes.__name__.rpartition('.')[2]}"

    # A torch that is built for CUDA takes more than the usual gigabyte.
    given = {"memory": 8 << 30, "reads_only": toolchain.readable("cpu")}
    assert inside(act, tmp_path, **given)[0] == "sqlite3 symbolic_shapes"


@pytest.mark.parametrize(
    ("how", "missing"),
    [
        ({"reads_only": ("/etc", "/proc", "/usr")}, "no private files"),
        ({"files": ("/",)}, "read-only files"),
        ({"folder_bytes": 0, "own_processes": False}, "private temporary files"),
    ],
    ids=["private files can be read", "files can be written", "nothing is mounted"],
)
def test_what_does_not_hold_is_not_listed(tmp_path: Path, how: dict[str, Any], missing: str) -> None:
    assert missing not in inside(lambda: "", tmp_path, **how)[1]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_a_capability_that_is_kept_is_not_called_gone(tmp_path: Path) -> None:
    hidden = tmp_path / "hidden" / "deeper"
    hidden.mkdir(parents=True)
    hidden.parent.chmod(0o700)
    held, in_force = inside(lambda: _effective(), tmp_path, reads=(str(hidden),))
    assert int(held, 16) != 0
    assert "user nobody" in in_force
    assert "no capabilities" not in in_force


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_what_nobody_starts_reads_what_nobody_could(tmp_path: Path) -> None:
    hidden = tmp_path / "hidden" / "deeper"
    hidden.mkdir(parents=True)
    hidden.parent.chmod(0o700)

    def confine_again() -> str:
        protections.take(protections.Confinement(str(tmp_path), drop_user=False, cautious=False))
        return ",".join(os.listdir(hidden.parent))

    assert inside(confine_again, tmp_path, reads=(str(hidden),))[0] == "deeper"


def test_where_all_capabilities_are_gone_that_is_listed(tmp_path: Path) -> None:
    held, in_force = inside(lambda: _effective(), tmp_path, drop_user=False)
    assert int(held, 16) == 0
    assert "no capabilities" in in_force


def _effective() -> str:
    return Path("/proc/self/status").read_text().partition("CapEff:")[2].split()[0]


def test_it_may_be_asked_for_again_to_die_with_the_parent(tmp_path: Path) -> None:
    again = call(157 if os.uname().machine == "x86_64" else 167, 1, 9)
    assert inside(again, tmp_path)[0] == "0"


def test_what_was_started_before_can_be_stopped_if_that_is_wanted(tmp_path: Path) -> None:
    for signals, expected in ((True, "None"), (False, "EPERM")):
        pid = os.fork()
        if pid == 0:
            signal.pause()
            os._exit(0)

        def stop(pid: int = pid) -> object:
            return os.kill(pid, signal.SIGSTOP)

        try:
            folder = tmp_path / str(signals)
            folder.mkdir()
            how = {"drop_user": False, "own_processes": False, "folder_bytes": 0}
            said, in_force = inside(stop, folder, contained=False, signals=signals, **how)
            assert "read-only files" in in_force
            assert said == expected
        finally:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def _cannot_signal(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    return False


def test_what_keeps_its_signals_inside_may_still_move_files_between_folders(tmp_path: Path) -> None:
    """As Triton and Inductor do with what they have compiled."""
    made = tmp_path / "new" / "made"
    made.parent.mkdir()
    made.touch()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            protections.keep_signals_inside()
            linux.restrict_files([str(tmp_path)])
            os.replace(made, tmp_path / "made")
            status = 0 if _cannot_signal(os.getppid()) else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert (tmp_path / "made").exists()


def test_no_other_process_is_seen(tmp_path: Path) -> None:
    said, in_force = inside(lambda: [d for d in os.listdir("/proc") if d.isdigit()], tmp_path)
    if "private temporary files" not in in_force:
        pytest.skip("mounting is not allowed here")
    assert said == "['1']"


def test_only_harmless_variables_pass() -> None:
    passed = environment.allowed(
        {"PATH": "p", "ANTHROPIC_API_KEY": "k", "CUDA_VISIBLE_DEVICES": "0", "TRITON_TOKEN": "t", "AWS_PROFILE": "a"}
    )
    assert passed == {"PATH": "p", "CUDA_VISIBLE_DEVICES": "0"}


def test_a_secret_that_is_in_memory_is_not_hidden_by_forgetting_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_SECRET", "s")
    started = Path("/proc/self/environ").read_text().split("\0")
    unsafe = set(environment.allowed(dict.fromkeys((e.partition("=")[0] for e in started if e), "")))
    if {e.partition("=")[0] for e in started if e} == unsafe:
        pytest.skip("this process was started without any other variable")
    pid = os.fork()
    if pid == 0:
        try:
            environment.scrub()
        except OSError:
            os._exit(int("SOME_SECRET" in os.environ))
        os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_the_filter_is_refused_for_an_unknown_machine() -> None:
    with pytest.raises(OSError, match="riscv64"):
        linux.filter_program("riscv64", count_memory=True)


@pytest.mark.parametrize("column", HEADERS)
def test_numbers_are_the_kernels(column: int) -> None:
    if not HEADERS[column].exists():
        pytest.skip("needs the kernel's headers")
    known = dict(re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", HEADERS[column].read_text()))
    source = Path(linux.__file__).read_text()
    ours = re.findall(r'"(\w+)": \((-?\d+), (-?\d+)\)', source)
    assert len(ours) > 40
    for name, *numbers in ours:
        if numbers[column] != "-1":
            assert known.get(name) == numbers[column], name


def test_a_process_that_is_not_protected_enough_ends_before_it_does_anything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(INSIST, raising=False)
    pid = os.fork()
    if pid == 0:
        try:
            protections.confine(Confinement(str(tmp_path), files=("/",), drop_user=False, memory=1 << 40))
        except Unprotected:
            os._exit(3)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 3


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6, socket.AF_UNIX])
def test_no_socket_is_made(tmp_path: Path, family: socket.AddressFamily) -> None:
    said, in_force = inside(lambda: socket.socket(family, socket.SOCK_STREAM).fileno(), tmp_path)
    if "system calls filtered" not in in_force:
        pytest.skip("seccomp is not to be had here")
    assert said == "EPERM"
    assert {"no network", "no local sockets"} <= set(in_force)


def test_signals_and_memory_of_others_are_refused_or_not_listed(tmp_path: Path) -> None:
    names = {"no signals to other processes", "no memory of other processes"}
    assert names <= set(inside(lambda: "", tmp_path, contained=False, own_processes=False, folder_bytes=0)[1])
    other = tmp_path / "other"
    other.mkdir()
    how = {"drop_user": False, "own_processes": False, "folder_bytes": 0, "signals": True}
    in_force = inside(lambda: "", other, contained=False, **how)[1]
    assert "no signals to other processes" not in in_force


def test_a_cache_within_the_own_folder_is_not_taken_for_another_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "own" / "cache"
    monkeypatch.setattr("tempfile.tempdir", str(cache))
    in_force = inside(lambda: "", tmp_path, drop_user=False, own_processes=False, contained=False, folder_bytes=0)[1]
    assert "read-only files" in in_force


def test_packages_that_are_linked_file_by_file_can_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept, linked = tmp_path / "store" / "a1b2" / "numpy", tmp_path / "site" / "numpy"
    kept.mkdir(parents=True)
    linked.mkdir(parents=True)
    (kept / "__init__.py").touch()
    (linked / "__init__.py").symlink_to(kept / "__init__.py")
    monkeypatch.syspath_prepend(tmp_path / "site")
    assert str(tmp_path / "store") in toolchain._python()
