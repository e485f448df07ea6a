"""What lies on PYTHONPATH or in the working folder replaces no module of the processes that we start."""

from __future__ import annotations

import hashlib
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from support import small_tasks

from forewarp.gpu_runner import child
from forewarp.gpu_runner.devices import detect_cpu
from forewarp.gpu_runner.executors.client import ChildSession, WorkerClient
from forewarp.gpu_runner.executors.local import LocalExecutor
from forewarp.gpu_runner.remote.far_end import bootstrap
from forewarp.gpu_runner.remote.far_end.link import Link
from forewarp.gpu_runner.worker.channel import Channel
from forewarp.gpu_runner.worker.requests import ProbeJob

EVIL = "import os\nopen(os.environ['TRACE_FILE'], 'a').write(__file__ + '\\n')\nraise ImportError('not the module')\n"


@pytest.fixture
def polluted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put modules with well-known names on PYTHONPATH and into the working folder; returns where they leave a trace."""
    trace = tmp_path / "imported"
    for name in ("path", "here"):
        folder = tmp_path / name
        (folder / "forewarp").mkdir(parents=True)
        text = EVIL.replace("os.environ['TRACE_FILE']", repr(str(trace)))
        for file in ("json.py", "numpy.py", "hashlib.py", "sitecustomize.py", "forewarp/__init__.py"):
            (folder / file).write_text(text)
    (tmp_path / "path" / "only_here.py").write_text("VALUE = 41\n")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path / 'path'}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    monkeypatch.chdir(tmp_path / "here")
    return trace


def test_a_measurement_imports_nothing_of_it(polluted: Path) -> None:
    executor = LocalExecutor(detect_cpu())
    try:
        assert executor.describe(small_tasks.small_task())
    finally:
        executor.close()
    assert not polluted.exists(), polluted.read_text()


def test_an_agent_imports_nothing_of_it(polluted: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FOREWARP_CACHE", str(tmp_path / "cache"))
    link = Link(bootstrap.command(sys.executable, bootstrap.package()), bootstrap.package())
    try:
        answer = link.submit("open", {"device": "cpu", "limits": None}).result(100).head
    finally:
        link.close(patience_s=5.0)
    assert "ok" in answer, answer
    found = polluted.read_text() if polluted.exists() else ""
    # The login's own Python runs the site's customisation before anything of ours.
    assert set(found.split()) <= {str(tmp_path / "path" / "sitecustomize.py")}


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a folder of another user")
def test_an_agent_runs_no_code_that_another_user_has_put_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FOREWARP_CACHE", str(tmp_path))
    package, ran = bootstrap.package(), tmp_path / "ran"
    planted = tmp_path / "agents" / hashlib.sha256(package).hexdigest() / "forewarp"
    planted.mkdir(parents=True)
    (planted / "__init__.py").write_text(f"open({str(ran)!r}, 'w')\n")
    os.chown(planted.parent, 65534, 65534)
    command = bootstrap.command(sys.executable, package)
    done = subprocess.run(command, input=b"", capture_output=True, timeout=60, check=False)
    assert b"is another user's, who could change the code" in done.stderr
    assert not ran.exists()


def test_what_only_pythonpath_has_is_still_found(polluted: Path, tmp_path: Path) -> None:
    code = tmp_path / "path" / "shows.py"
    code.write_text("import json, numpy, only_here, sys\nprint(only_here.VALUE, *sys.argv[1:])\n")
    done = subprocess.run(
        child.command(sys.executable, "shows", "a", "b"),
        env=child.environment(os.environ),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "41 a b\n"
    assert not polluted.exists()


def test_a_torch_on_pythonpath_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("torch", "numpy"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("")
    (tmp_path / "json.py").write_text("raise ImportError('not the module')")
    (tmp_path / "shows.py").write_text("import json, numpy, torch\nprint(numpy.__file__, torch.__file__)\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    done = subprocess.run(
        child.command(sys.executable, "shows"),
        env=child.environment(os.environ),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == [str(tmp_path / n / "__init__.py") for n in ("numpy", "torch")]


def test_the_cpu_device_sees_no_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Once torch has counted GPUs, torch.compile fails in what is forked then: "Cannot re-initialize CUDA".
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    executor = LocalExecutor(detect_cpu(), cache=tmp_path)
    try:
        executor.probe()
        process = executor._worker._server._process
        assert process is not None
        assert "CUDA_VISIBLE_DEVICES=" in Path(f"/proc/{process.pid}/environ").read_text().split("\0")
    finally:
        executor.close()


def test_the_worker_sees_pythonpath_in_its_environment(polluted: Path, tmp_path: Path) -> None:
    client = WorkerClient(cpu_only=True)
    try:
        client.open(ProbeJob()).close()
        process = client._server._process
        assert process is not None
        started = Path(f"/proc/{process.pid}/environ").read_text().split("\0")
        assert not [e for e in started if e.startswith("PYTHONPATH=")]
        assert str(tmp_path / "path") in Path(f"/proc/{process.pid}/cmdline").read_text()
    finally:
        client.close()


def test_a_child_is_killed_before_it_leads_a_group_of_its_own(tmp_path: Path) -> None:
    """Forked just now, it is still in its server's group: who stops a job then must not miss it."""
    ours, theirs = socket.socketpair()
    with ours, theirs, subprocess.Popen(["sleep", "60"]) as forked:
        session = ChildSession(Channel(ours), Channel(theirs), tmp_path / "job.log", forked.pid)
        session.kill()
        assert forked.wait(10) == -signal.SIGKILL
