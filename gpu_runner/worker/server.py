"""The fork server: a warm process with torch loaded and no device touched, which forks one child per job.

Standard input is a Unix socket to the controller. Each job arrives as one JSON line with two descriptors: one on which
the child answers, and one on which the server reports the child's pid and, at its end, its exit status. When the socket
closes, every child is killed and the server ends. With --cpu it does without Triton, which takes half a second.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import shutil
import signal
import socket
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, cast
from unittest import mock

from forewarp.gpu_runner.worker import linux, protections, requests, toolchain, watch
from forewarp.gpu_runner.worker.channel import Channel, ChannelClosed, ChannelTimeout
from forewarp.gpu_runner.worker.requests import MeasureJob, ValidateJob, WorkerJob
from forewarp.gpu_runner.worker.task_confinement import folder_of, refusing

REAP_S, IDLE_S = 0.02, 3600.0
"""How long a job is waited for: while children run, and else."""
_HERE = "forewarp.gpu_runner.worker"
_IMPORTED: Mapping[str, Sequence[str]] = {
    MeasureJob.run: (f"{_HERE}.bench_cells", f"{_HERE}.judge"),
    ValidateJob.run: (f"{_HERE}.nulls",),
}
"""Modules that children import, by the function that does a job."""

_LEAVE_DEVICE = ("2.11.", "2.12.", "2.13.")
"""Versions of torch whose Inductor, when imported, leaves a GPU alone but for one question; others are for children."""


def preload() -> None:
    """Import what every child needs. Nothing here may start a thread or touch a device: both break `fork`."""
    import torch

    torch.set_grad_enabled(False)
    for known in (toolchain.readable, toolchain.links):  # which children then need not find out again
        known("cpu")


def warm(job: WorkerJob) -> None:
    """Import and initialise once what the children need that do a kind of job; call it before each is forked."""
    home = job.run.partition(":")[0]
    for name in (*_IMPORTED.get(job.run, ()), home):
        with contextlib.suppress(ImportError):  # the child says what is missing
            importlib.import_module(name)
    if not home.startswith(_HERE):
        _wake_meta()  # what is looked at before it runs has shapes first
    if job.inductor:
        wake_inductor()
    if "--cpu" not in sys.argv and job.triton:
        wake_triton()
        _wake_meta()


@cache
def _wake_meta() -> None:
    """Run operations on tensors without values, as every task is described: the first ones load half of torch."""
    import torch

    torch.randn(2, 2, device="meta").mul(2).softmax(0)
    importlib.import_module("torch.utils.flop_counter")


@cache
def wake_inductor() -> None:
    """Import torch's Inductor, without opening a GPU; for the CPU device, try vector instructions, 14 s in all."""
    import torch

    with contextlib.suppress(Exception):  # the child says what is missing
        if "--cpu" not in sys.argv:
            if torch.__version__.startswith(_LEAVE_DEVICE):
                with mock.patch.object(torch.cuda, "is_available", return_value=True):
                    importlib.import_module("torch._inductor.compile_fx")
            return
        importlib.import_module("torch._inductor.compile_fx")
        importlib.import_module("torch._inductor.cpu_vec_isa").pick_vec_isa()  # the controller names a folder for it
        config: Any = importlib.import_module("torch._inductor.config")
        config.cpp_cache_precompile_headers = False  # their folder is the same, in which children may not write


@cache
def wake_triton() -> None:
    """Import Triton, and have it compute and build what it would in every child that compiles."""
    with contextlib.suppress(ImportError):
        import triton.compiler.code_generator  # noqa: F401  # pyright: ignore[reportUnusedImport]
    # Triton hashes its own package once per process, 0.4 s that every compiling child would pay again.
    for home in ("triton.runtime.cache", "triton.compiler.compiler"):
        with contextlib.suppress(ImportError, AttributeError):
            importlib.import_module(home).triton_key()
            break
    with contextlib.suppress(Exception):  # what a C compiler has to build once on a machine, for all that comes
        from triton.backends.nvidia import driver

        utilities: Any = driver.CudaUtils
        utilities()
        # The one object is made anew for everyone who asks for it, by a C compiler where caches are empty.
        utilities.__init__ = object.__init__
    _compile_small_kernel()


def _compile_small_kernel() -> None:
    """Compile by Triton: the first one of a process takes a third of a second, which children then do not pay."""
    with contextlib.suppress(Exception), tempfile.TemporaryDirectory() as cache:
        from triton.backends.compiler import GPUTarget
        from triton.compiler import ASTSource, compile

        from forewarp.gpu_runner.lifting.warm_kernel import add_one

        source = cast("Any", ASTSource)
        with mock.patch.dict(os.environ, {"TRITON_CACHE_DIR": cache}):  # or it might be found, and nothing be compiled
            kernel = source(add_one, {"x": "*fp32", "n": "i32", "block": "constexpr"}, {(2,): 256})
            compile(kernel, GPUTarget("cuda", 80, 32))


def entry(run: str) -> Callable[[WorkerJob, Channel], None]:
    """Return the function of a job, which may be one of a room above this one."""
    home, _, name = run.partition(":")
    return getattr(importlib.import_module(home), name)


def _child(job: WorkerJob, answer: socket.socket) -> None:
    os.setsid()
    protections.die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.set_wakeup_fd(-1)
    log = os.open(job.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    nothing = os.open("/dev/null", os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    status = 1
    try:
        line = Channel(answer)
        with refusing(line):
            entry(job.run)(job, line)
        status = 0
    except BaseException:  # the child's last line: say why on the log, then go
        import traceback

        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


class ForkServer:
    """The serving loop: accepts jobs, forks, and reports how each child ended."""

    def __init__(self, control: socket.socket) -> None:
        self.control = Channel(control)
        self.children: dict[int, socket.socket] = {}
        self.folders: dict[int, Path] = {}

    def serve(self) -> None:
        descriptors: list[int] = []
        try:
            while True:
                with contextlib.suppress(ChannelTimeout):
                    job = requests.from_document(self.control.receive(REAP_S if self.children else IDLE_S))
                    descriptors += self.control.descriptors()
                    answer, status = (socket.socket(fileno=descriptors.pop(0)) for _ in range(2))
                    self._start(job, answer, status)
                self._reap()
        except ChannelClosed:
            return
        finally:
            for pid in self.children:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(pid, signal.SIGKILL)
            watch.end_strays(())
            for folder in self.folders.values():
                shutil.rmtree(folder, ignore_errors=True)

    def _start(self, job: WorkerJob, answer: socket.socket, status: socket.socket) -> None:
        warm(job)
        pid = os.fork()
        if pid == 0:
            self.control.close()
            status.close()
            for other in self.children.values():
                other.close()
            _child(job, answer)
        answer.close()
        self.children[pid], self.folders[pid] = status, folder_of(job)
        self._report(status, {"pid": pid})

    def _reap(self) -> None:
        while self.children:
            pid, code = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            status = self.children.pop(pid, None)
            if status is None:  # an orphan that this server has adopted
                continue
            # What the child left behind goes with it: its process group, and orphans of any other.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, signal.SIGKILL)
            watch.end_strays(self.children)
            shutil.rmtree(self.folders.pop(pid), ignore_errors=True)
            self._report(status, {"exit": os.waitstatus_to_exitcode(code)})
            status.close()

    def _report(self, status: socket.socket, document: dict[str, int]) -> None:
        with contextlib.suppress(OSError):  # the controller may have stopped listening to this job
            status.sendall(json.dumps(document).encode() + b"\n")


def main() -> None:
    control = socket.socket(fileno=os.dup(0))
    preload()
    linux.adopt_orphans()
    control.sendall(b"ready\n")
    ForkServer(control).serve()


if __name__ == "__main__":
    main()
