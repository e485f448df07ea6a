"""A filter on system calls for confined processes: what no kernel needs, and what would undo other protections."""

from __future__ import annotations

import ctypes
import errno
import platform
import struct
from collections.abc import Iterable

_libc = ctypes.CDLL(None, use_errno=True)
_SECCOMP = {"x86_64": 317, "aarch64": 277}
# Without the flag, older kernels also turn off a speculation that makes code fast.
_SET_FILTER, _ALLOW_SPECULATION = 1, 4
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_KILL, _ERRNO, _ALLOW = 0x80000000, 0x00050000, 0x7FFF0000
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT, _SECOND_ARGUMENT = 0, 4, 16, 24
_X32 = 0x40000000
# New mount, cgroup, uts, ipc, user, process and network namespaces.
_NEW_NAMESPACES = 0x7E020000
_PR_SET_PDEATHSIG, _SIGKILL = 1, 9

_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
# Numbers on x86-64 and on arm64; -1 where there is no such call.
_FORBIDDEN: dict[str, tuple[int, int]] = {
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "kcmp": (312, 272),
    "pidfd_getfd": (438, 438),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "move_mount": (429, 429),
    "open_tree": (428, 428),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "unshare": (272, 97),
    "setns": (308, 268),
    "open_by_handle_at": (304, 265),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "reboot": (169, 142),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "clock_adjtime": (305, 266),
    "adjtimex": (159, 171),
    "acct": (163, 89),
    "quotactl": (179, 60),
    "syslog": (103, 116),
    "iopl": (172, -1),
    "ioperm": (173, -1),
}
# Memory that no limit on a process's address space counts.
_UNCOUNTED_MEMORY: dict[str, tuple[int, int]] = {"memfd_create": (319, 279), "shmget": (29, 194)}
# No namespace hides services that are reached by a path: Docker's, the desktop's. CUDA needs sockets of its own.
_SOCKETS: dict[str, tuple[int, int]] = {"socket": (41, 198)}
# With these a process could be out of reach when its group is stopped.
_GROUPS: dict[str, tuple[int, int]] = {"setpgid": (109, 154), "setsid": (112, 157)}
# With these a stopped process could have itself sent the signal to go on.
_TIMED_SIGNALS: dict[str, tuple[int, int]] = {"timer_create": (222, 107), "mq_notify": (244, 184)}
_FCNTL, _F_SETSIG = (72, 25), 10
_CLONE = (56, 220)
_PRCTL = (157, 167)
_CLONE3 = 435


def _step(code: int, value: int, yes: int = 0, no: int = 0) -> bytes:
    return struct.pack("<HBBI", code, yes, no, value)


def _refuse(numbers: Iterable[int], error: int) -> list[bytes]:
    return [s for n in numbers for s in (_step(_EQUAL, n, 0, 1), _step(_RETURN, _ERRNO | error))]


def program(machine: str, *, count_memory: bool, stoppable: bool = False) -> bytes:
    """Return the filter as BPF instructions; raises OSError for a machine whose call numbers are not known here."""
    if machine not in _ARCHITECTURES:
        raise OSError(errno.ENOSYS, f"no filter for {machine}")
    column = 0 if machine == "x86_64" else 1
    counted = _UNCOUNTED_MEMORY | _SOCKETS if count_memory else {}
    calls = _FORBIDDEN | counted | (_TIMED_SIGNALS if stoppable else {})
    steps = [
        _step(_LOAD, _ARCHITECTURE),
        _step(_EQUAL, _ARCHITECTURES[machine], 1, 0),
        _step(_RETURN, _KILL),
        _step(_LOAD, _NUMBER),
    ]
    if machine == "x86_64":
        steps += [_step(_AT_LEAST, _X32, 0, 1), _step(_RETURN, _ERRNO | errno.ENOSYS)]
    steps += _refuse((n[column] for n in calls.values() if n[column] >= 0), errno.EPERM)
    # A filter cannot look into clone3's arguments; without it, libraries fall back to clone, where it can.
    steps += _refuse([_CLONE3], errno.ENOSYS)
    if stoppable:
        # Harmless programs begin sessions, too: these calls do nothing, and say that they have.
        steps += _refuse((n[column] for n in _GROUPS.values()), 0)
        steps += [
            _step(_EQUAL, _FCNTL[column], 0, 4),
            _step(_LOAD, _SECOND_ARGUMENT),
            _step(_EQUAL, _F_SETSIG, 0, 1),
            _step(_RETURN, _ERRNO | errno.EPERM),
            _step(_RETURN, _ALLOW),
        ]
    # Neither may it ask for a new namespace, nor not to be killed with its parent any more.
    steps += [
        _step(_EQUAL, _CLONE[column], 0, 2),
        _step(_LOAD, _FIRST_ARGUMENT),
        _step(_ANY_BIT, _NEW_NAMESPACES, 5, 6),
        _step(_EQUAL, _PRCTL[column], 0, 5),
        _step(_LOAD, _FIRST_ARGUMENT),
        _step(_EQUAL, _PR_SET_PDEATHSIG, 0, 3),
        _step(_LOAD, _SECOND_ARGUMENT),
        _step(_EQUAL, _SIGKILL, 1, 0),
        _step(_RETURN, _ERRNO | errno.EPERM),
        _step(_RETURN, _ALLOW),
    ]
    return b"".join(steps)


class _Program(ctypes.Structure):
    _fields_ = (("count", ctypes.c_ushort), ("steps", ctypes.c_char_p))


def install(*, count_memory: bool, stoppable: bool = False) -> None:
    """Filter this process's system calls from now on; needs no-new-privileges. Raises OSError where it cannot.

    `count_memory` also refuses what CUDA needs: sockets, and anonymous files and System V segments, whose memory no
    limit counts.
    `stoppable` keeps all that this process starts in its process group, and from going on by itself once it is stopped.
    """
    steps = program(platform.machine(), count_memory=count_memory, stoppable=stoppable)
    described = _Program(len(steps) // 8, steps)
    number = _SECCOMP[platform.machine()]
    if _libc.syscall(number, _SET_FILTER, _ALLOW_SPECULATION, ctypes.byref(described)) != 0:
        raise OSError(ctypes.get_errno(), "seccomp")
