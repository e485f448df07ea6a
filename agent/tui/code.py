"""Program text in few colours that every theme has, and unified diffs."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import TYPE_CHECKING

from textual.content import Content

from forewarp.agent.tui.printable import styled
from forewarp.core.untrusted_text import printable

if TYPE_CHECKING:
    from forewarp.agent.candidates import CandidateRow

LONGEST = 60_000
"""Characters from which on a text is shown without colours: highlighting it would cause a delay."""

_LEXERS: Mapping[str, str] = {"cpp": "cpp", "cuda": "cuda", "triton": "python", "python": "python"}


def highlighted(text: str, language: str) -> Content:
    """Return a candidate's text with its syntax coloured; `language` is that of the candidate."""
    text = printable(text)
    lexer = _LEXERS.get(language)
    if lexer is None or len(text) > LONGEST:
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

    return highlight(text, language=lexer, theme=Calm, tab_size=4)


def changes(new: CandidateRow, old: CandidateRow) -> str:
    """Return a candidate's changes against another one as a unified diff; "" if nothing differs.

    Tunables stand in front, one a line, as their values are no part of the text.
    """
    lines = difflib.unified_diff(_lines(old), _lines(new), f"#{old.number}", f"#{new.number}", lineterm="")
    return "\n".join(lines)


def _lines(row: CandidateRow) -> list[str]:
    return [*(f"{name} = {value}" for name, value in row.forecast.tunables.items()), *row.forecast.source.splitlines()]


def coloured(diff: str) -> Content:
    """Return a unified diff with its lines coloured by what they do."""
    return Content("\n").join([_line(line) for line in diff.splitlines()])


def _line(line: str) -> Content:
    if line.startswith(("+++", "---")):
        return styled(line, "bold")
    style = {"+": "$text-success", "-": "$text-error", "@": "$text-secondary"}.get(line[:1], "")
    return styled(line, style) if style else Content(line)
