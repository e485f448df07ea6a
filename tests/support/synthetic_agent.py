"""An agent whose device is made of arithmetic, and that does what the text of a candidate says: `python THIS FOLDER`.

FOLDER counts across restarts: each line of `opened` is a start, each of `measured` a measurement that was begun.
"""

from __future__ import annotations

import os
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from support import synthetic_executor as synthetic

from forewarp.core.protocols import Executor
from forewarp.core.values import Build, Candidate, Measurement, Task
from forewarp.gpu_runner.remote.far_end.agent import Agent
from forewarp.gpu_runner.remote.far_end.wire import READY, Wire

FOLDER = Path(sys.argv[1]) if __name__ == "__main__" else Path()


def note(name: str) -> int:
    """Count one more of something, and return how many that makes."""
    with (FOLDER / name).open("a") as file:
        file.write("x\n")
    return len((FOLDER / name).read_text().split())


class ActingExecutor(synthetic.SyntheticExecutor):
    """Its builds are folders, as real ones are."""

    def compile(self, task: Task, candidate: Candidate) -> Build:
        build = super().compile(task, candidate)
        if build.status != "ok":
            return build
        folder = FOLDER / "builds" / build.binary_sha256
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "code").write_text(candidate.source)
        return replace(build, artefact=str(folder))

    def answer(self, asked: synthetic.Asked) -> Measurement:
        source, build = asked.candidate.source, asked.build
        count = note("measured")
        if "lose the agent once" in source and count == 1:
            time.sleep(0.6)
            os._exit(7)
        if "lose the agent always" in source:
            os._exit(7)
        if "take long" in source:
            time.sleep(600)
        if build.artefact:
            assert (Path(build.artefact) / "code").read_text() == source
        measured = super().answer(asked)
        return replace(measured, device="another card") if "another card" in source else measured


def opener(_: dict[str, Any]) -> Executor:
    if note("opened") > 1 and (FOLDER / "changed").exists():
        return ActingExecutor(replace(synthetic.TARGET, name="another card"))
    return ActingExecutor()


if __name__ == "__main__":
    print("what a login shell says", flush=True)
    sys.stdout.buffer.write(READY)
    sys.stdout.flush()
    agent = Agent(Wire(sys.stdin.buffer, sys.stdout.buffer), opener)
    agent.serve()
    os._exit(0)
