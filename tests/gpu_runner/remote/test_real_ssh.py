"""A machine over ssh, with a real server on this one: failing logins, lost connections, aliases and ports."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import venv
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy
import pytest
from support.ports import free_port
from support.small_tasks import cpp, small_task

from forewarp.archive.store import Archive
from forewarp.core.errors import DeviceError
from forewarp.gpu_runner.remote import over_ssh
from forewarp.gpu_runner.remote.over_ssh import open_ssh
from forewarp.tools.measure_kernel import MeasureRequest, measure_kernel
from forewarp.tools.parts import Kernel, Place

SSHD = shutil.which("sshd", path=f"{os.environ['PATH']}{os.pathsep}/usr/sbin")
SSH = shutil.which("ssh")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(SSHD is None or SSH is None, reason="needs OpenSSH's server and client: openssh-server"),
]
PYTHON = sys.executable


class Server:
    """One sshd on a port of the loopback, and what a client needs to log in there."""

    def __init__(self, folder: Path, port: int, *settings: str) -> None:
        self.folder, self.port, self.settings = folder, port, settings
        folder.mkdir()
        for name in ("host", "other-host", "user", "wrong"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
        self.admit()
        self.know("host")
        self.start()

    def start(self) -> None:
        """Listen, and return once somebody answers."""
        settings = [
            *(f"Port {self.port}", "ListenAddress 127.0.0.1", f"HostKey {self.folder}/host"),
            *(f"AuthorizedKeysFile {self.folder}/admitted", "StrictModes no", "UsePAM no", "PidFile none"),
            *self.settings,
            *("PasswordAuthentication no", "KbdInteractiveAuthentication no"),
            f"SetEnv FOREWARP_CACHE={self.folder}/far",
        ]
        (self.folder / "sshd_config").write_text("\n".join(settings) + "\n")
        if os.getuid() == 0:
            Path("/run/sshd").mkdir(exist_ok=True)  # where the server locks itself in before a login
        command = [SSHD or "", "-D", "-f", str(self.folder / "sshd_config"), "-E", str(self.folder / "log")]
        self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
        until = time.monotonic() + 60
        while self._process.poll() is None and time.monotonic() < until:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 10):
                return
            time.sleep(0.05)
        raise AssertionError((self.folder / "log").read_text())

    def stop(self) -> None:
        """End the server and all its connections."""
        sessions = self.sessions()
        self._process.kill()
        self._process.wait()
        self.hurt(signal.SIGKILL, sessions)

    def sessions(self) -> list[int]:
        """Return the processes of the connections."""
        done = subprocess.run(["ps", "-o", "pid=", "--ppid", str(self._process.pid)], capture_output=True, text=True)
        return [int(pid) for pid in done.stdout.split()]

    def hurt(self, with_signal: signal.Signals, sessions: list[int] | None = None) -> None:
        """Send a signal to the processes of connections, of all that there are if none is named."""
        for pid in self.sessions() if sessions is None else sessions:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, with_signal)

    def logins(self) -> int:
        """How many connections were let in so far."""
        return (self.folder / "log").read_text().count("Accepted publickey")

    def measures(self) -> bool:
        """Tell whether a measurement holds the device of the machine over there."""
        for lock in (self.folder / "far" / "locks").glob("*"):
            with lock.open() as handle:
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    return True
        return False

    def admit(self, options: str = "") -> None:
        """Let the user's key in, under these options."""
        (self.folder / "admitted").write_text(f"{options} {(self.folder / 'user.pub').read_text()}".lstrip())

    def know(self, key: str | None) -> None:
        """Write down which host key the client expects, if any."""
        line = f"[127.0.0.1]:{self.port} {(self.folder / f'{key}.pub').read_text()}" if key else ""
        (self.folder / "known").write_text(line)


@pytest.fixture
def starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Server]]:
    """Start servers; `box`, `wrong-key` and `shared` are names of the last one in the client's configuration."""
    made: list[Server] = []

    def started(*settings: str) -> Server:
        server = Server(tmp_path / f"server-{len(made)}", ports.enter_context(free_port()), *settings)
        made.append(server)
        at = f"HostName 127.0.0.1\nPort {server.port}"
        (tmp_path / "config").write_text(
            f"Host shared\nControlMaster auto\nControlPath {sockets}/%C\nControlPersist 60\n"
            f"Host box wrong-key shared\n{at}\n"
            f"Host wrong-key\nIdentityFile {server.folder}/wrong\n"
            f"Host box shared 127.0.0.1\nIdentityFile {server.folder}/user\n"
            f"Host *\nIdentitiesOnly yes\nUserKnownHostsFile {server.folder}/known\nGlobalKnownHostsFile /dev/null\n"
        )
        return server

    folder = tmp_path / "bin"
    folder.mkdir()
    # ssh looks for its configuration in the home of the account, whatever $HOME says.
    (folder / "ssh").write_text(f'#!/bin/sh\nexec {SSH} -F {tmp_path}/config "$@"\n')
    (folder / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    # Other temporary folders may have too long a name for a socket.
    with tempfile.TemporaryDirectory(dir="/tmp") as sockets, contextlib.ExitStack() as ports:
        yield started
        for server in made:
            server.stop()


def refused(host: str, python: str = PYTHON) -> DeviceError:
    """Open a host that cannot be opened, which must not take long."""
    begun = time.monotonic()
    with pytest.raises(DeviceError) as failed:
        open_ssh(host, "cpu", python=python)
    assert time.monotonic() - begun < 60
    return failed.value


def test_logins_that_fail_say_what_to_do_and_ask_nothing(starts: Callable[..., Server]) -> None:
    server = starts()
    wrong = refused("wrong-key")
    assert "Permission denied (publickey)" in wrong.message
    assert "ssh-copy-id wrong-key" in wrong.hint
    server.know(None)
    unknown = refused("box")
    assert "Host key verification failed" in unknown.message
    assert "`ssh box` once" in unknown.hint
    server.know("other-host")
    changed = refused("box")
    assert "IDENTIFICATION HAS CHANGED" in changed.message
    assert "ssh-keygen -R" in changed.hint
    server.know("host")
    server.stop()
    off = refused("box")
    assert "Connection refused" in off.message
    assert "ssh:HOST:PORT" in off.hint


def test_a_host_that_wants_a_password_is_refused(starts: Callable[..., Server]) -> None:
    starts("PubkeyAuthentication no", "PasswordAuthentication yes")
    found = refused("box")
    assert "Permission denied (password)" in found.message
    assert "nobody can type a password" in found.hint


def test_a_host_without_python_or_torch_says_what_to_pass(starts: Callable[..., Server], tmp_path: Path) -> None:
    server = starts()
    none = refused("box", "/usr/bin/no-python")
    assert "/usr/bin/no-python" in none.message
    assert "--python" in none.hint
    venv.create(tmp_path / "bare")
    bare = tmp_path / "bare" / "bin" / "python"
    empty = refused("box", str(bare))
    assert "has no numpy" in empty.message
    assert "Traceback" not in empty.message
    assert "install torch and numpy there" in empty.hint
    packages = next((tmp_path / "bare" / "lib").glob("python*")) / "site-packages"
    (packages / "numpy").symlink_to(Path(numpy.__file__).parent)
    for libraries in Path(numpy.__file__).parents[1].glob("numpy.libs"):
        (packages / "numpy.libs").symlink_to(libraries)
    torchless = refused("box", str(bare))
    assert "has no torch" in torchless.message
    assert "install torch and numpy there" in torchless.hint
    assert server.logins() == 3


def test_a_login_that_never_gets_anywhere_ends(starts: Callable[..., Server], monkeypatch: pytest.MonkeyPatch) -> None:
    # A login takes far less; what then asks ends with the connection.
    monkeypatch.setattr(over_ssh, "START_S", 10.0)
    starts().admit('command="echo Which project?; cat > /dev/null"')
    found = refused("box")
    assert "Which project?" in found.message
    assert "no measuring process had started after 10 s" in found.message


@pytest.mark.parametrize("shape", ["{user}@127.0.0.1:{port}", "shared"])
def test_ports_users_and_shared_connections(starts: Callable[..., Server], shape: str, tmp_path: Path) -> None:
    server = starts()
    user = subprocess.run(["id", "-un"], capture_output=True, text=True, check=True).stdout.strip()
    for _ in range(2):
        executor = open_ssh(shape.format(user=user, port=server.port), "cpu", python=PYTHON)
        assert executor.target.kind == "cpu"
        executor.close()
    assert server.logins() == (1 if shape == "shared" else 2)
    assert (server.folder / "far" / "agents").is_dir()


@dataclass(frozen=True)
class Measured:
    """A kernel is measured on `box`, and something happens in the middle of it: its first call ends only after that."""

    folder: Path
    archive: Path

    @property
    def _go(self) -> Path:
        return self.folder / "go"

    def while_something_happens(self, server: Server, happening: Callable[[], None]) -> None:
        """Measure, and look at what is recorded of it."""

        def happen() -> None:
            until = time.monotonic() + 60
            while not server.measures():
                assert time.monotonic() < until, "no measurement began"
                time.sleep(0.01)
            happening()
            self._go.touch()

        during = threading.Thread(target=happen)

        def stage(name: str) -> None:
            if name == "measuring":
                during.start()

        place = Place(executor="ssh:box", device="cpu", python=PYTHON, archive=str(self.archive))
        waiting = cpp(before=f'while (access("{self._go}", F_OK)) usleep(1000);')
        kernel = Kernel(source=waiting.source, language="cpp", tunables=dict(waiting.tunables))
        result = measure_kernel(MeasureRequest(task=small_task(), kernel=kernel, place=place), stage=stage)
        during.join()
        assert result.status == "ok", result.log
        with Archive(self.archive) as opened:
            rows = opened.measurements()
        assert [row.state for row in rows] == ["done"]


@pytest.fixture
def measured(tmp_path: Path) -> Iterator[Measured]:
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        Path(folder).chmod(0o755)  # a kernel may run as another user
        yield Measured(Path(folder), tmp_path / "archive")


def test_a_connection_that_is_killed_in_a_measurement_is_made_anew(
    starts: Callable[..., Server], measured: Measured
) -> None:
    server = starts()
    measured.while_something_happens(server, lambda: server.hurt(signal.SIGKILL))
    assert server.logins() == 2


def test_a_connection_that_goes_silent_in_a_measurement_is_made_anew(
    starts: Callable[..., Server], measured: Measured, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Soon, but not so soon that a server that has to wait for a core counts as silent.
    soon = ("-T", "-o", "BatchMode=yes", "-o", "ServerAliveInterval=2", "-o", "ServerAliveCountMax=3")
    monkeypatch.setattr(over_ssh, "OPTIONS", soon)
    server = starts()
    measured.while_something_happens(server, lambda: server.hurt(signal.SIGSTOP))
    assert server.logins() == 2


def test_a_machine_that_is_away_for_a_while_is_waited_for(starts: Callable[..., Server], measured: Measured) -> None:
    server = starts()

    def restart() -> None:
        server.stop()
        time.sleep(9)  # longer than all pauses between attempts, had nobody any patience
        server.start()

    measured.while_something_happens(server, restart)
    assert server.logins() == 2
