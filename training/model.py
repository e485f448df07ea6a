"""The model that is trained: loaded in bf16, quantised weights unpacked, with an adapter on top."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from forewarp.core.errors import ModelError
from forewarp.training.config import Config
from forewarp.training.packages import package


def tokenizer(base: str) -> Any:
    """Return the base model's tokenizer, with a padding token. Raises `ModelError` where there is no such model."""
    try:
        found = package("transformers").AutoTokenizer.from_pretrained(base)
    except (OSError, ValueError) as e:
        raise ModelError(
            f"there is no model at {base}: {str(e).splitlines()[0]}",
            hint="pass a folder in the format of transformers, or a hub name that can be downloaded from here",
        ) from None
    if found.pad_token is None:
        found.pad_token = found.eos_token
    return found


def base_model(config: Config) -> Any:
    """Return the base model on the GPU if there is one, in the run's precision.

    transformers would load float32 where nothing is said: twice the memory. MXFP4 weights cannot be trained through, so
    that they are unpacked.
    """
    import torch

    transformers = package("transformers")
    settings: dict[str, Any] = {"dtype": getattr(torch, config.dtype)}
    if config.attention:
        settings["attn_implementation"] = config.attention
    quantised = getattr(transformers.AutoConfig.from_pretrained(config.base), "quantization_config", None)
    if quantised is not None and dict(quantised).get("quant_method") == "mxfp4":
        settings["quantization_config"] = transformers.Mxfp4Config(dequantize=True)
    found = transformers.AutoModelForCausalLM.from_pretrained(config.base, **settings)
    return found.to("cuda") if torch.cuda.is_available() else found


def adapted(model: Any, config: Config) -> Any:
    """Return the model with a fresh adapter, or the model itself where all weights are trained."""
    if not config.lora:
        return model
    peft = package("peft")
    made = peft.LoraConfig(
        r=config.lora.rank,
        lora_alpha=config.lora.alpha,
        lora_dropout=0.0,
        target_modules=config.lora.modules,
        target_parameters=config.lora.experts or None,
        task_type="CAUSAL_LM",
    )
    return peft.get_peft_model(model, made)


def with_adapter(config: Config, adapter: Path) -> Any:
    """Return the base model with a saved adapter, or the saved model itself where all weights were trained."""
    if not config.lora:
        return base_model(config.model_copy(update={"base": str(adapter)}))
    return package("peft").PeftModel.from_pretrained(base_model(config), str(adapter))


def save(model: Any, tokens: Any, folder: Path) -> None:
    """Write adapter (or model) and tokenizer."""
    model.save_pretrained(str(folder))
    tokens.save_pretrained(str(folder))
