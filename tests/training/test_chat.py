"""A model is trained on what the forecaster sends and reads: the same messages, the same tool."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
import warm_start
from contracts.forecaster_contract import TARGET, TASK, subject

from forewarp.core.errors import ForewarpError
from forewarp.surrogate import replies
from forewarp.surrogate.llm import LlmForecaster
from forewarp.surrogate.models import resolve
from forewarp.surrogate.questions import question, system_prompt
from forewarp.training import chat


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """A server that keeps what it is sent and refuses it."""
    kept: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            kept.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(400)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    yield f"http://127.0.0.1:{server.server_port}/v1", kept
    server.shutdown()
    server.server_close()


def test_the_tool_and_the_messages_are_those_that_are_sent(sent: tuple[str, list[dict[str, Any]]]) -> None:
    url, kept = sent
    with pytest.raises(ForewarpError):
        LlmForecaster(resolve("openai:mine", url)).forecast(TASK, TARGET, [subject()], [])
    request = kept[0]
    assert request["tools"] == [chat.tool()]
    assert request["tool_choice"] == "required"
    told = [(m["role"], m["content"]) for m in request["messages"]]
    text = question(TASK, TARGET, [subject()], []).text
    said = [(role, c if isinstance(c, str) else "\n".join(part["text"] for part in c)) for role, c in told]
    expected = [(m["role"], m["content"]) for m in chat.messages(system_prompt(), text)]
    assert said == expected


def test_a_reply_is_read_as_it_was_written() -> None:
    p = [0.0, 0.05, 0.1, 0.15, 0.4, 0.2, 0.1, 0.0]
    text = warm_start.arguments(warm_start.reply([(1.25, p, 0.95), (0.5, p[::-1], 0.1)]))
    found = replies.read(text, 2)
    assert found is not None
    assert [(f.candidate, f.median, f.p, f.p_valid) for f in found.forecasts] == [
        ("c1", 1.25, p, 0.95),
        ("c2", 0.5, p[::-1], 0.1),
    ]
