"""A machine over ssh, with a stand-in for the command: the agent's code travels, and real kernels are measured."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from support.small_tasks import REFERENCE, cpp, small_task

from forewarp.cli.main import main
from forewarp.core.errors import DeviceError, UsageError
from forewarp.gpu_runner.remote.far_end import bootstrap
from forewarp.gpu_runner.remote.over_ssh import advice, destination, open_ssh


def test_a_host_that_is_not_there_is_no_device(ssh: Path) -> None:
    with pytest.raises(DeviceError, match="Could not resolve hostname"):
        open_ssh("nobody-there", "cpu")


def test_a_python_that_is_not_there_is_no_device(ssh: Path) -> None:
    with pytest.raises(DeviceError, match="no-python"):
        open_ssh("box", "cpu", python="/usr/bin/no-python")


def test_a_device_that_is_not_there_is_told_by_the_machine(ssh: Path) -> None:
    with pytest.raises(DeviceError, match="no CUDA device"):
        open_ssh("box", "cuda:99", python=sys.executable)


def test_the_code_that_travels_is_complete_and_always_the_same(tmp_path: Path) -> None:
    import io
    import os
    import subprocess
    import zipfile

    package = bootstrap.package()
    bootstrap.package.cache_clear()
    assert bootstrap.package() == package
    zipfile.ZipFile(io.BytesIO(package)).extractall(tmp_path)
    assert not (tmp_path / "forewarp" / "tools").exists()
    code = "import forewarp.gpu_runner.remote.far_end.agent, forewarp.gpu_runner.worker.jobs as j; print(j.__file__)"
    done = subprocess.run(
        [sys.executable, "-P", "-c", code],
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith(str(tmp_path))


@pytest.mark.slow
def test_kernels_are_compiled_and_measured_there(ssh: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    executor = open_ssh("box", "cpu", python=sys.executable, cache=tmp_path / "near")
    try:
        task, candidate = small_task(), cpp()
        build = executor.compile(task, candidate)
        assert build.status == "ok", build.log
        assert Path(build.artefact).parent == tmp_path / "near" / "artefacts"
        m = executor.measure(task, candidate, build)
        assert m.status == "ok", m.log
        assert m.device == executor.target.name
        broken = cpp(body="this is no C++")
        assert executor.compile(task, broken).status == "compile_error"
    finally:
        executor.close()


@pytest.mark.slow
def test_a_task_is_validated_there(ssh: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    there = ("--executor", "ssh:box", "--device", "cpu", "--python", sys.executable, "--json")
    task = tmp_path / "task.py"
    task.write_text(REFERENCE)
    assert main(["validate", str(task), *there]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["verdict"] == "sound"
    assert found["workloads"][0]["nulls"]
    idle = REFERENCE.replace("torch.softmax(x * self.weight + self.bias, dim=-1)", "0 * x")
    task.write_text(idle)
    main(["validate", str(task), *there])
    assert json.loads(capsys.readouterr().out)["verdict"] == "degenerate"
    task.write_text(REFERENCE.replace("torch.softmax(", "torch.no_such_thing("))
    main(["validate", str(task), *there])
    assert "no_such_thing" in json.loads(capsys.readouterr().out)["error"]["message"]


def test_doctor_says_what_is_there(ssh: Path, capsys: pytest.CaptureFixture[str]) -> None:
    there = ("--executor", "ssh:box", "--device", "cpu", "--python", sys.executable)
    assert main(["doctor", *there, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    machines = next(c for c in found["checks"] if c["name"] == "machines")
    assert machines["found"]
    assert "cores, ready in" in machines["detail"]
    assert f"softmax --executor ssh:box --device cpu --python {sys.executable}` measures there" in found["summary"]
    assert main(["doctor", "--executor", "ssh:nobody-there", "--json"]) == 69


@pytest.mark.parametrize(
    ("named", "arguments"),
    [
        ("gpubox", ["gpubox"]),
        ("me@gpubox:2222", ["-p", "2222", "me@gpubox"]),
        ("10.0.0.7:22", ["-p", "22", "10.0.0.7"]),
        ("[fe80::1]:2222", ["-p", "2222", "fe80::1"]),
        ("me@[fe80::1]:2222", ["-p", "2222", "me@fe80::1"]),
        ("fe80::1:2222", ["fe80::1:2222"]),
        ("[fe80::1]", ["fe80::1"]),
        ("ssh://me@gpubox:2222", ["ssh://me@gpubox:2222"]),
    ],
)
def test_a_port_may_follow_the_host(named: str, arguments: list[str]) -> None:
    assert destination(named) == arguments


@pytest.mark.parametrize("named", ["", ":22", "-v:22", "-oProxyCommand=x"])
def test_what_names_no_host_is_refused(named: str) -> None:
    with pytest.raises(UsageError, match="names no host"):
        destination(named)


def test_what_nobody_knows_gets_no_advice() -> None:
    assert advice("a colour out of space", "box") == ""
    assert "pass --python" in advice("bash: line 1: exec: python3: not found", "box")
    assert "`ssh box` has to work" in advice("ssh: connect to host box port 22: No route to host", "box")
