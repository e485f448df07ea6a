"""Replies of a proposing model, and the candidates made from them: edits of a parent's source, or a whole file."""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Sequence

from pydantic import BaseModel, Field

from forewarp.core.errors import CandidateError
from forewarp.core.untrusted_text import first_line
from forewarp.core.values import Candidate, Language
from forewarp.gpu_runner.formats import candidate as candidates
from forewarp.gpu_runner.formats import plan as plans

_SHOWN = 200


class Edit(BaseModel):
    """One replacement in the parent's source."""

    search: str = Field(description="text of the parent's source, copied exactly, that occurs there once only")
    replace: str = Field(description="text to put in its place")


class WholeKernel(BaseModel):
    """The reply that is asked for; the idea first, so that it is thought of before the code is written."""

    idea: str = Field(description="one or two sentences: what this candidate does differently, and why it is faster")
    language: str = Field(description="the candidate's language")
    source: str = Field(description="the complete file, launch plan included")


class NewKernel(BaseModel):
    """The reply where there is a parent: edits of its source, or a complete file."""

    idea: str = Field(description="one or two sentences: what this candidate does differently, and why it is faster")
    edits: list[Edit] = Field(
        default_factory=list[Edit], description="changes to the parent's source; leave empty to send a complete file"
    )
    language: str = Field(default="", description="the language of a complete file; not needed with edits")
    source: str = Field(default="", description="the complete file, launch plan included; leave empty with edits")


class EditError(Exception):
    """Edits that do not fit the text; the message says which, and why."""


def apply(source: str, edits: Sequence[Edit]) -> str:
    """Return `source` with all edits made; raises `EditError` unless each search text occurs there exactly once."""
    problems: list[str] = []
    spans: list[tuple[int, int, str]] = []
    for number, edit in enumerate(edits, 1):
        count = source.count(edit.search) if edit.search else 0
        if count == 1:
            start = source.index(edit.search)
            spans.append((start, start + len(edit.search), edit.replace))
        elif count:
            problems.append(f"edit {number}: the search text occurs {count} times; add lines around it")
        else:
            problems.append(f"edit {number}: {_missing(source, edit.search)}")
    spans.sort()
    if any(one[1] > other[0] for one, other in itertools.pairwise(spans)):
        problems.append("two edits overlap; make them one")
    if problems:
        raise EditError("\n".join(problems))
    for start, end, text in reversed(spans):
        source = source[:start] + text + source[end:]
    return source


def _missing(source: str, search: str) -> str:
    first = first_line(search)
    if not first:
        return "the search text is empty"
    lines = [line for line in source.splitlines() if line.strip()]
    close = difflib.get_close_matches(first, [line.strip() for line in lines], 1)
    near = f"; the nearest line is: {close[0][:_SHOWN]}" if close else ""
    return f"the search text does not occur in the parent's source{near}"


def unfenced(source: str) -> str:
    """Return a text without the code fence that some models put around it even inside a field."""
    lines = source.strip("\n").splitlines()
    fenced = len(lines) > 2 and lines[0].startswith("```") and lines[-1].strip() == "```"
    return "\n".join(lines[1:-1]) + "\n" if fenced else source


def candidate_of(source: str, language: Language | str, parent: Candidate | None) -> Candidate:
    """Return the candidate with the parent's tunables where they are declared alike; raises `CandidateError`."""
    fresh = candidates.from_source(source, language)
    if parent is None or parent.language != fresh.language:
        return fresh
    try:
        plan, old = plans.parse(fresh), plans.parse(parent)
        same = [n for n, choices in old.tunables.items() if plan.tunables.get(n) == choices and n in parent.tunables]
        kept = {name: parent.tunables[name] for name in same}
        chosen = plan.defaults() | kept
        plan.check(chosen)
    except CandidateError:
        return fresh
    return Candidate(fresh.source, fresh.language, chosen)
