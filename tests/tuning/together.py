"""Autotune a kernel for a card that is not here, and print which threads compiled what is kept, and what was left."""

import json
import os
import tempfile
import threading

os.environ["TRITON_CACHE_DIR"] = tempfile.mkdtemp()

import torch
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.runtime.autotuner import Autotuner

import forewarp.triton

compiled, left = [], []
own = triton.compiler.compile


class Driver:
    """Stand-in for Triton's driver, with what compiling asks of it."""

    def get_current_device(self):
        return 0

    def get_current_stream(self, device):
        return 0

    def get_current_target(self):
        return GPUTarget("cuda", 90, 32)

    def get_benchmarker(self):
        return lambda call, quantiles: [1.0] * 3


def compile_noted(*args, **more):
    compiled.append(threading.current_thread() is threading.main_thread())
    return own(*args, **more)


def bench(self, *args, config, **meta):
    before = len(compiled)
    self.fn.warmup(*args, **{n: v for n, v in meta.items() if n != "warmup"}, **config.all_kwargs())
    left.append(len(compiled) - before)
    return [float(len(left))] * 3


triton.compiler.compile, Autotuner._bench = compile_noted, bench
triton.runtime.driver.set_active(Driver())


@triton.autotune([triton.Config({"BLOCK": b}) for b in (64, 256, 512, 1024)], key=["N"])
@triton.jit
def copy(x, o, N, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(o + i, tl.load(x + i, mask=i < N), mask=i < N)


launch = copy.fn.run
copy.fn.run = lambda *args, **more: launch(*args, **more | {"warmup": True})
with forewarp.triton.install(keep=3, card="h200"):
    x = torch.ones(40000)
    copy[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, x, x.numel())
print(json.dumps({"in_main_thread": compiled, "left": left}))
