"""One machine over ssh: `--executor ssh:HOST`. Nothing has to be installed there but ssh, Python and torch."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Final

from forewarp.cluster.remote import RemoteExecutor
from forewarp.core.errors import UsageError
from forewarp.gpu_runner.agent import bootstrap
from forewarp.gpu_runner.agent.link import Link

OPTIONS: Final = (
    # No question can be answered, and a connection that went silent has to end: after 45 s without a sign.
    *("-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=20"),
    *("-o", "ServerAliveInterval=15", "-o", "ServerAliveCountMax=3"),
)


def open_ssh(host: str, device: str, *, python: str | None = None, cache: Path | None = None) -> RemoteExecutor:
    """Return the executor of a host, as ssh knows it (its configuration gives port, user and keys).

    `python` is the one there that has torch, python3 if left out. Raises `DeviceError` where no agent starts.
    """
    if not host or host.startswith("-"):
        raise UsageError(f"ssh:{host} names no host", hint="write --executor ssh:HOST, as in `ssh HOST`")
    package = bootstrap.package()
    far = " ".join(shlex.quote(part) for part in bootstrap.command(python or "python3", package))
    command = ["ssh", *OPTIONS, host, f"exec {far}"]
    return RemoteExecutor(lambda: Link(command, package), {"device": device}, where=f"{host} (over ssh)", cache=cache)
