"""Imports of users' files, and the files that their code may read."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from forewarp.inspection.tracing.files.loading import load, readable_beside
from forewarp.inspection.tracing.values import SourceFile


@pytest.fixture(autouse=True)
def own_imports(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("path", "meta_path"):
        monkeypatch.setattr(sys, name, list(getattr(sys, name)))
    monkeypatch.setattr(sys, "modules", dict(sys.modules))


def bounded(doing: str, work: Callable[[], object]) -> str:
    try:
        work()
    except Exception as e:
        return f"{doing}: {type(e).__name__}: {e}"
    return ""


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


def test_a_file_of_a_package_is_imported_as_such(tmp_path: Path) -> None:
    folder = tmp_path / "kernels_of_mine" / "ops"
    folder.mkdir(parents=True)
    for place in (folder, folder.parent):
        (place / "__init__.py").write_text("")
    (folder / "common.py").write_text("FACTOR = 3.0\n")
    path = folder / "thrice.py"
    path.write_text("from ..ops.common import FACTOR\n")
    loaded = load(SourceFile(path.read_text(), str(path)), bounded)
    assert (loaded.module.FACTOR, loaded.problems) == (3.0, [])


def test_a_statement_or_decorator_that_fails_costs_nothing_else() -> None:
    loaded = load(SourceFile("import no_such_package\n@cached()\n@staticmethod\ndef one():\n    return 1\n"), bounded)
    assert loaded.module.one() == 1
    assert "No module named 'no_such_package'" in loaded.problems[0]
    assert "one is taken without its first decorator" in loaded.problems[1]
