"""Lines for the shell: the user's own as they are, the model's confined and with the user's word."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forewarp.agent.base import BaseConversation
from forewarp.agent.events import ApprovalAsked
from forewarp.core.errors import UsageError
from forewarp.core.scratch import temporary_folder

MOST_OUTPUT = 1 << 20
"""Bytes of output that are read; a process that prints more is ended."""

SHORT_LINE = 400
"""Characters of a line that is asked about in a sentence; a longer one stands below it and scrolls."""

LONGEST_S = 600.0
DRAINING_S = 5.0


@dataclass(frozen=True, slots=True)
class ShellResult:
    """Output of a line and its exit status; `ended` says why it was ended, "" where it ended by itself."""

    output: str
    status: int
    ended: str = ""


async def run(
    command: str | Sequence[str],
    folder: Path,
    *,
    limit_s: float | None = None,
    env: Mapping[str, str] | None = None,
    pass_fds: Sequence[int] = (),
) -> ShellResult:
    """Run a line, or a program with its arguments; cancelling kills all that it started."""
    pipe, nothing, output = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL, asyncio.subprocess.STDOUT
    argv = ["/bin/sh", "-c", command] if isinstance(command, str) else command
    how: dict[str, Any] = {"cwd": folder, "env": env, "pass_fds": pass_fds, "start_new_session": True}
    starting = asyncio.ensure_future(
        asyncio.create_subprocess_exec(*argv, stdin=nothing, stdout=pipe, stderr=output, **how)
    )
    kept, ended = bytearray(), ""
    try:
        printed = (await asyncio.shield(starting)).stdout
        assert printed is not None
        try:
            async with asyncio.timeout(limit_s):
                while piece := await printed.read(1 << 16):
                    kept += piece
                    if len(kept) > MOST_OUTPUT:
                        ended = f"it printed more than {MOST_OUTPUT:,} bytes"
                        break
        except TimeoutError:
            ended = f"it took longer than {limit_s:g} s"
    finally:
        process = await starting  # it may have started before this task knows of it
        if not ended and process.returncode is None:
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(process.wait(), 1.0)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        # asyncio takes a process to be over once its output is at an end, which it reads no further while nobody does.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(DRAINING_S):
                while process.stdout is not None and await process.stdout.read(1 << 16):
                    pass
                await process.wait()
    return ShellResult(kept[:MOST_OUTPUT].decode(errors="replace"), process.returncode or 0, ended)


class ConfinedShell:
    """Runs the model's lines for a conversation, each with the user's word."""

    def __init__(self, conversation: BaseConversation) -> None:
        self._conversation = conversation
        self._in_force: list[str] = []

    async def run(self, call: str, line: str, limit_s: float) -> ShellResult:
        """Ask the user, then run a line in the working folder; raises `UsageError` where it may not run."""
        if not self._in_force:
            _, self._in_force = await self._confined(":", LONGEST_S)
        reason = (
            "It can read and change every file of this folder, hidden ones too, and nothing outside of it: "
            f"{', '.join(self._in_force)}."
        )
        many = "\n" in line.strip() or len(line) > SHORT_LINE
        command, text = ("run these lines:", line) if many else (f"run: {line}", "")
        question = ApprovalAsked(call, "run_command", command, reason, text)
        hint = "go on without it, or say in the answer what the user is to run"
        await self._conversation.allow(question, "nothing was run", hint)
        result, _ = await self._confined(line, min(limit_s, LONGEST_S))
        return result

    async def _confined(self, line: str, limit_s: float) -> tuple[ShellResult, list[str]]:
        from forewarp.tools import confined_shell

        folder = self._conversation.settings.folder.resolve()
        reading, writing = os.pipe()
        try:
            with temporary_folder() as own:
                argv = confined_shell.argv(folder, own, writing, line)
                env = confined_shell.variables()
                result = await run(argv, folder, limit_s=limit_s, env=env, pass_fds=[writing])
            os.set_blocking(reading, False)
            with contextlib.suppress(BlockingIOError):
                in_force, missing = confined_shell.read_report(os.read(reading, 1 << 16))
                if not missing:
                    return result, in_force
                raise UsageError(
                    f"commands cannot be confined here: {', '.join(missing)}",
                    hint="forewarp doctor says more; --unprotected insists; ! lines of the user run as they are",
                )
            raise UsageError(f"the shell did not start: {result.output.strip()[-300:]}", hint="run it by hand")
        finally:
            os.close(reading)
            os.close(writing)
