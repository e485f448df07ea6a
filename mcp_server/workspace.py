"""Files that a client names: only inside the workspace, and never through a link."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from forewarp.core.errors import UsageError

MAX_BYTES = 200_000
MAX_FILES = 2_000
"""Most files and folders below a folder that a client names."""


class Workspace:
    """The one folder from which clients may name files."""

    def __init__(self, root: Path) -> None:
        self.root = root.expanduser().resolve()

    def read(self, path: str, what: str = "path") -> tuple[str, Path]:
        """Return a file's text, at most `MAX_BYTES` of it, and where it is.

        No component is followed if it is a link, also not one that is put there meanwhile. Raises `UsageError`.
        """
        parts = self._parts(path, what)
        descriptor = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY)
        try:
            for number, part in enumerate(parts):
                last = number == len(parts) - 1
                flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | (0 if last else os.O_DIRECTORY)
                try:
                    found = os.open(part, flags, dir_fd=descriptor)
                except OSError as e:
                    raise self._unreadable(path, what, parts[: number + 1], e) from None
                os.close(descriptor)
                descriptor = found
            seen = os.fstat(descriptor)
            if not stat.S_ISREG(seen.st_mode):
                raise UsageError(f"{what} {path!r} is no regular file", hint="pass the path of one kernel file")
            if seen.st_size > MAX_BYTES:
                raise UsageError(
                    f"{what} {path!r} has {seen.st_size} bytes; at most {MAX_BYTES} are allowed",
                    hint="pass a file that holds one kernel and nothing else",
                )
            with os.fdopen(os.dup(descriptor), "rb") as handle:
                raw = handle.read(MAX_BYTES + 1)
        finally:
            os.close(descriptor)
        try:
            return raw.decode(), self.root.joinpath(*parts)
        except UnicodeDecodeError:
            raise UsageError(f"{what} {path!r} is not UTF-8 text", hint="pass source code, no compiled file") from None

    def locate(self, path: str, what: str = "path") -> Path:
        """Return where a file or folder of the workspace is; neither it nor what it holds may be a link."""
        parts = self._parts(path, what)
        place = self.root
        for number, part in enumerate(parts):
            place = place / part
            if place.is_symlink():
                raise self._unreadable(path, what, parts[: number + 1], None)
        if not place.exists():
            raise self._unreadable(path, what, parts, FileNotFoundError(2, "no such file"))
        for number, found in enumerate(place.rglob("*") if place.is_dir() else (place,)):
            if number == MAX_FILES:
                raise UsageError(
                    f"{what} {path!r} holds more than {MAX_FILES} files", hint="pass the folder of one task"
                )
            mode = found.lstat().st_mode
            if stat.S_ISLNK(mode):
                raise UsageError(f"{what} {path!r} holds symbolic links", hint="pass a folder without links")
            if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
                raise UsageError(
                    f"{what} {path!r}: {found.name} is no regular file", hint="pass files, no devices or pipes"
                )
        return place

    def _parts(self, path: str, what: str) -> tuple[str, ...]:
        given = Path(path)
        if ".." in given.parts or "\0" in path or not path.strip():
            raise UsageError(
                f"{what} {path!r} is refused: '..' is not allowed",
                hint=f"pass a path inside the workspace {self.root}, relative to it or absolute",
            )
        if given.is_absolute():
            if not given.is_relative_to(self.root):
                raise UsageError(
                    f"{what} {path!r} is outside the workspace {self.root}",
                    hint="pass a file inside it, or the text as source; the operator chooses it with --workspace DIR",
                )
            given = given.relative_to(self.root)
        if not given.parts:
            raise UsageError(f"{what} {path!r} is the workspace itself", hint="pass a file inside it")
        return given.parts

    def _unreadable(self, path: str, what: str, parts: tuple[str, ...], error: OSError | None) -> UsageError:
        at = self.root.joinpath(*parts)
        if at.is_symlink():
            return UsageError(
                f"{what} {path!r} goes through the symbolic link {at}; links are refused",
                hint="pass the real file inside the workspace, or the text as source",
            )
        why = error.strerror if error else "it is refused"
        return UsageError(
            f"{what} {path!r} cannot be read: {why}",
            hint=f"paths are relative to the workspace {self.root}; or pass the text as source",
        )
