"""A file with the modules that lie beside it, run where they do not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from forewarp.core.errors import TaskError
from forewarp.gpu_runner.formats.beside import with_modules

FILES = {
    "net/__init__.py": "from .parts import Part\n",
    "net/parts.py": "from . import sizes\nimport tools.text\n\n\nclass Part:\n    said = sizes.SIZE, tools.text.SAID\n",
    "net/sizes.py": "SIZE = 7\n",
    "tools/text.py": "SAID = '''it's'''\n",  # a package without __init__
    "unused.py": "raise ValueError\n",
}
SCRIPT = '"""Says it."""\nfrom __future__ import annotations\nimport json\nfrom net import Part\nprint(*Part.said)\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "theirs"
    for name, text in FILES.items():
        (made / name).parent.mkdir(parents=True, exist_ok=True)
        (made / name).write_text(text)
    return made


def printed(text: str, where: Path) -> str:
    where.mkdir(exist_ok=True)
    (where / "script.py").write_text(text)
    return subprocess.run([sys.executable, "script.py"], cwd=where, capture_output=True, text=True, check=True).stdout


def test_a_file_runs_without_the_modules_beside_it(folder: Path, tmp_path: Path) -> None:
    text = with_modules(SCRIPT, folder / "script.py")
    assert text.startswith(SCRIPT.partition("import json")[0])
    assert "ValueError" not in text
    assert printed(text, tmp_path / "elsewhere") == "7 it's\n"


def test_modules_beside_the_script_that_runs_come_first(folder: Path) -> None:
    text = with_modules(SCRIPT, folder / "script.py")
    (folder / "net" / "sizes.py").write_text("SIZE = 8\n")
    assert printed(text, folder) == "8 it's\n"


def test_files_beside_a_module_are_found_by_its_own_place(folder: Path, tmp_path: Path) -> None:
    (folder / "net" / "sizes.py").write_text(
        'from pathlib import Path\nSIZE = Path(__file__).parents[1].joinpath("n").read_text()\n'
    )
    (folder / "n").write_text("9")
    script = f"{SCRIPT}print(open(__file__.replace('script.py', 'n')).read())\n"
    assert printed(with_modules(script, folder / "script.py"), tmp_path / "elsewhere") == "9 it's\n9\n"


def test_a_file_without_such_modules_stays_as_it_is(folder: Path) -> None:
    text = "import torch, os.path\nfrom . import parts\n"
    assert with_modules(text, folder / "script.py") == text


def test_a_changed_file_that_the_text_names_makes_it_another_one(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "net" / "sizes.py").write_text("SIZE = open('size.txt').read()\n")
    script, named = (
        f"{SCRIPT}open('weights/0.bin')\nload('checkpoint')\n",
        ("size.txt", "weights/0.bin", "checkpoint/1.bin"),
    )
    for name in (*named, "unnamed.txt"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("1")
    plain = with_modules(script, folder / "script.py")
    monkeypatch.setenv("FOREWARP_READABLE", os.path.relpath(folder))
    texts = [with_modules(script, folder / "script.py")]
    for name in (*named, "unnamed.txt"):
        (folder / name).write_text("22")
        texts.append(with_modules(script, folder / "script.py"))
    assert len({plain, *texts}) == 5
    assert texts[3] == texts[4]
    monkeypatch.setenv("FOREWARP_READABLE", str(folder / "net"))
    assert with_modules(script, folder / "script.py") == plain


def test_what_is_no_module_of_the_folder_is_not_read(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "secret.py").write_text("KEY = 1\n")
    (folder / "linked.py").symlink_to(tmp_path / "secret.py")
    assert with_modules("import linked\n", folder / "script.py") == "import linked\n"
    (folder / "broken.py").write_text("def (\n")
    with pytest.raises(TaskError, match="broken, which the file imports, is not valid Python"):
        with_modules("import broken\n", folder / "script.py")
