"""Tools as clients call them: threads, progress and cancelling; what they do is in `work`."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
import anyio.to_thread
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import CallToolResult

from forewarp.core.errors import ForewarpError
from forewarp.mcp_server.answers import CallProgress, ToolAnswer, reply
from forewarp.mcp_server.options import ServerOptions
from forewarp.mcp_server.wording import in_arguments

if TYPE_CHECKING:
    from forewarp.mcp_server.work import Work

T = TypeVar("T")

SOFT_DEADLINE_S = 40.0
"""Longest wait for a measurement before it becomes a handle, where the call does not say."""
HEARTBEAT_S = 5.0
STATELESS = "2026-07-28"
"""First revision of the protocol that has no sessions."""
THREADS = 64
_FIRST = {
    "make_task": "running the function",
    "validate_task": "starting the device",
    "inspect_kernel": "compiling",
    "measure_kernel": "waiting for the device",
    "search": "starting the run",
    "search_resume": "starting the run",
    "run_verb": "starting",
    "search_status": "the work goes on",
}
"""First message of the tools that report progress."""


class Verbs:
    """The tools of one server."""

    def __init__(self, options: ServerOptions) -> None:
        self._options = options
        self._work: Work | None = None
        self._loading = anyio.Lock()
        self._threads = anyio.CapacityLimiter(THREADS)
        self._id = secrets.token_hex(4)

    def close(self) -> None:
        if self._work is not None:
            self._work.close()

    async def work(self) -> Work:
        """Return the engine, loaded with the first call."""
        async with self._loading:
            if self._work is None:
                self._work = await self._aside(partial(_load, self._options))
        return self._work

    def session(self, ctx: Context) -> str:
        """Return the key that spending is booked under: the HTTP session, the token, or this process on stdio."""
        headers = ctx.headers or {}
        # Only in the older revisions does the SDK check the header against the sessions that it opened.
        legacy = (ctx.protocol_version or "") < STATELESS
        key = (headers.get("mcp-session-id") if legacy else None) or headers.get("authorization") or ""
        return f"{self._id}-{hashlib.sha256(key.encode()).hexdigest()[:12]}" if key else self._id

    async def _aside(self, what: Callable[[], T]) -> T:
        return await anyio.to_thread.run_sync(what, limiter=self._threads, abandon_on_cancel=True)

    async def _surely(self, what: Callable[[], T]) -> T:
        """Run something in a thread to its end, also for a call that is cancelled meanwhile."""
        done: list[T] = []
        with anyio.CancelScope(shield=True):
            done.append(await self._aside(what))
        return done[0]

    async def call(self, tool: str, ctx: Context, given: Mapping[str, Any]) -> CallToolResult:
        """Do what a client asks of a tool, with all its arguments given."""
        with told():
            work, session = await self.work(), self.session(ctx)
            async with _progress(ctx, _FIRST.get(tool, "")) as say:
                match tool:
                    case "measure_kernel":
                        answer = await self._measured(work, session, given, say)
                    case "search_cancel":
                        # On stdio there are no headers and no other clients: the user started all that there is.
                        alone = ctx.headers is None
                        answer = await self._surely(partial(work.cancel, session, given["run_id"], say, alone=alone))
                    case _:
                        try:
                            answer = await self._aside(partial(getattr(work, tool), session, given, say))
                        except anyio.get_cancelled_exc_class():
                            await self._surely(partial(work.abandon, say))
                            raise
            return reply(answer, given.get("detail", "concise"))

    async def _measured(self, work: Work, session: str, given: Mapping[str, Any], say: CallProgress) -> ToolAnswer:
        # Not abandoned: a measurement that nobody knows the handle of would hold the device for nothing.
        job = await self._surely(partial(work.begin_measurement, session, given))
        wait_s = SOFT_DEADLINE_S if given["wait_s"] is None else given["wait_s"]
        try:
            return await self._aside(partial(work.measurement, job, given["detail"], wait_s, say))
        except BaseException as e:
            if isinstance(e, anyio.get_cancelled_exc_class()):
                await self._surely(partial(work.jobs.cancel_measurement, job))
            raise


def _load(options: ServerOptions) -> Work:
    from forewarp.mcp_server.work import Work

    return Work(options)


@contextmanager
def told() -> Generator[None]:
    """Turn errors into text that the model reads: what is wrong, what to do, whether to try again."""
    try:
        yield
    except ForewarpError as e:
        # A model has arguments, and no flags of the command line.
        raise ToolError(in_arguments(text_of(e))) from e
    except (OSError, ValueError, RuntimeError, NotImplementedError) as e:
        raise ToolError(f"internal error of forewarp, not of the kernel: {type(e).__name__}: {e}") from e


def text_of(error: ForewarpError) -> str:
    """Return all that a model needs to know of an error."""
    again = "The same call may succeed later." if error.retryable else ""
    return "\n".join(part for part in (error.message, error.hint, again, f"(error code: {error.code})") if part)


@asynccontextmanager
async def _progress(ctx: Context, first: str) -> AsyncGenerator[CallProgress]:
    """Report every few seconds that the work goes on, with the latest message, if any; yields what takes messages."""
    latest = CallProgress(first)

    async def beat() -> None:
        sent, shown, passed = 0.0, "", HEARTBEAT_S
        while True:
            if latest.message and (latest.message != shown or passed >= HEARTBEAT_S):
                # Each notification has to be above the one before it, also where nothing more is done.
                done, total = latest.done, latest.total
                sent, shown, passed = max(done, sent + 0.001), latest.message, 0.0
                await ctx.report_progress(round(sent, 3), total, shown)
            await anyio.sleep(0.5)
            passed += 0.5

    # Not a task group around the body: it would wrap the body's errors in a group.
    task = asyncio.ensure_future(beat())
    try:
        yield latest
    finally:
        task.cancel()
        with anyio.CancelScope(shield=True):
            await asyncio.wait([task])
