"""Whose fault it is that a measurement's process gave no answer, where it is not the candidate's."""

from __future__ import annotations

import signal

from forewarp.core.errors import TaskError, WorkerError
from forewarp.gpu_runner.executors.builds import ending
from forewarp.gpu_runner.executors.client import Reply

REFERENCE_SHARE = 0.5
"""Of the time that a measurement may take: beyond it the reference is to blame if that does not suffice."""


def short_of_memory(log: str, *, lost_s: float = 0.0) -> WorkerError:
    """Return the error of a job that was stopped because other programs took the machine's memory."""
    return WorkerError(
        f"{log}; neither task nor candidate is to blame, and nothing is recorded",
        hint="end other programs or wait for them, then run the command again",
        lost_s=lost_s,
    )


def excuse(reply: Reply, limit_s: float, task: str, *, launched: bool) -> None:
    """Raise `TaskError` or `WorkerError` where a measurement of `task` gave no answer for no fault of the candidate's.

    `launched` says that the process ran the candidate's device code, but no host code of it.
    """
    noted, killed = reply.activity, reply.exit_status == -signal.SIGKILL
    if reply.timed_out:
        if noted.reference_s > REFERENCE_SHARE * limit_s:
            raise TaskError(
                f"the reference of {task} took {noted.reference_s:.0f} of the {limit_s:.0f} s that a measurement may "
                "take; the candidate is not to blame",
                hint="run the reference alone: if it ends, give the task smaller workloads",
            )
        return
    how = ending(reply, limit_s)[1]
    if killed and (launched or noted.out_of_reach):
        raise WorkerError(
            "the process that measures was killed by something else than forewarp; the candidate is not to blame, and "
            "nothing is recorded of it",
            hint="run the command again; if it happens again, look whether this machine runs out of memory (`dmesg`)",
            lost_s=reply.seconds,
        )
    if noted.in_reference:
        raise TaskError(
            f"the reference of {task} ended the process that runs it; the candidate is not to blame: {how}",
            hint="run the reference alone on this device first",
        )
    if noted.out_of_reach:
        raise WorkerError(
            f"the process that measures ended early; the candidate is not to blame: {how}",
            hint="this is a bug of forewarp, or of torch on this machine; `forewarp doctor` says more",
            lost_s=reply.seconds,
        )
