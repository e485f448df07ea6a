from __future__ import annotations

from pathlib import Path

import lineage
import pytest
from lineage import ParentLine

from forewarp.core.errors import TaskError


def test_parents_and_mistakes_by_file(tmp_path: Path) -> None:
    assert lineage.load(tmp_path) == {}
    lines = ['["1.cu"]', 'parent = ""', 'idea = "rows"', '["2.cu"]', 'parent = "1.cu"', 'mistake = "no barrier"']
    (tmp_path / "lineage.toml").write_text("\n".join(lines))
    found = lineage.load(tmp_path)
    assert found == {"1.cu": ParentLine(), "2.cu": ParentLine("1.cu", "no barrier")}
    assert [line.tags for line in found.values()] == [(), ("mistake",)]


def test_a_mistake_may_be_denied(tmp_path: Path) -> None:
    (tmp_path / "lineage.toml").write_text('["1.cu"]\nmistake = false\n')
    assert lineage.load(tmp_path) == {"1.cu": ParentLine()}


def test_what_is_no_toml_is_named(tmp_path: Path) -> None:
    (tmp_path / "lineage.toml").write_text("parent =\n")
    with pytest.raises(TaskError, match=r"lineage\.toml cannot be read"):
        lineage.load(tmp_path)
