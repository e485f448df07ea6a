"""Tasks from the bundled folder, from a folder of the same form, from KernelBot's folders, or a KernelBench file."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from forewarp.core.errors import TaskError, did_you_mean
from forewarp.core.languages import KERNEL_SUFFIXES
from forewarp.core.values import Constant, Task, Workload
from forewarp.gpu_runner.formats import candidate as candidates
from forewarp.gpu_runner.formats import kernelbot, task_table
from forewarp.gpu_runner.formats.beside import with_files

BUNDLED = Path(__file__).parents[2] / "tasks"
BUNDLED_POOL = BUNDLED / "pool.parquet"
"""Part of the pool `forewarp-h200`: measurements on its training tasks."""
KERNELBENCH_NAMES = {
    "Model": "class Model(torch.nn.Module):\n    def forward(self, x):\n        return …",
    "get_inputs": "def get_inputs():  # what forward is called with\n    return [torch.randn(1024, 1024)]",
    "get_init_inputs": "def get_init_inputs():  # what Model is made with\n    return []",
}
"""Names that a KernelBench file defines, each with how that looks."""


def bundled() -> list[str]:
    return sorted(p.parent.name for p in BUNDLED.glob("*/task.toml"))


def load(name_or_path: str) -> Task:
    """Load a task by bundled name, by folder (`task.toml` or KernelBot's `task.yml`), or by KernelBench file.

    Raises `TaskError` that says what is missing.
    """
    path = Path(name_or_path)
    if name_or_path in bundled():
        return _from_folder(BUNDLED / name_or_path)
    if path.name == kernelbot.NAME and path.is_file():
        return kernelbot.load(path)
    if (path / kernelbot.NAME).is_file() and not (path / "task.toml").exists():
        return kernelbot.load(path / kernelbot.NAME)
    if path.is_dir():
        return _from_folder(path)
    if path.is_file():
        default = (Workload("default"),)
        return Task(path.stem, path.stem, _reference(path), {"cpu": default, "cuda": default})
    hint = f"{did_you_mean(name_or_path, bundled())}bundled tasks: {', '.join(bundled())}; or pass the path of a "
    raise TaskError(
        f"no task is called {name_or_path!r} and no such file exists",
        hint=f"{hint}KernelBench file or of a task's folder",
    )


def from_source(
    source: str,
    name: str,
    *,
    title: str = "",
    workloads: Mapping[str, Mapping[str, Constant]] | None = None,
    **fields: Any,
) -> Task:
    """Make a task of a KernelBench reference that is given as text; raises `TaskError`.

    `workloads` maps names to the module constants that they set, on every device; `fields` are further ones of `Task`.
    """
    entries = _workloads(workloads or {})
    return Task(
        name=name,
        title=title or name,
        reference=_checked(source, f"the reference of {name}"),
        workloads={"cpu": entries, "cuda": entries},
        **fields,
    )


def _from_folder(folder: Path) -> Task:
    fields = task_table.read(folder / task_table.NAME)
    fields["title"] = fields["title"] or folder.name
    seeds = (p for p in sorted((folder / "seeds").glob("*")) if p.suffix in KERNEL_SUFFIXES)
    reference = _reference(folder / "reference.py")
    return Task(folder.name, reference=reference, seeds=tuple(map(candidates.load, seeds)), **fields)


def _workloads(table: Any) -> tuple[Workload, ...]:
    if not isinstance(table, Mapping):
        raise TaskError("workloads must be a table of name = {CONSTANT = value}")
    entries = cast("Mapping[str, dict[str, Any]]", table)
    return tuple(Workload(name, constants) for name, constants in entries.items()) or (Workload("default"),)


def _reference(path: Path) -> str:
    """Read a KernelBench reference; parsed here, run only in a worker."""
    try:
        source = path.read_text(encoding="utf-8-sig")
    except OSError as e:
        raise TaskError(f"{path} cannot be read: {e.strerror}") from None
    except UnicodeDecodeError as e:
        raise TaskError(f"{path} is not a Python file: {e}") from None
    return with_files(_checked(source, str(path)), path)


def _checked(source: str, where: str) -> str:
    try:
        tree = ast.parse(source, where)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as e:
        raise TaskError(f"{where} is not a Python file: {e}") from None
    defined = {n.name for n in tree.body if isinstance(n, ast.ClassDef | ast.FunctionDef)}
    missing = [n for n in KERNELBENCH_NAMES if n not in defined]
    if missing:
        raise TaskError(
            f"{where} does not define {', '.join(missing)}",
            hint="\n\n".join(["add what is missing, such as", *(KERNELBENCH_NAMES[name] for name in missing)]),
        )
    return source
