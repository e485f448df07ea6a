"""Files that this server tunes by forecasts: that takes half a minute and no device, and ends with the server."""

from __future__ import annotations

import secrets
import shlex
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from forewarp.core.errors import ForewarpError, UsageError
from forewarp.mcp_server.answers import POLL_S, SearchAnswer, tuned_answer
from forewarp.mcp_server.jobs import Say
from forewarp.tools.requests import TuneRequest
from forewarp.tools.tune import TuneJob, TuneResult

PREFIX = "t-"
KEPT = 32
"""Tunings that are remembered; of more, the oldest are forgotten."""
_LOOK_S = 0.1


@dataclass(slots=True)
class Tuning:
    """One file being tuned, or what came of it."""

    id: str
    session: str
    file: Path
    stage: str = "calling the file's functions"
    result: TuneResult | None = None
    error: ForewarpError | None = None
    cancelled: bool = False
    over: threading.Event = field(default_factory=threading.Event)
    job: TuneJob | None = None

    def answer(self) -> SearchAnswer:
        """Return where it stands; raises the error that it ended with."""
        if self.cancelled:
            said = "Cancelled; nothing was kept."
            return SearchAnswer(summary=said, run_id=self.id, status="cancelled", task=self.file.name)
        if self.error is not None:
            raise self.error
        if self.result is not None:
            command = f"forewarp tune {shlex.quote(str(self.file))} on the machine with the GPU"
            return tuned_answer(self.result, self.id, self.file, command)
        return SearchAnswer(
            summary=f"Not done yet ({self.stage}); call search_status with run_id {self.id}.",
            run_id=self.id,
            status="running",
            poll_after_s=POLL_S,
            task=self.file.name,
        )

    def wait(self, seconds: float, say: Say) -> None:
        """Wait for the end, at most so many seconds."""
        deadline = time.monotonic() + seconds
        while not self.over.wait(min(_LOOK_S, max(0.0, deadline - time.monotonic()))):
            say(self.stage)
            if time.monotonic() >= deadline:
                return

    def run(self) -> None:
        """Do it, in a thread of its own."""
        try:
            assert self.job is not None
            self.result = self.job.run()
        except ForewarpError as e:
            self.error = e
        except Exception as e:
            self.error = ForewarpError(f"{type(e).__name__}: {e}", hint="this is an error of forewarp, not of the file")
        finally:
            self.over.set()


class Tunes:
    """The tunings of one server; safe to use from several threads."""

    def __init__(self) -> None:
        self._known: dict[str, Tuning] = {}

    def start(self, session: str, file: Path, deadline_s: float, target: str) -> Tuning:
        """Begin to tune a file; raises `UsageError` where it cannot be read."""
        found = Tuning(f"{PREFIX}{secrets.token_hex(4)}", session, file)

        def stage(text: str) -> None:
            found.stage = text

        found.job = TuneJob(TuneRequest(file=str(file), measure=0, deadline_s=deadline_s, target=target), stage=stage)
        for old in [t for t in self._known.values() if t.over.is_set()][: max(0, len(self._known) + 1 - KEPT)]:
            del self._known[old.id]
        self._known[found.id] = found
        threading.Thread(target=found.run, name="forewarp-tune", daemon=True).start()
        return found

    def find(self, handle: str) -> Tuning:
        """Return a tuning by its handle; raises `UsageError`."""
        if (found := self._known.get(handle)) is None:
            raise UsageError(
                f"this server tunes no file under {handle!r}",
                hint="call search with the file again; a server forgets what it tuned when it ends",
            )
        return found

    def cancel(self, tuning: Tuning) -> bool:
        """End a tuning, and wait for its end; false where it was over."""
        if tuning.over.is_set():
            return False
        tuning.cancelled = True
        assert tuning.job is not None
        tuning.job.stop()
        tuning.over.wait()
        return True

    def close(self) -> None:
        """End all that goes on."""
        for tuning in list(self._known.values()):
            self.cancel(tuning)
