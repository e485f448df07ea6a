"""Folders in the temporary directory after a kill -9: gone with the next start, unless somebody still uses them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from support import small_tasks

from forewarp.core import scratch
from forewarp.core.scratch import Scratch
from forewarp.gpu_runner.executors.artifacts import ArtifactCache

MEASURING = """
import sys
from support import small_tasks
from forewarp.gpu_runner.devices import detect_cpu
from forewarp.gpu_runner.executors.local import LocalExecutor
executor, task, slow = LocalExecutor(detect_cpu()), small_tasks.small_task(), small_tasks.cpp(before="for (;;) {}")
build = executor.compile(task, slow)
print(build.status, flush=True)
executor.measure(task, slow, build)
"""


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "temporary"
    folder.mkdir()
    folder.chmod(0o1777)
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return folder


def holder(act: str = "s = Scratch(); print(s.path, flush=True); input()") -> subprocess.Popen[str]:
    code = f"from forewarp.core.scratch import Scratch, temporary_folder\n{act}"
    return subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def test_a_killed_process_leaves_nothing_after_the_next_start(temporary: Path) -> None:
    with holder() as killed, holder() as living:
        assert killed.stdout is not None
        assert living.stdout is not None
        gone, kept = (Path(p.stdout.readline().strip()) for p in (killed, living) if p.stdout)
        (gone / "tmp" / "cell-x" / "deep").mkdir(parents=True)
        killed.kill()
        killed.wait()
        assert gone.exists()
        mine = Scratch()
        assert not gone.exists()
        assert kept.exists()
        mine.close()
        mine.close()
        assert not mine.path.exists()
        living.kill()


def test_a_folder_of_a_killed_process_is_gone_after_the_next_start(temporary: Path) -> None:
    act = "with temporary_folder() as f: (f / 'copy.db').write_text('x'); print(f, flush=True); input()"
    with holder(act) as killed:
        assert killed.stdout is not None
        own = Path(killed.stdout.readline().strip())
        assert own.stat().st_mode & 0o777 == 0o700
        with scratch.temporary_folder() as mine:
            assert (own / "copy.db").exists()  # its process lives
        assert not mine.parent.exists()
        killed.kill()
    assert own.exists()
    with scratch.temporary_folder():
        assert not own.exists()
    assert list(temporary.iterdir()) == []


def test_what_a_killed_compilation_left_in_the_cache_goes_a_day_later(tmp_path: Path) -> None:
    cache = ArtifactCache(tmp_path, "compiled candidates")
    old, new, kept = tmp_path / "part-old", tmp_path / "part-new", tmp_path / "0123"
    for folder in (old, new, kept):
        folder.mkdir()
        (folder / "kernel.so").write_text("")
    for folder in (old, kept):
        os.utime(folder, (time.time() - 2 * 86400,) * 2)
    with cache.scratch() as made:
        assert sorted(tmp_path.iterdir()) == sorted([made, new, kept])


def test_what_is_not_ours_stays(temporary: Path) -> None:
    (temporary / "forewarp-notes").mkdir()
    (temporary / "forewarp-file").write_text("")
    elsewhere = temporary / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "lock").write_text("")
    (temporary / "forewarp-link").symlink_to(elsewhere)
    (temporary / "forewarp-planted").mkdir()
    (temporary / "forewarp-planted" / "lock").symlink_to(elsewhere / "lock")
    if os.geteuid() == 0:
        theirs = temporary / "forewarp-theirs"
        theirs.mkdir()
        (theirs / "lock").write_text("")
        os.chown(theirs, 65534, 65534)
    before = sorted(temporary.rglob("*"))
    scratch.remove_abandoned()
    assert sorted(temporary.rglob("*")) == before


def test_cells_of_a_killed_measurement_go_too(temporary: Path) -> None:
    tests = str(Path(small_tasks.__file__).parents[1])
    path = os.pathsep.join([tests, *sys.path])
    process = subprocess.Popen(
        [sys.executable, "-c", MEASURING], env=os.environ | {"PYTHONPATH": path}, stdout=subprocess.PIPE, text=True
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ok\n"
        until = time.monotonic() + 60
        while not list(temporary.rglob("cell-*")) and time.monotonic() < until:
            time.sleep(0.02)
        assert list(temporary.rglob("cell-*"))
        assert {p.name[: len(scratch.PREFIX)] for p in temporary.iterdir()} == {scratch.PREFIX}
        process.send_signal(signal.SIGKILL)
    time.sleep(1)  # its server ends by itself
    Scratch().close()
    assert list(temporary.iterdir()) == []
