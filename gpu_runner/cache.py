"""The folder of what can be made again: compiled candidates, traces, captured inputs as text."""

from __future__ import annotations

import os
from pathlib import Path


def default_cache() -> Path:
    """Return the cache folder: $FOREWARP_CACHE, or forewarp under the user's cache folder."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(os.environ.get("FOREWARP_CACHE") or Path(base) / "forewarp")
