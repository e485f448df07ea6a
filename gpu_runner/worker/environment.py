"""The environment variables that may reach untrusted code: those of compilers and libraries, and no secrets."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

READABLE = "FOREWARP_READABLE"
"""The variable by which a user lets confined code read more: files and folders, separated as in PATH."""
_NAMES = (
    *("PATH", "HOME", "LANG", "TZ", "TMPDIR", "TEMP", "USER", "LOGNAME"),
    *("XDG_CACHE_HOME", "VIRTUAL_ENV", "CONDA_PREFIX"),
    *("LD_LIBRARY_PATH", "LIBRARY_PATH", "CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH"),
    *("CC", "CXX", "CUDACXX", "MAX_JOBS"),
    *(READABLE, "FOREWARP_UNPROTECTED"),
)
_PREFIXES = (
    *("LC_", "CUDA_", "NVIDIA_", "OMP_", "GOMP_", "KMP_", "MKL_", "OPENBLAS_"),
    *("TRITON_", "TORCH_", "TORCHINDUCTOR_", "PYTORCH_", "PYTHON"),
)
_SECRET = re.compile("KEY|TOKEN|SECRET|PASSW|CREDENTIAL")


def _may_pass(name: str) -> bool:
    return (name in _NAMES or name.startswith(_PREFIXES)) and not _SECRET.search(name)


def allowed(environment: Mapping[str, str]) -> dict[str, str]:
    passed = {name: value for name, value in environment.items() if _may_pass(name)}
    if READABLE in passed:  # relative to this process's folder, which is not where confined code begins
        passed[READABLE] = os.pathsep.join(map(os.path.abspath, named_readable(passed)))
    return passed


def begin_script() -> None:
    """Begin as a script of the user's would: no arguments, in the first folder that they let confined code read."""
    sys.argv[1:] = []  # scripts parse them, and the server's are not theirs
    folder = next(filter(os.path.isdir, named_readable(os.environ)), None)
    if folder is not None:
        with contextlib.suppress(OSError):
            os.chdir(folder)
    _load_data_here()


def _load_data_here() -> None:
    """Have every `DataLoader` load in this process: confined code has no memory to share with workers of its own."""
    from torch.utils.data import DataLoader

    iterator: Any = DataLoader._get_iterator  # pyright: ignore[reportPrivateUsage]

    def alone(self: Any) -> Any:
        self.num_workers = self.timeout = 0
        return iterator(self)

    DataLoader._get_iterator = alone  # pyright: ignore[reportPrivateUsage]


def named_readable(environment: Mapping[str, str]) -> list[str]:
    """Return the files and folders that the user lets confined code read."""
    return [path for path in environment.get(READABLE, "").split(os.pathsep) if path]


def use_folder(folder: str) -> None:
    """Have libraries and compilers write to `folder` what they would put in the home or in the temporary folder."""
    os.environ |= {"HOME": folder, "TMPDIR": folder, "TRITON_CACHE_DIR": f"{folder}/triton"}
    # torch sets it for good where it is first asked for, which may be in the process that this one was forked from.
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = f"{folder}/inductor"
    # Who asks for it would look into /etc/passwd, which is not to be read.
    os.environ |= {"USER": "nobody", "LOGNAME": "nobody"}
    tempfile.tempdir = folder  # somebody may have asked for it already


def is_clean() -> bool:
    """Return whether no other variable is left to this process and what it starts."""
    return all(_may_pass(name) for name in os.environ)


def scrub() -> None:
    """Remove all other variables from this process; raises OSError if its memory still holds what it started with."""
    for name in [n for n in os.environ if not _may_pass(n)]:
        del os.environ[name]
    started: list[str] = []
    with contextlib.suppress(OSError):
        started = [e.partition("=")[0] for e in Path("/proc/self/environ").read_text(errors="replace").split("\0")]
    if any(n and not _may_pass(n) for n in started):
        raise OSError("this process was started with other variables, and still holds them")
