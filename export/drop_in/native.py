# pyright: reportUnusedFunction=false
"""Native code: compiled once by the system's compiler, kept in torch's folder of extensions, called through ctypes."""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

_SUFFIX = ".cpp"
_COMPILERS: Sequence[str] = ("$CXX", "g++", "clang++")
_FLAGS: Sequence[str] = ()
_AFTER: Sequence[str] = ()
_SOURCE = ""
_TYPES: Mapping[str, Any] = {
    "ptr": ctypes.c_void_p,
    **{"i32": ctypes.c_int32, "i64": ctypes.c_int64, "f32": ctypes.c_float, "f64": ctypes.c_double},
}


def _prepare(case: Mapping[str, Any], device: torch.device) -> Callable[[Mapping[str, torch.Tensor]], None]:
    """Compile for a case's constants and return a function of its buffers."""
    library = ctypes.CDLL(_compiled([f"-D{name}={value}" for name, value in case["defines"].items()]))
    steps: list[tuple[Any, Sequence[tuple[bool, Any]]]] = []
    for step in case["launches"]:
        function = getattr(library, step["kernel"])
        function.restype, function.argtypes = None, [_TYPES[kind] for kind, _ in step["args"]]
        steps.append((function, [(kind == "ptr", value) for kind, value in step["args"]]))

    def launch(buffers: Mapping[str, torch.Tensor]) -> None:
        for function, arguments in steps:
            function(*[buffers[value].data_ptr() if pointer else value for pointer, value in arguments])

    if device.type == "cpu":
        return launch

    def alone(buffers: Mapping[str, torch.Tensor]) -> None:
        """Launch from host code, which knows the default stream only."""
        with torch.cuda.device(device):
            torch.cuda.current_stream().synchronize()
            launch(buffers)
            torch.cuda.default_stream().synchronize()

    return alone


def _compiled(defines: Sequence[str]) -> str:
    """Return the path of the shared library; raises RuntimeError with the compiler's own words."""
    named = [os.environ.get(n[1:], "") if n.startswith("$") else n for n in _COMPILERS]
    compiler = next(filter(None, (shutil.which(n) for n in named if n)), None)
    if compiler is None:
        raise RuntimeError(f"none of {', '.join(_COMPILERS)} was found")
    options = [*_FLAGS, *defines]
    parts = "\0".join([_SOURCE, compiler, *options, *_AFTER, *_processor()])
    digest = hashlib.sha256(parts.encode()).hexdigest()[:24]
    folder = _folder()
    library = folder / f"kernel-{digest}.so"
    if not library.exists():
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            source = Path(scratch) / f"kernel{_SUFFIX}"
            source.write_text(_SOURCE)
            made = Path(scratch) / "kernel.so"
            command = [compiler, *options, str(source), "-o", str(made), *_AFTER]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise RuntimeError(f"{compiler} failed: {done.stderr.strip()[:2000]}")
            os.replace(made, library)
    return str(library)


def _folder() -> Path:
    """Return a folder of this user's own: torch's for extensions, or one that goes with the process's others."""
    base = os.environ.get("TORCH_EXTENSIONS_DIR") or os.path.expanduser("~/.cache/torch_extensions")
    for place in (Path(base) / "drop_in", None):
        try:
            if place is None:
                return Path(tempfile.mkdtemp(prefix="drop_in-"))
            place.mkdir(parents=True, exist_ok=True, mode=0o700)
            if place.stat().st_uid == os.getuid() and os.access(place, os.W_OK):
                with tempfile.TemporaryFile(dir=place):
                    return place
        except OSError:
            continue
    raise RuntimeError("no folder to compile in can be written")


def _processor() -> list[str]:
    """Return what tells processors apart, since the code is made for the one at hand."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            return sorted({line for line in file if line.startswith(("model name", "flags", "Features"))})
    except OSError:
        return []
