"""Remote executors, opened by name as `--executor` takes it."""

from __future__ import annotations

from forewarp.core.errors import UsageError
from forewarp.core.values import Target
from forewarp.gpu_runner.devices import known_targets
from forewarp.gpu_runner.remote.executor import RemoteExecutor

KINDS = "local, ray, ray:ADDRESS, ssh:HOST"


def open_remote(name: str, device: str, python: str | None) -> RemoteExecutor:
    """Return the executor called "ray", "ray:ADDRESS" or "ssh:HOST"; `python` is a path on the machines that measure.

    Raises `UsageError` for another name, `DeviceError` where it cannot be reached.
    """
    kind, _, rest = name.partition(":")
    if kind == "ray":
        from forewarp.gpu_runner.remote.over_ray import open_ray

        return open_ray(rest, device, python=python)
    if kind == "ssh":
        from forewarp.gpu_runner.remote.over_ssh import open_ssh

        return open_ssh(rest, device, python=python)
    raise UsageError(f"executor {name!r} is unknown", hint=f"use {KINDS}")


def extent_of(name: str, device: str, python: str | None) -> tuple[Target, int]:
    """Return the device that `open_remote` would measure on, and how many of them there are.

    A GPU of a cluster is not taken where its card says what it is. Raises as `open_remote` does.
    """
    kind, _, rest = name.partition(":")
    if kind == "ray":
        from forewarp.gpu_runner.remote.over_ray import free_devices

        card, count = free_devices(rest, device)
        known = known_targets().get(card.lower())
        if known is not None:
            return known, max(1, count)
    executor = open_remote(name, device, python)
    try:
        return executor.target, executor.devices
    finally:
        executor.close()
