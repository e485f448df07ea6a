"""Weak models and bad networks: no crash, no hang, and every turn ends with a sentence."""

from __future__ import annotations

import asyncio
import json
import random
import string
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.faulty_provider import GARBAGE, Provider, Reply, serving
from support.scripted_model import scripted

from forewarp.agent import model_turn
from forewarp.agent.conversation import Conversation
from forewarp.agent.events import (
    Answered,
    ConversationEvent,
    Failed,
    Interrupted,
    Retrying,
    TextDelta,
    ThoughtDelta,
    ToolReturned,
)
from forewarp.agent.settings import Settings
from forewarp.tools.parts import Amounts, Place

GOOD = Reply("All is well.")
APIS = ("openai", "anthropic")
ANSWERS = 500
LIMIT_S = 30.0
"""Seconds within which every turn here ends, far more than it takes."""


@pytest.fixture(params=APIS)
def talk_to(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[Callable[..., Conversation]]:
    """A function that opens a conversation with a provider, by each of the two interfaces."""
    monkeypatch.setattr(model_turn, "FIRST_WAIT_S", 0.01)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "none")
    opened: list[Conversation] = []

    def opening(provider: Provider, **values: Any) -> Conversation:
        name = "openai:weak" if request.param == "openai" else "anthropic:weak"
        url = f"{provider.url}/v1" if request.param == "openai" else provider.url
        settings = Settings(Place(device="cpu", archive=str(tmp_path / "a.db")), tmp_path, name, url, approval="never")
        for field, value in values.items():
            object.__setattr__(settings, field, value)
        opened.append(Conversation(settings))
        return opened[-1]

    yield opening
    for talk in opened:
        talk.close()


async def turn(talk: Conversation, text: str = "Go on.") -> list[ConversationEvent]:
    async with asyncio.timeout(LIMIT_S):
        return [event async for event in talk.say(text)]


def retries(events: list[ConversationEvent]) -> list[str]:
    return [e.reason for e in events if isinstance(e, Retrying)]


def failed(events: list[ConversationEvent]) -> Failed:
    assert isinstance(events[-1], Failed)
    return events[-1]


@pytest.mark.slow  # loads the providers' libraries
@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (Reply(status=429, message="slow down", code="rate_limit_error"), "too many requests"),
        (Reply(status=500, message="oops"), "has trouble"),
        (Reply(status=529, message="overloaded", code="overloaded_error"), "has trouble"),
        (Reply(breaks="before"), "cannot be reached"),
        (Reply("This answer breaks off in the middle", breaks="middle"), ""),
        (Reply("This answer ends without a word of its end", finish=""), "broke off"),
        (Reply("This answer is far too", finish="length"), "output limit"),
        (Reply(calls=[("write_file", '{"path": "a.cpp", "text": "int ma')], finish="length"), "output limit"),
        (Reply(), "empty answer"),
        (Reply(thinking="Hm."), "empty answer"),
        (Reply('<tool_call>{"name": "list_files"}</tool_call>'), "as text"),
        (Reply('```json\n{"name": "list_files", "arguments": {}}\n```'), "as text"),
    ],
)
async def test_an_answer_that_is_lost_or_is_none_is_asked_for_again(
    talk_to: Callable[..., Conversation], tmp_path: Path, bad: Reply, said: str
) -> None:
    with serving(bad, bad, GOOD) as provider:
        talk = talk_to(provider)
        events = await turn(talk)
        assert isinstance(events[-1], Answered)
        assert events[-1].text == GOOD.text
        assert len(retries(events)) == 2
        assert all(said in reason for reason in retries(events))
        assert len(provider.asked) == 3
        assert not (tmp_path / "a.cpp").exists()
        assert "This answer" not in json.dumps(provider.asked[-1])
        again = await turn(talk, "And now?")
        assert isinstance(again[-1], Answered)
        assert "And now?" in json.dumps(provider.asked[-1])


@pytest.mark.slow  # loads the providers' libraries
@pytest.mark.parametrize(
    ("bad", "said", "advice", "requests"),
    [
        (Reply(status=401, message="invalid key"), "refused the key (HTTP 401): invalid key", "_API_KEY", 1),
        (Reply(status=403, message="not yours"), "refused access (HTTP 403): not yours", "_API_KEY", 1),
        (Reply(status=404, message="no such model"), "was not found (HTTP 404)", "/v1", 1),
        (Reply(status=400, message="tools are not supported"), "tools are not supported", "another model", 1),
        (Reply(status=402, message="pay first"), "no credit", "add credit", 1),
        (Reply(status=429, message="tomorrow", headers={"retry-after": "86400"}), "tomorrow", "in 24 h", 1),
        (Reply("I will not.", finish="content_filter"), "content filter", "other words", 1),
        (Reply(status=503, message="down"), "down, 3 times in a row", "later", 3),
        (Reply(), "empty answer, 3 times in a row", "other words", 3),
    ],
)
async def test_what_ends_a_turn_is_said_in_one_sentence_with_advice(
    talk_to: Callable[..., Conversation],
    monkeypatch: pytest.MonkeyPatch,
    bad: Reply,
    said: str,
    advice: str,
    requests: int,
) -> None:
    monkeypatch.setattr(model_turn, "LOST_TRIES", 2)
    monkeypatch.setattr(model_turn, "NO_ANSWER_TRIES", 2)
    with serving(bad) as provider:
        talk = talk_to(provider)
        end = failed(await turn(talk))
        assert said in end.message
        assert advice in end.hint
        assert "{" not in end.message
        assert len(provider.asked) == requests
        provider.script[:] = [GOOD]
        assert isinstance((await turn(talk))[-1], Answered)


@pytest.mark.slow  # loads the providers' libraries
async def test_garbage_in_a_stream_is_left_out_or_the_answer_asked_for_again(
    talk_to: Callable[..., Conversation],
) -> None:
    with serving(Reply("Whole but for noise.", breaks="garbage"), GOOD) as provider:
        events = await turn(talk_to(provider))
    assert isinstance(events[-1], Answered)
    assert events[-1].text == (GOOD.text if retries(events) else "Whole but for noise.")
    assert all("broke off" in reason for reason in retries(events))


@pytest.mark.slow  # waits for the limit
@pytest.mark.parametrize("pings", [False, True])
async def test_a_silent_stream_is_given_up_in_time(
    talk_to: Callable[..., Conversation], monkeypatch: pytest.MonkeyPatch, pings: bool
) -> None:
    monkeypatch.setenv("FOREWARP_MODEL_TIMEOUT_S", "1")
    with serving(Reply("Half of an answer", silent_s=60, pings=pings), GOOD) as provider:
        events = await turn(talk_to(provider))
    assert ["sent nothing for 1 s" in r for r in retries(events)] == [True]
    assert isinstance(events[-1], Answered)


async def test_a_wait_before_the_next_try_can_be_interrupted(
    talk_to: Callable[..., Conversation], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_turn, "FIRST_WAIT_S", 3600.0)
    monkeypatch.setattr(model_turn, "LONGEST_WAIT_S", 3600.0)
    with serving(Reply(status=500, message="oops")) as provider:
        talk = talk_to(provider)
        events: list[ConversationEvent] = []
        async with asyncio.timeout(LIMIT_S):
            async for event in talk.say("Go"):
                events.append(event)
                if isinstance(event, Retrying):
                    assert "in 3600 s (1 of 5)" in event.words
                    talk.interrupt()
        assert isinstance(events[-1], Interrupted)


@pytest.mark.slow  # loads the providers' libraries
async def test_thinking_is_told_apart_from_the_answer(talk_to: Callable[..., Conversation]) -> None:
    with serving(Reply("Use shared memory.", thinking="It is bound by bandwidth.")) as provider:
        events = await turn(talk_to(provider))
    assert "".join(e.text for e in events if isinstance(e, ThoughtDelta)) == "It is bound by bandwidth."
    assert "".join(e.text for e in events if isinstance(e, TextDelta)) == "Use shared memory."


def local(tmp_path: Path, model: Any, **values: Any) -> Conversation:
    place = Place(device="cpu", archive=str(tmp_path / "a.db"))
    return Conversation(Settings(place, tmp_path, model, approval="never", **values))


async def test_malformed_and_unknown_calls_go_back_a_few_times(tmp_path: Path) -> None:
    bad = [("no_such_tool", {}), ("read_file", {"file": 3}), ("read_file", {})]
    talk = local(tmp_path, scripted(*bad, ("list_files", {})))
    events = await turn(talk)
    assert isinstance(events[-1], Answered)
    errors = [str(e.result.get("error", "")) for e in events if isinstance(e, ToolReturned)]
    assert "no_such_tool" in errors[0]
    assert "path" in errors[1]
    assert not errors[3]
    end = failed(await turn(local(tmp_path, scripted(*[(f"tool_{n}", {}) for n in range(50)]))))
    assert f"{model_turn.MALFORMED + 1} malformed calls in a row" in end.message


async def test_a_call_that_is_repeated_is_refused_and_then_ends_the_turn(tmp_path: Path) -> None:
    calls = [("list_files", {}), ("read_file", {"path": "missing"})] * 20
    events = await turn(local(tmp_path, scripted(*calls)))
    assert "repeats the same call" in failed(events).message
    results = [dict(e.result) for e in events if isinstance(e, ToolReturned)]
    assert sum("not done again" in str(r.get("error")) for r in results) >= model_turn.REFUSED_CALLS
    assert len(results) < 12


async def test_a_turn_ends_at_its_caps(tmp_path: Path) -> None:
    calls = [("list_files", {"pattern": f"*{n}"}) for n in range(100)]
    end = failed(await turn(local(tmp_path, scripted(*calls), steps=7)))
    assert "its 7 steps" in end.message
    assert "/budget steps" in end.hint
    end = failed(await turn(local(tmp_path, scripted(*calls), turn_tokens=2000)))
    assert "tokens of its 2,000" in end.message


def test_dollars_of_a_model_without_a_price_cannot_be_capped(tmp_path: Path) -> None:
    talk = local(tmp_path, scripted(), budget=Amounts(dollars=1.0))
    assert "price" in failed(asyncio.run(turn(talk))).message


def malformed(random_: random.Random) -> Reply:
    """An answer that a weak model might give."""
    names = [
        "read_file",
        "write_file",
        "list_files",
        "forecast_kernel",
        "measure_kernel",
        "search",
        "python",
        "",
        "a.b",
    ]

    def arguments() -> str:
        good = json.dumps(
            {
                random_.choice(
                    ["path", "task", "text", "source", "x", "pattern", "tunables", "budget"]
                ): random_.choice(
                    [None, 1, -5, 1e308, "softmax", "../..", "\0", "x" * 300, [], {"a": {}}, True, "*" * 50]
                )
                for _ in range(random_.randrange(4))
            }
        )
        cut = good[: random_.randrange(len(good) + 1)]
        deep = f'{{"path": {"[" * 3000}{"]" * 3000}}}'
        noise = "".join(random_.choices(string.printable + "é\u2028\ud7ff\ud800", k=random_.randrange(30)))
        return random_.choice([good, good, cut, noise, deep, f"{good}{good}", f"[{good}]", "null", "", '"text"', "1"])

    calls = [(random_.choice(names), arguments()) for _ in range(random_.choice([0, 0, 1, 1, 2, 5]))]
    text = random_.choice(
        ["", "", " \n", "Fine.", "<tool_call>", "\x1b[2J", "```" * 9, "x" * 5000, "[bold]{}[/]", "half \ud800"]
    )
    return Reply(
        text,
        calls,
        finish=random_.choice([None, None, None, "", "stop", "length", "content_filter", "tool_calls"]),
        status=random_.choice([200] * 12 + [400, 429, 500]),
        message=random_.choice(["", "no", "maximum context length is 32768 tokens"]),
        breaks=random_.choice([""] * 12 + ["before", "middle", *GARBAGE]),
        thinking=random_.choice(["", "", "Hm."]),
    )


@pytest.mark.slow  # five hundred answers
async def test_five_hundred_malformed_answers_end_with_a_sentence_each(
    talk_to: Callable[..., Conversation], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_turn, "FIRST_WAIT_S", 0.0)
    with serving(GOOD) as provider:
        talk = talk_to(provider, budget=Amounts(measurements=0))
        seeds = random.Random(23)
        sent = 0
        while sent < ANSWERS:
            provider.asked.clear()
            provider.script[:] = [malformed(seeds) for _ in range(10)]
            events = await turn(talk)
            sent += len(provider.asked)
            match events[-1]:
                case Answered(text=text):
                    assert text.strip()
                case Failed(code=code, message=message):
                    assert code != "internal", message
                    assert message.strip()
                case other:
                    raise AssertionError(other)


@pytest.mark.slow  # loads the providers' libraries
async def test_half_a_surrogate_pair_makes_no_later_request_fail(talk_to: Callable[..., Conversation]) -> None:
    with serving(Reply("half \ud800", [("read_file", '{"path": "\ud800.py"}')]), GOOD) as provider:
        talk = talk_to(provider)
        assert isinstance((await turn(talk))[-1], Answered)
        assert isinstance((await turn(talk, "And now?"))[-1], Answered)
        assert "half ?" in json.dumps(provider.asked[-1])
