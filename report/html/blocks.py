"""Blocks that pages are made of, and the templates that write them as HTML; all text is escaped there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from forewarp.core.untrusted_text import printable
from forewarp.report.html.chart import ChartFigure
from forewarp.tools.parts import Interval

if TYPE_CHECKING:
    from jinja2 import Environment

RowT = TypeVar("RowT")

TINY = 1e-6
"""Numbers nearer to zero than this are written as about zero."""

FATES = {
    "faster": ("faster", "faster than the reference"),
    "slower": ("slower", "slower than the reference"),
    "tie": ("even", "as fast as the reference, within 1 %"),
    "inconclusive": ("even", "neither faster nor slower is shown"),
    "ambiguous": ("doubt", "ambiguous: equal kernels came out unequal"),
    "suspicious": ("odd", "suspicious: its time is not believed"),
    "impossible": ("odd", "impossible: faster than the device can be"),
    "unmeasured": ("none", "not measured"),
    "unfinished": ("none", "its measurement was begun and has no result"),
}
"""Class of colour and meaning of what became of a candidate; what is not here failed."""


@dataclass(frozen=True, slots=True)
class TableCell:
    """A cell of a table: `kind` is a class of colour or of layout (n for numbers, t for running text)."""

    text: str
    kind: str = ""


CellValue = TableCell | Interval | str | float | None
"""Value of a cell: an interval is a speed-up, a number is aligned, None and "" are empty."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table, which its headings sort if `sort`, and which is scrolled if `tall`."""

    head: Sequence[TableCell]
    rows: Sequence[Sequence[TableCell]]
    sort: bool = False
    tall: bool = False


@dataclass(frozen=True, slots=True)
class SmallPrint:
    """A paragraph in small print."""

    text: str


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading within a section."""

    text: str


@dataclass(frozen=True, slots=True)
class TextList:
    """A list of texts."""

    items: Sequence[str]


@dataclass(frozen=True, slots=True)
class SourceLines:
    """Lines of source text, each with a class: a added, d deleted, h about the text, "" for all others."""

    lines: Sequence[tuple[str, str]]

    @staticmethod
    def of(text: str) -> SourceLines:
        """Return text without marked lines."""
        return SourceLines([("", text)])


@dataclass(frozen=True, slots=True)
class Fold:
    """Blocks under a line that unfolds them."""

    title: str
    about: str
    blocks: Sequence[PageBlock]
    open: bool = False


PageBlock = str | SmallPrint | Heading | TextList | SourceLines | Table | ChartFigure | Fold | None
"""A text is a paragraph; None is nothing."""


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a page, which can be folded and is left out where it has no blocks; `lead` says how to read it."""

    name: str
    title: str
    blocks: Sequence[PageBlock]
    lead: str = ""
    folded: bool = False

    @property
    def shown(self) -> bool:
        return any(self.blocks)


@dataclass(frozen=True, slots=True)
class Page:
    """A page: its headline, what was spent as (name, spent, cap, share of the cap), and its sections.

    `tiles` are numbers with what they mean and a class of colour. Only a page with tables that sort has a script.
    """

    name: str
    title: str
    summary: str
    about: str
    sections: Sequence[Section]
    replay: bool = False
    tiles: Sequence[tuple[str, str, str]] = ()
    spend: Sequence[tuple[str, str, str, float | None]] = ()

    @property
    def sorts(self) -> bool:
        return any(isinstance(b, Table) and b.sort for s in self.sections for b in s.blocks)

    def html(self) -> str:
        """Return the page, which needs no network, without invisible characters and those that turn text around."""
        return printable(_environment().get_template("page.html").render(page=self))


def table(
    rows: Iterable[RowT], columns: Mapping[str, Callable[[RowT], CellValue]], *, sort: bool = False, tall: bool = False
) -> Table | None:
    """Return a table with a column for each heading, without those that have nothing in them; None without any."""
    cells = [[_cell(value(row)) for value in columns.values()] for row in rows]
    filled = [k for k in range(len(columns)) if any(line[k].text for line in cells)]
    if not filled:
        return None
    heads = [TableCell(head, "n" if "n" in cells[0][k].kind.split() else "") for k, head in enumerate(columns)]
    return Table([heads[k] for k in filled], [[line[k] for k in filled] for line in cells], sort, tall)


def _cell(value: CellValue) -> TableCell:
    match value:
        case TableCell():
            return value
        case str():
            return TableCell(value)
        case None:
            return TableCell("", "n")
        case Interval():
            return TableCell(str(value), "n")
        case int():
            return TableCell(f"{value:,d}", "n")
        case float():
            if value and abs(value) < TINY:
                return TableCell("≈0", "n")
            return TableCell(f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}", "n")


def number(value: float | None, form: str) -> TableCell:
    """Return a number in a format of its own; empty where there is none."""
    return TableCell("" if value is None else format(value, form), "n")


def kind_of(fate: str) -> str:
    """Return the class of colour of what became of a candidate."""
    return FATES.get(fate, ("fail", ""))[0]


def meaning(fate: str) -> str:
    """Return what became of a candidate, in words."""
    return FATES.get(fate, ("", f"failed: {words(fate)}"))[1]


def words(name: str) -> str:
    return name.replace("_", " ")


def became(fate: str) -> TableCell:
    """Return a cell that says in colour what became of a candidate."""
    return TableCell(words(fate), kind_of(fate))


def keys(fates: Iterable[str]) -> list[tuple[str, str]]:
    """Return what the colours of these candidates mean, each once."""
    order = list(FATES)
    found: dict[str, list[str]] = {}
    for fate in sorted(set(fates), key=lambda f: (order.index(f) if f in FATES else len(order), f)):
        found.setdefault(kind_of(fate), []).append(words(fate))
    return [(kind, ", ".join(names)) for kind, names in found.items()]


@lru_cache(maxsize=1)
def _environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    loader = FileSystemLoader(Path(__file__).parent / "templates")
    return Environment(loader=loader, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, autoescape=True)
