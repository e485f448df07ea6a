"""Asks the kernel for queues of work that goes on after the call; says so by raising where it gets one."""

import ctypes
import platform

import torch
import torch.nn as nn

libc = ctypes.CDLL(None, use_errno=True)
page = ctypes.create_string_buffer(256)
if platform.machine() in ("x86_64", "aarch64") and libc.syscall(425, 8, page) >= 0:
    raise SystemError("io_uring is there")


class ModelNew(nn.Module):
    def __init__(self, inner, cols):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(inner, cols) / inner**0.5)

    def forward(self, x):
        return torch.softmax(x @ self.weight, dim=-1)
