"""An agent with two devices made of arithmetic, which measure until they are told to end: `python THIS FOLDER`.

FOLDER/begun gets a line "DEVICE NAME" for each measurement that begins; one that is called NAME in the candidate's
text (`// called NAME`) ends once FOLDER/NAME exists.
"""

from __future__ import annotations

import os
import re
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from support import synthetic_executor as synthetic

from forewarp.core.protocols import Executor
from forewarp.core.values import Measurement
from forewarp.gpu_runner.executors.several import SeveralExecutor
from forewarp.gpu_runner.remote.far_end.agent import Agent
from forewarp.gpu_runner.remote.far_end.wire import READY, Wire


class Device(synthetic.SyntheticExecutor):
    """One of them."""

    def __init__(self, folder: Path, number: int) -> None:
        super().__init__()
        self._folder, self._number = folder, number

    def answer(self, asked: synthetic.Asked) -> Measurement:
        name = called(asked.candidate.source)
        with (self._folder / "begun").open("a") as file:
            file.write(f"{self._number} {name}\n")
        while self._folder.is_dir() and not (self._folder / name).exists():
            time.sleep(0.02)
        return super().answer(asked)


def called(source: str) -> str:
    found = re.search(r"// called (\w+)", source)
    assert found is not None
    return found[1]


def source(name: str) -> str:
    return f"{synthetic.SOURCE}// called {name}\n"


def main(folder: Path) -> None:
    def opener(body: dict[str, Any]) -> Executor:
        _, _, which = body["device"].partition(":")
        return SeveralExecutor([Device(folder, n) for n in range(2)]) if which == "all" else Device(folder, int(which))

    frames = os.fdopen(os.dup(1), "wb")
    frames.write(READY)
    frames.flush()
    Agent(Wire(sys.stdin.buffer, frames), opener).serve()
    os._exit(0)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
