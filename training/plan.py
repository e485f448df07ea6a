"""Plan of a training run before it starts: memory by part, time a step, and where each figure comes from."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Literal

from forewarp.core.errors import DeviceError
from forewarp.core.values import Target
from forewarp.training.config import Config
from forewarp.training.sizes import Sizes

GIB = 2.0**30
WITHOUT_GPU = 1_500_000_000
"""Most weights with which a run without a GPU may begin: more would take days a step."""

SHARE = 0.9
"""Share of a card's memory that a plan may fill: the rest is for the driver, and for gaps between allocations."""

Origin = Literal["computed", "measured", "data sheet"]
Unit = Literal["GiB", "s", "tokens", "weights", "steps"]


@dataclass(frozen=True, slots=True)
class PlanFigure:
    """One figure of a plan. `phase` is when memory is held: always, in generation, in learning; else empty."""

    name: str
    value: float
    unit: Unit
    origin: Origin
    note: str = ""
    phase: Literal["always", "generation", "learning", ""] = ""


@dataclass(frozen=True, slots=True)
class TrainingPlan:
    """All figures of a plan, the peak of memory in GiB, and advice on what to change."""

    memory: tuple[PlanFigure, ...]
    time: tuple[PlanFigure, ...]
    peak_gib: float
    card_gib: float | None
    advice: tuple[str, ...]

    @property
    def fits(self) -> bool | None:
        """True if the run fits on the card, with room to spare; None where no card is known."""
        return None if self.card_gib is None else self.peak_gib <= SHARE * self.card_gib


def plan(config: Config, sizes: Sizes, card: Target | None, *, tokens: Sequence[int] = ()) -> TrainingPlan:
    """Return the plan of a run on one card. `tokens` are the lengths of its prompts, where a tokenizer counted them."""
    prompt, told = _prompt(config, tokens)
    memory, advice = _memory(config, sizes, prompt, card)
    lines = [told, *memory]

    def held(phase: str) -> float:
        return sum(line.value for line in memory if line.phase in ("always", phase))

    peak, room = max(held("generation"), held("learning")), _room(card)
    if room is not None and peak > SHARE * room and not advice:
        advice = ["lower grpo.prompt_tokens, grpo.reply_tokens or grpo.prompts × grpo.group"]
    return TrainingPlan(tuple(lines), tuple(_time(config, sizes, prompt, card)), peak, room, tuple(advice))


def check(base: str, sizes: Sizes | None, card: Target | None) -> None:
    """Raise `DeviceError` where no run can begin: a large model without a GPU, or one that the GPU cannot hold."""
    if sizes is None:
        return
    room = _room(card)
    if room is None and sizes.weights > WITHOUT_GPU:
        raise DeviceError(
            f"{base} has {sizes.weights / 1e9:.1f} billion weights, and torch finds no CUDA GPU here",
            hint="train on a machine with a GPU that holds what --dry-run says, or begin from a model of at most "
            f"{WITHOUT_GPU / 1e9:.1f} billion weights",
        )
    needed = 2 * sizes.weights / GIB
    if room is not None and needed > room:
        raise DeviceError(
            f"the weights of {base} alone take {needed:.0f} GiB, and the GPU has {room:.0f} GiB",
            hint="use a larger GPU or a smaller model; --dry-run says what a run takes",
        )


def measured_step(progress: Path) -> float | None:
    """Return the median seconds of a step, over the latest 20 in a run's journal, or None for fewer than two."""
    if not progress.is_file():
        return None
    lines = [json.loads(line) for line in progress.read_text(encoding="utf-8").splitlines()]
    steps = [(int(x["step"]), float(x["seconds"])) for x in lines if x.get("phase") == "grpo"]
    each = [b[1] - a[1] for a, b in pairwise(steps[-21:]) if b[0] == a[0] + 1 and b[1] > a[1]]
    return statistics.median(each) if each else None


def _prompt(config: Config, tokens: Sequence[int]) -> tuple[int, PlanFigure]:
    limit = config.grpo.prompt_tokens
    if not tokens:
        return limit, PlanFigure("longest prompt", limit, "tokens", "computed", "the limit grpo.prompt_tokens")
    longest = min(max(tokens), limit)
    note = f"of {len(tokens)} prompts; half are under {statistics.median(tokens):.0f}"
    return longest, PlanFigure("longest prompt", longest, "tokens", "measured", note)


def _memory(config: Config, sizes: Sizes, prompt: int, card: Target | None) -> tuple[list[PlanFigure], list[str]]:
    g = config.grpo
    longest = prompt + g.reply_tokens
    attention = config.attention or ("eager" if sizes.kind == "gpt_oss" else "sdpa")
    masked = attention in ("eager", "sdpa")
    advice: list[str] = []
    each = 2 if config.dtype == "bfloat16" else 4
    lines = [_held("weights", sizes.weights * each, "always", f"{sizes.weights / 1e9:.2f} billion in {config.dtype}")]
    if config.lora:
        trained, unknown = sizes.adapter(config.lora)
        note = f"{trained / 1e6:.1f} million, 16 bytes each with gradient and Adam"
        lines.append(_held("adapter with its optimiser", 16 * trained, "always", note))
        if unknown:
            advice.append(f"not counted, as no module of {sizes.kind} is called so: {', '.join(unknown)}")
        merged = 2 * 2 * sizes.experts * sum(i * o for n, (i, o) in sizes.fused.items() if n in config.lora.experts)
        if merged:
            lines.append(_held("experts of one layer with their adapter", merged, "learning", "made anew in each pass"))
    else:
        lines.append(_held("gradients and optimiser", 3 * each * sizes.weights, "always", "every weight is trained"))
    if g.vllm:
        room = _room(card) or 0.0
        lines.append(_held("vLLM", g.vllm_memory * room * GIB, "generation", f"{g.vllm_memory:.0%} of the card"))
    else:
        together = max(_together(config), config.watch.sequences if config.watch.every else 0)
        note = f"{together} sequences at once, each of up to {longest} tokens"
        lines.append(_held("keys and values", together * sizes.cached(longest), "generation", note))
        lines.append(_held("prompts in one layer", together * prompt * sizes.passing(), "generation", "about"))
        if masked:
            lines.append(_held("attention's mask", 3 * together * prompt**2, "generation", "as flags and as numbers"))
        if together > g.group and together * prompt * sizes.passing() > 8 * GIB:
            advice.append(f"set grpo.at_once = {g.group}, so that fewer prompts go through the model at once")
    again = g.sequences == 1
    states = 2 * sizes.width * sizes.layers if again else sizes.kept() * sizes.layers
    note = "what enters each layer; the rest is computed again" if again else "nothing is computed again"
    lines.append(_held("activations", g.sequences * longest * states, "learning", note))
    if again:
        lines.append(_held("one layer computed again", longest * sizes.kept(), "learning", "about, with all its parts"))
    if attention == "eager":
        scores = 3 * 2 * g.sequences * sizes.heads * longest**2 * (1 if again else sizes.layers)
        lines.append(_held("attention's scores", scores, "learning", "eager attention, three copies in 16 bits"))
        if scores > 8 * GIB:
            advice.append('set attention = "flex_attention", which keeps no scores, or shorten prompts and replies')
    return lines, advice


def _time(config: Config, sizes: Sizes, prompt: int, card: Target | None) -> list[PlanFigure]:
    """Return seconds at the card's peak rates: bounds from below, of replies that use all their tokens."""
    g = config.grpo
    if card is None or not card.memory_bandwidth or not card.tensor_flops:
        return []
    replies, longest = g.prompts * g.group, prompt + g.reply_tokens
    seen = sizes.layers * sizes.expert * min(sizes.experts, _together(config) * sizes.used)
    rounds = replies // _together(config)
    read = 2 * rounds * (sizes.outside + seen) + replies * sizes.cached(prompt + g.reply_tokens // 2)
    token = max(read / card.memory_bandwidth, 2 * sizes.active * replies / card.tensor_flops)
    # Two operations a weight and token forward, again where a layer is computed again, and once or twice as many back.
    passes = 2 + (2 if g.sequences == 1 else 0) + (2 if config.lora else 4)
    first = 2 * sizes.active * replies * prompt / card.tensor_flops
    learn = passes * sizes.active * replies * longest / card.tensor_flops
    step = g.reply_tokens * token + first + learn
    at = f"at the peak rates of {card.name}"
    return [
        PlanFigure("replies of a step, at least", g.reply_tokens * token + first, "s", "computed", at),
        PlanFigure(
            "learning of a step, at least", learn, "s", "computed", "at the peak rates, without attention's own work"
        ),
        PlanFigure(
            f"{g.steps} steps, at least",
            g.steps * step,
            "s",
            "computed",
            "a bound: nothing keeps to peak rates",
        ),
    ]


def _together(config: Config) -> int:
    return config.grpo.at_once or config.grpo.prompts * config.grpo.group


def _held(name: str, size: float, phase: Literal["always", "generation", "learning"], note: str) -> PlanFigure:
    return PlanFigure(name, size / GIB, "GiB", "computed", note, phase)


def _room(card: Target | None) -> float | None:
    return None if card is None or card.kind != "cuda" or not card.memory_bytes else card.memory_bytes / GIB
