"""The packages of the extra `train`, imported when they are used: forewarp is installed and checked without them."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from forewarp.core.errors import DeviceError

NEEDED = ("torch", "transformers", "peft", "trl", "datasets")


def need() -> None:
    """Raise `DeviceError` where a package that trains is not installed."""
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        raise DeviceError(f"training needs {', '.join(missing)}", hint='pip install "forewarp[train]"')


def computed_again(on: bool) -> dict[str, bool]:
    """Return the trainers' switch for computing activations again instead of keeping them; transformers renamed it."""
    new = hasattr(package("transformers").TrainingArguments, "activation_checkpointing")
    return {"activation_checkpointing" if new else "gradient_checkpointing": on}


def without_printing(trainer: Any) -> Any:
    """Return the trainer with its printing turned off: its log goes into the journal, and stdout is for results."""
    transformers = package("transformers")
    transformers.utils.logging.disable_progress_bar()
    trainer.remove_callback(transformers.PrinterCallback)
    return trainer


def package(name: str) -> Any:
    """Return a package of the extra."""
    return import_module(name)
