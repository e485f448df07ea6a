"""A provider of language models on the loopback that fails on purpose, in OpenAI's and Anthropic's wire formats.

Each request takes the next reply of a script; without one left, the last is given again. `asked` has the requests.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

GARBAGE = {"garbage": "data: {this is no JSON\n\n", "array": "data: [1, 2]\n\n"}

Call = tuple[str, str]
"""Name of a tool, and its arguments as text, which need not be JSON."""


@dataclass(frozen=True)
class Reply:
    """What a provider sends: text, calls, and how it ends.

    `finish` is OpenAI's word (stop, length, content_filter, tool_calls); "" ends the stream without any. `breaks` is
    where it goes wrong: before the head of the answer, in the middle of it, or by one of `GARBAGE`. `silent_s` is
    waited in the middle, with pings where `pings` is set.
    """

    text: str = ""
    calls: Sequence[Call] = ()
    finish: str | None = None
    status: int = 200
    message: str = ""
    code: str = ""
    headers: dict[str, str] = field(default_factory=dict[str, str])
    breaks: str = ""
    silent_s: float = 0.0
    pings: bool = False
    thinking: str = ""


class Provider(ThreadingHTTPServer):
    """The server; `url` is its address."""

    daemon_threads = True

    def __init__(self, script: Sequence[Reply]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.script = list(script)
        self.asked: list[dict[str, Any]] = []
        self.closing = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of clients that hang up."""


@contextmanager
def serving(*script: Reply) -> Iterator[Provider]:
    """Serve a script."""
    server = Provider(script)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        server.closing.set()
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    server: Provider
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        number = len(self.server.asked)
        self.server.asked.append(asked)
        reply = self.server.script[min(number, len(self.server.script) - 1)]
        anthropic = self.path.endswith("/messages")
        self.close_connection = True
        if reply.breaks == "before":
            return
        if reply.status != 200:
            self._refuse(reply, anthropic)
            return
        events = list((_anthropic if anthropic else _openai)(reply, str(asked.get("model"))))
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        middle = max(1, len(events) // 2)
        for place, event in enumerate(events):
            if place == middle:
                if reply.breaks == "middle":
                    self.connection.close()
                    return
                self._send(GARBAGE.get(reply.breaks, ""))
                self._be_silent(reply)
            self._send(event)

    def _be_silent(self, reply: Reply) -> None:
        left = reply.silent_s
        while left > 0 and not self.server.closing.wait(min(left, 0.1)):
            left -= 0.1
            if reply.pings:
                self._send(": ping\n\n")

    def _send(self, text: str) -> None:
        self.wfile.write(text.encode())
        self.wfile.flush()

    def _refuse(self, reply: Reply, anthropic: bool) -> None:
        error: dict[str, Any] = {"type": reply.code or "error", "message": reply.message}
        body = {"type": "error", "error": error} if anthropic else {"error": {**error, "code": reply.code or None}}
        said = json.dumps(body).encode()
        self.send_response(reply.status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(said)))
        for name, value in reply.headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(said)


def _pieces(text: str) -> list[str]:
    return [text[n : n + 8] for n in range(0, len(text), 8)]


def _openai(reply: Reply, model: str) -> Iterator[str]:
    def chunk(delta: dict[str, Any], finish: str | None = None) -> str:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        body = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": model, "choices": [choice]}
        return f"data: {json.dumps(body)}\n\n"

    yield chunk({"role": "assistant", "content": ""})
    for piece in _pieces(reply.thinking):
        yield chunk({"reasoning_content": piece})
    for piece in _pieces(reply.text):
        yield chunk({"content": piece})
    for number, (name, arguments) in enumerate(reply.calls):
        call = {"index": number, "id": f"call_{number}", "type": "function"}
        yield chunk({"tool_calls": [{**call, "function": {"name": name, "arguments": ""}}]})
        for piece in _pieces(arguments):
            yield chunk({"tool_calls": [{"index": number, "function": {"arguments": piece}}]})
    finish = ("tool_calls" if reply.calls else "stop") if reply.finish is None else reply.finish
    if finish:
        yield chunk({}, finish)
        usage = {"prompt_tokens": 1000, "completion_tokens": 10, "total_tokens": 1010}
        body = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": model, "choices": []}
        yield f"data: {json.dumps(body | {'usage': usage})}\n\n"
        yield "data: [DONE]\n\n"


_STOP_REASONS = {"stop": "end_turn", "length": "max_tokens", "content_filter": "refusal", "tool_calls": "tool_use"}


def _anthropic(reply: Reply, model: str) -> Iterator[str]:
    def event(kind: str, **fields: Any) -> str:
        return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n"

    usage = {"input_tokens": 1000, "output_tokens": 1}
    message = {"id": "m", "type": "message", "role": "assistant", "content": [], "model": model}
    yield event("message_start", message=message | {"stop_reason": None, "stop_sequence": None, "usage": usage})
    blocks: list[tuple[dict[str, Any], list[dict[str, Any]]]] = []
    if reply.thinking:
        deltas = [{"type": "thinking_delta", "thinking": p} for p in _pieces(reply.thinking)]
        blocks.append(({"type": "thinking", "thinking": "", "signature": "s"}, deltas))
    if reply.text:
        blocks.append(({"type": "text", "text": ""}, [{"type": "text_delta", "text": p} for p in _pieces(reply.text)]))
    for number, (name, arguments) in enumerate(reply.calls):
        deltas = [{"type": "input_json_delta", "partial_json": p} for p in _pieces(arguments)]
        blocks.append(({"type": "tool_use", "id": f"call_{number}", "name": name, "input": {}}, deltas))
    for index, (block, deltas) in enumerate(blocks):
        yield event("content_block_start", index=index, content_block=block)
        for delta in deltas:
            yield event("content_block_delta", index=index, delta=delta)
        yield event("content_block_stop", index=index)
    finish = ("tool_calls" if reply.calls else "stop") if reply.finish is None else reply.finish
    if finish:
        delta = {"stop_reason": _STOP_REASONS[finish], "stop_sequence": None}
        yield event("message_delta", delta=delta, usage={"output_tokens": 10})
        yield event("message_stop")
