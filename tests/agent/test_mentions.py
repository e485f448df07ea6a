from __future__ import annotations

from pathlib import Path

import pytest

from forewarp.agent.files import MOST_OF_ONE, with_mentioned_files
from forewarp.core.errors import UsageError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    found = tmp_path / "work"
    (found / "sub").mkdir(parents=True)
    (found / "a.cpp").write_text("int a;\n")
    (found / "sub" / "b c.txt").write_text("bee")
    (tmp_path / "secret.txt").write_text("hidden")
    return found


def test_the_files_named_follow_the_text_once(folder: Path) -> None:
    said = with_mentioned_files('Merge @a.cpp, @"sub/b c.txt" and (@a.cpp).', folder)
    assert said.startswith('Merge @a.cpp, @"sub/b c.txt" and (@a.cpp).\n\n<file path="a.cpp">\nint a;\n</file>')
    assert said.count("int a;") == 1
    assert '<file path="sub/b c.txt">\nbee\n</file>' in said


@pytest.mark.parametrize("text", ["decorate it with @triton.jit", "write to me@a.cpp", "@ home", "@torch.compile!"])
def test_what_names_no_file_is_left_alone(folder: Path, text: str) -> None:
    assert with_mentioned_files(text, folder) == text


@pytest.mark.parametrize(
    ("mention", "says"),
    [
        ("@gone.cpp", "is not there"),
        ("@sub/gone", "is not there"),
        ('@"sub"', "is a folder"),
        ("@../secret.txt", "outside of the working folder"),
        ("@link.txt", "outside of the working folder"),
        ("@large.txt", "more than"),
        ("@blob.py", "is no text"),
    ],
)
def test_what_cannot_be_read_is_an_error(folder: Path, mention: str, says: str) -> None:
    (folder / "link.txt").symlink_to(folder.parent / "secret.txt")
    (folder / "large.txt").write_text("x" * (MOST_OF_ONE + 1))
    (folder / "blob.py").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match=says) as caught:
        with_mentioned_files(f"look at {mention} please", folder)
    assert caught.value.hint


def test_many_files_are_too_much(folder: Path) -> None:
    for n in range(4):
        (folder / f"{n}.txt").write_text("x" * (MOST_OF_ONE - 1))
    with pytest.raises(UsageError, match="the files named"):
        with_mentioned_files("@0.txt @1.txt @2.txt @3.txt", folder)
