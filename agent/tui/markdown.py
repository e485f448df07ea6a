"""Markdown of models and of forewarp, program text and differences, all of it made safe to show."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.await_complete import AwaitComplete
from textual.content import Content
from textual.widgets import Label, Markdown
from textual.widgets._markdown import MarkdownTable, MarkdownTableContent  # pyright: ignore[reportPrivateUsage]
from textual.widgets.markdown import MarkdownFence

from forewarp.agent.edits import difference
from forewarp.agent.tui.printable import styled
from forewarp.core.untrusted_text import printable

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_core import StateCore
    from markdown_it.token import Token

    from forewarp.agent.candidates import ListedCandidate

LONGEST = 20_000
"""Characters from which on a program is shown without colours: highlighting it would cause a delay."""

PART_LINES = 50
"""Lines of a program that are laid out together."""

MOST_CELLS = 400
"""Cells of a text's tables that are laid out."""

_LEXERS = {"triton": "python", "cu": "cuda", "c++": "cpp", "py": "python"}


def highlighted(text: str, language: str) -> Content:
    """Return program text in few colours that every theme has; without any where the language is unknown."""
    text = printable(text).expandtabs(4)
    if not language or len(text) > LONGEST:
        return Content(text)
    from pygments.token import Token
    from textual.highlight import HighlightTheme, highlight

    class Calm(HighlightTheme):
        STYLES = {  # noqa: RUF012
            Token.Comment: "dim italic",
            Token.Comment.Preproc: "$text-secondary",
            Token.Comment.PreprocFile: "$text-success",
            Token.Keyword: "$text-accent",
            Token.Keyword.Type: "$text-secondary",
            Token.Literal.Number: "$text-warning",
            Token.Literal.String: "$text-success",
            Token.Name.Decorator: "$text-secondary",
            Token.Name.Function: "bold",
            Token.Name.Class: "bold",
            Token.Operator.Word: "$text-accent",
        }

    return highlight(text, language=_LEXERS.get(language, language), theme=Calm)


def candidate_difference(new: ListedCandidate, old: ListedCandidate) -> str:
    """Return a candidate's changes against another one as a unified diff; "" if nothing differs.

    Tunables stand in front, one a line, as their values are no part of the text.
    """

    def whole(row: ListedCandidate) -> str:
        f = row.forecast
        return "\n".join([*(f"{name} = {value}" for name, value in f.tunables.items()), f.source])

    return difference(whole(old), whole(new), f"#{old.number}", f"#{new.number}")


def coloured(diff: str) -> Content:
    """Return a unified diff with its lines coloured by what they do."""

    def line(text: str) -> Content:
        styles = {"+": "$text-success", "-": "$text-error", "@": "$text-secondary"}
        return styled(text, "bold" if text.startswith(("+++", "---")) else styles.get(text[:1], ""))

    return Content("\n").join([line(text) for text in diff.splitlines()])


class _Fence(MarkdownFence):
    """Code block in the colours of all programs, in parts: what one that grows has shown is not laid out again."""

    @classmethod
    def highlight(cls, code: str, language: str, ansi: bool = False, dark: bool = False) -> Content:
        return highlighted(code, language)

    def compose(self) -> ComposeResult:
        yield from map(Label, _parts(self._highlighted_code))

    def set_content(self, content: Content) -> None:
        self._content = content
        labels, parts = list(self.query(Label)), _parts(content)
        if not labels:
            return  # `compose` is yet to come, and shows it
        for label, part in zip(labels, parts, strict=False):
            if not (isinstance(label.content, Content) and part.is_same(label.content)):
                label.update(part)
        self.mount_all(map(Label, parts[len(labels) :]))
        for label in labels[len(parts) :]:
            label.remove()


def _parts(program: Content) -> list[Content]:
    """Return a program's text in parts of so many lines."""
    ends = [end.start() for end in re.finditer("\n", program.plain)][PART_LINES - 1 :: PART_LINES]
    return program.divide([place for end in ends for place in (end, end + 1)])[::2]


class _Table(MarkdownTable):
    """Table whose cells have no tooltips: these would read a model's text as markup."""

    def compose(self) -> ComposeResult:
        for content in super().compose():
            yield _Cells(content.headers, content.rows) if isinstance(content, MarkdownTableContent) else content


class _Cells(MarkdownTableContent):
    def compose(self) -> ComposeResult:
        for cell in super().compose():
            cell.tooltip = None
            yield cell


class Prose(Markdown):
    """Markdown that may grow; nothing in it is a control character, HTML or a link that hides where it leads."""

    BLOCKS = {  # noqa: RUF012
        **Markdown.BLOCKS,
        "fence": _Fence,
        "code_block": _Fence,
        "table_open": _Table,
    }

    def __init__(self, text: str = "", *, classes: str = "") -> None:
        super().__init__(printable(text), classes=classes, parser_factory=_parser, open_links=False)
        self._length = len(text)

    def update(self, markdown: str) -> AwaitComplete:
        """Show another text. What follows it is parsed from its last block on; Textual would begin in its last line."""
        updating = super().update(markdown)

        async def begin_at_last_block() -> None:
            await updating
            starts = [token.map[0] for token in _parser().parse(markdown) if token.level == 0 and token.map]
            self._last_parsed_line = max(starts, default=0)
            self._mark_last()

        return AwaitComplete(begin_at_last_block())

    async def follow(self, text: str) -> None:
        """Show a text that begins with the one shown so far."""
        new, self._length = text[self._length :], len(text)
        if new:
            await self.append(printable(new))
            self._mark_last()

    def _mark_last(self) -> None:
        """Give the last block its class; with `*:last-child`, each one would have all widgets styled anew."""
        for child in self.children:
            child.set_class(child is self.children[-1], "-last")


def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    parser.core.ruler.after("block", "large_tables", _show_large_tables_as_text)
    parser.core.ruler.after("inline", "addresses", _show_addresses)
    return parser


def _show_large_tables_as_text(state: StateCore) -> None:
    """Replace tables by their text from where a text has more than `MOST_CELLS` on: each cell is a widget."""
    tokens, lines = state.tokens, state.src.split("\n")
    for begin in [i for i, token in enumerate(tokens) if token.type == "table_open" and token.map][::-1]:
        end = next(i for i in range(begin, len(tokens)) if tokens[i].type == "table_close")
        if sum(t.type in ("th_open", "td_open") for t in tokens[:end]) > MOST_CELLS:
            table, rows = tokens[begin], tokens[begin].map or [0, 0]
            text = "\n".join([*lines[slice(*rows)], ""])
            tokens[begin : end + 1] = [type(table)("fence", "code", 0, content=text, map=rows, block=True)]


def _show_addresses(state: StateCore) -> None:
    """Replace links and pictures by their text with the address behind it: under other words it could lead anywhere."""
    for token in state.tokens:
        if token.children:
            token.children = list(_without_links(token.children))


def _without_links(tokens: list[Token]) -> Iterator[Token]:
    from markdown_it.token import Token

    address, text = "", ""
    for token in tokens:
        attributes: Mapping[str, object] = token.attrs
        if token.type == "link_open":
            address, text = str(attributes.get("href", "")), ""
        elif token.type == "image":
            yield Token("text", "", 0, content=f"{token.content} ({attributes.get('src', '')})")
        elif token.type == "link_close":
            if text != address:
                yield Token("text", "", 0, content=f" ({address})")
        else:
            text += token.content
            yield token
