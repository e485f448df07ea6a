"""A folder of results on the disk, each in a folder of its own that appears whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import tempfile
from collections.abc import Generator
from pathlib import Path

from forewarp.core.errors import WorkerError

_ROOM = 1 << 20
"""Bytes that must be free for a failure to be the candidate's fault."""


class Shelf:
    """Safe to use from several threads and processes."""

    def __init__(self, folder: Path, what: str) -> None:
        """`what` is kept here, in the plural, as an error names it; the folder is made when it is needed."""
        self.folder, self._what = folder, what

    @contextlib.contextmanager
    def scratch(self, prefix: str) -> Generator[Path]:
        """Give a folder to write to, gone afterwards unless it was kept; what the disk refuses raises `WorkerError`."""
        scratch: Path | None = None
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            scratch = Path(tempfile.mkdtemp(prefix=prefix, dir=self.folder))
            yield scratch
        except OSError as e:
            raise WorkerError(
                f"{self._what} cannot be kept under {self.folder}: {e.strerror or e}",
                hint="free some space, or set FOREWARP_CACHE to another folder",
            ) from None
        finally:
            if scratch:
                shutil.rmtree(scratch, ignore_errors=True)

    def keep(self, scratch: Path, name: str) -> None:
        """Keep a scratch folder, without its `cache`, under a name; what has the name already stays instead."""
        folder = self.folder / name
        shutil.rmtree(scratch / "cache", ignore_errors=True)
        scratch.chmod(0o755)  # a cell may run as another user
        if folder.exists():
            return
        try:
            scratch.rename(folder)
        except OSError:
            # Another process was first; the system then says that the folder is not empty.
            if not folder.exists():
                raise


def need_room(scratch: Path) -> None:
    """Raise `OSError` where a disk is so full that nothing could have been written to it."""
    if shutil.disk_usage(scratch).free < _ROOM:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
