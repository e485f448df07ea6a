"""A kernel that holds the stream until everything of a sample is enqueued, and reads the SM clock meanwhile.

nvbench calls it a blocking kernel: with the stream held, the host's launch time stays out of the timed window. While it
waits it counts SM cycles against the global timer, so each sample comes with the clock at which it began.
"""

from __future__ import annotations

import ctypes

import torch

from forewarp.gpu_runner.compilers import nvrtc
from forewarp.gpu_runner.worker.cubin import Module, launch

_SOURCE = r"""
__device__ unsigned long long timer() {
  unsigned long long now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  return now;
}

__device__ unsigned long long next_tick() {
  const unsigned long long before = timer();
  unsigned long long now;
  do now = timer(); while (now == before);
  return now;
}

extern "C" __global__ void hold(volatile int* released, int turn, long long least_ns, long long most_ns,
                                unsigned long long* record) {
  const unsigned long long from = next_tick();
  const long long cycles = clock64();
  while (true) {
    const long long waited = timer() - from;
    if (waited >= most_ns || (waited >= least_ns && *released >= turn)) break;
  }
  record[1] = next_tick() - from;
  record[0] = clock64() - cycles;
}
"""
LEAST_NS = 20_000
"""The clock is read over at least this long, from tick to tick: the global timer moves in steps of a microsecond."""
MOST_NS = 50_000_000
RECORDS = 1024


class Hold:
    """One stream's hold. `take` blocks the stream, `release` lets it go, `hertz` reads the clock seen by a hold."""

    def __init__(self) -> None:
        major, minor = torch.cuda.get_device_capability()
        self._module = Module(nvrtc.compile_source(_SOURCE, [f"--gpu-architecture=sm_{major}{minor}"]))
        self._kernel = self._module.function("hold")
        self._released = torch.zeros(1, dtype=torch.int32).pin_memory()
        self._flag = ctypes.c_int32.from_address(self._released.data_ptr())
        self._records = torch.zeros(RECORDS, 2, dtype=torch.int64).pin_memory()
        self._turn = 0

    def take(self) -> int:
        """Hold the current stream; returns the turn, which `hertz` takes once the stream has moved on."""
        self._turn += 1
        record = self._records[self._turn % RECORDS]
        launch(
            self._kernel,
            (1, 1, 1),
            (1, 1, 1),
            [
                ctypes.c_void_p(self._released.data_ptr()),
                ctypes.c_int32(self._turn),
                ctypes.c_int64(LEAST_NS),
                ctypes.c_int64(MOST_NS),
                ctypes.c_void_p(record.data_ptr()),
            ],
        )
        return self._turn

    def release(self) -> None:
        self._flag.value = self._turn

    def hertz(self, turn: int) -> float:
        """Return the SM clock during a hold that has ended, at most `RECORDS` holds ago."""
        cycles, nanoseconds = self._records[turn % RECORDS].tolist()
        return cycles / nanoseconds * 1e9 if nanoseconds else 0.0
