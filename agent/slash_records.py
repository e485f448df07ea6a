"""Slash commands on existing records: candidates, runs, files made of them, and conversations."""

from __future__ import annotations

import asyncio
import difflib
import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import cast

from forewarp.agent import arguments
from forewarp.agent.arguments import at_most, new_file
from forewarp.agent.board import Board, BoardRow
from forewarp.agent.commanded import Commanded
from forewarp.agent.events import Noted
from forewarp.agent.settings import Settings
from forewarp.agent.slash_kernels import row_of
from forewarp.core.errors import UsageError
from forewarp.core.values import Candidate, Language
from forewarp.prompts.render import fenced
from forewarp.tools.parts import shown
from forewarp.tools.wording import spread

MOST_ROWS, MOST_RUNS, MOST_CONVERSATIONS = 60, 20, 20
_RUN = re.compile(r"r-[0-9a-f]+")


async def candidates(on: Commanded, given: Sequence[str]) -> None:
    """`/candidates`: show the board as a table."""
    at_most(given, 0, "/candidates")
    if not len(on.board):
        on.emit(Noted("No candidates yet. `/forecast TASK FILE` forecasts a kernel."))
        return
    rows = list(on.board)
    head = ["| # | kernel | task | forecast [80 %] | correct | advice | measured [95 %] | surprise |", "|" + "---|" * 8]
    left = len(rows) - MOST_ROWS
    more = [f"\nThe latest {MOST_ROWS} of {len(rows)}."] if left > 0 else []
    on.emit(Noted("\n".join([*head, *map(_line, rows[-MOST_ROWS:]), *more])))


async def best(on: Commanded, given: Sequence[str]) -> None:
    """`/best`: show the fastest correct candidate with its text."""
    at_most(given, 1, "/best [TASK]")
    row = _best(on.board, given[0] if given else "")
    f, e = row.forecast, row.expected
    text = await asyncio.to_thread(baked, row)
    language = "cpp" if f.language in ("cpp", "cuda") else "python"
    expected = spread(e.median, e.low, e.high)
    on.emit(
        Noted(
            f"**{row.number}** {_named(row)}, {f.task} on {f.device}: {_measured(row)}; forecast {expected}.\n\n"
            f"{fenced(text, language)}"
        )
    )


async def diff(on: Commanded, given: Sequence[str]) -> None:
    """`/diff`: show what a candidate changes against its parent, or against another one."""
    at_most(given, 2, "/diff N [M]")
    if not given:
        raise UsageError("which candidate?", hint="it is /diff N [M]; /candidates lists them")
    row = row_of(on, given[0])
    other = row_of(on, given[1]) if len(given) == 2 else on.board.parent(row)
    if other is None:
        raise UsageError(f"nobody knows what candidate {row.number} was made from", hint=f"/diff {row.number} M")
    old, new = await asyncio.to_thread(lambda: (baked(other), baked(row)))
    names = (f"candidate {other.number}", f"candidate {row.number}")
    lines = difflib.unified_diff(old.splitlines(), new.splitlines(), *names, lineterm="")
    text = "\n".join(lines)
    on.emit(Noted(fenced(text, "diff") if text else f"{names[0]} and {names[1]} have the same text."))


async def export(on: Commanded, given: Sequence[str]) -> None:
    """`/export`: write a candidate's text, or a run's drop-in module."""
    at_most(given, 2, "/export [NUMBER|RUN] [PATH]")
    left = list(given)
    which = left.pop(0) if left and (left[0].isdigit() or _RUN.fullmatch(left[0])) else ""
    path = left.pop(0) if left else ""
    if left:
        raise UsageError(f"{path!r} is no candidate and no run", hint="/candidates and /runs list them")
    if _RUN.fullmatch(which):
        on.emit(Noted(await asyncio.to_thread(_export_run, on.settings, which, path)))
        return
    row = row_of(on, which) if which else _best(on.board, "")
    on.emit(Noted(await asyncio.to_thread(_export_row, on.settings, row, path)))


async def report(on: Commanded, given: Sequence[str]) -> None:
    """`/report`: write a run as an HTML page."""
    at_most(given, 1, "/report [RUN]")

    def write() -> str:
        from forewarp.report.run_page import write_page

        written = write_page(on.settings.place, given[0] if given else None, folder=on.settings.folder)
        return f"{written.result.summary}\n\nIts page is `{written.path}`."

    on.emit(Noted(await asyncio.to_thread(write)))


async def runs(on: Commanded, given: Sequence[str]) -> None:
    """`/runs`: the latest runs of the archive."""
    at_most(given, 0, "/runs")

    def listed() -> str:
        from forewarp.tools.describe import latest_runs

        found = latest_runs(on.settings.place, MOST_RUNS)
        if not found:
            return "There are no runs in the archive yet. `/search TASK` starts one."
        lines = [f"| `{r.run_id}` | {r.task} | {r.device} | {r.status} | {r.best or '–'} |" for r in found]
        return "\n".join(["| run | task | device | status | best [95 %] |", "|---|---|---|---|---|", *lines])

    on.emit(Noted(await asyncio.to_thread(listed)))


async def resume(on: Commanded, given: Sequence[str]) -> None:
    """`/resume`: list conversations, or take one up."""
    at_most(given, 1, "/resume [ID]")
    if given:
        await on.resume(given[0])
        return
    on.emit(Noted(await asyncio.to_thread(conversations, on.settings)))


async def compact(on: Commanded, given: Sequence[str]) -> None:
    """`/compact`: have the conversation summarised."""
    at_most(given, 0, "/compact")
    if not on.message_count:
        raise UsageError("there is nothing to summarise yet", hint="ask the model something first")
    await on.compact()


def _best(board: Board, task: str) -> BoardRow:
    row = board.best(task)
    if row is None:
        where = f" of {task}" if task else ""
        raise UsageError(f"no candidate{where} was measured as correct yet", hint="/measure one, or /search a task")
    return row


def _line(row: BoardRow) -> str:
    f, e, m = row.forecast, row.expected, row.measured
    correct = "–" if e.p_valid is None else f"{e.p_valid:.0%}"
    surprise = "–" if m is None or m.surprise is None else f"{m.surprise:+.1f} σ"
    cells = (row.number, _named(row), f.task, spread(e.median, e.low, e.high), correct, f.advice or "–")
    return f"| {' | '.join(map(str, cells))} | {_measured(row)} | {surprise} |"


def _named(row: BoardRow) -> str:
    f = row.forecast
    return f"`{f.kernel[:10]}` {f.language}{f' {shown(f.tunables)}' if f.tunables else ''}"


def _measured(row: BoardRow) -> str:
    m = row.measured
    if m is None:
        return "–"
    said = f"{spread(m.speedup, m.low, m.high)} {m.verdict}" if m.speedup is not None else m.status
    return f"{said} (replay)" if m.provenance == "replay" else said


def baked(row: BoardRow) -> str:
    """Return a candidate's text with its tunables as the plan's defaults."""
    from forewarp.export.bake import bake

    f = row.forecast
    return bake(Candidate(f.source, _language(row), f.tunables))


def _language(row: BoardRow) -> Language:
    return cast("Language", row.forecast.language)


def conversations(settings: Settings) -> str:
    """Return the conversations as a table, the latest first."""
    from forewarp.agent.transcript import conversations as recorded

    found = recorded(settings.place)
    if not found:
        return "No conversation was recorded yet."
    lines = [
        f"| `{h.id}` | {time.strftime('%Y-%m-%d %H:%M', time.localtime(h.began))} | {h.title or '–'} | {h.folder} |"
        for h in found[:MOST_CONVERSATIONS]
    ]
    more = [f"\nThe latest {MOST_CONVERSATIONS} of {len(found)}."] if len(found) > MOST_CONVERSATIONS else []
    return "\n".join(["| id | began | first words | folder |", "|---|---|---|---|", *lines, *more])


def _export_row(settings: Settings, row: BoardRow, path: str) -> str:
    from forewarp.export.bake import SUFFIXES

    f = row.forecast
    chosen = new_file(settings.folder, path or f"{f.task}_{row.number}{SUFFIXES[_language(row)]}")
    _write(chosen, baked(row))
    return f"Candidate {row.number} is in `{arguments.shown(settings.folder, chosen)}`."


def _export_run(settings: Settings, run: str, path: str) -> str:
    from forewarp.tools import session
    from forewarp.tools.export import MODULE, drop_in

    with session.existing_archive(settings.place, run) as archive:
        run = archive.run(run).id
        made = drop_in(archive, run)
    if made is None:
        raise UsageError(f"nothing worked in run {run}, so there is no winner", hint=f"/report {run} says what failed")
    if made.text is None:
        raise UsageError(f"no module can be made: {made.evidence.why_no_module}", hint="/export NUMBER writes the text")
    chosen = new_file(settings.folder, path or Path("forewarp-runs", run, MODULE))
    _write(chosen, made.text)
    return f"The winner of run `{run}` is a module, `{arguments.shown(settings.folder, chosen)}`: {made.evidence.said}."


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as e:
        raise UsageError(f"{path} cannot be written: {e.strerror}", hint="name a file elsewhere") from None
