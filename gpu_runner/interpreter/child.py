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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Any, Literal

import numpy as np
import torch

from forewarp.core import serde
from forewarp.gpu_runner.interpreter.builder import Unsupported
from forewarp.gpu_runner.interpreter.memory import MemoryFault
from forewarp.gpu_runner.worker import environment, protections, toolchain
from forewarp.gpu_runner.worker.channel import Channel, ChannelClosed

Outcome = Literal["done", "slow", "stuck", "waits", "failed", "unsupported"]
_LOOK_AFTER_S = 0.3
"""Seconds after which it is worth a guess how long all programs will take."""
SPINS = 1000
"""Atomic operations in one program from which on it is taken to wait for another."""
_FOR_EVER = 1e9


class OutOfTime(BaseException):
    """The time of a case is over. No Exception, so that a kernel's own `except` does not catch it."""

    def __init__(self, line: int) -> None:
        super().__init__(line)
        self.line = line


class TooSlow(Exception):
    """All programs would take `seconds`."""

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.seconds = seconds


@dataclass(slots=True)
class Report:
    """What became of one case. `estimate` is in seconds, where the outcome is "slow"."""

    outcome: Outcome
    programs: int
    grid: int
    message: str = ""
    estimate: float = 0.0
    partial: bool = False


@dataclass(slots=True)
class Pace:
    """Counts programs, and says when it is time to stop."""

    limit_s: float
    sample: bool
    grid: int = 0
    done: int = 0
    partial: bool = False
    started: float = 0.0
    program_started: float = 0.0
    second_started: float = 0.0

    def begin(self) -> None:
        """Start the clock."""
        self.started = self.program_started = time.monotonic()

    def order(self, count: int) -> Iterator[int]:
        """Yield numbers of programs of a launch: all in turn, or, for a sample, the ends first and then all over."""
        if not self.sample or count < 3:
            yield from range(count)
            return
        yield from (0, count - 1)
        step = round(count * 0.6180339887) | 1
        while np.gcd(step, count) != 1:
            step += 2
        yield from (n for i in range(1, count) if (n := i * step % count) not in (0, count - 1))

    def go_on(self) -> bool:
        """Return whether the next program may run; raises `TooSlow`."""
        self.program_started = time.monotonic()
        spent = self.program_started - self.started
        if self.sample:
            self.partial = self.partial or (self.done > 0 and spent > 0.8 * self.limit_s)
            return not self.partial
        if self.done == 1:
            self.second_started = self.program_started
        if self.done > 1 and spent > _LOOK_AFTER_S and self.estimate() > 1.2 * self.limit_s:
            raise TooSlow(self.estimate())
        return True

    def estimate(self) -> float:
        """Return the seconds that all programs will take; the first one, which prepares things, does not count."""
        if self.done < 2:
            return (time.monotonic() - self.started) * self.grid
        each = (self.program_started - self.second_started) / (self.done - 1)
        return self.second_started - self.started + each * self.grid


@dataclass(frozen=True, slots=True)
class Born:
    """Inputs of the confined process; it may change `slot` and the files in `folder`, and nothing else.

    Where `own_shape` is true, the scene is a `ShapeOnly`.
    """

    source: str
    language: str
    folder: str
    memory: int
    cpu_s: int
    job: Mapping[str, Any]
    scene: Any
    own_shape: bool = False


def live(born: Born, line: socket.socket, *, contained: bool) -> None:
    """Confine this process, import the candidate, and run cases until the judge goes away."""
    os.chdir(born.folder)
    environment.use_folder(born.folder)
    protections.take(
        protections.Confinement(
            born.folder,
            memory=born.memory,
            keep={line.fileno()},
            own_processes=contained,
            reads_only=toolchain.readable("cpu"),
            cpu_s=born.cpu_s,
        )
    )
    warnings.simplefilter("ignore")
    channel = Channel(line)
    with np.errstate(all="ignore"):
        runner, report = _born_runner(born)
        while (order := _next(channel)) is not None:
            if runner is not None:
                report = _case(runner, order["limit_s"], sample=order["sample"])
            told: dict[str, Any] = {"findings": [], "suspicions": [], "reach": {}}
            if runner is not None:
                ledger = runner.memory.ledger
                told = {
                    "findings": serde.to_data(ledger.findings()),
                    "suspicions": serde.to_data(ledger.suspicions()),
                    "reach": runner.memory.reach.counts,
                }
            channel.send(serde.to_data(report) | told)


def _next(channel: Channel) -> dict[str, Any] | None:
    try:
        return channel.receive(_FOR_EVER)
    except ChannelClosed:
        return None


def _born_runner(born: Born) -> tuple[Any, Report]:
    try:
        kind: Any
        if born.own_shape:
            from forewarp.gpu_runner.interpreter import ownshape

            kind = ownshape.ModuleAtOwnShape if born.language == "python" else ownshape.PlanAtOwnShape
        elif born.language == "python":
            from forewarp.gpu_runner.interpreter.modules import ModuleRun as kind
        else:
            from forewarp.gpu_runner.interpreter.plans import PlanRun as kind
        return kind(born), Report("done", 0, 0)
    except Unsupported as e:
        return None, Report("unsupported", 0, 0, str(e))
    except Exception as e:
        return None, Report("failed", 0, 0, f"the candidate cannot be set up: {_words(e, '')}")


def _case(runner: Any, limit_s: float, *, sample: bool) -> Report:
    """Run all launches once, within the limit."""
    pace = Pace(limit_s, sample)

    def report(outcome: Outcome, message: str = "", estimate: float = 0.0) -> Report:
        return Report(outcome, pace.done, pace.grid, message, estimate, pace.partial)

    def over(number: int, frame: FrameType | None) -> None:
        del number
        while frame is not None and frame.f_code.co_filename != runner.path:
            frame = frame.f_back
        raise OutOfTime(frame.f_lineno if frame is not None else 0)

    signal.signal(signal.SIGALRM, over)
    try:
        signal.setitimer(signal.ITIMER_REAL, limit_s, 1.0)
        try:
            pace.begin()
            runner.run(pace)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        return report("done")
    except OutOfTime as e:
        return _out_of_time(runner, pace, e.line, report)
    except TooSlow as e:
        return report("slow", estimate=e.seconds)
    except (Unsupported, NotImplementedError) as e:
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


def _out_of_time(runner: Any, pace: Pace, line: int, report: Any) -> Report:
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
        return report("stuck", f"{where}: program {program} was still running after {alone:.1f} s", _FOR_EVER)
    if pace.sample:
        pace.partial = True
        return report("done")
    return report("slow", estimate=pace.estimate())


def _where(error: BaseException, path: str, before: str = "") -> str:
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == path]
    return f"{before}line {lines[-1]}{'' if before else ': '}" if lines else ""


def _words(error: BaseException, path: str) -> str:
    """Return kind, line and message of an error; for Triton's wrapping of one, those of the one inside."""
    while error.__cause__ is not None and type(error).__name__ == "InterpreterError":
        error = error.__cause__
    text = str(error).strip()
    return f"{_where(error, path)}{type(error).__name__}: {text[:1000]}" if text else type(error).__name__


def as_bytes(tensor: torch.Tensor) -> Any:
    """Return a contiguous tensor's bytes as a numpy array that shares its memory."""
    return tensor.detach().view(-1).view(torch.uint8).numpy() if tensor.numel() else np.zeros(0, np.uint8)


def place_of(number: int, grid: Sequence[int]) -> tuple[int, int, int]:
    """Return where in the grid a program lies, x being the fastest, as a GPU starts them."""
    x, y, _ = grid
    return number % x, number // x % y, number // (x * y)
