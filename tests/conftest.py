"""Paths and isolation for every test, and the executors that tests share.

Nothing is read from or written to the user's own folders. To start an executor takes seconds.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from forewarp.gpu_runner.executors.local import LocalExecutor

sys.path.insert(0, str(Path(__file__).parent))
sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))  # scripts import each other by the names of their files

# Tests start hundreds of processes, which would compile the same files again.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# Idle threads of torch must not spin while those of the other process of a test run work.
os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
os.environ["OPENBLAS_NUM_THREADS"] = "1"  # those of NumPy and SciPy spin whatever they are told


# Collected tests and imported modules stay to the end; looking through them again took a seventh of the time.
gc.disable()


def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 10, 50)
    gc.enable()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-snapshots", action="store_true", help="write the screens that tests compare with anew")


@pytest.fixture(autouse=True)
def _own_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOREWARP_ARCHIVE", str(tmp_path / "archive.db"))
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    for name in ("NO_PROXY", "no_proxy"):  # what a test serves here is not reached through the machine's proxy
        monkeypatch.setenv(name, "127.0.0.1,localhost")


@pytest.fixture(scope="session", autouse=True)
def _session_cache(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> None:
    patch, cache = pytest.MonkeyPatch(), tmp_path_factory.mktemp("cache")
    patch.setenv("FOREWARP_CACHE", str(cache))
    if request.config.getoption("markexpr") == "gpu":  # its workers take turns on the GPU
        locks = tmp_path_factory.getbasetemp().parent / "locks"
        locks.mkdir(exist_ok=True)
        (cache / "locks").symlink_to(locks)
    for name in ("FORCE_COLOR", "NO_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "COLUMNS", "LINES"):
        patch.delenv(name, raising=False)  # how wide and colourful output is that nobody looks at
    for name in ("FOREWARP_PRICES", "FOREWARP_MCP_TOKEN", "TRITON_INTERPRET"):
        patch.delenv(name, raising=False)


@pytest.fixture(scope="session", autouse=True)
def cpu_executor(_session_cache: None) -> Iterator[LocalExecutor]:
    """One on the CPU device; `support.shared_executors.limited` gives it the limits of a module for a while.

    As long as it is there, the server that it shares with others of this process stays, which takes seconds to start.
    """
    from forewarp.gpu_runner.devices import detect_cpu
    from forewarp.gpu_runner.executors.local import Limits, LocalExecutor

    # Speed decides no test, so it is timed as shortly as can be.
    limits = Limits(compile_s=60, memory=2 << 30, time_s=0.02, looks=(4,))
    made = LocalExecutor(detect_cpu(), limits=limits)
    yield made
    # Closing twice is fine for one that has worked, too.
    made.close()
    made.close()


@pytest.fixture(scope="session", autouse=True)
def h200_executor(_session_cache: None) -> Iterator[LocalExecutor]:
    """One for a GPU that need not be there: it compiles, traces and checks, and measures nothing."""
    from forewarp.gpu_runner.devices import known_targets
    from forewarp.gpu_runner.executors.local import LocalExecutor

    made = LocalExecutor(known_targets()["h200"])
    yield made
    made.close()


@pytest.fixture(scope="session", autouse=True)
def _server_of_tuners(_session_cache: None) -> Iterator[None]:
    """Keep the server that tuners of files share, once one has started it."""
    from forewarp.gpu_runner.executors.client import WorkerClient

    client = WorkerClient()
    yield
    client.close()
