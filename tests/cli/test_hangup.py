"""A closed terminal ends a run as Ctrl-C does, and no run is shown as running whose process is gone."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import dying
from support import synthetic_executor as synthetic
from support.recorded_pool import Recorded, record

import forewarp
from forewarp.archive.store import Archive, default_path
from forewarp.cli.main import main

DYING = Path(dying.__file__)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    return record(tmp_path_factory.mktemp("pool"))


@pytest.fixture(autouse=True)
def hangups_end() -> Iterator[None]:
    """Let hangups end what is started here, also where the tests themselves run under nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


def command(recorded: Recorded, folder: Path, signals: str) -> list[str]:
    rest = ["optimize", recorded.task, *recorded.flags, "--budget", "12", "--seed", "3", "--out", str(folder / "out")]
    return [sys.executable, str(DYING), "measurement", "3", signals, *rest]


@pytest.mark.slow
def test_a_hangup_ends_a_run_as_an_interrupt_does(recorded: Recorded, tmp_path: Path) -> None:
    for count, name in (("3", "SIGINT"), ("6", "SIGHUP")):  # both share one archive
        words = [*command(recorded, tmp_path, name), "--json"]
        words[3] = count
        done = subprocess.run(words, capture_output=True, text=True, timeout=100, check=False)
        assert done.returncode == 130, done.stderr
        assert json.loads(done.stdout)["status"] == "interrupted"
    with Archive(default_path()) as archive:
        ends = [(r.status, r.reason, archive.spend(r.id).measurements) for r in archive.runs()]
    # The measurement in progress was finished, and the reason is that of one that was asked to stop.
    assert ends[0] == ends[1]
    assert ends[0][0] == "interrupted"


@pytest.mark.slow
def test_a_terminal_that_closes_leaves_an_interrupted_run(recorded: Recorded, tmp_path: Path) -> None:
    pid, terminal = pty.fork()
    if pid == 0:  # in the terminal, whose window is closed by the parent
        os.execv(sys.executable, command(recorded, tmp_path, "SIGSTOP"))
    seen, stopped = os.waitpid(pid, os.WUNTRACED)
    assert (seen, os.WIFSTOPPED(stopped)) == (pid, True)
    os.close(terminal)
    os.kill(pid, signal.SIGHUP)
    os.kill(pid, signal.SIGCONT)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 130
    with Archive(default_path()) as archive:
        assert [r.status for r in archive.runs()] == ["interrupted"]


def test_the_terminal_agent_ends_with_a_terminal_that_does_not_control_it() -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "forewarp.cli.main"]
    opened = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True)
    os.close(theirs)
    try:
        seen = b""
        while b"/command" not in seen:
            seen += os.read(ours, 65536)
        os.close(ours)
        assert opened.wait(60) == -signal.SIGTERM
    finally:
        opened.kill()


def catches(process: int, number: signal.Signals) -> bool:
    caught = next(
        line for line in Path(f"/proc/{process}/status").read_text().splitlines() if line.startswith("SigCgt")
    )
    return bool(int(caught.split()[1], 16) >> number - 1 & 1)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_before_there_is_a_run_is_told_in_the_document(tmp_path: Path, number: signal.Signals) -> None:
    (tmp_path / "endless.py").write_text("import time\ntime.sleep(300)\nclass Model: ...\n")
    words = [
        sys.executable,
        "-m",
        "forewarp.cli.main",
        "validate",
        str(tmp_path / "endless.py"),
        "--device",
        "cpu",
        "--json",
    ]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as started:
        while not catches(started.pid, number):
            assert started.poll() is None
            time.sleep(0.01)
        started.send_signal(number)
        out, _ = started.communicate(timeout=60)
    assert started.returncode == 130
    assert json.loads(out)["status"] == "interrupted"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_an_mcp_server_on_stdio_ends_at_once(number: signal.Signals) -> None:
    command = [sys.executable, "-m", "forewarp.cli.main", "mcp"]
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    first = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as served:
        assert served.stdin is not None
        assert served.stdout is not None
        served.stdin.write(json.dumps(first) + "\n")
        served.stdin.flush()
        served.stdout.readline()
        served.send_signal(number)  # stdin stays open
        try:
            assert served.wait(30) == -number
        finally:
            served.kill()


@pytest.mark.slow
def test_under_nohup_a_run_goes_on(recorded: Recorded, tmp_path: Path) -> None:
    done = subprocess.run(
        [*command(recorded, tmp_path, "SIGHUP"), "--json"],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN),
    )
    assert json.loads(done.stdout)["status"] == "finished", done.stderr


def test_a_run_whose_process_was_killed_is_not_shown_as_running(
    recorded: Recorded, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    done = subprocess.run(command(recorded, tmp_path, "SIGKILL"), capture_output=True, timeout=100, check=False)
    assert done.returncode == -signal.SIGKILL
    assert main(["runs", "--json"]) == 0
    [line] = json.loads(capsys.readouterr().out)["runs"]
    assert (line["status"], "process is gone" in line["reason"]) == ("interrupted", True)
    assert main(["show", line["run_id"], "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["status"], "forewarp resume" in told["reason"]) == ("interrupted", True)


def test_a_run_whose_process_was_killed_before_it_began_is_not_shown_as_running(
    recorded: Recorded, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = command(recorded, tmp_path, "SIGKILL")
    words[2:4] = ["run", "1"]
    subprocess.run(words, capture_output=True, timeout=100, check=False)
    main(["runs", "--json"])
    assert [r["status"] for r in json.loads(capsys.readouterr().out)["runs"]] == ["interrupted"]


def test_a_run_that_nobody_ever_took_up_is_not_shown_as_running(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Archive(default_path()) as archive:
        archive.create_run(synthetic.task(), synthetic.TARGET, {}, {})
        main(["runs", "--json"])
        assert json.loads(capsys.readouterr().out)["runs"][0]["status"] == "running"
        archive._write("UPDATE run SET created = '2026-01-01T00:00:00.000+00:00'")
    main(["runs", "--json"])
    assert json.loads(capsys.readouterr().out)["runs"][0]["status"] == "interrupted"


def test_a_process_that_only_waits_to_be_reaped_works_on_nothing() -> None:
    from forewarp.core import processes

    child = subprocess.Popen([sys.executable, "-c", ""])
    while Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
        time.sleep(0.01)
    assert processes.began(child.pid) == ""
    child.wait()


def test_ctrl_c_while_the_command_is_imported_ends_it_without_a_traceback() -> None:
    program = """
import sys
class Interrupted:
    def find_spec(self, name, *_):
        if name == "cyclopts":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupted())
from forewarp.cli.entry import run
run()
"""
    source = str(Path(forewarp.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", program, "tasks"],
        env=os.environ | {"PYTHONPATH": source},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_the_package_runs_as_the_command() -> None:
    source = str(Path(forewarp.__file__).parents[1])
    command = [sys.executable, "-m", "forewarp", "--version"]
    done = subprocess.run(command, env=os.environ | {"PYTHONPATH": source}, capture_output=True, text=True)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, forewarp.__version__, "")
