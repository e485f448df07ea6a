"""The model that is trained: loaded in bf16, quantised weights unpacked, with an adapter on top; and its answers.

The packages of the extra `train` are imported when they are used: forewarp is installed and checked without them.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from forewarp.core.errors import DeviceError, ModelError
from forewarp.training.config import Config

NEEDED = ("torch", "transformers", "peft", "trl", "datasets")


def need() -> None:
    """Raise `DeviceError` where a package that trains is not installed."""
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        raise DeviceError(f"training needs {', '.join(missing)}", hint='pip install "forewarp[train]"')


def computed_again(on: bool) -> dict[str, bool]:
    """Return the trainers' switch for computing activations again instead of keeping them; transformers renamed it."""
    new = hasattr(import_module("transformers").TrainingArguments, "activation_checkpointing")
    return {"activation_checkpointing" if new else "gradient_checkpointing": on}


def without_printing(trainer: Any) -> Any:
    """Return the trainer with its printing turned off: its log goes into the journal, and stdout is for results."""
    transformers = import_module("transformers")
    transformers.utils.logging.disable_progress_bar()
    trainer.remove_callback(transformers.PrinterCallback)
    return trainer


def tokenizer(base: str) -> Any:
    """Return the base model's tokenizer, with a padding token. Raises `ModelError` where there is no such model."""
    try:
        made = import_module("transformers").AutoTokenizer.from_pretrained(base)
    except (OSError, ValueError) as e:
        raise ModelError(
            f"there is no model at {base}: {str(e).splitlines()[0]}",
            hint="pass a folder in the format of transformers, or a hub name that can be downloaded from here",
        ) from None
    if made.pad_token is None:
        made.pad_token = made.eos_token
    return made


def base_model(config: Config) -> Any:
    """Return the base model, on a GPU if there is one, in the run's precision; MXFP4 is unpacked to be trained."""
    import torch

    transformers = import_module("transformers")
    settings: dict[str, Any] = {"dtype": getattr(torch, config.dtype)}
    if config.attention:
        settings["attn_implementation"] = config.attention
    quantised = getattr(transformers.AutoConfig.from_pretrained(config.base), "quantization_config", None)
    if quantised is not None and dict(quantised).get("quant_method") == "mxfp4":
        settings["quantization_config"] = transformers.Mxfp4Config(dequantize=True)
    model = transformers.AutoModelForCausalLM.from_pretrained(config.base, **settings)
    return model.to("cuda") if torch.cuda.is_available() else model


def adapted(model: Any, config: Config) -> Any:
    """Return the model with a fresh adapter, or the model itself where all weights are trained."""
    if not config.lora:
        return model
    peft = import_module("peft")
    made = peft.LoraConfig(
        r=config.lora.rank,
        lora_alpha=config.lora.alpha,
        lora_dropout=0.0,
        target_modules=config.lora.modules,
        target_parameters=config.lora.experts or None,
        task_type="CAUSAL_LM",
    )
    return peft.get_peft_model(model, made)


def save(model: Any, tokens: Any, folder: Path) -> None:
    model.save_pretrained(str(folder))
    tokens.save_pretrained(str(folder))


class Answerer:
    """Generates replies, several at a time, to the ends of prompts; `temperature` 0 takes the likeliest token."""

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        *,
        prompt_tokens: int,
        reply_tokens: int,
        sequences: int = 8,
        temperature: float = 1.0,
    ) -> None:
        self.model, self.tokenizer = model, tokenizer
        self._limits, self._sequences, self._temperature = (prompt_tokens, reply_tokens), sequences, temperature

    def texts(self, prompts: Sequence[str]) -> list[str]:
        order = sorted(range(len(prompts)), key=lambda i: len(prompts[i]))
        replies = [""] * len(prompts)
        for start in range(0, len(order), self._sequences):
            places = order[start : start + self._sequences]
            for place, text in zip(places, self._some([prompts[i] for i in places]), strict=True):
                replies[place] = text
        return replies

    def _some(self, prompts: list[str]) -> list[str]:
        import torch

        longest, new = self._limits
        tokens = self.tokenizer(
            prompts,
            return_tensors="pt",
            padding=True,
            padding_side="left",
            truncation=True,
            max_length=longest,
            add_special_tokens=False,
        ).to(self.model.device)
        sampling: dict[str, Any] = {"do_sample": self._temperature > 0}
        if self._temperature > 0:
            sampling |= {"temperature": self._temperature, "top_k": 0, "top_p": 1.0}
        was = self.model.training
        self.model.eval()
        with torch.no_grad():
            out = self.model.generate(
                input_ids=tokens["input_ids"],
                attention_mask=tokens["attention_mask"],
                max_new_tokens=new,
                pad_token_id=self.tokenizer.pad_token_id,
                use_cache=True,
                **sampling,
            )
        self.model.train(was)
        return self.tokenizer.batch_decode(out[:, tokens["input_ids"].shape[1] :], skip_special_tokens=True)
