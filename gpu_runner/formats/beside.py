"""Modules that lie beside a file, as part of its text: a task is text, which runs where no file of its author's is."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

from forewarp.core.errors import TaskError
from forewarp.core.files import literal, template

_TEMPLATE = "templates/beside.py.txt"


def with_modules(source: str, folder: Path) -> str:
    """Return a file's text with the modules from its folder that it imports, and those that they import in turn.

    They are told by the text: what a function imports by a computed name is not among them. Raises `TaskError` for one
    that cannot be read, and SyntaxError.
    """
    found: dict[str, tuple[str, bool]] = {}
    waiting = list(_imported(ast.parse(source), ""))
    while waiting:
        name = waiting.pop()
        if name in found or (module := _read(name, folder)) is None:
            continue
        found[name] = module
        package = name if module[1] else name.rpartition(".")[0]
        waiting += [name.rpartition(".")[0], *_imported(_parsed(name, module[0]), package)]
    if not found:
        return source
    texts = {name: f"({literal(text)}, {package})" for name, (text, package) in sorted(found.items())}
    table = "{" + ",\n".join(f"{name!r}: {pair}" for name, pair in texts.items()) + "}"
    lines = source.splitlines(keepends=True)
    after = _head(ast.parse(source))
    return "".join((*lines[:after], template(__file__, _TEMPLATE).substitute(modules=table), *lines[after:]))


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
                return path.read_text(encoding="utf-8-sig"), package
            except (OSError, UnicodeDecodeError) as e:
                raise TaskError(f"{path}, which the file imports, cannot be read: {e}") from None
    bare = name.partition(".")[0] not in sys.stdlib_module_names and any(place.glob("*.py"))
    return ("", True) if bare else None  # a folder of modules is a package, too


def _parsed(name: str, text: str) -> ast.Module:
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError) as e:
        raise TaskError(f"the module {name}, which the file imports, is not valid Python: {e}") from None


def _head(tree: ast.Module) -> int:
    """Return the number of lines that have to stay first: the docstring, and imports from `__future__`."""
    last = 0
    for index, statement in enumerate(tree.body):
        text = index == 0 and isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        if not text and not (isinstance(statement, ast.ImportFrom) and statement.module == "__future__"):
            break
        last = statement.end_lineno or last
    return last
