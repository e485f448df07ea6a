"""Folders in the temporary directory that are removed even if their process was killed: by the next one that starts."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Generator
from pathlib import Path

PREFIX = "forewarp-"
_LOCK = "lock"


class Scratch:
    """A folder of this process with one for temporary files; whoever makes the next removes those of dead processes."""

    def __init__(self) -> None:
        remove_abandoned()
        self._folder = tempfile.TemporaryDirectory(prefix=PREFIX, ignore_cleanup_errors=True)
        self.path = Path(self._folder.name)
        # What is confined may be another user, and passes through on its way to its job's folder.
        self.path.chmod(0o711)
        self.temporary = self.path / "tmp"
        self.temporary.mkdir()
        self.temporary.chmod(0o1777)
        made = self.path / f"{_LOCK}.new"
        self._lock = os.open(made, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        made.rename(self.path / _LOCK)  # nobody ever sees it without its lock

    def close(self) -> None:
        """Remove the folder; safe to call twice."""
        self._folder.cleanup()
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


@contextlib.contextmanager
def temporary_folder() -> Generator[Path]:
    """Give an empty folder that nobody else may enter, and that goes as a `Scratch` does."""
    scratch = Scratch()
    try:
        own = scratch.path / "own"
        own.mkdir(mode=0o700)
        yield own
    finally:
        scratch.close()


def remove_abandoned() -> None:
    """Remove the folders of this user whose process is gone."""
    with contextlib.suppress(OSError):
        for entry in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
            with contextlib.suppress(OSError):
                _remove_if_abandoned(entry)


def _remove_if_abandoned(folder: Path) -> None:
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        return
    lock = os.open(folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if os.fstat(lock).st_uid == os.geteuid():
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # raises while its process lives
            shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(lock)
