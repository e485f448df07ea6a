"""`forewarp doctor`: what is here, what is missing, and what each missing part costs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from forewarp.cli import printing
from forewarp.cli.options import HERE, PLAIN, Output, Where
from forewarp.gpu_runner.worker import least

if TYPE_CHECKING:
    from forewarp.report.documents import DoctorCheck

INSTALL = "pip install 'forewarp[gpu]', or pass --python PATH of an environment that has it"

# Risk of each protection that is not in force, and its remedy.
PROTECTIONS = {
    least.READ_ONLY: "a candidate may change any file that you may change; use Linux 5.13 or newer with Landlock "
    "(lsm=landlock,…), not gVisor; in a container, let its seccomp profile allow landlock_*",
    least.HIDDEN: "a candidate may read any file that you may read; use Linux 5.13 or newer with Landlock, as above",
    least.NO_NETWORK: "a candidate may talk to the network; allow seccomp filters, or user namespaces "
    "(sysctl user.max_user_namespaces=10000 kernel.apparmor_restrict_unprivileged_userns=0)",
    least.NO_SIGNALS: "a candidate may stop your other processes; use Linux 6.12 or newer, or root; in a container "
    "before 6.12: docker run --cap-add SYS_ADMIN --security-opt seccomp=unconfined --security-opt apparmor=unconfined",
    least.NO_MEMORY: "a candidate may read the memory of your other processes; allow seccomp filters, or Landlock",
    least.LIMITS: "a candidate may use up processor time or disk; let this process lower its limits (setrlimit)",
    "memory limit": "a candidate may use up memory",
    "no local sockets": "a candidate may talk to services of this machine, such as Docker's (needs seccomp)",
    "no inherited descriptors": "a candidate may write to files and sockets that were open when it started",
    "no secrets in the environment": "a candidate may read the keys in your environment",
    "private temporary files": "a candidate shares /tmp, and may fill the disk up to its limits (needs root)",
    "user nobody": "a candidate runs as you; the other protections still hold (needs root to be in force)",
    "no capabilities": "a candidate keeps what the superuser may do, as far as the other protections let it",
    "no new privileges": "a candidate may run set-user-id programs",
    "dies with its parent": "a candidate may outlive the run",
    "system calls filtered": "a candidate may use rare system calls that undo other protections (needs seccomp)",
    "own process namespace": "a candidate may leave processes behind (needs root; in a container --cap-add SYS_ADMIN)",
}
STRANGERS = "code of tasks and kernels"
"""Name of the check that says whether it is run here."""

_TRY_NVML = """
import pynvml
pynvml.nvmlInit()
version = pynvml.nvmlSystemGetDriverVersion()
print("driver", version if isinstance(version, str) else version.decode())
"""

_SURVEY = "import runpy; runpy.run_module('forewarp.gpu_runner.worker.survey', run_name='__main__')"


def doctor(*, where: Where = HERE, output: Output = PLAIN) -> int:
    """Say what was found on this machine, and what each missing part costs.

    Args:
        where: Device and archive.
        output: How results are shown.
    """
    from forewarp.cli import exits
    from forewarp.report import display
    from forewarp.report.documents import DoctorDocument

    console = display.stderr()
    console.quiet = output.quiet or not console.is_terminal
    with display.waiting(console, "looking around …"):
        checks = list(examine(where))
    found = {c.name for c in checks if c.found}
    if where.executor == "local":
        able = "torch" in found and bool({"CUDA device", "C++ compiler"} & found) and STRANGERS in found
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


def examine(where: Where) -> Iterator[DoctorCheck]:
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
    if not {"CUDA device", "C++ compiler"} & found:
        return "Nothing can be measured here: there is neither a CUDA device nor a C++ compiler. Install g++."
    if not able:
        return "Nothing is measured here: code of tasks and kernels cannot be confined enough. See its line above."
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


def _devices() -> Iterator[DoctorCheck]:
    from forewarp.gpu_runner import devices
    from forewarp.gpu_runner.compilers import cpp
    from forewarp.report.documents import DoctorCheck

    cuda, cpu, compiler = devices.detect_cuda(), devices.detect_cpu(), cpp.compiler()
    costs = "only C++ kernels are measured (--device cpu) and recorded pools replayed (--device replay)"
    yield DoctorCheck(name="CUDA device", found=cuda is not None, detail=cuda.name if cuda else "none", costs=costs)
    yield DoctorCheck(name="CPU", found=True, detail=f"{cpu.name}, {cpu.processors} cores")
    costs = "C++ kernels cannot be compiled; install g++ or set CXX"
    yield DoctorCheck(name="C++ compiler", found=compiler is not None, detail=compiler or "none", costs=costs)


def _worker(where: Where) -> Iterator[DoctorCheck]:
    """Ask the Python that measures what it has; it may be another one than ours."""
    from forewarp.core.errors import DeviceError, WorkerError
    from forewarp.gpu_runner import devices
    from forewarp.gpu_runner.executors.local import LocalExecutor
    from forewarp.report.documents import DoctorCheck

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
    yield DoctorCheck(
        name="torch", found=bool(versions.get("torch")), detail=versions.get("torch") or problem, costs=costs
    )
    costs = f"Triton kernels cannot be compiled: {INSTALL}"
    triton = versions.get("triton")
    yield DoctorCheck(name="triton", found=bool(triton), detail=triton or "not installed", costs=costs)
    if devices.detect_cuda() is not None:
        yield _nvml(place.python)
        sees = versions.get("torch_sees_gpu", "")
        costs = "the GPU cannot be used: install a torch that is built for CUDA"
        found = sees.lower() in ("true", "yes", "1")
        yield DoctorCheck(
            name="torch sees the GPU", found=found, detail=f"CUDA {versions.get('cuda', 'none')}", costs=costs
        )


def _nvml(python: str | None) -> DoctorCheck:
    """Ask the Python that measures whether it can read the GPU's temperature, power and throttling."""
    from forewarp.report.documents import DoctorCheck

    done = _ran(python, _TRY_NVML)
    said = (done.stdout or done.stderr).strip() if done else ""
    costs = "results do not say how hot the GPU was, or whether something slowed it down; install nvidia-ml-py"
    found = done is not None and done.returncode == 0
    return DoctorCheck(name="NVML", found=found, detail=said.splitlines()[-1] if said else "no answer", costs=costs)


def _nvrtc() -> Iterator[DoctorCheck]:
    from forewarp.gpu_runner.compilers import nvrtc
    from forewarp.report.documents import DoctorCheck

    version = nvrtc.version()
    costs = f"CUDA kernels cannot be compiled: {INSTALL}"
    yield DoctorCheck(name="NVRTC", found=version is not None, detail=version or "not installed", costs=costs)


def _keys() -> Iterator[DoctorCheck]:
    from forewarp.core.errors import UsageError
    from forewarp.report.documents import DoctorCheck
    from forewarp.surrogate import prices

    for provider, variable in (("anthropic", "ANTHROPIC_API_KEY"), ("openai", "OPENAI_API_KEY")):
        found = bool(os.environ.get(variable))
        costs = f"no --model {provider}:…; tunables of seed kernels and the learned forecaster need no key"
        detail = f"{variable} is {'set' if found else 'not set'}"
        yield DoctorCheck(name=f"{provider} key", found=found, detail=detail, costs=costs)
    costs = "models are asked, but what they cost stays unknown"
    try:
        table = prices.load()
    except UsageError as e:
        yield DoctorCheck(name="price table", found=False, detail=e.message, costs=costs)
    else:
        detail = f"{len(table.models)} models, dated {table.dated or 'unknown'}"
        yield DoctorCheck(name="price table", found=True, detail=detail, costs=costs)


def _archive(where: Where) -> DoctorCheck:
    from forewarp.core.errors import ArchiveError
    from forewarp.report.documents import DoctorCheck
    from forewarp.tools import session

    try:
        with session.open_archive(where.place()) as archive:
            with archive.transaction():
                pass
            return DoctorCheck(name="archive", found=True, detail=str(archive.path))
    except ArchiveError as e:
        return DoctorCheck(name="archive", found=False, detail=e.message, costs=f"nothing can be recorded; {e.hint}")


def _protections(where: Where) -> Iterator[DoctorCheck]:
    """Confine processes as a candidate, a task and a compiler would be, see what is in force, and what follows."""
    from forewarp.report.documents import DoctorCheck

    by_role = _survey(where.place().python)
    candidate = by_role.get("candidate", set())
    # The least has to hold around whatever runs strangers' code.
    lacks = least.missing(set.intersection(*by_role.values()) if by_role else ())
    for name in (*PROTECTIONS, *sorted(candidate - PROTECTIONS.keys())):
        here, costs = name in candidate and name not in lacks, PROTECTIONS.get(name, "")
        roles = ", ".join(role for role, found in by_role.items() if name not in found)
        only = f" around a {roles}" if name in lacks and roles else ""
        yield DoctorCheck(
            name=f"protection: {name}", found=here, detail="in force" if here else f"not in force{only}", costs=costs
        )
    yield strangers(lacks, insists=os.environ.get(least.INSIST) == "1")


def strangers(lacks: Sequence[str], *, insists: bool) -> DoctorCheck:
    """Say whether strangers' code is run, given what is missing of the least protection."""
    from forewarp.report.documents import DoctorCheck

    if not lacks:
        return DoctorCheck(name=STRANGERS, found=True, detail="run, confined")
    names = ", ".join(lacks)
    if insists:
        return DoctorCheck(name=STRANGERS, found=True, detail=f"run because you insist; missing: {names}")
    costs = (
        "measuring, compiling, validating and describing are refused; change what the lines above name, or pass "
        f"--unprotected (an MCP server, or another machine: {least.INSIST}=1 in its environment)"
    )
    return DoctorCheck(name=STRANGERS, found=False, detail=f"refused; missing: {names}", costs=costs)


def _survey(python: str | None) -> dict[str, set[str]]:
    """Return the protections in force by what is confined; empty where the Python that measures does not start."""
    root = str(Path(__file__).resolve().parents[1] / "src")
    path = os.pathsep.join(p for p in (*sys.path, root) if p)
    done = _ran(python, _SURVEY, PYTHONPATH=path)
    if done is None or done.returncode != 0:
        return {}
    return {role: set(found) for role, found in json.loads(done.stdout).items()}


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
