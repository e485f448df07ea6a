"""Problems and kernels of a suite: finding the files, and matching kernels to problems by name."""

from __future__ import annotations

import glob
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath

from forewarp.core.errors import UsageError
from forewarp.core.languages import KERNEL_SUFFIXES
from forewarp.gpu_runner.formats import kernelbot

TASK_FILES = ("task.toml", kernelbot.NAME)

_LEVEL = re.compile(r"level_?(\d+)", re.IGNORECASE)
_NUMBERED = re.compile(r"(?:level_?(?P<level>\d+)[_-])?(?:problem_?)?(?P<number>\d+)(?=$|[_.\- ])", re.IGNORECASE)
# What may follow a problem's name in the name of one of its kernels: 12_relu_sample_3_kernel, 12_relu.v2, 12_relu-1.
_SAMPLE = re.compile(r"(?:[_.\-](?:kernel|sample|attempt|try|candidate|best|v?\d+))*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ProblemFile:
    """A problem that was found, not read yet: `name` is its path below the given folder, without the suffix."""

    name: str
    path: Path

    @property
    def stem(self) -> str:
        """Its name without folders, such as 12_Matmul."""
        return PurePosixPath(self.name).name

    @property
    def number(self) -> str:
        """The number that its name begins with, "" where there is none."""
        return _number(re.match(r"(\d+)(?=$|[_.\- ])", self.stem))

    @property
    def level(self) -> str:
        """The level of the folder that it lies in, "" where that is not called level1, level2 and so on."""
        return _number(_LEVEL.fullmatch(self.path.absolute().parent.name))


@dataclass(frozen=True, slots=True)
class KernelFile:
    """A kernel's file: `name` is its path below the given folder."""

    name: str
    path: Path


@dataclass(frozen=True, slots=True)
class Matched:
    """Each problem with its kernels, both in order, and what belongs to none, with the reason."""

    kernels: dict[str, list[KernelFile]]
    unmatched: list[tuple[KernelFile, str]]


def find_problems(given: str) -> list[ProblemFile]:
    """Return the problems of a folder, a file or a glob, in natural order: 2 before 10.

    Problems are Python files, and folders with `task.toml` or `task.yml`; they are looked for in sub-folders, too.
    Raises `UsageError` where there are none.
    """
    found = _one_of_each(_candidates(given))
    if not found:
        raise UsageError(
            f"there is no problem at {given}",
            hint="pass a folder of KernelBench files or GPU MODE task folders, one such file, or a quoted glob",
        )
    return sorted(found, key=lambda p: natural(p.name))


def choose_problems(found: Sequence[ProblemFile], only: str | None, limit: int | None) -> list[ProblemFile]:
    """Return the first `limit` problems whose name, or stem, fits the glob `only`; raises `UsageError` for none."""
    fitting = [p for p in found if only is None or fnmatch(p.name, only) or fnmatch(p.stem, only)]
    if not fitting:
        some = ", ".join(p.name for p in found[:3])
        raise UsageError(f"no problem is called {only}", hint=f"--only takes a quoted glob; there are {some}, …")
    return fitting[:limit]


def _candidates(given: str) -> Iterator[ProblemFile]:
    root = Path(given).expanduser()
    if root.is_dir():
        if _is_task(root):
            yield ProblemFile(root.absolute().name, root)
            return
        yield from _below(root, root)
        return
    if root.is_file():
        if root.name in TASK_FILES:
            yield ProblemFile(root.absolute().parent.name, root.parent)
        else:
            yield ProblemFile(root.stem, root)
        return
    for match in sorted(glob.glob(str(root), recursive=True)):
        yield from _candidates(match)


def _below(folder: Path, root: Path) -> Iterator[ProblemFile]:
    for path in sorted(folder.iterdir()):
        if _ignored(path):
            continue
        if path.is_dir():
            if _is_task(path):
                yield ProblemFile(path.relative_to(root).as_posix(), path)
            else:
                yield from _below(path, root)
        elif path.suffix == ".py":
            yield ProblemFile(path.relative_to(root).with_suffix("").as_posix(), path)


def _one_of_each(found: Iterator[ProblemFile]) -> list[ProblemFile]:
    """Keep one of each path; a glob that matches files of one name in several folders names them with their folder."""
    by_path = {p.path.absolute(): p for p in found}
    names = [p.name for p in by_path.values()]
    return [
        p if names.count(p.name) == 1 else ProblemFile(f"{path.parent.name}/{p.name}", p.path)
        for path, p in by_path.items()
    ]


def find_kernels(given: str) -> list[KernelFile]:
    """Return the kernel files of a folder and its sub-folders, or one file; raises `UsageError` for none."""
    root = Path(given).expanduser()
    if root.is_file():
        return [KernelFile(root.name, root)]
    found = [
        KernelFile(p.relative_to(root).as_posix(), p)
        for p in root.rglob("*")
        if p.suffix in KERNEL_SUFFIXES and p.is_file() and not any(map(_ignored, map(Path, p.relative_to(root).parts)))
    ]
    if not found:
        what = "has no kernels" if root.is_dir() else "is neither a folder nor a file"
        raise UsageError(
            f"{given} {what}",
            hint="kernels are .py files with ModelNew or custom_kernel, or .cu and .cpp files with a launch plan",
        )
    return sorted(found, key=lambda k: natural(k.name))


def match(problems: Sequence[ProblemFile], kernels: Sequence[KernelFile], every: Sequence[ProblemFile]) -> Matched:
    """Give each kernel to the problem that its own name, or that of a folder above it, names.

    A name tells the problem by its stem, with or without a sample's number behind it, or else by KernelBench's level
    and number (`level_1_problem_12_sample_0_kernel`, `level1_12_relu`, `12`). `every` are all that
    `problems` were chosen from: a kernel of another one is not unmatched.
    """
    chosen = {p.name for p in problems}
    matched = Matched({p.name: [] for p in problems}, [])
    for kernel in kernels:
        found, reason = _problem_of(kernel, every)
        if found is None:
            matched.unmatched.append((kernel, reason))
        elif found.name in chosen:
            matched.kernels[found.name].append(kernel)
    return matched


def _problem_of(kernel: KernelFile, problems: Sequence[ProblemFile]) -> tuple[ProblemFile | None, str]:
    """Return the problem that a kernel is for, or why there is none; a name tells more than a number."""
    parts = PurePosixPath(kernel.name).with_suffix("").parts
    above = kernel.path.absolute().parent.parts[-len(parts) :]
    names = [*reversed(parts)]
    for found in ([_with_sample(n, problems) for n in names], [_numbered(n, problems) for n in names]):
        # Folder 12 with a file 1.py in it: nobody knows whether that is for problem 1 or the first one for problem 12.
        distinct = {p.name: p for f in found for p in _nearest(f, above)}
        if len(distinct) == 1:
            return next(iter(distinct.values())), ""
        if distinct:
            said = ", ".join(list(distinct)[:3]) + ", …" * (len(distinct) > 3)
            return None, f"its name may mean {said}; put the problem's whole name in it"
    return None, "its name is that of no problem"


def _numbered(name: str, problems: Sequence[ProblemFile]) -> list[ProblemFile]:
    """Return the problems with the number in a name, and with its level where that is in it, too."""
    told = _NUMBERED.match(name)
    if told is None:
        return []
    number, level = str(int(told["number"])), str(int(told["level"] or 0))
    return [p for p in problems if p.number == number and (level == "0" or p.level in ("", level))]


def _nearest(found: Sequence[ProblemFile], above: Sequence[str]) -> Sequence[ProblemFile]:
    """Return those of several problems that lie in a level or folder of the same name as the kernel does."""
    if len(found) < 2:
        return found
    levels = {_number(_LEVEL.match(folder)) for folder in above} - {""}
    return (
        [p for p in found if p.level in levels]
        or [p for p in found if set(PurePosixPath(p.name).parts[:-1]) & set(above)]
        or found
    )


def _with_sample(name: str, problems: Sequence[ProblemFile]) -> list[ProblemFile]:
    """Return the problems with the longest stem that the name is, but for a sample's number behind it."""
    able = [p for p in problems if name.startswith(p.stem) and _SAMPLE.fullmatch(name[len(p.stem) :])]
    longest = max((len(p.stem) for p in able), default=0)
    return [p for p in able if len(p.stem) == longest]


def natural(name: str) -> list[tuple[int, str]]:
    """Return a key that sorts numbers in names by value."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]


def _number(found: re.Match[str] | None) -> str:
    return str(int(found[1])) if found else ""


def _is_task(folder: Path) -> bool:
    return any((folder / name).is_file() for name in TASK_FILES)


def _ignored(path: Path) -> bool:
    return path.name.startswith((".", "__"))
