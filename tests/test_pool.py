"""The programs of the pool are as its card says: whole families, two shapes each, lineage, no telling remark."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pool_checks
import pytest

from forewarp.archive import text
from forewarp.archive.pools import splits
from forewarp.archive.pools.parquet import read_pool, tasks_of
from forewarp.gpu_runner.formats import candidate as candidates
from forewarp.gpu_runner.formats import plan
from forewarp.gpu_runner.formats import task as tasks
from forewarp.tools.evaluate import EvaluateRequest, evaluate

FOLDER = Path(__file__).parents[1] / "pool" / "tasks"
NAMES = sorted(p.parent.name for p in FOLDER.glob("*/task.toml"))
LEAST_PROGRAMS, LEAST_CHOICES = 8, 8
_TELLING = re.compile(r"\b(fast|slow|naive|optimi[sz]ed?|speed-?up|baseline|buggy|wrong|broken)\w*", re.IGNORECASE)


@pytest.mark.slow
def test_the_measurements_are_sound_and_no_split_leaks() -> None:
    files = [f for f in sorted(FOLDER.parent.glob("*.parquet")) if f.stem not in ("configurations", "templates")]
    assert [f.stem for f in files] == sorted(splits.NAMES)
    assert list(pool_checks.check(files, splits.load())) == []


@pytest.mark.slow
def test_a_forecaster_of_ones_own_is_judged_as_the_card_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pool").symlink_to(FOLDER.parent)
    monkeypatch.chdir(tmp_path)
    program = next(
        p
        for p in re.findall(r"```python\n(.*?)```", (FOLDER.parent / "README.md").read_text(), re.DOTALL)
        if "Mine" in p
    )
    exec(compile(program, "README.md", "exec"), {"__name__": "card"})
    found = evaluate(EvaluateRequest(pools=["pool"], recorded=["mine.parquet"], resamples=10))
    assert [s.name for s in found.forecasters] == ["mine"]
    assert found.rows > 1000


def test_what_comes_with_the_package_is_for_training() -> None:
    rows = read_pool(tasks.BUNDLED_POOL)
    assert {r.origin.split for r in rows} == {"train"}
    assert {r.task.sha256 for r in rows} <= {t.sha256 for t in tasks_of(FOLDER.parent / "train.parquet").values()}


@pytest.mark.parametrize("name", NAMES)
def test_a_task_of_the_pool(name: str) -> None:
    task = tasks.load(str(FOLDER / name))
    assert splits.load()[task.family] in splits.NAMES
    assert len(task.workloads["cuda"]) == 2
    files = sorted(p.name for p in (FOLDER / name / "seeds").iterdir())
    assert len(files) >= LEAST_PROGRAMS
    lineage = tomllib.loads((FOLDER / name / "lineage.toml").read_text())
    assert sorted(lineage) == files
    for file, entry in lineage.items():
        assert entry["idea"], file
        assert not entry["parent"] or entry["parent"] in files, file


@pytest.mark.parametrize("name", NAMES)
def test_the_programs_of_a_task(name: str) -> None:
    seen: dict[str, str] = {}
    for path in sorted((FOLDER / name / "seeds").iterdir()):
        program = candidates.load(path)
        assert len(list(plan.parse(program).combinations())) >= LEAST_CHOICES, path.name
        assert not text.remarks(program.source, program.language), path.name
        assert not _TELLING.search(program.source), path.name
        assert seen.setdefault(text.keys(program).program, path.name) == path.name


def test_no_program_is_in_two_tasks() -> None:
    keys = [text.keys(candidates.load(p)).program for n in NAMES for p in (FOLDER / n / "seeds").iterdir()]
    assert len(keys) == len(set(keys))
