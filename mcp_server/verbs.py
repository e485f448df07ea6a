"""Tools as clients see them: arguments, limits and progress; their bodies are in `work`."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar

import anyio
import anyio.to_thread
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import CallToolResult
from pydantic import Field

from forewarp.core.errors import ForewarpError
from forewarp.mcp_server.answers import (
    Described,
    Detail,
    ForecastAnswer,
    MeasureAnswer,
    SearchAnswer,
    StatusAnswer,
    reply,
)
from forewarp.mcp_server.options import ServerOptions

if TYPE_CHECKING:
    from forewarp.mcp_server.work import Work

T = TypeVar("T")

MAX_SOURCE = 200_000
MAX_RANKED = 16
MAX_WAIT_S = 45.0
"""Longest wait of a call in seconds; clients give a request 60 s by default."""
HEARTBEAT_S = 5.0
STATELESS = "2026-07-28"
"""First revision of the protocol that has no sessions."""
THREADS = 64

Task = Annotated[
    str, Field(max_length=4000, description="Bundled task, or task folder or KernelBench file of the workspace.")
]
Source = Annotated[str | None, Field(max_length=MAX_SOURCE, description="The kernel's text; or pass path.")]
FilePath = Annotated[
    str | None, Field(max_length=4000, description="File of the workspace that holds the kernel; or pass source.")
]
Language = Annotated[
    Literal["cpp", "triton", "cuda", "python"] | None,
    Field(description="Language of the text; told from it if left out."),
]
Tunables = Annotated[
    dict[str, int] | None, Field(max_length=64, description="Values of declared tunables; defaults for the rest.")
]
Device = Annotated[
    Literal["auto", "cuda", "cpu", "replay"] | None, Field(description="Device; the server's own if left out.")
]
ModelName = Annotated[
    str | None, Field(max_length=200, description="anthropic:NAME or openai:NAME; the key is the server's.")
]
Handle = Annotated[
    str, Field(min_length=1, max_length=100, description="run_id that search or measure_kernel returned.")
]
Wait = Annotated[float, Field(ge=0, le=MAX_WAIT_S, description="Seconds to wait for the end; at most 45.")]
Details = Annotated[Detail, Field(description="detailed adds evidence, phases, candidates and longer logs.")]
AllowTf32 = Annotated[bool, Field(description="Accept products in TF32 where the reference has fp32.")]
Inputs = Annotated[
    str | None,
    Field(max_length=4000, description="File of the workspace with captured calls, in place of the task's shapes."),
]
Against = Annotated[
    str | None, Field(max_length=4000, description="File of a kernel to compare with, instead of the reference.")
]


class Verbs:
    """The tools of one server."""

    def __init__(self, options: ServerOptions) -> None:
        self._options = options
        self._work: Work | None = None
        self._loading = anyio.Lock()
        self._threads = anyio.CapacityLimiter(THREADS)
        self._id = secrets.token_hex(4)

    def close(self) -> None:
        """End what only this server uses; runs and measurements go on."""
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
        """Run something in a thread; a cancelled call does not wait for it."""
        return await anyio.to_thread.run_sync(what, limiter=self._threads, abandon_on_cancel=True)

    async def _surely(self, what: Callable[[], T]) -> T:
        """Run something in a thread to its end, also for a call that is cancelled meanwhile."""
        done: list[T] = []
        with anyio.CancelScope(shield=True):
            done.append(await self._aside(what))
        return done[0]

    async def forecast_kernel(
        self,
        ctx: Context,
        task: Task,
        source: Source = None,
        path: FilePath = None,
        language: Language = None,
        tunables: Tunables = None,
        paths: Annotated[
            list[str] | None, Field(max_length=MAX_RANKED, description="Files to rank, instead of source or path.")
        ] = None,
        inputs: Inputs = None,
        against: Against = None,
        target: Annotated[
            str | None, Field(max_length=40, description="a100, h100, h200, b200, l40s or rtx4090; not with device.")
        ] = None,
        device: Device = None,
        forecaster: Annotated[
            Literal["learned", "llm", "cascade"] | None,
            Field(description="llm asks model about all; left out: cascade with model, else learned."),
        ] = None,
        model: ModelName = None,
        detail: Details = "concise",
    ) -> Annotated[CallToolResult, ForecastAnswer]:
        """Forecast one kernel or several."""
        given = {
            **{"task": task, "source": source, "path": path, "language": language, "tunables": tunables},
            **{"paths": paths, "against": against, "target": target, "device": device},
            **{"forecaster": forecaster, "model": model, "inputs": inputs},
        }
        with told():
            work = await self.work()
            return reply(await self._aside(partial(work.forecast, self.session(ctx), detail, given)), detail)

    async def measure_kernel(
        self,
        ctx: Context,
        task: Task,
        source: Source = None,
        path: FilePath = None,
        language: Language = None,
        tunables: Tunables = None,
        inputs: Inputs = None,
        against: Against = None,
        allow_tf32: AllowTf32 = False,
        device: Device = None,
        wait_s: Annotated[
            float | None, Field(ge=0, le=MAX_WAIT_S, description="Seconds until it becomes a handle; 40 if left out.")
        ] = None,
        detail: Details = "concise",
    ) -> Annotated[CallToolResult, MeasureAnswer]:
        """Measure a kernel."""
        given = {
            **{"task": task, "source": source, "path": path, "language": language, "tunables": tunables},
            **{"against": against, "allow_tf32": allow_tf32, "device": device, "inputs": inputs},
        }
        wait = self._options.soft_deadline_s if wait_s is None else wait_s
        with told():
            work = await self.work()
            # Not abandoned: a measurement that nobody knows the handle of would hold the device for nothing.
            job = await self._surely(partial(work.begin_measurement, self.session(ctx), given))
            try:
                async with _progress(ctx, "waiting for the device") as say:
                    return reply(await self._aside(partial(work.measurement, job, detail, wait, say)), detail)
            except BaseException as e:
                if isinstance(e, anyio.get_cancelled_exc_class()):
                    await self._surely(partial(work.cancel_measurement, job))
                raise

    async def search(
        self,
        ctx: Context,
        task: Task,
        budget: Annotated[
            int | None, Field(ge=1, le=1000, description="Most measurements; 24 if left out, less if less is left.")
        ] = None,
        max_gpu_seconds: Annotated[float | None, Field(gt=0)] = None,
        max_usd: Annotated[float | None, Field(gt=0, description="For model.")] = None,
        max_tokens: Annotated[int | None, Field(gt=0, description="For model.")] = None,
        deadline_s: Annotated[float | None, Field(gt=0, description="Most seconds of wall time.")] = None,
        forecaster: Annotated[
            Literal["learned", "llm", "cascade", "none"], Field(description="none measures everything.")
        ] = "learned",
        model: ModelName = None,
        seed_kernels: Annotated[
            list[str] | None, Field(max_length=MAX_RANKED, description="Files of the workspace to start from.")
        ] = None,
        language: Language = None,
        inputs: Inputs = None,
        allow_tf32: AllowTf32 = False,
        seed: int = 0,
        device: Device = None,
        detail: Details = "concise",
    ) -> Annotated[CallToolResult, SearchAnswer]:
        """Start a run."""
        given = {
            **{"task": task, "budget": budget, "max_gpu_seconds": max_gpu_seconds, "max_usd": max_usd},
            **{"max_tokens": max_tokens, "deadline_s": deadline_s, "forecaster": forecaster, "model": model},
            **{"seed_kernels": seed_kernels, "language": language, "seed": seed, "device": device},
            **{"allow_tf32": allow_tf32, "inputs": inputs},
        }
        with told():
            work = await self.work()
            async with _progress(ctx, "starting the run") as say:
                return reply(await self._aside(partial(work.search, self.session(ctx), detail, given, say)), detail)

    async def search_status(
        self, ctx: Context, run_id: Handle, wait_s: Wait = 0.0, detail: Details = "concise"
    ) -> Annotated[CallToolResult, StatusAnswer]:
        """Look at a handle."""
        with told():
            work = await self.work()
            async with _progress(ctx, "the work goes on") as say:
                return reply(await self._aside(partial(work.status, run_id, detail, wait_s, say)), detail)

    async def search_cancel(self, ctx: Context, run_id: Handle) -> Annotated[CallToolResult, StatusAnswer]:
        """End the work behind a handle."""
        with told():
            work = await self.work()
            # On stdio there are no headers and no other clients: the user of this machine started all that there is.
            alone = ctx.headers is None
            return reply(await self._surely(partial(work.cancel, self.session(ctx), run_id, alone=alone)))

    async def describe(
        self,
        ctx: Context,
        about: Annotated[
            Literal["all", "device", "tasks", "budget", "recent"], Field(description="Which part to tell.")
        ] = "all",
        task: Annotated[str | None, Field(max_length=4000, description="Task to show, instead of about.")] = None,
    ) -> Annotated[CallToolResult, Described]:
        """Describe device, tasks, budget and recent work."""
        with told():
            work = await self.work()
            return reply(await self._aside(partial(work.describe, self.session(ctx), about, task)))


def _load(options: ServerOptions) -> Work:
    from forewarp.mcp_server.work import Work

    return Work(options)


@contextmanager
def told() -> Generator[None]:
    """Turn errors into text that the model reads: what is wrong, what to do, whether to try again."""
    try:
        yield
    except ForewarpError as e:
        raise ToolError(text_of(e)) from e
    except (OSError, ValueError, RuntimeError, NotImplementedError) as e:
        raise ToolError(f"internal error of forewarp, not of the kernel: {type(e).__name__}: {e}") from e


def text_of(error: ForewarpError) -> str:
    """Return all that a model needs to know of an error."""
    again = "The same call may succeed later." if error.retryable else ""
    return "\n".join(part for part in (error.message, error.hint, again, f"(error code: {error.code})") if part)


@asynccontextmanager
async def _progress(ctx: Context, first: str) -> AsyncGenerator[Callable[[str], None]]:
    """Report every few seconds that the work goes on, with the latest message; yields what takes messages."""
    latest = [first]

    async def beat() -> None:
        count, shown, passed = 0, "", HEARTBEAT_S
        while True:
            if latest[0] != shown or passed >= HEARTBEAT_S:
                count, shown, passed = count + 1, latest[0], 0.0
                await ctx.report_progress(float(count), message=shown)
            await anyio.sleep(0.5)
            passed += 0.5

    def say(message: str) -> None:
        latest[0] = message

    # Not a task group around the body: it would wrap the body's errors in a group.
    task = asyncio.ensure_future(beat())
    try:
        yield say
    finally:
        task.cancel()
        with anyio.CancelScope(shield=True):
            await asyncio.wait([task])
