from __future__ import annotations

from dataclasses import replace

from contracts.forecaster_contract import TASK
from support.gpu_kernels import FACTS, GPU, kernel, timed

from forewarp.archive.rows import RecordedRow
from forewarp.core.protocols import Subject
from forewarp.core.values import Build, Candidate, Measurement
from forewarp.surrogate.alike import ExamplePool
from forewarp.surrogate.questions import question

ASKED = replace(TASK, family="copies")


def row(name: str, family: str, subject: Subject, measurement: Measurement) -> RecordedRow:
    task = replace(TASK, name=name, title=f"Title of {name}", family=family, reference=f"# {name}")
    return RecordedRow(task, GPU, (), subject.candidate, subject.build, measurement, None, "2026-11-20T00:00:00", "0")


def shown(*rows: RecordedRow, count: int = 3) -> list[str]:
    return [e.task for e in ExamplePool(rows).nearest(ASKED, GPU, [kernel(1)], count)]


NEAR = row("near", "rows", kernel(2), timed(2.0, 1e-4))
FAR = row("far", "sorts", kernel(8, 128, registers=200.0, instructions=4000.0, waves=0.1), timed(0.5))


def test_the_kernels_most_alike_come_first_one_of_each_task() -> None:
    again = row("near", "rows", kernel(2, 512), timed(1.9))
    assert shown(FAR, NEAR, again) == ["Title of near", "Title of far"]
    assert shown(FAR, NEAR, count=1) == ["Title of near"]


def test_none_of_the_task_or_its_family_is_shown() -> None:
    own = replace(NEAR, task=ASKED)
    kin = row("kin", "copies", kernel(1), timed(2.0))
    assert shown(own, kin, FAR) == ["Title of far"]


def test_what_was_not_right_or_not_compiled_for_a_gpu_is_no_example() -> None:
    wrong = row("wrong", "rows", kernel(2), Measurement("incorrect", "incorrect", "g", "T0"))
    module = row("module", "rows", Subject(Candidate("class ModelNew: ...", "python"), Build("ok", 0.0)), timed(2.0))
    assert shown(wrong, module) == []
    unseen = [Subject(Candidate("class ModelNew: ...", "python"), Build("ok", 0.0))]
    assert ExamplePool([NEAR]).nearest(ASKED, GPU, unseen) == []


def test_a_prompt_shows_their_speedups_and_times_and_no_comments() -> None:
    boasting = kernel(2)
    noted = replace(
        boasting, candidate=replace(boasting.candidate, source=f"{boasting.candidate.source}// 12x faster\n")
    )
    examples = ExamplePool([row("near", "rows", noted, timed(2.0, 1e-4))]).nearest(ASKED, GPU, [kernel(1)])
    text = question(ASKED, GPU, [kernel(1)], [], examples=examples).shared
    assert "### Title of near (cuda, g): S = 2.000; the reference took 100 µs, so that the kernel took 50 µs" in text
    assert f"Roofline floor {FACTS['floor_s'] * 1e6:.3g} µs, at which S would be 3.57" in text
    assert "y[2 * i] = x[2 * i];" in text
    assert "12x" not in text
