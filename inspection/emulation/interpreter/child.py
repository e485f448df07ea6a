"""The confined side: the candidate's source is imported and interpreted here, on buffers shared with the judge.

Nothing that is said here is believed about the outputs: the judge compares them itself.
"""

from __future__ import annotations

import os
import signal
import socket
import time
import traceback
import warnings
from collections.abc import Callable
from types import FrameType
from typing import Any

import numpy as np

from forewarp.core import serde
from forewarp.gpu_runner.worker import environment, protections, toolchain
from forewarp.gpu_runner.worker.channel import Channel, ChannelClosed
from forewarp.inspection.emulation.interpreter.builder import Unsupported
from forewarp.inspection.emulation.interpreter.launches import KernelRun, ModuleRun, PlanRun
from forewarp.inspection.emulation.interpreter.memory import Ledger, MemoryFault, RealAddress
from forewarp.inspection.emulation.interpreter.pace import SPINS, CheckOutOfTime, ChildSetup, Pace, TooSlow

_FOR_EVER = 1e9
Report = dict[str, Any]
"""Result of one case: its `outcome` ("done", "slow", "stuck", "waits", "failed" or "unsupported") and more."""


def serve_cases(setup: ChildSetup, line: socket.socket, *, contained: bool) -> None:
    """Confine this process, import the candidate, and run cases until the judge goes away."""
    os.chdir(setup.folder)
    environment.use_folder(setup.folder)
    protections.take(
        protections.Confinement(
            setup.folder,
            memory=setup.job.memory,
            keep={line.fileno()},
            own_processes=contained,
            reads_only=toolchain.readable("cpu"),
            cpu_s=int(4 * setup.job.budget_s) + 30,
        )
    )
    warnings.simplefilter("ignore")
    channel = Channel(line)
    with np.errstate(all="ignore"):
        runner = _runner(setup)
        while True:
            try:
                order = channel.receive(_FOR_EVER)
            except ChannelClosed:
                return
            channel.send(runner if isinstance(runner, dict) else _case(runner, Pace(order["limit_s"], order["sample"])))


def _runner(setup: ChildSetup) -> KernelRun | Report:
    try:
        return ModuleRun(setup) if setup.job.candidate.language == "python" else PlanRun(setup)
    except Unsupported as e:
        return {"outcome": "unsupported", "message": str(e)}
    except Exception as e:
        return {"outcome": "failed", "message": f"the candidate cannot be set up: {_words(e, '')}"}


def _case(runner: KernelRun, pace: Pace) -> Report:
    """Run all launches once, within the limit; report it with what was seen."""
    ledger = runner.memory.ledger = Ledger()
    runner.memory.reach.clear()
    return _outcome(runner, pace) | {
        "programs": pace.done,
        "grid": pace.grid,
        "partial": pace.partial,
        "findings": serde.to_data(ledger.findings()),
        "suspicions": serde.to_data(ledger.suspicions()),
        "reach": runner.memory.reach,
        "room": runner.room(),
    }


def _outcome(runner: KernelRun, pace: Pace) -> Report:
    def report(outcome: str, message: str = "") -> Report:
        return {"outcome": outcome, "message": message}

    def over(number: int, frame: FrameType | None) -> None:
        del number
        while frame is not None and frame.f_code.co_filename != runner.path:
            frame = frame.f_back
        raise CheckOutOfTime(frame.f_lineno if frame is not None else 0)

    signal.signal(signal.SIGALRM, over)
    try:
        signal.setitimer(signal.ITIMER_REAL, pace.limit_s, 1.0)
        try:
            runner.run(pace)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        return report("done")
    except CheckOutOfTime as e:
        return _out_of_time(runner, pace, e.line, report)
    except TooSlow as e:
        return report("slow") | {"estimate": e.seconds}
    except (Unsupported, NotImplementedError, RealAddress) as e:
        return report("unsupported", f"{_where(e, runner.path)}{e}")
    except MemoryFault as e:
        return report("failed", f"{runner.memory.kernel}{_where(e, runner.path, ', ')}: {e}")
    except MemoryError:
        return report("failed", "more memory was wanted than a check may take")
    except Exception as e:
        if runner.in_kernel:
            return report("failed", f"{runner.memory.kernel}: {_words(e, runner.path)}")
        if traceback.extract_tb(e.__traceback__)[-1].filename == runner.path:
            return report("failed", f"the module: {_words(e, runner.path)}")
        # Raised by what stands in for CUDA, or by torch for lack of it: nothing that speaks against the module.
        return report("unsupported", f"the module's own code does not run here: {_words(e, runner.path)}")


def _out_of_time(runner: KernelRun, pace: Pace, line: int, report: Callable[..., Report]) -> Report:
    alone = time.monotonic() - pace.program_started
    if not runner.in_kernel:
        return report("stuck", f"the module's own code, line {line}, was still running after {pace.limit_s:.1f} s")
    kernel, program = runner.memory.kernel, runner.memory.program
    where = f"{kernel}, line {line}" if line else kernel
    if runner.memory.atomics > SPINS:
        return report(
            "waits",
            f"{where}: program {program} waits for another one, and programs run one after another here",
        )
    if alone > pace.limit_s / 2 or not pace.done:
        return report("stuck", f"{where}: program {program} was still running after {alone:.1f} s")
    if pace.sample:
        pace.partial = True
        return report("done")
    return report("slow") | {"estimate": pace.estimate()}


def _where(error: BaseException, path: str, before: str = "") -> str:
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == path]
    return f"{before}line {lines[-1]}{'' if before else ': '}" if lines else ""


def _words(error: BaseException, path: str) -> str:
    """Return kind, line and message of an error; for Triton's wrapping of one, those of the one inside."""
    while error.__cause__ is not None and type(error).__name__ == "InterpreterError":
        error = error.__cause__
    text = str(error).strip()
    return f"{_where(error, path)}{type(error).__name__}: {text[:1000]}" if text else type(error).__name__
