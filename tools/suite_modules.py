"""Modules that a suite makes of a problem's own reference: renamed, and compiled by torch."""

from __future__ import annotations

import ast

from forewarp.core.values import Candidate, Task

_COMPILED = '''

class ModelNew(Model):
    """The reference, compiled by torch when it is called."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.compile()
'''


def identical(task: Task) -> Candidate:
    """Return the task's reference as a candidate: `Model` is renamed to `ModelNew` wherever the name stands.

    Of a GPU MODE task, `ref_kernel` under the name `custom_kernel`.
    """
    if task.format == "gpumode":
        return Candidate(f"{task.reference}\n\ncustom_kernel = ref_kernel\n", "python")
    return Candidate(ast.unparse(_Renamed().visit(ast.parse(task.reference))) + "\n", "python")


def compiled(task: Task) -> Candidate:
    """Return a candidate that runs the task's reference through `torch.compile`, with its defaults."""
    if task.format == "gpumode":
        return Candidate(f"{task.reference}\n\nimport torch\n\ncustom_kernel = torch.compile(ref_kernel)\n", "python")
    return Candidate(f"{task.reference}\n{_COMPILED}", "python")


class _Renamed(ast.NodeTransformer):
    """Renames the class with everything that names it, such as `super(Model, self)`."""

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.ClassDef:
        self.generic_visit(node)
        if node.name == "Model":
            node.name = "ModelNew"
        return node

    def visit_Name(self, node: ast.Name) -> ast.Name:
        if node.id == "Model":
            node.id = "ModelNew"
        return node
