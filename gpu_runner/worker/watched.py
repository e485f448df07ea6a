"""Run a function in a process namespace of its own, under a watch: for compiling, where a source's own code may run."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import traceback
from collections.abc import Callable

from forewarp.gpu_runner.worker import privileges, protections, watch
from forewarp.gpu_runner.worker.host_watch import HostWatch

_LOOK_S = 0.05
_HOST_LOOK_S = 0.1
"""Where only the machine's memory is looked at, while something is timed."""


def run_watched(
    work: Callable[[bool], None], memory: int | None, *, passes_on: bool = True, host: HostWatch | None = None
) -> tuple[str, str] | None:
    """Fork, do `work`, and wait for it; return status and log if it took too much and was stopped, else None.

    `work` is told whether it is the first of a process namespace, whose processes then are all that its /proc shows.
    If it fails, so does this process, in the same way: with its exit status, or by its signal; or the return value
    tells so, without `passes_on`. `memory` bounds the resident bytes of it and all it starts; with None it is not
    looked at, because that takes processor time. `host` stops it where the machine's memory runs low.
    """
    privileges.adopt_orphans()
    pid = _fork(work, wanted=True) or _fork(work, wanted=False)
    ended, complaint = os.pidfd_open(pid), None
    watching = None
    if memory is not None:
        watch.go_first()
        watching = watch.Watch(pid, memory)
    every_s = _LOOK_S if memory is not None else _HOST_LOOK_S if host is not None else None
    while complaint is None and not select.select([ended], [], [], every_s)[0]:
        complaint = (watching and watching.complaint()) or (host and host.complaint(pid)) or None
    watch.end([pid])
    _, code = os.waitpid(pid, 0)
    os.close(ended)
    watch.end_strays(())
    if complaint is None and code != 0:
        status = os.waitstatus_to_exitcode(code)
        if passes_on:
            _end_as(status)
        return "crashed", f"was ended by {signal.Signals(-status).name}" if status < 0 else f"left with status {status}"
    return complaint


def _fork(work: Callable[[bool], None], *, wanted: bool) -> int:
    """Fork into a process namespace if that is `wanted`, and to be had; return 0 where its /proc is not to be had."""
    ready, telling = os.pipe()
    with privileges.children_in_own_pid_namespace(wanted=wanted) as contained:
        pid = os.fork()
        if pid == 0:
            os.close(ready)
            _run(work, contained, telling)
    os.close(telling)
    with os.fdopen(ready, "rb") as told:
        begun = told.read(1)
    if begun or not contained:
        return pid
    os.waitpid(pid, 0)
    return 0


def _run(work: Callable[[bool], None], contained: bool, telling: int) -> None:
    status = 1
    try:
        protections.die_with_parent()
        if contained:
            # With the /proc of another namespace, what it reads there of its children would be about others.
            privileges.own_view_of_processes()
        os.write(telling, b"1")
        os.close(telling)
        work(contained)
        status = 0
    except BaseException:  # the last line of a process: say why on the log, then go
        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)


def _end_as(status: int) -> None:
    if status < 0:
        with contextlib.suppress(OSError, ValueError):
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    os._exit(status)
