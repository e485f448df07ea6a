"""Streamable HTTP: loopback by default; elsewhere only with a token, and only under names that the operator gave."""

from __future__ import annotations

import hmac

import uvicorn
from mcp.server import MCPServer
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from forewarp.core.errors import UsageError

LOOPBACK = ("127.0.0.1", "localhost", "::1")
MIN_TOKEN = 16


def address(text: str) -> tuple[str, int]:
    """Read HOST:PORT, HOST or PORT; raises `UsageError`."""
    host, colon, port = text.rpartition(":")
    if not colon:
        host, port = ("127.0.0.1", text) if text.isdigit() else (text, "8000")
    host = host.strip("[]")
    if not host or not port.isdigit() or not 0 <= int(port) < 65536:
        raise UsageError(f"{text!r} is no address", hint="pass HOST:PORT, such as 127.0.0.1:8000")
    return host, int(port)


def check(host: str, token: str) -> None:
    """Raise `UsageError` where serving on `host` would let anybody run code here."""
    if token and len(token) < MIN_TOKEN:
        raise UsageError(
            f"the token has {len(token)} characters; at least {MIN_TOKEN} are needed",
            hint="make one with `python -c 'import secrets; print(secrets.token_urlsafe(32))'`",
        )
    if host not in LOOPBACK and not token:
        raise UsageError(
            f"serving on {host} needs a token: whoever reaches it can run code here",
            hint="set FOREWARP_MCP_TOKEN, which clients send as Authorization: Bearer …; or serve on 127.0.0.1",
        )


def app(server: MCPServer[None], host: str, token: str, names: tuple[str, ...] = ()) -> Starlette | ASGIApp:
    """Return the application; `names` are further values that the Host header may have, without port."""
    allowed = [f"[{n}]" if ":" in n else n for n in dict.fromkeys((*LOOPBACK, host, *names))]
    security = TransportSecuritySettings(
        enable_dns_rebinding_protection=True,
        allowed_hosts=[*allowed, *(f"{n}:*" for n in allowed)],
        allowed_origins=[
            f"{scheme}://{n}{port}" for n in allowed for scheme in ("http", "https") for port in ("", ":*")
        ],
    )
    served = server.streamable_http_app(host=host, transport_security=security)
    return Guard(served, token) if token else served


class Guard:
    """Turns away every HTTP request that does not carry the token."""

    def __init__(self, inner: ASGIApp, token: str) -> None:
        self._inner, self._token = inner, token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            headers: dict[bytes, bytes] = dict(scope["headers"])
            given = headers.get(b"authorization", b"")
            if not hmac.compare_digest(given, f"Bearer {self._token}".encode()):
                said = PlainTextResponse("a bearer token is needed\n", 401, {"www-authenticate": "Bearer"})
                await said(scope, receive, send)
                return
        await self._inner(scope, receive, send)


def serve(server: MCPServer[None], host: str, port: int, token: str, names: tuple[str, ...] = ()) -> None:
    """Serve until the process is ended; raises `UsageError` for an address that would be open to anybody."""
    check(host, token)
    uvicorn.run(app(server, host, token, names), host=host, port=port, log_level="warning")
