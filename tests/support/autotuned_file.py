"""A file with an autotuned kernel, as a user has it."""

SOURCE = """
import torch
import triton
import triton.language as tl

CONFIGS = [triton.Config({"BLOCK": b}, num_warps=w) for b in (32, 1024) for w in (1, 4)]


@triton.autotune(configs=CONFIGS, key=["N"])
@triton.jit
def scale(x, o, N, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(o + i, tl.load(x + i, mask=i < N) * 2.0, mask=i < N)


def run(n=4096):
    x = torch.randn(n, device="cuda")
    o = torch.empty_like(x)
    scale[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, o, n)
    return o


def spy():
    open("/etc/hostname.forewarp", "w").write("x")
    return run()
"""

ENDLESS = (
    SOURCE.replace("def run(", "def other(")
    + """

def run():
    import ctypes
    ctypes.CDLL(None).prctl(15, b"endless call")  # PR_SET_NAME: whoever looks for it finds it in /proc
    while True:
        pass
"""
)
"""The same, but that its own call, in a thread of the name "endless call", does not end by itself."""
