"""Text of models, files, kernels and compilers, made safe for terminals, spreadsheets and line-based readers.

Every face shows such text through this module: `cli/printing.py` and `report/display.py` for the command line, the line
filter of `agent/tui/app.py` for the terminal agent.
"""

from __future__ import annotations

import json
import re
from typing import Any

_CONTROLS = (
    "\x7f-\x9f"  # DEL and the C1 controls, which 8-bit terminals read as ESC sequences
    "\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"  # invisible, and text direction
    "\ufffe\uffff"  # no characters of XML
    "\U000e0000-\U000e007f"  # invisible tags
)
_SURROGATES = "\ud800-\udfff"  # bytes of a file name that are not UTF-8
_UNPRINTABLE = re.compile(f"[\x00-\x08\x0b-\x1f{_CONTROLS}{_SURROGATES}]")
_UNESCAPED = re.compile(f"[{_CONTROLS}{_SURROGATES}]")
_FORMULA = re.compile(r"""(^|[;|"'\t\n])(\s*)(?=[=+\-@＝＋－＠])""")  # also where other programs split
UNREADABLE = "\ufffd"


def printable(text: str, mark: str = "") -> str:
    """Return the text with `mark` in place of each control and invisible character but line ends and tabs.

    Bytes that are not UTF-8 become U+FFFD; joiners of emoji and scripts stay. Stateless, so that pieces can be cleaned.
    """
    return _UNPRINTABLE.sub(lambda found: UNREADABLE if "\ud800" <= found[0] <= "\udfff" else mark, text)


def one_line(text: str, mark: str = "") -> str:
    """Return the printable text with each run of blanks and line ends as one blank."""
    return " ".join(printable(text, mark).split())


def first_line(text: str) -> str:
    """Return the first line that says something, at most 300 characters of it."""
    return next((line.strip() for line in text.splitlines() if line.strip()), "")[:300]


def first_error(log: str) -> str:
    """Return the first line that names an error (indented only if no other), a traceback's end, or the first line."""
    lines = log.splitlines()
    deepest = max((i for i, line in enumerate(lines) if line.startswith('  File "')), default=len(lines))
    raised = (line for line in lines[deepest:] if line and not line[0].isspace())
    named = [line for line in lines if re.search(r"(?<!_)error\b", line, re.IGNORECASE)]
    outside = next((line for line in named if not line[:1].isspace()), next(raised, ""))
    return first_line(outside or (named[0] if named else log))


def clip(text: str, limit: int = 2000) -> str:
    """Return at most `limit` characters of `text`: its head and its tail, where compilers put what matters."""
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n[… {len(text) - 2 * half} characters left out …]\n{text[-half:]}"


def spreadsheet_cell(text: str) -> str:
    """Return text for a cell of a CSV file, with a ' before what a spreadsheet would run as a formula."""
    return _FORMULA.sub(r"\1\2'", printable(text).strip())


def escaped_json(document: str) -> str:
    """Return the same JSON document with characters escaped that terminals and line-based readers act upon."""
    return _UNESCAPED.sub(lambda found: json.dumps(found[0])[1:-1], document)


def model_json(model: Any, indent: int | None = None) -> str:
    """Return a pydantic model as JSON for files and terminals, also where it holds names that are not UTF-8."""
    try:
        return escaped_json(model.model_dump_json(indent=indent))
    except ValueError:  # pydantic's own writer takes no lone surrogates; the standard library escapes them
        return json.dumps(model.model_dump(mode="json"), indent=indent)
