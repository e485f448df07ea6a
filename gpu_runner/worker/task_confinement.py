"""Confinement of a task's own code, which is no more trusted than a candidate's: in a folder beside the job's log."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import tempfile
from collections.abc import Callable, Collection, Generator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from forewarp.core import serde
from forewarp.core.values import DeviceKind
from forewarp.gpu_runner.worker import environment, memory, protections, toolchain
from forewarp.gpu_runner.worker.channel import MACHINE, Channel
from forewarp.gpu_runner.worker.least import UNPROTECTED, Unprotected, missing
from forewarp.gpu_runner.worker.linux import end_of
from forewarp.gpu_runner.worker.protections import Confinement
from forewarp.gpu_runner.worker.requests import TaskFailure, WorkerJob
from forewarp.gpu_runner.worker.watch import HostWatch, run_watched

FOLDER_BYTES = {"cpu": 256 << 20, "cuda": 1 << 30}
"""Most bytes in the folder of confined code, by device."""
_CPU_S = 600
"""Seconds of processor time on each core; the controller keeps the time by the clock."""
_BESIDE = 4 << 30
"""Address space beyond the memory that is free: stacks and pools of threads reserve more than they use."""
_TRIAL_S = 60.0
_TRIAL = "cuda-confinement"
"""The file beside the jobs' logs that says what the driver bears."""
_REPORT_BYTES = 64 << 20


def folder_of(job: WorkerJob) -> Path:
    """Return where a job may have a folder: beside its log. The server removes it once the job has ended."""
    return Path(job.log).with_suffix("")


def job_folder(job: WorkerJob) -> Path:
    """Return the folder of a job, made at first use: other users may pass through it, but list nothing."""
    folder = folder_of(job)
    folder.mkdir(exist_ok=True)
    folder.chmod(0o711)
    return folder


def device_of(kind: DeviceKind) -> DeviceKind:
    """Return "cuda" for code that may use a GPU which is there, else "cpu"."""
    return "cuda" if kind == "cuda" and Path("/dev/nvidiactl").exists() else "cpu"


def confine_task(
    folder: Path,
    device: str,
    *,
    contained: bool = False,
    keep: Collection[int] | None = None,
    reads: Sequence[str] = (),
    signals: bool = False,
    reserved: int = 0,
) -> list[str]:
    """Confine this process before it runs a task's code; return the protections that hold. Raises `Unprotected`.

    Call it before any thread is started and CUDA is used. `contained` says that this is the first process of a process
    namespace, `keep` and `signals` are as in `Confinement`, `reads` is what it needs beside its tools, and `reserved`
    the address space that programs which it starts take and do not use. On CUDA it keeps its user, and leaves out what
    the driver does not bear; the first call tries that in another process.
    """
    how = _confinement(folder, device, reserved, contained=contained, keep=keep, reads=reads, signals=signals)
    if needs_caution(folder, device):
        how = replace(how, cautious=True)
    os.chdir(how.folder)
    environment.use_folder(how.folder)
    in_force = protections.confine(how)
    environment.begin_script()
    return in_force


def needs_caution(folder: Path, device: str) -> bool:
    """Return whether the device's driver does not bear all that a task's code is confined by; see `driver_bears`."""
    return device == "cuda" and not driver_bears(folder, _confinement(folder, device))


def refusal(error: Unprotected) -> dict[str, Any]:
    """Return the answer of a job whose process is not protected enough; strangers' code may give it in vain."""
    return {UNPROTECTED: list(missing(error.in_force))}


@contextlib.contextmanager
def refusing(answer: Channel) -> Generator[None]:
    """Answer that what runs inside is refused if its process is not protected enough."""
    try:
        yield
    except Unprotected as e:
        answer.send(refusal(e))


def around_task(in_force: Sequence[str]) -> str:
    """Return the protections around a task's code as one entry of a measurement's."""
    return f"task's code confined: {', '.join(in_force)}"


def _confinement(folder: Path, device: str, reserved: int = 0, **more: Any) -> Confinement:
    own = folder / "task"
    own.mkdir(exist_ok=True)
    return Confinement(
        str(own),
        files=protections.device_files(device),
        memory=None if device == "cuda" else _free_memory() + _BESIDE + reserved,
        folder_bytes=FOLDER_BYTES[device],
        own_processes=more.pop("contained", False),
        drop_user=device != "cuda",
        reads_only=toolchain.readable(device),
        cpu_s=_CPU_S * (os.cpu_count() or 1),
        **more,
    )


def _free_memory() -> int:
    found = memory.host_available()
    return 1 << 62 if found is None else found


def driver_bears(folder: Path, how: Confinement) -> bool:
    """Return whether CUDA works in a process so confined; tried once, and remembered beside the jobs' folders."""
    remembered = folder.parent / _TRIAL
    with contextlib.suppress(OSError):
        return remembered.read_text() == "full"
    pid = os.fork()
    if pid == 0:
        _use_device(how)
    ended = end_of(pid)
    if not select.select([ended], [], [], _TRIAL_S)[0]:
        os.kill(pid, signal.SIGKILL)
    os.close(ended)
    works = os.waitpid(pid, 0)[1] == 0
    with contextlib.suppress(OSError):
        with tempfile.NamedTemporaryFile("w", dir=folder.parent, delete=False) as file:
            file.write("full" if works else "cautious")
        os.replace(file.name, remembered)
    return works


def _use_device(how: Confinement) -> None:
    """Confine this process, use CUDA and the library that measured programs use most, and end."""
    status = 1
    try:
        protections.take(replace(how, keep=()))
        import torch

        square = torch.ones(16, 16, device="cuda")
        status = 0 if float((square @ square).sum()) == 16.0**3 else 1
    finally:
        os._exit(status)


def run_confined(
    job: WorkerJob, kind: DeviceKind, work: Callable[[], object], reads: Sequence[str] = (), reserved: int = 0
) -> Any:
    """Have a task's code run in a confined child; return what `work` returns, as data, or `TaskFailure`."""
    folder, device = job_folder(job), device_of(kind)
    with tempfile.TemporaryFile() as report:

        def act(contained: bool) -> None:
            try:
                confine_task(
                    folder, device, contained=contained, keep={report.fileno()}, reads=reads, reserved=reserved
                )
                document = serde.to_data(work())
            except Unprotected as e:
                document = refusal(e)
            report.write(json.dumps(document).encode())
            report.flush()

        most = None if device == "cuda" else _free_memory()
        stopped = run_watched(act, most, passes_on=False, host=HostWatch())
        if stopped is not None:
            status, log = stopped
            who = "" if status == MACHINE else "it "
            return serde.to_data(TaskFailure(f"{who}{log}", status=status))
        report.seek(0)
        try:
            return json.loads(report.read(_REPORT_BYTES))
        except ValueError:
            return serde.to_data(TaskFailure("it left no result"))
