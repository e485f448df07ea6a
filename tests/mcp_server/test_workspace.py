"""Files that clients name: inside the workspace only, and through no link."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from forewarp.core.errors import UsageError
from forewarp.mcp_server import arguments
from forewarp.mcp_server.arguments import MAX_BYTES, Workspace


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    (folder / "kernels").mkdir(parents=True)
    (folder / "kernels" / "a.cu").write_text("kernel")
    (folder / "big.cu").write_text("x" * (MAX_BYTES + 1))
    (folder / "binary.cu").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "secret").write_text("key")
    (folder / "link.cu").symlink_to(tmp_path / "secret")
    (folder / "linked").symlink_to(tmp_path)
    (folder / "inner.cu").symlink_to(folder / "kernels" / "a.cu")
    return folder


def test_reads_relative_and_absolute_paths_inside(root: Path) -> None:
    files = Workspace(root)
    for path in ("kernels/a.cu", "./kernels/a.cu", str(root / "kernels" / "a.cu")):
        text, place = files.read(path)
        assert (text, place) == ("kernel", root / "kernels" / "a.cu")
    assert files.locate("kernels") == root / "kernels"


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("../secret", "'..'"),
        ("kernels/../../secret", "'..'"),
        ("/etc/passwd", "outside the workspace"),
        ("link.cu", "symbolic link"),
        ("inner.cu", "symbolic link"),
        ("linked/secret", "symbolic link"),
        ("none.cu", "No such file"),
        ("kernels", "no regular file"),
        ("big.cu", "at most 200000"),
        ("binary.cu", "UTF-8"),
        (".", "workspace itself"),
        ("", "an empty path"),
        ("a\0b", "a zero byte"),
    ],
)
def test_refuses_the_rest_and_says_why(root: Path, path: str, why: str) -> None:
    with pytest.raises(UsageError) as refusal:
        Workspace(root).read(path)
    assert why in str(refusal.value)
    assert refusal.value.hint


@pytest.mark.parametrize("path", ["../secret", "link.cu", "linked", "linked/secret", "none", "/etc"])
def test_locates_no_task_through_a_link_or_outside(root: Path, path: str) -> None:
    with pytest.raises(UsageError):
        Workspace(root).locate(path, "task")


def test_a_task_folder_with_links_in_it_is_refused(root: Path) -> None:
    (root / "task").mkdir()
    (root / "task" / "reference.py").symlink_to(root / "kernels" / "a.cu")
    with pytest.raises(UsageError, match="symbolic links"):
        Workspace(root).locate("task", "task")


def test_pipes_are_refused_wherever_they_lie(root: Path) -> None:
    os.mkfifo(root / "pipe.cu")
    (root / "task").mkdir()
    os.mkfifo(root / "task" / "reference.py")
    with pytest.raises(UsageError, match="no regular file"):
        Workspace(root).read("pipe.cu")
    for path in ("pipe.cu", "task"):
        with pytest.raises(UsageError, match="no regular file"):
            Workspace(root).locate(path, "task")


def test_a_folder_with_thousands_of_files_is_no_task(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arguments, "MAX_FILES", 3)
    for name in "abcd":
        (root / "kernels" / name).touch()
    with pytest.raises(UsageError, match="more than 3 files"):
        Workspace(root).locate("kernels", "task")
