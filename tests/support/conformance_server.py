"""What the conformance suite calls by set names, served by our server class, HTTP layer and token check.

Run as a program with a port. The suite sends no token, so that it is put into each request on its way in.
"""

from __future__ import annotations

import base64
import sys
from typing import TYPE_CHECKING

import anyio
import uvicorn
from mcp.server.mcpserver import Context, Message, UserMessage
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import AudioContent, ContentBlock, EmbeddedResource, ImageContent, TextContent, TextResourceContents

from forewarp.mcp_server import http
from forewarp.mcp_server.server import Server

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

TOKEN = "the-token-of-the-conformance-server"
PNG = b"\x89PNG\r\n\x1a\n"
IMAGE = ImageContent(type="image", data=base64.b64encode(PNG).decode(), mime_type="image/png")
AUDIO = AudioContent(type="audio", data=base64.b64encode(b"RIFF").decode(), mime_type="audio/wav")


def embedded(uri: str) -> EmbeddedResource:
    return EmbeddedResource(
        type="resource", resource=TextResourceContents(uri=uri, mime_type="text/plain", text=f"The text of {uri}.")
    )


def build() -> Server:
    server = Server("conformance", version="1")
    tools(server)
    resources(server)
    prompts(server)
    return server


def tools(server: Server) -> None:
    text = TextContent(type="text", text="plain")

    def answers(name: str, *content: ContentBlock) -> None:
        server.tool(name=name, description="Answers with content of one kind.", structured_output=False)(
            lambda: list(content)
        )

    answers("test_simple_text", text)
    answers("test_image_content", IMAGE)
    answers("test_audio_content", AUDIO)
    answers("test_embedded_resource", embedded("test://embedded-resource"))
    answers("test_multiple_content_types", text, IMAGE, embedded("test://mixed"))

    @server.tool(structured_output=False)
    def test_error_handling() -> str:
        """Fail."""
        raise ToolError("it fails, as it should")

    @server.tool(structured_output=False)
    async def test_tool_with_progress(ctx: Context) -> str:
        """Report progress."""
        for progress in (0, 50, 100):
            await ctx.report_progress(progress, 100)
            await anyio.sleep(0.01)
        return "done"


def resources(server: Server) -> None:
    server.resource("test://static-text", name="text", mime_type="text/plain")(lambda: "static")
    server.resource("test://static-binary", name="binary", mime_type="image/png")(lambda: PNG)

    @server.resource("test://template/{id}/data", mime_type="application/json")
    def template(id: str) -> str:
        return f'{{"id": "{id}"}}'


def prompts(server: Server) -> None:
    server.prompt(name="test_simple_prompt")(lambda: "simple")

    @server.prompt()
    def test_prompt_with_arguments(arg1: str, arg2: str) -> str:
        return f"{arg1} and {arg2}"

    @server.prompt()
    def test_prompt_with_embedded_resource(resourceUri: str) -> list[Message]:
        return [UserMessage(embedded(resourceUri)), UserMessage("What is this?")]

    @server.prompt()
    def test_prompt_with_image() -> list[Message]:
        return [UserMessage(IMAGE), UserMessage("What is this?")]


class Bearer:
    """A client's token on every request."""

    def __init__(self, inner: ASGIApp) -> None:
        self._inner = inner

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            scope = {**scope, "headers": [*scope["headers"], (b"authorization", f"Bearer {TOKEN}".encode())]}
        await self._inner(scope, receive, send)


if __name__ == "__main__":
    uvicorn.run(Bearer(http.app(build(), "127.0.0.1", TOKEN)), port=int(sys.argv[1]), log_level="warning")
