"""Doctor's verdict on what it found."""

from __future__ import annotations

from pathlib import Path

import pytest

from forewarp.cli.doctor import _nvml, _survey, _verdict  # pyright: ignore[reportPrivateUsage]


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


@pytest.mark.slow
def test_nothing_of_the_working_folder_is_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("json.py", "ctypes.py", "pynvml.py"):
        (tmp_path / name).write_text("import sys; print('shadow'); sys.exit(0)")
    monkeypatch.chdir(tmp_path)
    assert _survey(None)["candidate"]
    assert "shadow" not in _nvml(None).detail
