"""The cores that a judge and its cells use.

Where they wait without sleep, never two threads of one core; where they sleep, every thread of a cell has its own.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path


def divide() -> tuple[frozenset[int], frozenset[int]]:
    """Return the judge's cores, one physical core, and those that cells share; all for both where none is left."""
    allowed = frozenset(os.sched_getaffinity(0))
    judge = _siblings(max(allowed)) & allowed
    rest = allowed - judge
    return (judge, rest) if rest else (allowed, allowed)


def spreading() -> Callable[[], None]:
    """Return a function that binds each thread of this process to a processor of its own, as OMP_PROC_BIND does.

    Left alone, threads that wake after a stop may share one processor for the whole of a call: every fifth took twice
    as long, and not equally often for both arms. A thread that is alone is free: what it starts would have to share.
    """
    allowed = sorted(os.sched_getaffinity(0))
    first, others = allowed[0], allowed[1:]
    bound, now = dict[str, int](), [os.getpid()]

    def spread() -> None:
        nonlocal now
        if not others or _are_all(now):
            return
        threads: list[str] = []
        with contextlib.suppress(OSError):
            threads = sorted(os.listdir("/proc/self/task"), key=int)
        if len(threads) < 2:
            now = [os.getpid()]
            return
        for place, thread in enumerate(threads):
            if thread in bound:
                continue
            bound[thread] = 0
            # One may have ended since, and not every /proc tells its number.
            with contextlib.suppress(OSError, ValueError, IndexError):
                number = bound[thread] = _number(thread)
                # What a bound thread has started was born with its processor.
                if os.sched_getaffinity(number) in (set(allowed), {first}):
                    os.sched_setaffinity(number, {others[(place - 1) % len(others)] if place else first})
        now = [bound[thread] for thread in threads]

    return spread


def _are_all(numbers: Sequence[int]) -> bool:
    """Return whether these threads are there, and no others.

    Listing them would tell, too, but takes 32 KiB: glibc then joins all that the last call has freed, which took 0.4 ms
    after a backward pass, before the next call.
    """
    try:
        if len(numbers) != os.stat("/proc/self/task").st_nlink - 2:
            return False
        return all(number and os.sched_getaffinity(number) for number in numbers)
    except OSError:
        return False


def _number(thread: str) -> int:
    """Return what a thread is called here: in a process namespace of its own that is not what an outer /proc says."""
    status = Path(f"/proc/self/task/{thread}/status").read_text(errors="replace")
    return int(status.partition("NSpid:")[2].split("\n")[0].split()[-1])


def _siblings(core: int) -> frozenset[int]:
    """Return the threads of a core's physical core, as Linux tells: "0,4" or "0-1"."""
    path = Path(f"/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list")
    try:
        parts = [p.split("-") for p in path.read_text().strip().split(",")]
        return frozenset(i for p in parts for i in range(int(p[0]), int(p[-1]) + 1))
    except (OSError, ValueError):
        return frozenset({core})
