"""Prices of tokens: a dated table that the user can override."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from forewarp.core.errors import UsageError

BUNDLED = Path(__file__).with_name("prices.toml")
VARIABLE = "FOREWARP_PRICES"


@dataclass(frozen=True, slots=True)
class Prices:
    """Dollars per million input and output tokens by model, and the date of the table."""

    dated: str
    models: Mapping[str, tuple[float, float]]

    def dollars(self, model: str, input_tokens: int, output_tokens: int) -> float | None:
        """Return the price of a call, None where the model is not listed. Cached input counts at the full price."""
        if model not in self.models:
            return None
        per_input, per_output = self.models[model]
        return (input_tokens * per_input + output_tokens * per_output) / 1e6


def load(override: Path | None = None) -> Prices:
    """Return the bundled table with the user's entries over it; `override` replaces the search for the user's file."""
    bundled = _read(BUNDLED)
    path = override or _user_table()
    if path is None:
        return bundled
    own = _read(path)
    return Prices(own.dated or bundled.dated, {**bundled.models, **own.models})


def _user_table() -> Path | None:
    if named := os.environ.get(VARIABLE):
        return Path(named)
    import platformdirs

    path = platformdirs.user_config_path("forewarp") / "prices.toml"
    return path if path.is_file() else None


def _read(path: Path) -> Prices:
    """Read a table; raises `UsageError` that says what is wrong with it."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
        models = cast("dict[str, dict[str, Any]]", table.get("models", {}))
        prices = {name: (float(entry["input"]), float(entry["output"])) for name, entry in models.items()}
    except OSError as e:
        raise UsageError(f"the price table {path} cannot be read: {e.strerror}", hint=f"correct ${VARIABLE}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, KeyError, TypeError, ValueError, AttributeError) as e:
        raise UsageError(
            f"the price table {path} is malformed: {type(e).__name__}: {e}",
            hint='write [models."provider:name"] with input = and output =, in dollars per million tokens',
        ) from None
    return Prices(str(table.get("dated", "")), prices)
