"""Which shapes a check takes."""

from __future__ import annotations

from support import interpreted as samples
from support.jobs import task_job

from forewarp.core.values import Candidate, Constant, Task
from forewarp.inspection.emulation.shapes import Shrinker, Size, defaults

MODULE = Candidate("class ModelNew: pass", "python")


def shrinker(task: Task, candidate: Candidate) -> Shrinker:
    return Shrinker(task_job(task), task.workloads["cuda"][0], candidate)


def shrunk(
    task: Task,
    candidate: Candidate,
    most: int = 1 << 14,
    programs: int = 64,
) -> dict[str, Constant] | None:
    own = defaults(task_job(task), task.workloads["cuda"][0])
    found = shrinker(task, candidate).shrink(own, Size(most, programs).holds)
    return dict(found) if found is not None else None


def test_the_largest_is_halved_first_and_odd_stays_odd() -> None:
    task = samples.model("x * 2", "torch.randn(ROWS, COLS)", ROWS=4096, COLS=1021)
    assert shrunk(task, MODULE) == {"ROWS": 64, "COLS": 127}


def test_constants_that_give_no_shape_stay() -> None:
    task = samples.model("x * SCALE", "torch.randn(ROWS, COLS)", ROWS=4096, COLS=64, SCALE=100_000)
    assert shrunk(task, MODULE) == {"ROWS": 128, "COLS": 64, "SCALE": 100_000}


def test_what_breaks_the_reference_alone_is_halved_together() -> None:
    task = samples.model("x @ x", "torch.randn(A, B)", A=1024, B=1024)
    assert shrunk(task, MODULE) == {"A": 64, "B": 64}


def test_what_the_reference_needs_stays() -> None:
    task = samples.model("x.view(-1, 48) * torch.ones(48, device=x.device)", "torch.randn(N, D)", N=4096, D=48)
    assert shrunk(task, MODULE) == {"N": 128, "D": 48}


def test_whole_blocks_stay_whole() -> None:
    task = samples.model("x * 2", "torch.randn(ROWS, COLS)", ROWS=4096, COLS=4096)
    assert shrunk(task, Candidate("BLOCK = 48", "python")) == {"ROWS": 64, "COLS": 128}
    assert shrunk(task, Candidate("BLOCK = 128", "python"), most=1 << 15) == {"ROWS": 128, "COLS": 128}
    task = samples.model("x * 2", "torch.randn(ROWS, COLS)", ROWS=4096, COLS=1536)
    assert shrunk(task, Candidate("BLOCK = 512", "python"), most=1 << 21) == {"ROWS": 512, "COLS": 1536}


def test_a_fixed_number_of_programs_does_not_shrink_shapes() -> None:
    task = samples.model("x * 2", "torch.randn(N)", N=65_536)
    assert shrunk(task, samples.flat(samples.RIGHT_DOUBLE, grid="1000")) == {"N": 8192}


def test_defaults_of_the_reference_count_as_constants() -> None:
    text = samples.model("x * 2", "torch.randn(N)", N=1 << 20).reference
    task = samples.task(text)
    assert shrunk(task, MODULE) == {"N": 8192}


def test_larger_shapes_differ_in_one_constant_and_come_from_near_to_far() -> None:
    task = samples.model("x * 2", "torch.randn(ROWS, COLS)", ROWS=4096, COLS=4096)
    assert list(shrinker(task, MODULE).larger({"ROWS": 1024, "COLS": 2048})) == [
        {"ROWS": 2048, "COLS": 2048},
        {"ROWS": 4096, "COLS": 2048},
        {"ROWS": 1024, "COLS": 4096},
    ]


def stretched(task: Task, candidate: Candidate, small: dict[str, Constant], most: int) -> list[dict[str, Constant]]:
    return [dict(s) for s in shrinker(task, candidate).stretched(small, Size(most, 1 << 10).holds)]


def test_stretched_shapes_have_one_constant_near_the_tasks_own() -> None:
    task = samples.model("x * 2", "torch.randn(ROWS, COLS)", ROWS=65536, COLS=4096)
    small: dict[str, Constant] = {"ROWS": 64, "COLS": 64}
    assert stretched(task, MODULE, small, 1 << 18) == [{"ROWS": 32768, "COLS": 4}, {"ROWS": 32, "COLS": 4096}]
    assert stretched(task, MODULE, small, 1 << 12) == [{"ROWS": 512, "COLS": 4}, {"ROWS": 4, "COLS": 512}]


def test_stretched_shapes_are_none_where_little_was_halved() -> None:
    task = samples.model("x * 2", "torch.randn(ROWS, COLS)", ROWS=128, COLS=4096)
    assert stretched(task, MODULE, {"ROWS": 64, "COLS": 2048}, 1 << 30) == []


def test_stretched_shapes_suit_the_code_as_the_small_one_does() -> None:
    task = samples.model("x * 2", "torch.randn(ROWS, COLS)", ROWS=4096, COLS=4096)
    small: dict[str, Constant] = {"ROWS": 64, "COLS": 64}
    assert stretched(task, Candidate("BLOCK = 32", "python"), small, 1 << 15) == [
        {"ROWS": 512, "COLS": 32},
        {"ROWS": 32, "COLS": 512},
    ]


def test_constants_that_must_stay_equal_are_not_stretched() -> None:
    task = samples.model("x @ x", "torch.randn(A, B)", A=1024, B=1024)
    assert stretched(task, MODULE, {"A": 64, "B": 64}, 1 << 20) == []


def test_sizes_in_the_code_are_named_where_they_have_changed() -> None:
    task = samples.model("x * 2", "torch.randn(ROWS, COLS)", ROWS=40_000_000, COLS=48)
    fixed = shrinker(task, Candidate("assert rows == 40_000_000 and columns == 48", "python"))
    assert fixed.written_into_code({"ROWS": 1000, "COLS": 48}) == "ROWS = 40000000"
    assert fixed.written_into_code({"ROWS": 1000, "COLS": 24}) == "ROWS = 40000000, COLS = 48"
    assert shrinker(task, MODULE).written_into_code({"ROWS": 1000, "COLS": 24}) == ""


def test_sizes_compare_by_both_numbers() -> None:
    assert Size(10, 5).holds(Size(10, 5))
    assert not Size(10, 5).holds(Size(11, 5))
    assert not Size(10, 5).holds(Size(10, 6))
