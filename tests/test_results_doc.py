"""The README and docs/results.md show what benchmarks/figures.py makes of the results; links lead somewhere."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted(
    [*(ROOT / "docs").glob("*.md"), *ROOT.glob("*.md"), ROOT / "benchmarks" / "README.md", ROOT / "pool" / "README.md"]
)
LINK = re.compile(r"\]\(([^)\s]+)\)")


@pytest.fixture
def figures(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module("figures")


def test_the_tables_are_those_of_the_results(figures: ModuleType) -> None:
    shown = ""
    for path in figures.DOCUMENTS:
        text = path.read_text()
        assert figures.filled(text) == text, "run: python benchmarks/figures.py --write"
        shown += text
    for name in figures.TABLES:
        assert shown.count(f"<!-- {name} -->") == shown.count(f"<!-- end of {name} -->") == 1


def anchors(text: str) -> set[str]:
    """Return what GitHub makes of the headings of a document."""
    headings = re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", h.replace("`", "")).strip().lower().replace(" ", "-") for h in headings}


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(path: Path) -> None:
    for link in LINK.findall(path.read_text()):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = (path.parent / name) if name else path
        assert target.exists(), link
        if anchor and target.suffix == ".md":
            assert anchor in anchors(target.read_text()), link


def test_there_are_few_documents_and_a_short_readme() -> None:
    assert len(list((ROOT / "docs").glob("*.md"))) <= 14
    assert len((ROOT / "README.md").read_text().split()) <= 900
