"""Tasks of GPU MODE's KernelBot: `generate_input`, `ref_kernel` and `check_implementation` in place of a module."""

from __future__ import annotations

import ast
import importlib.abc
import importlib.machinery
import importlib.util
import inspect
import linecache
import random
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import CodeType, ModuleType
from typing import Any

import torch

from forewarp.core.values import Workload
from forewarp.gpu_runner.worker.nest import NestBuilder, flatten, leaves
from forewarp.gpu_runner.worker.problem import Problem, copies, shapes_of, with_tensors

SEEDS = 1 << 31
"""Seeds are below this: numpy takes no larger ones, and tasks add small numbers to theirs."""


_CUDA = re.compile(r"cuda(:\d*)?")


class _Texts(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
    """Importer of modules from text, so that a task's files find each other; has their source, for Triton."""

    def __init__(self, texts: Mapping[str, str], device: str) -> None:
        self.texts, self.device = texts, device

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        if fullname not in self.texts:
            return None
        return importlib.util.spec_from_loader(fullname, self, origin=_filename(fullname))

    def get_source(self, fullname: str) -> str:
        return self.texts[fullname]

    def get_code(self, fullname: str) -> CodeType:
        filename = _filename(fullname)
        return compile(retarget(self.texts[fullname], filename, self.device), filename, "exec", dont_inherit=True)

    def is_package(self, fullname: str) -> bool:
        return False


def _filename(module: str) -> str:
    return f"task:{module}.py"


def import_task(reference: str, files: Mapping[str, str], device: str) -> ModuleType:
    """Import `reference.py` with its helpers, and leave them importable: references and submissions import late."""
    texts = {name.removesuffix(".py"): text for name, text in files.items() if name.endswith(".py")}
    texts["reference"] = reference
    sys.meta_path[:] = [f for f in sys.meta_path if not isinstance(f, _Texts)]
    sys.meta_path.insert(0, _Texts(texts, device))
    for name in texts:
        sys.modules.pop(name, None)
        linecache.cache.pop(_filename(name), None)
    return importlib.import_module("reference")


def load(reference: str, files: Mapping[str, str], workload: Workload, weight_seed: int, device: str) -> Problem:
    """Import the reference for `device`; a workload's constants are the arguments of `generate_input`."""
    module = import_task(reference, files, device)
    return KernelBotProblem(module, workload.name, weight_seed, workload.constants, device=device)


@dataclass(frozen=True, slots=True)
class KernelBotProblem(Problem):
    """A KernelBot reference with the arguments of one benchmark; a slot's values are the data's tensors and numbers."""

    device: str = "cpu"

    def inputs(self, seed: int, device: str) -> list[Any]:
        values, _ = self._generate(seed)
        first, _ = self._first(device)
        if shapes_of(first) != shapes_of(values):
            raise ValueError(
                f"generate_input gives {shapes_of(values)} for one seed and {shapes_of(first)} for another; shapes "
                "and numbers must follow from the arguments alone"
            )
        return with_tensors(values, lambda t: t.to(device))

    def _generate(self, seed: int) -> tuple[list[Any], NestBuilder]:
        seed %= SEEDS
        generate = self.module.generate_input
        arguments = dict(self.constants)
        if _takes_seed(generate):
            arguments["seed"] = seed
        data = self._drawn(generate, arguments, seed)
        values, build = flatten(data)
        if not any(isinstance(v, torch.Tensor) for v in values):
            raise ValueError(f"generate_input returned {type(data).__name__} without a tensor in it")
        return values, build

    def _drawn(self, generate: Callable[..., Any], arguments: Mapping[str, Any], seed: int) -> Any:
        """Return the data of a seed, drawn on the GPU unless the task's own generator refuses."""
        where = self.known.setdefault("drawn on", self.device)
        torch.manual_seed(seed)
        random.seed(seed)
        if where == "cpu":
            return generate(**arguments)
        try:
            with torch.device(where):
                return generate(**arguments)
        except Exception:
            self.known["drawn on"] = "cpu"
        return self._drawn(generate, arguments, seed)

    def _first(self, device: str) -> tuple[list[Any], NestBuilder]:
        """Return values and nest for a seed that means nothing; tensors on the meta device."""
        if "first" not in self.known:
            values, build = self._generate(0)
            self.known["first"] = with_tensors(values, lambda t: t.to("meta")), build
        return self.known["first"]

    def build(self, values: Sequence[Any]) -> Any:
        return self._first(self.device)[1](values)

    def model(self, device: str) -> torch.nn.Module:
        self._first(device)
        return _Reference(self)

    def bind(self, module: ModuleType, device: str, weights: Mapping[str, torch.Tensor]) -> Callable[..., Any]:
        if not hasattr(module, "custom_kernel"):
            raise TypeError("the submission defines no function custom_kernel(data)")
        kernel, build = module.custom_kernel, self._first(device)[1]
        return lambda *values: leaves(kernel(build(values)))

    def init_numbers(self) -> list[Any]:
        return []

    def checker(self) -> Callable[[list[Any], list[torch.Tensor]], str] | None:
        return self._check

    def _check(self, values: list[Any], outputs: list[torch.Tensor]) -> str:
        if "result" not in self.known:
            result = self.module.ref_kernel(self.build(copies(values)))
            # Outputs come contiguous from wherever they were judged, whatever the reference's strides are.
            self.known["result"] = flatten(result, strided=False)[1]
        result = self.known["result"]([o.clone() for o in outputs])
        try:
            verdict = self.module.check_implementation(self.build(copies(values)), result)
        except Exception as e:  # checks written as assertions, or that choke on what the candidate computed
            return f"check_implementation raised {type(e).__name__}: {e}"
        return _message(verdict)


class _Reference(torch.nn.Module):
    def __init__(self, problem: KernelBotProblem) -> None:
        super().__init__()
        # In a tuple, so that a copy of this module shares the problem, whose modules cannot be copied.
        self.shared = (problem.module.ref_kernel, problem.build)

    def __deepcopy__(self, memo: dict[int, Any]) -> _Reference:
        return self

    def forward(self, *values: Any) -> list[Any]:
        kernel, build = self.shared
        return leaves(kernel(build(values)))


def _takes_seed(generate: Callable[..., Any]) -> bool:
    parameters = inspect.signature(generate).parameters.values()
    return any(p.name == "seed" or p.kind is p.VAR_KEYWORD for p in parameters)


def _message(verdict: Any) -> str:
    """Return "" for a pass, else the reason: checkers return a truth value, a message, or a pair of both."""
    if isinstance(verdict, tuple):
        good, *rest = verdict
        return "" if bool(good) else _text(rest[0] if rest else "")
    if isinstance(verdict, str | list):
        return _text(verdict) if verdict else ""
    return "" if verdict is None or bool(verdict) else _text("")


def _text(reason: Any) -> str:
    text = " ".join(str(r) for r in reason) if isinstance(reason, list) else str(reason)
    return text.strip() or "check_implementation says that the output is wrong"


def retarget(source: str, filename: str, device: str) -> ast.Module:
    """Parse `source` and put `device` in the place of "cuda"; raises SyntaxError.

    Strings such as "cuda:0" become the device's name, `x.cuda()` becomes `x.to(device)`, and functions of `torch.cuda`
    those of `torch.<device>`. A mode that looks at each call would slow the reference.
    """
    tree = ast.parse(source, filename)
    return tree if device == "cuda" else ast.fix_missing_locations(_Retarget(device).visit(tree))


class _Retarget(ast.NodeTransformer):
    def __init__(self, device: str) -> None:
        self.device = device

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if isinstance(node.value, str) and _CUDA.fullmatch(node.value):
            return ast.copy_location(ast.Constant(node.value.replace("cuda", self.device)), node)
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.func, ast.Attribute) and node.func.attr == "cuda":
            node.func.attr = "to"
            node.args = [ast.Constant(self.device)]
            node.keywords = []
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        owner = node.value
        if isinstance(owner, ast.Attribute) and owner.attr == "cuda" and isinstance(owner.value, ast.Name):
            namespace = getattr(torch, self.device, None)
            if owner.value.id == "torch" and hasattr(namespace, node.attr):
                owner.attr = self.device
        return node
