from __future__ import annotations

from pathlib import Path

import pytest

from forewarp.core.errors import UsageError
from forewarp.tools.suite_files import (
    ProblemFile,
    choose_problems,
    find_kernels,
    find_problems,
    match,
)


def write(folder: Path, *names: str) -> Path:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("class Model: ...\n")
    return folder


def names(found: list[ProblemFile]) -> list[str]:
    return [p.name for p in found]


def test_problems_of_a_folder_are_files_and_task_folders_in_natural_order(tmp_path: Path) -> None:
    write(tmp_path, "10_b.py", "2_a.py", "__init__.py", ".hidden/1_x.py", "__pycache__/3_x.py", "notes.txt")
    write(tmp_path, "mode/task.yml", "mode/reference.py", "own/task.toml", "level2/1_c.py")
    assert names(find_problems(str(tmp_path))) == ["2_a", "10_b", "level2/1_c", "mode", "own"]


def test_problems_may_be_a_file_a_task_folder_or_a_glob(tmp_path: Path) -> None:
    write(tmp_path, "one/1_a.py", "two/1_a.py", "two/2_b.py", "mode/task.yml")
    assert names(find_problems(str(tmp_path / "one" / "1_a.py"))) == ["1_a"]
    assert names(find_problems(str(tmp_path / "mode"))) == ["mode"]
    assert names(find_problems(str(tmp_path / "mode" / "task.yml"))) == ["mode"]
    assert names(find_problems(str(tmp_path / "*" / "*.py"))) == ["2_b", "one/1_a", "two/1_a"]


def test_no_problem_is_an_error_that_says_what_to_pass(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no problem at") as caught:
        find_problems(str(tmp_path / "nowhere"))
    assert "quoted glob" in caught.value.hint


def test_problems_are_chosen_by_name_or_stem_and_number(tmp_path: Path) -> None:
    found = find_problems(str(write(tmp_path, "level1/1_a.py", "level1/12_a.py", "level2/3_a.py")))
    assert names(choose_problems(found, None, None)) == ["level1/1_a", "level1/12_a", "level2/3_a"]
    assert names(choose_problems(found, "1*", None)) == ["level1/1_a", "level1/12_a"]
    assert names(choose_problems(found, "level1/*", 1)) == ["level1/1_a"]
    with pytest.raises(UsageError, match="called 9") as caught:
        choose_problems(found, "9*", None)
    assert "level1/1_a" in caught.value.hint


PROBLEMS = ("level1/1_square.py", "level1/12_diagonal.py", "level1/19_ReLU.py", "level2/12_gemm.py", "row_sum.py")


@pytest.mark.parametrize(
    ("kernel", "problem"),
    [
        ("19_ReLU.py", "level1/19_ReLU"),
        ("19_ReLU.cu", "level1/19_ReLU"),
        ("19_ReLU_sample_3_kernel.py", "level1/19_ReLU"),
        ("row_sum.v2.py", "row_sum"),
        ("row_sum/anything.py", "row_sum"),
        ("row_sum/deeper/1.py", "row_sum"),  # the name goes before the number
        ("level_1_problem_12_sample_0_kernel.py", "level1/12_diagonal"),
        ("level_2_problem_12_sample_0_kernel.py", "level2/12_gemm"),
        ("level2_12_other_name.py", "level2/12_gemm"),
        ("level1/12.py", "level1/12_diagonal"),
        ("level2/12/best.py", "level2/12_gemm"),
        ("19.py", "level1/19_ReLU"),
        ("019.py", "level1/19_ReLU"),
        ("problem_19_x.py", "level1/19_ReLU"),
    ],
)
def test_a_kernel_belongs_to_the_problem_that_its_name_tells(tmp_path: Path, kernel: str, problem: str) -> None:
    every = find_problems(str(write(tmp_path / "problems", *PROBLEMS)))
    kernels = find_kernels(str(write(tmp_path / "kernels", kernel)))
    found = match(every, kernels, every)
    assert found.unmatched == []
    assert {p: [k.name for k in ks] for p, ks in found.kernels.items() if ks} == {problem: [kernel]}


@pytest.mark.parametrize(
    ("kernel", "says"),
    [
        ("row_summary.py", "that of no problem"),
        ("level_3_problem_12_sample_0_kernel.py", "that of no problem"),
        ("12.py", "may mean level1/12_diagonal, level2/12_gemm"),
        ("19/1.py", "may mean"),
        ("row_sum/19_ReLU.py", "may mean"),
        ("2d_conv.py", "that of no problem"),
    ],
)
def test_what_does_not_match_or_may_mean_several_is_listed(tmp_path: Path, kernel: str, says: str) -> None:
    every = find_problems(str(write(tmp_path / "problems", *PROBLEMS)))
    found = match(every, find_kernels(str(write(tmp_path / "kernels", kernel))), every)
    assert not any(found.kernels.values())
    ((file, reason),) = found.unmatched
    assert (file.name, says in reason) == (kernel, True), reason


def test_the_level_may_be_the_given_folders_own(tmp_path: Path) -> None:
    every = find_problems(str(write(tmp_path / "bench" / "level2", "12_gemm.py")))
    write(tmp_path / "runs", "level_2_problem_12_sample_0_kernel.py", "level_1_problem_12_sample_0_kernel.py")
    found = match(every, find_kernels(str(tmp_path / "runs")), every)
    assert [k.name for k in found.kernels["12_gemm"]] == ["level_2_problem_12_sample_0_kernel.py"]
    assert [k.name for k, _ in found.unmatched] == ["level_1_problem_12_sample_0_kernel.py"]


def test_kernels_of_problems_that_are_left_out_are_not_unmatched(tmp_path: Path) -> None:
    every = find_problems(str(write(tmp_path / "problems", *PROBLEMS)))
    kernels = find_kernels(str(write(tmp_path / "kernels", "19_ReLU.py", "row_sum.py")))
    found = match(choose_problems(every, "row*", None), kernels, every)
    assert [k.name for k in found.kernels["row_sum"]] == ["row_sum.py"]
    assert found.unmatched == []


def test_a_folder_without_kernels_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has no kernels"):
        find_kernels(str(write(tmp_path, "readme.md", "__init__.py")))
    with pytest.raises(UsageError, match="neither a folder nor a file"):
        find_kernels(str(tmp_path / "nowhere"))
