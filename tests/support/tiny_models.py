"""Language models of a few thousand weights that know nothing but some words and whole replies, one token each.

Needs the extra `train`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from forewarp.training import chat

TEMPLATE = (
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
LEVELS = (0.0, 0.3, 0.6, 1.0)
SLOW, FAST = 0.6, 1.2
"""Speed-ups of the bins that replies spread their probability over."""


def reply(q: float) -> str:
    """Return the reply that says `q` of the fast bin, and the rest of the slow one."""
    p = [0.0] * 8
    p[4], p[2] = q, 1 - q
    return chat.arguments(chat.reply([(FAST if q > 0.5 else SLOW, p, 0.9)]))


def tokenizer(words: Sequence[str]) -> Any:
    """Return one that reads these words and skips all others; each reply is one token."""
    from tokenizers import AddedToken, Regex, Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    roles = ["<|pad|>", "<|end|>", "<|system|>", "<|user|>", "<|assistant|>"]
    known = {word: i for i, word in enumerate([*roles, *words])}
    made = Tokenizer(models.WordLevel(known, unk_token="<|pad|>"))
    made.pre_tokenizer = pre_tokenizers.Split(Regex("|".join(words)), "removed", invert=True)
    made.add_special_tokens([AddedToken(role, special=True) for role in roles])
    made.add_tokens([AddedToken(reply(q), special=False, normalized=False) for q in LEVELS])
    return PreTrainedTokenizerFast(
        tokenizer_object=made,
        pad_token="<|pad|>",
        eos_token="<|end|>",
        chat_template=TEMPLATE,
        truncation_side="left",
        clean_up_tokenization_spaces=False,
    )


def llama(tokens: Any, seed: int = 0) -> Any:
    """Return a dense model with random weights."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(seed)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2}
    return LlamaForCausalLM(LlamaConfig(vocab_size=len(tokens), num_key_value_heads=1, **sizes, **_marks(tokens)))


def gpt_oss(tokens: Any, seed: int = 0) -> Any:
    """Return a mixture of four experts of gpt-oss's kind with random weights, and its published balancing loss."""
    import torch
    from transformers import GptOssConfig, GptOssForCausalLM

    torch.manual_seed(seed)
    sizes = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    experts = {"num_local_experts": 4, "num_experts_per_tok": 2, "router_aux_loss_coef": 0.9, "sliding_window": 128}
    return GptOssForCausalLM(
        GptOssConfig(vocab_size=len(tokens), num_key_value_heads=1, head_dim=16, **sizes, **experts, **_marks(tokens))
    )


def teach(model: Any, tokens: Any, prompts: Sequence[str], steps: int = 120) -> None:
    """Teach the form of an answer: after any of the prompts, any reply, and the end."""
    import torch

    first = len(tokens) - len(LEVELS)
    rng = torch.Generator().manual_seed(0)
    asked = torch.tensor(tokens(list(prompts), add_special_tokens=False)["input_ids"])
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-2)
    model.train()
    for _ in range(steps):
        rows = asked[torch.randint(len(prompts), (64,), generator=rng)]
        said = torch.randint(first, len(tokens), (64, 1), generator=rng)
        end = torch.full((64, 1), tokens.eos_token_id)
        ids = torch.cat([rows, said, end], dim=1)
        logits = model(input_ids=ids).logits[:, rows.shape[1] - 1 : -1]
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, rows.shape[1] :].flatten())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()


def written(model: Any, tokens: Any, folder: Path) -> str:
    """Write model and tokenizer, and return the folder."""
    model.save_pretrained(folder)
    tokens.save_pretrained(folder)
    return str(folder)


def _marks(tokens: Any) -> dict[str, Any]:
    return {"pad_token_id": tokens.pad_token_id, "eos_token_id": tokens.eos_token_id, "bos_token_id": None}
