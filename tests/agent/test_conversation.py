from __future__ import annotations

import asyncio
import contextlib
import json
import os
import threading
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import ModelMessage
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, DeltaToolCalls, FunctionModel
from support import autotuned_file, small_tasks
from support.recorded_pool import Recorded, record
from support.scripted_model import Call, endless, returns, scripted

from forewarp.agent import model_turn
from forewarp.agent.commands import run_shell
from forewarp.agent.conversation import Conversation
from forewarp.agent.events import (
    Answered,
    ApprovalAsked,
    ApprovalGiven,
    ApprovalReply,
    ConversationEvent,
    Failed,
    Interrupted,
    Noted,
    Progressed,
    Spent,
    TextDelta,
    ToolCalled,
    ToolReturned,
    UserSaid,
)
from forewarp.agent.settings import Settings
from forewarp.agent.transcript import SHARED_FROM, Transcript, conversations, latest, read
from forewarp.core import processes
from forewarp.tools import considered
from forewarp.tools.parts import Amounts, Place
from forewarp.tools.steps import CandidateForecast, CandidateMeasured


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    return record(tmp_path_factory.mktemp("pool"))


@pytest.fixture
def settings(recorded: Recorded, tmp_path: Path) -> Callable[..., Settings]:
    def made(model: Any = None, **values: Any) -> Settings:
        place = Place(device="replay", pool=recorded.pool, archive=str(tmp_path / "archive.db"))
        chosen: dict[str, Any] = {"folder": Path(recorded.seed).parent, "approval": "never"}
        return Settings(place=place, model=model, **chosen | values)

    return made


async def turn(
    talk: Conversation, text: str = "Make toy faster.", replies: dict[str, ApprovalReply] | None = None
) -> list[ConversationEvent]:
    seen: list[ConversationEvent] = []
    async for event in talk.say(text):
        seen.append(event)
        if isinstance(event, ApprovalAsked):
            talk.answer(event.call, (replies or {}).get(event.tool, "no"), "because")
    return seen


def of(kind: type[Any], events: list[ConversationEvent]) -> list[Any]:
    return [e for e in events if isinstance(e, kind)]


def results(events: list[ConversationEvent]) -> list[dict[str, Any]]:
    return [dict(e.result) for e in of(ToolReturned, events)]


def lives(pid: int) -> bool:
    """Whether a process runs; one that ended and that nobody asked about has state Z."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def test_a_turn_streams_text_calls_results_and_candidates(
    recorded: Recorded, settings: Callable[..., Settings]
) -> None:
    forecast: Call = ("forecast_kernel", {"task": recorded.task, "path": "toy.cpp"})
    measure: Call = ("measure_kernel", {"task": recorded.task, "path": "toy.cpp"})
    talk = Conversation(settings(scripted(forecast, measure, answer=lambda _: "It is fast.")))
    events = await turn(talk)
    assert isinstance(events[0], UserSaid)
    assert isinstance(events[-1], Answered)
    kinds = [
        type(e) for e in events if isinstance(e, ToolCalled | ToolReturned | CandidateForecast | CandidateMeasured)
    ]
    first = [ToolCalled, CandidateForecast, ToolReturned]
    assert kinds == [*first, ToolCalled, CandidateForecast, CandidateMeasured, ToolReturned]
    assert [e.call for e in of(ToolCalled, events)] == [e.call for e in of(ToolReturned, events)]
    assert results(events)[1]["source"] == "replay"
    assert "".join(e.text for e in of(TextDelta, events)) == events[-1].text
    assert events[-1].text.strip() == "It is fast."
    assert talk.spent.measurements == 1
    assert talk.spent.output_tokens == events[-1].output_tokens > 0
    [row] = talk.candidates
    assert row.is_valid
    assert row.measured is not None
    assert row.measured.surprise is not None
    assert not talk.busy


async def test_what_was_measured_is_held_back_until_someone_insists(
    recorded: Recorded, settings: Callable[..., Settings]
) -> None:
    measure = {"task": recorded.task, "path": "toy.cpp"}
    calls: list[Call] = [("measure_kernel", measure), ("measure_kernel", measure)]
    calls.append(("measure_kernel", measure | {"insist": "to see how much it varies"}))
    talk = Conversation(settings(scripted(*calls)))
    first, held, insisted = results(await turn(talk))
    assert first["decision"] == "measured"
    assert held["decision"] == "held back"
    assert "measured already" in held["summary"]
    assert insisted["decision"] == "measured"
    assert talk.spent.measurements == 2


@pytest.mark.parametrize(
    ("approval", "budget", "reply", "measured", "asked"),
    [
        ("each", 5, "yes", True, 1),
        ("each", 5, "no", False, 1),
        ("budget", 5, "no", True, 0),
        ("budget", 0, "no", False, 1),
        ("budget", 0, "yes", True, 1),
        ("never", 5, "no", True, 0),
        ("never", 0, "yes", False, 0),
    ],
)
async def test_the_users_word(
    recorded: Recorded,
    settings: Callable[..., Settings],
    approval: str,
    budget: int,
    reply: ApprovalReply,
    measured: bool,
    asked: int,
) -> None:
    call: Call = ("measure_kernel", {"task": recorded.task, "path": "toy.cpp"})
    talk = Conversation(settings(scripted(call), approval=approval, budget=Amounts(measurements=budget)))
    events = await turn(talk, replies={"measure_kernel": reply})
    assert len(of(ApprovalAsked, events)) == asked
    assert len(of(ApprovalGiven, events)) == asked
    assert results(events)[0]["decision"] == ("measured" if measured else "refused")
    assert talk.spent.measurements == measured
    assert all(e.command == "measure toy.cpp for " + recorded.task for e in of(ApprovalAsked, events))
    if asked and reply == "no":
        assert "because" in results(events)[0]["summary"]


async def test_always_asks_no_more_within_the_budget(recorded: Recorded, settings: Callable[..., Settings]) -> None:
    call: Call = ("measure_kernel", {"task": recorded.task, "path": "toy.cpp", "insist": "again"})
    talk = Conversation(settings(scripted(call, call), approval="each", budget=Amounts(measurements=5)))
    events = await turn(talk, replies={"measure_kernel": "always"})
    assert len(of(ApprovalAsked, events)) == 1
    assert talk.spent.measurements == 2
    assert talk.settings.approval == "budget"


async def test_a_search_fills_the_board_and_is_booked(recorded: Recorded, settings: Callable[..., Settings]) -> None:
    talk = Conversation(settings(scripted(("search", {"task": recorded.task, "budget": 5}))))
    events = await turn(talk)
    [found] = results(events)
    assert found["status"] == "finished"
    assert talk.spent.measurements == 5
    assert found["budget"] == "5 of 24 measurements spent"
    assert len(of(CandidateMeasured, events)) == len(talk.candidates.measured()) >= 4
    assert all(r.forecast.origin == found["run_id"] for r in talk.candidates)
    best = talk.candidates.best()
    assert best is not None
    assert best.forecast.kernel[:10] == found["best"]["kernel"]


@pytest.mark.slow
async def test_a_search_of_an_autotuned_file_chooses_its_configurations(settings: Callable[..., Settings]) -> None:
    talk = Conversation(settings(scripted(("search", {"task": "scale.py", "budget": 5}))))
    (talk.settings.folder / "scale.py").write_text(autotuned_file.SOURCE)
    [found] = results(await turn(talk))
    assert [c["kernel"] for c in found["tuned"]] == ["scale"]
    assert "num_warps" in found["patch"]
    assert talk.spent.measurements == 0


async def test_an_interrupt_ends_the_tuning_of_a_file(settings: Callable[..., Settings]) -> None:
    talk = Conversation(settings(scripted(("search", {"task": "endless.py", "budget": 5}))))
    (talk.settings.folder / "endless.py").write_text(autotuned_file.ENDLESS)
    events: list[ConversationEvent] = []
    async for event in talk.say("Tune it."):
        events.append(event)
        if isinstance(event, Progressed):
            while not endless_calls():
                await asyncio.sleep(0.1)
            talk.interrupt()
    assert isinstance(events[-1], Interrupted)
    for _ in range(100):
        if not endless_calls():
            return
        await asyncio.sleep(0.1)
    raise AssertionError("the file's code still runs")


def endless_calls() -> list[int]:
    """Return the processes below this one in which the call of `autotuned_file.ENDLESS` runs."""
    calls = list[int]()
    for pid in processes.below(os.getpid()):
        with contextlib.suppress(OSError):
            if any(n.read_text() == "endless call\n" for n in Path(f"/proc/{pid}/task").glob("*/comm")):
                calls.append(pid)
    return calls


async def test_what_a_search_measured_is_booked_as_it_comes(
    recorded: Recorded, settings: Callable[..., Settings]
) -> None:
    one = settings()
    talk = Conversation(one, transcript=Transcript.begin(one.place, one.folder))
    async for event in talk.say("/search toy.py 5"):
        if isinstance(event, Progressed) and "1 of 5 measured" in event.text:
            talk.interrupt()
    talk.close()
    again = Conversation(one, past=read(Path(conversations(one.place)[0].path)))
    assert again.spent.measurements >= 1
    assert again.candidates.measured()


async def test_a_stream_is_interrupted_at_once_and_its_text_is_remembered(settings: Callable[..., Settings]) -> None:
    said = asyncio.Event()
    talk = Conversation(settings(endless(said)))
    events: list[ConversationEvent] = []
    async for event in talk.say("Hello"):
        events.append(event)
        if isinstance(event, TextDelta):
            talk.interrupt()
    assert isinstance(events[-1], Interrupted)
    assert talk.message_count == 2
    again = Conversation(settings(scripted(answer=lambda m: str(m[1].parts[0]))))
    again._history = talk._history  # pyright: ignore[reportPrivateUsage]
    assert "I think that" in "".join(e.text for e in of(TextDelta, await turn(again)))


async def test_a_tool_is_interrupted_and_the_conversation_goes_on(
    recorded: Recorded, settings: Callable[..., Settings]
) -> None:
    call: Call = ("measure_kernel", {"task": recorded.task, "path": "toy.cpp"})
    talk = Conversation(settings(scripted(call), approval="each"))
    events: list[ConversationEvent] = []
    async for event in talk.say("Go"):
        events.append(event)
        if isinstance(event, ApprovalAsked):
            talk.interrupt()
    assert isinstance(events[-1], Interrupted)
    assert events[-1].during == "measure_kernel"
    assert talk.spent.measurements == 0
    talk.settings = settings(scripted(answer=lambda m: f"{len(returns(m))} returns"))
    after = await turn(talk, "And now?")
    assert isinstance(after[-1], Answered)


async def test_an_interrupted_measurement_counts_as_none_but_its_seconds_do(
    settings: Callable[..., Settings], tmp_path: Path
) -> None:
    place = Place(device="cpu", archive=str(tmp_path / "b.db"))
    (tmp_path / "problem.py").write_text(small_tasks.REFERENCE)
    (tmp_path / "mine.cpp").write_text(small_tasks.cpp().source)
    talk = Conversation(replace(settings(folder=tmp_path), place=place))
    events: list[ConversationEvent] = []
    async for event in talk.say("/measure problem.py mine.cpp"):
        events.append(event)
        if isinstance(event, Progressed) and event.text == "measuring":
            await asyncio.sleep(0.05)
            talk.interrupt()
    talk.close()
    assert isinstance(events[-1], Interrupted)
    assert talk.spent.measurements == 0
    assert talk.spent.device_s >= 0.05


async def test_an_interrupt_ends_a_device_that_is_just_being_opened(
    recorded: Recorded, settings: Callable[..., Settings], tmp_path: Path
) -> None:
    python, told = tmp_path / "python", tmp_path / "pid"
    python.write_text(f"#!/bin/sh\necho $$ > {told}.new; mv {told}.new {told}; exec sleep 600\n")
    python.chmod(0o755)
    place = Place(device="cpu", python=str(python), archive=str(tmp_path / "b.db"))
    talk = Conversation(replace(settings(folder=Path(recorded.seed).parent), place=place))
    events: list[ConversationEvent] = []
    async for event in talk.say("/forecast toy.py toy.cpp"):
        events.append(event)
        if isinstance(event, Progressed):
            while not told.exists():
                await asyncio.sleep(0.01)
            talk.interrupt()
    assert isinstance(events[-1], Interrupted)
    while lives(int(told.read_text())):
        await asyncio.sleep(0.01)


async def test_an_interrupted_forecast_leaves_no_question_that_nobody_answers(
    recorded: Recorded, settings: Callable[..., Settings], monkeypatch: pytest.MonkeyPatch
) -> None:
    loop, over, ended = asyncio.get_running_loop(), threading.Event(), threading.Event()

    def late(request: Any, *, allow: Callable[[Any], str], **given: Any) -> None:
        """A forecast that comes to its end after the turn has, which ends once this thread is at work."""
        loop.call_soon_threadsafe(talk.interrupt)
        over.wait()
        try:
            allow(SimpleNamespace(reason="it is new"))
        finally:
            ended.set()

    monkeypatch.setattr(considered, "consider", late)
    talk = Conversation(settings(approval="each"))
    events = await turn(talk, "/measure toy.py toy.cpp")
    assert isinstance(events[-1], Interrupted)
    over.set()
    while not ended.is_set():
        await asyncio.sleep(0.01)


async def test_steering_reaches_the_model_before_its_next_step(
    recorded: Recorded, settings: Callable[..., Settings]
) -> None:
    def answer(messages: list[ModelMessage]) -> str:
        whole = str(messages)
        return "I saw it." if "use fp16" in whole and "#error" in whole else "I saw nothing."

    talk = Conversation(settings(scripted(("read_file", {"path": "toy.cpp"}), answer=answer)))
    events: list[ConversationEvent] = []
    async for event in talk.say("Go"):
        events.append(event)
        if isinstance(event, ToolCalled):
            assert talk.steer("use fp16 as in @broken.cpp")
            assert not talk.steer("and @missing.cpp")
    assert [e.text for e in of(UserSaid, events) if e.steering] == ["use fp16 as in @broken.cpp"]
    assert isinstance(events[-1], Answered)
    assert "I saw it." in events[-1].text
    assert not talk.steer("too late")


async def test_tokens_end_a_turn_and_the_next(recorded: Recorded, settings: Callable[..., Settings]) -> None:
    call: Call = ("read_file", {"path": "toy.cpp"})
    talk = Conversation(settings(scripted(call, call, call), budget=Amounts(tokens=60)))
    for _ in range(2):
        last = (await turn(talk))[-1]
        assert isinstance(last, Failed)
        assert "60 tokens" in last.message
    assert talk.spent.input_tokens > 60
    assert talk.message_count > 1


async def test_an_error_of_a_tool_is_told_to_the_model(settings: Callable[..., Settings]) -> None:
    talk = Conversation(settings(scripted(("measure_kernel", {"task": "softmux", "path": "toy.cpp"}))))
    [result] = results(await turn(talk))
    assert "softmux" in result["error"]
    assert "it holds" in result["hint"]


@pytest.mark.parametrize("path", ["../secret.txt", "/etc/passwd", "link"])
async def test_files_outside_of_the_folder_stay_closed(
    settings: Callable[..., Settings], tmp_path: Path, path: str
) -> None:
    (tmp_path / "secret.txt").write_text("hidden")
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "notes.txt").write_text("tile the loop")
    (folder / "link").symlink_to(tmp_path / "secret.txt")
    calls: list[Call] = [("read_file", {"path": path}), ("write_file", {"path": path, "text": "x"})]
    calls += [("measure_kernel", {"task": "softmax", "path": path}), ("read_file", {"path": "notes.txt"})]
    talk = Conversation(settings(scripted(*calls), folder=folder))
    *refused, read_back = results(await turn(talk))
    for result in refused:
        assert "outside of the working folder" in result["error"]
    assert read_back["text"] == "tile the loop"
    assert (tmp_path / "secret.txt").read_text() == "hidden"


async def test_only_its_own_files_are_written_without_a_word(settings: Callable[..., Settings], tmp_path: Path) -> None:
    (tmp_path / "mine.cu").write_text("old\n")
    calls: list[Call] = [("write_file", {"path": name, "text": "new\n"}) for name in ("mine.cu", "own.cu", "own.cu")]
    talk = Conversation(settings(scripted(*calls), folder=tmp_path))
    events = await turn(talk)
    [asked] = of(ApprovalAsked, events)
    assert "-old" in asked.text
    assert "+new" in asked.text
    assert "the user said no" in results(events)[0]["error"]
    assert (tmp_path / "mine.cu").read_text() == "old\n"
    assert (tmp_path / "own.cu").read_text() == "new\n"


async def test_a_file_of_an_earlier_turn_stays_its_own(settings: Callable[..., Settings], tmp_path: Path) -> None:
    one = settings(scripted(("write_file", {"path": "own.cu", "text": "new\n"})), folder=tmp_path)
    talk = Conversation(one, transcript=Transcript.begin(one.place, one.folder))
    await turn(talk)
    talk.close()
    past = read(Path(conversations(one.place)[0].path))
    for again in (talk, Conversation(one, past=past)):
        assert not of(ApprovalAsked, await turn(again))
    talk.close()


async def test_lines_for_the_shell_need_leave(settings: Callable[..., Settings], tmp_path: Path) -> None:
    refused = (await turn(Conversation(settings(folder=tmp_path)), "!touch made"))[-1]
    assert isinstance(refused, Failed)
    assert "--shell" in refused.hint
    assert not (tmp_path / "made").exists()
    [noted] = of(Noted, await turn(Conversation(settings(folder=tmp_path, shell=True)), "!pwd; exit 3"))
    assert str(tmp_path) in noted.text
    assert "exit status 3" in noted.text


async def test_an_interrupt_ends_all_that_a_line_for_the_shell_started(
    settings: Callable[..., Settings], tmp_path: Path
) -> None:
    talk = Conversation(settings(folder=tmp_path, shell=True))
    pid = tmp_path / "pid"

    async def interrupt() -> None:
        while not pid.exists():
            await asyncio.sleep(0.01)
        talk.interrupt()

    waiting = asyncio.create_task(interrupt())
    last = (await turn(talk, "!sleep 600 & echo $! > new; mv new pid; wait"))[-1]
    await waiting
    assert isinstance(last, Interrupted)
    while lives(int(pid.read_text())):
        await asyncio.sleep(0.01)


async def test_a_line_for_the_shell_is_ended_that_is_just_being_started(
    settings: Callable[..., Settings], tmp_path: Path
) -> None:
    pid = tmp_path / "pid"
    line = asyncio.create_task(
        run_shell("sleep 600 & echo $! > new; mv new pid; wait", settings(folder=tmp_path, shell=True))
    )
    while not pid.exists():
        await asyncio.sleep(0)
        # The shell gets far while this loop does one turn, in which a process that it started is not known yet.
        time.sleep(0.1)
    line.cancel()
    await asyncio.wait([line])
    assert line.cancelled()
    while lives(int(pid.read_text())):
        await asyncio.sleep(0.01)


async def test_without_a_model_it_says_what_works(settings: Callable[..., Settings]) -> None:
    events = await turn(Conversation(settings()))
    failed = events[-1]
    assert isinstance(failed, Failed)
    assert "/demo" in failed.hint


async def test_a_provider_that_refuses_is_an_event(
    settings: Callable[..., Settings], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_turn, "FIRST_WAIT_S", 0.01)

    async def refuse(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str]:
        raise ModelHTTPError(503, "scripted")
        yield ""

    last = (await turn(Conversation(settings(FunctionModel(stream_function=refuse)))))[-1]
    assert isinstance(last, Failed)
    assert "503" in last.message


async def test_a_provider_that_refuses_to_sum_up_is_no_fault_of_ours(settings: Callable[..., Settings]) -> None:
    async def refuse(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str]:
        raise ModelHTTPError(400, "scripted")
        yield ""

    talk = Conversation(settings(scripted()))
    await turn(talk)
    talk.settings = settings(FunctionModel(stream_function=refuse))
    last = (await turn(talk, "/compact"))[-1]
    assert isinstance(last, Failed)
    assert (last.code, talk.message_count) == ("model", 2)


async def test_arguments_that_are_no_json_are_shown_as_they_are(settings: Callable[..., Settings]) -> None:
    async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str | DeltaToolCalls]:
        if len(messages) == 1:
            yield {0: DeltaToolCall(name="read_file", json_args='{"path": toy', tool_call_id="1")}
        else:
            yield "I see."

    events = await turn(Conversation(settings(FunctionModel(stream_function=stream))))
    assert [e.arguments for e in of(ToolCalled, events)] == [{"malformed": '{"path": toy'}]
    assert isinstance(events[-1], Answered)


async def test_another_conversation_brings_its_own_memory_and_spending(settings: Callable[..., Settings]) -> None:
    one = settings(scripted(answer=lambda m: f"{len(m)} messages"))
    silent = Conversation(one, transcript=Transcript.begin(one.place, one.folder))
    await turn(silent, "/approve")
    silent.close()
    talk = Conversation(one, transcript=Transcript.begin(one.place, one.folder))
    await turn(talk)
    assert talk.message_count == 2
    await turn(talk, f"/resume {silent.id}")
    assert (talk.message_count, talk.spent) == (0, Spent())
    last = (await turn(talk, "And now?"))[-1]
    assert isinstance(last, Answered)
    assert last.text.strip() == "1 messages"
    talk.close()


async def test_a_conversation_is_recorded_and_taken_up(
    recorded: Recorded, settings: Callable[..., Settings], tmp_path: Path
) -> None:
    first = settings(scripted(("measure_kernel", {"task": recorded.task, "path": "toy.cpp"})))
    talk = Conversation(first, transcript=Transcript.begin(first.place, first.folder))
    seen = await turn(talk)
    talk.close()
    header = latest(first.folder, first.place)
    assert header is not None
    assert (header.id, header.title) == (talk.id, "Make toy faster.")
    past = read(Path(header.path))
    assert [e for e in past.events if not isinstance(e, TextDelta)] == [e for e in seen if not isinstance(e, TextDelta)]
    assert "".join(e.text for e in of(TextDelta, list(past.events))) == "".join(e.text for e in of(TextDelta, seen))
    second = Conversation(settings(scripted(answer=lambda m: f"{len(m)} messages")), past=past)
    assert second.spent == talk.spent
    assert [r.measured for r in second.candidates] == [r.measured for r in talk.candidates]
    last = (await turn(second, "And now?"))[-1]
    assert isinstance(last, Answered)
    assert last.text.strip() == "5 messages"


async def test_a_turn_that_fails_in_its_middle_is_remembered(
    recorded: Recorded, settings: Callable[..., Settings], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_turn, "FIRST_WAIT_S", 0.01)

    async def fail(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str | DeltaToolCalls]:
        if returns(messages):
            raise ModelHTTPError(503, "scripted")
        yield {0: DeltaToolCall(name="read_file", json_args='{"path": "toy.cpp"}', tool_call_id="1")}

    one = settings(FunctionModel(stream_function=fail))
    talk = Conversation(one, transcript=Transcript.begin(one.place, one.folder))
    assert isinstance((await turn(talk))[-1], Failed)
    talk.close()
    past = read(Path(conversations(one.place)[0].path))
    again = Conversation(settings(scripted(answer=lambda m: f"{len(returns(m))} returns")), past=past)
    last = (await turn(again, "Go on"))[-1]
    assert isinstance(last, Answered)
    assert last.text.strip() == "1 returns"


async def test_a_conversation_that_was_killed_in_a_measurement_goes_on(
    recorded: Recorded, settings: Callable[..., Settings], tmp_path: Path
) -> None:
    one = settings(scripted(("measure_kernel", {"task": recorded.task, "path": "toy.cpp"})), approval="each")
    talk = Conversation(one, transcript=Transcript.begin(one.place, one.folder))
    left = tmp_path / "killed.jsonl"
    async for event in talk.say("Go"):
        if isinstance(event, ApprovalAsked):
            left.write_bytes(Path(conversations(one.place)[0].path).read_bytes())
            talk.interrupt()
    talk.close()
    past = read(left)
    assert past.messages[-1]["parts"][0]["tool_name"] == "measure_kernel"
    again = Conversation(settings(scripted(answer=lambda m: f"{len(returns(m))} returns")), past=past)
    last = (await turn(again, "Go on"))[-1]
    assert isinstance(last, Answered)
    assert last.text.strip() == "1 returns"


async def test_the_record_of_what_is_remembered_does_not_repeat_itself(
    recorded: Recorded, settings: Callable[..., Settings]
) -> None:
    one = settings(scripted(*[("read_file", {"path": "toy.cpp"})] * 6))
    talk = Conversation(one, transcript=Transcript.begin(one.place, one.folder))
    await turn(talk)
    talk.close()
    lines = Path(conversations(one.place)[0].path).read_text().splitlines()
    stored = [json.loads(line) for line in lines if '"type": "Messages"' in line]
    assert sum(len(s["messages"]) for s in stored) == talk.message_count
    assert len(read(Path(conversations(one.place)[0].path)).messages) == talk.message_count


async def test_a_text_is_recorded_once(recorded: Recorded, settings: Callable[..., Settings]) -> None:
    text = Path(recorded.seed).read_text()
    one = settings(
        scripted(
            ("write_file", {"path": "mine.cpp", "text": text}),
            *[("forecast_kernel", {"task": recorded.task, "path": "mine.cpp"})] * 3,
        )
    )
    talk = Conversation(one, transcript=Transcript.begin(one.place, one.folder))
    seen = of(CandidateForecast, await turn(talk))
    talk.close()
    path = Path(conversations(one.place)[0].path)
    assert len(text) > SHARED_FROM
    assert path.read_text().count(json.dumps(text)) == 1
    assert of(CandidateForecast, list(read(path).events)) == seen


async def test_a_line_cut_off_by_a_kill_is_left_out(settings: Callable[..., Settings]) -> None:
    one = settings(scripted())
    talk = Conversation(one, transcript=Transcript.begin(one.place, one.folder))
    await turn(talk)
    talk.close()
    [header] = conversations(one.place)
    whole = read(Path(header.path))
    with Path(header.path).open("a") as file:
        file.write('{"at": 1, "type": "Noted", "te')
    assert read(Path(header.path)).events == whole.events


async def test_a_full_disk_ends_the_record_and_not_the_conversation(settings: Callable[..., Settings]) -> None:
    one = settings(scripted())
    transcript = Transcript.begin(one.place, one.folder)
    transcript.path = Path("/dev/full")
    events = await turn(Conversation(one, transcript=transcript))
    assert "no longer recorded" in "".join(e.text for e in of(Noted, events))
    assert isinstance(events[-1], Answered)


async def test_all_events_survive_json(recorded: Recorded, settings: Callable[..., Settings]) -> None:
    from forewarp.agent import events as kinds

    call: Call = ("measure_kernel", {"task": recorded.task, "path": "toy.cpp"})
    for event in await turn(Conversation(settings(scripted(call)))):
        assert kinds.from_data(json.loads(json.dumps(kinds.to_data(event)))) == event
    assert of(Spent, [e for e in (kinds.from_data({"type": "Spent"}), kinds.from_data({"type": "Later"})) if e])


async def test_a_record_keeps_what_holds_unusual_line_ends(settings: Callable[..., Settings], tmp_path: Path) -> None:
    text = "one\u2028two\x85three\udcff"
    one = settings(scripted(answer=lambda _: text), folder=tmp_path)
    talk = Conversation(one, transcript=Transcript.begin(one.place, one.folder))
    await turn(talk)
    talk.close()
    path = Path(conversations(one.place)[0].path)
    assert not talk._transcript or not talk._transcript.problem
    assert "".join(e.text for e in of(TextDelta, list(read(path).events))).strip() == text
    # Earlier versions wrote them as they are.
    path.write_text(path.read_text().replace("\\u2028", "\u2028").replace("\\u0085", "\x85"))
    assert "".join(e.text for e in of(TextDelta, list(read(path).events))).strip() == text
