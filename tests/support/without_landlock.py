"""A machine without Landlock: a filter refuses its system calls to a process and all it starts.

    python without_landlock.py CACHE

Asks an executor for each verb that runs strangers' code, and prints what came of it as one JSON document.
"""

from __future__ import annotations

import ctypes
import errno
import json
import struct
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.small_tasks import cpp, small_task

from forewarp.core.errors import ForewarpError
from forewarp.gpu_runner.devices import choose
from forewarp.gpu_runner.executors.local import Limits, LocalExecutor


def refuse_landlock() -> None:
    """Answer the system calls of Landlock as an older kernel does; their numbers are the same on every machine."""
    steps = [struct.pack("<HBBI", 0x20, 0, 0, 0)]
    for number in (444, 445, 446):
        steps += [struct.pack("<HBBI", 0x15, 0, 1, number), struct.pack("<HBBI", 0x06, 0, 0, 0x50000 | errno.ENOSYS)]
    steps.append(struct.pack("<HBBI", 0x06, 0, 0, 0x7FFF0000))
    text = ctypes.create_string_buffer(b"".join(steps))
    program = ctypes.create_string_buffer(struct.pack("<HxxxxxxQ", len(steps), ctypes.addressof(text)))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(38, 1, 0, 0, 0) != 0 or libc.prctl(22, 2, program, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "no filter")


def verbs(executor: LocalExecutor) -> dict[str, Callable[[], object]]:
    """Return the verbs that run strangers' code."""
    task, kernel = small_task(), cpp()
    return {
        "validate": lambda: len(executor.validate(task)),
        "compile": lambda: executor.compile(task, cpp(BODY_TOO)).status,
        "measure": lambda: list(executor.measure(task, kernel, executor.compile(task, kernel)).protections),
        "describe": lambda: len(executor.describe(small_task("# another\n" + task.reference))),
    }


BODY_TOO = "for (int i = 0; i < rows * cols; ++i) y[i] = x[i];"


def main() -> None:
    refuse_landlock()
    executor = LocalExecutor(choose("cpu"), cache=Path(sys.argv[1]), limits=Limits(time_s=0.05, looks=(8,)))
    told: dict[str, object] = {}
    try:
        for name, verb in verbs(executor).items():
            try:
                told[name] = verb()
            except ForewarpError as e:
                told[name] = {"code": e.code, "message": e.message, "hint": e.hint}
    finally:
        executor.close()
    print(json.dumps(told))


if __name__ == "__main__":
    main()
