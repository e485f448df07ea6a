"""Calls of the fused mixture-of-experts kernel as vLLM and SGLang make them, and the configurations of vLLM's tuner.

`moe.py` puts this file beside the kernel's text. It needs torch and Triton only.
"""

from __future__ import annotations

import inspect
import itertools
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
import triton
import triton.language as tl

DEVICE = "cuda" if torch.cuda.is_available() else "meta"
RANGES = {
    "BLOCK_SIZE_M": (16, 32, 64, 128, 256),
    "BLOCK_SIZE_N": (32, 64, 128, 256),
    "BLOCK_SIZE_K": (64, 128, 256),
    "GROUP_SIZE_M": (1, 16, 32, 64),
    "num_warps": (4, 8),
    "num_stages": (2, 3, 4, 5),
}
"""The space of vLLM's `benchmarks/kernels/benchmark_moe.py` for NVIDIA cards: 1,920 configurations."""
LARGEST = max(RANGES["BLOCK_SIZE_M"])


@dataclass(frozen=True, slots=True)
class Layer:
    """Sizes of one layer: experts, width of a token, width within an expert, experts of a token."""

    experts: int = 8
    hidden: int = 4096
    inner: int = 7168
    top_k: int = 2


LAYER = Layer()
"""Mixtral 8x7B shared between two GPUs, which vLLM's tuner takes where no model is named."""


def autotuned(kernel: Any) -> Any:
    """Return the kernel under `triton.autotune` with vLLM's space.

    How many slots there are (`EM`) depends on the tile, as do the tokens in them, which a hook puts into place.
    """
    rules: dict[str, Callable[[Mapping[str, Any]], Any]] = {"EM": slot_count}
    if "even_Ks" in kernel.arg_names:
        rules["even_Ks"] = lambda given: given["K"] % given["BLOCK_SIZE_K"] == 0
    configs = []
    for values in itertools.product(*RANGES.values()):
        named = dict(zip(RANGES, values, strict=True))
        warps, stages = named.pop("num_warps"), named.pop("num_stages")
        configs.append(triton.Config(named, num_warps=warps, num_stages=stages, pre_hook=align))
    return triton.autotune(configs, key=["N", "K", "num_valid_tokens"])(triton.heuristics(rules)(kernel))


def run(tuner: Any, tokens: int, layer: Layer = LAYER) -> list[torch.Tensor]:
    """Launch both products of a layer, one after the other, on inputs of their own."""
    return [product(tuner, tokens, layer, first=first) for first in (True, False)]


def product(tuner: Any, tokens: int, layer: Layer = LAYER, *, first: bool) -> torch.Tensor:
    """Launch the layer's first or second product; return its result, [slots, width]."""
    rows, k, n, top_k = sizes(tokens, layer, first=first)
    inputs, weights = tensor(rows, k), tensor(layer.experts, n, k)
    out = torch.empty(tokens * layer.top_k, n, dtype=torch.bfloat16, device=DEVICE)
    most = tokens * layer.top_k + layer.experts * (LARGEST - 1)
    slots = torch.zeros(most, dtype=torch.int32, device=DEVICE)
    owners = torch.zeros(most, dtype=torch.int32, device=DEVICE)
    known = {
        "a_ptr": inputs,
        "b_ptr": weights,
        "c_ptr": out,
        "topk_weights_ptr": torch.ones(tokens, layer.top_k, dtype=torch.float32, device=DEVICE),
        "sorted_token_ids_ptr": slots,
        "expert_ids_ptr": owners,
        "num_tokens_post_padded_ptr": torch.zeros(1, dtype=torch.int32, device=DEVICE),
        "N": n,
        "K": k,
        "num_valid_tokens": tokens * layer.top_k,
        "stride_am": k,
        "stride_ak": 1,
        "stride_be": n * k,
        "stride_bk": 1,
        "stride_bn": k,
        "stride_cm": n,
        "stride_cn": 1,
        "MUL_ROUTED_WEIGHT": not first,
        "top_k": top_k,
        "ROUTER_TOPK": layer.top_k,
        "compute_type": tl.bfloat16,
        "SPLIT_K": 1,
    }
    usual = {n for n, p in inspect.signature(tuner.base_fn).parameters.items() if p.default is not p.empty}
    needed = [n for n in tuner.arg_names if n not in {*RANGES, "EM", "even_Ks", *usual} or n in known]
    given = {name: value(name, known) for name in needed}
    tuner[lambda meta: (triton.cdiv(meta["EM"], meta["BLOCK_SIZE_M"]) * triton.cdiv(n, meta["BLOCK_SIZE_N"]),)](**given)
    return out


def value(name: str, known: Mapping[str, Any]) -> Any:
    """Return what a parameter gets: nothing is quantised, there is no bias, and no way is taken that a flag opens."""
    if name in known:
        return known[name]
    if name.endswith(("_ptr", "_desc")):
        return None
    if name.startswith(("use_", "USE_", "HAS_", "SWAP_", "per_", "naive_", "FUSE_", "MASK_", "c_sorted", "swap_ab")):
        return False
    if name.startswith(("stride_", "group_")):
        return 0
    raise ValueError(f"the kernel has a parameter {name}, which is not known here")


def sizes(tokens: int, layer: Layer, *, first: bool) -> tuple[int, int, int, int]:
    """Return rows of the input, width of a row, width of the result, and slots that share a row."""
    if first:
        return tokens, layer.hidden, 2 * layer.inner, layer.top_k
    return tokens * layer.top_k, layer.inner, layer.hidden, 1


@cache
def tensor(*shape: int) -> torch.Tensor:
    """Return random numbers that stay the same."""
    if DEVICE == "meta":
        return torch.empty(*shape, dtype=torch.bfloat16, device="meta")
    generator = torch.Generator(DEVICE).manual_seed(0)
    return torch.randn(*shape, dtype=torch.bfloat16, device=DEVICE, generator=generator) / 8


@cache
def routes(tokens: int, experts: int, top_k: int) -> tuple[int, ...]:
    """Return the expert of each slot; the slots of a token follow each other, and have different experts."""
    chance = random.Random(0)
    return tuple(e for _ in range(tokens) for e in chance.sample(range(experts), top_k))


def slot_count(given: Mapping[str, Any]) -> int:
    """Return the slots of a launch, as vLLM counts them without reading where tokens go."""
    block, slots = given["BLOCK_SIZE_M"], given["num_valid_tokens"]
    padded = slots + given["b_ptr"].shape[0] * (block - 1)
    return min(padded, slots * block) if given["a_ptr"].shape[0] < block else padded


def align(given: dict[str, Any]) -> None:
    """Write the slots, sorted by expert, in whole tiles of the configuration, into the launch's tensors."""
    tokens, top_k = given["topk_weights_ptr"].shape
    experts, device = given["b_ptr"].shape[0], str(given["b_ptr"].device)
    for name, part in aligned(tokens, top_k, experts, given["BLOCK_SIZE_M"], device).items():
        given[name][: len(part)].copy_(part)


@cache
def aligned(tokens: int, top_k: int, experts: int, block: int, device: str) -> dict[str, torch.Tensor]:
    """Return slots by expert, each filled up to whole tiles with a number beyond all slots, and the tiles' experts."""
    chosen = routes(tokens, experts, top_k)
    slots: list[int] = []
    owners: list[int] = []
    for expert in range(experts):
        own = [slot for slot, e in enumerate(chosen) if e == expert]
        tiles = triton.cdiv(len(own), block)
        slots += [*own, *[len(chosen)] * (tiles * block - len(own))]
        owners += [expert] * tiles
    lists = {"sorted_token_ids_ptr": slots, "expert_ids_ptr": owners, "num_tokens_post_padded_ptr": [len(slots)]}
    return {name: torch.tensor(values, dtype=torch.int32, device=device) for name, values in lists.items()}
