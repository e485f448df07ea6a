"""Default-stream work of an extension led to another stream, in a process that has a CUDA runtime of our own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

RUNTIME = r"""
struct dim3 { unsigned x, y, z; };
long last, waited;
extern "C" {
int __cudaPopCallConfiguration(dim3* g, dim3*, unsigned long*, void** s) { g->x = 1; *s = 0; return 0; }
int cudaLaunchCooperativeKernel(const void*, dim3 g, dim3 b, void**, unsigned long n, void* s) {
  last = (long)s + 1000000L * (g.x * 100 + g.y * 10 + g.z + b.z + n); return 0; }
int cudaLaunchKernel(const void*, dim3, dim3, void**, unsigned long, void* s) { last = (long)s; return 0; }
int cudaMemsetAsync(void*, int, unsigned long, void* s) { last = (long)s; return 0; }
int cudaMemset(void*, int, unsigned long) { last = -1; return 0; }
int cudaMemcpyAsync(void*, const void*, unsigned long, int, void* s) { last = (long)s; return 0; }
int cudaDeviceSynchronize() { waited++; return 0; }
int cudaStreamSynchronize(void*) { waited++; return 0; }
long told() { return last; }
long waits() { return waited; }
}
"""
EXTENSION = r"""
struct dim3 { unsigned x, y, z; };
extern "C" {
int __cudaPopCallConfiguration(dim3*, dim3*, unsigned long*, void**);
int cudaLaunchCooperativeKernel(const void*, dim3, dim3, void**, unsigned long, void*);
int cudaMemsetAsync(void*, int, unsigned long, void*);
int cudaMemset(void*, int, unsigned long);
int cudaDeviceSynchronize();
long popped() { dim3 g, b; unsigned long n; void* s; __cudaPopCallConfiguration(&g, &b, &n, &s); return (long)s; }
int cooperate(void* s) { return cudaLaunchCooperativeKernel(0, dim3{1, 2, 3}, dim3{1, 1, 4}, 0, 5, s); }
int fill(void* s) { return cudaMemsetAsync(0, 0, 4, s); }
int fill_and_wait() { return cudaMemset(0, 0, 4) + cudaDeviceSynchronize(); }
}
"""
SCRIPT = """
import ctypes, sys
from forewarp.gpu_runner.lifting import streams
runtime = ctypes.CDLL(sys.argv[1], mode=ctypes.RTLD_GLOBAL)
extension = ctypes.CDLL(sys.argv[2])
for name in ("popped", "told", "waits"):
    getattr(runtime if name != "popped" else extension, name).restype = ctypes.c_long
assert sys.argv[2] in streams.foreign(), streams.foreign()

def say():
    extension.cooperate(ctypes.c_void_p(0)); one = runtime.told()
    extension.fill(ctypes.c_void_p(9)); two = runtime.told()
    extension.fill(ctypes.c_void_p(1)); three = runtime.told()
    extension.fill_and_wait(); four = runtime.told()
    print(extension.popped(), one, two, three, four, runtime.waits())

say()
with streams.redirected([sys.argv[2]], 77):
    say()
say()
"""


@pytest.fixture
def libraries(tmp_path: Path) -> list[str]:
    paths: list[str] = []
    for name, text in (("libcudart.so.99", RUNTIME), ("extension.so", EXTENSION)):
        source, library = tmp_path / f"{name}.cpp", tmp_path / name
        source.write_text(text)
        subprocess.run(["g++", "-shared", "-fPIC", "-o", str(library), str(source), *paths], check=True)
        paths.append(str(library))
    return paths


@pytest.mark.skipif(torch.version.cuda is not None, reason="this torch brings a runtime, which would be taken")
def test_only_the_default_stream_is_led_elsewhere_and_only_meanwhile(libraries: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *libraries],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[3],
    )
    assert done.returncode == 0, done.stderr
    before, during, after = ([int(word) for word in line.split()] for line in done.stdout.splitlines())
    grid = 1000000 * (123 + 4 + 5)
    assert before == [0, grid, 9, 1, -1, 1]
    # A memset that waits becomes one that does not; nobody waits.
    assert during == [77, grid + 77, 9, 77, 77, 1]
    assert after == [0, grid, 9, 1, -1, 2]
