"""Size of a model, from its published configuration alone: weights, adapter, and the bytes that it keeps of a token.

Formulas are those of decoders with grouped-query attention and a gated MLP, dense or with fused experts. What a
configuration does not say (biases, norms of queries) goes by the kind of model; other kinds are not guessed at.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forewarp.training.config import Lora
from forewarp.training.packages import package

KNOWN: Mapping[str, Mapping[str, Any]] = {
    "openai/gpt-oss-20b": {
        **{"model_type": "gpt_oss", "num_hidden_layers": 24, "hidden_size": 2880, "intermediate_size": 2880},
        **{"num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 64, "vocab_size": 201088},
        **{"num_local_experts": 32, "num_experts_per_tok": 4, "sliding_window": 128, "attention_bias": True},
    },
    "openai/gpt-oss-120b": {
        **{"model_type": "gpt_oss", "num_hidden_layers": 36, "hidden_size": 2880, "intermediate_size": 2880},
        **{"num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 64, "vocab_size": 201088},
        **{"num_local_experts": 128, "num_experts_per_tok": 4, "sliding_window": 128, "attention_bias": True},
    },
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
        found = {"q_proj": (self.width, q), "k_proj": (self.width, kv), "v_proj": (self.width, kv)}
        found["o_proj"] = (q, self.width)
        if not self.experts:
            found |= {"gate_proj": (self.width, self.inner), "up_proj": (self.width, self.inner)}
            found["down_proj"] = (self.inner, self.width)
        return found

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


def of_config(found: Mapping[str, Any]) -> Sizes | None:
    """Return the sizes that a `config.json` describes, or None for a kind of model whose formulas are not known."""
    kind = str(found.get("model_type", ""))
    if kind not in (*_DENSE, "gpt_oss"):
        return None
    heads, window = int(found["num_attention_heads"]), found.get("sliding_window") if kind == "gpt_oss" else None
    return Sizes(
        kind=kind,
        layers=int(found["num_hidden_layers"]),
        width=int(found["hidden_size"]),
        inner=int(found["intermediate_size"]),
        heads=heads,
        kv_heads=int(found.get("num_key_value_heads") or heads),
        head=int(found.get("head_dim") or int(found["hidden_size"]) // heads),
        vocabulary=int(found["vocab_size"]),
        tied=bool(found.get("tie_word_embeddings", False)),
        biased=kind == "qwen2" or bool(found.get("attention_bias", False)),
        experts=int(found.get("num_local_experts") or 0),
        used=int(found.get("num_experts_per_tok") or 1),
        window=int(window or 0),
        # Every other layer of this kind looks at a window.
        windowed=-(-int(found["num_hidden_layers"]) // 2) if window else 0,
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
        found = hub.try_to_load_from_cache(base, "config.json")
    except (ImportError, ValueError):
        return None
    return Path(found) if isinstance(found, str) else None
