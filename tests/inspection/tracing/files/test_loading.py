"""Files and folders that are shown to the code of a file without a task."""

from __future__ import annotations

from pathlib import Path

import pytest

from forewarp.inspection.tracing.files.loading import readable_beside


def test_a_file_may_read_what_it_imports_from_but_no_hidden_file(tmp_path: Path) -> None:
    for name in ("kernels.py", "table.json", ".env", ".git", "package/__init__.py", "package/one.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    beside = tuple(str(tmp_path / name) for name in ("kernels.py", "package", "table.json"))
    assert readable_beside(str(tmp_path / "kernels.py")) == beside
    assert readable_beside(str(tmp_path / "package" / "one.py")) == beside
    assert readable_beside("") == ()


@pytest.mark.parametrize("folder", ["/", "/root", "/home", "/home/somebody", "/tmp", "/var/tmp", "~"])
def test_a_file_in_a_home_or_in_a_shared_folder_may_read_itself_alone(folder: str) -> None:
    file = (Path(folder).expanduser() / "kernels.py").resolve()
    assert readable_beside(str(file)) == (str(file),)
