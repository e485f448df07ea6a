"""The stdio transport, with answers to lines that are no messages, and to what is asked last; the SDK drops both."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, Self, cast

import anyio
from mcp.server.stdio import stdio_server
from mcp.shared._stream_protocols import ReadStream, WriteStream
from mcp.shared.message import SessionMessage
from mcp.types import INVALID_REQUEST, PARSE_ERROR, ErrorData, JSONRPCError, JSONRPCRequest, JSONRPCResponse
from pydantic import ValidationError

_LAST_ANSWERS_S = 2.0
"""For answers that are being made when the client closes the server's standard input."""


class _Wrapped:
    """A stream around another one, which is closed with it."""

    def __init__(self, stream: ReadStream[SessionMessage | Exception] | WriteStream[SessionMessage]) -> None:
        self._inner = stream

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> None:
        await self.aclose()


class Replies(_Wrapped):
    """Messages to a client, and the ids of its requests that wait for one."""

    def __init__(self, stream: WriteStream[SessionMessage]) -> None:
        super().__init__(stream)
        self._stream = stream
        self.waiting: set[str | int | None] = set()

    async def send(self, item: SessionMessage, /) -> None:
        await self._stream.send(item)
        if isinstance(item.message, JSONRPCResponse | JSONRPCError):
            self.waiting.discard(item.message.id)


class AnsweringStream(_Wrapped):
    """Messages of a transport, without what could not be read: that is answered with an error of the protocol.

    It ends once all requests are answered, or two seconds after the transport ended.
    """

    def __init__(self, source: ReadStream[SessionMessage | Exception], replies: Replies) -> None:
        super().__init__(source)
        self._source, self._replies = source, replies

    @property
    def last_context(self) -> Any:
        """Context of the latest message's sender."""
        return getattr(self._source, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        while True:
            try:
                item = await self._source.receive()
            except anyio.EndOfStream:
                with anyio.move_on_after(_LAST_ANSWERS_S):
                    while self._replies.waiting:
                        await anyio.sleep(0.01)
                raise
            if not isinstance(item, ValidationError):
                if isinstance(item, SessionMessage) and isinstance(item.message, JSONRPCRequest):
                    self._replies.waiting.add(item.message.id)
                return item
            if (answer := _answer_to(item)) is not None:
                await self._replies.send(SessionMessage(answer))

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    def __aiter__(self) -> Self:
        return self


def _answer_to(error: ValidationError) -> JSONRPCError | None:
    """Return the answer to a line that could not be read; None to an empty one, and to a damaged response."""
    errors = error.errors(include_url=False)
    first = errors[0]
    given: Any = first["input"]
    if first["type"] == "json_invalid":
        if not str(given).strip():
            return None
        return JSONRPCError(jsonrpc="2.0", id=None, error=ErrorData(code=PARSE_ERROR, message=first["msg"]))
    wholes = (e["input"] for e in errors if e["type"] == "missing" and len(e["loc"]) == 2)
    found = cast("dict[str, Any]", next(wholes, {}))
    if "result" in found or "error" in found:
        return None
    key = found.get("id")
    key = key if isinstance(key, str) or type(key) is int else None
    said = f"Invalid request: {first['loc'][-1]}: {first['msg']}"
    return JSONRPCError(jsonrpc="2.0", id=key, error=ErrorData(code=INVALID_REQUEST, message=said))


@asynccontextmanager
async def served() -> AsyncGenerator[tuple[AnsweringStream, Replies]]:
    """Claim standard input and output, and yield the messages and the stream for answers."""
    async with stdio_server() as (incoming, outgoing):
        replies = Replies(outgoing)
        yield AnsweringStream(incoming, replies), replies
