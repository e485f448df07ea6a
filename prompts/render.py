"""Fills a template of this folder; a name that is missing is an error, never an empty string."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jinja2 import Environment


def render(template: str, **values: Any) -> str:
    """Return the text of `template` (a file name in this folder) with `values` filled in."""
    return _environment().get_template(template).render(**values).strip() + "\n"


def fenced(text: str, language: str = "") -> str:
    """Return a Markdown code block with a fence longer than any run of backticks inside, so that none closes it."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text.strip(chr(10))}\n{fence}"


def si(value: float, unit: str) -> str:
    """Return a number with a decimal prefix: 3350000000000.0, "B/s" gives "3.35 TB/s"."""
    for factor, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= factor:
            return f"{value / factor:.4g} {prefix}{unit}"
    return f"{value:.4g} {unit}"


def number(value: float) -> str:
    """Return a number in few digits; whole numbers have no decimal point."""
    return f"{value:.0f}" if float(value).is_integer() and abs(value) < 1e15 else f"{value:.4g}"


@lru_cache(maxsize=1)
def _environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,
    )
    filters: dict[str, Any] = {"fenced": fenced, "si": si, "number": number}
    environment.filters.update(filters)
    return environment
