from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from forewarp.core.errors import WorkerError
from forewarp.gpu_runner.executors.artifacts import ArtifactCache


def kept(cache: ArtifactCache, text: str) -> None:
    with cache.scratch() as scratch:
        (scratch / "cache").mkdir()
        (scratch / "result").write_text(text)
        cache.keep(scratch, "key")


def test_what_is_kept_is_whole_and_what_is_not_is_gone(tmp_path: Path) -> None:
    cache = ArtifactCache(tmp_path / "a" / "b", "results")
    kept(cache, "one")
    with cache.scratch() as scratch:
        (scratch / "result").write_text("half")
    assert [p.relative_to(cache.folder).as_posix() for p in cache.folder.rglob("*")] == ["key", "key/result"]
    assert (cache.folder / "key").stat().st_mode & 0o777 == 0o755


def test_the_first_of_two_stays(tmp_path: Path) -> None:
    cache = ArtifactCache(tmp_path, "results")
    kept(cache, "one")
    kept(cache, "two")
    assert (tmp_path / "key" / "result").read_text() == "one"


def test_the_first_of_two_at_the_same_moment_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = ArtifactCache(tmp_path, "results")
    kept(cache, "one")
    looks = iter([False, True])
    # The other one is done between the look and the renaming.
    monkeypatch.setattr(Path, "exists", lambda self: next(looks))
    kept(cache, "two")
    monkeypatch.undo()
    assert (tmp_path / "key" / "result").read_text() == "one"


def test_what_the_disk_refuses_is_named_with_what_to_do(tmp_path: Path) -> None:
    with (
        pytest.raises(WorkerError, match=r"results cannot be kept under .*: No space left") as e,
        ArtifactCache(tmp_path, "results").scratch(),
    ):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert "FOREWARP_CACHE" in (e.value.hint or "")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").touch()
    with (
        pytest.raises(WorkerError, match="Not a directory"),
        ArtifactCache(tmp_path / "file" / "x", "results").scratch(),
    ):
        pass
