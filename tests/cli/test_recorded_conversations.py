"""Replays of the committed conversations go on to the end, past a turn that failed."""

from __future__ import annotations

from pathlib import Path

import pytest

from forewarp.agent.events import Answered, Compacted, Failed, UserSaid
from forewarp.agent.replay import Replay
from forewarp.agent.transcript import read
from forewarp.cli import headless
from forewarp.cli.options import Output

FOLDER = Path(__file__).parents[2] / "benchmarks/results/conversations"


@pytest.mark.parametrize(
    ("name", "turns", "failed", "summaries", "verdict"),
    [
        ("add_norm_triton_h100", 4, 0, 0, "faster"),
        ("gated_norm_cpu", 2, 1, 0, "faster"),
        ("soft_loss_cpu_32k", 4, 0, 2, "faster"),
        ("softmax_plan_cpu", 1, 0, 0, None),  # no measurement is trusted
    ],
)
def test_a_replay_goes_on_to_the_end(
    name: str, turns: int, failed: int, summaries: int, verdict: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    events = read(FOLDER / f"{name}.jsonl").events
    assert sum(isinstance(e, Failed) for e in events) == failed
    assert sum(isinstance(e, Compacted) for e in events) == summaries
    assert sum(isinstance(e, UserSaid) for e in events) == turns
    replay = Replay(events, speed=float("inf"))
    assert headless.run(replay, replay.prompts, "text", Output(quiet=True), replay=True) == 0
    assert isinstance(events[-1], Answered)
    assert events[-1].text.strip() in capsys.readouterr().out
    best = replay.candidates.best()
    assert (best and best.measured and best.measured.verdict) == verdict


def test_each_way_in_which_a_provider_fails_ends_a_turn_with_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    events = read(FOLDER / "provider_failures.jsonl").events
    ends = [e for e in events if isinstance(e, Answered | Failed)]
    assert len(ends) == sum(isinstance(e, UserSaid) for e in events)
    replay = Replay(events, speed=float("inf"))
    assert headless.run(replay, replay.prompts, "text", Output(), replay=True) == 0
    shown = capsys.readouterr()
    for end in ends:
        assert (end.text in shown.out) if isinstance(end, Answered) else (end.message in shown.err and end.hint)
