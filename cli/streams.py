"""Output to terminals and files that cannot hold every character, as with LC_ALL=C, and to logs that are obeyed."""

from __future__ import annotations

import codecs
import locale
import os
import re
import sys
from collections.abc import Sequence
from typing import Any, TextIO, cast

from forewarp.cli import exits

_ENCODING = "_FOREWARP_STREAM_ENCODING"
_PLAIN = {
    **{"×": "x", "±": "+/-", "–": "-", "—": "-", "−": "-", "…": "...", "·": "*", "•": "*", "→": "->", "←": "<-"},
    **{"µ": "u", "μ": "u", "σ": "sigma", "≤": "<=", "≥": ">=", "≈": "~", "√": "sqrt", "²": "^2", "³": "^3"},
    **{"“": '"', "”": '"', "‘": "'", "’": "'", "✓": "+", "✗": "x", "█": "#", "░": ".", "▏": "|", "\u00a0": " "},
    **{"│": "|", "┃": "|", "─": "-", "━": "-", "═": "=", "●": "*", "○": "o", "▲": "^", "▼": "v"},
}
"""ASCII replacements for characters that are often printed."""

_OBEYED_LOGS = ("GITHUB_ACTIONS", "TF_BUILD", "TEAMCITY_VERSION")
"""Environment variables of continuous integration that takes lines of a job's output for commands."""
_COMMAND = re.compile(r"^(\s*:):|(##\w*)\[", re.MULTILINE)
"""Begin of `::error::…` (GitHub, Forgejo) or of `##[…]`, `##vso[…]` and `##teamcity[…]`."""


def use_utf8(arguments: Sequence[str] | None) -> None:
    """Start this process again in Python's UTF-8 mode if the locale has another encoding; files are always UTF-8.

    What is printed keeps the locale's encoding. Does nothing where the arguments are not those of the process.
    """
    encoding = locale.getpreferredencoding(do_setlocale=False)
    if arguments is not None or sys.flags.utf8_mode or codecs.lookup(encoding).name == "utf-8":
        return
    if _ENCODING in os.environ or not sys.orig_argv[1:]:
        return
    environment = os.environ | {"PYTHONUTF8": "1", _ENCODING: f"{sys.stdout.encoding}:{sys.stderr.encoding}"}
    environment.pop("PYTHONIOENCODING", None)  # child processes choose their own encoding
    os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], environment)


def survive_any_text(arguments: Sequence[str]) -> None:
    """Make stdout and stderr replace characters that they cannot encode: by ASCII text, or in JSON by an escape."""
    codecs.register_error("forewarp-plain", _plain)
    codecs.register_error("forewarp-json", _escaped)
    encodings = (os.environ.pop(_ENCODING, "") or ":").split(":")
    json = exits.wants_document(arguments) or ("--events" in arguments and "-" in arguments)
    for stream, encoding, errors in (
        (sys.stdout, encodings[0], "forewarp-json" if json else "forewarp-plain"),
        (sys.stderr, encodings[1], "forewarp-plain"),
    ):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(encoding=encoding or None, errors=errors)
    if any(os.environ.get(name) for name in _OBEYED_LOGS):
        sys.stdout = cast("TextIO", LogStream(sys.stdout, json=json))
        sys.stderr = cast("TextIO", LogStream(sys.stderr, json=False))


class LogStream:
    """A stream whose lines are no commands to the continuous integration that reads them, whatever is written."""

    def __init__(self, stream: TextIO, *, json: bool) -> None:
        """In JSON, characters are escaped; elsewhere a blank is put between them."""
        self._stream, self._json = stream, json
        self._line = ""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write text, which may be a part of a line."""
        shown = _COMMAND.sub(self._broken, self._line + text)[len(self._line) :]
        self._line = (self._line + shown).rpartition("\n")[2]
        self._stream.write(shown)
        return len(text)

    def _broken(self, found: re.Match[str]) -> str:
        if found[1]:
            return f"{found[1]} :"
        return f"{found[2]}\\u005b" if self._json else f"{found[2]} ["


def _plain(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start : error.end]
    return "".join(_PLAIN.get(c) or _box(c) or _escape(c) for c in text), error.end


def _escaped(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(_escape(c) for c in error.object[error.start : error.end]), error.end


def _box(character: str) -> str:
    """Return an ASCII character for line drawing, blocks and Braille dots, as wide as these; "" for others."""
    number = ord(character)
    if 0x2500 <= number < 0x2580:
        return "+"
    return "#" if 0x2580 <= number < 0x25A0 else ":" if 0x2800 <= number < 0x2900 else ""


def _escape(character: str) -> str:
    r"""Return the JSON escape of a character, such as \u00d7; two of them (surrogates) above U+FFFF."""
    number = ord(character)
    if number < 0x10000:
        return f"\\u{number:04x}"
    number -= 0x10000
    return f"\\u{0xD800 | number >> 10:04x}\\u{0xDC00 | number & 0x3FF:04x}"
