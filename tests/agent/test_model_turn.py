"""What a model is sent again: how much, how steadily, and that nothing is lost that it needs."""

from __future__ import annotations

import json
import threading
from collections.abc import AsyncIterator, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, DeltaToolCalls, FunctionModel
from support.recorded_pool import Recorded, record

from forewarp.agent.conversation import Conversation
from forewarp.agent.events import ConversationEvent, Failed, ToolReturned
from forewarp.agent.history import BLOCK, LEFT_OUT, shortened
from forewarp.agent.settings import Settings
from forewarp.agent.transcript import Transcript, conversations, read
from forewarp.tools.parts import Amounts, Place

TURNS, MEASURED = 30, 6


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    return record(tmp_path_factory.mktemp("pool"))


def of_one_step(number: int, length: int = 3000) -> list[ModelMessage]:
    call, text = f"c{number}", f"// kernel {number}\n".ljust(length, "x")
    result = {"summary": f"Slower: drop it. 0.5× of {number}", "shapes": ["a shape"] * 100}
    return [
        ModelResponse([ToolCallPart("write_file", {"path": f"{number}.cu", "text": text}, call)]),
        ModelRequest([ToolReturnPart("write_file", result, call)]),
    ]


def history(steps: int) -> list[ModelMessage]:
    said: list[ModelMessage] = [ModelRequest([UserPromptPart("Make it faster. " * 100)])]
    for number in range(steps):
        said += of_one_step(number)
    return said


def characters(messages: list[ModelMessage]) -> int:
    total = 0
    for part in (p for m in messages for p in m.parts):
        if isinstance(part, ToolCallPart):
            total += len(json.dumps(part.args) if isinstance(part.args, dict) else part.args or "")
        elif isinstance(part, ToolReturnPart | UserPromptPart | TextPart):
            content: Any = part.content
            total += len(content if isinstance(content, str) else json.dumps(content, ensure_ascii=False))
    return total


def test_a_short_conversation_is_sent_whole() -> None:
    whole = history(5)
    assert shortened(whole) == whole


def test_old_texts_go_and_what_was_found_stays() -> None:
    whole = history(30)
    before = ModelMessagesTypeAdapter.dump_json(whole)
    sent = shortened(whole)
    assert ModelMessagesTypeAdapter.dump_json(whole) == before
    assert characters(sent) < characters(whole) / 2
    assert sent[0] == whole[0]
    assert sent[-8:] == whole[-8:]
    first_call, first_return = sent[1].parts[0], sent[2].parts[0]
    assert isinstance(first_call, ToolCallPart)
    assert isinstance(first_return, ToolReturnPart)
    assert first_call.args == {"path": "0.cu", "text": f"(3000 {LEFT_OUT})"}
    assert first_return.content["summary"] == "Slower: drop it. 0.5× of 0"
    assert LEFT_OUT in first_return.content["shapes"]


def test_what_was_sent_before_stays_the_same_but_for_a_block_now_and_then() -> None:
    whole = history(60)
    changes = 0
    for end in range(3, len(whole), 2):
        sent, next_sent = shortened(whole[:end]), shortened(whole[: end + 2])
        changes += sent != next_sent[:end]
    assert 0 < changes <= characters(whole) / BLOCK


def test_a_malformed_call_and_plain_text_are_left_alone() -> None:
    odd: list[ModelMessage] = [
        ModelResponse([TextPart("I think. " * 100), ToolCallPart("write_file", '{"path": ' + "x" * 900, "odd")]),
        ModelRequest([ToolReturnPart("write_file", "no " * 300, "odd")]),
    ]
    assert shortened([*odd, *history(30)])[:2] == odd


class Counting:
    """A model that writes a kernel in each turn, measures one in the first turns, and counts what it is sent."""

    def __init__(self, recorded: Recorded) -> None:
        self.sent = 0
        self.last: list[ModelMessage] = []
        self.model = FunctionModel(stream_function=self._stream)
        self._recorded = recorded

    async def _stream(self, messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str | DeltaToolCalls]:
        self.sent += characters(messages)
        self.last = list(messages)
        answers = sum(isinstance(p, TextPart) for m in messages for p in m.parts)
        made = sum(isinstance(p, ToolCallPart) for m in messages for p in m.parts) - 2 * answers
        if made == 0:
            call = ("write_file", {"path": f"v{answers}.cpp", "text": f"// idea {answers}\n".ljust(4000, "x")})
        elif made == 1 and answers >= MEASURED:
            call = ("read_file", {"path": f"v{answers}.cpp"})
        elif made == 1:
            # Of what was measured already, every other one is insisted on; the rest is held back.
            why = {"insist": "to see how much it varies"} if answers % 2 else {}
            call = ("measure_kernel", {"task": self._recorded.task, "path": "toy.cpp", **why})
        else:
            yield f"Idea {answers} is done."
            return
        yield {0: DeltaToolCall(name=call[0], json_args=json.dumps(call[1]), tool_call_id=f"{answers}-{made}")}


@pytest.mark.slow  # ninety steps
async def test_thirty_turns_send_much_less_and_lose_nothing_that_counts(recorded: Recorded, tmp_path: Path) -> None:
    place, folder = (
        Place(device="replay", pool=recorded.pool, archive=str(tmp_path / "a.db")),
        Path(recorded.seed).parent,
    )
    counting, cap = Counting(recorded), Amounts(measurements=100)
    settings = Settings(place, folder, counting.model, approval="never", budget=cap)
    talk = Conversation(settings, transcript=Transcript.begin(place, folder))
    results: list[dict[str, Any]] = []
    for number in range(TURNS):
        results += [dict(e.result) async for e in talk.say(f"Try idea {number}.") if isinstance(e, ToolReturned)]
    talk.close()
    remembered = ModelMessagesTypeAdapter.validate_python(list(read(Path(conversations(place)[0].path)).messages))
    assert len(remembered) == TURNS * 6
    whole = sum(characters(remembered[:n]) for n, m in enumerate(remembered) if isinstance(m, ModelResponse))
    assert counting.sent < 0.3 * whole
    told = json.dumps(ModelMessagesTypeAdapter.dump_python(counting.last, mode="json"), ensure_ascii=False)
    assert [r.get("decision") for r in results].count("held back") == MEASURED // 2 - 1
    assert sum("budget" in r for r in results) == MEASURED
    for result in results:
        assert json.dumps(result["summary"], ensure_ascii=False) in told
        assert result.get("budget", "") in told
    assert all(f"Try idea {n}." in told for n in range(TURNS))


async def test_a_note_on_what_was_left_out_is_never_taken_for_a_kernel(recorded: Recorded, tmp_path: Path) -> None:
    note = f"(4000 {LEFT_OUT})"
    calls = [
        ("write_file", {"path": "toy.cpp", "text": note}),
        ("measure_kernel", {"task": recorded.task, "source": note}),
        ("forecast_kernel", {"task": recorded.task, "source": note}),
    ]

    async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str | DeltaToolCalls]:
        if len(messages) > 1:
            yield "I see."
            return
        for number, (tool, given) in enumerate(calls):
            yield {number: DeltaToolCall(name=tool, json_args=json.dumps(given), tool_call_id=f"c{number}")}

    place = Place(device="replay", pool=recorded.pool, archive=str(tmp_path / "a.db"))
    (tmp_path / "toy.cpp").write_text("mine")
    talk = Conversation(Settings(place, tmp_path, FunctionModel(stream_function=stream), approval="never"))
    events: list[ConversationEvent] = [event async for event in talk.say("Go")]
    errors = [e.result["error"] for e in events if isinstance(e, ToolReturned)]
    assert len(errors) == 3
    assert all("left out of your history" in e for e in errors)
    assert (tmp_path / "toy.cpp").read_text() == "mine"
    assert talk.spent.measurements == 0


class Provider(BaseHTTPRequestHandler):
    """Writes down what it is asked, and refuses."""

    def do_POST(self) -> None:
        self.server.asked.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))  # type: ignore[attr-defined]
        said = b'{"type": "error", "error": {"type": "invalid_request_error", "message": "not today"}}'
        self.send_response(400)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def provider() -> Iterator[HTTPServer]:
    server = HTTPServer(("127.0.0.1", 0), Provider)
    server.asked = []  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.slow  # loads the providers' libraries
@pytest.mark.parametrize(("name", "marked"), [("anthropic:claude-sonnet-5-5", True), ("openai:mine", False)])
async def test_what_is_sent_again_is_marked_for_the_providers_cache(
    provider: HTTPServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, marked: bool
) -> None:
    url = f"http://127.0.0.1:{provider.server_port}"
    monkeypatch.setenv("ANTHROPIC_API_KEY", "none")
    talk = Conversation(Settings(Place(archive=str(tmp_path / "a.db")), tmp_path, name, url))
    monkeypatch.setenv("ANTHROPIC_BASE_URL", url)
    events = [event async for event in talk.say("Hello")]
    assert isinstance(events[-1], Failed)
    assert "not today" in events[-1].message
    [asked] = provider.asked  # type: ignore[attr-defined]
    places = [asked, asked["tools"][-1], *(asked.get("system") or [])]
    assert ["cache_control" in place for place in places] == [marked] * len(places)
