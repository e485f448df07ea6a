"""From the name of an executor, as `--executor` takes it, to the executor."""

from __future__ import annotations

from forewarp.cluster.remote import RemoteExecutor
from forewarp.core.errors import UsageError

KINDS = "local, ray, ray:ADDRESS, ssh:HOST"


def open_remote(name: str, device: str, python: str | None) -> RemoteExecutor:
    """Return the executor called "ray", "ray:ADDRESS" or "ssh:HOST"; `python` is a path on the machines that measure.

    Raises `UsageError` for another name, `DeviceError` where it cannot be reached.
    """
    kind, _, rest = name.partition(":")
    if kind == "ray":
        from forewarp.cluster.over_ray import open_ray

        return open_ray(rest, device, python=python)
    if kind == "ssh":
        from forewarp.cluster.over_ssh import open_ssh

        return open_ssh(rest, device, python=python)
    raise UsageError(f"executor {name!r} is unknown", hint=f"use {KINDS}")
