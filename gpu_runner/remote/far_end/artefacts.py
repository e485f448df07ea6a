"""Compiled candidates as bytes: packed the same everywhere, kept and asked for by the SHA-256 of what is in them."""

from __future__ import annotations

import hashlib
import io
import tarfile
from pathlib import Path

from forewarp.core.errors import WorkerError
from forewarp.gpu_runner.executors.artifacts import ArtifactCache


def pack(folder: Path) -> bytes:
    """Return a folder's files as a tar file that depends on their names and content only."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path in sorted(p for p in folder.rglob("*") if p.is_file() and not p.is_symlink()):
            entry = tarfile.TarInfo(path.relative_to(folder).as_posix())
            data = path.read_bytes()
            entry.size, entry.mode = len(data), 0o755 if path.stat().st_mode & 0o100 else 0o644
            tar.addfile(entry, io.BytesIO(data))
    return out.getvalue()


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class Artefacts:
    """A folder of unpacked artefacts. Safe to use from several threads and processes."""

    def __init__(self, cache: Path) -> None:
        self._cache = ArtifactCache(cache / "artefacts", "compiled candidates")

    def path(self, name: str) -> Path | None:
        folder = self._cache.folder / name
        return folder if folder.is_dir() else None

    def keep(self, data: bytes) -> Path:
        """Unpack packed bytes and return their folder; raises `WorkerError` for malformed ones."""
        name = digest(data)
        folder = self._cache.folder / name
        if folder.is_dir():
            return folder
        with self._cache.scratch() as scratch:
            try:
                with tarfile.open(fileobj=io.BytesIO(data)) as tar:
                    tar.extractall(scratch, filter="data")
            except tarfile.TarError as e:
                raise WorkerError(f"a compiled candidate arrived broken: {e}") from None
            for path in scratch.rglob("*"):
                # A cell that runs as another user has to read them, whatever the umask.
                path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)
            return self._cache.keep(scratch, name)
