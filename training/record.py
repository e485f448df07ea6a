"""Record of a training run, written beside its result: versions, the device, and the pools' contents."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from typing import Any

from forewarp.archive.pools import parquet
from forewarp.core.errors import UsageError
from forewarp.training.config import Config

_PACKAGES = ("forewarp", "torch", "transformers", "trl", "peft", "datasets", "accelerate", "vllm")


def claim(config: Config, text: str, out: Path) -> None:
    """Write the run's file and what it is made with, or refuse a folder of another run, or of other data.

    Raises `UsageError`.
    """
    path, beside = out / "config.toml", out / "made_with.json"
    if path.exists() and path.read_text(encoding="utf-8") != text:
        raise UsageError(f"{out} holds another run", hint="pass an empty folder, or go on with that run's config.toml")
    found = made_with(config)
    if beside.exists() and json.loads(beside.read_text(encoding="utf-8"))["pools"] != found["pools"]:
        raise UsageError(
            f"the pools are not what {out} was begun with",
            hint="bring them back, or begin a new run in another folder; made_with.json has their digests",
        )
    path.write_text(text, encoding="utf-8")
    beside.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def made_with(config: Config) -> dict[str, Any]:
    """Return versions, the device, and the sha256 of each file of the pools."""
    return {
        "versions": dict(_versions()),
        "python": platform.python_version(),
        "device": _device(),
        "pools": {
            str(file): _digest(file) for path in config.data.pools for file in parquet.files_of(Path(path).expanduser())
        },
    }


def _versions() -> Iterable[tuple[str, str]]:
    for name in _PACKAGES:
        try:
            yield name, metadata.version(name)
        except metadata.PackageNotFoundError:
            continue


def _device() -> str:
    import torch

    return torch.cuda.get_device_name() if torch.cuda.is_available() else platform.processor() or platform.machine()


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
