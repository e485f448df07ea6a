"""The least protection: what it takes, that strangers' code is refused without it, and that insisting is told."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support import without_landlock
from support.small_tasks import cpp, small_task

from forewarp.gpu_runner.cache import default_cache
from forewarp.gpu_runner.executors.local import LocalExecutor
from forewarp.gpu_runner.worker import least, survey
from forewarp.gpu_runner.worker.least import INSIST, LEAST, MISSING, Unprotected

FILES = "read-only files, no private files"


def test_files_network_signals_memory_and_limits_are_the_least() -> None:
    assert set(LEAST) == {
        "read-only files",
        "no private files",
        "no network",
        "no signals to other processes",
        "no memory of other processes",
        "time and file limits",
    }


@pytest.mark.parametrize("name", LEAST)
def test_each_of_the_least_is_required(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(INSIST, raising=False)
    in_force = [n for n in LEAST if n != name]
    with pytest.raises(Unprotected, match=name):
        least.require(in_force)
    monkeypatch.setenv(INSIST, "1")
    assert least.require(in_force) == [*in_force, f"{MISSING}: {name}"]


def test_more_than_the_least_is_not_required(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(INSIST, raising=False)
    assert least.require(LEAST) == list(LEAST)


@pytest.mark.slow
def test_the_survey_refuses_nothing_and_hides_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(INSIST, "1")
    found = survey.survey()
    assert set(found) == {"candidate", "task", "compiler"}
    assert all("time and file limits" in names for names in found.values())
    assert not any(MISSING in name for names in found.values() for name in names)


@pytest.fixture(scope="module")
def cache(cpu_executor: LocalExecutor, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a cache that knows one task and one kernel: what is known needs no code to be run."""
    assert cpu_executor.compile(small_task(), cpp()).status == "ok"
    return shutil.copytree(default_cache(), tmp_path_factory.mktemp("known") / "cache")


def _without_landlock(cache: Path, **variables: str) -> dict[str, Any]:
    words = [sys.executable, without_landlock.__file__, str(cache)]
    environment = {k: v for k, v in os.environ.items() if k != INSIST} | variables
    done = subprocess.run(words, capture_output=True, text=True, timeout=80, check=True, env=environment)
    return json.loads(done.stdout)


def test_without_the_least_no_verb_runs_strangers_code(cache: Path) -> None:
    told = _without_landlock(cache)
    assert set(told) == {"describe", "validate", "compile", "measure"}
    for answer in told.values():
        assert answer["code"] == "unprotected"
        assert FILES in answer["message"]
        assert "--unprotected" in answer["hint"]
        assert "forewarp doctor" in answer["hint"]


@pytest.mark.slow
def test_what_a_user_insists_on_is_run_and_says_so(cache: Path) -> None:
    told = _without_landlock(cache, **{INSIST: "1"})
    assert (told["describe"], told["validate"], told["compile"]) == (2, 2, "ok")
    assert any(p.startswith(f"{MISSING}: {FILES}") for p in told["measure"])
    assert any(p.startswith("task's code confined") and MISSING in p for p in told["measure"])
    assert "no network" in told["measure"]


def test_without_proc_the_machine_is_named(tmp_path: Path) -> None:
    hidden = ["unshare", "-m", "-U", "-r", "sh", "-c", 'mount -t tmpfs tmpfs /proc && exec "$@"', "sh"]
    if subprocess.run([*hidden, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("nothing can be mounted here")
    forewarp = [*hidden, sys.executable, "-m", "forewarp.cli.main"]
    environment = os.environ | {"FOREWARP_ARCHIVE": str(tmp_path / "a.db")}
    said = [
        subprocess.run([*forewarp, *words], env=environment, capture_output=True, text=True, timeout=100, check=False)
        for words in (["doctor"], ["validate", "softmax", "--device", "cpu"])
    ]
    assert "not tried: /proc is not mounted" in said[0].stdout
    assert (said[1].returncode, "/proc is not mounted here" in said[1].stderr) == (69, True), said[1].stderr
