"""Texts of Python modules: what they define, and changes of single nodes that leave the rest as it was written."""

from __future__ import annotations

import ast
from collections.abc import Iterable


def replaced(source: str, changes: Iterable[tuple[ast.expr | ast.arg, str]]) -> str:
    """Return a text with others in the places of some of its nodes, none of which lies in another."""
    lines = source.encode().splitlines(keepends=True)  # columns are in bytes
    for node, text in sorted(changes, key=lambda change: (change[0].lineno, change[0].col_offset), reverse=True):
        first, last = node.lineno - 1, (node.end_lineno or node.lineno) - 1
        before, after = lines[first][: node.col_offset], lines[last][node.end_col_offset :]
        lines[first : last + 1] = [before + text.encode() + after]
    return b"".join(lines).decode()


def bindings(source: str) -> dict[str, str]:
    """Return the names that a module defines at its top level, each with what it means there."""
    found: dict[str, str] = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.Import):
            found |= {a.asname or a.name.partition(".")[0]: a.name if a.asname else "." for a in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {a.asname or a.name: f"{node.module}.{a.name}" for a in node.names if a.name != "*"}
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            found[node.name] = ast.dump(node)
        else:
            stored = (n for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
            found |= {n.id: ast.dump(node) for n in stored}
    return found
