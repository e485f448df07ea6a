"""Tools of the model for the working folder: list, search, read, edit and write files, and run commands there."""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from forewarp.agent.base import BaseConversation, Caller
from forewarp.agent.edits import FileEdits, difference
from forewarp.agent.files import lines_with, list_files, read_lines, readable_file, shown
from forewarp.agent.history import refuse_left_out
from forewarp.agent.shell import ConfinedShell
from forewarp.core.errors import UsageError
from forewarp.core.untrusted_text import clip
from forewarp.tools.wording import counted

MAX_FILES = 200
MAX_LINES_FOUND = 100
MAX_OUTPUT = 8000
MAX_READ = 32_000
"""Characters of a file that are read at once, and at most as many as the model's room has tokens."""

ToolOutput = dict[str, Any]
ToolFunction = Callable[..., Coroutine[Any, Any, ToolOutput]]


class FileTools:
    """The model's tools for files. Each returns a dictionary, or raises an error with a hint."""

    def __init__(self, conversation: BaseConversation, edits: FileEdits) -> None:
        self._conversation, self._edits = conversation, edits
        self._shell = ConfinedShell(conversation)

    @property
    def _folder(self) -> Path:
        return self._conversation.settings.folder

    def all(self) -> list[ToolFunction]:
        """Return the functions."""
        return [self.list_files, self.grep, self.read_file, self.edit_file, self.write_file, self.run_command]

    async def list_files(self, pattern: str = "**/*") -> ToolOutput:
        """List files of the working folder.

        Args:
            pattern: As in glob, seen from the working folder.
        """
        files = await asyncio.to_thread(list_files, self._folder, pattern, MAX_FILES + 1)
        more = "more than " if len(files) > MAX_FILES else ""
        return {"summary": f"{more}{counted(len(files[:MAX_FILES]), 'file')}", "files": files[:MAX_FILES]}

    async def grep(self, text: str, files: str = "**/*") -> ToolOutput:
        """Find the lines of files that contain a text, whatever its case.

        Args:
            text: Plain text, no regular expression; several texts with | between them.
            files: Which files, as in glob.
        """
        words = [word for word in text.lower().split("|") if word]
        if not words:
            raise UsageError("there is no text to look for", hint="pass a text")
        found = await asyncio.to_thread(lines_with, self._folder, words, files, MAX_LINES_FOUND + 1)
        more = "more than " if len(found) > MAX_LINES_FOUND else ""
        kept = found[:MAX_LINES_FOUND]
        return {"summary": f"{more}{counted(len(kept), 'line')} with {text[:60]}", "lines": kept}

    async def read_file(self, path: str, line: int = 1) -> ToolOutput:
        """Read a text file of the working folder from a line on; files with keys, tokens or passwords are refused.

        Args:
            path: The file, seen from the working folder.
            line: Line to start at, from 1.
        """
        file = readable_file(self._folder, path)
        most = min(MAX_READ, self._conversation.room)
        first = max(1, line)
        lines, more = await asyncio.to_thread(read_lines, file, path, first, most)
        last = first + len(lines) - 1
        span = f"lines {first} to {last} of {path}" if lines else f"no line of {path} from {first} on"
        return {"summary": f"{span}{f'; go on with line={last + 1}' if more else ''}", "text": "".join(lines)}

    async def edit_file(self, caller: Caller, path: str, old: str, new: str) -> ToolOutput:
        """Replace a piece of a text file: better than write_file wherever the file is there already.

        The user sees the difference and may say no.

        Args:
            path: The file, seen from the working folder.
            old: The text to replace, as it stands there once, with its blanks; a few lines around the change.
            new: The text in its place.
        """
        new = refuse_left_out(new)

        def change(text: str | None) -> str:
            if text is None:
                raise UsageError(f"there is no file {path}", hint="list_files lists them; write_file writes a new one")
            return replaced(text, old, new, path)

        edit = await self._edits.write(caller.id, "edit_file", path, change)
        name = shown(self._folder, edit.path)
        changes = difference(edit.before or "", edit.after, name).split("\n")[2:]  # without the names
        plus, minus = (sum(c.startswith(sign) for c in changes) for sign in "+-")
        return {"summary": f"edited {name}: {counted(plus, 'line')} in place of {minus}"}

    async def write_file(self, caller: Caller, path: str, text: str) -> ToolOutput:
        """Write a whole text file of the working folder.

        Files that are not your own, hidden ones and programs need the user's word.

        Args:
            path: The file, seen from the working folder.
            text: Its whole new text.
        """
        whole = refuse_left_out(text)
        edit = await self._edits.write(caller.id, "write_file", path, lambda _: whole)
        written = counted(len(whole), "character")
        return {"summary": f"wrote {written} to {shown(self._folder, edit.path)}"}

    async def run_command(self, caller: Caller, command: str, seconds: float = 60.0) -> ToolOutput:
        """Run a shell command in the working folder, confined and without network; the user is asked each time.

        For tests, builds and git; kernels are measured by measure_kernel only.

        Args:
            command: A line for sh.
            seconds: When to end it, at most 600.
        """
        done = await self._shell.run(caller.id, command, max(1.0, seconds))
        ended = f", ended: {done.ended}" if done.ended else ""
        return {"summary": f"exit status {done.status}{ended}", "output": clip(done.output, MAX_OUTPUT)}


def replaced(text: str, old: str, new: str, path: str) -> str:
    """Return the text with the one place of `old` replaced; raises `UsageError` that says what is there instead."""
    if not old:
        raise UsageError("the text to replace is empty", hint="pass the lines that the new ones replace")
    if "\r\n" in text and "\r\n" not in old:
        old, new = old.replace("\n", "\r\n"), new.replace("\n", "\r\n")
    count = text.count(old)
    if count == 1:
        return text.replace(old, new)
    if count > 1:
        raise UsageError(f"the text stands {count} times in {path}", hint="pass more of the lines around it")
    first = next((line.strip() for line in old.splitlines() if line.strip()), "")
    lines = text.splitlines()
    near = difflib.get_close_matches(first, [line.strip() for line in lines], 1, 0.5)
    where = next((n for n, line in enumerate(lines, 1) if near and line.strip() == near[0]), 0)
    alike = f"line {where} is alike: {lines[where - 1]!r}; blanks count" if where else "read_file shows what is there"
    raise UsageError(f"the text does not stand in {path}", hint=alike)
