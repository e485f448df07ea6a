"""The list of what a release measures."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def scripts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))


def test_the_readme_shows_the_list() -> None:
    import release  # pyright: ignore[reportMissingImports]

    assert "\n".join(release.listing()) in (ROOT / "benchmarks" / "README.md").read_text()


def test_each_run_is_one_that_its_script_takes() -> None:
    import release  # pyright: ignore[reportMissingImports]

    for run in release.runs():
        text = (ROOT / "benchmarks" / run.script).read_text()
        flags = re.findall(r"--[\w-]+", run.arguments) + ([run.out] if run.out and run.on != "model" else [])
        assert not [f for f in flags if f'"{f}"' not in text], run
        assert (release.RESULTS / run.result).exists(), run


def test_each_script_and_result_is_named() -> None:
    said = (ROOT / "benchmarks" / "README.md").read_text()
    for file in [*(ROOT / "benchmarks").glob("*.py"), *(ROOT / "benchmarks" / "results").iterdir()]:
        begins = [s.stem for s in (ROOT / "benchmarks").glob("*.py") if file.stem.startswith(f"{s.stem}_")]
        assert file.name in said or f"`{file.name}/`" in said or begins or file.name.startswith("cheats_"), file


def test_what_is_made_from_these_sources_is_not_made_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import provenance  # pyright: ignore[reportMissingImports]
    import release  # pyright: ignore[reportMissingImports]

    for run in release.runs():
        if run.on == "cpu" and "{" not in run.arguments:
            provenance.write(tmp_path / run.result, {})
    assert release.make("cpu", tmp_path, {}, 60.0) == 0
    assert "wants --given kernelbench=PATH" in (said := capsys.readouterr().out)
    assert "about" not in said
    assert str(ROOT / "benchmarks") in sys.path
