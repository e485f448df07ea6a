"""A measurement that has every field set, as large as one gets."""

from __future__ import annotations

import random

from forewarp.core.values import Comparison, Measurement, Verdict, WorkloadTiming

BLOCKS = 200


def full_measurement(verdict: Verdict = "faster", workloads: int = 4) -> Measurement:
    """Times are made of arithmetic and noise; nothing ran."""
    chance = random.Random(0)
    return Measurement(
        "ok",
        verdict,
        "synthetic-1",
        "T0",
        speedup=1.25,
        low=1.22,
        high=1.28,
        workloads=tuple(_timing(f"w{k}", verdict, chance) for k in range(workloads)),
        phases={"compile": 1.0, "time": 0.8, "total": 2.0},
        device_s=1.5,
        log="a remark",
        protections=("no network",),
        environment={"torch": "2.13"},
        checks=("fresh inputs", "bit-identical when repeated"),
        flags=("candidate's clock differs",),
        conditions={
            "temperature_c": 61.0,
            "temperature_c_before": 52.0,
            "power_w": 431.5,
            "sm_hz": 1.98e9,
            "memory_hz": 2.619e9,
            "throttle_bits": 4.0,
            "other_processes": 1.0,
        },
    )


def _times(chance: random.Random, middle: float, blocks: int) -> tuple[float, ...]:
    return tuple(chance.gauss(middle, middle / 100) for _ in range(2 * blocks))


def _pair(chance: random.Random, ratio: float, blocks: int) -> Comparison:
    taken = _times(chance, 80e-6, blocks), _times(chance, 80e-6 * ratio, blocks)
    return Comparison(ratio, ratio * 0.99, ratio * 1.01, 80e-6, 80e-6 * ratio, *taken)


def _timing(name: str, verdict: Verdict, chance: random.Random) -> WorkloadTiming:
    return WorkloadTiming(
        workload=name,
        speedup=1.25,
        low=1.22,
        high=1.28,
        candidate_median_s=80e-6,
        anchor_median_s=100e-6,
        error_ratio=0.125,
        log_ratios=tuple(chance.gauss(0.22, 0.01) for _ in range(BLOCKS)),
        candidate_s=_times(chance, 80e-6, BLOCKS),
        anchor_s=_times(chance, 100e-6, BLOCKS),
        verdict=verdict,
        decisive_low=1.21,
        decisive_high=1.29,
        looks=5,
        mode="graph",
        control=_pair(chance, 1.0, 20),
        warm=_pair(chance, 1.4, 12),
        cycles=Comparison(1.24, 1.21, 1.27, 158_400.0, 198_000.0),
        launched=_pair(chance, 1.1, 12),
        candidate_hz=tuple(chance.choice((1.98e9, 1.965e9)) for _ in range(2 * BLOCKS)),
        anchor_hz=tuple(chance.choice((1.98e9, 1.965e9)) for _ in range(2 * BLOCKS)),
    )
