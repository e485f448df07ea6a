"""Run a file's statements one by one, so that one that fails does not hide what comes after it."""

from __future__ import annotations

import ast
import codeop
import contextlib
import importlib
import importlib.util
import os
import stat
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from forewarp.gpu_runner.worker.toolchain import private
from forewarp.inspection.tracing.values import SourceFile

_NAME = "inspected_file"
Bounded = Callable[[str, Callable[[], object]], str]
"""Run a named action within its time; return what went wrong, else ""."""


@dataclass(slots=True)
class LoadedFile:
    """The module that a file became, as far as it got, and why statements failed."""

    module: ModuleType
    tree: ast.Module
    path: str
    compiler: Callable[..., CodeType]
    problems: list[str] = field(default_factory=list[str])


def load(file: SourceFile, bounded: Bounded) -> LoadedFile:
    """Import a file as a part of its package, or statement by statement; raises SyntaxError."""
    path = _place(file)
    tree = ast.parse(file.source, path)
    compiler: Any = codeop.Compile()
    compiler(tree, path, "exec")
    package, root = package_of(Path(path))
    sys.path.insert(0, str(root))
    sys.meta_path.insert(0, _Beside(root))
    problems: list[str] = []
    if package:
        imported: list[ModuleType] = []
        name = f"{package}.{Path(path).stem}"
        problem = bounded(f"importing {name}", lambda: imported.append(importlib.import_module(name)))
        if imported and not problem:
            return LoadedFile(imported[0], tree, path, compiler)
        problems.append(problem)
    loaded = LoadedFile(_module(path, package), tree, path, compiler, problems)
    for statement in tree.body:
        _run(statement, loaded, bounded)
    return loaded


def run_main(loaded: LoadedFile, bounded: Bounded) -> str:
    """Run the statements under `if __name__ == "__main__"`; return what went wrong."""
    problem = ""
    for statement in loaded.tree.body:
        if _is_main(statement):
            assert isinstance(statement, ast.If)
            code = loaded.compiler(ast.Module(statement.body, []), loaded.path, "exec")
            problem = bounded("the __main__ block", lambda code=code: exec(code, loaded.module.__dict__))
    return problem


def has_main(loaded: LoadedFile) -> bool:
    """Return whether there is an `if __name__ == "__main__"`."""
    return any(map(_is_main, loaded.tree.body))


def pretend_programs(folder: Path) -> None:
    """Put an `nvidia-smi` in reach that knows nothing: libraries run it to learn whose GPU this is."""
    folder.mkdir(exist_ok=True)
    program = folder / "nvidia-smi"
    program.write_text("#!/bin/sh\nexit 0\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    os.environ["PATH"] = f"{folder}{os.pathsep}{os.environ.get('PATH', os.defpath)}"


def pretend_locks() -> None:
    """Replace the locks between processes, which a confined process cannot make, by those between threads."""
    synchronize: Any = importlib.import_module("multiprocessing.synchronize")
    for name in ("Lock", "RLock"):
        setattr(synchronize, name, partial(_lock, getattr(threading, name)))


def _lock(own: Callable[[], object], *, ctx: object = None) -> object:
    del ctx
    return own()


def _place(file: SourceFile) -> str:
    """Return a path with the file's very text: Triton reads a kernel's text again."""
    with contextlib.suppress(OSError, UnicodeDecodeError):
        if file.path and Path(file.path).read_text() == file.source:
            return file.path
    with tempfile.NamedTemporaryFile("w", suffix=".py", delete=False) as f:
        f.write(file.source)
    return f.name


def package_of(path: Path) -> tuple[str, Path]:
    """Return the package that a file is in, "" for none, and the folder that it is imported from."""
    names: list[str] = []
    folder = path.parent
    while (folder / "__init__.py").is_file() and folder.name.isidentifier():
        names.insert(0, folder.name)
        folder = folder.parent
    return ".".join(names), folder


def readable_beside(path: str) -> tuple[str, ...]:
    """Return what a file's code may read: what lies beside it, hidden files not, or itself alone in a home."""
    if not path:
        return ()
    place = Path(path).resolve()
    _, root = package_of(place)
    if private(str(root)):
        return (str(place),)
    return tuple(str(p) for p in sorted(root.iterdir()) if not p.name.startswith("."))


class _Beside:
    """Finds modules in a folder by their names alone: a confined process may read what is in it, and not list it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: object = None) -> ModuleSpec | None:
        """Return where a top-level module is, None where it is elsewhere; folders without `__init__.py` come last."""
        del target
        folder = self._folder / name
        if path is not None or not name.isidentifier():
            return None
        for file, inside in ((folder / "__init__.py", [str(folder)]), (folder.with_suffix(".py"), None)):
            if file.is_file():
                return importlib.util.spec_from_file_location(name, file, submodule_search_locations=inside)
        if not folder.is_dir() or PathFinder.find_spec(name) is not None:
            return None
        spec = ModuleSpec(name, None, is_package=True)
        spec.submodule_search_locations = [str(folder)]
        return spec


def _module(path: str, package: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(_NAME, path)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    module.__package__ = package
    sys.modules[_NAME] = module
    return module


def _is_main(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.If) and "__name__" in ast.unparse(statement.test)


def _run(statement: ast.stmt, loaded: LoadedFile, bounded: Bounded) -> None:
    def attempt(one: ast.stmt) -> str:
        code = loaded.compiler(ast.Module([one], []), loaded.path, "exec")
        return bounded(f"line {one.lineno}", lambda: exec(code, loaded.module.__dict__))

    if _is_main(statement):
        return
    problem = attempt(statement)
    # A decorator that is not there, such as a library's cache of kernels, need not cost the kernel.
    while problem and isinstance(statement, ast.FunctionDef) and len(statement.decorator_list) > 1:
        if "jit" in ast.unparse(statement.decorator_list[0]):
            break
        statement.decorator_list.pop(0)
        loaded.problems.append(f"{problem}; {statement.name} is taken without its first decorator")
        problem = attempt(statement)
    if problem:
        loaded.problems.append(problem)
