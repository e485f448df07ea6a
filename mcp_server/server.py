"""The server: tools, resources and prompts over MCP, backed by the same functions as the command line."""

from __future__ import annotations

import difflib
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Annotated, Any, NamedTuple

import anyio.to_thread
from mcp import MCPError
from mcp.server import MCPServer
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import INVALID_PARAMS, CallToolResult, GetPromptResult, InputRequiredResult, ToolAnnotations
from mcp.types import Tool as ListedTool
from pydantic import Field, ValidationError

import forewarp
from forewarp import prompts
from forewarp.core.files import template
from forewarp.mcp_server import resources, schemas, stdio
from forewarp.mcp_server.answers import (
    Described,
    ForecastAnswer,
    InspectAnswer,
    MeasureAnswer,
    SearchAnswer,
    StatusAnswer,
    TaskAnswer,
    ToolAnswer,
    ValidateAnswer,
    VerbAnswer,
)
from forewarp.mcp_server.arguments import signature
from forewarp.mcp_server.options import ServerOptions
from forewarp.mcp_server.verbs import Verbs
from forewarp.tools.parts import Part
from forewarp.tools.requests import (
    ForecastRequest,
    InspectRequest,
    MeasureRequest,
    SearchRequest,
    ValidateRequest,
    misfit,
)

# Hints that are left out have the protocol's defaults. The world is open where a language model may be asked. No tool
# deletes or overwrites anything, but ending a run cannot be undone by the same client.
READS = ToolAnnotations(read_only_hint=True, open_world_hint=False)
RUNS = ToolAnnotations(read_only_hint=False, destructive_hint=False, open_world_hint=False)
WRITES = ToolAnnotations(read_only_hint=False, destructive_hint=False, idempotent_hint=True, open_world_hint=False)
ENDS = ToolAnnotations(read_only_hint=False, idempotent_hint=True, open_world_hint=False)
OPEN = {"open_world_hint": None}
KERNEL = "task source path language tunables"


class Tool(NamedTuple):
    """One tool, and the request whose fields are its arguments; `texts` has what clients are told of it."""

    name: str
    hints: ToolAnnotations
    arguments: str
    answer: type[ToolAnswer]
    request: type[Part] | None = None


TOOLS = (
    Tool("describe", READS, "task language gradients about", Described),
    Tool("make_task", WRITES, "path function args init", TaskAnswer),
    Tool("validate_task", READS, "task device", ValidateAnswer, ValidateRequest),
    Tool("inspect_kernel", READS, f"{KERNEL} target check", InspectAnswer, InspectRequest),
    Tool(
        "forecast_kernel",
        READS.model_copy(update=OPEN),
        f"{KERNEL} paths against allow_tf32 gradients target device forecaster model detail",
        ForecastAnswer,
        ForecastRequest,
    ),
    Tool(
        "measure_kernel",
        RUNS,
        f"{KERNEL} against allow_tf32 gradients device wait_s detail",
        MeasureAnswer,
        MeasureRequest,
    ),
    Tool(
        "search",
        RUNS.model_copy(update=OPEN),
        "task budget max_gpu_seconds max_usd max_tokens deadline_s forecaster model seed_kernels language "
        "allow_tf32 gradients seed device target detail",
        SearchAnswer,
        SearchRequest,
    ),
    Tool(
        "run_verb",
        RUNS,
        "verb subject call compile line top kernels task python budget deadline_s device format wait_s",
        VerbAnswer,
    ),
    Tool("search_status", READS, "run_id wait_s detail", StatusAnswer),
    Tool("search_cancel", ENDS, "run_id", StatusAnswer),
    Tool("search_resume", RUNS.model_copy(update=OPEN), "run_id model", StatusAnswer),
)


def _function(verbs: Verbs, tool: Tool) -> Callable[..., Awaitable[CallToolResult]]:
    """Return a tool as the function that the SDK reads its schema from."""

    async def call(ctx: Context, **given: Any) -> CallToolResult:
        return await verbs.call(tool.name, ctx, given)

    call.__name__ = tool.name
    call.__annotations__ = {"ctx": Context}
    call.__dict__["__signature__"] = signature(tool.name, tool.arguments, tool.request)
    return call


class Server(MCPServer[None]):
    """The SDK's server, which refuses unknown arguments, and prompts that cannot be given as the protocol asks for."""

    def __init__(self, name: str, **options: Any) -> None:
        super().__init__(name, **options)
        self._lowlevel_server.middleware.append(_say_what_is_wrong)

    async def list_tools(self) -> list[ListedTool]:
        """Return the tools with short schemas: a model reads every word of this, with each request."""
        answers = {tool.name: schemas.answer(tool.answer) for tool in TOOLS}
        return [
            t.model_copy(
                update={
                    "input_schema": schemas.arguments(t.input_schema),
                    "output_schema": answers.get(t.name, t.output_schema),
                }
            )
            for t in await super().list_tools()
        ]

    async def run_stdio_async(self) -> None:
        """Serve on stdio, and answer lines that are no messages."""
        async with stdio.served() as (incoming, outgoing):
            await self._lowlevel_server.run(incoming, outgoing, self._lowlevel_server.create_initialization_options())

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context[None, Any] | None = None
    ) -> CallToolResult | InputRequiredResult:
        """Call a tool; raises `ToolError` for an unknown one, and for arguments that are unknown or do not fit."""
        own = {tool.name: tool.arguments.split() for tool in TOOLS}
        if name in own:
            _check_names(name, arguments, own[name])
        elif name not in (known := [tool.name for tool in await super().list_tools()]):
            raise ToolError(f"there is no tool {name[:100]!r}; there are {', '.join(known)}")
        try:
            return await super().call_tool(name, arguments, context)
        except ToolError as e:
            if isinstance(e.__cause__, ValidationError):
                raise ToolError(f"{name}: {'; '.join(misfit(e.__cause__))}") from e
            if isinstance(e.__cause__, ToolError):
                raise e.__cause__ from None  # as it was raised, without the SDK's prefix
            raise

    async def get_prompt(
        self, name: str, arguments: dict[str, Any] | None = None, context: Context[None, Any] | None = None
    ) -> GetPromptResult | InputRequiredResult:
        """Return the prompt; raises `MCPError` that names the prompts and their arguments."""
        try:
            return await super().get_prompt(name, arguments, context)
        except ValueError as e:
            # A prompt only puts its arguments into a text, so that it is the request that is wrong. The SDK would call
            # that an internal error, and log it as a crash.
            known = [f"{p.name}({', '.join(a.name for a in p.arguments or [])})" for p in await self.list_prompts()]
            raise MCPError(INVALID_PARAMS, f"{e}; prompts: {', '.join(known)}") from e


async def _say_what_is_wrong(ctx: ServerRequestContext[None], call_next: CallNext) -> HandlerResult:
    """Handle a request; refuse it with a sentence where the SDK would say "Invalid request parameters" only."""
    try:
        return await call_next(ctx)
    except ValidationError as e:
        said = "; ".join(misfit(e)).replace("a valid dictionary", "an object")
        raise MCPError(INVALID_PARAMS, f"{ctx.method}: {said}") from e
    except MCPError as e:
        if e.message != "Invalid request parameters":
            raise
        raise MCPError(INVALID_PARAMS, f"{ctx.method}: the session has not begun; send initialize first") from e


def _check_names(tool: str, given: Iterable[str], known: Sequence[str]) -> None:
    unknown = [name for name in given if name not in known]
    if not unknown:
        return
    said = [repr(name[:100]) for name in unknown[:5]] + ["…"] * (len(unknown) > 5)
    nearest = [n for name in unknown[:5] for n in difflib.get_close_matches(name[:100], known, 1)]
    meant = f"did you mean {', '.join(dict.fromkeys(nearest))}? " if nearest else ""
    raise ToolError(f"{tool} has no argument {', '.join(said)}; {meant}it takes {', '.join(known)}")


def build_server(options: ServerOptions | None = None) -> MCPServer[None]:
    """Return the server; nothing of the engine is loaded before the first call."""
    options = options or ServerOptions()
    verbs = Verbs(options)

    @asynccontextmanager
    async def lifespan(server: MCPServer[None]) -> AsyncGenerator[None]:
        try:
            yield
        finally:
            await anyio.to_thread.run_sync(verbs.close)

    server = Server(
        "forewarp",
        title="forewarp: faster GPU kernels on fewer measurements",
        instructions=text("instructions"),
        version=forewarp.__version__,
        lifespan=lifespan,
        log_level="WARNING",
    )
    for tool in TOOLS:
        function = _function(verbs, tool)
        server.tool(description=text(tool.name), annotations=tool.hints)(function)
    resources.register(server, verbs, options)
    _prompts(server)
    return server


def text(name: str, **values: str) -> str:
    """Return the text of a tool, of a prompt with its `values` filled in, or the instructions, from `prompts/mcp`."""
    return template(prompts.__file__, f"mcp/{name}.md").substitute(values).rstrip("\n")


def _prompts(server: MCPServer[None]) -> None:
    @server.prompt(title="Optimize this kernel")
    def optimize_this_kernel(
        task: Annotated[str, Field(description="Bundled task, or KernelBench file of the workspace.")],
        kernel: Annotated[str, Field(description="File of the workspace with the kernel to begin with.")],
    ) -> str:
        """Forecast, measure and search until a kernel is faster."""
        return text("optimize_this_kernel", task=task, kernel=kernel)

    @server.prompt(title="Explain this verdict")
    def explain_this_verdict(run_id: Annotated[str, Field(description="Handle of a run or of a measurement.")]) -> str:
        """Say what a result means and what to do next."""
        return text("explain_this_verdict", run_id=run_id)
