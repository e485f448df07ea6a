"""The figures of the dataset card come from the pool."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from support.recorded_pool import record

ROOT = Path(__file__).parents[3]
SCRIPT = ROOT / "benchmarks" / "pool_statistics.py"


@pytest.fixture
def card(tmp_path: Path) -> Path:
    path = tmp_path / "README.md"
    path.write_text((ROOT / "pool" / "README.md").read_text())
    return path


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, SCRIPT, *arguments], capture_output=True, text=True, check=False)


def test_the_card_is_updated_between_its_markers(card: Path, tmp_path: Path) -> None:
    before = card.read_text()
    recorded = record(tmp_path)
    done = run(recorded.pool, "--card", card)
    assert done.returncode == 0, done.stderr
    after = card.read_text()
    assert done.stdout.strip() in after
    assert "| toy |" in after
    assert "| compile_error |" in after
    assert after.split("<!-- statistics -->")[0] == before.split("<!-- statistics -->")[0]
    assert after.split("<!-- /statistics -->")[1] == before.split("<!-- /statistics -->")[1]


def test_the_card_s_table_of_splits_is_the_file_s() -> None:
    from forewarp.archive.pools import splits

    _, _, text = (ROOT / "pool" / "README.md").read_text().partition("## Splits")
    for name in splits.NAMES:
        (line,) = (row for row in text.splitlines() if row.startswith(f"| {name} |"))
        families = {f.strip() for f in line.split("|")[2].split(",")}
        assert families == {family for family, split in splits.load().items() if split == name}
