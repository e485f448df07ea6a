"""Hide from a Python what only Linux has, for processes with this folder on their PYTHONPATH.

What a Mac's Python lacks is removed from the standard library; neither /proc nor /sys can be read.
"""

import fcntl
import os
import resource
import select
import signal
import socket
import sys
from typing import Any

# These look at the platform when they are imported, for what this Python was built with.
for early in ("asyncio", "multiprocessing.util", "ssl", "subprocess", "sysconfig", "urllib.request", "uuid"):
    __import__(early)
sys.modules["sysconfig"].get_config_vars()
sys.platform = "darwin"

_LINUX = {
    os: "sched_getaffinity sched_setaffinity memfd_create pidfd_open eventfd eventfd_read eventfd_write unshare setns "
    "getrandom splice copy_file_range posix_fadvise posix_fallocate setresuid setresgid getresuid getresgid waitid "
    "pipe2 O_PATH O_DIRECT O_NOATIME MFD_CLOEXEC MFD_ALLOW_SEALING getxattr setxattr listxattr P_PIDFD",
    signal: "pidfd_send_signal sigtimedwait sigwaitinfo SIGRTMIN SIGRTMAX SIGPWR SIGPOLL",
    socket: "SO_PEERCRED SOCK_CLOEXEC SOCK_NONBLOCK AF_NETLINK AF_VSOCK TCP_USER_TIMEOUT SO_PASSCRED",
    select: "epoll",
    resource: "prlimit RLIMIT_SIGPENDING RLIMIT_MSGQUEUE RLIMIT_NICE RLIMIT_RTPRIO RLIMIT_RTTIME RUSAGE_THREAD",
    fcntl: "F_ADD_SEALS F_GET_SEALS F_SETPIPE_SZ F_GETPIPE_SZ F_SEAL_SHRINK F_SEAL_GROW F_SEAL_SEAL F_NOTIFY",
}
_CALLS = ("prctl", "unshare", "setns", "mount", "memfd_create", "malloc_trim", "gettid")


def _refuse(path: object) -> None:
    if isinstance(path, (str, bytes, os.PathLike)) and os.fsdecode(path).startswith(("/proc", "/sys", "/dev/shm")):
        raise FileNotFoundError(2, "No such file or directory", os.fsdecode(path))


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if event in ("open", "os.listdir", "os.scandir"):
        _refuse(arguments[0])
    if event == "ctypes.dlsym" and arguments[1] in _CALLS:
        raise AttributeError(arguments[1])


def _stat(path: Any, *arguments: Any, **named: Any) -> os.stat_result:
    _refuse(path)
    return _real_stat(path, *arguments, **named)


for _module, _names in _LINUX.items():
    for _name in _names.split():
        vars(_module).pop(_name, None)
_real_stat, os.stat = os.stat, _stat
sys.addaudithook(_audit)
