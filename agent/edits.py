"""Writes to files of the working folder: with the user's word where it is needed, and with a way back."""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from forewarp.agent.base import BaseConversation
from forewarp.agent.events import ApprovalAsked
from forewarp.agent.files import approval_reasons, read_whole, readable_file, shown
from forewarp.core.errors import UsageError
from forewarp.core.files import write_whole

MAX_EDITED = 1 << 20
"""Bytes of the largest file that is edited, or overwritten after a look at the difference."""


@dataclass(frozen=True, slots=True)
class FileEdit:
    """A change of a file, to be undone: its text before, None where there was no file, and after."""

    path: Path
    before: str | None
    after: str


class FileEdits:
    """Writes files of the working folder, with the user's word where it is needed, and takes writes back.

    `written` holds the files that the model wrote as a whole, in earlier turns too: these are its own.
    """

    def __init__(self, conversation: BaseConversation) -> None:
        self._conversation = conversation
        self.written: set[Path] = set()
        self._edits: list[FileEdit] = []
        self._writing = asyncio.Lock()

    async def write(self, call: str, tool: str, path: str, change: Callable[[str | None], str]) -> FileEdit:
        """Write what `change` makes of a file's text, None for no file; raises `UsageError` for a no of user or system.

        The user is asked about files that the model did not write, each edit of them, hidden ones, and programs.
        Several calls of one step take turns: each reads what the one before it wrote.
        """
        folder = self._conversation.settings.folder
        async with self._writing:
            with _as_usage_error(f"{path} was not written"):
                target = readable_file(folder, path)
                if target.exists() and not target.is_file():
                    raise UsageError(f"{path} is no file", hint="name a text file")
                before = await asyncio.to_thread(read_whole, target, MAX_EDITED) if target.exists() else None
                text = change(before)
                reasons = approval_reasons(folder, path, text)
                if reasons or (before is not None and target not in self.written):
                    await self._ask(call, tool, path, target, before, text, "; ".join(reasons))
                now = await asyncio.to_thread(read_whole, target, MAX_EDITED) if target.exists() else None
                if readable_file(folder, path) != target or now != before:
                    raise UsageError(
                        f"{path} was not written: it became another file meanwhile", hint="look at it again"
                    )
                await asyncio.to_thread(_write, target, text)
        self._edits.append(FileEdit(target, before, text))
        if tool == "write_file":
            self.written.add(target)
        return self._edits[-1]

    async def undo(self) -> str:
        """Take the latest write back and say so; raises `UsageError` where there is none, or the file changed since."""
        if not self._edits:
            raise UsageError("nothing was written in this session", hint="there is nothing to undo")
        edit, folder = self._edits[-1], self._conversation.settings.folder
        name = shown(folder, edit.path)
        with _as_usage_error(f"{name} was not changed back"):
            now = await asyncio.to_thread(read_whole, edit.path, MAX_EDITED) if edit.path.is_file() else None
            if now != edit.after:
                raise UsageError(f"{name} was changed since it was written", hint="undo it by hand")
            if edit.before is None:
                await asyncio.to_thread(edit.path.unlink)
            else:
                await asyncio.to_thread(_write, edit.path, edit.before)
        self._edits.pop()
        if edit.before is None:
            self.written.discard(edit.path)
            return f"`{name}` is removed again: it was not there before."
        return f"`{name}` is as it was before."

    async def _ask(
        self, call: str, tool: str, path: str, target: Path, before: str | None, text: str, reason: str
    ) -> None:
        name = shown(self._conversation.settings.folder, target)
        what = "write" if before is None else "edit" if tool == "edit_file" else "overwrite"
        question = ApprovalAsked(call, tool, f"{what} {name}", reason, difference(before or "", text, name))
        hint = "go on without it, or say in the answer what the user is to write there"
        await self._conversation.allow(question, f"{path} was not written", hint)


def difference(before: str, after: str, name: str, other: str = "") -> str:
    """Return a unified diff of two texts, "" for equal ones; they have the same name unless the second has another."""
    lines = before.splitlines(), after.splitlines()
    return "\n".join(difflib.unified_diff(*lines, name, other or name, lineterm=""))


@contextmanager
def _as_usage_error(what: str) -> Generator[None]:
    """Turn what the system says, such as no permission or a full disk, into a `UsageError`."""
    try:
        yield
    except OSError as e:
        raise UsageError(f"{what}: {e.strerror or e}", hint="write elsewhere, or have the user look at it") from None


def _write(target: Path, text: str) -> None:
    write_whole(target, text, target.stat().st_mode & 0o777 if target.exists() else None)
