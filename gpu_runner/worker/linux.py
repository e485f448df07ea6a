"""Calls of the Linux kernel that confine a process: namespaces, capabilities and user, Landlock, and a call filter."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import platform
import stat
import struct
import sys
import threading
from collections.abc import Generator, Iterable, Sequence
from pathlib import Path

libc = ctypes.CDLL(None, use_errno=True)
_PR_SET_KEEPCAPS, _PR_CAPBSET_DROP, _PR_SET_CHILD_SUBREAPER, _PR_CAP_AMBIENT = 8, 24, 36, 47
_AMBIENT_RAISE, _AMBIENT_CLEAR = 2, 4
_CAP_VERSION = 0x20080522
_CAP_DAC_READ_SEARCH, _CAP_LAST = 2, 63
_PR_GET_DUMPABLE, PR_SET_DUMPABLE = 3, 4
NEW_MOUNTS, NEW_IPC, _NEW_USER, _NEW_PROCESSES, _NEW_NETWORK = 0x20000, 0x8000000, 0x10000000, 0x20000000, 0x40000000
NOBODY = 65534


def succeeded(status: int, name: str) -> int:
    """Return what a call of the C library returned; raises OSError where that is an error."""
    if status < 0:
        raise OSError(ctypes.get_errno(), name)
    return status


def prctl(option: int, *values: int) -> None:
    succeeded(libc.prctl(option, *(ctypes.c_ulong(v) for v in (*values, 0, 0, 0, 0)[:4])), "prctl")


def unshare(flags: int) -> None:
    succeeded(libc.unshare(flags), "unshare")


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent dies, so that none gets away."""
    with contextlib.suppress(OSError):
        prctl(_PR_SET_CHILD_SUBREAPER, 1)


def end_of(pid: int) -> int:
    """Return a descriptor that can be read once the child has ended; it has yet to be waited for."""
    try:
        return os.pidfd_open(pid)
    except OSError as e:
        if e.errno != errno.ENOSYS:  # gVisor has none
            raise
    reading, writing = os.pipe()

    def wait() -> None:
        with contextlib.suppress(ChildProcessError):
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        # A byte, because other children hold this end open, too.
        with contextlib.suppress(OSError):
            os.write(writing, b".")
        os.close(writing)

    threading.Thread(target=wait, daemon=True).start()
    return reading


@contextlib.contextmanager
def children_in_own_pid_namespace(*, wanted: bool) -> Generator[bool]:
    """Give the one child forked inside a process namespace of its own, so that all it leaves behind dies with it.

    Yields whether that worked. This process leaves the namespace again, because it could start no thread meanwhile.
    """
    home = -1
    try:
        try:
            if wanted:
                home = os.open("/proc/self/ns/pid", os.O_RDONLY)
                _return(home)  # gVisor has no way back
                unshare(_NEW_PROCESSES)
        except OSError:
            wanted = False
        yield wanted
        if wanted:
            _return(home)
    finally:
        if home >= 0:
            os.close(home)


def _return(namespace: int) -> None:
    """Have children start in a process namespace that this process has been in."""
    succeeded(libc.setns(namespace, _NEW_PROCESSES), "setns")


def no_network() -> None:
    """Move to a network namespace without interfaces, with a user namespace's help where this is no superuser."""
    try:
        unshare(_NEW_NETWORK)
    except OSError:
        user, group = os.geteuid(), os.getegid()
        unshare(_NEW_USER | _NEW_NETWORK)
        _remain(user, group)


def _remain(user: int, group: int) -> None:
    """Have a new user namespace know this process's user, so that files in what is mounted there can be its own."""
    dumpable = libc.prctl(_PR_GET_DUMPABLE, 0, 0, 0, 0)
    prctl(PR_SET_DUMPABLE, 1)  # or these files are the superuser's
    try:
        for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
            Path(f"/proc/self/{name}").write_text(text)
    finally:
        prctl(PR_SET_DUMPABLE, dumpable)


def become_nobody(folders: Sequence[str], reads: Sequence[str]) -> None:
    """Change to the user nobody, who gets `folders`; raises OSError where this is no superuser.

    Where Python's files, the way to `folders`, or `reads` are not for everybody, the right to read files is kept.
    """
    if os.geteuid() != 0:
        raise OSError("not root")
    homes = {sys.prefix, sys.base_prefix, *(p for p in reads if p.startswith("/"))}
    homes |= {os.path.dirname(f) for f in folders}
    hidden = not all(_reachable_by_all(Path(h)) for h in homes)
    for path in folders:
        os.chown(path, NOBODY, NOBODY)
    if hidden:
        prctl(_PR_SET_KEEPCAPS, 1)
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)
    if hidden:
        _set_capabilities(1 << _CAP_DAC_READ_SEARCH)
        prctl(_PR_CAP_AMBIENT, _AMBIENT_RAISE, _CAP_DAC_READ_SEARCH)


def _reachable_by_all(path: Path) -> bool:
    ways = (p for p in (path, *path.parents) if p.exists())
    return all(p.stat().st_mode & (0o001 if p.is_dir() else 0o004) for p in ways)


def _set_capabilities(mask: int) -> None:
    header = struct.pack("<Ii", _CAP_VERSION, 0)
    low, high = mask & 0xFFFFFFFF, mask >> 32
    succeeded(libc.capset(header, struct.pack("<6I", low, low, low, high, high, high)), "capset")


def drop_capabilities(*, reading: bool) -> None:
    """Give up every capability for good, but that of reading files where `become_nobody` kept it; raises OSError."""
    with contextlib.suppress(OSError):
        for capability in range(_CAP_LAST):
            prctl(_PR_CAPBSET_DROP, capability)
    reads = 1 << _CAP_DAC_READ_SEARCH
    if _held() != reads or not reading:
        with contextlib.suppress(OSError):
            prctl(_PR_CAP_AMBIENT, _AMBIENT_CLEAR)
        _set_capabilities(0)
    if _held() & ~reads:
        raise OSError("capabilities are left")


def holds_none() -> bool:
    """Return whether this process has no capability, and none that it could take back."""
    status = Path("/proc/self/status").read_text()
    return not any(int(status.partition(f"{name}:")[2].split()[0], 16) for name in ("CapEff", "CapPrm", "CapInh"))


def _held() -> int:
    return int(Path("/proc/self/status").read_text().partition("CapEff:")[2].split()[0], 16)


# Landlock: which files a process and all that it starts may write to and read, and whom it may reach.
_CREATE, _ADD_RULE, _RESTRICT = 444, 445, 446
# All rights but executing, reading files and reading folders.
_WRITES_BY_ABI = {1: 0x1FF2, 2: 0x3FF2, 3: 0x7FF2, 4: 0x7FF2, 5: 0xFFF2}
_READS = 0x000D
_MOVES = 0x2000
"""Moving a file to another folder: what says nothing of it refuses it."""
_OF_FILES = 0xC007
"""Rights that a rule on a file may name: execute, write, read, truncate, device control."""
_TCP = 3
"""Bind and connect."""
_SCOPE_SOCKETS, _SCOPE_SIGNALS = 1, 2
"""Abstract sockets, and signals, that reach outside."""
SIGNALS_SINCE = 6
"""The version that knows signals."""


def restrict_files(writable: Sequence[str], readable: Sequence[str] | None = None, *, signals: bool = False) -> None:
    """Leave writable only `writable`, and readable only that and `readable`, if given; raises OSError.

    Also refuses TCP, abstract sockets and, unless `signals`, signals that reach outside, where the kernel knows how.
    """
    abi = landlock_version()
    writes = _WRITES_BY_ABI[min(abi, 5)]
    reads = _READS if readable is not None else 0
    scopes = _SCOPE_SOCKETS if signals else _SCOPE_SOCKETS | _SCOPE_SIGNALS
    with _entering_ruleset(abi, writes | reads, _TCP, scopes) as ruleset:
        for path in writable:
            _allow_path(ruleset, path, writes | reads)
        for path in readable or ():
            with contextlib.suppress(OSError):  # it is gone, or was never this user's to read
                _allow_path(ruleset, path, reads)


def restrict_signals() -> None:
    """Refuse signals to earlier processes, and mounts, from here on; raises OSError where the kernel cannot."""
    abi = landlock_version()
    if abi < SIGNALS_SINCE:
        raise OSError("this kernel's Landlock does not know signals")
    with _entering_ruleset(abi, _MOVES, 0, _SCOPE_SIGNALS) as ruleset:
        _allow_path(ruleset, "/", _MOVES)


def landlock_version() -> int:
    return succeeded(libc.syscall(_CREATE, None, 0, 1), "landlock")


@contextlib.contextmanager
def _entering_ruleset(abi: int, files: int, network: int, scopes: int) -> Generator[int]:
    """Make a ruleset, to which rules can be added, and restrict this process by it at the end."""
    attributes = struct.pack("<QQQ", files, network, scopes)[: 8 if abi < 4 else 16 if abi < 6 else 24]
    ruleset = succeeded(libc.syscall(_CREATE, attributes, len(attributes), 0), "landlock ruleset")
    try:
        yield ruleset
        succeeded(libc.syscall(_RESTRICT, ruleset, 0), "landlock restrict")
    finally:
        os.close(ruleset)


def _allow_path(ruleset: int, path: str, rights: int) -> None:
    handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        allowed = rights if stat.S_ISDIR(os.fstat(handle).st_mode) else rights & _OF_FILES
        rule = struct.pack("<Qi", allowed, handle)
        if allowed:
            succeeded(libc.syscall(_ADD_RULE, ruleset, 1, rule, 0), "landlock rule")
    finally:
        os.close(handle)


# A filter on system calls: what no kernel needs, and what would undo other protections.
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
    "memfd_secret": (447, 447),
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
    "msgget": (68, 186),
    "semget": (64, 190),
    "mq_open": (240, 180),
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
    "ioprio_set": (251, 30),
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
# These change how another process of the same user may go on, or end it by a limit. With these first arguments a
# caller changes itself.
_OF_ITSELF: dict[str, tuple[tuple[int, int], tuple[int, ...]]] = {
    "prlimit64": ((302, 261), (0,)),
    "sched_setparam": ((142, 118), (0,)),
    "sched_setscheduler": ((144, 119), (0,)),
    "sched_setattr": ((314, 274), (0,)),
    "setpriority": ((141, 140), (os.PRIO_PROCESS, 0)),
}
_FCNTL, _F_SETSIG = (72, 25), 10
_CLONE = (56, 220)
_PRCTL = (157, 167)
_CLONE3 = 435


def _instruction(code: int, value: int, yes: int = 0, no: int = 0) -> bytes:
    return struct.pack("<HBBI", code, yes, no, value)


def _refusals(numbers: Iterable[int], error: int) -> list[bytes]:
    return [s for n in numbers for s in (_instruction(_EQUAL, n, 0, 1), _instruction(_RETURN, _ERRNO | error))]


def _only_with(number: int, arguments: Sequence[int]) -> list[bytes]:
    """Return the steps that refuse a call unless its first arguments, two at most, are these."""
    places = (_FIRST_ARGUMENT, _SECOND_ARGUMENT)
    steps = [_instruction(_EQUAL, number, 0, 2 * len(arguments) + 2)]
    for count, (place, value) in enumerate(zip(places, arguments, strict=False), 1):
        steps += [_instruction(_LOAD, place), _instruction(_EQUAL, value, 0, 2 * (len(arguments) - count) + 1)]
    return [*steps, _instruction(_RETURN, _ALLOW), _instruction(_RETURN, _ERRNO | errno.EPERM)]


def filter_program(machine: str, *, count_memory: bool, stoppable: bool = False) -> bytes:
    """Return the filter as BPF instructions; raises OSError for a machine whose call numbers are not known here."""
    if machine not in _ARCHITECTURES:
        raise OSError(errno.ENOSYS, f"no filter for {machine}")
    column = 0 if machine == "x86_64" else 1
    counted = _UNCOUNTED_MEMORY | _SOCKETS if count_memory else {}
    calls = _FORBIDDEN | counted | (_TIMED_SIGNALS if stoppable else {})
    steps = [
        _instruction(_LOAD, _ARCHITECTURE),
        _instruction(_EQUAL, _ARCHITECTURES[machine], 1, 0),
        _instruction(_RETURN, _KILL),
        _instruction(_LOAD, _NUMBER),
    ]
    if machine == "x86_64":
        steps += [_instruction(_AT_LEAST, _X32, 0, 1), _instruction(_RETURN, _ERRNO | errno.ENOSYS)]
    steps += _refusals((n[column] for n in calls.values() if n[column] >= 0), errno.EPERM)
    # A filter cannot look into clone3's arguments; without it, libraries fall back to clone, where it can.
    steps += _refusals([_CLONE3], errno.ENOSYS)
    if stoppable:
        # Harmless programs begin sessions, too: these calls do nothing, and say that they have.
        steps += _refusals((n[column] for n in _GROUPS.values()), 0)
        steps += [
            _instruction(_EQUAL, _FCNTL[column], 0, 4),
            _instruction(_LOAD, _SECOND_ARGUMENT),
            _instruction(_EQUAL, _F_SETSIG, 0, 1),
            _instruction(_RETURN, _ERRNO | errno.EPERM),
            _instruction(_RETURN, _ALLOW),
        ]
    for numbers, arguments in _OF_ITSELF.values():
        steps += _only_with(numbers[column], arguments)
    # Neither may it ask for a new namespace, nor not to be killed with its parent any more.
    steps += [
        _instruction(_EQUAL, _CLONE[column], 0, 2),
        _instruction(_LOAD, _FIRST_ARGUMENT),
        _instruction(_ANY_BIT, _NEW_NAMESPACES, 5, 6),
        _instruction(_EQUAL, _PRCTL[column], 0, 5),
        _instruction(_LOAD, _FIRST_ARGUMENT),
        _instruction(_EQUAL, _PR_SET_PDEATHSIG, 0, 3),
        _instruction(_LOAD, _SECOND_ARGUMENT),
        _instruction(_EQUAL, _SIGKILL, 1, 0),
        _instruction(_RETURN, _ERRNO | errno.EPERM),
        _instruction(_RETURN, _ALLOW),
    ]
    return b"".join(steps)


class _Filter(ctypes.Structure):
    _fields_ = (("count", ctypes.c_ushort), ("steps", ctypes.c_char_p))


def filter_calls(*, count_memory: bool, stoppable: bool = False) -> None:
    """Filter this process's system calls from now on; needs no-new-privileges. Raises OSError where it cannot.

    `count_memory` also refuses what CUDA needs: sockets, and memory that no limit counts. `stoppable` keeps all that
    this process starts in its process group, and from going on by itself once it is stopped.
    """
    steps = filter_program(platform.machine(), count_memory=count_memory, stoppable=stoppable)
    described = _Filter(len(steps) // 8, steps)
    number = _SECCOMP[platform.machine()]
    succeeded(libc.syscall(number, _SET_FILTER, _ALLOW_SPECULATION, ctypes.byref(described)), "seccomp")
