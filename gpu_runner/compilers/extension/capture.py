"""Find the extensions that a Python candidate builds, and build them, on a machine that needs no GPU.

The module is run one statement after another. A statement that fails, for want of a GPU or otherwise, is passed over:
what counts is which extensions the others ask for. Extensions build side by side, because `load_inline` gives back a
stand-in at once.
"""

from __future__ import annotations

import ast
import codeop
import hashlib
import json
import os
import shutil
import sys
import tempfile
import types
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from types import CodeType
from typing import Any
from unittest import mock

from forewarp.core.values import Candidate, Target
from forewarp.gpu_runner.compilers import cubin
from forewarp.gpu_runner.compilers.extension import builder, torch_build
from forewarp.gpu_runner.compilers.extension.builder import ExtensionBuild
from forewarp.gpu_runner.compilers.extension.settings import arch_list, set_arch, use_folder
from forewarp.gpu_runner.compilers.process import MANIFEST, CompileError

_LOADERS = {"load", "load_inline"}


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

    def __init__(self, folder: Path, *, at_once: bool) -> None:
        """Build under `folder`. `at_once` builds before `load_inline` returns, so that a refusal is raised there."""
        own = torch_build.originals()
        assert own is not None
        self._torch_build = own[0]
        self._folder, self._at_once = folder, at_once
        self._pool = ThreadPoolExecutor(max(2, os.cpu_count() or 2))
        self.builds: dict[str, tuple[str, Future[ExtensionBuild]]] = {}

    def run(self, directory: str, verbose: bool, error_prefix: str) -> None:
        source = Path(directory)
        key = torch_build.fingerprint(source)
        if key not in self.builds:
            # A copy, because the next call of the same name writes to the same folder.
            copy = self._folder / f"x{len(self.builds)}"
            shutil.copytree(source, copy)
            ninja = copy / torch_build.NINJA_FILE
            ninja.write_text(ninja.read_text().replace(directory, str(copy)))
            found = torch_build.read(copy)
            name = found.name if found is not None else source.name

            def torch_way() -> None:
                self._torch_build(str(copy), False, error_prefix)

            self.builds[key] = (name, self._pool.submit(builder.build, copy, torch_way))
        if self._at_once:
            built = self.builds[key][1].result()
            if built.library is None:
                raise RuntimeError(f"{error_prefix}: {built.log}")

    def load(self, name: str, directory: str, is_python_module: bool) -> Any:
        return StandIn(name) if is_python_module else str(Path(directory) / f"{name}.so")

    def finish(self) -> dict[str, tuple[str, ExtensionBuild]]:
        done = {key: (name, future.result()) for key, (name, future) in self.builds.items()}
        self._pool.shutdown()
        return done


def compile_candidate(candidate: Candidate, target: Target, folder: Path) -> dict[str, Any]:
    """Build a Python candidate's extensions into `folder` and return its manifest; raises `CompileError`."""
    set_arch(arch_list(target))
    # Nothing here may use the GPU, which somebody else may be measuring on.
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    tempfile.tempdir = str(folder / "cache")
    use_folder(folder / "cache")
    try:
        found = compile_module(candidate.source, folder, folder / "cache" / "extensions", arch=target.arch)
    except (SyntaxError, ValueError) as e:
        raise CompileError(f"SyntaxError: {e}") from None
    failed = [e for e in found["extensions"].values() if not e["file"]]
    if failed and not _catches(ast.parse(candidate.source)):
        raise CompileError("\n".join(f"extension {e['name']}:\n{e['log']}" for e in failed))
    digest = hashlib.sha256(candidate.source.encode())
    for entry in found["extensions"].values():
        if entry["file"]:
            digest.update((folder / entry["file"]).read_bytes())
    manifest = found | {"arch_list": arch_list(target), "binary_sha256": digest.hexdigest()}
    manifest["facts"] = _facts([folder / c for e in found["extensions"].values() for c in e["cubins"]], target)
    (folder / MANIFEST).write_text(json.dumps(manifest))
    return manifest


def _facts(cubins: Sequence[Path], target: Target) -> dict[str, float]:
    """Return the worst of the compiled kernels: which of them the module launches is known once it runs."""
    kernels = [code for path in cubins for code in cubin.codes(path.read_bytes(), target.arch).values()]
    if not kernels:
        return {}
    return {
        "kernels": float(len(kernels)),
        "registers": float(max(k.registers for k in kernels)),
        "stack_bytes": float(max(k.stack_bytes for k in kernels)),
        "shared_bytes": float(max(k.static_shared_bytes for k in kernels)),
        "code_bytes": float(sum(k.code_bytes for k in kernels)),
    }


def _catches(tree: ast.Module) -> bool:
    """Return whether a module catches errors, and so expects to hear of a refused build."""
    return any(isinstance(node, ast.Try) and node.handlers for node in ast.walk(tree))


def compile_module(source: str, folder: Path, scratch: Path, *, arch: str = "") -> dict[str, Any]:
    """Build every extension of a candidate into `folder` and return the part of the manifest about them.

    A "file" is empty where its extension cannot be built; "cubins" are files with the library's device code for `arch`.
    """
    if torch_build.originals() is None:
        return {"extensions": {}, "skipped": ["this torch builds extensions in another way"]}
    scratch.mkdir(parents=True, exist_ok=True)
    tree = ast.parse(source)
    collector = Collector(scratch, at_once=_catches(tree))
    # Modules for a GPU may build only where torch says that there is one.
    gpu = mock.patch("torch.cuda.is_available", return_value=True) if arch.startswith("sm_") else nullcontext()
    with torch_build.installed(collector.run, collector.load), gpu:
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
    """Write the kernels' machine code in a library beside it; return the files' names. Compressed code is left out."""
    images = cubin.embedded_cubins((folder / library).read_bytes(), arch) if arch.startswith("sm_") else None
    names: list[str] = []
    for image in images or ():
        if cubin.codes(image, arch):
            names.append(f"{library}.{len(names)}.cubin")
            (folder / names[-1]).write_bytes(image)
    return names


def run_module(source: str, path: Path) -> list[str]:
    """Run a module from `path`, then what leads to a loader inside of functions; return what failed, by line."""
    path.write_text(source)
    tree = ast.parse(source)
    failed: list[str] = []
    compiler: Any = codeop.Compile()  # it keeps to the module's future statements
    compiler(tree, str(path), "exec")
    module = types.ModuleType("candidate_module")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module
    try:
        for statement in tree.body:
            failed += _try(statement, module.__dict__, path, compiler)
        # Such as a loader called by ModelNew's constructor. What the module's own run has built is known by now.
        for function in ast.walk(tree):
            if isinstance(function, ast.FunctionDef):
                names = dict(module.__dict__)
                for statement in _leading_to_loader(function.body):
                    list(_try(statement, names, path, compiler))
    finally:
        del sys.modules[module.__name__]
    return failed


def _leading_to_loader(body: Sequence[ast.stmt]) -> list[ast.stmt]:
    """Return a body's plain statements up to its last call of a loader, those of its branches that lead to one too."""
    last = max((i for i, statement in enumerate(body) if _has_loader(statement)), default=-1)
    plain: list[ast.stmt] = []
    for statement in body[: last + 1]:
        match statement:
            case ast.Return(value=ast.expr() as value):
                plain.append(ast.copy_location(ast.Expr(value), statement))
            case ast.Assign() | ast.AnnAssign() | ast.Expr() | ast.Import() | ast.ImportFrom():
                plain.append(statement)
            case ast.If() | ast.With():
                plain += _leading_to_loader(statement.body)
            case ast.Try(handlers=handlers):
                for part in (statement.body, *(h.body for h in handlers)):
                    plain += _leading_to_loader(part)
            case _:
                pass
    return plain


def _has_loader(statement: ast.stmt) -> bool:
    called = (node.func for node in ast.walk(statement) if isinstance(node, ast.Call))
    return any(getattr(f, "id", getattr(f, "attr", "")) in _LOADERS for f in called)


def _try(statement: ast.stmt, names: dict[str, Any], path: Path, compiler: Callable[..., CodeType]) -> Iterator[str]:
    code = compiler(ast.Module([statement], []), str(path), "exec")
    try:
        exec(code, names)
    except (Exception, SystemExit) as e:
        yield f"line {statement.lineno}: {type(e).__name__}: {e}"
