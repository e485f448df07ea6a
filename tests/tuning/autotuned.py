"""Autotune an addition under Triton's interpreter, a child for each case, and print what was benchmarked."""

import json
import os
import sys
import warnings

os.environ["TRITON_INTERPRET"] = "1"

import torch
import triton
import triton.language as tl

import forewarp.triton

benchmarked = []


def do_bench(call, quantiles):
    call()
    benchmarked.append(1)
    return [float(len(benchmarked))] * 3


def kernel(**pruning):
    @triton.autotune(
        [triton.Config({"BLOCK": b}, num_warps=w) for b in (64, 256, 1024) for w in (1, 4)],
        key=["N"],
        do_bench=do_bench,
        prune_configs_by=pruning or None,
    )
    @triton.jit
    def add(x, y, o, N, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(o + i, tl.load(x + i, mask=i < N) + tl.load(y + i, mask=i < N), mask=i < N)

    return add


def launched(add, n=5000):
    x, y, o = torch.randn(n), torch.randn(n), torch.empty(n)
    add[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, y, o, n)
    assert torch.equal(o, x + y)
    count = len(benchmarked)
    benchmarked.clear()
    return count


def main(case, lock):
    told = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if case == "plain":
            count, choices = launched(kernel()), []
        elif case == "prune":
            count, choices = launched(kernel(early_config_prune=forewarp.triton.prune(keep=3))), []
        elif case == "perf_model":
            count, choices = launched(kernel(perf_model=forewarp.triton.perf_model(), top_k=2)), []
        elif case == "listen":
            with forewarp.triton.listen():
                count = launched(kernel())
            with forewarp.triton.install(keep=1) as installed:
                launched(kernel())
            choices = installed.choices
        else:
            options = {"keep": {"keep": 2}, "deterministic": {"deterministic": True}, "lock": {"lock": lock}}[case]
            with forewarp.triton.install(**options) as installed:
                count = launched(kernel())
            choices = installed.choices
            assert launched(kernel()) == 6  # Triton has its own way back
        told = [str(w.message) for w in caught if w.category is forewarp.triton.ForecastWarning]
    print(
        json.dumps(
            {
                "benchmarked": count,
                "labels": [c.label for c in choices],
                "locked": [c.locked for c in choices],
                "told": told,
            }
        )
    )


for line in sys.stdin:
    child = os.fork()  # torch and Triton take seconds to import
    if child == 0:
        case, lock, os.environ["FOREWARP_CARD"] = json.loads(line)
        main(case, lock)
        sys.stdout.flush()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
