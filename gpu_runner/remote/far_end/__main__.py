"""Serve on standard input and output until the input ends."""

from __future__ import annotations

import os

from forewarp.gpu_runner.remote.far_end.agent import Agent
from forewarp.gpu_runner.remote.far_end.wire import frames_on_stdout, ready

if __name__ == "__main__":
    agent = Agent(ready(frames_on_stdout()))
    try:
        agent.serve()
    finally:
        agent.close()
        os._exit(0)  # threads that wait for a compiler or a kernel must not keep it alive
