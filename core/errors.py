"""Errors of forewarp itself. A kernel that fails is no error: it is a `Measurement` with a status.

ForewarpError
├── UsageError            the request cannot be carried out as given
│   ├── TaskError         no such task, or its file does not load
│   ├── CandidateError    the candidate's text or launch plan is malformed
│   │   └── PlanMissingError  it has no launch plan
│   ├── ModelError        no such model, no key, or the provider refused
│   └── UnprotectedError  the machine cannot confine code of strangers
├── DeviceError           no device, compiler or library for what was asked
├── WorkerError           the measuring process could not be started or was lost
└── ArchiveError          the archive cannot be opened, read or written
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from forewarp.core.values import Candidate


class ForewarpError(Exception):
    """Root of all errors raised on purpose; `retryable` where the same call may succeed later."""

    code = "internal"
    retryable = False

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n{self.hint}" if self.hint else self.message


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return "did you mean …? " with the known name that is most like a mistyped one, "" where none is."""
    near = get_close_matches(name, known, 1)
    return f"did you mean {near[0]}? " if near else ""


class UsageError(ForewarpError):
    """The request cannot be carried out as given."""

    code = "usage"


class TaskError(UsageError):
    """No such task, or its file does not load."""

    code = "task"


class CandidateError(UsageError):
    """The candidate's text or launch plan is malformed."""

    code = "candidate"


class PlanMissingError(CandidateError):
    """The candidate has no launch plan; where its task is known, one is proposed."""

    def __init__(self, message: str, candidate: Candidate, *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.candidate = candidate


class ModelError(UsageError):
    """No such model, no key for it, or the provider refused the call."""

    code = "model"


class UnprotectedError(UsageError):
    """The machine cannot confine code of strangers, and the user did not insist on running it."""

    code = "unprotected"


class DeviceError(ForewarpError):
    """No device, compiler or library for what was asked."""

    code = "device"


class WorkerError(ForewarpError):
    """The measuring process could not be started or was lost; it held devices for `lost_s` seconds at most."""

    code = "worker"
    retryable = True

    def __init__(self, message: str, *, hint: str = "", lost_s: float = 0.0) -> None:
        super().__init__(message, hint=hint)
        self.lost_s = lost_s


class ArchiveError(ForewarpError):
    """The archive cannot be opened, read or written."""

    code = "archive"


_NO_MEMORY = ("MemoryError", "OutOfMemoryError", "ran out of memory", "can't allocate memory", "std::bad_alloc")


def tells_of_memory(message: str) -> bool:
    """Return whether an error of other code, such as torch's or C++'s, says that memory ran out."""
    return any(sign in message for sign in _NO_MEMORY)
