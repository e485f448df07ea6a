"""Plan of a training run before it starts: memory by part, time a step, and where each figure comes from.

Sizes come from a model's published configuration alone. Formulas are those of decoders with grouped-query attention and
a gated MLP, dense or with fused experts. What a configuration does not say (biases, norms of queries) goes by the kind
of model; other kinds are not guessed at.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

from forewarp.core.errors import DeviceError
from forewarp.core.values import Target
from forewarp.training.config import Config, Lora
from forewarp.training.model import package

GIB = 2.0**30
WITHOUT_GPU = 1_500_000_000
"""Most weights with which a run without a GPU may begin: more would take days a step."""

SHARE = 0.9
"""Share of a card's memory that a plan may fill: the rest is for the driver, and for gaps between allocations."""

FigureOrigin = Literal["computed", "measured", "data sheet"]
FigureUnit = Literal["GiB", "s", "tokens", "weights", "steps"]

_GPT_OSS: Mapping[str, Any] = {
    **{"model_type": "gpt_oss", "hidden_size": 2880, "intermediate_size": 2880, "vocab_size": 201088},
    **{"num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 64, "attention_bias": True},
    **{"num_experts_per_tok": 4, "sliding_window": 128},
}
KNOWN: Mapping[str, Mapping[str, Any]] = {
    "openai/gpt-oss-20b": {**_GPT_OSS, "num_hidden_layers": 24, "num_local_experts": 32},
    "openai/gpt-oss-120b": {**_GPT_OSS, "num_hidden_layers": 36, "num_local_experts": 128},
}
"""Numbers of published `config.json` files, so that a run can be planned before anything is downloaded."""

_DENSE = ("llama", "mistral", "qwen2", "qwen3")
_EXPERTS = ("mlp.experts.gate_up_proj", "mlp.experts.down_proj")


@dataclass(frozen=True, slots=True)
class Sizes:
    """A model's numbers. `experts` is 0 for a dense one, `used` of them see a token; `windowed` layers see `window`."""

    kind: str
    layers: int
    width: int
    inner: int
    heads: int
    kv_heads: int
    head: int
    vocabulary: int
    tied: bool
    biased: bool
    experts: int = 0
    used: int = 1
    window: int = 0
    windowed: int = 0

    @property
    def linear(self) -> dict[str, tuple[int, int]]:
        """Inputs and outputs of a layer's linear modules, by name."""
        q, kv = self.heads * self.head, self.kv_heads * self.head
        modules = {"q_proj": (self.width, q), "k_proj": (self.width, kv), "v_proj": (self.width, kv)}
        modules["o_proj"] = (q, self.width)
        if not self.experts:
            modules |= {"gate_proj": (self.width, self.inner), "up_proj": (self.width, self.inner)}
            modules["down_proj"] = (self.inner, self.width)
        return modules

    @property
    def fused(self) -> dict[str, tuple[int, int]]:
        """Inputs and outputs of one expert, by the name of the weights that hold all of them."""
        each = ((self.width, 2 * self.inner), (self.inner, self.width))
        return dict(zip(_EXPERTS, each, strict=True)) if self.experts else {}

    @property
    def expert(self) -> int:
        """Weights of one expert."""
        return sum(i * o + o for i, o in self.fused.values())

    @property
    def outside(self) -> int:
        """Weights that every token goes through: all but the experts, and but the table of embeddings."""
        linear = sum(i * o for i, o in self.linear.values()) + 2 * self.width
        if self.biased:
            linear += self.heads * self.head + 2 * self.kv_heads * self.head
        if self.kind == "gpt_oss" or (self.biased and self.kind == "llama"):
            linear += self.width
        if self.kind == "qwen3":
            linear += 2 * self.head
        if self.experts:
            linear += self.heads + (self.width + 1) * self.experts
        return self.layers * linear + self.width + self.vocabulary * self.width

    @property
    def weights(self) -> int:
        """All weights."""
        table = 0 if self.tied else self.vocabulary * self.width
        return self.outside + table + self.layers * self.experts * self.expert

    @property
    def active(self) -> int:
        """Weights that a token is multiplied with."""
        return self.outside + self.layers * self.used * self.expert

    def adapter(self, lora: Lora) -> tuple[int, list[str]]:
        """Return the weights of an adapter, and the names of its modules that are not counted."""
        named = list(self.linear) if lora.modules == "all-linear" else lora.modules
        unknown = [n for n in named if n not in self.linear] + [n for n in lora.experts if n not in self.fused]
        each = sum(sum(self.linear[n]) for n in named if n in self.linear)
        each += self.experts * sum(sum(self.fused[n]) for n in lora.experts if n in self.fused)
        return self.layers * lora.rank * each, unknown

    def cached(self, tokens: int) -> int:
        """Return how many bytes of keys and values, in 16 bits, are kept of a text while it is generated."""
        seen = (self.layers - self.windowed) * tokens + self.windowed * min(tokens, self.window)
        return 2 * 2 * self.kv_heads * self.head * seen

    def kept(self) -> int:
        """Return about how many bytes of a token a layer keeps for the backward pass, but attention's scores."""
        attention = 2 * self.heads * self.head + 2 * self.kv_heads * self.head
        return 2 * (4 * self.width + attention + self.used * (4 * self.inner + (self.width if self.experts else 0)))

    def passing(self) -> int:
        """Return about how many bytes of a token are held at most while it goes through one layer, nothing kept.

        Norms compute in 32 bits, so that the width counts twice as often.
        """
        attention = 2 * self.heads * self.head + 2 * self.kv_heads * self.head
        return 2 * (8 * self.width + attention + 3 * self.used * self.inner)


def of_config(config: Mapping[str, Any]) -> Sizes | None:
    """Return the sizes that a `config.json` describes, or None for a kind of model whose formulas are not known."""
    kind = str(config.get("model_type", ""))
    if kind not in (*_DENSE, "gpt_oss"):
        return None
    heads, window = int(config["num_attention_heads"]), config.get("sliding_window") if kind == "gpt_oss" else None
    return Sizes(
        kind=kind,
        layers=int(config["num_hidden_layers"]),
        width=int(config["hidden_size"]),
        inner=int(config["intermediate_size"]),
        heads=heads,
        kv_heads=int(config.get("num_key_value_heads") or heads),
        head=int(config.get("head_dim") or int(config["hidden_size"]) // heads),
        vocabulary=int(config["vocab_size"]),
        tied=bool(config.get("tie_word_embeddings", False)),
        biased=kind == "qwen2" or bool(config.get("attention_bias", False)),
        experts=int(config.get("num_local_experts") or 0),
        used=int(config.get("num_experts_per_tok") or 1),
        window=int(window or 0),
        # Every other layer of this kind looks at a window.
        windowed=-(-int(config["num_hidden_layers"]) // 2) if window else 0,
    )


def of_base(base: str) -> tuple[Sizes | None, str]:
    """Return a base model's sizes, and where they stand; None where nothing is known without a download."""
    folder = Path(base).expanduser()
    for path, where in ((folder / "config.json", "config.json"), (_downloaded(base), "downloaded config.json")):
        if path is not None and path.is_file():
            return of_config(json.loads(path.read_text(encoding="utf-8"))), where
    return (of_config(KNOWN[base]), "published config.json") if base in KNOWN else (None, "")


def _downloaded(base: str) -> Path | None:
    try:
        hub = package("huggingface_hub")
        path = hub.try_to_load_from_cache(base, "config.json")
    except (ImportError, ValueError):
        return None
    return Path(path) if isinstance(path, str) else None


@dataclass(frozen=True, slots=True)
class PlanLine:
    """One figure of a plan. `phase` is when memory is held: always, in generation, in learning; else empty."""

    name: str
    value: float
    unit: FigureUnit
    origin: FigureOrigin
    note: str = ""
    phase: Literal["always", "generation", "learning", ""] = ""


@dataclass(frozen=True, slots=True)
class TrainingPlan:
    """All figures of a plan, the peak of memory in GiB, and advice on what to change."""

    memory: tuple[PlanLine, ...]
    time: tuple[PlanLine, ...]
    peak_gib: float
    card_gib: float | None
    advice: tuple[str, ...]

    @property
    def fits(self) -> bool | None:
        """True if the run fits on the card, with room to spare; None where no card is known."""
        return None if self.card_gib is None else self.peak_gib <= SHARE * self.card_gib


def plan(config: Config, sizes: Sizes, card: Target | None, *, tokens: Sequence[int] = ()) -> TrainingPlan:
    """Return the plan of a run on one card. `tokens` are the lengths of its prompts, where a tokenizer counted them."""
    prompt, longest = _prompt(config, tokens)
    memory, advice = _memory(config, sizes, prompt, card)
    lines = [longest, *memory]

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


def _prompt(config: Config, tokens: Sequence[int]) -> tuple[int, PlanLine]:
    limit = config.grpo.prompt_tokens
    if not tokens:
        return limit, PlanLine("longest prompt", limit, "tokens", "computed", "the limit grpo.prompt_tokens")
    longest = min(max(tokens), limit)
    note = f"of {len(tokens)} prompts; half are under {statistics.median(tokens):.0f}"
    return longest, PlanLine("longest prompt", longest, "tokens", "measured", note)


def _memory(config: Config, sizes: Sizes, prompt: int, card: Target | None) -> tuple[list[PlanLine], list[str]]:
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


def _time(config: Config, sizes: Sizes, prompt: int, card: Target | None) -> list[PlanLine]:
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

    def bound(name: str, seconds: float, note: str) -> PlanLine:
        return PlanLine(f"{name}, at least", seconds, "s", "computed", note)

    return [
        bound("replies of a step", g.reply_tokens * token + first, f"at the peak rates of {card.name}"),
        bound("learning of a step", learn, "at the peak rates, without attention's own work"),
        bound(f"{g.steps} steps", g.steps * step, "a bound: nothing keeps to peak rates"),
    ]


def _together(config: Config) -> int:
    return config.grpo.at_once or config.grpo.prompts * config.grpo.group


def _held(name: str, size: float, phase: Literal["always", "generation", "learning"], note: str) -> PlanLine:
    return PlanLine(name, size / GIB, "GiB", "computed", note, phase)


def _room(card: Target | None) -> float | None:
    return None if card is None or card.kind != "cuda" or not card.memory_bytes else card.memory_bytes / GIB
