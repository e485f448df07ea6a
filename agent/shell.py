"""Shell commands that the user types after `!`, where they are allowed."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal

from forewarp.agent.settings import Settings
from forewarp.core.errors import UsageError
from forewarp.prompts.render import fenced
from forewarp.tools.parts import trim

SHOWN = 8000


async def run_line(line: str, settings: Settings) -> str:
    """Run a line in the working folder and return what it printed as Markdown; cancelling kills all that it started.

    Raises `UsageError` where lines for the shell are not allowed.
    """
    if not settings.shell:
        raise UsageError("lines for the shell are not allowed here", hint="start forewarp with --shell to allow them")
    starting = asyncio.ensure_future(
        asyncio.create_subprocess_shell(
            line,
            cwd=settings.folder,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
    )
    try:
        process = await asyncio.shield(starting)
        said, _ = await process.communicate()
    except asyncio.CancelledError:
        # The process may have started before this task knows of it.
        process = await starting
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
        raise
    return f"{fenced(trim(said.decode(errors='replace'), SHOWN))}\n\nexit status {process.returncode}"
