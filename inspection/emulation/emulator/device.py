"""The emulated device as an object file, kept for each version of its source and of the compiler."""

from __future__ import annotations

import contextlib
import hashlib
import os
import subprocess
import tempfile
from pathlib import Path

from forewarp.gpu_runner.compilers.process import CompileError, run_compiler

NATIVE = Path(__file__).parent / "native"
_PARTS = ("runtime.cpp", "memory.cpp", "main.cpp")
_FLAGS = ("-std=c++17", "-O2", "-g1")
_TIMEOUT_S = 60.0
_DIGEST = hashlib.sha256().digest_size


def provide(compiler: str, path: Path, cache: Path) -> None:
    """Write the device to `path`, from the cache where a sound one is there; raises `CompileError`.

    Call it outside of what a candidate can write to. A cache that cannot be read or written costs time, nothing else.
    """
    kept = cache / _key(compiler)
    compiled = _read(kept)
    if compiled is None:
        command = [compiler, *_FLAGS, "-r", "-nostdlib", *(str(NATIVE / p) for p in _PARTS), "-o", path.name]
        run_compiler(command, path.parent, "the compiler", _TIMEOUT_S)
        with contextlib.suppress(OSError):
            _write(kept, path.read_bytes())
    else:
        path.write_bytes(compiled)


def keep(compiler: str, folder: Path, cache: Path) -> None:
    """Have the device in the cache, where that can be done; `folder` is for the work."""
    with contextlib.suppress(CompileError, OSError):
        provide(compiler, folder / "device.o", cache)


def _key(compiler: str) -> str:
    try:
        version = subprocess.run(
            [compiler, "--version"], capture_output=True, stdin=subprocess.DEVNULL, timeout=_TIMEOUT_S, check=False
        ).stdout
    except (OSError, subprocess.TimeoutExpired) as e:
        raise CompileError(f"{compiler} does not tell its version: {e}") from None
    digest = hashlib.sha256(repr((compiler, version, _FLAGS, _PARTS)).encode())
    for path in sorted(p for p in NATIVE.iterdir() if p.is_file()):
        digest.update(repr((path.name, path.read_bytes())).encode())
    return digest.hexdigest()


def _read(kept: Path) -> bytes | None:
    """Return what is kept, which follows its digest; None if it is not there or damaged."""
    try:
        data = kept.read_bytes()
    except OSError:
        return None
    digest, compiled = data[:_DIGEST], data[_DIGEST:]
    return compiled if hashlib.sha256(compiled).digest() == digest else None


def _write(kept: Path, compiled: bytes) -> None:
    """Put a file in place whole, whoever else does so at the same time."""
    kept.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=kept.parent, prefix="device-", delete=False) as file:
        part = Path(file.name)
        try:
            file.write(hashlib.sha256(compiled).digest() + compiled)
            file.flush()
            os.replace(part, kept)
        except OSError:
            part.unlink(missing_ok=True)
            raise
