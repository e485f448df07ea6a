"""The only places where the command line writes plain text and JSON; tables and colours are `display`'s.

Light: imported before any verb. A test keeps `print` and the streams out of all other modules of the command line.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from forewarp.core.untrusted_text import escaped_json, model_json, printable

if TYPE_CHECKING:
    from pydantic import BaseModel


def out(text: str = "", end: str = "\n") -> None:
    """Write text to stdout, without control characters, at once."""
    print(printable(text), end=end, flush=True)


def err(text: str) -> None:
    """Write a line to stderr, without control characters, at once."""
    print(printable(text), file=sys.stderr, flush=True)


def trace(error: BaseException) -> None:
    """Write where an error was raised to stderr."""
    import traceback

    err("".join(traceback.format_exception(error)).rstrip())


def document(model: BaseModel) -> None:
    """Write a result to stdout as one line of JSON."""
    print(model_json(model), flush=True)


def json_line(data: Mapping[str, Any]) -> None:
    """Write data to stdout as one line of JSON."""
    json_out(json.dumps(data, ensure_ascii=False, separators=(",", ":")))


def json_out(text: str) -> None:
    """Write JSON that is text already to stdout; control characters within its strings are escaped."""
    print(escaped_json(text), flush=True)
