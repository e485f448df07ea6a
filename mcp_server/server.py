"""The server: three tools over MCP, backed by the same functions as the command line."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import anyio
import anyio.to_thread
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations
from pydantic import Field

import forewarp
from forewarp.core.errors import ForewarpError, UsageError
from forewarp.mcp_server.jobs import Jobs, SearchState
from forewarp.tools.forecast_kernel import ForecastRequest, forecast_kernel
from forewarp.tools.forecasted import ForecastResult
from forewarp.tools.measure_kernel import MeasureRequest, measure_kernel
from forewarp.tools.measured import MeasureResult
from forewarp.tools.parts import Kernel, Place
from forewarp.tools.session import Executors

MAX_SOURCE = 200_000
MAX_RANKED = 16
MAX_WAIT_S = 45.0
"""Clients give a request 60 s by default."""
HEARTBEAT_S = 5.0

INSTRUCTIONS = """\
forewarp makes GPU kernels faster on few measurements. A task is a bundled name (cross_entropy, layernorm_gelu, matmul,
rmsnorm, softmax, topk_gate) or the path of a KernelBench file. A kernel is source text or a file: C++ (cpu), Triton or
CUDA with a launch plan in its first comment, or a KernelBench module with class ModelNew.

Order: forecast_kernel first (seconds, needs no free device); measure_kernel only if its recommendation is "measure";
search to have many variants tried under a budget. Speed-ups are over the task's reference; above 1 is faster. Trust a
measured number by its interval. A kernel that fails is an answer with a status, not an error of the tool.
"""

FORECAST = """\
Forecast how fast a kernel will be over the task's reference, before running it: compiles it, then gives a distribution
over the speed-up, the probability that it is correct, and a recommendation with the reason: measure; skip; or accept,
where a measurement would hardly change the answer. paths ranks several kernels in one call: ranking holds them with the
best first, p_best and p_faster_than; the other fields are about the first. against compares with a kernel file instead
of the reference. target forecasts for a GPU that is not here. Runs no kernel, takes 1 to 5 s, costs nothing without
model; with one it is asked only where its answer could change the recommendation. Use it before measure_kernel. Do not
take its numbers for measurements: while trials is 0 nothing of this task was measured on this device.
Example: {"task": "softmax", "path": "/repo/softmax.cpp", "device": "cpu"},
or {"task": "softmax", "paths": ["a.cu", "b.py"], "target": "h200"}"""

MEASURE = """\
Check a kernel against the task's reference on fresh inputs and time both in turn: speed-up with 95 % interval and
verdict, as a whole and per shape. Verdicts: faster, slower, tie (within 1 %), inconclusive (measure again), ambiguous
(equal kernels came out unequal, or clock cycles disagree: measure again, claim nothing), suspicious and impossible (do
not believe the time, see flags), incorrect, failed. trusted says whether to believe it. Also the noise floor, the
speed-up with a warm L2 cache and with the launch, the checks passed, device_state. against times it against a kernel
file instead. Runs the kernel's code in a sandboxed process on the device; takes 3 to 60 s, one at a time. The result is
kept in the archive and improves later forecasts. Compile errors, crashes and wrong results come back as a status with a
log.
Example: {"task": "softmax", "path": "/repo/softmax.cpp", "tunables": {"WIDTH": 16}, "device": "cpu"}"""

SEARCH = """\
Optimise a task under a budget: propose, forecast, measure only what is worth it. Two uses.
Start: pass task (and budget, caps, seed_kernels, model …). Returns at once with run_id; the run goes on by itself, also
if this server ends. Without model, variants come from the declared tunables of seed kernels; a file of your own needs
seed_kernels or model.
Look: pass run_id only. Waits up to wait_s for the end, then returns status, best with interval, counts and spend;
repeat while status is "running". When finished, best.source is the kernel and folder holds all files. Run ids stay
valid for as long as the archive. Pass run_id with stop=true to end it with the best so far.
Example: {"task": "softmax", "budget": 12, "device": "cpu"}, then {"run_id": "r-7f3a2c", "wait_s": 45}"""

Task = Annotated[str, Field(max_length=4000, description="Bundled task, task folder or KernelBench file.")]
Source = Annotated[str | None, Field(max_length=MAX_SOURCE, description="The kernel's text; or pass path.")]
FilePath = Annotated[str | None, Field(description="File that holds the kernel; or pass source.")]
Language = Annotated[
    Literal["cpp", "triton", "cuda", "python"] | None,
    Field(description="Language of the text; told from it if left out."),
]
Tunables = Annotated[dict[str, int] | None, Field(description="Values of declared tunables; defaults for the rest.")]
Device = Annotated[
    Literal["auto", "cuda", "cpu", "replay"] | None, Field(description="Device; the server's own if left out.")
]
Pool = Annotated[str | None, Field(description="Recorded pool, for device replay.")]
ModelName = Annotated[str | None, Field(description="anthropic:NAME or openai:NAME; the key is the server's.")]
BaseUrl = Annotated[str | None, Field(description="OpenAI-compatible server that serves the model.")]


def build_server(place: Place | None = None) -> MCPServer[None]:
    """Return the server; `place` is where a call measures that does not say otherwise."""
    verbs = Verbs(place or Place())

    @asynccontextmanager
    async def lifespan(server: MCPServer[None]) -> AsyncGenerator[None]:
        try:
            yield
        finally:
            await anyio.to_thread.run_sync(verbs.close)

    server = MCPServer[None](
        "forewarp",
        title="forewarp: faster GPU kernels on fewer measurements",
        instructions=INSTRUCTIONS,
        version=forewarp.__version__,
        lifespan=lifespan,
        log_level="WARNING",
    )
    for verb, title, description, reads in (
        (verbs.forecast_kernel, "Forecast a kernel", FORECAST, True),
        (verbs.measure_kernel, "Measure a kernel", MEASURE, False),
        (verbs.search, "Search for a faster kernel", SEARCH, False),
    ):
        # The world is open where a language model may be asked.
        hints = ToolAnnotations(
            read_only_hint=reads,
            destructive_hint=False,
            idempotent_hint=reads,
            open_world_hint=verb != verbs.measure_kernel,
        )
        server.tool(title=title, description=description, annotations=hints)(verb)
    return server


class Verbs:
    """The bodies of the tools, with what they keep between calls."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._executors = Executors()
        self._jobs = Jobs(place)
        # Two measurements at once would disturb each other.
        self._device = anyio.Lock()

    def close(self) -> None:
        """End the measuring processes; runs go on."""
        self._executors.close()

    async def forecast_kernel(
        self,
        task: Task,
        source: Source = None,
        path: FilePath = None,
        language: Language = None,
        tunables: Tunables = None,
        paths: Annotated[
            list[str] | None, Field(max_length=MAX_RANKED, description="Files to rank, instead of source or path.")
        ] = None,
        against: Annotated[
            str | None, Field(description="File of a kernel to forecast against, instead of the reference.")
        ] = None,
        target: Annotated[
            str | None, Field(description="a100, h100, h200, b200, l40s or rtx4090; instead of device.")
        ] = None,
        device: Device = None,
        pool: Pool = None,
        forecaster: Annotated[
            Literal["learned", "llm", "cascade"] | None,
            Field(description="llm asks model about all; left out: cascade with model, else learned."),
        ] = None,
        model: ModelName = None,
        base_url: BaseUrl = None,
    ) -> ForecastResult:
        """Forecast one kernel or several."""
        with told():
            if paths and (source is not None or path is not None):
                raise UsageError("pass either one kernel, by source or path, or paths of several")
            request = ForecastRequest(
                task=task,
                kernel=None if paths else _kernel(source, path, language, tunables),
                kernels=[_kernel(None, p, language, tunables) for p in paths or ()],
                against=Kernel(path=against) if against else None,
                target=target,
                place=self._anywhere(device, pool) if target else self._at(device, pool),
                forecaster=forecaster,
                model=model,
                base_url=base_url,
            )
            return await anyio.to_thread.run_sync(partial(forecast_kernel, request, executors=self._executors))

    async def measure_kernel(
        self,
        ctx: Context,
        task: Task,
        source: Source = None,
        path: FilePath = None,
        language: Language = None,
        tunables: Tunables = None,
        against: Annotated[
            str | None, Field(description="File of a kernel to time against, instead of the reference.")
        ] = None,
        device: Device = None,
        pool: Pool = None,
    ) -> MeasureResult:
        """Measure a kernel."""
        with told():
            kernel = _kernel(source, path, language, tunables)
            other = Kernel(path=against) if against else None
            request = MeasureRequest(task=task, kernel=kernel, against=other, place=self._at(device, pool))
            async with _progress(ctx, "waiting for the device") as say, self._device:
                work = partial(measure_kernel, request, stage=say, executors=self._executors)
                return await anyio.to_thread.run_sync(work)

    async def search(
        self,
        ctx: Context,
        task: Annotated[str | None, Field(max_length=4000, description="What to optimise; to start a run.")] = None,
        run_id: Annotated[str | None, Field(description="Which run to look at, instead of a task.")] = None,
        wait_s: Annotated[float, Field(ge=0, le=MAX_WAIT_S, description="How long to wait for the run's end.")] = 0.0,
        stop: Annotated[bool, Field(description="With run_id: end the run with the best so far.")] = False,
        budget: Annotated[int, Field(ge=1, le=1000, description="Most measurements.")] = 24,
        max_gpu_seconds: Annotated[float | None, Field(gt=0)] = None,
        max_usd: Annotated[float | None, Field(gt=0, description="For model.")] = None,
        max_tokens: Annotated[int | None, Field(gt=0, description="For model.")] = None,
        deadline_s: Annotated[float | None, Field(gt=0, description="Most seconds of wall time.")] = None,
        forecaster: Annotated[
            Literal["learned", "llm", "cascade", "none"], Field(description="none measures everything.")
        ] = "learned",
        model: ModelName = None,
        base_url: BaseUrl = None,
        seed_kernels: Annotated[list[str] | None, Field(description="Files to start from.")] = None,
        language: Language = None,
        seed: int = 0,
        device: Device = None,
        pool: Pool = None,
    ) -> SearchState:
        """Start a run or look at one."""
        with told():
            if (task is None) == (run_id is None):
                raise UsageError("pass either task, to start a run, or run_id, to look at one")
            if run_id is None:
                place = self._at(device, pool)
                flags = {
                    "--device": place.device,
                    "--pool": place.pool,
                    "--python": place.python,
                    "--budget": budget,
                    "--max-gpu-seconds": max_gpu_seconds,
                    "--max-usd": max_usd,
                    "--max-tokens": max_tokens,
                    "--deadline": deadline_s,
                    "--forecaster": forecaster,
                    "--model": model,
                    "--base-url": base_url,
                    "--language": language,
                    "--seed": seed,
                }
                arguments = [_absolute(task or ""), *(f"{k}={v}" for k, v in flags.items() if v is not None)]
                arguments += [f"--seed-kernel={_absolute(p)}" for p in seed_kernels or ()]
                run_id = await anyio.to_thread.run_sync(self._jobs.start, arguments)
            elif stop:
                await anyio.to_thread.run_sync(self._jobs.stop, run_id)
            async with _progress(ctx, "the run goes on") as say:
                return await anyio.to_thread.run_sync(self._jobs.state, run_id, wait_s, say)

    def _at(self, device: Any, pool: str | None) -> Place:
        changed = {"device": device, "pool": pool and _absolute(pool)}
        return self._place.model_copy(update={k: v for k, v in changed.items() if v is not None})

    def _anywhere(self, device: Any, pool: str | None) -> Place:
        """Return the place of a call that names a target: the server's own device has no say in it."""
        return self._place.model_copy(update={"device": device or "auto", "pool": pool})


@contextmanager
def told() -> Generator[None]:
    """Turn errors into text that the model reads: what is wrong, what to do, whether to try again."""
    try:
        yield
    except ForewarpError as e:
        again = "The same call may succeed later." if e.retryable else ""
        raise ToolError(
            "\n".join(part for part in (e.message, e.hint, again, f"(error code: {e.code})") if part)
        ) from e
    except (OSError, ValueError, RuntimeError, NotImplementedError) as e:
        raise ToolError(f"internal error of forewarp, not of the kernel: {type(e).__name__}: {e}") from e


@asynccontextmanager
async def _progress(ctx: Context, first: str) -> AsyncGenerator[Callable[[str], None]]:
    """Report every few seconds that the work goes on, with the latest message; yields what takes messages."""
    latest = [first]

    async def beat() -> None:
        count = 0
        while True:
            count += 1
            await ctx.report_progress(float(count), message=latest[0])
            await anyio.sleep(HEARTBEAT_S)

    def say(message: str) -> None:
        latest[0] = message

    # Not a task group around the body: it would wrap the body's errors in a group.
    task = asyncio.ensure_future(beat())
    try:
        yield say
    finally:
        task.cancel()
        await asyncio.wait([task])


def _kernel(source: str | None, path: str | None, language: Any, tunables: dict[str, int] | None) -> Kernel:
    return Kernel(source=source, path=path, language=language, tunables=tunables or {})


def _absolute(name_or_path: str) -> str:
    """Return a path that means the same in another working folder; a bundled task's name stays as it is."""
    path = Path(name_or_path).expanduser()
    return str(path.absolute()) if path.exists() else name_or_path
