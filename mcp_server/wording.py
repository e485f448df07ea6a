"""Texts of the engine in the words of this face: tools have arguments, the command line has flags."""

from __future__ import annotations

import re

_FLAG = re.compile(r"--([a-z][a-z0-9]*(?:-[a-z0-9]+)*)")
_ARGUMENTS = {
    **{name: name for name in ("task", "device", "target", "against", "model", "forecaster", "tunables")},
    **{name: name for name in ("language", "check", "args", "seed", "budget", "max_usd", "max_tokens")},
    **{name: name for name in ("top", "call", "compile", "line", "format")},
    **{name: f"{name} of `forewarp export`" for name in ("backward", "name")},
    "allow_tf32": "allow_tf32",
    "gradients": "gradients",
    "max_gpu_seconds": "max_gpu_seconds",
    "seed_kernel": "seed_kernels",
    "deadline": "deadline_s",
    "run": "run_id",
    "size": "other constants in the task's file",
}
_OPERATORS = ("archive", "base_url", "card", "executor", "forecast_model", "pool", "python", "unprotected", "workspace")


def in_arguments(text: str) -> str:
    """Return a text with the names of arguments in place of flags; commands between backticks stay as they are."""
    parts = text.split("`")
    parts[::2] = [_FLAG.sub(_named, part) for part in parts[::2]]
    return "`".join(parts)


def _named(flag: re.Match[str]) -> str:
    name = flag[1].replace("-", "_")
    if name in _OPERATORS:
        return f"{name.replace('_', ' ')} (the server's own)"
    return _ARGUMENTS.get(name, flag[0])
