"""`forewarp doctor`: what is here or on other machines, what is missing, and what each missing part costs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.console import Console

from forewarp.cli import exits
from forewarp.cli.options import HERE, PLAIN, Output, PlaceOptions
from forewarp.core.errors import ArchiveError, DeviceError, UsageError, WorkerError
from forewarp.gpu_runner import child
from forewarp.gpu_runner.worker import least

if TYPE_CHECKING:
    from forewarp.report.documents import DoctorCheck
    from forewarp.tools.parts import Place

INSTALL = "pip install 'forewarp[gpu]', or pass --python PATH of an environment that has it"

ELSEWHERE = "kernels are measured on machines over ssh (--executor ssh:HOST), and recorded pools are replayed"

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
    "other files do not exist": "a candidate may find out whether a file exists, its size and date, but not read it "
    "(needs root or user namespaces, as above; in a container --cap-add SYS_ADMIN)",
    "private temporary files": "a candidate writes to a folder on disk, and may fill it up to its limits (needs root)",
    "user nobody": "a candidate runs as you; the other protections still hold (needs root to be in force)",
    "no capabilities": "a candidate keeps what the superuser may do, as far as the other protections let it",
    "no new privileges": "a candidate may run set-user-id programs",
    "dies with its parent": "a candidate may outlive the run",
    "system calls filtered": "a candidate may use rare system calls that undo other protections (needs seccomp)",
    "own process namespace": "a candidate may leave processes behind (needs root; in a container --cap-add SYS_ADMIN)",
}
STRANGERS = "code of tasks and kernels"
"""Name of the check that says whether it is run here."""

MACHINES = "machines"
"""Name of the check that says whether anything can be measured elsewhere."""
KEYS = {"anthropic": "ANTHROPIC_API_KEY", "openai": "OPENAI_API_KEY"}

_TRY_NVML = """
import pynvml
pynvml.nvmlInit()
version = pynvml.nvmlSystemGetDriverVersion()
print("driver", version if isinstance(version, str) else version.decode())
"""


def doctor(*, where: PlaceOptions = HERE, output: Output = PLAIN) -> int:
    """Say what was found on this machine, and what each missing part costs."""
    from forewarp.report import display
    from forewarp.report.documents import DoctorDocument

    with output.waiting("looking around"):
        checks = list(examine(where.place()))
    found = {c.name for c in checks if c.found}
    if where.executor == "local":
        able = "torch" in found and bool({"CUDA device", "C++ compiler"} & found) and STRANGERS in found
        summary = _verdict(found, able=able)
    else:
        able = MACHINES in found
        flags = f"--executor {where.executor}"
        summary = f"Nothing can be measured with {flags}."
        if able:
            flags += f" --device {where.device}" if where.device != "auto" else ""
            flags += f" --python {where.python}" if where.python else ""
            summary = f"Ready: `forewarp optimize softmax {flags}` measures there."

    def render(console: Console) -> None:
        rows = [
            ("ok", c.name, c.detail)
            if c.found
            else ("–", c.name, f"{c.detail.removesuffix('.')}; without it: {c.costs}")
            for c in checks
        ]
        styles = ["" if c.found else "yellow" for c in checks]
        console.print(display.table(("", "part", "found"), rows, styles=styles))
        console.print(summary, style="bold")

    status = "ok" if able else "degraded"
    output.show(DoctorDocument(command="doctor", status=status, summary=summary, checks=checks), render)
    return exits.OK if able else exits.UNAVAILABLE


def _verdict(found: set[str], *, able: bool) -> str:
    if sys.platform != "linux":
        return f"Nothing can be measured here without Linux: {ELSEWHERE}."
    if not able and "torch" not in found:
        return f"Nothing can be measured here without torch: {INSTALL}. Recorded pools can be replayed."
    if not {"CUDA device", "C++ compiler"} & found:
        return "Nothing can be measured here: there is neither a CUDA device nor a C++ compiler. Install g++."
    if not able:
        return "Nothing is measured here: code of tasks and kernels cannot be confined enough. See its line above."
    device = "the CUDA device" if "CUDA device" in found else "the CPU"
    unlocked = (
        "" if {f"{provider} key" for provider in KEYS} & found else " No key: kernels come from declared tunables only."
    )
    return f"Ready: `forewarp optimize softmax` measures on {device}.{unlocked}"


def examine(place: Place) -> Iterator[DoctorCheck]:
    """Look at everything, one check at a time."""
    here = place.executor == "local" and sys.platform == "linux"
    if here:
        yield from _devices()
        yield from _worker(place.python)
        yield from _nvrtc()
    elif place.executor == "local":
        yield _check("Linux", None, ELSEWHERE, missing="none")
    else:
        try:
            yield _machine(place)
        except (DeviceError, UsageError, WorkerError) as e:
            costs = f"nothing can be measured with --executor {place.executor}; {e.hint}"
            yield _check(MACHINES, None, costs, missing=e.message)
    yield from _keys()
    yield _archive(place)
    if here:
        yield from _protections(place.python)


def _check(name: str, found: str | None, costs: str = "", *, missing: str = "not installed") -> DoctorCheck:
    """Return a check: what was found, else what is `missing` and what that costs."""
    from forewarp.report.documents import DoctorCheck

    return DoctorCheck(name=name, found=found is not None, detail=missing if found is None else found, costs=costs)


def _devices() -> Iterator[DoctorCheck]:
    from forewarp.gpu_runner import devices
    from forewarp.gpu_runner.compilers import cpp

    cuda, cpu = devices.detect_cuda(), devices.detect_cpu()
    costs = "only C++ kernels are measured (--device cpu) and recorded pools replayed (--device replay)"
    yield _check("CUDA device", cuda.name if cuda else None, costs, missing="none")
    yield _check("CPU", f"{cpu.name}, {cpu.processors} cores")
    costs = "C++ kernels cannot be compiled; install g++ or set CXX"
    yield _check("C++ compiler", cpp.compiler(), costs, missing="none")


def _worker(python: str | None) -> Iterator[DoctorCheck]:
    """Ask the Python that measures what it has; it may be another one than ours."""
    from forewarp.gpu_runner import devices
    from forewarp.gpu_runner.executors.local import LocalExecutor

    executor = LocalExecutor(devices.detect_cpu(), python=python or sys.executable)
    versions: dict[str, str] = {}
    problem = "not installed"
    try:
        versions = executor.probe()
    except (DeviceError, WorkerError, OSError) as e:
        problem = str(e).splitlines()[0]
    finally:
        executor.close()
    yield _check("torch", versions.get("torch") or None, f"nothing can be measured: {INSTALL}", missing=problem)
    yield _check("triton", versions.get("triton") or None, f"Triton kernels cannot be compiled: {INSTALL}")
    if devices.detect_cuda() is not None:
        yield _nvml(python)
        built = f"CUDA {versions.get('cuda', 'none')}"
        sees = versions.get("torch_sees_gpu", "").lower() in ("true", "yes", "1")
        costs = "the GPU cannot be used: install a torch that is built for CUDA"
        yield _check("torch sees the GPU", built if sees else None, costs, missing=built)


def _nvml(python: str | None) -> DoctorCheck:
    """Ask the Python that measures whether it can read the GPU's temperature, power and throttling."""
    done = _ran([python or sys.executable, "-c", f"{child.NOTHING_FROM_HERE}\n{_TRY_NVML}"])
    lines = (done.stdout or done.stderr).strip().splitlines() if done else []
    said = lines[-1] if lines else "no answer"
    costs = "results do not say how hot the GPU was, or whether something slowed it down; install nvidia-ml-py"
    return _check("NVML", said if done is not None and done.returncode == 0 else None, costs, missing=said)


def _nvrtc() -> Iterator[DoctorCheck]:
    from forewarp.gpu_runner.compilers import nvrtc

    yield _check("NVRTC", nvrtc.version(), f"CUDA kernels cannot be compiled: {INSTALL}")


def _machine(place: Place) -> DoctorCheck:
    from forewarp.gpu_runner.remote.over_ssh import open_remote

    start = time.perf_counter()
    executor = open_remote(place.executor, place.device, place.python)
    seconds = time.perf_counter() - start
    try:
        said = f"{executor.devices} × {executor.target.name}, {executor.compilers} cores, ready in {seconds:.1f} s"
    finally:
        executor.close()
    return _check(MACHINES, said)


def _keys() -> Iterator[DoctorCheck]:
    from forewarp.surrogate import prices

    for provider, variable in KEYS.items():
        costs = f"no --model {provider}:…; tunables of seed kernels and the learned forecaster need no key"
        found = f"{variable} is set" if os.environ.get(variable) else None
        yield _check(f"{provider} key", found, costs, missing=f"{variable} is not set")
    costs = "models are asked, but what they cost stays unknown"
    try:
        table = prices.load()
    except UsageError as e:
        yield _check("price table", None, costs, missing=e.message)
    else:
        yield _check("price table", f"{len(table.models)} models, dated {table.dated or 'unknown'}", costs)


def _archive(place: Place) -> DoctorCheck:
    from forewarp.tools import session

    try:
        with session.open_archive(place) as archive:
            with archive.transaction():
                pass
            return _check("archive", str(archive.path))
    except ArchiveError as e:
        return _check("archive", None, f"nothing can be recorded; {e.hint}", missing=e.message)


def _protections(python: str | None) -> Iterator[DoctorCheck]:
    """Confine processes as a candidate, a task and a compiler would be, see what is in force, and what follows."""
    by_role = _survey(python)
    if not by_role:
        why = "the Python that measures does not start forewarp's worker; see the line of torch"
        missing = f"not tried: {why if os.path.exists('/proc/self') else '/proc is not mounted'}"
        yield _check(STRANGERS, None, "neither is run, and nothing is known of the protections", missing=missing)
        return
    candidate = by_role["candidate"]
    # The least has to hold around whatever runs strangers' code.
    lacks = least.missing(set.intersection(*by_role.values()))
    for name in (*PROTECTIONS, *sorted(candidate - PROTECTIONS.keys())):
        here = name in candidate and name not in lacks
        roles = ", ".join(role for role, found in by_role.items() if name not in found)
        only = f" around a {roles}" if name in lacks and roles else ""
        costs = PROTECTIONS.get(name, "")
        yield _check(f"protection: {name}", "in force" if here else None, costs, missing=f"not in force{only}")
    yield strangers(lacks, insists=os.environ.get(least.INSIST) == "1")


def strangers(lacks: Sequence[str], *, insists: bool) -> DoctorCheck:
    """Say whether strangers' code is run, given what is missing of the least protection."""
    if not lacks:
        return _check(STRANGERS, "run, confined")
    names = ", ".join(lacks)
    if insists:
        return _check(STRANGERS, f"run because you insist; missing: {names}")
    costs = (
        "measuring, compiling, validating and describing are refused; change what the lines above name, or pass "
        f"--unprotected (an MCP server, or another machine: {least.INSIST}=1 in its environment)"
    )
    return _check(STRANGERS, None, costs, missing=f"refused; missing: {names}")


def _survey(python: str | None) -> dict[str, set[str]]:
    """Return the protections in force by what is confined; empty where the Python that measures does not start."""
    done = _ran(child.command(python or sys.executable, "forewarp.gpu_runner.worker.survey"))
    if done is None or done.returncode != 0:
        return {}
    return {role: set(found) for role, found in json.loads(done.stdout).items()}


def _ran(command: Sequence[str]) -> subprocess.CompletedProcess[str] | None:
    """Run a command of the Python that measures; None where it does not start or does not end."""
    from forewarp.gpu_runner.worker import environment

    try:
        return subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=30, env=environment.allowed(os.environ)
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
