"""Stops the processes that measure it while it works; says so by raising, for then it could stop their clocks."""

import contextlib
import os

import torch
import torch.nn as nn


def measurers():
    for entry in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{entry}/cmdline", "rb") as f:
            if b"forewarp.gpu_runner.worker.server" in f.read() and entry != os.readlink("/proc/self"):
                yield int(entry)
    if os.getppid() > 1:
        yield os.getppid()


for pid in measurers():
    with contextlib.suppress(OSError):
        os.kill(pid, 0)
        raise SystemError("could signal the measuring process")


class ModelNew(nn.Module):
    def __init__(self, inner, cols):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(inner, cols) / inner**0.5)

    def forward(self, x):
        return torch.softmax(x @ self.weight, dim=-1)
