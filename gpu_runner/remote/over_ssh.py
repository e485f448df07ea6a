"""One machine over ssh: `--executor ssh:HOST`. Nothing has to be installed there but ssh, Python and torch."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Final

from forewarp.core.errors import UsageError
from forewarp.gpu_runner.remote.executor import RemoteExecutor
from forewarp.gpu_runner.remote.far_end import bootstrap
from forewarp.gpu_runner.remote.far_end.link import NO_AGENT, Link

OPTIONS: Final = (
    # No question can be answered, and a connection that went silent has to end: after 45 s without a sign.
    *("-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=20"),
    *("-o", "ServerAliveInterval=15", "-o", "ServerAliveCountMax=3"),
)
START_S: Final = 180.0
"""Longest time from starting ssh to an agent that answers; its code is a third of a megabyte."""
AGAIN_S: Final = 120.0
"""Longest time to try to reach a lost machine again: a network comes back within it."""

_ADVICE: Final = (
    ("REMOTE HOST IDENTIFICATION HAS CHANGED", "find out why; where all is well, `ssh-keygen -R` forgets its old key"),
    ("Host key verification failed", "run `ssh {host}` once and accept the key of that machine"),
    ("Too many authentication failures", "name the one key it accepts: IdentityFile, IdentitiesOnly in ~/.ssh/config"),
    (
        r"Permission denied \(",
        "no key was accepted, and nobody can type a password: `ssh-copy-id {host}`, or name a key in ~/.ssh/config; "
        "one with a passphrase has to be in an agent (`ssh-add`)",
    ),
    ("Could not resolve hostname", "name it as you would in `ssh HOST`: an address, or a Host of ~/.ssh/config"),
    ("Connection refused", "nothing listens there: start its ssh server, or name the port, ssh:HOST:PORT"),
    ("timed out|No route to host|unreachable", "`ssh {host}` has to work: is the machine up, and its network?"),
    (r"^ssh: No such file", "install the OpenSSH client on this machine"),
    ("has no (torch|numpy)", "install torch and numpy there, or pass --python PATH of a Python there that has both"),
    ("forewarp needs Python", "pass --python PATH of a newer one there"),
    (f"not found|No such file|Permission denied|{NO_AGENT}|^it ended", "pass --python PATH of a Python 3.11 there"),
)
"""Advice by pattern, matched to the messages of ssh, a shell or the remote Python; the first match counts."""


def open_remote(name: str, device: str, python: str | None) -> RemoteExecutor:
    """Return the executor called "ssh:HOST", as `--executor` takes it; raises `UsageError` for another name."""
    kind, _, host = name.partition(":")
    if kind != "ssh":
        raise UsageError(f"executor {name!r} is unknown", hint="use local, or ssh:HOST for another machine")
    return open_ssh(host, device, python=python)


def open_ssh(host: str, device: str, *, python: str | None = None, cache: Path | None = None) -> RemoteExecutor:
    """Return the executor of HOST or HOST:PORT, as ssh knows it, with a `python` there that has torch.

    Raises `UsageError` where no host is named, `DeviceError` where no agent starts.
    """
    where = destination(host)
    package = bootstrap.package()
    far = " ".join(shlex.quote(part) for part in bootstrap.command(python or "python3", package))
    command = ["ssh", *OPTIONS, *where, f"exec {far}"]
    return RemoteExecutor(
        lambda: Link(command, package, patience_s=START_S),
        {"device": device},
        where=f"{host} (over ssh)",
        cache=cache,
        patience_s=AGAIN_S,
        advise=lambda message: advice(message, " ".join(where)),
    )


def destination(host: str) -> list[str]:
    """Return the arguments that lead ssh to HOST or HOST:PORT, an IPv6 address with a port in brackets."""
    named = re.fullmatch(r"(?P<host>[^:\[\]]+|(?:[^:@\[\]]+@)?\[[^\[\]]+\]):(?P<port>\d+)", host)
    bare = (named["host"] if named else host).replace("[", "").replace("]", "")
    if not bare or bare.startswith("-") or re.fullmatch(r":\d*", bare):
        raise UsageError(f"ssh:{host} names no host", hint="write --executor ssh:HOST, as in `ssh HOST`")
    return ["-p", named["port"], bare] if named else [bare]


def advice(message: str, host: str) -> str:
    for pattern, advised in _ADVICE:
        if re.search(pattern, message, re.MULTILINE):
            return advised.format(host=host)
    return ""
