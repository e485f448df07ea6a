"""Try what confines strangers' code where it may have to run: as root, as a user, in containers, on older kernels.

    python benchmarks/protections.py --out benchmarks/results/protections.json

Needs root, because it takes rights away, gVisor (`runsc`), and Docker with an image that holds nothing
(`tar -c -T /dev/null | docker import - empty`): what a container shows is this system. What is not there is imitated,
and labelled so: a seccomp filter refuses the system calls that the place does not have. `docs/trust.md` shows the
results; `benchmarks/trust.py --table` writes it.
"""

from __future__ import annotations

import argparse
import ctypes
import errno
import json
import os
import struct
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "src")]

from provenance import write  # noqa: E402

from forewarp.gpu_runner.worker.least import missing  # noqa: E402

_LIBC = ctypes.CDLL(None, use_errno=True)
LANDLOCK, SECCOMP = (444, 445, 446), 317
_USER = ("setpriv", "--reuid=1234", "--regid=1234", "--clear-groups", "--bounding-set=-all", "--inh-caps=-all")
_GVISOR = ("runsc", "--network=none", "--platform=ptrace", "--ignore-cgroups", "do")
_ADMIN = ("--cap-add", "SYS_ADMIN", "--security-opt", "seccomp=unconfined")
IMAGE = "empty"
# A user has to reach Python also where it lies in root's home: it is shown alone there, in mounts of our own.
_REACH = """
set -e; home=$1; python=$2; shift 2
mount -t tmpfs -o mode=755 tmpfs /mnt && mkdir -p "/mnt/$python" && mount --bind "$home/$python" "/mnt/$python"
mount --rbind /mnt "$home" && exec "$@"
"""


@dataclass(frozen=True)
class Place:
    """Environment that code runs in: `around` are the commands that enter it, before and after the refusal of calls.

    `docker` are the options of a container. `refused` are the numbers of calls that do not exist there (ENOSYS).
    `alone` is in a user namespace that allows no other. `imitated` says that the place itself is not here.
    """

    name: str
    around: tuple[str, ...] = ()
    within: tuple[str, ...] = ()
    docker: tuple[str, ...] | None = None
    refused: tuple[int, ...] = ()
    alone: bool = False
    imitated: bool = False


PLACES = (
    Place("root"),
    Place("a user", within=_USER),
    Place("a user, user namespaces forbidden", within=_USER, alone=True),
    Place("root, Landlock missing", refused=LANDLOCK, imitated=True),
    Place("a user, Landlock missing", within=_USER, refused=LANDLOCK, imitated=True),
    Place("root, seccomp missing", refused=(SECCOMP,), imitated=True),
    Place("a user, seccomp missing", within=_USER, refused=(SECCOMP,), imitated=True),
    Place(
        "a user, seccomp missing, user namespaces forbidden",
        within=_USER,
        refused=(SECCOMP,),
        alone=True,
        imitated=True,
    ),
    Place("Docker, root", docker=()),
    Place("Docker, --user", docker=("--user", "1234:1234")),
    Place("Docker, root, --cap-add SYS_ADMIN, seccomp=unconfined", docker=_ADMIN),
    Place("Docker, root, Landlock missing", docker=(), refused=LANDLOCK, imitated=True),
    Place("gVisor, root", _GVISOR),
    Place("gVisor, a user", _GVISOR, _USER),
)
NOT_TRIED = ("Linux 5.13 to 6.11: Landlock without signals",)

DESCRIBE = """
import sys
from forewarp.core.errors import ForewarpError
from forewarp.core.values import Task, Workload
from forewarp.gpu_runner.devices import choose
from forewarp.gpu_runner.executors.local import LocalExecutor
executor = LocalExecutor(choose("cpu"))
reference = '''
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return x + 1
def get_inputs():
    return [torch.randn(8)]
def get_init_inputs():
    return []
'''
try:
    executor.describe(Task("t", "", reference, {"cpu": (Workload("one"),)}))
    print("run")
except ForewarpError as e:
    print(e.code)
finally:
    executor.close()
"""


def forbid(place: Place) -> None:
    """Refuse this process, and what it starts, the system calls that the place does not have, and new privileges."""
    load, equal, give, allow = 0x20, 0x15, 0x06, 0x7FFF0000

    def step(code: int, value: int, yes: int = 0, no: int = 0) -> bytes:
        return struct.pack("<HBBI", code, yes, no, value)

    steps = [step(load, 0)]
    for call in place.refused:
        steps += [step(equal, call, 0, 1), step(give, 0x00050000 | errno.ENOSYS)]
    steps.append(step(give, allow))
    program = b"".join(steps)
    text = ctypes.create_string_buffer(program, len(program))
    described = ctypes.create_string_buffer(struct.pack("<HxxxxxxQ", len(steps), ctypes.addressof(text)))
    _LIBC.prctl(38, 1, 0, 0, 0)
    if _LIBC.prctl(22, 2, described, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"no filter for {place.name}")


def forbid_namespaces() -> None:
    """Go on in a user namespace in which there may be no other; its own root is root."""
    ready, go = os.pipe(), os.pipe()
    pid = os.fork()
    if pid:
        os.read(ready[0], 1)
        for name in ("uid_map", "gid_map"):
            Path(f"/proc/{pid}/{name}").write_text("0 0 5000")
        os.write(go[1], b"1")
        os._exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    if _LIBC.unshare(0x10000000) != 0:
        raise OSError(ctypes.get_errno(), "no user namespace")
    os.write(ready[1], b"1")
    os.read(go[0], 1)
    Path("/proc/sys/user/max_user_namespaces").write_text("0")


def inside(place: Place, command: Sequence[str]) -> None:
    """Become a command in the place; never returns."""
    if place.alone:
        forbid_namespaces()
    if place.refused:
        forbid(place)
    words = [*place.within, *command]
    os.execvp(words[0], words)


def run(place: Place, folder: Path, *command: str) -> str:
    """Return what a Python command prints in the place, or how it fails."""
    variables = {"PATH": os.environ["PATH"], "HOME": str(folder), "TMPDIR": str(folder), "PYTHONPATH": sys.path[1]}
    around = [*_reaching(), *place.around] if place.docker is None else _container(place.docker, folder, variables)
    words = [*around, sys.executable, __file__, "--inside", place.name, sys.executable, *command]
    if "DOCKER_HOST" in os.environ:
        variables["DOCKER_HOST"] = os.environ["DOCKER_HOST"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=80, env=variables, check=False)
    return done.stdout.strip() or f"failed: {done.stderr.strip()[-300:]}"


def _container(options: Sequence[str], folder: Path, variables: Mapping[str, str]) -> list[str]:
    """Return the command that enters a Docker container which shows this system, this Python and these files."""
    shown = ["/usr", "/bin", "/lib", "/lib64", "/etc", sys.prefix, sys.base_prefix, str(HERE.parent)]
    mounts = [word for path in dict.fromkeys(shown) if Path(path).exists() for word in ("-v", f"{path}:{path}:ro")]
    settings = [word for name, value in variables.items() for word in ("-e", f"{name}={value}")]
    fixed = ["docker", "run", "--rm", "--network", "none", "-v", f"{folder}:{folder}", "-w", str(HERE.parent)]
    return [*fixed, *options, *mounts, *settings, IMAGE]


def _reaching() -> list[str]:
    """Return the command by which Python can be reached by everybody; none where it can be already."""
    closed = [p for p in Path(sys.base_prefix).parents if not p.stat().st_mode & 1]
    if not closed:
        return []
    return [
        "unshare",
        "--mount",
        "sh",
        "-c",
        _REACH,
        "sh",
        *map(str, (closed[-1], Path(sys.base_prefix).relative_to(closed[-1]))),
    ]


def look(place: Place) -> dict[str, Any]:
    """Return what is in force in the place, and whether a task's code was run there."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o777)
        text = run(place, folder, "-m", "forewarp.gpu_runner.worker.survey")
        if not text.startswith("{"):
            raise SystemExit(f"{place.name}: {text}")
        found = json.loads(text)
        described = run(place, folder, "-c", DESCRIBE)
    lacks = {role: list(missing(names)) for role, names in found.items()}
    print(f"{place.name:55} {described:12} {lacks}", flush=True)
    return {
        "name": place.name,
        "imitated": place.imitated,
        "in_force": found,
        "missing": lacks,
        "task": described,
    }


def table(data: Mapping[str, Any]) -> str:
    """Return the results as a table in Markdown."""
    lines = [
        "| where | missing of the least | also missing around a candidate | a task's code is |",
        "|---|---|---|---|",
    ]
    everything = list(dict.fromkeys(n for p in data["places"] for n in p["in_force"]["candidate"]))
    for place in data["places"]:
        least = list(dict.fromkeys(n for names in place["missing"].values() for n in names))
        others = [n for n in everything if n not in place["in_force"]["candidate"] and n not in least]
        name = f"{place['name']}{' (imitated)' if place['imitated'] else ''}"
        became = "run" if place["task"] == "run" else "refused" if place["task"] == "unprotected" else place["task"]
        lines.append(f"| {name} | {', '.join(least) or '–'} | {', '.join(others) or '–'} | {became} |")
    about = f"Linux {data['kernel']}, {data['provenance']['date'][:10]}. Not tried: {'; '.join(data['not_tried'])}."
    return "\n".join([*lines, "", about, ""])


def main() -> None:
    if sys.argv[1:2] == ["--inside"]:
        inside(next(p for p in PLACES if p.name == sys.argv[2]), sys.argv[3:])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    data = {"kernel": os.uname().release, "places": [look(p) for p in PLACES], "not_tried": list(NOT_TRIED)}
    if asked.out:
        write(asked.out, data)


if __name__ == "__main__":
    main()
