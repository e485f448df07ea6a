"""Precompiled headers for torch extensions, made once for each torch and compiler, before the first that needs them."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import threading
from collections.abc import Mapping
from pathlib import Path

from forewarp.core.values import Target
from forewarp.gpu_runner import child
from forewarp.gpu_runner.compilers.extension import settings
from forewarp.gpu_runner.worker.environment import allowed

TIMEOUT_S = 300


class Headers:
    """The folder of precompiled headers of one Python. Safe to use from several threads and processes."""

    def __init__(self, python: str, target: Target, folder: Path) -> None:
        """`folder` is read by compile jobs, and written to only by a process that runs no candidate."""
        self._python, self._target, self._folder = python, target, folder
        self._lock = threading.Lock()
        self._ready: bool | None = None

    def get(self, versions: Mapping[str, str]) -> Path | None:
        """Return the folder, with the headers made; None where there are none, and builds go without.

        The first call takes the seconds that making them does. `versions` are the compilers' and torch's.
        """
        if self._target.kind != "cuda":
            return None
        with self._lock:
            if self._ready is None:
                self._ready = self._make(self._folder / f"{self._key(versions)}.json")
        return self._folder if self._ready else None

    def _key(self, versions: Mapping[str, str]) -> str:
        compiler = Path(shutil.which(os.environ.get("CXX", "c++")) or "c++").resolve()
        seen = compiler.stat().st_mtime_ns if compiler.exists() else 0
        nvcc = shutil.which("nvcc") or ""
        parts = [self._python, sorted(versions.items()), str(compiler), seen, nvcc, settings.HEADERS_VERSION]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:24]

    def _make(self, note: Path) -> bool:
        """Have them made unless `note` says what came of it; a torch without CUDA is not asked twice."""
        try:
            if note.exists():
                return bool(json.loads(note.read_text())["made"])
            archs = settings.arch_list(self._target)
            done = subprocess.run(
                child.command(
                    self._python,
                    "forewarp.gpu_runner.compilers.extension.precompiled",
                    *(str(self._folder), archs),
                ),
                env=child.environment(allowed(os.environ)),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=TIMEOUT_S,
                check=False,
            )
            self._folder.mkdir(parents=True, exist_ok=True)
            note.write_text(json.dumps({"made": done.returncode == 0, "log": done.stderr[-4000:]}))
        except (OSError, subprocess.TimeoutExpired, ValueError):
            return False
        return done.returncode == 0
