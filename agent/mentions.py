"""Mentions such as `@file` in a prompt: the named files go to the model with it."""

from __future__ import annotations

import re
from pathlib import Path

from forewarp.agent.arguments import shown
from forewarp.agent.file_rules import readable_file
from forewarp.core.errors import UsageError

MOST_OF_ONE, MOST_OF_ALL = 64_000, 200_000
"""Characters of one file, and of all files of a prompt."""

_MENTION = re.compile(r'(?<![\w@.])@(?:"([^"\n]+)"|([^\s"@]+))')
_CODE = frozenset([".c", ".cc", ".cpp", ".cu", ".cuh", ".h", ".hpp", ".ptx", ".py"])
_OTHER = frozenset([".csv", ".json", ".log", ".md", ".toml", ".txt", ".yaml", ".yml"])
_AFTER = ".,:;!?)]}'"


def expand(text: str, folder: Path) -> str:
    """Append the content of each file that the text names as `@path`; a path with blanks goes into quotes.

    What cannot be a path, such as `@triton.jit`, is left alone. Raises `UsageError` for a file that is missing, too
    large, no text, outside of the folder, or named as one that holds secrets.
    """
    parts: list[str] = []
    seen: set[Path] = set()
    room = MOST_OF_ALL
    for quoted, bare in _MENTION.findall(text):
        path = _named(quoted, bare, folder)
        if path is None or path in seen:
            continue
        seen.add(path)
        content = _content(path, shown(folder, path))
        room -= len(content)
        if room < 0:
            raise UsageError(
                f"the files named hold more than {MOST_OF_ALL:,} characters", hint="name fewer, or parts of them"
            )
        parts.append(f'<file path="{shown(folder, path)}">\n{content.rstrip()}\n</file>')
    return "\n\n".join([text, *parts])


def _named(quoted: str, bare: str, folder: Path) -> Path | None:
    """Return the file that a mention means; None where it is none."""
    if quoted:
        return _existing(quoted, folder)
    for name in dict.fromkeys((bare, bare.rstrip(_AFTER))):
        if name and (folder / Path(name).expanduser()).is_file():
            return readable_file(folder, name)
    name = bare.rstrip(_AFTER)
    return _existing(name, folder) if Path(name).suffix.lower() in _CODE | _OTHER or "/" in name.strip("/") else None


def _existing(name: str, folder: Path) -> Path:
    path = readable_file(folder, name)
    if not path.is_file():
        problem = "is a folder" if path.is_dir() else "is not there"
        raise UsageError(f"@{name}: {path} {problem}", hint="name a file below the working folder, or leave the @ out")
    return path


def _content(path: Path, name: str) -> str:
    try:
        if path.stat().st_size > 4 * MOST_OF_ONE:
            raise _too_large(name)
        content = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise UsageError(f"@{name} is no text", hint="name a text file") from None
    except OSError as e:
        raise UsageError(f"@{name} cannot be read: {e.strerror}", hint="name another file") from None
    if len(content) > MOST_OF_ONE:
        raise _too_large(name)
    return content


def _too_large(name: str) -> UsageError:
    return UsageError(
        f"@{name} has more than {MOST_OF_ONE:,} characters",
        hint="leave the @ out: the model reads such a file in parts with read_file",
    )
