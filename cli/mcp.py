"""`forewarp mcp`: the MCP server on stdio or HTTP, its entry in the configuration of clients, and its bundle."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from forewarp.cli import exits, printing
from forewarp.cli.flags import takes
from forewarp.cli.options import HERE, PlaceOptions, Switch
from forewarp.core.errors import UsageError
from forewarp.core.files import writing
from forewarp.mcp_server.options import ServerOptions
from forewarp.tools import signals

if TYPE_CHECKING:
    from mcp.server import MCPServer

BUDGET = Parameter(group="Budget")
CAPS = [name for name in ServerOptions.model_fields if name.startswith(("max_", "session_"))]
SUFFIX = ".mcpb"
_SEVERAL = ("model", "gate_python")
"""Options that may be given several times."""


@takes(ServerOptions, "", without="place", **dict.fromkeys((*CAPS, "window"), BUDGET))
def mcp(
    options: ServerOptions,
    action: Annotated[
        Literal["serve", "install", "uninstall", "bundle"],
        Parameter(
            help="serve; install: have a client start it, with the other flags; uninstall: no longer; bundle: into one "
            "file."
        ),
    ] = "serve",
    to: Annotated[
        Literal["claude-code", "claude-desktop", "cursor", "vscode", "codex", "opencode"] | Path | None,
        Parameter(
            help="With install and uninstall, the client; with bundle, the file for Claude Desktop to install, which "
            "ends in .mcpb."
        ),
    ] = None,
    /,
    *,
    http: Annotated[
        str | None,
        Parameter(
            help="HOST:PORT to serve streamable HTTP on, at /mcp, instead of stdio. Other hosts than this one need "
            "$FOREWARP_MCP_TOKEN."
        ),
    ] = None,
    host_name: Annotated[
        tuple[str, ...],
        Parameter(
            negative="",
            show_default=False,
            help="Further name under which HTTP clients may reach the server; may be given several times.",
        ),
    ] = (),
    print_: Annotated[
        Switch, Parameter(name="--print", help="With install and bundle, only print what would be written.")
    ] = False,
    where: PlaceOptions = HERE,
) -> int:
    """Serve forecasts, measurements and searches over MCP on stdio, or over HTTP; see docs/mcp.md."""
    if action == "serve":
        if to is not None or print_:
            raise UsageError("serve takes neither a client nor --print", hint="pass `forewarp mcp install CLIENT`")
        models = options.model or (None if http is None else [])
        return _serve(options.model_copy(update={"place": where.place(), "model": models}), http, host_name)
    _check_written(action, http, host_name, where)
    from forewarp.cli import mcp_install

    if action == "uninstall":
        return mcp_install.uninstall(to)
    if action == "install":
        given = _given(options.model_copy(update={"workspace": options.folder()}), where)
        return mcp_install.install(to, _flags(given, options), only_print=print_)
    return _bundle(Path(to or f"forewarp{SUFFIX}"), _given(options, where), options, only_print=print_)


def _terminate(number: int, frame: object) -> None:
    signal.raise_signal(signal.SIGTERM)  # which uvicorn ends by


def _serve(options: ServerOptions, http: str | None, host_names: tuple[str, ...]) -> int:
    if not options.folder().is_dir():
        raise UsageError(f"the workspace {options.folder()} is no folder", hint="pass --workspace DIR")
    if http is None:
        signals.end_at_once(signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # reading stdin cannot be interrupted
        _build(options).run()
        return exits.OK
    from forewarp.mcp_server import http as over_http

    if signals.heeds_hangup():
        signal.signal(signal.SIGHUP, _terminate)
    host, port = over_http.address(http)
    over_http.serve(_build(options), host, port, os.environ.get("FOREWARP_MCP_TOKEN", ""), host_names)
    return exits.OK


def _check_written(action: str, http: str | None, host_name: tuple[str, ...], where: PlaceOptions) -> None:
    """Raise `UsageError` for what a client's configuration cannot hold, or must not."""
    given = " and ".join(name for name, value in (("--http", http), ("--host-name", host_name)) if value)
    if given:
        raise UsageError(
            f"mcp {action} does not take {given}: a client starts what it writes on stdio",
            hint=f"leave {given} out; or start `forewarp mcp --http HOST:PORT` yourself, and give the client the URL "
            "http://HOST:PORT/mcp",
        )
    if where.unprotected:
        # That is for whoever starts the server, who is asked each time.
        from forewarp.gpu_runner.worker.least import INSIST

        raise UsageError(
            f"mcp {action} does not write --unprotected down",
            hint=f"leave it out; to insist for good, set {INSIST}=1 in the environment that the client starts it in",
        )


def _given(options: ServerOptions, where: PlaceOptions) -> dict[str, str]:
    """Return the flags that differ from their defaults, without their dashes, and their values; paths are absolute."""
    plain = ServerOptions()
    given: dict[str, Any] = {name: value for name, value in vars(where).items() if value != getattr(HERE, name)}
    given |= {name: value for name, value in options if value != getattr(plain, name) and name not in _SEVERAL}
    return {
        name.replace("_", "-"): str(value.expanduser().absolute() if isinstance(value, Path) else value)
        for name, value in given.items()
    }


def _flags(given: dict[str, str], options: ServerOptions) -> list[str]:
    pairs = [*given.items(), *(("model", name) for name in options.model or ())]
    pairs += [("gate-python", str(path.expanduser().absolute())) for path in options.gate_python]
    return [part for name, value in pairs for part in (f"--{name}", value)]


def _bundle(to: Path, given: dict[str, str], options: ServerOptions, *, only_print: bool) -> int:
    """Write the server as one file that Claude Desktop installs, or print its manifest; raises `UsageError`.

    Flags become what the fields of the application's form begin with; those without a field are fixed.
    """
    if to.suffix != SUFFIX:
        raise UsageError(f"{to} is no name of a bundle", hint=f"pass a file that ends in {SUFFIX}")
    if not only_print and not to.parent.is_dir():
        raise UsageError(f"{to.parent} is no folder", hint="pass the path of a file in one that there is")
    from forewarp.mcp_server import bundle
    from forewarp.mcp_server.server import build_server

    fixed = _flags({name: value for name, value in given.items() if name not in bundle.FIELDS}, options)
    manifest = asyncio.run(bundle.manifest(build_server(), given, fixed))
    if only_print:
        printing.json_out(json.dumps(manifest, indent=2, ensure_ascii=False))
        return exits.OK
    data = bundle.packed(manifest)
    with writing(to, "pass another path"):
        to.write_bytes(data)
    printing.out(f"{to}: {len(data) / 1e6:.1f} MB, forewarp {manifest['version']} with {len(manifest['tools'])} tools")
    printing.out("Open it with Claude Desktop; the libraries that it needs are fetched there.")
    return exits.OK


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
