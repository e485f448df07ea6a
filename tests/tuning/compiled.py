"""Compile a function with an autotuned kernel by Inductor, and ask Inductor's own tuner, where no GPU is."""

import json
import re
import sys
import warnings
from types import SimpleNamespace

import torch
import torch.utils._triton
import triton
import triton.language as tl

import forewarp.triton

torch.utils._triton.has_triton = lambda *_, **__: True  # code is written, and no kernel is launched
torch.utils._triton.triton_hash_with_backend = lambda *_: ""


@triton.autotune([triton.Config({"BLOCK": b}) for b in (64, 256, 1024)], key=["N"])
@triton.jit
def copy(x, o, N, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(o + i, tl.load(x + i, mask=i < N), mask=i < N)


def run(x):
    o = torch.empty_like(x)
    copy[lambda meta: (triton.cdiv(o.numel(), meta["BLOCK"]),)](x, o, o.numel())
    return o


def user_kernel(dynamic):
    """Return the blocks of the configurations that Inductor writes, and what it says of their grid."""
    from torch._inductor.async_compile import AsyncCompile

    texts = []
    AsyncCompile.triton = lambda _, name, text, **__: texts.append(text) or SimpleNamespace(run=lambda *_, **__: None)
    torch._dynamo.reset()
    torch.compile(run, fullgraph=True, dynamic=dynamic)(torch.ones(40000))
    (listed,) = re.findall(r"configs=(.*),\n", texts[0])
    return [c["BLOCK"] for c in eval(listed)], re.findall(r"'grid_type': '(\w+)'", texts[0])


class Launcher:
    """A compiled configuration."""

    def __init__(self, config):
        self.config = config


def own_kernel():
    """Return the launchers that are left, and whether the choice would be stored."""
    from torch._inductor.runtime.hints import DeviceProperties
    from torch._inductor.runtime.triton_heuristics import CachingAutotuner

    device = DeviceProperties("cuda", 0, 132, 90)
    signature = {"x": "*fp32", "o": "*fp32", "xnumel": "i32", "XBLOCK": "constexpr"}

    @triton.jit
    def triton_poi_fused_0(x, o, xnumel, XBLOCK: tl.constexpr):
        i = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)[:]
        tl.store(o + i, tl.load(x + i, i < xnumel), i < xnumel)

    configs = [triton.Config({"XBLOCK": b}) for b in (1, 256, 1024)]
    tuner = CachingAutotuner(
        triton_poi_fused_0,
        {"device": device, "signature": signature, "constants": {}, "configs": [{}]},
        configs,
        lambda *_, **__: None,
        [],
        False,
        None,
        inductor_meta={"grid_type": "Grid1D"},
    )
    tuner.launchers = [Launcher(c) for c in configs]
    x = torch.ones(1 << 20)
    tuner.benchmark_all_configs(x, x, x.numel())
    return [one.config.kwargs["XBLOCK"] for one in tuner.launchers], tuner.save_cache_hook is not None


def main(case, given):
    def result():
        return own_kernel() if case == "own" else user_kernel(case == "dynamic")

    before = result() if case != "own" else None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with forewarp.triton.install(card="h200", **json.loads(given)) as installed:
            during = result()
    told = [str(w.message) for w in caught if w.category is forewarp.triton.ForecastWarning]
    choices = [[c.kernel, c.considered, c.kept, c.locked] for c in installed.choices]
    after = result() if case != "own" else None
    print(json.dumps({"before": before, "during": during, "after": after, "choices": choices, "told": told}))


main(*sys.argv[1:])
