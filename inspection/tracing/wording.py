"""Errors of traced code, in words for its author."""

from __future__ import annotations

import os
import traceback


def words(error: BaseException) -> str:
    """Return kind, place in the module and message of an error, without the frames of torch and Triton."""
    lines = [f for f in traceback.extract_tb(error.__traceback__) if os.path.basename(f.filename).startswith("tmp")]
    where = f" (line {lines[-1].lineno})" if lines else ""
    text = str(error).strip() or "no message"
    if len(text) > 1500:
        text = f"{text[:1000]}\n…\n{text[-500:]}"
    return f"{type(error).__name__}{where}: {text}"
