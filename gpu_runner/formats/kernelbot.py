"""Task folders of GPU MODE's KernelBot: `task.yml` with the files that it names."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from forewarp.core.errors import TaskError
from forewarp.core.values import Constant, Task, Workload
from forewarp.gpu_runner.formats.python_text import bindings

NAME = "task.yml"
SUBMISSION = "@SUBMISSION@"
FUNCTIONS = ("generate_input", "ref_kernel", "check_implementation")
MAX_WORKLOADS = 256
_MOST_VALUES = 100_000
"""Values in a task.yml, counted as often as aliases repeat them."""


def load(path: Path) -> Task:
    """Load a KernelBot task from its `task.yml`; raises `TaskError` that says what to change.

    The benchmarks become workloads of both device kinds. What else KernelBot's harness needs is not read.
    """
    table = _read(path)
    texts = _texts(path, table)
    if "reference.py" not in texts:
        hint = 'add {name: "reference.py", source: "reference.py"}'
        if table["lang"] == "cu":
            hint = "a task of lang cu may bring its reference in CUDA; forewarp reads references in Python"
        raise TaskError(f"{path}: files names no reference.py", hint=hint)
    reference = texts.pop("reference.py")
    _check_reference(path, reference)
    for name, text in texts.items():
        _parse(f"{path.parent / name}", text)
    workloads = _workloads(path, table.get("benchmarks"))
    _check_arguments(path, reference, workloads)
    description = str(table.get("description") or "").strip()
    folder = path.resolve().parent.name
    return Task(
        name=folder,
        title=next(iter(description.splitlines()), folder)[:120],
        reference=reference,
        workloads={"cpu": workloads, "cuda": workloads},
        format="gpumode",
        files=texts,
        perturb=False,  # generate_input says what inputs may be; scaled ones may mean nothing
    )


def read_yaml(path: Path) -> Any:
    """Return what a YAML file holds; raises `TaskError` for what is none, and for aliases that grow without bounds."""
    try:
        import yaml
    except ImportError:
        raise TaskError(f"{path} cannot be read without PyYAML", hint="pip install pyyaml") from None
    try:
        table = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as e:
        raise TaskError(f"{path} cannot be read: {e}", hint="pass a folder with a task.yml") from None
    except (yaml.YAMLError, RecursionError) as e:
        raise TaskError(f"{path} is not valid YAML: {e}", hint="check indentation, colons and quotes there") from None
    waiting = [table]
    for _ in range(_MOST_VALUES):
        if not waiting:
            return table
        value = waiting.pop()
        if isinstance(value, dict | list):
            waiting += cast("dict[Any, Any]", value).values() if isinstance(value, dict) else cast("list[Any]", value)
    raise TaskError(f"{path} holds more than {_MOST_VALUES:,} values", hint="write out what its aliases (*name) repeat")


def _read(path: Path) -> dict[str, Any]:
    table = read_yaml(path)
    if not isinstance(table, dict):
        raise TaskError(f"{path} must be a mapping with files, lang, config and benchmarks")
    found = cast("dict[str, Any]", table)
    if found.get("lang") not in ("py", "cu"):
        raise TaskError(f"{path}: lang is {found.get('lang')!r}", hint="KernelBot knows py and cu")
    return found


def _texts(path: Path, table: Mapping[str, Any]) -> dict[str, str]:
    """Return the task's Python files by name, without the submission and KernelBot's own harness."""
    entries = table.get("files")
    if not isinstance(entries, list) or not entries:
        raise TaskError(f"{path}: files must be a list of {{name: …, source: …}}")
    config = table.get("config")
    main = cast("dict[str, Any]", config).get("main") if isinstance(config, dict) else None
    texts: dict[str, str] = {}
    submissions = 0
    for entry in cast("list[Any]", entries):
        if not isinstance(entry, dict) or not {"name", "source"} <= set(cast("dict[str, Any]", entry)):
            raise TaskError(f"{path}: an entry of files is {entry!r}; write {{name: …, source: …}}")
        name, source = str(cast("Any", entry["name"])), str(cast("Any", entry["source"]))
        if source == SUBMISSION:
            submissions += 1
        elif name.endswith(".py") and name != main:
            texts[name] = _text(path, source)
    if submissions != 1:
        raise TaskError(
            f"{path}: files names {submissions} submissions, not one",
            hint=f'add {{name: "submission.py", source: "{SUBMISSION}"}}',
        )
    return texts


def _text(path: Path, source: str) -> str:
    try:
        return (path.parent / source).read_text()
    except OSError as e:
        raise TaskError(
            f"{path}: its file {source} cannot be read: {e.strerror}",
            hint="sources are relative to task.yml; a helper of several tasks often lies one folder up, ../utils.py",
        ) from None
    except UnicodeDecodeError:
        raise TaskError(f"{path}: its file {source} is not UTF-8 text") from None


def _parse(name: str, text: str) -> ast.Module:
    try:
        return ast.parse(text, name)
    except (SyntaxError, ValueError) as e:
        raise TaskError(f"{name} is not a Python file: {e}") from None


def _check_reference(path: Path, reference: str) -> None:
    _parse(f"{path.parent / 'reference.py'}", reference)
    defined = bindings(reference)
    missing = [name for name in FUNCTIONS if name not in defined]
    if missing:
        raise TaskError(
            f"{path.parent / 'reference.py'} does not define {', '.join(missing)}",
            hint="it defines generate_input(…, seed), ref_kernel(data) and check_implementation(data, output)",
        )


def _check_arguments(path: Path, reference: str, workloads: Sequence[Workload]) -> None:
    """Raise `TaskError` where `generate_input` needs the rank of one of several GPUs."""
    for node in ast.parse(reference).body:
        if not isinstance(node, ast.FunctionDef) or node.name != "generate_input":
            continue
        names = [a.arg for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
        if "rank" in names and not all("rank" in w.constants for w in workloads):
            raise TaskError(
                f"{path}: generate_input takes rank, so this is a task for several GPUs",
                hint="forewarp measures kernels on one GPU; take a task of one",
            )


def _workloads(path: Path, benchmarks: Any) -> tuple[Workload, ...]:
    if not isinstance(benchmarks, list) or not benchmarks:
        raise TaskError(
            f"{path} has no benchmarks", hint="add a list such as benchmarks: [{m: 1024, n: 2048, seed: 123}]"
        )
    found: dict[str, Workload] = {}
    for index, entry in enumerate(cast("list[Any]", benchmarks)):
        where = f"{path}: benchmarks[{index}]"
        if not isinstance(entry, dict):
            raise TaskError(f"{where} is {entry!r}; write {{argument: value, …}}")
        arguments = {str(k): _argument(v, f"{where}.{k}") for k, v in cast("dict[Any, Any]", entry).items()}
        arguments.pop("seed", None)  # drawn afresh for each measurement
        short = {k: re.sub(r"[\s\[\]]", "", str(v)) for k, v in arguments.items()}
        name = " ".join(f"{k}={v}" for k, v in short.items()) or "default"
        found[name] = Workload(name, arguments)
    if len(found) > MAX_WORKLOADS:
        raise TaskError(f"{path} has {len(found)} benchmarks; {MAX_WORKLOADS} is the most")
    return tuple(found.values())


def _argument(value: Any, where: str) -> Constant:
    if isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list) and all(isinstance(v, int | float | str) for v in cast("list[Any]", value)):
        return cast("list[int]", value)
    raise TaskError(f"{where} is {value!r}; an argument is a number, a string, true, false, or a list of those")
