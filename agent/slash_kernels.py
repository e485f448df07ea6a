"""Slash commands on kernels: the task, and the three verbs."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path

from forewarp.agent import arguments
from forewarp.agent.arguments import Arguments, at_most, inside, whole
from forewarp.agent.board import BoardRow
from forewarp.agent.commanded import Commanded
from forewarp.agent.events import Noted
from forewarp.agent.file_rules import readable_file
from forewarp.agent.kit import MAX_SEARCH
from forewarp.agent.settings import Settings
from forewarp.core.errors import UsageError
from forewarp.prompts.render import fenced
from forewarp.tools.parts import Kernel

SEARCH_BUDGET = 12
REFERENCE_LINES = 40


async def task(on: Commanded, given: Sequence[str]) -> None:
    """`/task`: list the tasks that have names, or set one and show it."""
    at_most(given, 1, "/task [NAME|FILE]")
    if not given:
        on.emit(Noted(await asyncio.to_thread(_listed, on.settings)))
        return
    text = await asyncio.to_thread(_described, on.settings, given[0])
    on.change(given[0], task=given[0])
    on.emit(Noted(text))


async def forecast(on: Commanded, given: Sequence[str]) -> None:
    """`/forecast`: forecast kernels, none of which is run."""
    found = arguments.read(given, tunables=True)
    named, kernels = await asyncio.to_thread(_kernels, on, found, "/forecast [TASK] FILE… [NAME=VALUE…]")
    await on.tools.forecast(_call(), task=named, kernels=kernels)


async def measure(on: Commanded, given: Sequence[str]) -> None:
    """`/measure`: measure one kernel."""
    usage = "/measure [TASK] FILE [NAME=VALUE…] [--insist WHY]"
    found = arguments.read(given, rest="--insist", tunables=True)
    named, kernels = await asyncio.to_thread(_kernels, on, found, usage)
    if len(kernels) > 1:
        raise UsageError("one kernel is measured at a time", hint="/forecast ranks several; measure the best of them")
    await on.tools.measure(_call(), task=named, kernel=kernels[0], insist=found.option("--insist"))


async def search(on: Commanded, given: Sequence[str]) -> None:
    """`/search`: try variants under a budget."""
    found = arguments.read(given, options=("--seed-kernel",))
    names = [w for w in found.words if not w.isdigit()]
    counts = [w for w in found.words if w.isdigit()]
    at_most(names, 1, "/search [TASK] [N] [--seed-kernel FILE]")
    at_most(counts, 1, "/search [TASK] [N] [--seed-kernel FILE]")
    budget = whole(counts[0], "the budget") if counts else SEARCH_BUDGET
    if not 1 <= budget <= MAX_SEARCH:
        raise UsageError(
            f"a search takes 1 to {MAX_SEARCH} measurements, not {budget}", hint="such as /search softmax 12"
        )
    seeds = found.options.get("--seed-kernel", [])
    for seed in seeds:
        _file(on.settings.folder, seed)
    await on.tools.search(_call(), task=_task(on.settings, names), budget=budget, seed_kernels=seeds)


def task_of(settings: Settings, row: BoardRow) -> str:
    """Return how to name the task of a candidate so that it is found again."""
    named = settings.task
    return named if named and Path(named).stem == row.forecast.task else row.forecast.task


def row_of(on: Commanded, number: str) -> BoardRow:
    """Return the candidate with this number; raises `UsageError`."""
    row = on.board.row(whole(number, "a candidate's number"))
    if row is None:
        there = f"there are 1 to {len(on.board)}" if len(on.board) else "there is none yet; /forecast a kernel first"
        raise UsageError(f"there is no candidate {number}", hint=f"{there}; /candidates lists them")
    return row


def _call() -> str:
    return f"user-{secrets.token_hex(4)}"


def _kernels(on: Commanded, found: Arguments, usage: str) -> tuple[str, list[Kernel]]:
    """Return the task and the kernels that are named, by files or by numbers of candidates."""
    names = list(found.words)
    if not names:
        raise UsageError("which kernel?", hint=f"it is {usage}; FILE may also be a candidate's number")
    first = [names.pop(0)] if _names_task(on.settings, names[0], alone=len(names) == 1) else []
    if first and not names:
        raise UsageError(f"which kernel for {first[0]}?", hint=f"it is {usage}")
    rows = {name: row_of(on, name) for name in names if name.isdigit()}
    kernels = [
        _again(rows[name], found.tunables)
        if name in rows
        else Kernel(path=_file(on.settings.folder, name), tunables=found.tunables)
        for name in names
    ]
    tasks = {task_of(on.settings, row) for row in rows.values()}
    if not first and len(rows) == len(names) and len(tasks) == 1:
        return tasks.pop(), kernels
    return _task(on.settings, first), kernels


def _again(row: BoardRow, tunables: Mapping[str, int]) -> Kernel:
    f = row.forecast
    return Kernel.model_validate({"source": f.source, "language": f.language, "tunables": {**f.tunables, **tunables}})


def _task(settings: Settings, named: Sequence[str]) -> str:
    if named:
        return named[0]
    if not settings.task:
        raise UsageError(
            "which task?", hint="name it first, or set it with /task NAME; /task lists those that have names"
        )
    return settings.task


def _names_task(settings: Settings, word: str, *, alone: bool) -> bool:
    """Return whether the first word is a task: a bundled name, a folder, a KernelBench problem, or no file at all."""
    from forewarp.tools import session

    if word.isdigit():
        return False
    if word in session.bundled_tasks():
        return True
    path = inside(settings.folder, word)
    if path.is_file():
        return path.name == "task.yml" or (path.suffix == ".py" and _is_problem(path))
    return path.is_dir() or (not alone and not Path(word).suffix)


def _is_problem(path: Path) -> bool:
    text = path.read_text(encoding="utf-8", errors="replace")
    return "def get_inputs" in text and "class Model" in text and "ModelNew" not in text


def _file(folder: Path, name: str) -> str:
    """Return the name of a file that is there, below the folder; raises `UsageError`."""
    if not inside(folder, name).is_file():
        raise UsageError(f"there is no file {name} in {folder}", hint="name a kernel file below the working folder")
    return name


def _listed(settings: Settings) -> str:
    from forewarp.tools.describe import tasks_at

    lines = [f"- `{name}`: {title}" for name, title in tasks_at(settings.place).items()]
    current = f"The task is `{settings.task}`." if settings.task else "No task is set; `/task NAME` sets one."
    whose = "Tasks of the pool:" if settings.place.device == "replay" else "Bundled tasks:"
    return "\n".join([current, "", whose, "", *lines])


def _described(settings: Settings, name: str) -> str:
    from forewarp.tools.describe import task_of as facts_of

    there = (settings.folder / name).exists()
    found = facts_of(str(readable_file(settings.folder, name)) if there else name, settings.place)
    lines = found.reference.strip().splitlines()
    more = [f"# … {len(lines) - REFERENCE_LINES} more lines"] if len(lines) > REFERENCE_LINES else []
    seeds = [f"{language} ({len(text.splitlines())} lines)" for language, text in found.seeds.items()]
    return "\n".join(
        [
            f"**{found.name}**: {found.title}",
            "",
            *(f"- {shape}: {constants or 'as in the file'}" for shape, constants in found.shapes.items()),
            f"- tolerance: {found.tolerance}",
            f"- seed kernels: {', '.join(seeds) or 'none for this device'}",
            "",
            fenced("\n".join([*lines[:REFERENCE_LINES], *more]), "python"),
        ]
    )
