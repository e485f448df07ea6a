"""Modules that lie beside a file, as part of its text: a task is text, which runs where no file of its author's is."""

from __future__ import annotations

import ast
import hashlib
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from forewarp.core.errors import TaskError
from forewarp.core.files import literal, template
from forewarp.gpu_runner.worker.environment import named_readable

_TEMPLATE = "templates/beside.py.txt"
_MOST = 1000
"""Files that are looked at of a folder."""


def with_modules(source: str, file: Path) -> str:
    """Return a file's text with the modules of its folder that it imports by name; raises `TaskError`."""
    folder, source = file.parent, _placed(source, file)
    found: dict[str, tuple[str, bool]] = {}
    waiting = list(_imported(ast.parse(source), ""))
    while waiting:
        name = waiting.pop()
        if name in found or (module := _read(name, folder)) is None:
            continue
        found[name] = module
        package = name if module[1] else name.rpartition(".")[0]
        waiting += [name.rpartition(".")[0], *_imported(ast.parse(module[0]), package)]
    source = with_files(source, file, [text for text, _ in found.values()])
    if not found:
        return source
    texts = {name: f"({literal(text)}, {package})" for name, (text, package) in sorted(found.items())}
    table = "{" + ",\n".join(f"{name!r}: {pair}" for name, pair in texts.items()) + "}"
    return _after_head(source, template(__file__, _TEMPLATE).substitute(modules=table))


def with_files(source: str, file: Path, modules: Iterable[str] = ()) -> str:
    """Return a file's text with the state of the files that it names: once they change it is another text.

    Those count that FOREWARP_READABLE lets it read and that a string of it or of its modules names; of a folder, what
    lies in it. The state is size and time of change, because weights are large.
    """
    file, readable = file.absolute(), [os.path.abspath(path) for path in named_readable(os.environ)]
    nodes = (node for text in (source, *modules) for node in ast.walk(ast.parse(text))) if readable else ()
    named = {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    states = set[str]()
    for path in (Path(os.path.abspath(os.path.join(b, n))) for n in named for b in (*readable, file.parent)):
        if path == file or not any(path.is_relative_to(r) and str(path) != r for r in readable):
            continue
        with suppress(OSError, ValueError):  # most strings are no names of files
            for one in sorted(path.iterdir())[:_MOST] if path.is_dir() else [path]:
                states.add(f"{one} {one.stat().st_size} {one.stat().st_mtime_ns}")
    if not states:
        return source
    digest = hashlib.sha256("\n".join(sorted(states)).encode()).hexdigest()[:16]
    return f"{source.rstrip()}\n\n# Files that it names, by size and time of change: {digest}\n"


def _imported(tree: ast.Module, package: str) -> Iterator[str]:
    """Yield the full names of what may be modules that a module of a package imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join(filter(None, [*above, node.module]))
            yield from (base, *(f"{base}.{alias.name}" for alias in node.names))


def _read(name: str, folder: Path) -> tuple[str, bool] | None:
    """Return the text of a module of a folder, and whether it is a package; None where there is none."""
    if not name or not all(map(str.isidentifier, name.split("."))):
        return None
    place = folder.joinpath(*name.split("."))
    for path, package in ((place / "__init__.py", True), (place.with_name(f"{place.name}.py"), False)):
        if path.is_file() and path.resolve().is_relative_to(folder.resolve()):  # no link to elsewhere
            try:
                return _placed(path.read_text(encoding="utf-8-sig"), path), package
            except SyntaxError as e:
                raise TaskError(f"the module {name}, which the file imports, is not valid Python: {e}") from None
            except (OSError, ValueError) as e:
                raise TaskError(f"{path}, which the file imports, cannot be read: {e}") from None
    bare = name.partition(".")[0] not in sys.stdlib_module_names and any(place.glob("*.py"))
    return ("", True) if bare else None  # a folder of modules is a package, too


def _placed(source: str, file: Path) -> str:
    """Return a module's text that goes on to find what lies beside its file, if it asks for that by `__file__`."""
    if not any(isinstance(node, ast.Name) and node.id == "__file__" for node in ast.walk(ast.parse(source))):
        return source
    return _after_head(source, f"__file__ = {str(file.absolute())!r}\n")


def _after_head(source: str, text: str) -> str:
    """Return a module's text with more after what has to stay first: the docstring, and imports from `__future__`."""
    last = 0
    for index, statement in enumerate(ast.parse(source).body):
        docstring = index == 0 and isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        if not docstring and not (isinstance(statement, ast.ImportFrom) and statement.module == "__future__"):
            break
        last = statement.end_lineno or last
    lines = source.splitlines(keepends=True)
    return "".join((*lines[:last], text, *lines[last:]))
