"""Small suites: problems and kernels as files, and a device that reads from a kernel's text what becomes of it."""

from __future__ import annotations

import math
import re
from collections import Counter
from pathlib import Path

from support import synthetic_executor as synthetic

from forewarp.core.errors import TaskError, WorkerError
from forewarp.core.protocols import Executor
from forewarp.core.values import Measurement, Signature, Task, WorkloadTiming
from forewarp.tools.parts import Place
from forewarp.tools.session import Executors

PROBLEM = "class Model: ...\ndef get_inputs(): ...\ndef get_init_inputs(): ...\n"


def problem(says: str = "") -> str:
    """A problem; `fails` is what its reference does, `compiled 1.5` what torch.compile makes of it."""
    return f"{PROBLEM}# {says}\n"


def kernel(says: str) -> str:
    """A module that is `2.5` times as fast, or is `wrong`, or does `crash`."""
    return f"class ModelNew: ...\n# times {says}\n"


def write(folder: Path, **texts: str) -> Path:
    """Write files; `__` in a name stands for a slash."""
    for name, text in texts.items():
        path = folder / f"{name.replace('__', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


class SuiteExecutor(synthetic.SyntheticExecutor):
    """Measures what `problem` and `kernel` say; `fast` is 1 where nothing is said."""

    def __init__(self) -> None:
        super().__init__()
        self.described = Counter[str]()
        self.versions = {"torch": "2.0"}
        self.loses: set[str] = set()

    def probe(self) -> dict[str, str]:
        return self.versions

    def describe(self, task: Task) -> tuple[Signature, ...]:
        self.described[task.name] += 1
        if "fails" in task.reference:
            raise TaskError(f"the reference of {task.name} cannot be run: \x1b[31mno memory\x1b[0m")
        return super().describe(task)

    def answer(self, asked: synthetic.Asked) -> Measurement:
        source = asked.candidate.source
        if any(mark in source for mark in self.loses):
            raise WorkerError("the measuring process was lost")
        done = super().answer(asked)
        told = re.search(r"compiled ([\d.]+)" if "self.compile()" in source else r"times ([\d.]+)", source)
        s = float(told[1]) if told else 1.0
        if done.status != "ok":
            return done
        low, high = s / 1.02, s * 1.02
        verdict = "faster" if low > 1 else "slower" if high < 1 else "tie"
        verdict = "suspicious" if "suspicious" in source else verdict
        timing = WorkloadTiming("default", s, low, high, 1e-3 / s, 1e-3, 0.1, (math.log(s),), (1e-3 / s,), (1e-3,))
        return Measurement("ok", verdict, self.target.name, "T1", "reference", s, low, high, (timing,), log="doubt")


class Kept(Executors):
    """Gives the same executor for every place."""

    def __init__(self, executor: Executor) -> None:
        super().__init__()
        self.executor = executor

    def get(self, place: Place, task: Task) -> Executor:
        return self.executor
