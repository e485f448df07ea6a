from __future__ import annotations

import asyncio

from support.scripted_conversation import forecast, long_past, measured

from forewarp.agent.events import (
    Answered,
    ConversationEvent,
    Failed,
    Interrupted,
    Noted,
    SettingChanged,
    Spent,
    TextDelta,
    ToolReturned,
    UserSaid,
)
from forewarp.agent.replay import Replay, turns

INSTANT = float("inf")


async def test_turns_come_in_order_whatever_is_said() -> None:
    replay = Replay(long_past(2, 4), speed=INSTANT)
    assert len(replay.prompts) == 2
    first = [e async for e in replay.say("anything")]
    assert isinstance(first[0], UserSaid)
    assert first[0].text == "Question 0: make softmax faster still."
    assert isinstance(first[-1], Answered)
    assert "".join(e.text for e in first if isinstance(e, TextDelta)).startswith("Answer 0")
    assert len(replay.candidates) == 2
    assert len(replay.prompts) == 1
    second = [e async for e in replay.say("")]
    assert len(replay.candidates) == 4
    assert [e for e in second if isinstance(e, Spent)] == [replay.spent]
    ended = [e async for e in replay.say("more")]
    assert [type(e) for e in ended] == [UserSaid, Noted, Answered]
    assert not replay.busy


async def test_text_comes_in_words() -> None:
    replay = Replay([UserSaid("go"), TextDelta("three short words"), Answered("")], speed=0.2)
    told = [e.text async for e in replay.say("") if isinstance(e, TextDelta)]
    assert told == ["three ", "short ", "words"]
    at_once = Replay([UserSaid("go"), TextDelta("three short words"), Answered("")], speed=INSTANT)
    assert [e.text async for e in at_once.say("") if isinstance(e, TextDelta)] == ["three short words"]


async def test_an_interrupt_ends_the_turn_that_is_played() -> None:
    replay = Replay([UserSaid("go"), ToolReturned("c", "t", "", {}, 3600.0), Answered("")], speed=0.01)
    seen: list[ConversationEvent] = []

    async def watch() -> None:
        async for event in replay.say(""):
            seen.append(event)

    task = asyncio.create_task(watch())
    while not seen:
        await asyncio.sleep(0)
    replay.interrupt()
    await asyncio.wait_for(task, 60)
    assert seen == [UserSaid("go"), Interrupted("the replay, and the rest of this turn is left out")]
    assert not replay.goes_on(seen[-1])


async def test_a_recording_that_was_cut_off_ends_as_interrupted() -> None:
    replay = Replay([UserSaid("go"), forecast("aaaaaaaa"), measured("aaaaaaaa")], speed=INSTANT)
    assert isinstance([e async for e in replay.say("")][-1], Interrupted)


def test_steering_belongs_to_its_turn_and_settings_are_not_replayed() -> None:
    events: list[ConversationEvent] = [
        UserSaid("one"),
        UserSaid("and", steering=True),
        SettingChanged("model", "x"),
        Answered(""),
        UserSaid("two"),
        Answered(""),
    ]
    assert [len(t) for t in turns(events)] == [3, 2]


def test_nothing_can_be_steered() -> None:
    assert not Replay([]).steer("x")


async def test_a_recorded_failure_does_not_end_a_replay() -> None:
    replay = Replay([UserSaid("a"), Failed("model", "no"), UserSaid("b"), Answered("")], speed=INSTANT)
    last = [e async for e in replay.say("")][-1]
    assert isinstance(last, Failed)
    assert replay.goes_on(last)
