"""The picture of a run's lineage: lines that cross no label, and room for all of it."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from itertools import pairwise
from pathlib import Path

import pytest
from support.recorded_run import Writer

from forewarp.archive.store import Archive
from forewarp.report.html import lineage
from forewarp.report.html.blocks import ScrolledPicture
from forewarp.report.html.lineage import Lineage, LineageNode
from forewarp.report.html.run import steps
from forewarp.tools.parts import Interval
from forewarp.tools.run_report import RunRecord, report

Point = tuple[float, float]
Box = tuple[float, float, float, float]


def of_run(folder: Path, count: int) -> Lineage:
    with Archive(folder / "a.db") as archive:
        run = Writer(archive, count, forecaster="").write()
        record, best = RunRecord.read(archive, run), report(archive, run).best
        leads = [s.row.candidate.sha256 for s in steps(record) if s.leads]
        return lineage.lineage(record.candidates, leads, best.kernel.sha256 if best else "")


def node(number: int, parent: int | None = None, *, mate: int | None = None, winning: bool = False) -> LineageNode:
    return LineageNode(
        kernel=sha(number),
        parent="" if parent is None else sha(parent),
        mate="" if mate is None else sha(mate),
        fate="faster",
        speedup=Interval(ratio=1 + number, low=1, high=2 + number),
        about="by llm:paid, round 0",
        winning=winning,
        leads=False,
        hidden={},
    )


def sha(number: int) -> str:
    return f"{number:04d}" + "0" * 60


def drawn(found: Lineage) -> ET.Element:
    [tree] = [b for b in lineage.tree(found) if isinstance(b, ScrolledPicture)]
    return ET.fromstring(tree.svg)


def labels(svg: ET.Element) -> dict[str, Box]:
    """Return the room that each label takes: left, top, right, bottom."""
    found: dict[str, Box] = {}
    for text in svg.iter("text"):
        x, y, said = float(text.attrib["x"]), float(text.attrib["y"]), "".join(text.itertext())
        found[said] = (x, y - 9, x + lineage.LETTER * len(said), y + 3)
    return found


def corners(edge: ET.Element) -> tuple[Point, Point, Point]:
    """Return begin, corner and end of a line; its corner is rounded, which stays within these."""
    found = re.fullmatch(r"M(\d+) (\d+)V(\d+)q0 6 6 6H(\d+)", edge.attrib["d"])
    assert found is not None
    x, y, lower, right = map(float, found.groups())
    return (x, y), (x, lower + 6), (right, lower + 6)


def crosses(a: Point, b: Point, box: Box) -> bool:
    """Whether an upright or level line from `a`, to the right or down to `b`, goes through a box."""
    return a[0] < box[2] and b[0] > box[0] and a[1] < box[3] and b[1] > box[1]


@pytest.mark.parametrize("count", [10, 60])
def test_no_line_crosses_a_label(tmp_path: Path, count: int) -> None:
    found = of_run(tmp_path, count)
    svg = drawn(found)
    edges = [corners(path) for path in svg.iter("path")]
    assert len(edges) == sum(bool(n.parent) for n in found.nodes) > 0
    assert len(labels(svg)) == len(found.nodes) >= count * 0.8
    for said, box in labels(svg).items():
        for edge in edges:
            assert not any(crosses(a, b, box) for a, b in pairwise(edge)), said


def test_labels_stand_beside_their_dots_and_within_the_picture(tmp_path: Path) -> None:
    svg = drawn(of_run(tmp_path, 60))
    dots = {(float(c.attrib["cx"]), float(c.attrib["cy"])) for c in svg.iter("circle")}
    boxes = list(labels(svg).values())
    assert {(left - lineage.BESIDE, bottom - 7) for left, _, _, bottom in boxes} == dots
    assert max(right for _, _, right, _ in boxes) <= float(svg.attrib["width"])
    assert max(bottom for *_, bottom in boxes) <= float(svg.attrib["height"])
    assert all(a[3] <= b[1] for a, b in pairwise(sorted(boxes, key=lambda box: box[1])))


def test_the_winners_line_is_on_top_and_a_cross_names_its_second_parent() -> None:
    found = Lineage(
        nodes=[node(0), node(1, winning=True), node(2, 1), node(3, 1, winning=True), node(4, 2, mate=0)], left_out={}
    )
    svg = drawn(found)
    order = [said.split()[1] for said, _ in sorted(labels(svg).items(), key=lambda item: item[1][1])]
    assert order == ["0001", "0003", "0002", "0004", "0000"]
    assert "5× 0004 with 0000" in labels(svg)
    [won] = [p for p in svg.iter("path") if p.attrib["class"] == "edge won"]
    assert corners(won)[2] == (lineage.LEFT + lineage.STEP, lineage.TOP + lineage.ROW)
    assert [p.attrib["class"] for p in svg.iter("path")][-1] == "edge won"


def test_a_long_chain_of_repairs_is_drawn() -> None:
    count = 1200
    svg = drawn(Lineage(nodes=[node(0), *(node(k, k - 1) for k in range(1, count))], left_out={}))
    assert sum(1 for _ in svg.iter("path")) == count - 1
    assert float(svg.attrib["width"]) > lineage.STEP * (count - 1)
