from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from shutil import copy

import pytest
from support.recorded_pool import Recorded, record
from support.scripted_model import scripted

from forewarp.agent import commands
from forewarp.agent.conversation import Conversation
from forewarp.agent.events import (
    Answered,
    ApprovalAsked,
    Compacted,
    ConversationEvent,
    Failed,
    Noted,
    SettingChanged,
    Spent,
    ToolCalled,
    ToolReturned,
    UserSaid,
)
from forewarp.agent.settings import Settings
from forewarp.agent.transcript import Transcript, home, read
from forewarp.tools.parts import Amounts, Place
from forewarp.tools.steps import CandidateForecast, CandidateMeasured

Say = Callable[[str], Awaitable[list[ConversationEvent]]]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    return record(tmp_path_factory.mktemp("pool"))


@pytest.fixture
def folder(recorded: Recorded, tmp_path: Path) -> Path:
    """A working folder with the task and its kernels in it."""
    found = tmp_path / "work"
    found.mkdir()
    for path in (recorded.task, recorded.seed, recorded.broken):
        copy(path, found)
    return found


@pytest.fixture
def talk(recorded: Recorded, folder: Path, tmp_path: Path) -> Iterator[Conversation]:
    place = Place(device="replay", pool=recorded.pool, archive=str(tmp_path / "archive.db"))
    made = Conversation(
        Settings(place=place, folder=folder, approval="never"), transcript=Transcript.begin(place, folder)
    )
    yield made
    made.close()


@pytest.fixture
def say(talk: Conversation) -> Say:
    async def turn(text: str) -> list[ConversationEvent]:
        seen: list[ConversationEvent] = []
        async for event in talk.say(text):
            seen.append(event)
            if isinstance(event, ApprovalAsked):
                talk.answer(event.call, "no")
        return seen

    return turn


def noted(events: list[ConversationEvent]) -> str:
    """What a command that worked said."""
    assert isinstance(events[-1], Answered), events[-1]
    return "\n".join(e.text for e in events if isinstance(e, Noted))


def failed(events: list[ConversationEvent]) -> Failed:
    assert isinstance(events[-1], Failed)
    return events[-1]


async def test_help_lists_every_command_and_explains_one(say: Say) -> None:
    text = noted(await say("/help"))
    assert all(f"/{name}" in text for name in commands.COMMANDS)
    assert "--insist" in noted(await say("/help measure"))
    assert "--insist" in noted(await say("/help /measure"))


@pytest.mark.parametrize(("typed", "meant"), [("/foreast x", "/forecast"), ("/cand", "/candidates"), ("/", "/help")])
async def test_a_command_that_does_not_exist_gets_the_nearest_one(say: Say, typed: str, meant: str) -> None:
    end = failed(await say(typed))
    assert end.code == "usage"
    assert meant in end.hint


@pytest.mark.parametrize("name", [c.name for c in commands.COMMANDS.values() if c.run is None])
async def test_commands_of_the_terminal_say_so(say: Say, name: str) -> None:
    assert "for the terminal" in failed(await say(f"/{name}")).message


async def test_a_task_is_listed_set_and_shown(say: Say, talk: Conversation) -> None:
    assert "- `toy`" in noted(await say("/task"))
    await say("/device cpu")
    assert "- `softmax`" in noted(await say("/task"))
    events = await say("/task toy.py")
    assert SettingChanged("task", "toy.py") in events
    assert talk.settings.task == "toy.py"
    assert "class Model" in noted(events)
    assert "`toy.py`" in noted(await say("/task"))
    assert failed(await say("/task toyy")).code == "task"
    assert talk.settings.task == "toy.py"


async def test_forecasts_one_kernel_then_ranks_several(say: Say, talk: Conversation) -> None:
    events = await say("/forecast toy.py toy.cpp")
    assert [type(e) for e in events if isinstance(e, ToolCalled | ToolReturned)] == [ToolCalled, ToolReturned]
    assert [r.forecast.origin for r in talk.candidates] == ["user"]
    await say("/task toy.py")
    events = await say("/forecast toy.cpp broken.cpp")
    returned = next(e for e in events if isinstance(e, ToolReturned))
    assert [line["position"] for line in returned.result["ranking"]] == [1, 2]
    assert len(talk.candidates) == 2
    assert talk.candidates.row(2) is not None


async def test_tunables_and_numbers_of_candidates_name_kernels(say: Say, talk: Conversation) -> None:
    await say("/forecast toy.py toy.cpp UNROLL=8 WIDTH=2")
    row = talk.candidates.row(1)
    assert row is not None
    assert row.forecast.tunables["UNROLL"] == 8
    await say("/task toy.py")
    again = await say("/forecast 1")
    assert [e.kernel for e in again if isinstance(e, CandidateForecast)] == [row.forecast.kernel]
    await say("/forecast 1 UNROLL=2 WIDTH=8")
    assert [r.forecast.tunables["UNROLL"] for r in talk.candidates] == [8, 2]


async def test_measures_and_holds_back_unless_one_insists(say: Say, talk: Conversation) -> None:
    await say("/task toy.py")
    events = await say("/measure toy.cpp")
    assert [e.provenance for e in events if isinstance(e, CandidateMeasured)] == ["replay"]
    assert not [e for e in await say("/measure toy.cpp") if isinstance(e, CandidateMeasured)]
    events = await say("/measure toy.cpp --insist it's to see the noise")
    called = next(e for e in events if isinstance(e, ToolCalled))
    assert called.arguments["insist"] == "it's to see the noise"
    assert talk.spent.measurements == 2


async def test_a_search_fills_the_board_and_leaves_a_run(say: Say, talk: Conversation, folder: Path) -> None:
    events = await say("/search toy.py 5")
    run = next(e for e in events if isinstance(e, ToolReturned)).result["run_id"]
    assert run in noted(await say("/runs"))
    assert "toy.py" not in noted(await say("/candidates"))
    best = talk.candidates.best()
    assert best is not None
    assert f"**{best.number}**" in noted(await say("/best"))
    assert "```cpp" in noted(await say("/best toy"))
    text = noted(await say("/report"))
    page = folder / "forewarp-runs" / run / "report.html"
    assert str(page) in text
    assert page.read_text().startswith("<!doctype html>")
    assert noted(await say(f"/report {run}")) == text
    assert failed(await say("/report r-none")).code == "usage"
    assert noted(await say(f"/diff {best.number} 1")).startswith("```diff")


async def test_a_candidate_is_exported_with_its_tunables_as_defaults(
    say: Say, talk: Conversation, folder: Path
) -> None:
    await say("/forecast toy.py toy.cpp UNROLL=8 WIDTH=2")
    await say("/measure toy.py toy.cpp")
    assert "toy_1.cpp" in noted(await say("/export 1"))
    assert "UNROLL = [8, 1, 2, 4, 16]" in (folder / "toy_1.cpp").read_text()
    await say("/export 1 kept/mine.cpp")
    assert (folder / "kept" / "mine.cpp").read_text() == (folder / "toy_1.cpp").read_text()
    await say("/export best.cpp")
    assert "UNROLL = [1, 2, 4, 8, 16]" in (folder / "best.cpp").read_text()
    (folder / "theirs.cpp").write_text("// the user's own\n")
    for line, says in {
        "/export 1 theirs.cpp": "the user said no",
        "/export 1 package": "made of a run's winner",
        "/export 1 ../x.cpp": "outside of the working folder",
        "/export 9": "no candidate 9",
        "/export r-123456": "r-123456",
        "/export a.cpp b.cpp": "no candidate and no run",
    }.items():
        assert says in failed(await say(line)).message


async def test_a_winner_that_makes_no_module_says_why(say: Say, folder: Path) -> None:
    events = await say("/search toy.py 4")
    run = next(e for e in events if isinstance(e, ToolReturned)).result["run_id"]
    # The synthetic device does not describe its tensors, without which no shape guard can be written.
    assert "no module can be made: " in failed(await say(f"/export {run} toy_module.py")).message
    assert not (folder / "toy_module.py").exists()


async def test_the_winner_of_a_run_is_exported_as_a_module(say: Say, talk: Conversation, folder: Path) -> None:
    talk.change("replay", place=Place(device="replay", archive=talk.settings.place.archive))
    events = await say("/search logsumexp_rows 2")
    run = next(e for e in events if isinstance(e, ToolReturned)).result["run_id"]
    assert f"forewarp-runs/{run}/best_module.py" in noted(await say(f"/export {run}"))
    assert f"run {run}" in (folder / "forewarp-runs" / run / "best_module.py").read_text()
    noted(await say("/undo"))
    assert not (folder / "forewarp-runs" / run / "best_module.py").exists()
    exported = folder / "forewarp-runs" / run / "exported"
    assert f"Files: `{exported}`" in noted(await say(f"/export {run} package"))
    assert "custom_op" in "".join(p.read_text() for p in exported.rglob("*.py"))


async def test_candidates_best_and_diff_of_nothing(say: Say) -> None:
    assert "No candidates yet" in noted(await say("/candidates"))
    assert "no runs" in noted(await say("/runs"))
    assert "measured" in failed(await say("/best")).message
    assert "there is none yet" in failed(await say("/diff 1")).hint
    assert "which candidate" in failed(await say("/diff")).message
    assert failed(await say("/report")).code == "usage"


async def test_a_diff_needs_a_parent_that_is_known(say: Say) -> None:
    await say("/forecast toy.py toy.cpp")
    await say("/forecast toy.py toy.cpp UNROLL=8 WIDTH=2")
    assert "/diff 2 M" in failed(await say("/diff 2")).hint
    text = noted(await say("/diff 2 1"))
    assert "+UNROLL = [8," in text
    assert "same text" in noted(await say("/diff 1 1"))


@pytest.mark.parametrize(
    ("line", "caps", "shown"),
    [
        ("/budget 40", Amounts(measurements=40), "40 measurements"),
        ("/budget gpu 90.5", Amounts(measurements=24, device_s=90.5), "24 measurements, 90.5 s of device time"),
        ("/budget tokens 200_000", Amounts(measurements=24, tokens=200_000), "24 measurements, 200,000 tokens"),
        ("/budget usd $2", Amounts(measurements=24, dollars=2), "24 measurements, 2 dollars"),
        ("/budget none", Amounts(), "no caps"),
    ],
)
async def test_caps_are_set(say: Say, talk: Conversation, line: str, caps: Amounts, shown: str) -> None:
    events = await say(line)
    assert SettingChanged("budget", shown) in events
    assert talk.settings.budget == caps
    assert noted(events) == noted(await say("/budget")) == noted(await say("/cost"))


@pytest.mark.parametrize("line", ["/budget many", "/budget -1", "/budget usd x", "/budget eur 1", "/budget 1 2 3"])
async def test_caps_that_make_no_sense(say: Say, talk: Conversation, line: str) -> None:
    assert failed(await say(line)).code == "usage"
    assert talk.settings.budget == Amounts(measurements=24)


async def test_dollars_of_a_model_without_a_price_cannot_be_capped(say: Say, talk: Conversation) -> None:
    talk.change("scripted", model=scripted())
    assert "price" in failed(await say("/budget usd 2")).message


async def test_the_model_is_shown_and_chosen_if_it_can_be_asked(say: Say, talk: Conversation) -> None:
    assert "no model" in noted(await say("/model"))
    assert failed(await say("/model nobody:x")).code == "model"
    assert "ANTHROPIC_API_KEY" in failed(await say("/model anthropic:claude")).message
    assert talk.settings.model is None
    await say("/model openai:mine --base-url http://127.0.0.1:9/v1")
    assert (talk.settings.model, talk.settings.base_url) == ("openai:mine", "http://127.0.0.1:9/v1")
    assert "127.0.0.1" in noted(await say("/model"))
    assert failed(await say("/model --base-url http://127.0.0.1:9/v1")).code == "usage"


async def test_the_device_is_shown_and_changed(say: Say, talk: Conversation, recorded: Recorded) -> None:
    assert "says replay" in noted(await say("/device"))
    assert "(cpu" in noted(await say("/device cpu"))
    assert (talk.settings.place.device, talk.settings.place.pool) == ("cpu", None)
    await say(f"/device replay {recorded.pool}")
    assert talk.settings.place.pool == recorded.pool
    assert failed(await say("/device replay gone.parquet")).message.startswith("there is no pool at")
    assert "only for replay" in failed(await say(f"/device cpu {recorded.pool}")).message
    assert failed(await say("/device tpu")).code in ("usage", "device")
    assert talk.settings.place.pool == recorded.pool


async def test_approval_is_shown_and_changed(say: Say, talk: Conversation) -> None:
    assert "`never`" in noted(await say("/approve"))
    assert "`each`" in noted(await say("/approve each"))
    assert talk.settings.approval == "each"
    assert "each, budget or never" in failed(await say("/approve sometimes")).message


async def test_conversations_are_listed_and_taken_up(say: Say, talk: Conversation, recorded: Recorded) -> None:
    await say("/forecast toy.py toy.cpp")
    other = Conversation(talk.settings, transcript=Transcript.begin(talk.settings.place, talk.settings.folder))
    listed = noted([e async for e in other.say("/resume")])
    assert talk.id in listed
    assert "/forecast toy.py toy.cpp" in listed
    events = [e async for e in other.say(f"/resume {talk.id}")]
    assert [e.task for e in events if isinstance(e, CandidateForecast)] == ["toy"]
    assert (len(other.candidates), other.id) == (1, talk.id)
    said = [e.text for e in read(home(talk.settings.place) / f"{talk.id}.jsonl").events if isinstance(e, UserSaid)]
    assert said == ["/forecast toy.py toy.cpp"]
    assert failed([e async for e in other.say("/resume nobody")]).code == "usage"
    other.close()


async def test_a_conversation_is_summarised(say: Say, talk: Conversation) -> None:
    assert "nothing to summarise" in failed(await say("/compact")).message
    talk.change("scripted", model=scripted(answer=lambda _: "It is about toy."))
    await say("hello")
    events = await say("/compact")
    assert [e.text for e in events if isinstance(e, Compacted)] == ["It is about toy."]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("/forecast", "which kernel?"),
        ("/forecast toy.cpp", "which task?"),
        ("/forecast toy.py", "which kernel for toy.py?"),
        ("/forecast toy.py gone.cpp", "there is no file gone.cpp"),
        ("/forecast toy.py ../toy.cpp", "outside of the working folder"),
        ("/forecast toy.py toy.cpp TILE=big", "the value of TILE is an integer"),
        ("/forecast toy.py toy.cpp --fast", "there is no option --fast"),
        ("/forecast softmux toy.cpp", "softmux"),
        ("/measure toy.py toy.cpp broken.cpp", "one kernel is measured at a time"),
        ("/measure toy.py toy.cpp --insist", "--insist needs a value"),
        ("/measure toy.py 7", "there is no candidate 7"),
        ("/search", "which task?"),
        ("/search toy.py 0", "1 to 200"),
        ("/search toy.py 5 6", "one word too many"),
        ("/search toy.py --seed-kernel gone.cpp", "there is no file gone.cpp"),
        ("/candidates all", "one word too many"),
        ("/help nothing", "there is no command /nothing"),
    ],
)
async def test_what_cannot_be_done_is_told_with_a_hint(say: Say, line: str, says: str) -> None:
    end = failed(await say(line))
    assert says in end.message
    assert end.hint
    assert end.code in ("usage", "task")


async def test_the_demo_is_not_asked_about_and_counts_in_no_budget(talk: Conversation, say: Say) -> None:
    talk.settings = replace(talk.settings, approval="each", budget=Amounts(measurements=0, device_s=0.001))
    events = await say("/demo")
    assert "looked up" in noted(events)
    assert not [e for e in events if isinstance(e, ApprovalAsked)]
    assert talk.candidates.best() is not None
    assert talk.spent == Spent()


@pytest.mark.slow
async def test_inspect_and_check_show_launches_problems_and_shapes(say: Say, folder: Path) -> None:
    seed = Path(commands.__file__).parents[1] / "tasks" / "softmax" / "seeds" / "softmax.py"
    copy(seed, folder / "seed.py")
    text = noted(await say("/check softmax seed.py"))
    assert "| kernel | grid × block | waves |" in text
    assert "CPU-interpreted: ok" in text
    assert "programs, error" in text


@pytest.mark.slow
async def test_tune_shows_configurations_and_the_change(say: Say, folder: Path) -> None:
    (folder / "tuned.py").write_text(
        "import torch\nimport triton\nimport triton.language as tl\n\n"
        '@triton.autotune(configs=[triton.Config({"N": n}) for n in (256, 512)], key=[])\n'
        "@triton.jit\ndef k(x, N: tl.constexpr):\n    tl.store(x + tl.arange(0, N), 1.0)\n\n"
        "def run(x):\n    k[(1,)](x)\n\n"
        'if __name__ == "__main__":\n    run(torch.empty(512, device="cuda"))\n'
    )
    text = noted(await say("/tune tuned.py --target h100"))
    assert "| configuration | forecast |" in text
    assert "```diff\n--- a/tuned.py" in text
