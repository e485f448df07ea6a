"""Find the extensions that a Python candidate builds, and build them, on a machine that needs no GPU.

The module is run one statement after another. A statement that fails, for want of a GPU or otherwise, is passed over:
what counts is which extensions the others ask for. Extensions build side by side, because `load_inline` gives back a
stand-in at once.
"""

from __future__ import annotations
import __future__

import ast
import os
import shutil
import sys
import types
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from forewarp.gpu_runner.compilers import cubin, fatbin
from forewarp.gpu_runner.compilers.extension import builder, hooks
from forewarp.gpu_runner.compilers.extension.builder import Built
from forewarp.gpu_runner.compilers.extension.precompiled import Precompiled
from forewarp.gpu_runner.compilers.extension.recipe import NINJA_FILE, fingerprint, read

_LOADERS = {"load", "load_inline"}
_FUTURES = sum({getattr(__future__, name).compiler_flag for name in __future__.all_feature_names})


class StandIn(types.ModuleType):
    """Stand-in that `load_inline` returns while the extension is built; its functions cannot be called yet."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)

        def missing(*args: object, **kwargs: object) -> Any:
            raise RuntimeError(f"{self.__name__}.{name} is only being built")

        missing.__name__ = name
        return missing


class Collector:
    """Replaces torch's two hooks and keeps the extensions asked for, by fingerprint."""

    def __init__(self, folder: Path, precompiled: Precompiled, *, at_once: bool) -> None:
        """Build under `folder`. `at_once` builds before `load_inline` returns, so that a refusal is raised there."""
        own = hooks.originals()
        assert own is not None
        self._torch_build = own[0]
        self._folder, self._precompiled, self._at_once = folder, precompiled, at_once
        self._pool = ThreadPoolExecutor(max(2, os.cpu_count() or 2))
        self.builds: dict[str, tuple[str, Future[Built]]] = {}

    def run(self, directory: str, verbose: bool, error_prefix: str) -> None:
        """Start a build, as `hooks.RunBuild`."""
        del verbose
        source = Path(directory)
        key = fingerprint(source)
        if key not in self.builds:
            # A copy, because the next call of the same name writes to the same folder.
            copy = self._folder / f"x{len(self.builds)}"
            shutil.copytree(source, copy)
            ninja = copy / NINJA_FILE
            ninja.write_text(ninja.read_text().replace(directory, str(copy)))
            recipe = read(copy)
            name = recipe.name if recipe is not None else source.name

            def torch_way() -> None:
                self._torch_build(str(copy), False, error_prefix)

            self.builds[key] = (name, self._pool.submit(builder.build, copy, torch_way, self._precompiled))
        if self._at_once:
            built = self.builds[key][1].result()
            if built.library is None:
                raise RuntimeError(f"{error_prefix}: {built.log}")

    def load(self, name: str, directory: str, is_python_module: bool) -> Any:
        """Return a stand-in, as `hooks.ImportLibrary`."""
        return StandIn(name) if is_python_module else str(Path(directory) / f"{name}.so")

    def finish(self) -> dict[str, tuple[str, Built]]:
        """Wait for all builds and return (name, result) by fingerprint."""
        done = {key: (name, future.result()) for key, (name, future) in self.builds.items()}
        self._pool.shutdown()
        return done


def compile_module(
    source: str, folder: Path, scratch: Path, *, arch: str = "", precompiled: Path | None = None
) -> dict[str, Any]:
    """Build every extension of a candidate into `folder` and return the part of the manifest about them.

    {"extensions": {fingerprint: {"name", "file", "cubins", "way", "seconds", "log"}}, "skipped": [errors of the
    statements that were passed over]}. "file" is empty where the extension cannot be built. "cubins" are files with the
    device code that the library holds for `arch`, such as "sm_90": `<library>.<n>.cubin`. `scratch` is a folder for the
    work; `precompiled` has headers that `precompiled.make` made.
    """
    if hooks.originals() is None:
        return {"extensions": {}, "skipped": ["this torch builds extensions in another way"]}
    scratch.mkdir(parents=True, exist_ok=True)
    tree = ast.parse(source)
    # A module that catches a refused build expects to hear of it.
    caught = any(isinstance(node, ast.Try) for node in ast.walk(tree))
    collector = Collector(scratch, Precompiled(precompiled), at_once=caught)
    with hooks.installed(collector.run, collector.load):
        skipped = run_module(source, scratch / "candidate.py")
        done = collector.finish()
    entries: dict[str, Any] = {}
    for number, (key, (name, built)) in enumerate(done.items()):
        file = ""
        if built.library is not None:
            file = f"extension{number}.so"
            shutil.copyfile(built.library, folder / file)
        entries[key] = {
            "name": name,
            "file": file,
            "cubins": _cubins(folder, file, arch) if file else [],
            "way": built.way,
            "seconds": built.seconds,
            "log": built.log,
        }
    return {"extensions": entries, "skipped": skipped}


def _cubins(folder: Path, library: str, arch: str) -> list[str]:
    """Write the kernels' machine code in a library beside it; return the files' names.

    Empty where there is none for `arch`, and where it is compressed, as torch's own way leaves it.
    """
    images = fatbin.cubins((folder / library).read_bytes(), arch) if arch.startswith("sm_") else None
    names: list[str] = []
    for image in images or ():
        if cubin.codes(image, arch):
            names.append(f"{library}.{len(names)}.cubin")
            (folder / names[-1]).write_bytes(image)
    return names


def run_module(source: str, path: Path) -> list[str]:
    """Run a module from `path` as far as it goes, for what it asks to be built; return what failed, by line."""
    return list(_run(ast.parse(source), source, path))


def _run(tree: ast.Module, source: str, path: Path) -> Iterator[str]:
    """Run a module's statements, then those that lead to a loader inside of functions; yield what failed."""
    path.write_text(source)
    flags = compile(tree, str(path), "exec").co_flags & _FUTURES
    module = types.ModuleType("candidate_module")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module
    try:
        for statement in tree.body:
            yield from _try(statement, module.__dict__, path, flags)
        # Such as a loader called by ModelNew's constructor. What the module's own run has built is known by now.
        for function in ast.walk(tree):
            if isinstance(function, ast.FunctionDef):
                names = dict(module.__dict__)
                for statement in _leading_to_loader(function):
                    list(_try(statement, names, path, flags))
    finally:
        del sys.modules[module.__name__]


def _leading_to_loader(function: ast.FunctionDef) -> list[ast.stmt]:
    """Return a function's plain statements up to its last call of a loader."""
    last = -1
    for i, statement in enumerate(function.body):
        if any(isinstance(node, ast.Call) and _called(node) in _LOADERS for node in ast.walk(statement)):
            last = i
    plain: list[ast.stmt] = []
    for statement in function.body[: last + 1]:
        if isinstance(statement, ast.Return) and statement.value is not None:
            plain.append(ast.copy_location(ast.Expr(statement.value), statement))
        elif isinstance(statement, (ast.Assign, ast.AnnAssign, ast.Expr, ast.Import, ast.ImportFrom)):
            plain.append(statement)
    return plain


def _called(node: ast.Call) -> str:
    match node.func:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case _:
            return ""


def _try(statement: ast.stmt, names: dict[str, Any], path: Path, flags: int) -> Iterator[str]:
    code = compile(ast.Module([statement], []), str(path), "exec", flags=flags, dont_inherit=True)
    try:
        exec(code, names)
    except (Exception, SystemExit) as e:
        yield f"line {statement.lineno}: {type(e).__name__}: {e}"
