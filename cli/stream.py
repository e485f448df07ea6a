"""`--events`: what a run does, as one JSON object per line, for another program to follow."""

from __future__ import annotations

import json
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from forewarp.cli import printing
from forewarp.core.errors import UsageError

if TYPE_CHECKING:
    from forewarp.archive.store import Archive

STDOUT = "-"
_BEGINNING = b'{"seq":'


def check(target: str | None) -> None:
    """Raise `UsageError` if events could not be written to `target`, before anything is begun."""
    if target is None or target == STDOUT:
        return
    if target.startswith("-"):
        raise UsageError(f"--events is followed by {target}", hint="name a file after it, or - for stdout")
    path = Path(target).expanduser()
    if path.is_dir():
        raise UsageError(f"--events {target} is a folder", hint=f"name a file in it, such as {path / 'events.jsonl'}")
    if not path.parent.is_dir():
        raise UsageError(
            f"--events {target}: there is no folder {path.parent}", hint=f"make it first: mkdir -p {path.parent}"
        )
    if path.exists():
        _last_number(path, "")


class EventStream:
    """Writes a run's events as the archive has them: `seq`, `time`, `type` and the event's own fields."""

    def __init__(self, archive: Archive, run: str, target: str) -> None:
        """A file continues after the last of the run's events in it; standard output begins with what is new."""
        self._archive, self._run, self._target = archive, run, target
        if target == STDOUT:
            self._file = None
            self._after = max((row.seq for row in archive.events(run)), default=0)
            return
        path = Path(target).expanduser()
        with _explained(target):
            self._after = _last_number(path, run) if path.exists() else 0
            self._file = path.open("a", encoding="utf-8")

    def catch_up(self) -> None:
        """Write every event since the last call, each line flushed; raises `UsageError` if the file takes no more."""
        for row in self._archive.events(self._run, self._after):
            fields = {"seq": row.seq, "time": row.time, "type": row.type, **row.data}
            if self._file is None:
                printing.json_line(fields)
            else:
                with _explained(self._target):
                    self._file.write(json.dumps(fields, ensure_ascii=False, separators=(",", ":")) + "\n")
                    self._file.flush()
            self._after = row.seq

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()


@contextmanager
def streamed(archive: Archive, run: str, target: str | None) -> Generator[EventStream | None]:
    """Open the stream that was asked for, None where none was."""
    if target is None:
        yield None
        return
    stream = EventStream(archive, run, target)
    try:
        yield stream
    finally:
        stream.close()


def on_terminal(target: str | None) -> bool:
    """Return whether the events go to the terminal that a live view would be drawn on."""
    return target == STDOUT and sys.stdout.isatty()


def _last_number(path: Path, run: str) -> int:
    """Return the number of the run's last event in the file, 0 for none; cuts off a line that a kill left half written.

    Raises `UsageError` for a file that holds something else, which must not be written to.
    """
    last = 0
    with _explained(str(path)), path.open("r+b") as file:
        whole = 0
        for line in file:
            if not line.endswith(b"\n") and line.startswith(_BEGINNING[: len(line)]):
                file.truncate(whole)
                break
            whole += len(line)
            try:
                found = json.loads(line)
                if found["run"] == run:
                    last = max(last, int(found["seq"]))
            except (ValueError, KeyError, TypeError):
                raise UsageError(f"--events {path} holds something else than events", hint="name a new file") from None
    return last


@contextmanager
def _explained(target: str) -> Generator[None]:
    try:
        yield
    except OSError as e:
        raise UsageError(
            f"--events {target} cannot be written: {e.strerror}",
            hint="nothing of the run is lost: `forewarp resume RUN --events FILE` goes on and adds what is missing",
        ) from None
