"""Serve on standard input and output until the input ends."""

from __future__ import annotations

import os
import sys

from forewarp.gpu_runner.remote.far_end.agent import Agent
from forewarp.gpu_runner.remote.far_end.wire import READY, Wire

if __name__ == "__main__":
    frames = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever else is printed goes to standard error from now on
    frames.write(READY)
    frames.flush()
    agent = Agent(Wire(sys.stdin.buffer, frames))
    try:
        agent.serve()
    finally:
        agent.close()
        os._exit(0)  # threads that wait for a compiler or a kernel must not keep it alive
