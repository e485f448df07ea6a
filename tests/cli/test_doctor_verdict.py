"""Doctor's verdict on what it found."""

from __future__ import annotations

from pathlib import Path

import pytest

from forewarp.cli.doctor import _ran, _verdict  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize(
    ("found", "able", "said"),
    [
        (set[str](), False, "without torch"),
        ({"torch"}, False, "neither a CUDA device nor a C++ compiler"),
        ({"torch"}, True, "neither a CUDA device nor a C++ compiler"),
        ({"torch", "C++ compiler"}, False, "cannot be confined enough"),
        ({"torch", "C++ compiler"}, True, "the CPU"),
        ({"torch", "C++ compiler", "CUDA device"}, True, "the CUDA device"),
    ],
)
def test_the_first_thing_that_is_missing_is_named(found: set[str], able: bool, said: str) -> None:
    assert said in _verdict(found, able=able)


def test_nothing_of_the_working_folder_is_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "json.py").write_text("print('shadow')")
    monkeypatch.chdir(tmp_path)
    done = _ran(None, "import json; print(json.dumps(1))")
    assert done is not None
    assert done.stdout == "1\n"
