"""`forewarp doctor`: what is here, what is missing, and what each missing part costs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from forewarp.cli import printing
from forewarp.cli.options import HERE, PLAIN, Output, Where

if TYPE_CHECKING:
    from forewarp.cli.documents import Check

INSTALL = "pip install 'forewarp[gpu]', or pass --python PATH of an environment that has it"

# What a candidate could do where a protection is not in force.
PROTECTIONS = {
    "memory, time and file limits": "a candidate may use up memory, processor time or disk",
    "no inherited descriptors": "a candidate may write to files and sockets that were open when it started",
    "no secrets in the environment": "a candidate may read the keys in your environment",
    "no network": "a candidate may talk to the network",
    "private temporary files": "a candidate shares /tmp, and may fill the disk up to its limits (needs root)",
    "user nobody": "a candidate runs as you; the other protections still hold (needs root to be in force)",
    "no capabilities": "a candidate keeps what the superuser may do, as far as the other protections let it",
    "no new privileges": "a candidate may run set-user-id programs",
    "no private files": "a candidate may read any file that you may read (needs Linux 5.13 with Landlock)",
    "read-only files": "a candidate may change any file that you may change (needs Linux 5.13 with Landlock)",
    "dies with its parent": "a candidate may outlive the run",
    "system calls filtered": "a candidate may use rare system calls that undo other protections (needs seccomp)",
    "own process namespace": "a candidate may leave processes behind (needs root or user namespaces)",
}

_TRY_NVML = """
import pynvml
pynvml.nvmlInit()
version = pynvml.nvmlSystemGetDriverVersion()
print("driver", version if isinstance(version, str) else version.decode())
"""

_TRY_PROTECTIONS = """
import json, sys
from forewarp.gpu_runner.worker import protections, toolchain
reads = toolchain.readable("cpu")
with protections.children_in_own_pid_namespace(wanted=True) as contained:
    pass
how = protections.Confinement(sys.argv[1], memory=8 << 30, keep=(), folder_bytes=1 << 20, reads_only=reads)
found = protections.confine(how)
print(json.dumps([*found, *(["own process namespace"] if contained else [])]))
"""


def doctor(*, where: Where = HERE, output: Output = PLAIN) -> int:
    """Say what was found on this machine, and what each missing part costs.

    Args:
        where: Device and archive.
        output: How results are shown.
    """
    from forewarp.cli import display, exits
    from forewarp.cli.documents import DoctorDocument

    console = display.stderr()
    console.quiet = output.quiet or not console.is_terminal
    with display.waiting(console, "looking around …"):
        checks = list(examine(where))
    found = {c.name for c in checks if c.found}
    if where.executor == "local":
        able = "torch" in found and bool({"CUDA device", "C++ compiler"} & found)
        summary = _verdict(found, able=able)
    else:
        able, summary = _verdict_elsewhere(where, found)
    if output.json:
        status = "ok" if able else "degraded"
        printing.document(DoctorDocument(command="doctor", status=status, summary=summary, checks=checks))
        return exits.OK if able else exits.UNAVAILABLE
    from rich.table import Table

    table = Table("", "part", "found", box=None)
    for c in checks:
        detail = c.detail if c.found else f"{c.detail.removesuffix('.')}; without it: {c.costs}"
        table.add_row("ok" if c.found else "–", c.name, detail, style="" if c.found else "yellow")
    printed = display.stdout()
    printed.print(table)
    printed.print(summary, style="bold")
    return exits.OK if able else exits.UNAVAILABLE


def examine(where: Where) -> Iterator[Check]:
    """Look at everything, one check at a time."""
    if where.executor != "local":
        from forewarp.cli import doctor_elsewhere

        yield from doctor_elsewhere.examine(where.place())
        yield from _keys()
        yield _archive(where)
        return
    yield from _devices()
    yield from _worker(where)
    yield from _nvrtc()
    yield from _keys()
    yield _archive(where)
    yield from _protections(where)


def _verdict(found: set[str], *, able: bool) -> str:
    if not able and "torch" not in found:
        return f"Nothing can be measured here without torch: {INSTALL}. Recorded pools can be replayed."
    if not able:
        return "Nothing can be measured here: there is neither a CUDA device nor a C++ compiler. Install g++."
    device = "the CUDA device" if "CUDA device" in found else "the CPU"
    unlocked = "" if {"anthropic key", "openai key"} & found else " No key: kernels come from declared tunables only."
    return f"Ready: `forewarp optimize softmax` measures on {device}.{unlocked}"


def _verdict_elsewhere(where: Where, found: set[str]) -> tuple[bool, str]:
    from forewarp.cli.doctor_elsewhere import MACHINES

    if MACHINES not in found:
        return False, f"Nothing can be measured with --executor {where.executor}."
    flags = f"--executor {where.executor}"
    flags += f" --device {where.device}" if where.device != "auto" else ""
    flags += f" --python {where.python}" if where.python else ""
    return True, f"Ready: `forewarp optimize softmax {flags}` measures there."


def _devices() -> Iterator[Check]:
    from forewarp.cli.documents import Check
    from forewarp.gpu_runner import devices
    from forewarp.gpu_runner.compilers import cpp

    cuda, cpu, compiler = devices.detect_cuda(), devices.detect_cpu(), cpp.compiler()
    costs = "only C++ kernels are measured (--device cpu) and recorded pools replayed (--device replay)"
    yield Check(name="CUDA device", found=cuda is not None, detail=cuda.name if cuda else "none", costs=costs)
    yield Check(name="CPU", found=True, detail=f"{cpu.name}, {cpu.processors} cores")
    costs = "C++ kernels cannot be compiled; install g++ or set CXX"
    yield Check(name="C++ compiler", found=compiler is not None, detail=compiler or "none", costs=costs)


def _worker(where: Where) -> Iterator[Check]:
    """Ask the Python that measures what it has; it may be another one than ours."""
    from forewarp.cli.documents import Check
    from forewarp.core.errors import DeviceError, WorkerError
    from forewarp.gpu_runner import devices
    from forewarp.gpu_runner.executors.local import LocalExecutor

    place = where.place()
    executor = LocalExecutor(devices.detect_cpu(), python=place.python or sys.executable)
    versions: dict[str, str] = {}
    problem = "not installed"
    try:
        versions = executor.probe()
    except (DeviceError, WorkerError, OSError) as e:
        problem = str(e).splitlines()[0]
    finally:
        executor.close()
    costs = f"nothing can be measured: {INSTALL}"
    yield Check(name="torch", found=bool(versions.get("torch")), detail=versions.get("torch") or problem, costs=costs)
    costs = f"Triton kernels cannot be compiled: {INSTALL}"
    triton = versions.get("triton")
    yield Check(name="triton", found=bool(triton), detail=triton or "not installed", costs=costs)
    if devices.detect_cuda() is not None:
        yield _nvml(place.python)
        sees = versions.get("torch_sees_gpu", "")
        costs = "the GPU cannot be used: install a torch that is built for CUDA"
        found = sees.lower() in ("true", "yes", "1")
        yield Check(name="torch sees the GPU", found=found, detail=f"CUDA {versions.get('cuda', 'none')}", costs=costs)


def _nvml(python: str | None) -> Check:
    """Ask the Python that measures whether it can read the GPU's temperature, power and throttling."""
    from forewarp.cli.documents import Check

    done = _ran(python, _TRY_NVML)
    said = (done.stdout or done.stderr).strip() if done else ""
    costs = "results do not say how hot the GPU was, or whether something slowed it down; install nvidia-ml-py"
    found = done is not None and done.returncode == 0
    return Check(name="NVML", found=found, detail=said.splitlines()[-1] if said else "no answer", costs=costs)


def _nvrtc() -> Iterator[Check]:
    from forewarp.cli.documents import Check
    from forewarp.gpu_runner.compilers import nvrtc

    version = nvrtc.version()
    costs = f"CUDA kernels cannot be compiled: {INSTALL}"
    yield Check(name="NVRTC", found=version is not None, detail=version or "not installed", costs=costs)


def _keys() -> Iterator[Check]:
    from forewarp.cli.documents import Check
    from forewarp.core.errors import UsageError
    from forewarp.surrogate import prices

    for provider, variable in (("anthropic", "ANTHROPIC_API_KEY"), ("openai", "OPENAI_API_KEY")):
        found = bool(os.environ.get(variable))
        costs = f"no --model {provider}:…; tunables of seed kernels and the learned forecaster need no key"
        detail = f"{variable} is {'set' if found else 'not set'}"
        yield Check(name=f"{provider} key", found=found, detail=detail, costs=costs)
    costs = "models are asked, but what they cost stays unknown"
    try:
        table = prices.load()
    except UsageError as e:
        yield Check(name="price table", found=False, detail=e.message, costs=costs)
    else:
        detail = f"{len(table.models)} models, dated {table.dated or 'unknown'}"
        yield Check(name="price table", found=True, detail=detail, costs=costs)


def _archive(where: Where) -> Check:
    from forewarp.cli.documents import Check
    from forewarp.core.errors import ArchiveError
    from forewarp.tools import session

    try:
        with session.open_archive(where.place()) as archive:
            with archive.transaction():
                pass
            return Check(name="archive", found=True, detail=str(archive.path))
    except ArchiveError as e:
        return Check(name="archive", found=False, detail=e.message, costs=f"nothing can be recorded; {e.hint}")


def _protections(where: Where) -> Iterator[Check]:
    """Confine a process as a candidate would be, and see what is in force."""
    from forewarp.cli.documents import Check

    root = str(Path(__file__).resolve().parents[1] / "src")
    path = os.pathsep.join(p for p in (*sys.path, root) if p)
    in_force: set[str] = set()
    with tempfile.TemporaryDirectory() as folder:
        done = _ran(where.place().python, _TRY_PROTECTIONS, folder, PYTHONPATH=path)
    if done is not None and done.returncode == 0:
        in_force = set(json.loads(done.stdout))
    for name in (*PROTECTIONS, *sorted(in_force - PROTECTIONS.keys())):
        here, costs = name in in_force, PROTECTIONS.get(name, "")
        yield Check(name=f"protection: {name}", found=here, detail="in force" if here else "not in force", costs=costs)


def _ran(python: str | None, code: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str] | None:
    """Run code in the Python that measures; None where it does not start or does not end."""
    from forewarp.gpu_runner.worker import environment

    try:
        return subprocess.run(
            [python or sys.executable, "-c", code, *arguments],
            capture_output=True,
            text=True,
            check=False,
            timeout=30,
            env=environment.allowed(os.environ) | variables,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
