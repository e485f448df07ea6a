"""The files that confined code may read: Python with packages, compilers with headers and libraries, CUDA, the system.

Where Python or a compiler lies in the user's home, only its own part of it is among them.
"""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
import tempfile
from collections.abc import Iterator, Mapping
from functools import lru_cache
from importlib.machinery import PathFinder
from pathlib import Path

import forewarp
from forewarp.gpu_runner.worker.environment import named_readable
from forewarp.gpu_runner.worker.mounts import links_on, outermost

_SYSTEM = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/gnu/store"),
    *("/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/ld.so.preload", "/etc/alternatives"),
    *("/etc/localtime", "/etc/timezone", "/etc/locale.alias", "/etc/locale.conf", "/etc/os-release"),
    *("/etc/ssl/openssl.cnf", "/etc/pki/tls/openssl.cnf", "/etc/crypto-policies"),
    # Of other processes, it shows names and sizes, but neither memory nor variables: see `protections`.
    "/proc",
    *("/sys/devices", "/sys/bus", "/sys/class", "/sys/fs/cgroup", "/sys/module", "/sys/kernel/mm"),
    *("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"),
)
_CUDA = ("/dev/shm", "/etc/nvidia", "/run/nvidia-persistenced", "/run/nvidia-fabricmanager", "/tmp/nvidia-mps")
_TOOLS = ("gcc", "g++", "clang", "clang++", "ld", "as", "nvcc", "ninja", "objdump", "addr2line")
_PACKAGES = ("torch", "triton", "numpy", "nvidia")


@lru_cache(maxsize=2)
def readable(device: str) -> tuple[str, ...]:
    """Return the files and folders, without links, that code for `device` may read; call it before forking."""
    return tuple(outermost(_named(device)))


@lru_cache(maxsize=2)
def links(device: str) -> Mapping[str, str]:
    """Return the symbolic links by which `readable` is reached: where each lies, and its text."""
    return links_on([*_named(device), "/dev/fd", "/dev/stdin", "/dev/stdout", "/dev/stderr"])


def _named(device: str) -> list[str]:
    paths = [*_SYSTEM, *_python(), *_compilers()]
    if device == "cuda":
        paths += [*_CUDA, *sorted(str(p) for p in Path("/dev").glob("nvidia*"))]
    paths = [*(p for p in paths if not private(p)), *named_readable(os.environ)]
    return [p for p in paths if p.startswith("/")]


def _python() -> Iterator[str]:
    """Yield where Python, its packages and this one lie; of the path of imports, only what holds torch and the like."""
    yield from (p for prefix in {sys.prefix, sys.base_prefix, sys.exec_prefix} for p in _whole_or_parts(prefix))
    yield from (sysconfig.get_path(k) for k in ("stdlib", "platstdlib", "purelib", "platlib", "include"))
    yield str(sysconfig.get_config_var("LIBDIR") or "")
    yield os.path.realpath(sys.executable)
    for entry in sys.path:
        if os.path.basename(entry) in ("site-packages", "dist-packages") or any(
            os.path.isdir(os.path.join(entry, p)) for p in _PACKAGES if entry
        ):
            yield entry
    for name in _PACKAGES:
        spec = PathFinder.find_spec(name)
        yield from spec.submodule_search_locations or () if spec is not None else ()
        if spec is not None and spec.origin is not None and os.path.islink(spec.origin):
            # File by file, as by uv's `--link-mode=symlink`: to where packages are kept, each in a folder of its own.
            yield str(Path(os.path.realpath(spec.origin)).parents[2])
    # Packages may be links to elsewhere, and this one's rooms are.
    for name, module in list(sys.modules.items()):
        if "." not in name:
            yield from getattr(module, "__path__", ())
    yield from (str(room) for home in forewarp.__path__ for room in Path(home).iterdir() if room.is_dir())


def _whole_or_parts(prefix: str) -> Iterator[str]:
    """Yield a prefix; of one that is the user's home, or holds it, only what an installation puts there."""
    if private(prefix):
        yield from (os.path.join(prefix, part) for part in ("bin", "include", "lib", "lib64", "libexec"))
    else:
        yield prefix


def _compilers() -> Iterator[str]:
    names = (*(os.environ.get(v, "") for v in ("CC", "CXX", "CUDACXX")), *_TOOLS)
    for path in filter(None, (shutil.which(n) for n in names if n)):
        real = os.path.realpath(path)
        yield from (path, real)
        if os.path.basename(os.path.dirname(real)) == "bin":
            yield from _whole_or_parts(os.path.dirname(os.path.dirname(real)))
    yield from (os.environ.get(v, "") for v in ("CUDA_HOME", "CUDA_PATH"))
    yield "/usr/local/cuda"
    for variable in ("LD_LIBRARY_PATH", "LIBRARY_PATH", "CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH"):
        yield from os.environ.get(variable, "").split(os.pathsep)


def private(path: str) -> bool:
    """Return whether a folder is the root, somebody's home or one that all users share, or holds one of these."""
    real = Path(os.path.realpath(path))
    shared = (os.path.expanduser("~"), tempfile.gettempdir(), "/root", "/home", "/tmp", "/var/tmp")
    folders = {Path(os.path.realpath(folder)) for folder in shared}
    return any(real == folder or real in folder.parents for folder in folders) or real.parent == Path("/home")
