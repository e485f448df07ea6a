import asyncio
import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pydantic_ai
import pytest
from pydantic import BaseModel
from pydantic_ai import ModelRetry
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.models.test import TestModel as ScriptedModel
from pydantic_ai.usage import RunUsage

from forewarp.core.errors import ModelError
from forewarp.surrogate.models import Answer, LanguageModel, resolve


class Reply(BaseModel):
    n: int


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "ANTHROPIC_BASE_URL", "OPENAI_BASE_URL", "FOREWARP_PRICES"):
        monkeypatch.delenv(name, raising=False)


class Server:
    """A Chat Completions server on this machine that gives scripted replies and remembers what it was sent."""

    def __init__(self) -> None:
        self.seen: list[dict[str, Any]] = []
        self.status = 200
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                outer.seen.append({"path": self.path, **body})
                data = json.dumps(outer.reply(body) if outer.status == 200 else {"error": {"message": "no"}}).encode()
                self.send_response(outer.status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(data)))
                self.send_header("x-should-retry", "false")
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1"
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01})
        self.thread.start()

    def reply(self, body: dict[str, Any]) -> dict[str, Any]:
        call = {"name": body["tools"][0]["function"]["name"], "arguments": '{"n": 7}'}
        message = {"role": "assistant", "tool_calls": [{"id": "1", "type": "function", "function": call}]}
        return {
            "id": "1",
            "object": "chat.completion",
            "created": 1,
            "model": body["model"],
            "choices": [{"index": 0, "finish_reason": "tool_calls", "message": message}],
            "usage": {"prompt_tokens": 40, "completion_tokens": 2, "total_tokens": 42},
        }


@pytest.fixture
def server() -> Iterator[Server]:
    running = Server()
    yield running
    running.server.shutdown()
    running.thread.join()
    running.server.server_close()


@pytest.mark.parametrize("text", ["sonnet", "google:gemini", "anthropic:", ":x", ""])
def test_unknown_models_say_what_may_be_written(text: str):
    with pytest.raises(ModelError) as e:
        resolve(text)
    assert "anthropic:NAME" in e.value.hint


@pytest.mark.parametrize(("text", "variable"), [("anthropic:x", "ANTHROPIC_API_KEY"), ("openai:x", "OPENAI_API_KEY")])
def test_missing_key_names_the_variable(text: str, variable: str):
    with pytest.raises(ModelError, match=variable) as e:
        resolve(text)
    assert variable in e.value.hint
    assert not e.value.retryable


def test_a_base_url_must_be_one():
    with pytest.raises(ModelError, match="no base URL"):
        resolve("openai:x", "localhost")


def test_keys_choose_the_provider(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    assert type(resolve("anthropic:claude-sonnet-5-5").model).__name__ == "AnthropicModel"
    assert type(resolve("openai:gpt-6.1-sol").model).__name__ == "OpenAIResponsesModel"
    assert type(resolve("openai:qwen", "http://example.com/v1").model).__name__ == "OpenAIChatModel"


@pytest.mark.parametrize(
    ("url", "label", "local"),
    [
        ("http://localhost:11434/v1", "openai:qwen@localhost", True),
        ("http://127.0.0.1:8000/v1", "openai:qwen@127.0.0.1", True),
        ("http://[::1]:8000/v1", "openai:qwen@::1", True),
        ("https://openrouter.ai/api/v1", "openai:qwen@openrouter.ai", False),
    ],
)
def test_base_url_needs_no_key_and_is_local_or_not(url: str, label: str, local: bool):
    found = resolve("openai:qwen", url)
    assert (found.label, found.local) == (label, local)


def test_wraps_what_is_built_already():
    scripted = ScriptedModel()
    assert resolve(scripted).model is scripted
    wrapped = LanguageModel(scripted, "mine")
    assert resolve(wrapped) is wrapped


def test_what_a_provider_caches_never_costs_less_than_it_bills():
    asked = LanguageModel(ScriptedModel(), "anthropic:claude-sonnet-5-5")
    plain = asked.cost(0.0, RunUsage(input_tokens=1000, output_tokens=10)).dollars
    written = asked.cost(0.0, RunUsage(input_tokens=1000, cache_write_tokens=1000, output_tokens=10)).dollars
    read = asked.cost(0.0, RunUsage(input_tokens=1000, cache_read_tokens=1000, output_tokens=10)).dollars
    # $2 and $10 per million; what is written to the cache is billed at a quarter more.
    assert (plain, written, read) == pytest.approx((0.0021, 0.0026, 0.0021))


def test_speaks_chat_completions_again_and_again(server: Server):
    model = resolve("openai:qwen", server.url)
    for _ in range(3):
        (answer,) = model.ask("be brief", ["hello"], Reply)
        assert isinstance(answer, Answer)
        assert answer.value == Reply(n=7)
        assert (answer.cost.input_tokens, answer.cost.output_tokens, answer.cost.dollars) == (40, 2, 0.0)
    assert [s["path"] for s in server.seen] == ["/v1/chat/completions"] * 3
    assert [m["role"] for m in server.seen[0]["messages"]] == ["system", "user"]


async def test_works_inside_a_running_loop(server: Server):
    (answer,) = resolve("openai:qwen", server.url).ask("s", ["p"], Reply)
    assert isinstance(answer, Answer)
    assert answer.value == Reply(n=7)


@pytest.mark.parametrize(
    ("status", "retryable", "hint"), [(429, True, "later"), (503, True, "later"), (401, False, "key")]
)
def test_refusals_are_model_errors(server: Server, status: int, retryable: bool, hint: str):
    server.status = status
    (error,) = resolve("openai:qwen", server.url).ask("s", ["p"], Reply)
    assert isinstance(error, ModelError)
    assert error.retryable is retryable
    assert hint in error.hint


def test_a_server_that_is_not_there_is_told_once():
    (error,) = resolve("openai:x", "http://127.0.0.1:1/v1").ask("s", ["p"], Reply)
    assert isinstance(error, ModelError)
    assert error.message.count("Connection error") == 1
    assert error.retryable


def test_answers_stay_in_order_beside_errors_and_malformed_replies():
    def reply(messages: Any, info: Any) -> ModelResponse:
        text = messages[0].parts[0].content
        if text == "refused":
            raise ModelHTTPError(429, "m")
        if text == "prose":
            return ModelResponse(parts=[TextPart("I would rather not")])
        return ModelResponse(parts=[ToolCallPart(info.output_tools[0].name, {"n": int(text)})])

    answers = resolve(FunctionModel(reply)).ask("s", ["1", "refused", "prose", "4"], Reply)
    assert isinstance(answers[1], ModelError)
    assert answers[1].retryable
    values = [a.value for a in answers if isinstance(a, Answer)]
    assert values == [Reply(n=1), None, Reply(n=4)]
    assert isinstance(answers[2], Answer)
    assert answers[2].problem
    assert answers[2].cost.output_tokens > 0


def test_concurrency_is_bounded():
    running = most = 0
    together = asyncio.Barrier(3)

    async def reply(messages: Any, info: Any) -> ModelResponse:
        nonlocal running, most
        running += 1
        most = max(most, running)
        async with asyncio.timeout(60):
            await together.wait()
        await asyncio.sleep(0.01)  # a fourth one would have the time to begin
        running -= 1
        return ModelResponse(parts=[ToolCallPart(info.output_tools[0].name, {"n": 1})])

    resolve(FunctionModel(reply)).ask("s", [str(i) for i in range(9)], Reply, concurrency=3)
    assert most == 3


def test_a_check_sends_its_text_back():
    told: list[str] = []

    def reply(messages: Any, info: Any) -> ModelResponse:
        told.append(str(messages[-1].parts[-1].content))
        return ModelResponse(parts=[ToolCallPart(info.output_tools[0].name, {"n": len(told)})])

    def check(value: Reply, _: int) -> Reply:
        if value.n < 2:
            raise ModelRetry("more, please")
        return value

    (answer,) = resolve(FunctionModel(reply)).ask("s", ["p"], Reply, check=check, retries=2)
    assert isinstance(answer, Answer)
    assert answer.value == Reply(n=2)
    assert "more, please" in told[1]


def test_the_terminal_shows_no_banner_of_the_library(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(pydantic_ai, "BANNER_ENABLED", True)
    resolve("openai:x", "http://127.0.0.1:1/v1")
    assert not pydantic_ai.BANNER_ENABLED


def test_a_slow_provider_is_a_retryable_error():
    async def reply(messages: Any, info: Any) -> ModelResponse:
        await asyncio.sleep(60)
        raise AssertionError

    (error,) = replace(resolve(FunctionModel(reply)), timeout_s=0.05).ask("s", ["p"], Reply)
    assert isinstance(error, ModelError)
    assert error.retryable
