"""`forewarp mcp`: the MCP server on stdio or HTTP, its entry in the configuration of clients, and its bundle."""

from __future__ import annotations

import gc
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from forewarp.cli.options import HERE, Where, positive

if TYPE_CHECKING:
    from mcp.server import MCPServer

    from forewarp.mcp_server.options import ServerOptions


@Parameter(name="*", group="Budget")
@dataclass(frozen=True)
class ClientLimits:
    """Caps on what clients may spend; clients cannot change them.

    Attributes:
        max_measurements: Most measurements of all clients of this archive in --window hours.
        max_gpu_seconds: Most seconds for which they may hold the device in that time.
        max_usd: Most dollars for language models in that time.
        max_tokens: Most tokens of language models in that time.
        session_measurements: Most measurements of one client's session.
        session_gpu_seconds: Most seconds for which one session may hold the device.
        session_usd: Most dollars of one session.
        session_tokens: Most tokens of one session.
        window: Hours after which what was spent is forgotten.
        max_searches: Most runs at a time.
    """

    max_measurements: Annotated[int | None, Parameter(validator=positive)] = None
    max_gpu_seconds: Annotated[float | None, Parameter(validator=positive)] = None
    max_usd: Annotated[float | None, Parameter(validator=positive)] = None
    max_tokens: Annotated[int | None, Parameter(validator=positive)] = None
    session_measurements: Annotated[int | None, Parameter(validator=positive)] = None
    session_gpu_seconds: Annotated[float | None, Parameter(validator=positive)] = None
    session_usd: Annotated[float | None, Parameter(validator=positive)] = None
    session_tokens: Annotated[int | None, Parameter(validator=positive)] = None
    window: Annotated[float, Parameter(validator=positive)] = 24.0
    max_searches: Annotated[int, Parameter(validator=positive)] = 2


OPEN = ClientLimits()
KEEP_WARM_S = 120.0


def mcp(
    action: Literal["serve", "install", "bundle"] = "serve",
    to: Literal["claude-code", "claude-desktop", "cursor", "vscode", "codex"] | Path | None = None,
    /,
    *,
    workspace: Path | None = None,
    limits: ClientLimits = OPEN,
    model: Annotated[tuple[str, ...], Parameter(negative="", show_default=False)] = (),
    base_url: str | None = None,
    http: str | None = None,
    host_name: Annotated[tuple[str, ...], Parameter(negative="", show_default=False)] = (),
    keep_warm: Annotated[float, Parameter(validator=positive)] = KEEP_WARM_S,
    print_: Annotated[bool, Parameter(name="--print", negative="", show_default=False)] = False,
    where: Where = HERE,
) -> int:
    """Serve forecasts, measurements and searches over MCP on stdio, or over HTTP; see docs/mcp.md.

    Args:
        action: serve; install: put it, with the other flags, into a client's configuration; bundle: into one file.
        to: With install, the client; with bundle, the file that Claude Desktop is to install, which ends in .mcpb.
        workspace: The only folder whose files clients may name; the working folder if left out.
        limits: What clients may spend.
        model: Language model that clients may name; may be given several times. Any on stdio, none over HTTP, if left
            out.
        base_url: URL of an OpenAI-compatible server for models called openai:NAME.
        http: HOST:PORT to serve streamable HTTP on, at /mcp, instead of stdio. Other hosts than this one need
            $FOREWARP_MCP_TOKEN.
        host_name: Further name under which HTTP clients may reach the server; may be given several times.
        keep_warm: Seconds after which the measuring process ends that has nothing to do.
        print_: With install and bundle, only print what would be written.
        where: Device and archive; a call may name another device.
    """
    if action != "serve":
        _refuse_http(action, http, host_name)
        _refuse_insisting(action, where)
        from forewarp.cli import mcp_install

        there = (workspace or Path.cwd()) if action == "install" else workspace
        warm = None if keep_warm == KEEP_WARM_S else keep_warm
        given = mcp_install.given_of(where, asdict(limits), asdict(OPEN), there, base_url, warm)
        if action == "install":
            return mcp_install.install(to, mcp_install.flags_of(given, model), only_print=print_)
        from forewarp.cli import mcp_bundle

        return mcp_bundle.write(Path(to or "forewarp.mcpb"), given, model, only_print=print_)
    from forewarp.core.budget import Budget
    from forewarp.core.errors import UsageError

    if to is not None or print_:
        raise UsageError("serve takes neither a client nor --print", hint="pass `forewarp mcp install CLIENT`")
    from forewarp.mcp_server.options import ServerOptions

    options = ServerOptions(
        place=where.place(),
        workspace=(workspace or Path.cwd()).expanduser().absolute(),
        server=Budget(limits.max_measurements, limits.max_gpu_seconds, limits.max_usd, limits.max_tokens),
        session=Budget(
            limits.session_measurements, limits.session_gpu_seconds, limits.session_usd, limits.session_tokens
        ),
        window_s=3600 * limits.window,
        max_searches=limits.max_searches,
        models=model or (() if http is not None else None),
        base_url=base_url,
        keep_warm_s=keep_warm,
    )
    if not options.workspace.is_dir():
        raise UsageError(f"the workspace {options.workspace} is no folder", hint="pass --workspace DIR")
    if http is None:
        _build(options).run()
        return 0
    from forewarp.mcp_server import http as over_http

    host, port = over_http.address(http)
    over_http.serve(_build(options), host, port, os.environ.get("FOREWARP_MCP_TOKEN", ""), host_name)
    return 0


def _refuse_http(action: str, http: str | None, host_name: tuple[str, ...]) -> None:
    """Raise `UsageError` for options of a server over HTTP, which no client can start."""
    from forewarp.core.errors import UsageError

    given = [name for name, value in (("--http", http), ("--host-name", host_name)) if value]
    if given:
        raise UsageError(
            f"mcp {action} does not take {' and '.join(given)}: a client starts what it writes on stdio",
            hint=f"leave {' and '.join(given)} out; or start `forewarp mcp --http HOST:PORT` yourself, and give the "
            "client the URL http://HOST:PORT/mcp",
        )


def _refuse_insisting(action: str, where: Where) -> None:
    """Raise `UsageError` for a lasting --unprotected: that is for whoever starts the server, who is asked each time."""
    from forewarp.core.errors import UsageError
    from forewarp.gpu_runner.worker.least import INSIST

    if where.unprotected:
        raise UsageError(
            f"mcp {action} does not write --unprotected down",
            hint=f"leave it out; to insist for good, set {INSIST}=1 in the environment that the client starts it in",
        )


def _build(options: ServerOptions) -> MCPServer[None]:
    """Load and build the server, and exempt its objects from garbage collection: they live until the process ends."""
    gc.disable()
    try:
        from forewarp.mcp_server.server import build_server

        server = build_server(options)
        gc.freeze()
    finally:
        gc.enable()
    return server
