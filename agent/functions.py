"""Tools that the model may call."""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from forewarp.agent import answers
from forewarp.agent.answers import Answer
from forewarp.agent.arguments import GENERATED, shown
from forewarp.agent.board import BoardRow
from forewarp.agent.events import ApprovalAsked
from forewarp.agent.file_rules import readable_file, why_ask
from forewarp.agent.kit import Kit
from forewarp.agent.memory import refuse_left_out
from forewarp.agent.talk import Host
from forewarp.core.errors import ForewarpError, UsageError
from forewarp.tools.parts import Kernel
from forewarp.tools.wording import counted

CALL: ContextVar[str] = ContextVar("call", default="")
"""The id of the tool call that is being carried out."""

MAX_READ = 32_000
MAX_FILES = 200


class Functions:
    """The model's tools of one conversation. Each returns a dictionary; errors are answers with a hint."""

    def __init__(self, kit: Kit, host: Host, written: set[Path]) -> None:
        """Make the tools; `written` holds the files that the model wrote, in earlier turns too, and is added to."""
        self._kit, self._host, self._written = kit, host, written

    def all(self) -> list[Callable[..., Coroutine[Any, Any, Answer]]]:
        """Return the functions."""
        return [
            self.forecast_kernel,
            self.measure_kernel,
            self.search,
            self.describe_task,
            self.list_candidates,
            self.read_candidate,
            self.list_files,
            self.read_file,
            self.write_file,
        ]

    async def forecast_kernel(
        self, task: str, source: str | None = None, path: str | None = None, tunables: dict[str, int] | None = None
    ) -> Answer:
        """Compile a kernel and forecast its speed-up over the reference without running it: free, takes seconds.

        Args:
            task: Bundled task, or the path of a KernelBench file.
            source: The kernel's text; or pass path.
            path: The kernel's file; or pass source.
            tunables: Values of declared tunables.
        """

        async def work() -> Answer:
            found = await self._kit.forecast(
                CALL.get(), task=task, kernels=[_kernel(source, path, tunables)], origin="agent"
            )
            return answers.forecast(found)

        return await _told(work)

    async def measure_kernel(
        self,
        task: str,
        source: str | None = None,
        path: str | None = None,
        tunables: dict[str, int] | None = None,
        insist: str = "",
    ) -> Answer:
        """Check a kernel against the reference and time both on the device; spends one measurement of the budget.

        It is forecast first. One that will hardly pay is held back, unless you say in `insist` why it is needed.

        Args:
            task: Bundled task, or the path of a KernelBench file.
            source: The kernel's text; or pass path.
            path: The kernel's file; or pass source.
            tunables: Values of declared tunables.
            insist: Why to measure it although the forecast speaks against it.
        """

        async def work() -> Answer:
            kernel = _kernel(source, path, tunables)
            found = await self._kit.measure(CALL.get(), task=task, kernel=kernel, insist=insist, origin="agent")
            return answers.considered(found) | {"budget": self._budget()}

        return await _told(work)

    async def search(
        self, task: str, budget: int = 12, seed_kernels: list[str] | None = None, write_kernels: bool = False
    ) -> Answer:
        """Try many variants of the seed kernels' tunables; each measurement counts in the user's budget.

        Args:
            task: Bundled task, or the path of a KernelBench file.
            budget: Most measurements; the last one confirms the winner.
            seed_kernels: Files to start from, instead of the task's own.
            write_kernels: Have a language model write new kernels in it, which costs tokens.
        """

        async def work() -> Answer:
            found = await self._kit.search(
                CALL.get(), task=task, budget=budget, seed_kernels=seed_kernels or (), write=write_kernels
            )
            return answers.searched(found) | {"budget": self._budget()}

        return await _told(work)

    async def describe_task(self, task: str) -> Answer:
        """Read a task: its reference program, shapes and tolerance, and a kernel that works, to start from.

        Args:
            task: Bundled task, or the path of a KernelBench file.
        """

        async def work() -> Answer:
            return await self._kit.describe(task)

        return await _told(work)

    async def list_candidates(self, task: str = "") -> Answer:
        """List the candidates so far with forecast, measurement and verdict: those measured first, the fastest on top.

        Args:
            task: Only those of this task.
        """
        rows = [r for r in self._host.board if not task or r.forecast.task == task]
        rows.sort(key=_standing, reverse=True)
        lines = [answers.line(r) for r in rows[:40]]
        return {"summary": f"{len(rows)} candidates; {self._budget()}", "candidates": lines}

    async def read_candidate(self, number: int) -> Answer:
        """Read the text of a candidate of this conversation.

        Args:
            number: Its number in list_candidates.
        """
        row = self._host.board.row(number)
        if row is None:
            return {"error": f"there is no candidate {number}", "hint": "list_candidates has the numbers"}
        return answers.line(row) | {"summary": f"candidate {number}", "source": row.forecast.source}

    async def list_files(self, pattern: str = "**/*") -> Answer:
        """List files of the working folder.

        Args:
            pattern: As in glob, seen from the working folder.
        """

        async def work() -> Answer:
            if ".." in Path(pattern).parts or Path(pattern).is_absolute():
                raise UsageError(f"{pattern} leaves the working folder")
            found = await asyncio.to_thread(_files, self._host.settings.folder.resolve(), pattern)
            more = len(found) > MAX_FILES
            said = f"{'more than ' if more else ''}{counted(min(len(found), MAX_FILES), 'file')}"
            return {"summary": said, "files": sorted(found[:MAX_FILES])}

        return await _told(work)

    async def read_file(self, path: str, offset: int = 0) -> Answer:
        """Read a text file of the working folder; files with keys, tokens or passwords are refused.

        Args:
            path: The file, seen from the working folder.
            offset: Character to start at.
        """

        async def work() -> Answer:
            found = self._kit.inside(path)
            if found.exists() and not found.is_file():
                raise UsageError(f"{path} is no file", hint="list_files lists the files of a folder")
            text = found.read_text(errors="replace")
            start = max(0, offset)
            part = text[start : start + MAX_READ]
            return {"summary": f"{len(part)} of {len(text)} characters of {path}", "text": part}

        return await _told(work)

    def _budget(self) -> str:
        """Say how much of the user's budget is spent."""
        cap, spent = self._host.settings.budget.measurements, self._host.spent.measurements
        return f"{spent}{'' if cap is None else f' of {cap}'} measurements spent"

    async def _ask_to_write(self, path: str, target: Path, text: str, reason: str) -> None:
        """Ask the user to approve a write; raises `UsageError` if refused, or if the path now means another file."""
        name = shown(self._host.settings.folder, target)
        there = target.exists()
        before = target.read_text(errors="replace") if there else ""
        lines = difflib.unified_diff(before.splitlines(), text.splitlines(), name, name, lineterm="")
        command = f"{'overwrite' if there else 'write'} {name}"
        given = await self._host.ask(ApprovalAsked(CALL.get(), "write_file", command, reason, "\n".join(lines)))
        if given.reply == "no":
            raise UsageError(
                f"{path} was not written: the user said no{given.why and f': {given.why}'}",
                hint="go on without it, or say in the answer what the user is to write there",
            )
        if self._kit.inside(path) != target:
            raise UsageError(f"{path} was not written: it became another file meanwhile", hint="look at it again")

    async def write_file(self, path: str, text: str) -> Answer:
        """Write a text file of the working folder.

        Files that are not your own, hidden ones and programs need the user's word.

        Args:
            path: The file, seen from the working folder.
            text: Its whole new text.
        """

        async def work() -> Answer:
            target = self._kit.inside(path)
            refuse_left_out(text)
            if target.exists() and not target.is_file():
                raise UsageError(f"{path} is no file", hint="name a text file")
            reasons = why_ask(self._host.settings.folder, path, text)
            if reasons or (target.exists() and target not in self._written):
                await self._ask_to_write(path, target, text, "; ".join(reasons))
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)
            self._written.add(target)
            return {"summary": f"wrote {len(text)} characters to {path}"}

        return await _told(work)


def _files(folder: Path, pattern: str) -> list[str]:
    """Return the files that fit, one more than are shown if there are.

    Hidden and generated folders, files with secrets, and links to any of these or out of the folder are left out.
    """
    found: list[str] = []
    for path in folder.glob(pattern):
        inner = path.relative_to(folder)
        if not path.is_file() or any(p.startswith(".") or p in GENERATED for p in inner.parts):
            continue
        if _leads_away(folder, path):
            continue
        found.append(str(inner))
        if len(found) > MAX_FILES:
            break
    return found


def _leads_away(folder: Path, path: Path) -> bool:
    """Return whether a file leads out of the folder, to secrets or to hidden files, so that it is not listed."""
    try:
        found = readable_file(folder, path)
    except UsageError:
        return True
    return any(part.startswith(".") for part in found.relative_to(folder).parts)


def _standing(row: BoardRow) -> tuple[bool, float]:
    m = row.measured
    return m is not None, (m.speedup if m is not None else row.expected.median) or 0.0


async def _told(work: Callable[[], Coroutine[Any, Any, Answer]]) -> Answer:
    """Run a tool; return its answer, or its error and hint as an answer for the model."""
    try:
        return await work()
    except ForewarpError as e:
        return {"error": e.message, "hint": e.hint, "retryable": e.retryable}
    except (OSError, ValueError) as e:
        return {"error": str(e), "hint": "", "retryable": False}


def _kernel(source: str | None, path: str | None, tunables: dict[str, int] | None) -> Kernel:
    return Kernel(source=source and refuse_left_out(source), path=path, tunables=tunables or {})
