"""Launch plans for kernels that have none, guessed from their text and from what the task passes."""

from __future__ import annotations

import ast
import json
import math
import re
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager

from forewarp.core.errors import CandidateError, DeviceError, PlanMissingError, WorkerError
from forewarp.core.values import Candidate, Language, Signature, Task
from forewarp.gpu_runner.formats import c_types
from forewarp.gpu_runner.formats import plan as plans
from forewarp.gpu_runner.formats.skeleton import PlanNames
from forewarp.inspection.tracing.files import kernels as kernel_texts
from forewarp.tools import session as sessions
from forewarp.tools import sources
from forewarp.tools.interface import signature_of
from forewarp.tools.parts import Kernel, Place
from forewarp.tools.session import Executors, closing_executors
from forewarp.tools.unplanned_kernels import KernelParameter, UnplannedKernel, unplanned_kernels

_ALIKE = (("weight", "w", "gamma", "g"), ("bias", "b", "beta"), ("x", "input", "inp", "in", "src"))
"""Names that authors of kernels give to the same thing."""
_ROWS = re.compile(r"(?:n|num)?(?:rows?|batch|tokens|samples|m|b)")
_COLUMNS = re.compile(r"(?:n|num)?(?:cols?|columns|dim|hidden|hiddensize|width|features|classes|d)")
_REAL = re.compile(r"eps(?:ilon)?|(?:sm|softmax)?scale|alpha|beta|slope")
_GUESS = "  # a guess"


@contextmanager
def proposing_plan(task: str | Task, place: Place, executors: Executors | None = None) -> Generator[None]:
    """Put a plan that fits the task into the error of a kernel that has none; the task's reference runs, confined."""
    try:
        yield
    except PlanMissingError as e:
        sources.check_depth(e.candidate.source)
        loaded = sessions.load_task(task, place)
        try:
            with closing_executors(executors) as kept:
                hint = proposed(e.candidate, loaded, signature_of(loaded, place, kept))
        except (DeviceError, WorkerError):
            hint = ""
        raise CandidateError(e.message, hint=hint or e.hint) from None


def planned_candidate(kernel: Kernel, task: str | Task, place: Place, executors: Executors | None = None) -> Candidate:
    """Return the candidate that is given by file or by text; a `CandidateError` for want of a plan proposes one."""
    with proposing_plan(task, place, executors):
        return sessions.choose_candidate(kernel)


def proposed(candidate: Candidate, task: Task, signature: Signature) -> str:
    """Return what to put into a kernel's text so that it can be launched; "" where no kernel is seen in it."""
    try:
        names = PlanNames.of(task, signature)
        if candidate.language == "triton" and (module := _module(candidate.source, names, signature)):
            return f"its function launches it: put this behind it, then do the same again.\n\n{module}"
        if not (found := unplanned_kernels(candidate)):
            return ""
        text = _Plan(candidate, task, signature, names).text(found)
        plans.resolve(plans.parse(Candidate(text, candidate.language)), signature, {})
    except (CandidateError, SyntaxError):
        return ""
    bare = [k.name for k in found if candidate.language != "triton" and '"C"' not in k.head and not k.templates]
    changed = f' and extern "C" before the void of {", ".join(bare)},' if bare else ""
    guessed = " look at what is marked as a guess," if "a guess" in text else ""
    return f"put this in front of it,{changed}{guessed} then do the same again.\n\n{text}"


def _module(source: str, names: PlanNames, signature: Signature) -> str:
    """Return a module around the file's function that launches kernels, if the task passes what that takes; else ""."""
    tree = ast.parse(source)
    text = kernel_texts.read(tree)
    launching = text.reaching(text.kernels) if not signature.params else []
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name in launching:
            most, given = len(node.args.args), ", ".join(names.inputs)
            if most - len(node.args.defaults) <= len(names.inputs) <= most:
                forward = f"    def forward(self, {given}):\n        return {node.name}({given})\n"
                return f"import torch\n\n\nclass ModelNew(torch.nn.Module):\n{forward}"
    return ""


def _short(name: str) -> str:
    """Return a name as far as it says what is meant."""
    return re.sub(r"_?ptr$|^(?:d|p|ptr)_|_", "", name.lower())


def _same(one: str, other: str) -> bool:
    one, other = _short(one), _short(other.rpartition(".")[2])
    return one == other or any(one in group and other in group for group in _ALIKE)


def _whose(stride: str) -> str:
    """Return the part of a stride's name that says of which tensor it is."""
    short = _short(stride)
    return re.sub(r"(?:row|batch|col|\w)$", "", short.replace("stride", "")) or short


class _Plan:
    """A plan in the making."""

    def __init__(self, candidate: Candidate, task: Task, signature: Signature, names: PlanNames) -> None:
        self._language: Language = candidate.language
        self._signature, self._names = signature, names
        self._held = names.buffers(signature)
        self._output = f"numel({names.outputs[0]})"
        self._passed = self._numbers_passed(task)
        tensors = names.tensors(signature) or names.outputs
        self._main = max(tensors, key=lambda t: len(self._held[t].shape))
        """The input with most dimensions, whose rows and columns those of kernels are."""
        self._rank = len(self._held[self._main].shape)
        self._buffers: dict[str, tuple[str, bool]] = {}
        self._constraints: list[str] = []
        self._tables: dict[str, dict[str, str]] = {"params": {}, "tunables": {}, "constants": {}, "scratch": {}}

    def _numbers_passed(self, task: Task) -> dict[str, str]:
        """Return the numbers that the task passes, by the names that its reference gives them."""
        tree = ast.parse(task.reference)
        made = [m for n in tree.body if isinstance(n, ast.ClassDef) and n.name == "Model" for m in n.body]
        starts = [m.args.args[1:] for m in made if isinstance(m, ast.FunctionDef) and m.name == "__init__"]
        given = dict(enumerate(a.arg for a in starts[0])) if starts else {}
        own = {given.get(int(i), f"init{i}"): f"init{i}" for i in self._signature.init}
        return own | {n: n for i, n in enumerate(self._names.inputs) if str(i) in self._signature.scalars}

    def text(self, kernels: Sequence[UnplannedKernel]) -> str:
        """Return the plan as the comment or docstring that a file opens with."""
        self._bind(kernels)
        launches = [line for kernel in kernels for line in self._launch(kernel)]
        names = self._names
        lines = ["format = 1", f"inputs = {json.dumps(names.inputs)}", f"outputs = {json.dumps(names.outputs)}"]
        lines += [f"constraints = {json.dumps(self._constraints)}"] if self._constraints else []
        if kernels[0].host:
            lines, launches = [*lines, *launches], []
        else:
            launches = [f"\n[[launch]]\n{line}" if line.startswith("kernel") else line for line in launches]
        for table, entries in self._tables.items():
            lines += ["", f"[{table}]", *(f"{name} = {value}" for name, value in entries.items())] if entries else []
        opening, closing = ('"""forewarp', '"""') if self._language == "triton" else ("/*forewarp", "*/")
        return "\n".join([opening, *lines, *launches, closing])

    def _bind(self, kernels: Sequence[UnplannedKernel]) -> None:
        """Give each pointer a buffer of the task: one alike in name, else the next one of its type, else scratch."""
        pointers = {p.name: p for kernel in kernels for p in kernel.parameters if p.kind == "ptr"}
        stored = {name for kernel in kernels for name in kernel.stored} or set(list(pointers)[-1:])
        keys = {local: key for key, local in self._names.params.items()}
        inputs = [*self._names.tensors(self._signature), *keys]
        for pool, waiting in (
            ([*self._names.outputs], [p for p in pointers.values() if p.name in stored]),
            (inputs, [p for p in pointers.values() if p.name not in stored]),
        ):
            alike = {p.name: next((b for b in pool if _same(p.name, keys.get(b, b))), "") for p in waiting}
            pool = [b for b in pool if b not in alike.values()]
            sure = len(pool) == 1
            for pointer in waiting:
                types = {b: c_types.element(self._held[b].dtype, self._language) for b in pool}
                fitting = (b for b in pool if pointer.element in ("", "void", "half", types[b]))
                buffer = alike[pointer.name] or next(fitting, "") or self._scratch(pointer)
                self._buffers[pointer.name] = buffer, bool(alike[pointer.name]) or sure
                pool = [b for b in pool if b != buffer]
                if buffer in keys:
                    self._tables["params"][buffer] = json.dumps(keys[buffer])

    def _scratch(self, pointer: KernelParameter) -> str:
        types = {c_types.element(dtype, self._language): dtype for dtype in reversed(plans.DTYPES)}
        dtype = types.get(pointer.element, "float32")
        self._tables["scratch"][pointer.name] = f'{{ dtype = "{dtype}", shape = ["{self._output}"] }}{_GUESS}'
        return pointer.name

    def _launch(self, kernel: UnplannedKernel) -> Iterator[str]:
        """Yield the lines of a launch, arguments one by one with the parameters that they are for."""
        instance = f"<{', '.join(self._template(kernel))}>" if kernel.templates else ""
        yield f'{"function" if kernel.host else "kernel"} = "{kernel.name}{instance}"'
        for name, value in kernel.macros.items():
            self._tables["tunables"][name] = f"[{value}, {max(1, value // 2)}, {2 * value}]{_GUESS}"
        yield "args = ["
        for p in kernel.parameters:
            given, sure = self._buffers[p.name] if p.kind == "ptr" else self._number(p.name, kernel)
            typed = f":{p.kind}" if p.kind in ("i64", "f32", "f64") else ""
            yield f'    "{given}{typed}",  # {" ".join(p.written.split())}{"" if sure else ": a guess"}'
        yield "]"
        for name in kernel.constants:
            self._constant(name, kernel)
        if kernel.host or self._language == "cpp":
            return
        block = self._block(kernel)
        yield f"grid = {json.dumps(self._grid(kernel, block))}{_GUESS}"
        if block:
            yield f"block = {json.dumps(block)}{_GUESS}"
        if "extern __shared__" in kernel.body and isinstance(block[0], int):
            yield f"shared = {4 * block[0]}{_GUESS}"

    def _template(self, kernel: UnplannedKernel) -> Iterator[str]:
        """Yield the arguments of a template: types as the file has them, numbers as tunables with the file's values."""
        numbers: dict[str, list[int]] = {}
        for name, given in kernel.templates.items():
            if given and not all(value.isdigit() for value in given):
                yield given[0]
                continue
            numbers[name] = [int(value) for value in given]
            few = re.match(r"T[MNK]$|.*(?:PER|ITER|VEC|WIDTH)", name)
            guessed = "256, 128, 512" if "THREAD" in name.upper() else "4, 2, 8" if few else "64, 32, 128"
            if "tid1" in kernel.body and re.search(rf"\bpid\d\s*\*\s*{name}\b", kernel.body):
                guessed = "16, 32, 8"  # threads of two axes, of which there may be 1024
            listed = f"[{', '.join(map(str, dict.fromkeys(numbers[name])))}]"
            self._tables["tunables"][name] = listed if given else f"[{guessed}]{_GUESS}"
            yield name
        instances = dict.fromkeys(zip(*numbers.values(), strict=True)) if all(numbers.values()) else {}
        if math.prod(len(set(values)) for values in numbers.values()) > len(instances) > 1:
            each = (" and ".join(f"{n} == {v}" for n, v in zip(numbers, values, strict=True)) for values in instances)
            self._constraints.append(" or ".join(f"({one})" for one in each))

    def _number(self, name: str, kernel: UnplannedKernel) -> tuple[str, bool]:
        """Return the expression for a number, and whether the name says as much."""
        short = _short(name)
        if known := next((value for own, value in self._passed.items() if _same(name, own)), ""):
            return known, True
        if name in kernel.of_kind("f32", "f64") or _REAL.fullmatch(short):
            floats = [f"init{i}" for i, value in self._signature.init.items() if isinstance(value, float)]
            # Beside an alpha, beta weighs what the output held before.
            old = short == "beta" and any(_short(p.name) == "alpha" for p in kernel.parameters)
            return [*floats, "1e-5" if "eps" in short else "0.0" if old else "1.0"][0], False
        if "stride" in short:
            return self._stride(name, kernel), False
        if extent := self._extent(short, kernel):
            return extent
        numbers = [n for n in kernel.of_kind("", "i32", "i64") if "stride" not in n and not _REAL.fullmatch(_short(n))]
        if numbers == [name] or name not in numbers:
            return self._output, not kernel.by_row
        # Others stand for what is left, in order: the last dimension, then the whole numbers of the constructor.
        others = [n for n in numbers if not self._extent(_short(n), kernel)]
        left = [f"{self._main}.shape[{self._rank - 1}]"] if self._rank > 1 else []
        left += [f"init{i}" for i, value in self._signature.init.items() if isinstance(value, int)]
        return [*left, *[self._output] * len(others)][others.index(name)], False

    def _extent(self, short: str, kernel: UnplannedKernel) -> tuple[str, bool] | None:
        """Return the extent that a name stands for by custom, as rows, columns, or M, N and K of a product do."""
        tensors = self._names.tensors(self._signature)
        if {"m", "n", "k"} <= {_short(p.name) for p in kernel.parameters} and len(tensors) > 1 and self._rank == 2:
            a, b = tensors[:2]
            n = f"{b}.shape[{int(self._held[a].shape[-1:] == self._held[b].shape[:1])}]"
            found = {"m": f"{a}.shape[0]", "k": f"{a}.shape[1]", "n": n}.get(short)
            return (found, True) if found else None
        last = f"{self._main}.shape[{self._rank - 1}]"
        if self._rank > 1 and _ROWS.fullmatch(short):
            return (f"{self._main}.shape[0]", True) if self._rank == 2 else (f"numel({self._main}) // {last}", False)
        if self._rank > 1 and (_COLUMNS.fullmatch(short) or (short == "n" and kernel.by_row)):
            return last, short != "n"
        return None

    def _stride(self, name: str, kernel: UnplannedKernel) -> str:
        """Return the stride of a contiguous tensor; strides of one tensor stand in the order of its dimensions."""
        whose, pointers = _whose(name), kernel.of_kind("ptr")
        alike = [n for n in kernel.of_kind("", "i32", "i64") if "stride" in n.lower() and _whose(n) == whose]
        named = (p for p in pointers if _short(p).startswith(whose) or whose.startswith(_short(p)))
        buffer, _ = self._buffers[next(named, pointers[0])]
        rank = len(self._held[buffer].shape) if buffer in self._held else 1
        return " * ".join(f"{buffer}.shape[{i}]" for i in range(alike.index(name) + 1, rank)) or "1"

    def _bound(self, variables: Sequence[str], kernel: UnplannedKernel) -> str:
        """Return the expression for the number that one of the variables is kept below; "" where none is."""
        known = [*kernel.of_kind("", "i32", "i64"), *kernel.constants]
        for variable in variables:
            for name in re.findall(rf"\b{variable}\b(?:\[[^\]]*\])?\s*(?:<|>=)\s*(\w+)", kernel.body):
                if name in known:
                    return self._number(name, kernel)[0]
        return ""

    def _block(self, kernel: UnplannedKernel) -> Sequence[int | str]:
        """Return the threads of a CUDA block by axis: one where an axis is not used; none for Triton."""
        if self._language == "triton":
            return []
        if kernel.threads and "tid1" not in kernel.body:
            return [int(kernel.threads) if kernel.threads.isdigit() else kernel.threads.replace("/", "//")]
        each = 16 if "tid1" in kernel.body else 256
        threads: list[int | str] = []
        for axis in range(3):
            size: int | str = each
            if fixed := re.search(rf"\bpid{axis}\s*\*\s*(\w+)", kernel.body):
                if fixed[1].isdigit():
                    size = int(fixed[1])
                elif fixed[1] in self._tables["tunables"]:
                    size = fixed[1]
            threads.append(size if f"tid{axis}" in kernel.body else 1)
        return threads[: 1 + max((axis for axis in range(3) if threads[axis] != 1), default=0)]

    def _grid(self, kernel: UnplannedKernel, block: Sequence[int | str]) -> list[str]:
        """Return the grid: by axis a block for each tile below the bound of its index, else one for each row."""
        sizes = {f"BLOCK{axis}": str(n) for axis, n in enumerate(block)} | {str(n): str(n) for n in block}
        sizes |= {name: name for name in self._tables["tunables"]}
        rows, body, grid = self._number("rows", kernel)[0], kernel.body, list[str]()
        for axis in range(3):
            made = kernel.made_of(f"pid{axis}")
            names = "|".join(made)
            tile = re.search(rf"(\w+)\s*=\s*[^;\n=]*?(?:\b(?:{names})\s*\*\s*(\w+)|\b(\w+)\s*\*\s*(?:{names})\b)", body)
            size = sizes.get(tile[2] or tile[3]) if tile else None
            side = re.search(rf"\b(?:{names})\s*\*\s*(\w+)", body)
            if f"pid{axis}" not in body:
                grid.append("1")
            elif re.search(rf"\b(?:{names})\s*//", body) and (tiles := self._tiles(kernel)):
                grid.append(tiles)
            elif tile and size:
                grid.append(f"cdiv({self._bound(kernel.made_of(tile[1]), kernel) or self._output}, {size})")
            elif side and side[1] in self._tables["tunables"]:
                extents = {_short(p.name): p.name for p in kernel.parameters}
                extent = extents.get(_short(side[1]).removeprefix("block").removeprefix("b"))
                grid.append(f"cdiv({self._number(extent, kernel)[0] if extent else self._output}, {side[1]})")
            else:
                grid.append(self._bound(made, kernel) or rows)
        return grid[: 1 + max((axis for axis in range(3) if grid[axis] != "1"), default=0)]

    def _tiles(self, kernel: UnplannedKernel) -> str:
        """Return the tiles of a grid of one axis for two: those of M by BLOCK_M and N by BLOCK_N."""
        sizes = {_short(p.name): p.name for p in kernel.parameters}
        tiles = {_short(c).removeprefix("block").removeprefix("size"): c for c in kernel.constants}
        shared = [name for name in tiles if name in sizes and name != "k"]
        return " * ".join(f"cdiv({self._number(sizes[name], kernel)[0]}, {tiles[name]})" for name in shared)

    def _constant(self, name: str, kernel: UnplannedKernel) -> None:
        """Decide on a constexpr parameter: a tile to tune, one that holds a whole row, or a number of the task."""
        ranged = {c: re.search(rf"(?:(\w+)\s*=\s*[^\n]*)?\barange\(0, {c}\)", kernel.body) for c in kernel.constants}
        tunables, constants = self._tables["tunables"], self._tables["constants"]
        place = ranged[name]
        if place is None and "group" in name.lower():
            tunables[name] = "[8]"
        elif place is None:
            constants[name] = json.dumps(self._number(name, kernel)[0]) + _GUESS
        elif re.search(rf"\*\s*{name}\b|\b{name}\s*\*|\brange\([^\n]*\b{name}\b", kernel.body):
            small = "[32, 64]" if name.upper().endswith("K") else "[64, 32, 128]"
            tunables[name] = small if len([p for p in ranged.values() if p]) > 1 else "[1024, 512, 2048]"
        else:
            row = self._bound(kernel.made_of(place[1]), kernel) if place[1] else ""
            constants[name] = json.dumps(f"next_pow2({row or self._number('cols', kernel)[0]})") + _GUESS
