"""Use recorded pools, MCP, the terminal and machines over ssh with all that only Linux has hidden, as on a Mac."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters
from support.recorded_pool import record
from support.served_mcp import SOURCES, Served, begun, call, ended

ROOT = Path(__file__).parents[1]
LIKE_A_MAC = ROOT / "tests/support/like_a_mac"
MAIN = ("-m", "forewarp.cli.main")


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    paths = os.pathsep.join([str(LIKE_A_MAC), SOURCES])
    return os.environ | {"PYTHONPATH": paths, "HOME": str(tmp_path), "COLUMNS": "200"}


def python(environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *arguments]
    return subprocess.run(
        command, env=environment, cwd=environment["HOME"], capture_output=True, text=True, timeout=100, check=False
    )


def test_processes_are_told_apart_and_ended_without_proc(environment: dict[str, str]) -> None:
    code = """
import subprocess, sys, time, os
from forewarp.core import processes
assert not processes._PROC.exists()
child = subprocess.Popen(["sh", "-c", "sleep 60 & echo; wait"], stdout=subprocess.PIPE, start_new_session=True)
child.stdout.readline()
below = processes.below(child.pid)
assert len(below) == 1 and below[0] in processes.below(os.getpid())
assert processes.began(child.pid) == processes.began(child.pid) != ""
assert ":" not in processes.began(child.pid)
processes.kill_tree(child.pid)
child.wait()
assert processes.over(child.pid) and not processes.began(child.pid)
while processes.began(below[0]):  # a signal is sent, not waited for
    time.sleep(0.01)
"""
    done = python(environment, "-c", code)
    assert done.returncode == 0, done.stderr


def test_the_doctor_says_that_linux_is_missing_and_what_is_left(environment: dict[str, str]) -> None:
    done = python(environment, *MAIN, "doctor", "--json")
    document = json.loads(done.stdout)
    assert done.returncode == 69
    assert "without Linux" in document["summary"]
    assert "--executor ssh:HOST" in document["summary"]


@pytest.mark.parametrize("words", [("measure", "softmax", "k.cpp"), ("validate", "softmax"), ("optimize", "softmax")])
def test_what_needs_linux_says_so_in_a_sentence(words: tuple[str, ...], environment: dict[str, str]) -> None:
    shutil.copy(ROOT / "tasks/softmax/seeds/softmax.cpp", Path(environment["HOME"], "k.cpp"))
    done = python(environment, *MAIN, *words)
    assert done.returncode == 69
    assert "kernels are compiled and measured on Linux only" in done.stderr
    assert "--executor ssh:HOST" in done.stderr


async def test_a_server_searches_a_recorded_pool_and_ends_a_search(tmp_path: Path, environment: dict[str, str]) -> None:
    served = Served(record(tmp_path, every=2))
    server = StdioServerParameters(command=sys.executable, args=served.arguments, env=environment)
    async with Client(server) as client:
        found = await call(client, "search", task="toy.py", forecaster="none", budget=3)
        assert (await ended(client, found))["status"] == "finished"
        found = await begun(client, await call(client, "search", task="toy.py", forecaster="none", budget=200))
        assert (await call(client, "search_cancel", run_id=found["run_id"]))["status"] == "interrupted"
